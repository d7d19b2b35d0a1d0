/** What a batch calls finished outlives the worktree: commits of submodules and the branch itself. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ACTOR } from "../e2e/sandbox.ts";

const SUBMODULE =
  "git -c protocol.file.allow=always submodule --quiet update --init; cd sub; git checkout -q -b t";
const COMMIT = "echo m > m; git add m; git commit -qm m";

/** What each agent does before it says that it is done. */
const SCRIPTS = {
  deinit: `${SUBMODULE}; ${COMMIT}; cd ..; git submodule --quiet deinit -f sub; echo w > w.txt`,
  back: `${SUBMODULE}; ${COMMIT}; git checkout -q -; cd ..; echo w > w.txt`,
  symref:
    "b=$(git symbolic-ref HEAD); git update-ref refs/worktree/k HEAD; git checkout -q --detach; git update-ref -d $b; git symbolic-ref $b refs/worktree/k; git symbolic-ref HEAD $b; echo w > w.txt; git add w.txt; git commit -qm w",
  link: "b=$(git symbolic-ref HEAD); g=$(git rev-parse --absolute-git-dir); echo w > w.txt; git add w.txt; git commit -qm w; git rev-parse HEAD > $g/OWN_HEAD; ln -sf $g/OWN_HEAD $g/../../$b",
  plain: `${SUBMODULE}; git checkout -q -; cd ..; git submodule --quiet deinit -f sub; echo w > w.txt`,
} as const;
const IDS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

describe("a batch", () => {
  const box = new IssueBox();
  afterAll(() => box[Symbol.dispose]());
  const entry = (id: string) => box.batches().at(-1)?.issues[id];

  beforeAll(async () => {
    writeFileSync(
      join(box.home, ".gitconfig"),
      "[user]\nname = Agent\nemail = agent@localhost\n[init]\ndefaultBranch = main\n",
    );
    const remote = join(box.root, "remote");
    mkdirSync(remote);
    box.git("-C", remote, "init", "-q");
    box.git("-C", remote, "commit", "-q", "--allow-empty", "-m", "one");
    box.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", remote, "sub");
    for (const id of IDS) box.issue(id, "do it");
    box.commit();
    const cases = IDS.map((id) => `${id}) ${SCRIPTS[id]};;`);
    box.program(
      "claude",
      `case " $* " in *" -p "*) (exec >/dev/null 2>&1; case $(git branch --show-current | sed 's,^reprise/,,; s,-.*,,') in
${cases.join("\n")}
esac);; esac
exec ${JSON.stringify(process.execPath)} ${JSON.stringify(ACTOR)} --as claude -- "$@"`,
    );
    await box.run(["issues", "run", "--engine", "claude", "--trust-cwd"]);
  }, 120_000);

  test.each(["deinit", "back"])(
    "does not complete an issue whose submodule has commits that nothing else has (%s)",
    (id) => {
      expect(entry(id)).toMatchObject({ status: "failed" });
      expect(entry(id)?.error).toMatch(/commits in \S+\/modules\/sub are nowhere else/);
    },
  );

  test("completes an issue whose submodule has no commits of the agent", () => {
    expect(entry("plain")).toMatchObject({ status: "completed" });
  });

  test("makes a branch that the agent turned into a symbolic ref a real one with the work", async () => {
    expect(entry("symref")).toMatchObject({ status: "completed" });
    const branch = entry("symref")?.branch ?? "";
    expect(await box.run(["rm", entry("symref")?.handle ?? ""])).toMatchObject({ code: 0 });
    expect(box.git("for-each-ref", "--format=%(symref)", `refs/heads/${branch}`)).toBe("");
    expect(box.git("show", `${branch}:w.txt`)).toBe("w");
  });

  test("does not complete an issue whose branch is a link into the worktree's git directory", () => {
    expect(entry("link")).toMatchObject({ status: "failed" });
    expect(entry("link")?.error).toContain("points into the directory to remove");
  });
});
