/** What an agent left in git that shows that its work is not finished. Reads only. */
import { join, resolve } from "node:path";
import { readSmallText, realPath } from "../../state/places.ts";
import { heldByWorktree } from "../../run/clean.ts";
import { type Git, gitDirectoryOf, openGit, repositoriesOf } from "../../run/git.ts";
import type { Deps } from "../../run/run.ts";
import { gitText } from "../repository.ts";
import { entriesOf, namedPaths } from "./paths.ts";

export interface AgentWork {
  readonly cwd: string;
  /** The repository of the batch. */
  readonly root: string;
  /** The agent has a worktree. False: it works in the checkout itself. */
  readonly isolated: boolean;
  /** The commit that the work began from. Null: unknown. */
  readonly baseline: string | null;
}

/**
 * Why the work is not finished or is on no branch: a clause without a full stop. Null: finished. In a checkout, Reprise
 * commits nothing, so only unfinished git operations count.
 */
export async function unfinishedWork(deps: Deps, left: AgentWork): Promise<string | null> {
  const { cwd, root, isolated } = left;
  if (isolated && !isWorktreeOf(cwd, root))
    return "the worktree's .git no longer leads to the repository, so no branch holds the work";
  if (deps.processes.resolveProgram("git", deps.env) === null) return null;
  const ask = await openGit(deps, cwd);
  const operation = await unfinishedOperation(ask);
  if (operation !== null || !isolated) return operation;
  return (await nestedRepositories(deps, ask, left)) ?? heldByWorktree(deps, cwd);
}

/** The worktree belongs to this repository, and its `.git` leads back to it. */
function isWorktreeOf(worktree: string, root: string): boolean {
  const gitDir = gitDirectoryOf(worktree);
  if (gitDir === null) return false;
  const [, common = null] = repositoriesOf(root);
  const link = readSmallText(join(gitDir, "commondir"))?.trim() ?? "";
  const back = readSmallText(join(gitDir, "gitdir"))?.trim() ?? "";
  return (
    common !== null &&
    realPath(resolve(gitDir, link)) === common &&
    realPath(resolve(gitDir, back)) === realPath(join(worktree, ".git"))
  );
}

/** Traces of unfinished operations. A rebase also picks commits, so it comes first. */
const FOLDERS = { "rebase-merge": "a rebase", "rebase-apply": "a rebase or `git am`" } as const;
const HEADS = {
  MERGE_HEAD: "a merge",
  CHERRY_PICK_HEAD: "a cherry-pick",
  REVERT_HEAD: "a revert",
} as const;

async function unfinishedOperation(ask: Git): Promise<string | null> {
  const unmerged = await ask(["ls-files", "--unmerged", "-z"], { encoding: "latin1" });
  const paths = [...new Set(entriesOf(unmerged.stdout).map((entry) => entry.slice(entry.indexOf("\t") + 1)))];
  const conflicts =
    paths.length === 0 ? null : `${namedPaths(paths)} ${paths.length === 1 ? "has" : "have"} conflicts`;
  const operation = await operationOf(ask);
  return operation === null
    ? conflicts
    : [`${operation} is not finished`, ...(conflicts === null ? [] : [conflicts])].join(", and ");
}

/** An operation of the user, such as "a rebase", that a merge would disturb. */
export async function operationInCheckout(ask: Git): Promise<string | null> {
  const operation = await operationOf(ask);
  if (operation !== null) return operation;
  const gitDir = await gitDirOf(ask);
  return gitDir !== null && realPath(join(gitDir, "BISECT_LOG")) !== null ? "a bisect" : null;
}

async function operationOf(ask: Git): Promise<string | null> {
  const gitDir = await gitDirOf(ask);
  if (gitDir === null) return null;
  const isThere = (name: string) => realPath(join(gitDir, name)) !== null;
  for (const [name, operation] of Object.entries(FOLDERS)) if (isThere(name)) return operation;
  for (const [name, operation] of Object.entries(HEADS))
    if ((await ask(["rev-parse", "--verify", "--quiet", name])).code === 0) return operation;
  // Between two commits of a sequence.
  return isThere("sequencer") ? "a cherry-pick or revert" : null;
}

async function gitDirOf(ask: Git): Promise<string | null> {
  const { code, stdout } = await ask(["rev-parse", "--absolute-git-dir"]);
  return code === 0 ? stdout.replace(/\n$/, "") : null;
}

/** Git stores only the commit id of a nested repository, so its content would be on no branch. */
async function nestedRepositories(
  deps: Deps,
  ask: Git,
  { cwd, baseline }: AgentWork,
): Promise<string | null> {
  const bytes = { encoding: "latin1" } as const;
  const others = await ask(["ls-files", "--others", "--exclude-standard", "-z"], bytes);
  const untracked = entriesOf(others.stdout).filter((path) => path.endsWith("/"));
  const modules = await ask(["config", "--file", ".gitmodules", "-z", "--get-regexp", "\\.path$"], bytes);
  const known = new Set(entriesOf(modules.stdout).map((entry) => entry.slice(entry.indexOf("\n") + 1)));
  const links = baseline === null ? [] : await newLinks(ask, baseline);
  const embedded = [
    ...untracked.map((path) => path.slice(0, -1)),
    ...links.filter((path) => !known.has(path)),
  ];
  if (embedded.length > 0) {
    const [is, whose] = embedded.length === 1 ? ["is a repository", "its"] : ["are repositories", "their"];
    return `${namedPaths(embedded)} ${is} inside the worktree, and ${whose} content is on no branch`;
  }
  for (const path of links) {
    if (await hasUnpushedCommits(deps, join(cwd, Buffer.from(path, "latin1").toString())))
      return `the submodule ${namedPaths([path])} has commits that none of its remote branches has`;
  }
  return null;
}

/** Paths of nested repositories that the work added or moved to another commit. */
async function newLinks(ask: Git, baseline: string): Promise<readonly string[]> {
  const compare = ["diff-index", "--raw", "-z", "--no-renames", "--ignore-submodules=dirty", baseline];
  const fields = entriesOf((await ask(compare, { encoding: "latin1" })).stdout);
  return fields.filter(
    (_, at) => fields[at - 1]?.startsWith(":") && fields[at - 1]?.split(" ")[1] === "160000",
  );
}

/** Only a checked-out submodule can have commits of the agent. */
async function hasUnpushedCommits(deps: Deps, submodule: string): Promise<boolean> {
  if (realPath(join(submodule, ".git")) === null) return false;
  const own = ["rev-list", "--max-count=1", "HEAD", "--not", "--remotes", "--tags"];
  return (await gitText(deps, submodule, own)) !== "";
}
