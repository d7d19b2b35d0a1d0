/** The work on an issue as git sees it: where it begins, which branch holds it, whether it grew, how it is merged. */
import { createHash, randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { readSmallText, realPath, removeQuietly } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Redact, redactor } from "../lib/secrets.ts";
import {
  filterWords,
  type Git,
  gitDirectoryOf,
  openGit,
  repositoriesOf,
  unfiltered,
  unfilteredIn,
} from "../run/git.ts";
import type { Deps } from "../run/run.ts";
import {
  commitWork,
  entriesOf,
  GATE,
  named,
  putBack,
  type CommitResult,
  type WorkToCommit,
} from "./commit.ts";
import { git, gitText } from "./repository.ts";
import type { Issue, IssueSource } from "./source.ts";

/** Branches and commits are pushed: a secret in a title stays out of them. */
const LOOKS_SECRET = redactor([]);
const MAX_SLUG = 40;
const MAX_SUBJECT = 200;
/** Of a title. Far more than is shown, so that a secret is seen whole where it is cut. */
const MOST_READ = 4_096;

/** `reprise/<id>-<slug>`: whatever a title says, git takes it for a branch. Another number where it is taken. */
export function branchFor(
  { id, title }: Pick<Issue, "id" | "title">,
  taken: ReadonlySet<string>,
  redact: Redact = LOOKS_SECRET,
): string {
  const slug = redact(title.slice(0, MOST_READ))
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, MAX_SLUG)
    .replace(/^-+|-+$/g, "");
  const name = `reprise/${id}-${slug === "" ? createHash("sha256").update(title).digest("hex").slice(0, 8) : slug}`;
  // To git a branch is a file, and one below it makes it a directory.
  const isFree = (wanted: string) =>
    !taken.has(wanted) && ![...taken].some((other) => other.startsWith(`${wanted}/`));
  if (isFree(name)) return name;
  for (let n = 2; ; n += 1) if (isFree(`${name}-${n}`)) return `${name}-${n}`;
}

/** The message of a commit: one line, whatever a title says. */
export function subjectFor({ id, title }: Pick<Issue, "id" | "title">, redact: Redact): string {
  const words = redact(title.slice(0, MOST_READ)).replace(/\s+/g, " ");
  return harmlessLine(`${id}: ${words}`, MAX_SUBJECT);
}

export async function ourBranches(deps: Deps, root: string): Promise<Set<string>> {
  const found = await gitText(deps, root, [
    "for-each-ref",
    "--format=%(refname:short)",
    "refs/heads/reprise",
  ]);
  return new Set((found ?? "").split("\n").filter((name) => name !== ""));
}

/** Those of them that are there and have a commit that the checkout lacks. */
export async function branchesToMerge(
  deps: Deps,
  root: string,
  branches: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const branch of branches) {
    const commit = await gitText(deps, root, [
      "rev-list",
      "-n",
      "1",
      `refs/heads/${branch}`,
      "--not",
      "HEAD",
      "--",
    ]);
    if (commit !== null && commit !== "") found.push(branch);
  }
  return found;
}

/** Null: no commit yet, or no repository. */
export function headCommit(deps: Deps, cwd: string): Promise<string | null> {
  return gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
}

interface Left {
  readonly cwd: string;
  /** The repository of the batch. */
  readonly root: string;
  /** The agent has a worktree. False: it works in the checkout itself. */
  readonly isolated: boolean;
  /** The commit that the work began from. Null: not known. */
  readonly baseline: string | null;
}

/**
 * What an agent left in git that shows that its work is not finished, or is on no branch: a clause without its full stop.
 * Null: nothing of the kind. Where the agent works in the checkout itself, nothing is committed for it, so only what git is
 * in the middle of counts.
 */
export async function unfinishedIn(deps: Deps, left: Left): Promise<string | null> {
  const { cwd, root, isolated } = left;
  if (isolated && !leadsTo(cwd, root))
    return "the worktree's .git does not lead to the repository any more, so no branch holds the work";
  if (deps.processes.resolveProgram("git", deps.env) === null) return null;
  const ask = await openGit(deps, cwd);
  return (await midOperation(ask)) ?? (isolated ? embeddedIn(deps, ask, left) : null);
}

