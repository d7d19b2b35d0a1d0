/** Variables that name a repository (GIT_DIR and the like) do not lead an isolated agent back to the user's own checkout. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ACTOR } from "../e2e/sandbox.ts";

let box: IssueBox;
let seen: string;
/** As git sets them for an alias in a linked worktree, or for a hook. */
let inherited: Record<string, string>;

beforeAll(() => {
  box = new IssueBox();
  seen = join(box.root, "seen");
  inherited = {
    GIT_DIR: join(box.cwd, ".git"),
    GIT_WORK_TREE: box.cwd,
    GIT_INDEX_FILE: join(box.cwd, ".git/index"),
    GIT_PREFIX: "",
    GIT_AUTHOR_NAME: "Somebody",
  };
  const demo = `exec ${JSON.stringify(process.execPath)} ${JSON.stringify(ACTOR)}`;
  const note = (who: string) => `env | sed -n 's/^\\(GIT_[A-Z_]*\\)=.*/${who} \\1/p' >> ${seen}`;
  box.program(
    "codex",
    `case "$*" in *--version*) ;; *) ${note("agent")}; git commit -q --allow-empty -m by-the-agent;; esac\n${demo} --as codex -- "$@"`,
  );
  box.gate(note("gate"));
  box.issue("one", "do it @@write:a.txt");
  box.commit();
});
afterAll(() => box[Symbol.dispose]());

function variables(): string[] {
  const lines = existsSync(seen) ? readFileSync(seen, "utf8").split("\n").filter(Boolean) : [];
  rmSync(seen, { force: true });
  return lines.toSorted();
}

test("an agent and a gate of a batch commit in the issue's worktree, whatever GIT_DIR says", async () => {
  const args = ["issues", "run", "--engine", "codex", "--trust-cwd"];
  const done = await box.run(args, { env: inherited });
  expect(done).toMatchObject({ code: 0 });
  expect(variables()).toEqual(["agent GIT_AUTHOR_NAME", "gate GIT_AUTHOR_NAME"]);
  expect(box.git("log", "--format=%s", "main")).toBe("as it is");
  expect(box.git("log", "--format=%s", "reprise/one-issue-one")).toContain("by-the-agent");
}, 60_000);

test("an isolated run keeps only the repository variables that were given to it, at the start and at a resume", async () => {
  const options = ["--isolate", "worktree", "--env", "GIT_NAMESPACE=mine"];
  const { handle } = await box.json(["start", "codex", "hello", ...options], { env: inherited });
  const own = ["agent GIT_AUTHOR_NAME", "agent GIT_NAMESPACE"];
  expect(variables()).toEqual(own);
  await box.json(["resume", handle, "again"], { env: inherited });
  expect(variables()).toEqual(own);
  expect(box.git("log", "--format=%s", "main")).toBe("as it is");
}, 60_000);

test("a run in the user's own directory has the user's environment", async () => {
  await box.json(["start", "codex", "hello"], { env: { GIT_NAMESPACE: "mine" } });
  expect(variables()).toEqual(["agent GIT_NAMESPACE"]);
}, 60_000);
