/** Commits that would be lost with a run: those that no ref outside the removed directories leads to. */
import { dirname, join, resolve } from "node:path";
import { entriesOf, modifiedAtMs, readSmallText, realPath } from "../state/places.ts";
import { trashRoot } from "../state/trash.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";
import { commitsIn, type Git, type GitOptions, MOST_LISTED, openGit, repositoriesAt } from "./git.ts";

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

/** Git for the questions behind a removal: names that differ only in case are different names, whatever the repository says. */
export async function openChecked(deps: Deps, cwd: string, env: GitOptions["env"]): Promise<Git> {
  const git = await openGit(deps, cwd, env);
  return (args, options) => git(["-c", "core.ignoreCase=false", ...args], options);
}

/** What the refs of a repository name; null: git cannot tell. */
export function refsIn(
  deps: Deps,
  gitDir: string,
  under: readonly string[] = [],
): Promise<readonly string[] | null> {
  return openGit(deps, gitDir, { GIT_DIR: gitDir }).then((git) => refsOf(git, under));
}

/** Without symbolic refs: such a ref may lead into the removed worktree, and its target elsewhere is itself a ref. */
async function refsOf(git: Git, under: readonly string[]): Promise<readonly string[] | null> {
  const format = "--format=%(objectname) %(symref)";
  const { code, stdout } = await git(["for-each-ref", format, ...under], { maxBytes: MOST_LISTED });
  return code === 0 ? linesOf(stdout).flatMap((line) => /^(\w+) $/.exec(line)?.[1] ?? []) : null;
}

/**
 * A few of the commits that only this repository has, also those that nothing leads to any more; null: git cannot tell.
 * `also`: another repository that stays and may have them.
 */
export async function unsentCommits(
  removal: Removal,
  git: Git,
  { gitDir, common }: Place,
  also: string | null,
): Promise<readonly string[] | null> {
  const { deps, kept } = removal;
  const outside = await openGit(deps, kept, { GIT_DIR: kept });
  const stdin = `${madeSince(common, 0).join("\n")}\n`;
  const [own, there, more, objects, remotes] = await Promise.all([
    git(["rev-list", "--all", "--reflog", "--no-walk"]),
    refsOf(outside, []),
    also === null ? [] : refsIn(deps, also),
    git(["cat-file", "--batch-check"], { stdin }),
    remotesOf(removal, git, dirname(gitDir)),
  ]);
  if (own.code !== 0 || objects.code !== 0 || there === null || more === null) return null;
  // A clone of the newest commits has the last one in `shallow` from elsewhere, and nothing before it.
  const elsewhere = [...there, ...more, ...remotes, ...idsIn(join(common, "shallow"))];
  const lost = await unreachable(git, linesOf(own.stdout), { elsewhere });
  if (lost === null || lost.length > 0) return lost;
  // A clone on the same disk begins with all objects of the original, even with unreachable ones.
  const commits = commitsIn(objects.stdout);
  const copied = await outside(["cat-file", "--batch-check"], { stdin: `${commits.join("\n")}\n` });
  const isThere = new Set(commitsIn(copied.stdout));
  const only = commits.filter((id) => !isThere.has(id));
  return copied.code === 0 ? unreachable(git, only, { refs: ["--all"], elsewhere, loose: true }) : null;
}

/** What the remotes have that do not go: of one on this machine by its own word, of others by what was fetched from there. */
async function remotesOf(removal: Removal, git: Git, from: string): Promise<readonly string[]> {
  const { stdout } = await git(["config", "--get-regexp", "--null", "^remote\\..*\\.url$"]);
  const ids: string[] = [];
  for (const setting of nulls(stdout)) {
    const [key = "", url = ""] = setting.split("\n");
    const name = key.slice("remote.".length, -".url".length);
    const local = url.startsWith("file://") ? url.slice("file://".length) : url;
    const isFar = local === url && /^[^/]*:/.test(url);
    // Other names could be patterns.
    if (isFar && /^[\w./-]+$/.test(name)) ids.push(...((await refsOf(git, [`refs/remotes/${name}`])) ?? []));
    const path = isFar ? null : realPath(resolve(from, local));
    if (path === null || isGoing(removal, path)) continue;
    // It may use objects of a directory that is removed.
    const repositories = repositoriesAt(path);
    if (repositories.some((one) => isGoing(removal, one))) continue;
    // Git goes into one without a checkout only by its name.
    const named: Record<string, string> = repositories[0] === path ? { GIT_DIR: path } : {};
    ids.push(...((await refsOf(await openGit(removal.deps, path, named), [])) ?? []));
  }
  return ids;
}

export function linesOf(text: string): readonly string[] {
  return text.split("\n").filter(Boolean);
}

export function nulls(text: string): readonly string[] {
  return text.split("\0").filter(Boolean);
}

/** Refs of a repository that outlive its worktrees, and that people look at. */
export const OUTSIDE = ["refs/heads", "refs/remotes", "refs/tags"];
const ID = /\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b/g;