/** The worktree is one of this repository, and its link is its own. */
function leadsTo(worktree: string, root: string): boolean {
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

/** What git keeps while it is in the middle of something. A rebase picks commits, so it is looked for first. */
const FOLDERS = { "rebase-merge": "a rebase", "rebase-apply": "a rebase or `git am`" } as const;
const HEADS = {
  MERGE_HEAD: "a merge",
  CHERRY_PICK_HEAD: "a cherry-pick",
  REVERT_HEAD: "a revert",
} as const;

async function midOperation(ask: Git): Promise<string | null> {
  const unmerged = await ask(["ls-files", "--unmerged", "-z"], { encoding: "latin1" });
  const paths = [...new Set(entriesOf(unmerged.stdout).map((entry) => entry.slice(entry.indexOf("\t") + 1)))];
  const conflicts =
    paths.length === 0 ? null : `${named(paths)} ${paths.length === 1 ? "has" : "have"} conflicts`;
  const operation = await operationOf(ask);
  return operation === null
    ? conflicts
    : [`${operation} is not finished`, ...(conflicts === null ? [] : [conflicts])].join(", and ");
}

async function operationOf(ask: Git): Promise<string | null> {
  const { code, stdout } = await ask(["rev-parse", "--absolute-git-dir"]);
  if (code !== 0) return null;
  const gitDir = stdout.replace(/\n$/, "");
  const isThere = (name: string) => realPath(join(gitDir, name)) !== null;
  for (const [name, operation] of Object.entries(FOLDERS)) if (isThere(name)) return operation;
  for (const [name, operation] of Object.entries(HEADS))
    if ((await ask(["rev-parse", "--verify", "--quiet", name])).code === 0) return operation;
  // Between two of its commits.
  return isThere("sequencer") ? "a cherry-pick or revert" : null;
}

/** A repository in the worktree is no more than the id of a commit to ours: what is in it would be on no branch. */
async function embeddedIn(deps: Deps, ask: Git, { cwd, baseline }: Left): Promise<string | null> {
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
    const [is, holds] =
      embedded.length === 1 ? ["is a repository", "it holds"] : ["are repositories", "they hold"];
    return `${named(embedded)} ${is} inside the worktree, and what ${holds} is on no branch`;
  }
  for (const path of links) {
    if (await isUnsent(deps, join(cwd, Buffer.from(path, "latin1").toString())))
      return `the submodule ${named([path])} has commits that none of its remote branches has`;
  }
  return null;
}

/** Paths of repositories that the work added, or moved to another commit. */
async function newLinks(ask: Git, baseline: string): Promise<readonly string[]> {
  const compare = ["diff-index", "--raw", "-z", "--no-renames", "--ignore-submodules=dirty", baseline];
  const fields = entriesOf((await ask(compare, { encoding: "latin1" })).stdout);
  return fields.filter(
    (_, at) => fields[at - 1]?.startsWith(":") && fields[at - 1]?.split(" ")[1] === "160000",
  );
}

/** Only a submodule that is checked out can have commits of the agent. */
async function isUnsent(deps: Deps, submodule: string): Promise<boolean> {
  if (realPath(join(submodule, ".git")) === null) return false;
  const own = ["rev-list", "--max-count=1", "HEAD", "--not", "--remotes", "--tags"];
  return (await gitText(deps, submodule, own)) !== "";
}

/** Afterwards all of the work is on its branch, if it has one; otherwise nothing is done and why not is told. */
export async function settleWork(
  deps: Deps,
  { branch, message, ...left }: Left & Pick<WorkToCommit, "branch" | "message">,
): Promise<CommitResult> {
  const why = await unfinishedIn(deps, left);
  if (why !== null || !left.isolated) return { left: why, notes: [] };
  return commitWork(deps, { worktree: left.cwd, branch, message });
}

/**
 * What the work amounts to, in one word that changes with it; null: git cannot tell. Issues themselves are no part of it:
 * what becomes of them is written there.
 */
export async function workIn(deps: Deps, cwd: string, isolated: boolean): Promise<string | null> {
  if (isolated) return gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]);
  const tree = await fingerprint(deps, cwd, [":(exclude)issues", ":(exclude).beads"]);
  return tree === null ? null : `${(await headCommit(deps, cwd)) ?? "unborn"} ${tree}`;
}

/** Of a commit, as `workIn` says it of a worktree. */
export function treeOf(deps: Deps, root: string, commit: string): Promise<string | null> {
  return gitText(deps, root, ["rev-parse", "--verify", "--quiet", `${commit}^{tree}`]);
}

/** Equal for equal files, whether they are committed or not; null: git cannot tell. */
export async function fingerprint(
  deps: Deps,
  cwd: string,
  except: readonly string[] = [],
): Promise<string | null> {
  const index = join(deps.state.root, `.tmp-${process.pid}-${randomBytes(6).toString("hex")}`);
  const options = { env: { GIT_INDEX_FILE: index } };
  try {
    const added = await git(deps, cwd, ["add", "-A", ".", ...except], options);
    if (added?.code !== 0) return null;
    const tree = await git(deps, cwd, ["write-tree"], options);
    return tree?.code === 0 ? tree.stdout.trim() : null;
  } finally {
    removeQuietly(index);
  }
}

/**
 * A gate may leave files in the worktree, and they are not the agent's work. `begins`: it runs next. `ended`: it has run.
 * `found`: it may have been killed, and no agent has worked since.
 */
