/**
 * Whether removing a run would lose work. Only work that is provably saved elsewhere may go: files are compared with the
 * commit byte for byte, and commits must be reachable from a ref outside the worktree. In doubt the work stays.
 */
import { isUtf8 } from "node:buffer";
import { dirname, join, relative, resolve } from "node:path";
import { lstat } from "../state/files.ts";
import { namesOf } from "../state/mounts.ts";
import {
  entriesOf,
  fileSize,
  isDirectory,
  isEmptyDirectory,
  keepsModes,
  readSmallText,
  realPath,
  spelled,
} from "../state/places.ts";
import {
  compareTree,
  type FoundRepository,
  hashFile,
  isCache,
  pathIn,
  repositoriesBelow,
  type TreeEntry,
} from "../state/tree.ts";
import { isLeftover } from "../state/upkeep.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";
import {
  alternatesOf,
  type Git,
  gitDirectoryOf,
  type Hidden,
  hidingRules,
  leadsBack,
  repositoriesOf,
} from "./git.ts";
import { isOwnPlace } from "./git/place.ts";
import {
  cannotTell,
  commitsAtRisk,
  isGoing,
  isInside,
  nulls,
  onNoBranch,
  openChecked,
  OUTSIDE,
  ownIds,
  type Place,
  refsIn,
  type Removal,
  unreachable,
  unsentCommits,
  worktreesOf,
} from "./unsaved-commits.ts";
import { lfsOnlyIn, linkInto, madeByOthers } from "./unsaved-files.ts";

/** Why removing the run would destroy work. Null: it would not. Unreadable files count as work. */
export async function workAtRisk(deps: Deps, run: RunRecord): Promise<string | null> {
  try {
    return await atRisk(deps, run);
  } catch (error) {
    const facts = error instanceof Fault && error.code === "storage_failed" ? error.facts : {};
    if (typeof facts["path"] !== "string") throw error;
    return `${facts["path"]} cannot be read (${String(facts["errno"])}), so nothing shows what is in it`;
  }
}

/** Reprise's own entries of a run's directory. An agent in a worktree there may add others: `git worktree add ../x`. */
const OWN = new Set([
  "run.json",
  "label.json",
  "agent.json",
  "attempts",
  "escrow",
  "trash.json",
  "work",
  "worktree",
]);

/** The first entry of a run's directory that Reprise did not make; null: none. */
function strangeIn(runDirectory: string): string | null {
  const isStrange = ({ name }: { readonly name: string }) => !OWN.has(name) && !isLeftover(name);
  return entriesOf(runDirectory).find(isStrange)?.name ?? null;
}

/** A file that somebody put into a run's directory, which had none at the check; null: it still has none. */
export function newIn(runDirectory: string): string | null {
  const isFilled = (path: string) => isFile(path) || !isEmptyDirectory(path);
  const filled = ["work", "worktree"].find((name) => isFilled(join(runDirectory, name)));
  return filled ?? strangeIn(runDirectory);
}

const isFile = (path: string) => lstat(path)?.isFile() === true;

async function atRisk(deps: Deps, run: RunRecord): Promise<string | null> {
  const beside = strangeIn(run.runDirectory);
  if (beside !== null) return `Reprise did not make ${join(run.runDirectory, beside)}`;
  if (run.launch.isolate === "dir") {
    const directory = join(run.runDirectory, "work");
    if (isFile(directory)) return `${directory} is a file`;
    return isEmptyDirectory(directory) ? null : `there are files in ${directory}`;
  }
  const worktree = join(run.runDirectory, "worktree");
  if (run.launch.isolate === "worktree" && isFile(worktree)) return `${worktree} is a file`;
  if (run.launch.isolate !== "worktree" || isEmptyDirectory(worktree)) return null;
  const place = placeOf(worktree, run.runDirectory, deps);
  if (typeof place === "string") return place;
  const foreign = madeByOthers(place.gitDir);
  if (foreign !== null) return `git did not make ${foreign}`;
  // Reprise died between making it and filling it, and no agent has been there.
  const isUnfilled =
    entriesOf(worktree).every(({ name }) => name === ".git") && !entriesOf(place.gitDir).some(isIndex);
  if (run.attempts === 0 && isUnfilled) return null;
  const git = await openChecked(deps, worktree, { GIT_DIR: place.gitDir, GIT_WORK_TREE: worktree });
  const removal = removalOf(deps, run.runDirectory, place);
  return (await filesAtRisk(removal, git, place)) ?? (await commitsAtRisk(removal, git, place, run));
}

