/**
 * What git keeps for a worktree in the trash. Git's directory for it stays in the repository, where git protects its HEAD,
 * index and reflogs from `git gc`. It leads to the trash, is locked against `git worktree prune`, and holds no branch.
 */
import { chmodSync, closeSync, fsyncSync, openSync, renameSync, statSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { removeQuietly, storageFault, syncDirectory } from "../../state/files.ts";
import { assertNoMounts } from "../../state/mounts.ts";
import { readSmallText, realPath } from "../../state/places.ts";
import type { Deps } from "../deps.ts";
import { type Git, gitDirectoryOf, leadsBack, MOST_LISTED, openGit } from "../git.ts";
import { linesOf, OUTSIDE, ownIds, refsIn } from "../unsaved-commits.ts";

export interface GitRecord {
  /** Git's directory for this worktree alone. */
  readonly gitDir: string;
  /** The repository. */
  readonly common: string;
}

/** Of a worktree at its place. Null: nothing proves that git's directory belongs to it. */
export function recordAt(deps: Deps, tree: string): GitRecord | null {
  const gitDir = gitDirectoryOf(tree);
  return gitDir !== null && leadsBack(deps, gitDir, tree) ? withRepository(gitDir) : null;
}

/** Of a worktree in the trash, whose record may still have the place before an interrupted move. Null: it is gone. */
export function recordInTrash(entry: string): GitRecord | null {
  const tree = join(entry, "worktree");
  const gitDir = gitDirectoryOf(tree);
  if (gitDir === null) return null;
  const known = readSmallText(join(gitDir, "gitdir"))?.trim() ?? "";
  const now = realPath(known);
  const isEarlier = now === null && basename(dirname(dirname(known))) === basename(entry);
  return isEarlier || now === realPath(join(tree, ".git")) ? withRepository(gitDir) : null;
}

function withRepository(gitDir: string): GitRecord | null {
  const common = realPath(resolve(gitDir, readSmallText(join(gitDir, "commondir"))?.trim() ?? ""));
  return common === null || common === gitDir ? null : { gitDir, common };
}

export function leadsTo({ gitDir }: GitRecord, tree: string): boolean {
  return readSmallText(join(gitDir, "gitdir")) === `${join(tree, ".git")}\n`;
}

/** The branch as a ref, null: none; and the commit, null: none yet. */
export async function headOf(
  deps: Deps,
  record: GitRecord,
): Promise<{ branch: string | null; commit: string | null }> {
  const git = await openAt(deps, record.gitDir);
  const [on, at] = await Promise.all([
    git(["symbolic-ref", "--quiet", "HEAD"]),
    git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]),
  ]);
  return { branch: textIn(on), commit: textIn(at) };
}

function textIn({ code, stdout }: { readonly code: number | null; readonly stdout: string }): string | null {
  return code === 0 ? stdout.trim() : null;
}

function openAt(deps: Deps, gitDir: string): Promise<Git> {
  return openGit(deps, gitDir, { GIT_DIR: gitDir });
}

const LOCK = "in the trash of Reprise; to bring it back: reprise rm --restore ";

/** Before the move: `git worktree prune` leaves a locked record, and refs keep what nothing else in the repository leads to. */
export async function protect(deps: Deps, record: GitRecord, handle: string): Promise<void> {
  const lock = join(record.gitDir, "locked");
  if (readSmallText(lock) === null) replace(lock, `${LOCK}${handle}\n`);
  const git = await openAt(deps, record.gitDir);
  const ids = (await onlyIn(deps, record, handle)) ?? [];
  await changeRefs(
    git,
    ids.map((id) => `update ${refsFor(handle)}/${id} ${id}`),
  );
}

const refsFor = (handle: string) => `refs/reprise/trash/${handle}`;

