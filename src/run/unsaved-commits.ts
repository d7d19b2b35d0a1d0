/** Commits that would be lost with a run: those that no ref outside the removed directories leads to. */
import { dirname, join, resolve } from "node:path";
import { entriesOf, modifiedAtMs, readSmallText, realPath } from "../state/state.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";
import { commitsIn, type Git, openGit, repositoriesAt } from "./git.ts";

/** The facts about a removal that every check needs. */
export interface Removal {
  readonly deps: Deps;
  /** The directories to remove, links resolved. */
  readonly goes: readonly string[];
  /** The repository of the run's worktree. It stays. */
  readonly kept: string;
  /** The file system stores executable modes. */
  readonly modes: boolean;
}

/** A checkout and the repository that it belongs to. */
export interface Place {
  readonly tree: string;
  /** Git's directory for this checkout alone. It is removed with the checkout. */
  readonly gitDir: string;
  /** The repository that stays. The same as `gitDir` if the whole repository is removed. */
  readonly common: string;
}

export function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}

export const cannotTell = (tree: string) => `git cannot tell what is in ${tree}`;

export function isGoing({ goes }: Removal, path: string): boolean {
  return goes.some((directory) => isInside(path, directory));
}

/** The existing worktrees of a repository. */
export function worktreesOf(common: string): readonly string[] {
  const all = join(common, "worktrees");
  return entriesOf(all).flatMap(({ name }) => {
    const link = realPath(readSmallText(join(all, name, "gitdir"))?.trim() ?? "");
    return link === null ? [] : [dirname(link)];
  });
}

/** A few of the commits that only this repository has, including unreachable ones. Null: git cannot tell. */
export async function unsentCommits(
  removal: Removal,
  git: Git,
  { gitDir, common }: Place,
): Promise<readonly string[] | null> {
  const outside = await openGit(removal.deps, removal.kept, { GIT_DIR: removal.kept });
  const stdin = `${madeSince(common, 0).join("\n")}\n`;
  const [own, kept, objects, remotes] = await Promise.all([
    git(["rev-list", "--all", "--reflog", "--no-walk"]),
    outside(["for-each-ref", "--format=%(objectname)"]),
    git(["cat-file", "--batch-check"], { stdin }),
    remotesOf(removal, git, dirname(gitDir)),
  ]);
  if ([own, kept, objects].some(({ code }) => code !== 0)) return null;
  // A shallow clone lists in `shallow` its oldest commits, which are from elsewhere.
  const elsewhere = [...linesOf(kept.stdout), ...remotes.ids, ...idsIn(join(common, "shallow"))];
  const lost = await unreachable(git, linesOf(own.stdout), { refs: remotes.refs, elsewhere });
  if (lost === null || lost.length > 0) return lost;
  // A clone on the same disk begins with all objects of the original, even with unreachable ones.
  const commits = commitsIn(objects.stdout);
  const copied = await outside(["cat-file", "--batch-check"], { stdin: `${commits.join("\n")}\n` });
  const [there, all] = [new Set(commitsIn(copied.stdout)), [...remotes.refs, "--all"]];
  const only = commits.filter((id) => !there.has(id));
  return copied.code === 0 ? unreachable(git, only, { refs: all, elsewhere, loose: true }) : null;
}

/** The commits of remotes that stay: asked from a local remote, and by the fetched refs of any other. */
async function remotesOf(
  removal: Removal,
  git: Git,
  from: string,
): Promise<{ readonly ids: readonly string[]; readonly refs: readonly string[] }> {
  const { stdout } = await git(["config", "--get-regexp", "--null", "^remote\\..*\\.url$"]);
  const ids: string[] = [];
  const refs: string[] = [];
  for (const setting of nulls(stdout)) {
    const [key = "", url = ""] = setting.split("\n");
    const name = key.slice("remote.".length, -".url".length);
    const local = url.startsWith("file://") ? url.slice("file://".length) : url;
    const isFar = local === url && /^[^/]*:/.test(url);
    // Other names could be patterns.
    if (isFar && /^[\w./-]+$/.test(name)) refs.push(`--remotes=${name}`);
    const path = isFar ? null : realPath(resolve(from, local));
    if (path === null || isGoing(removal, path)) continue;
    // It may use objects of a directory that is removed.
    const repositories = repositoriesAt(path);
    if (repositories.some((one) => isGoing(removal, one))) continue;
    // Git goes into one without a checkout only by its name.
    const named: Record<string, string> = repositories[0] === path ? { GIT_DIR: path } : {};
    const there = await (
      await openGit(removal.deps, path, named)
    )(["for-each-ref", "--format=%(objectname)"]);
    if (there.code === 0) ids.push(...linesOf(there.stdout));
  }
  return { ids, refs };
}

