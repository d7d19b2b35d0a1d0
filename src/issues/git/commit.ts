/**
 * Commits the work on an issue, on its branch only. Goes by the files, whatever flags and settings the agent left in its
 * worktree. Reports work that it cannot commit safely.
 */
import { isUtf8 } from "node:buffer";
import { realPath } from "../../state/places.ts";
import { kindAt } from "../../state/tree.ts";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { filterWords, type Git, gitDirectoryOf, openGit, repositoriesOf, unfiltered } from "../../run/git.ts";
import type { Deps } from "../../run/run.ts";
import { git as gitIn, gitText } from "../repository.ts";
import type { IssueSource } from "../sources/source.ts";
import { clearFlags, hiddenFiles, movedByAgent } from "./hidden-files.ts";
import { BYTES, entriesOf, is, namedPaths } from "./paths.ts";
import { GATE_REFS } from "./snapshot.ts";
import { type AgentWork, unfinishedWork } from "./unfinished.ts";
import {
  type CommitRefusal,
  type CommitResult,
  runWithLockRetry,
  shortOf,
  textOf,
  withoutHidingSettings,
  type WorktreeState,
  worktreeState,
  type WorkToCommit,
} from "./worktree.ts";

const NOBODY = /tell me who you are|ident/i;

/** Commits finished work on its branch. Otherwise does nothing and returns why. */
export async function settleWork(
  deps: Deps,
  { branch, message, ...left }: AgentWork & Pick<WorkToCommit, "branch" | "message">,
): Promise<CommitResult> {
  const why = await unfinishedWork(deps, left);
  if (why !== null || !left.isolated) return { left: why, notes: [] };
  return commitWork(deps, { worktree: left.cwd, branch, message });
}

/** Puts uncommitted work, and commits on other branches, on the issue's branch. */
export async function commitWork(deps: Deps, work: WorkToCommit): Promise<CommitResult> {
  const { worktree } = work;
  const opened = await openGit(deps, worktree);
  const git = withoutHidingSettings(opened, worktree);
  const place = await worktreeState(git, work);
  const notes = await movedByAgent(git, place);
  const reason =
    (await clearFlags(git, place)) ??
    (await missingFilter(opened, git, place)) ??
    (await wrongBranch(git, place)) ??
    (await commitOnBranch(git, place, work)) ??
    (await lostWithWorktree(deps, git, place));
  if (reason !== null) return { ...reason, notes };
  const hidden = await hiddenFiles(git, place);
  return { ...hidden, notes: [...notes, ...hidden.notes] };
}

function whereOf({ on }: WorktreeState): string {
  return on === null ? "no branch" : `the branch ${shortOf(on)}`;
}

/** The command for an agent that left its branch. */
function goBack({ ref, worktree }: WorktreeState): Pick<CommitResult, "help"> {
  return { help: `To go back: git -C ${worktree} switch ${shortOf(ref)}` };
}

/** Why the worktree's present branch prevents a commit. Null: it does not. Never moves another branch. */
async function wrongBranch(git: Git, place: WorktreeState): Promise<CommitRefusal | null> {
  const { ref, tip, on, head, worktree, bornMs } = place;
  if (on === ref) return null;
  const where = `the worktree is on ${whereOf(place)}`;
  if (ref === "HEAD") return { left: `${where}, which is not the issue's` };
  if (head === null) return { left: `${where}, which has no commit`, ...goBack(place) };
  const elsewhere = await textOf(git, ["for-each-ref", "--format=%(worktreepath)", ref]);
  if (elsewhere !== null && elsewhere !== "" && realPath(elsewhere) !== realPath(worktree))
    return {
      left: `${where}, and ${shortOf(ref)} is checked out in ${harmlessLine(elsewhere, 300)}`,
      help: "Switch that checkout to another branch",
    };
  if (tip === null || tip === head) return null;
  const grew = (await git(["merge-base", "--is-ancestor", tip, head])).code === 0;
  // Reprise may have been killed after it committed and before it switched back.
  if (!grew)
    return (await hasFilesOf(git, place, tip))
      ? null
      : { left: `${where}, without what was committed on ${shortOf(ref)}`, ...goBack(place) };
  const before = [`--before=@${Math.floor(bornMs / 1_000) - 1}`, `${tip}..${head}`];
  const one = ["rev-list", "--first-parent", "--max-count=1", "--abbrev-commit"];
  const older = await textOf(git, [...one, ...before]);
  if (older === "" || older === null) return null;
  const what = `which has commits from before the work, such as ${older}, that ${shortOf(ref)} lacks`;
  return { left: `${where}, ${what}`, ...goBack(place) };
}

