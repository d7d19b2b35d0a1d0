/** What a batch puts on the branch of an issue: all of the agent's work, nothing else, and nothing on other branches. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ACTOR, type Result } from "../e2e/sandbox.ts";

/** What each agent does before it says that it is done. */
const SCRIPTS = {
  develop: "git checkout -q develop; echo w > w.txt",
  main: "git checkout -q --ignore-other-worktrees main; echo m > m.txt",
  committed: "git checkout -q other; echo c > c.txt; git add .; git commit -qm mine",
  hidden: "echo h > h.txt; git update-index --skip-worktree a; echo changed > a",
  secret: "mkdir secrets; echo newkey > secrets/b.env",
  gate: "date +%N > g.txt",
  ticks: "echo t > t.txt; sed -i 's/\\[ \\]/[x]/' issues/ticks.md",
} as const;
const IDS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

/** Leaves a file behind, and fails the first time. */
const GATE = `[ "$REPRISE_ISSUE" = gate ] || exit 0; echo "$TOKEN" > gate.log; [ -e "$HOME/second" ] || { touch "$HOME/second"; exit 1; }`;

describe("the branch of an issue", () => {
  const box = new IssueBox();
  afterAll(() => box[Symbol.dispose]());
  let result: Result;
  const branch = (id: string) => `reprise/${id}-issue-${id}`;
  const files = (ref: string) => box.git("ls-tree", "-r", "--name-only", ref).split("\n");

  beforeAll(async () => {
    writeFileSync(
      join(box.home, ".gitconfig"),
      "[user]\nname = Agent\nemail = agent@localhost\n[init]\ndefaultBranch = main\n",
    );
    for (const word of ["clean", "smudge"]) box.git("config", `filter.crypt.${word}`, "tr a-z n-za-m");
    box.git("config", "filter.crypt.required", "true");
    writeFileSync(join(box.cwd, ".gitattributes"), "secrets/** filter=crypt\n");
    writeFileSync(join(box.cwd, "a"), "a\n");
    for (const id of IDS) box.issue(id, "do it\n- [ ] first\n- [ ] second");
    box.gate(GATE);
    box.commit();
    for (const name of ["develop", "other"]) box.git("branch", name);
    const cases = IDS.map((id) => `${id}) ${SCRIPTS[id]};;`);
    box.program(
      "claude",
      `case " $* " in *" -p "*) (exec >/dev/null 2>&1; case $(git branch --show-current | sed 's,^reprise/,,; s,-.*,,') in
${cases.join("\n")}
esac);; esac
exec ${JSON.stringify(process.execPath)} ${JSON.stringify(ACTOR)} --as claude -- "$@"`,
    );
    result = await box.run(["issues", "run", "--engine", "claude", "--trust-cwd"], {
      env: { TOKEN: "Zq1xcanaryvalueW" },
    });
  }, 120_000);

  const entry = (id: string) => box.batches().at(-1)?.issues[id];

  test("holds the work of an agent that went to a branch of the user's, and that branch stays as it was", () => {
    expect(files(branch("develop"))).toContain("w.txt");
    expect(files(branch("main"))).toContain("m.txt");
    expect(box.git("log", "--format=%s", "main")).toBe("as it is");
    expect(box.git("log", "--format=%s", "develop")).toBe("as it is");
    expect(files("develop")).not.toContain("w.txt");
  });

  test("holds what the agent committed on a branch of the user's, and the batch names that branch", () => {
    expect(files(branch("committed"))).toContain("c.txt");
    expect(result.stdout).toContain("the agent itself committed on other");
  });

  test("holds changes that flags hide from git", () => {
    expect(box.git("show", `${branch("hidden")}:a`)).toBe("changed");
  });

  test("never holds in plain text what a filter of the repository must convert", () => {
    expect(files(branch("secret"))).not.toContain("secrets/b.env");
    expect(result.code).toBe(10);
    expect(entry("secret")).toMatchObject({ status: "failed" });
    expect(entry("secret")?.error).toContain("secrets/b.env needs the git filter crypt");
  });

  test("does not hold files that a failing gate left behind", () => {
    expect(entry("gate")).toMatchObject({ status: "completed" });
    expect(files(branch("gate"))).toContain("g.txt");
    expect(files(branch("gate"))).not.toContain("gate.log");
  });

  test("merges by the printed command although its agent ticked its own issue, whose ticks and notes all stay", () => {
    expect(entry("ticks")).toMatchObject({ status: "completed" });
    box.git("merge", "-q", "--no-edit", branch("ticks"));
    expect(readFileSync(join(box.cwd, "t.txt"), "utf8")).toBe("t\n");
    expect(box.text("ticks")).toMatch(
      /^status: closed$[^]*^- \[x\] first\n- \[x\] second$[^]*^> \*\*reprise\*\* /m,
    );
  });
});

test("a worktree whose files need a filter of the repository alone is not made", async () => {
  using box = new IssueBox();
  mkdirSync(join(box.cwd, "secrets"));
  writeFileSync(join(box.cwd, ".gitattributes"), "secrets/** filter=crypt\n");
  writeFileSync(join(box.cwd, "secrets/a.env"), "apikey\n");
  box.issue("one", "do it");
  box.commit();
  for (const word of ["clean", "smudge"]) box.git("config", `filter.crypt.${word}`, "cat");
  box.git("config", "filter.crypt.required", "true");
  const start = await box.run(["start", "demo", "x", "--isolate", "worktree"]);
  expect(start).toMatchObject({ code: 2 });
  expect(start.stderr).toContain("secrets/a.env needs the git filter crypt");
  const batch = await box.batch();
  expect(batch).toMatchObject({ code: 2 });
  expect(batch.stderr).toContain("secrets/a.env needs the git filter crypt");
  expect(box.statuses()).toEqual({ one: "open" });
  box.git("config", "filter.crypt.required", "false");
  const warned = await box.run(["start", "demo", "x", "--isolate", "worktree"]);
  expect(warned).toMatchObject({ code: 0 });
  expect(warned.stderr).toContain("secrets/a.env needs the git filter crypt");
}, 60_000);