export async function noteGate(deps: Deps, cwd: string, when: "begins" | "ended" | "found"): Promise<void> {
  // Another repository may be there by now, or nothing.
  if (gitDirectoryOf(cwd) === null) return;
  const ref = (name: string) => gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", name]);
  if (when === "found" && ((await ref(GATE.before)) === null || (await ref(GATE.after)) !== null)) return;
  const all = ["--untracked-files=normal", "--ignore-submodules=dirty"];
  const isClean = when !== "begins" && (await gitText(deps, cwd, ["status", "--porcelain", ...all])) === "";
  const after = when === "begins" ? null : isClean ? "HEAD^{tree}" : await fingerprint(deps, cwd);
  const stdin = [
    when === "begins" ? `update ${GATE.before} HEAD^{tree}` : "",
    after === null ? `delete ${GATE.after}` : `update ${GATE.after} ${after}`,
  ];
  await git(deps, cwd, ["update-ref", "--stdin"], { stdin: `${stdin.filter(Boolean).join("\n")}\n` });
}

/**
 * Agents tick boxes in the file of their own issue, where Reprise writes as well: git would refuse to merge the branch. So
 * the issue gets what its agent wrote, and the branch has the file as it was. What cannot be joined stays on the branch, and
 * that is told.
 */
export async function takeIssueFile(
  deps: Deps,
  source: IssueSource,
  { root, worktree, branch, id }: { root: string; worktree: string; branch: string; id: string },
): Promise<string | null> {
  const path = gitDirectoryOf(worktree) === null ? undefined : source.fileOf?.(id);
  const from = await gitText(deps, root, ["merge-base", "HEAD", branch]);
  if (path === undefined || source.join === undefined || from === null) return null;
  const blobs = ["rev-parse", "--verify", "--quiet"];
  const [was, now] = await Promise.all(
    [from, branch].map((commit) => gitText(deps, root, [...blobs, `${commit}:${path}`])),
  );
  if (was === now) return null;
  const told = `${path} differs on ${branch}: commit or stash your copy of it before you merge`;
  if (was === null || now === null || was === undefined || now === undefined) return told;
  const texts = await Promise.all([was, now].map((id_) => git(deps, root, ["cat-file", "blob", id_])));
  const [before = "", after = ""] = texts.map((text) => text?.stdout ?? "");
  if (!(await source.join(id, { was: before, now: after }))) return told;
  await putBack(deps, { worktree, branch, message: `${id}: leave ${path} to the batch` }, { path, from });
  return null;
}

const MAX_SAME = 2;

/** Notices the same files at several failing gates in a row. */
export class StuckCheck {
  #print: string | null = null;
  #same = 0;

  isStuck(print: string | null): boolean {
    this.#same = print !== null && print === this.#print ? this.#same + 1 : 0;
    this.#print = print;
    return this.#same >= MAX_SAME;
  }
}

/** One merge at a time: the agents of a batch share the checkout. */
export async function mergeInTurn(
  shop: { readonly deps: Deps; readonly root: string; merging: Promise<void> },
  branch: string,
): Promise<void> {
  const turn = shop.merging.then(() => mergeWork(shop.deps, shop.root, branch));
  shop.merging = turn.catch(() => {});
  await turn;
}

/** Into what is checked out at the top. A conflict is undone and said; a merge of the user's is left as it is. */
export async function mergeWork(deps: Deps, root: string, branch: string): Promise<void> {
  const isMerging = async () =>
    (await gitText(deps, root, ["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])) !== null;
  if (await isMerging())
    throw new Fault(
      "work_unsaved",
      `${branch} could not be merged: another merge is under way in ${root}. Finish it with \`git commit\`, or give it up with \`git merge --abort\`.`,
      { facts: { branch } },
    );
  await assertConverted(deps, root, branch);
  const merged = await git(deps, root, ["merge", "--no-ff", "--no-edit", "--quiet", branch]);
  if (merged?.code === 0) return;
  if (await isMerging()) await git(deps, root, ["merge", "--abort"]);
  const said = harmlessLine(`${merged?.stdout ?? ""} ${merged?.stderr ?? ""}`.trim(), 300);
  const why = said.replace(/\.$/, "");
  throw new Fault(
    "work_unsaved",
    `${branch} could not be merged: ${why}. Merge it yourself, in the repository: git merge ${branch}`,
    {
      facts: { branch },
    },
  );
}

/** A merge that Reprise makes would put the stored form of such files into the user's checkout. */
async function assertConverted(deps: Deps, root: string, branch: string): Promise<void> {
  const ask = await openGit(deps, root);
  const merged = async () =>
    entriesOf((await ask(["diff", "--name-only", "-z", `HEAD...${branch}`], { encoding: "latin1" })).stdout);
  const found = await unfiltered(ask, "smudge", merged);
  if (found === null) return;
  const { why, help } = filterWords(found);
  throw new Fault(
    "work_unsaved",
    `${branch} could not be merged: ${why}. ${help}; or merge it yourself, in the repository: git merge ${branch}`,
    { facts: { branch } },
  );
}

/** What no issue of a batch could be checked out without is said before one is claimed. */
export async function assertFilters(deps: Deps, root: string): Promise<void> {
  const found = await unfilteredIn(deps, await openGit(deps, root), "HEAD");
  if (found?.required !== true) return;
  const { why, help } = filterWords(found);
  throw new Fault(
    "cwd_invalid",
    `${why}: worktrees would have the stored form. ${help}, or work in the checkout as it is: --isolate none.`,
    { facts: { repository: root, filter: found.filter } },
  );
}