/** The files equal those of the commit. */
async function hasFilesOf(git: Git, { worktree }: WorktreeState, commit: string): Promise<boolean> {
  await runWithLockRetry(git, worktree, ["add", "-A"]);
  return (await textOf(git, ["write-tree"])) === (await textOf(git, ["rev-parse", `${commit}^{tree}`]));
}

/** Without its filter, which Reprise does not run, git would store a file as plain text. */
async function missingFilter(
  opened: Git,
  git: Git,
  { worktree }: WorktreeState,
): Promise<CommitRefusal | null> {
  const options = ["--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"];
  const changed = async () => {
    const { stdout } = await git(["status", "--porcelain", "-z", ...options], BYTES);
    return entriesOf(stdout).flatMap((entry) => (/^.[ D]/.test(entry) ? [] : [entry.slice(3)]));
  };
  const found = await unfiltered(opened, "clean", changed);
  if (found === null) return null;
  const { why, help } = filterWords(found);
  return {
    left: `${why}, and without it would commit plain text`,
    help: `${help}; or commit it yourself: git -C ${worktree} add -A && git -C ${worktree} commit`,
  };
}

/** Null: the files are on the branch, and so is the worktree. Otherwise nothing was committed. */
async function commitOnBranch(
  git: Git,
  place: WorktreeState,
  { message }: WorkToCommit,
): Promise<CommitRefusal | null> {
  const { worktree, ref, tip, on, head } = place;
  await runWithLockRetry(git, worktree, ["add", "-A"]);
  // A symbolic ref may lead to a ref that only this worktree has.
  const isSymbolic = ref !== "HEAD" && (await git(["symbolic-ref", "--quiet", ref])).code === 0;
  if (isSymbolic && tip !== null) await moveBranch(git, place, tip);
  const isAhead = on !== ref && tip !== null && head !== null && tip !== head;
  const grew = !isAhead || (await git(["merge-base", "--is-ancestor", tip, head])).code === 0;
  const parent = on === ref || !grew ? tip : head;
  const all = parent === null ? null : await differences(git, ["diff-index", "--cached", parent]);
  const since = all === null ? null : await withoutGate(git, worktree, all);
  const links = (since ?? [])
    .filter(({ path, now }) => isFalseLink(worktree, path, now))
    .map(({ path }) => path);
  if (links.length > 0)
    return {
      left: `${namedPaths(links)} ${is(links)} not a link, and core.symlinks=false makes git store ${is(links, "it as one", "them as links")}`,
    };
  if (since === null || since.length > 0) {
    const tree = await runWithLockRetry(git, worktree, ["write-tree"]);
    const made = await commitOf(git, worktree, [tree, ...(parent === null ? [] : ["-p", parent])], message);
    await moveBranch(git, place, made);
  } else if (parent !== null && parent !== tip) await moveBranch(git, place, parent);
  if (on !== ref)
    await runWithLockRetry(git, worktree, [
      "symbolic-ref",
      "-m",
      "reprise: back to the issue's branch",
      "HEAD",
      ref,
    ]);
  return null;
}