function removalOf(deps: Deps, runDirectory: string, { gitDir, common }: Place): Removal {
  const goes = [runDirectory, gitDir].flatMap(namesOf);
  return { deps, goes, kept: common, modes: keepsModes(join(runDirectory, "run.json")) };
}

/**
 * Why committed work would not outlive its worktree: refs or objects of the repository are in it, or a submodule has commits
 * that nothing else has, checked out or not. Null: it would.
 */
export async function heldByWorktree(deps: Deps, worktree: string): Promise<string | null> {
  const place = placeOf(worktree, worktree, deps);
  if (typeof place === "string") return place;
  return modulesAtRisk(removalOf(deps, worktree, place), place, []);
}

/** The worktree's link to its repository, checked both ways. A string: why the link proves nothing. */
function placeOf(tree: string, runDirectory: string, deps: Deps): Place | string {
  const doubt = `${join(tree, ".git")} no longer leads to the repository, so nothing shows what is saved elsewhere`;
  if (!isOwnPlace(deps, tree)) return `${tree} is a link, so nothing shows what is saved elsewhere`;
  const gitDir = gitDirectoryOf(tree);
  if (gitDir === null) return doubt;
  const named = readSmallText(join(gitDir, "commondir"))?.trim() ?? "";
  const common = named === "" ? null : realPath(resolve(gitDir, named));
  const inside = realPath(runDirectory);
  if (!leadsBack(deps, gitDir, tree) || common === null || inside === null) return doubt;
  if (common !== dirname(dirname(gitDir)) || isInside(common, inside)) return doubt;
  if (alternatesOf(common).some((path) => isInside(path, inside)))
    return `the repository keeps objects in ${tree}`;
  const link = linkInto(common, [inside, gitDir]);
  if (link !== null) return `${link} points into the directory to remove`;
  return { tree, gitDir, common };
}

const uncommitted = (tree: string, what: string) =>
  `there is uncommitted work in ${tree}: ${spelled(Buffer.from(what, "latin1"))}`;

/** Paths are bytes, and so are the contents of files. */
const BYTES = { encoding: "latin1" } as const;

