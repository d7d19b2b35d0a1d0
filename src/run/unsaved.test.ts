/** Work that repositories below ignored paths, modes and names that are not UTF-8 hide. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { gitOf, type Ground, makeRepository, SAVED, type Way, WAYS } from "../../test/hostile/hidden-work.ts";
import { createRunDir, saveRunFile } from "../state/runs.ts";
import type { RunRecord } from "../core/records.ts";
import { runLike } from "../../test/contracts/store-samples.ts";
import type { Deps } from "./deps.ts";
import { workAtRisk } from "./unsaved.ts";

let root: string;
let deps: Deps;
let repository: string;
let git: Ground["git"];
let runs = 0;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-unsaved-"));
  deps = await testDeps(root);
  git = gitOf(root);
  repository = makeRepository(root, git);
});
afterAll(() => rmSync(root, { recursive: true }));

/** Branches that a way has made as links to files of the worktree. */
function linkedBranches(): readonly string[] {
  const heads = join(repository, ".git/refs/heads");
  return readdirSync(heads, { withFileTypes: true })
    .filter((entry) => entry.isSymbolicLink())
    .map(({ name }) => join(heads, name));
}

/** The message about a worktree with such work in it. */
async function judge({ hide }: Way): Promise<string | null> {
  runs += 1;
  const like = runLike(runs, { agentName: "demo", status: "completed" });
  const runDirectory = createRunDir(deps.state, like.runId) ?? "";
  const tree = join(runDirectory, "worktree");
  const launch = { ...like.launch, isolate: "worktree" } as const;
  const run: RunRecord = { ...like, runDirectory, cwd: tree, launch, createdAt: new Date().toISOString() };
  saveRunFile(run);
  git(repository, "worktree", "add", "-q", "--detach", tree, "main");
  hide({ repository, tree, git });
  try {
    return await workAtRisk(deps, run);
  } finally {
    // Some of the ways are settings of the repository.
    git(repository, "config", "core.fileMode", "true");
    git(repository, "config", "core.ignoreCase", "false");
    git(repository, "config", "core.logAllRefUpdates", "true");
    for (const link of linkedBranches()) rmSync(link);
    rmSync(join(repository, ".git/config.worktree"), { force: true });
    git(repository, "worktree", "remove", "--force", "--force", tree);
  }
}

/** One of each kind. P15 tries all of them. */
const HERE = [
  "a file beside the worktree",
  "a worktree beside the worktree, with a new file",
  "a commit in a repository from which its remote borrows objects below an ignored folder",
  "a new folder behind a .gitignore in it that names itself",
  "a new file in a committed folder behind a .gitignore that names itself",
  "a new folder in a folder behind a .gitignore that names itself",
  "a new folder that .git/info/exclude names beside a .gitignore that names itself",
  "a new folder behind core.ignoreCase=true and a rule in small letters",
  "a file in what git keeps for the worktree",
  "a commit on a branch that is a symbolic ref to the worktree's HEAD",
  "a commit on a branch that is a symbolic ref to a ref of the worktree",
  "a commit on a branch that is a symbolic ref to the worktree's HEAD, named from outside",
  "a commit on a branch whose file is a link to the worktree's HEAD",
  "a commit in a submodule that was deinitialized",
  "a commit in a submodule that was removed",
  "a staged file in a submodule that was deinitialized",
  "a commit in a submodule of a clone that was deinitialized below an ignored folder",
  "a large file of a clone below an ignored folder",
  "a merge that HEAD has left and that is called like a stash, without reflogs",
  "a submodule as it was, deinitialized",
  "a commit on a branch beside a symbolic ref to it",
  "a stash of untracked files that was given back in the main checkout",
  "a cache with its tag and its own .gitignore",
  "a Python environment with its own .gitignore",
  "what a committed .gitignore names in a folder beside nothing else",
  "an executable bit behind core.fileMode=false",
  "a deleted file whose name is not UTF-8, and another one in its place",
  "a commit in a clone below an ignored folder",
  "a stash in a clone below an ignored folder",
  "a new file in a worktree below an ignored folder",
  "the repository of a worktree elsewhere below an ignored folder",
  "a commit in a bare repository below an ignored folder",
  "nothing was changed",
  "core.fileMode=false, and no mode was changed",
  "a clone as it was below an ignored folder",
  "a shallow clone of a tag below an ignored folder",
  "a .git that leads nowhere below an ignored folder",
];
const isHere = ({ name }: Way) => HERE.includes(name);

test("every name belongs to a way of losing work", () => {
  expect([...WAYS, ...SAVED].filter(isHere)).toHaveLength(HERE.length);
});

describe("work that would be lost", () => {
  test.each(WAYS.filter(isHere))("$name", async (way) => {
    expect(await judge(way)).toEqual(expect.any(String));
  });
});

describe("nothing would be lost with", () => {
  test.each(SAVED.filter(isHere))("$name", async (way) => {
    expect(await judge(way)).toBeNull();
  });
});