/** The branch must have the work in the repository itself, without what git keeps for this worktree alone. */
async function lostWithWorktree(
  deps: Deps,
  git: Git,
  { worktree, ref }: WorktreeState,
): Promise<CommitRefusal | null> {
  if (ref === "HEAD") return null;
  const [, common = null] = repositoriesOf(worktree);
  const head = await textOf(git, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
  const asked = ["for-each-ref", "--format=%(objectname) %(symref)", ref];
  const outside =
    common === null ? null : await textOf(await openGit(deps, common, { GIT_DIR: common }), asked);
  if (head !== null && outside === `${head} `) return null;
  return { left: `${shortOf(ref)} has the work only as long as the worktree exists` };
}

async function moveBranch(git: Git, { worktree, ref, tip }: WorktreeState, commit: string): Promise<void> {
  const update = ["update-ref", "-m", "reprise: the agent's work", "--no-deref", ref, commit, tip ?? ""];
  await runWithLockRetry(git, worktree, update);
}

/** The message goes through stdin: every user can read arguments, and a title may hold a secret. */
async function commitOf(
  git: Git,
  worktree: string,
  what: readonly string[],
  message: string,
): Promise<string> {
  const commit = ["commit-tree", ...what];
  const stdin = `${message}\n`;
  const made = await runWithLockRetry(git, worktree, commit, { stdin, expected: [NOBODY] });
  if (made !== null) return made;
  const us = ["-c", "user.name=Reprise", "-c", "user.email=reprise@localhost"];
  return runWithLockRetry(git, worktree, [...us, ...commit], { stdin });
}

/** Restores a file on the branch from a commit, with a separate commit. */
export async function restoreFile(
  deps: Deps,
  work: WorkToCommit,
  file: { readonly path: string; readonly from: string },
): Promise<void> {
  const { worktree, message } = work;
  const git = withoutHidingSettings(await openGit(deps, worktree), worktree);
  const place = await worktreeState(git, work);
  if (place.on !== place.ref || place.tip === null)
    throw new Fault("work_unsaved", `${worktree} is no longer on ${shortOf(place.ref)}.`, {
      facts: { worktree },
    });
  await runWithLockRetry(git, worktree, ["checkout", "--quiet", file.from, "--", file.path]);
  const tree = await runWithLockRetry(git, worktree, ["write-tree"]);
  await moveBranch(git, place, await commitOf(git, worktree, [tree, "-p", place.tip], message));
}

interface Difference {
  /** One character per byte. */
  readonly path: string;
  /** Mode and id, as `update-index --index-info` takes them. */
  readonly was: string;
  readonly now: string;
}

async function differences(git: Git, args: readonly string[]): Promise<readonly Difference[]> {
  const [command = "", ...rest] = args;
  const options = ["--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty"];
  const fields = entriesOf((await git([command, ...options, ...rest], BYTES)).stdout);
  return fields.flatMap((field, at) => {
    const [, was, now, wasId, nowId] = /^:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) /.exec(field) ?? [];
    const path = fields[at + 1];
    if (was === undefined || path === undefined) return [];
    return [{ path, was: `${was} ${wasId}`, now: `${now} ${nowId}` }];
  });
}

/** Excludes files that a gate wrote and the agent has not changed since. They stay in the worktree. */
async function withoutGate(
  git: Git,
  worktree: string,
  all: readonly Difference[],
): Promise<readonly Difference[]> {
  if (all.length === 0) return all;
  const byGate = await differences(git, ["diff-tree", "-r", GATE_REFS.before, GATE_REFS.after]);
  const left = new Map(byGate.map(({ path, now }) => [path, now]));
  const same = all.filter(({ path, now }) => left.get(path) === now && isUtf8(Buffer.from(path, "latin1")));
  const lines = same.map(({ path, was }) => `${was}\t${Buffer.from(path, "latin1").toString()}\0`);
  const stdin = lines.join("");
  if (same.length > 0)
    await runWithLockRetry(git, worktree, ["update-index", "-z", "--index-info"], { stdin });
  return all.filter((one) => !same.includes(one));
}

const isFalseLink = (worktree: string, path: string, now: string) =>
  now.startsWith("120000 ") && kindAt(worktree, path) !== "link";

/**
 * Agents tick boxes in the file of their issue, where Reprise writes as well, so git would refuse to merge the branch.
 * Moves the agent's edits to the source and restores the file on the branch. Edits that conflict stay on the branch, and
 * the returned text says so.
 */
export async function moveIssueFileEdits(
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
  const conflict = `${path} differs on ${branch}: commit or stash your copy of it before you merge`;
  if (was === null || now === null || was === undefined || now === undefined) return conflict;
  const texts = await Promise.all([was, now].map((id_) => gitIn(deps, root, ["cat-file", "blob", id_])));
  const [before = "", after = ""] = texts.map((text) => text?.stdout ?? "");
  if (!(await source.join(id, { was: before, now: after }))) return conflict;
  await restoreFile(deps, { worktree, branch, message: `${id}: leave ${path} to the batch` }, { path, from });
  return null;
}