/** Objects of any kind that the record or the refs of `protect` name, and that no branch, tag or remote reaches. Null: git cannot tell. */
export async function onlyIn(
  deps: Deps,
  { gitDir, common }: GitRecord,
  handle: string,
): Promise<readonly string[] | null> {
  const git = await openAt(deps, gitDir);
  const [own, kept, saved] = await Promise.all([
    ownIds(git, gitDir),
    refsIn(deps, common, [`${refsFor(handle)}/`]),
    refsIn(deps, common, OUTSIDE),
  ]);
  const ids = [...new Set([...own, ...(kept ?? [])])];
  if (ids.length === 0) return [];
  const stdin = [...ids, ...(saved ?? []).map((id) => `^${id}`)].map((line) => `${line}\n`).join("");
  const listed = await git(["rev-list", "--objects", "--ignore-missing", "--stdin"], {
    stdin,
    maxBytes: MOST_LISTED,
  });
  if (listed.code !== 0 || saved === null || kept === null) return null;
  const loose = new Set(linesOf(listed.stdout).map((line) => line.split(" ", 1)[0] ?? ""));
  return ids.filter((id) => loose.has(id));
}

async function changeRefs(git: Git, lines: readonly string[]): Promise<void> {
  if (lines.length > 0) await git(["update-ref", "--stdin"], { stdin: `${lines.join("\n")}\n` });
}

/** Leads the record to the worktree's place. In the trash HEAD leaves its branch, so that the user can check it out and delete it. */
export async function follow(
  deps: Deps,
  record: GitRecord,
  tree: string,
  head: "leaves its branch" | "stays on its branch" = "leaves its branch",
): Promise<void> {
  if (!leadsTo(record, tree)) replace(join(record.gitDir, "gitdir"), `${join(tree, ".git")}\n`);
  if (head === "stays on its branch") return;
  const { branch, commit } = await headOf(deps, record);
  if (branch === null || commit === null) return;
  const git = await openAt(deps, record.gitDir);
  await git(["update-ref", "--no-deref", "-m", "reprise: to the trash", "HEAD", commit]);
}

/** A checkout that has this branch. Null: none has. */
export async function checkoutOf(deps: Deps, { common }: GitRecord, branch: string): Promise<string | null> {
  const git = await openAt(deps, common);
  const found = textIn(await git(["for-each-ref", "--format=%(worktreepath)", branch]));
  return found === "" ? null : found;
}

/** False: the branch is gone, or no longer at HEAD's commit, and HEAD stays at its commit. */
export async function backOnBranch(deps: Deps, record: GitRecord, branch: string): Promise<boolean> {
  const git = await openAt(deps, record.gitDir);
  const tip = textIn(await git(["rev-parse", "--verify", "--quiet", `${branch}^{commit}`]));
  const { commit } = await headOf(deps, record);
  if (tip === null || tip !== commit) return false;
  return (await git(["symbolic-ref", "-m", "reprise: back from the trash", "HEAD", branch])).code === 0;
}

/** After a restore. A lock of the user's stays. */
export async function unprotect(deps: Deps, record: GitRecord, handle: string): Promise<void> {
  const lock = join(record.gitDir, "locked");
  if (readSmallText(lock)?.startsWith(LOCK) === true) removeQuietly(lock);
  await dropRefs(deps, record, handle);
}

export async function dropRefs(deps: Deps, { common }: GitRecord, handle: string): Promise<void> {
  const git = await openAt(deps, common);
  const { stdout } = await git(["for-each-ref", "--format=delete %(refname)", `${refsFor(handle)}/`]);
  await changeRefs(git, linesOf(stdout));
}

/** For a worktree whose files go for good. */
export async function forget(deps: Deps, record: GitRecord, handle: string): Promise<void> {
  assertNoMounts(record.gitDir, `${record.gitDir} was not removed`);
  await dropRefs(deps, record, handle);
  await rm(record.gitDir, { recursive: true, force: true });
}

/** As git does it, with git's own lock file, so that no other file ever appears there. */
function replace(path: string, text: string): void {
  const lock = `${path}.lock`;
  try {
    const mode = statSync(join(dirname(path), "HEAD"), { throwIfNoEntry: false })?.mode ?? 0o644;
    const fd = openSync(lock, "w", 0o600);
    try {
      writeSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    chmodSync(lock, mode & 0o777);
    renameSync(lock, path);
    syncDirectory(dirname(path));
  } catch (error) {
    throw storageFault(error, "write", path);
  }
}