/** Commits that nothing but the worktree leads to. */
export async function commitsAtRisk(
  { deps }: Removal,
  git: Git,
  place: Place,
  run: RunRecord,
): Promise<string | null> {
  const { tree, gitDir, common } = place;
  const [saved, all] = await Promise.all([refsIn(deps, common, OUTSIDE), refsIn(deps, common)]);
  if (saved === null || all === null) return cannotTell(tree);
  const lost = await unreachable(git, await ownIds(git, gitDir), { elsewhere: saved });
  if (lost === null) return cannotTell(tree);
  // Without reflogs, only the objects themselves show a commit that HEAD has left.
  // Emptying the trash changes nothing for them: they are in the repository, and nothing leads to them in either case.
  const isTrashed = isInside(run.runDirectory, trashRoot(deps.state));
  const made = lost.length > 0 || isTrashed ? [] : madeSince(common, Date.parse(run.createdAt));
  const kinds =
    made.length === 0 ? null : await git(["cat-file", "--batch-check"], { stdin: `${made.join("\n")}\n` });
  const commits = commitsIn(kinds?.stdout ?? "");
  const others = entriesOf(join(common, "worktrees"))
    .map(({ name }) => join(common, "worktrees", name))
    // A worktree in the trash keeps its commits only for a while.
    .filter((path) => realPath(path) !== gitDir && !leadsInto(path, trashRoot(deps.state)));
  const elsewhere = [
    ...all,
    ...others.flatMap(idsBelow),
    ...idsIn(join(common, "logs/HEAD")),
    ...idsIn(join(common, "logs/refs/stash")),
  ];
  const left = await unreachable(git, commits, { elsewhere, loose: true });
  if (left === null || (kinds !== null && kinds.code !== 0)) return cannotTell(tree);
  if (lost.length > 0) return onNoBranch(`in ${tree}`, lost);
  return left.length === 0 ? null : onNoBranch(`in ${common} since this run began`, left);
}

function leadsInto(gitDir: string, directory: string): boolean {
  return isInside(readSmallText(join(gitDir, "gitdir"))?.trim() ?? "", directory);
}

/** What goes with a worktree: the past places of its HEAD, its private refs, and the notes of an unfinished rebase. */
export async function ownIds(git: Git, gitDir: string): Promise<readonly string[]> {
  const ids = idsBelow(gitDir);
  // A table of refs is not text.
  if (entriesOf(join(gitDir, "reftable")).length === 0) return ids;
  const said = await Promise.all([
    git(["rev-parse", "--verify", "HEAD^{commit}"]),
    git(["log", "--walk-reflogs", "--format=%H", "HEAD", "--"]),
    git(["for-each-ref", "--format=%(objectname)", "refs/worktree", "refs/bisect", "refs/rewritten"]),
  ]);
  return [...ids, ...said.flatMap(({ stdout }) => stdout.match(ID) ?? [])];
}

export function onNoBranch(where: string, ids: readonly string[]): string {
  return `commits made ${where} are on no branch: ${ids.join(", ")} (\`git branch <name> <commit>\` keeps them)`;
}

const SHOWN = 3;

/** What counts as saved. */
interface Saved {
  /** Options of `rev-list` that name refs. */
  readonly refs?: readonly string[];
  readonly elsewhere: readonly string[];
  /** Nothing leads to the commits that are asked about. */
  readonly loose?: boolean;
}

/** The newest few of these commits and their ancestors that no such ref reaches. Null: git cannot tell. */
export async function unreachable(
  git: Git,
  ids: readonly string[],
  { refs = [], elsewhere, loose = false }: Saved,
): Promise<readonly string[] | null> {
  if (ids.length === 0) return [];
  const stdin = [...ids, ...elsewhere.map((id) => `^${id}`)].map((line) => `${line}\n`).join("");
  const format = "--format=%H%x09%h%x09%ce%x09%P%x09%s";
  const found = await git(["rev-list", format, "--ignore-missing", "--stdin", "--not", ...refs], { stdin });
  if (found.code !== 0) return null;
  const commits = linesOf(found.stdout).flatMap(commitIn);
  // What nothing ever referred to may be no work at all; where HEAD has been is.
  const idle = loose ? leftByStashes(commits) : new Set<string>();
  const isWork = ({ id, email }: Commit) => !loose || (email !== SNAPSHOT && !idle.has(id));
  return commits
    .filter(isWork)
    .slice(0, SHOWN)
    .map(({ short }) => short);
}

/** Codex makes such commits for its undo. */
const SNAPSHOT = "snapshot@codex.local";

interface Commit {
  readonly id: string;
  readonly short: string;
  readonly email: string;
  readonly parents: readonly string[];
  readonly subject: string;
}

function commitIn(line: string): readonly Commit[] {
  const [id = "", short, email = "", parents = "", ...subject] = line.split("\t");
  if (short === undefined) return [];
  return [{ id, short, email, parents: parents.split(" ").filter(Boolean), subject: subject.join("\t") }];
}

/**
 * What a stash leaves behind when it is applied or dropped, such as that of a merge. Any commit can have the subject of
 * one, so its shape counts: a merge of the commit below it and of the index, and perhaps of the untracked files.
 */
function leftByStashes(commits: readonly Commit[]): ReadonlySet<string> {
  const known = new Map(commits.map((commit) => [commit.id, commit]));
  const left = new Set<string>();
  for (const { id, parents, subject } of commits) {
    const [base, index = "", untracked, ...more] = parents;
    const staged = known.get(index);
    const others = untracked === undefined ? null : known.get(untracked);
    const isStash =
      more.length === 0 &&
      /^(?:WIP on|On) [^:]*: /.test(subject) &&
      staged?.subject.startsWith("index on ") === true &&
      staged.parents.join(" ") === base &&
      (others === null ||
        (others?.subject.startsWith("untracked files on ") === true && others.parents.length === 0));
    if (isStash) for (const one of [id, ...parents.slice(1)]) left.add(one);
  }
  return left;
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
