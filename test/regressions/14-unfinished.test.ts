/** What a batch does not take for finished work: git operations that have not ended, and work that no branch holds. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ACTOR, type Result } from "../e2e/sandbox.ts";

const STASH = "echo b > a; git stash -q; echo c > a; git commit -qam c; git stash pop";

/** What each agent does, and how the batch names it. `src/issues/git/unfinished.test.ts` has more of them. */
const LEFT = {
  stash: [STASH, "a has conflicts"],
  nested: [
    "mkdir -p deep/lib; cd deep/lib; git init -q; echo w > mine; git add .; git commit -qm mine",
    "deep/lib is a repository inside the worktree",
  ],
  replaced: [
    "rm -f .git; git init -q; echo w > mine; git add .; git commit -qm all",
    "no longer leads to the repository",
  ],
} as const;
const IDS = Object.keys(LEFT) as (keyof typeof LEFT)[];

/** Claude's turns begin with the script of their issue. */
function agents(box: IssueBox, scripts: Readonly<Record<string, string>>): void {
  const cases = Object.entries(scripts).map(([id, script]) => `${id}) ${script};;`);
  box.program(
    "claude",
    `case " $* " in *" -p "*) (exec >/dev/null 2>&1; case $(git branch --show-current | sed 's,^reprise/,,; s,-.*,,') in
${cases.join("\n")}
esac);; esac
exec ${JSON.stringify(process.execPath)} ${JSON.stringify(ACTOR)} --as claude -- "$@"`,
  );
}

function identity(box: IssueBox): void {
  writeFileSync(
    join(box.home, ".gitconfig"),
    "[user]\nname = Agent\nemail = agent@localhost\n[init]\ndefaultBranch = main\n",
  );
}

const batch = (box: IssueBox, ...args: string[]) =>
  box.run(["issues", "run", "--engine", "claude", "--trust-cwd", "--merge", ...args]);

describe("unfinished work of an agent in git", () => {
  const box = new IssueBox();
  afterAll(() => box[Symbol.dispose]());
  let result: Result;

  beforeAll(async () => {
    identity(box);
    writeFileSync(join(box.cwd, "a"), "a\n");
    for (const id of IDS) box.issue(id, "do it");
    box.commit();
    agents(box, Object.fromEntries(IDS.map((id) => [id, LEFT[id][0]])));
    result = await batch(box);
  }, 120_000);

  test.each(IDS)("%s: fails the issue with a list of the work left, and does not close it", (id) => {
    expect(result.code).toBe(10);
    const entry = box.batches().at(-1)?.issues[id];
    expect(entry?.error).toContain(LEFT[id][1]);
    expect(entry?.status).toBe("failed");
    expect(box.statuses()[id]).toBe("in_progress");
    expect(entry?.findings.join("\n")).toContain(LEFT[id][1]);
  });

  test("is neither committed for the agent nor merged", () => {
    expect(box.git("log", "--format=%s", "main")).toBe("as it is");
    expect(box.git("show", "reprise/stash-issue-stash:a")).toBe("c");
    expect(box.git("ls-tree", "-r", "--name-only", "reprise/nested-issue-nested")).not.toContain("deep");
  });

  test("is named to the agent by --resume, and the issue closes when it is finished", async () => {
    agents(box, {
      stash: "echo d > a; git add a",
      nested: "rm -rf deep/lib/.git",
    });
    const again = await batch(box, "--resume", "--scope", "ids:stash,nested");
    expect(again).toMatchObject({ code: 0 });
    const told = box
      .told()
      .slice(-2)
      .map(({ text }) => text);
    expect(told.toSorted().join("\n")).toMatch(/inside the worktree, and its content[^]*but a has conflicts/);
    expect(box.statuses()).toMatchObject({ stash: "closed", nested: "closed" });
    expect(box.git("show", "main:deep/lib/mine")).toBe("w");
    expect(box.git("show", "main:a")).toBe("d");
  }, 60_000);
});

test("an unresolved conflict in the checkout itself is not finished work", async () => {
  using box = new IssueBox();
  identity(box);
  writeFileSync(join(box.cwd, "a"), "a\n");
  box.issue("stash", "do it @@write:b");
  box.commit();
  agents(box, { main: STASH });
  const args = ["issues", "run", "--engine", "claude", "--trust-cwd", "--isolate", "none"];
  const result = await box.run(args);
  expect(result).toMatchObject({ code: 10 });
  expect(result.stdout).toMatch(/^stash +failed .*a has conflicts/m);
  expect(box.statuses()).toEqual({ stash: "in_progress" });
}, 60_000);