export function linesOf(text: string): readonly string[] {
  return text.split("\n").filter(Boolean);
}

export function nulls(text: string): readonly string[] {
  return text.split("\0").filter(Boolean);
}

export const OUTSIDE = ["--branches", "--remotes", "--tags"];
const ID = /\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b/g;

/**
 * Commits that are not work: Codex's snapshots for its undo, and commits that a stash leaves when it is applied
 * or dropped.
 */
function isNoWork(line: string): boolean {
  const [, email, parents = "", subject = ""] = line.split("\t");
  if (email === "snapshot@codex.local" || /^(?:index|untracked files) on [^:]*: /.test(subject)) return true;
  return parents.includes(" ") && /^(?:WIP on|On) [^:]*: /.test(subject);
}

/** Commits that are reachable only from the worktree. */
export async function commitsAtRisk(git: Git, place: Place, run: RunRecord): Promise<string | null> {
  const { tree, gitDir, common } = place;
  // Removed with the worktree: the history of its HEAD, its own refs, and the state of an unfinished rebase.
  const own = idsBelow(gitDir);
  const lost = await unreachable(git, own, { refs: OUTSIDE });
  if (lost === null) return cannotTell(tree);
  // Without reflogs, only the objects themselves show a commit that HEAD has left.
  const made = lost.length > 0 ? [] : madeSince(common, Date.parse(run.createdAt));
  const kinds =
    made.length === 0 ? null : await git(["cat-file", "--batch-check"], { stdin: `${made.join("\n")}\n` });
  const commits = commitsIn(kinds?.stdout ?? "");
  const others = entriesOf(join(common, "worktrees"))
    .map(({ name }) => join(common, "worktrees", name))
    .filter((path) => realPath(path) !== gitDir);
  const elsewhere = [
    ...others.flatMap(idsBelow),
    ...idsIn(join(common, "logs/HEAD")),
    ...idsIn(join(common, "logs/refs/stash")),
  ];
  const refs = [...OUTSIDE, "--glob=refs/*"];
  const left = await unreachable(git, commits, { refs, elsewhere, loose: true });
  if (left === null || (kinds !== null && kinds.code !== 0)) return cannotTell(tree);
  if (lost.length > 0) return onNoBranch(`in ${tree}`, lost);
  return left.length === 0 ? null : onNoBranch(`in ${common} since this run began`, left);
}

export function onNoBranch(where: string, ids: readonly string[]): string {
  return `commits made ${where} are on no branch: ${ids.join(", ")} (\`git branch <name> <commit>\` keeps them)`;
}

const SHOWN = 3;

/** What counts as saved. */
interface Saved {
  /** Options of `rev-list` that name refs. */
  readonly refs: readonly string[];
  readonly elsewhere?: readonly string[];
  /** The commits in question are unreachable. */
  readonly loose?: boolean;
}

/** The newest few of these commits and their ancestors that no such ref reaches. Null: git cannot tell. */
export async function unreachable(
  git: Git,
  ids: readonly string[],
  { refs, elsewhere = [], loose = false }: Saved,
): Promise<readonly string[] | null> {
  if (ids.length === 0) return [];
  const stdin = [...ids, ...elsewhere.map((id) => `^${id}`)].map((line) => `${line}\n`).join("");
  const list = [
    "rev-list",
    "--format=%h%x09%ce%x09%p%x09%s",
    "--ignore-missing",
    "--stdin",
    "--not",
    ...refs,
  ];
  const found = await git(list, { stdin });
  if (found.code !== 0) return null;
  // A commit that no ref ever reached may not be work; a commit that was at HEAD is.
  const isWork = (line: string) => line.includes("\t") && (!loose || !isNoWork(line));
  const lines = found.stdout.split("\n").filter(isWork);
  return lines.slice(0, SHOWN).map((line) => line.split("\t")[0] ?? "");
}

/** Every id in the small files of a worktree's git directory. Submodules are checked separately. */
export function idsBelow(directory: string): readonly string[] {
  return entriesOf(directory).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return entry.name === "modules" ? [] : idsBelow(path);
    return entry.name === "index" ? [] : idsIn(path);
  });
}

function idsIn(file: string): readonly string[] {
  return [...new Set((readSmallText(file) ?? "").match(ID) ?? [])].filter((id) => /[^0]/.test(id));
}

/** Loose objects that are not older than the run. */
function madeSince(common: string, sinceMs: number): readonly string[] {
  const objects = join(common, "objects");
  return entriesOf(objects)
    .filter((entry) => entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name))
    .flatMap(({ name }) =>
      entriesOf(join(objects, name))
        .filter(
          (one) =>
            /^[0-9a-f]{38,62}$/.test(one.name) && modifiedAtMs(join(objects, name, one.name)) >= sinceMs,
        )
        .map((one) => `${name}${one.name}`),
    );
}