/** Files that differ from the commit at HEAD, and staged changes. */
async function filesAtRisk(removal: Removal, git: Git, place: Place): Promise<string | null> {
  const { tree } = place;
  const [listed, staged, ignored, skipped] = await Promise.all([
    git(["ls-tree", "-r", "-z", "--full-tree", "HEAD"], BYTES),
    git(
      ["diff-index", "--cached", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=none", "HEAD"],
      BYTES,
    ),
    git(
      ["ls-files", "--others", "--ignored", "--directory", "-z", "--exclude-per-directory=.gitignore"],
      BYTES,
    ),
    git(["ls-files", "-t", "-z"], BYTES),
  ]);
  if ([listed, staged, ignored, skipped].some(({ code }) => code !== 0)) return cannotTell(tree);
  const [first] = nulls(staged.stdout);
  if (first !== undefined) return uncommitted(tree, first);
  const entries = entriesIn(listed.stdout);
  const found = compareTree(tree, entries, removal.modes);
  const sparse = new Set(
    nulls(skipped.stdout).flatMap((line) => (line.startsWith("S ") ? [line.slice(2)] : [])),
  );
  const gone = found.missing.find((path) => !sparse.has(path));
  if (gone !== undefined) return uncommitted(tree, gone);
  const mayGo = nulls(ignored.stdout);
  const extra = found.extra.find(
    (path) => !mayGo.some((one) => one === path || (one.endsWith("/") && path.startsWith(one))),
  );
  if (extra !== undefined) return uncommitted(tree, extra);
  const hidden = await hiddenByWork(git, tree, entries, found.extra);
  if (hidden !== null) return uncommitted(tree, hidden);
  const changed = found.altered[0] ?? (await reallyChanged(git, place, entries, found.changed));
  if (changed !== null) return uncommitted(tree, changed);
  const checkedOut: string[] = [];
  for (const path of found.submodules) {
    const risk = await submoduleAtRisk(removal, place, path, entries.get(path)?.id ?? "");
    if (risk !== null) return risk;
    checkedOut.push(...repositoriesOf(pathIn(tree, path).toString()).slice(0, 1));
  }
  const module = await modulesAtRisk(removal, place, checkedOut);
  if (module !== null) return module;
  for (const path of found.extra.filter((one) => one.endsWith("/"))) {
    for (const one of repositoriesBelow(pathIn(tree, path.slice(0, -1)))) {
      const risk = await repositoryAtRisk(removal, one);
      if (risk !== null) return risk;
    }
  }
  return null;
}

/**
 * The first untracked path that only an uncommitted `.gitignore` hides: a file that an agent wrote may name itself and the
 * agent's work. Null: committed rules hide all of them, or they are in a cache.
 */
async function hiddenByWork(
  git: Git,
  tree: string,
  entries: ReadonlyMap<string, TreeEntry>,
  paths: readonly string[],
): Promise<string | null> {
  const isTold = ({ source }: Hidden) => entries.has(source) || isCache(tree, dirname(source));
  const rest = (await hidingRules(git, paths)).filter((one) => !isTold(one)).map(({ path }) => path);
  if (rest.length === 0) return null;
  // Git reports a folder as ignored when every file in it is ignored, by any rules.
  const [folders, files] = [
    rest.filter((path) => path.endsWith("/")),
    rest.filter((path) => !path.endsWith("/")),
  ];
  if (files[0] !== undefined) return files[0];
  const listed = await git(
    ["ls-files", "--others", "--ignored", "-z", "--exclude-per-directory=.gitignore"],
    BYTES,
  );
  if (listed.code !== 0) return folders[0] ?? null;
  const inside = nulls(listed.stdout).filter((path) => folders.some((folder) => path.startsWith(folder)));
  return (await hidingRules(git, inside)).find((one) => !isTold(one))?.path ?? null;
}

/**
 * A repository below an ignored path. Its files go with it, so its commits must be on a branch that it has from elsewhere,
 * or in the repository of the run's worktree.
 */
async function repositoryAtRisk(
  removal: Removal,
  { path, bare }: FoundRepository,
  also: string | null = null,
): Promise<string | null> {
  const tree = path.toString();
  const doubt = `nothing shows that the work in the repository ${spelled(path)} is saved elsewhere`;
  const [gitDir, common = gitDir] = bare ? [realPath(tree)] : repositoriesOf(tree);
  // Git gets the path of the repository as text.
  if (!isUtf8(path) || gitDir === undefined || gitDir === null || common === null || common === undefined)
    return doubt;
  // Even without a checkout: a setting may name a checkout that is gone.
  const git = await openChecked(removal.deps, tree, { GIT_DIR: gitDir, GIT_WORK_TREE: tree });
  const place = { tree, gitDir, common };
  const goes = isGoing(removal, common);
  if (goes) {
    const [borrower] = worktreesOf(common).filter((one) => !isGoing(removal, one));
    if (borrower !== undefined) return `the worktree ${borrower} belongs to the repository ${spelled(path)}`;
    const lost = await unsentCommits(removal, git, place, also);
    if (lost === null) return cannotTell(tree);
    if (lost.length > 0) return `commits in ${tree} are nowhere else: ${lost.join(", ")}`;
    const large = lfsOnlyIn(common, also);
    if (large !== null) return `nothing shows that the LFS object ${large} is saved elsewhere`;
  } else if (gitDir !== common) {
    const saved = await refsIn(removal.deps, common, OUTSIDE);
    const lost =
      saved === null ? null : await unreachable(git, await ownIds(git, gitDir), { elsewhere: saved });
    if (lost === null) return cannotTell(tree);
    if (lost.length > 0) return onNoBranch(`in ${tree}`, lost);
  }
  const isBegun = (await git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])).code === 0;
  if (isBegun && !bare) return filesAtRisk(removal, git, place);
  if (!bare && entriesOf(tree).some(({ name }) => name !== ".git")) return doubt;
  if (entriesOf(gitDir).some(isIndex)) {
    const staged = await git(["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"]);
    if (staged.code !== 0) return doubt;
  }
  return modulesAtRisk(removal, place, []);
}

/** Submodules that are not checked out: git keeps their repositories, and they go with the checkout's git directory. */
async function modulesAtRisk(
  removal: Removal,
  { gitDir, common }: Place,
  checkedOut: readonly string[],
): Promise<string | null> {
  // The git directory of another worktree that goes is left behind, and git removes it later.
  if (gitDir === common && !isGoing(removal, gitDir)) return null;
  const modules = join(gitDir, "modules");
  const going = { ...removal, goes: [...removal.goes, gitDir] };
  for (const found of isDirectory(modules) ? repositoriesBelow(Buffer.from(modules)) : []) {
    const path = found.path.toString();
    if (checkedOut.includes(realPath(path) ?? path)) continue;
    const also = gitDir === common ? null : realPath(join(common, "modules", relative(modules, path)));
    const risk = await repositoryAtRisk(going, { ...found, bare: true }, also);
    if (risk !== null) return risk;
  }
  return null;
}

const isIndex = ({ name }: { readonly name: string }) => name === "index";

function entriesIn(listed: string): ReadonlyMap<string, TreeEntry> {
  const lines = nulls(listed).map((line) => /^(\d+) \w+ ([0-9a-f]+)\t([^]+)$/.exec(line));
  return new Map(lines.map((match) => [match?.[3] ?? "", { mode: match?.[1] ?? "", id: match?.[2] ?? "" }]));
}

/** More files than an honest checkout converts. */
const MOST_CONVERTED = 2_000;

/**
 * Git converts line ends and encodings, and LFS keeps large files elsewhere, so a file may differ from its blob. It is
 * saved when a checkout of the blob would give the same bytes. Null: all are saved.
 */
async function reallyChanged(
  git: Git,
  { tree, common }: Place,
  entries: ReadonlyMap<string, TreeEntry>,
  paths: readonly string[],
): Promise<string | null> {
  if (paths.length > MOST_CONVERTED) return paths[0] ?? null;
  for (const path of paths) {
    const id = entries.get(path)?.id ?? "";
    const bytes = Buffer.from(path, "latin1");
    // An argument is text, so git cannot be asked about this one.
    if (!isUtf8(bytes)) return path;
    const file = join(tree, bytes.toString());
    const checkedOut = await git(["cat-file", "--filters", `--path=${bytes.toString()}`, id], BYTES);
    if (checkedOut.code === 0 && readSmallText(file, "latin1") === checkedOut.stdout) continue;
    const lfs = LFS_POINTER.exec((await git(["cat-file", "blob", id], BYTES)).stdout)?.[1];
    if (lfs === undefined || hashFile(file, "sha256", () => "") !== lfs) return path;
    if (fileSize(join(common, "lfs/objects", lfs.slice(0, 2), lfs.slice(2, 4), lfs)) === null) return path;
  }
  return null;
}

const LFS_POINTER = /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n[^]*oid sha256:([0-9a-f]{64})\n/;

/** A submodule's repository is inside the worktree's own, so its commits must be in the submodule of the main checkout. */
async function submoduleAtRisk(
  removal: Removal,
  place: Place,
  path: string,
  pinned: string,
): Promise<string | null> {
  const { deps } = removal;
  const bytes = pathIn(place.tree, path);
  if (isGoing(removal, place.common)) return repositoryAtRisk(removal, { path: bytes, bare: false });
  const tree = bytes.toString();
  const doubt = `nothing shows that the work in the submodule ${tree} is saved elsewhere`;
  const named = /^gitdir: (.+)\n?$/.exec(readSmallText(join(tree, ".git")) ?? "")?.[1];
  const gitDir = named === undefined ? null : realPath(resolve(tree, named));
  if (gitDir === null || !isInside(gitDir, join(place.gitDir, "modules"))) return doubt;
  const common = realPath(join(place.common, "modules", relative(join(place.gitDir, "modules"), gitDir)));
  if (common === null || !isDirectory(join(common, "objects"))) return doubt;
  const git = await openChecked(deps, tree, { GIT_DIR: gitDir, GIT_WORK_TREE: tree });
  const [head, kept] = await Promise.all([
    git(["rev-parse", "--verify", "HEAD^{commit}"]),
    refsIn(deps, common),
  ]);
  if (head.stdout.trim() !== pinned) return uncommitted(place.tree, path);
  const not = (kept ?? []).map((id) => `^${id}\n`);
  const lost = await git(
    ["rev-list", "--all", "--reflog", "HEAD", "--max-count=1", "--ignore-missing", "--stdin"],
    {
      stdin: not.join(""),
    },
  );
  if (kept === null || lost.code !== 0 || lost.stdout.trim() !== "") return doubt;
  if (lfsOnlyIn(gitDir, common) !== null) return doubt;
  return filesAtRisk(removal, git, { tree, gitDir, common });
}
