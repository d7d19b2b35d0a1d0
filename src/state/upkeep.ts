/**
 * Maintenance of the state directory: its condition, a rebuilt index in place of a damaged one, and the leftovers of
 * crashed writers and removals.
 */
import {
  accessSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  statfsSync,
  statSync,
} from "node:fs";
import { lstat as lstatOf, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { isErrno } from "../core/errno.ts";
import type { Clock } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { shellWord } from "../lib/shell.ts";
import { namesIn, type StateDir } from "./directory.ts";
import { lstat, removeQuietly, storageFault, syncDirectory, temporaryPath } from "./files.ts";
import { assertNoMounts } from "./mounts.ts";

interface StateFacts {
  /** Permission bits in octal, such as `700`. */
  readonly mode: string;
  /** Space that this user may still write. Null: the system does not tell. */
  readonly freeBytes: number | null;
  /** The file system is read-only: no permission would help. */
  readonly readOnly: boolean;
}

export function stateFacts(state: StateDir): StateFacts {
  return {
    mode: (statSync(state.root).mode & 0o777).toString(8).padStart(3, "0"),
    freeBytes: freeBytes(state.root),
    readOnly: isReadOnly(state.root),
  };
}

function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return isErrno(error, "EROFS");
  }
}

function freeBytes(path: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return null;
  }
}

/** Identifies an index file by path, without opening it. Null: missing or empty. */
export function indexIdentity(state: StateDir): string | null {
  const stats = statSync(state.indexPath, { throwIfNoEntry: false });
  return stats === undefined || stats.size === 0 ? null : `${stats.dev}:${stats.ino}`;
}

interface Replacing {
  /** Part of the old index's new name: `damaged-<stamp>`. */
  readonly stamp: string;
  /** The result of `indexIdentity` before the new index was built. */
  readonly instead: string | null;
}

/**
 * Puts a closed, complete index at `fresh` in place and keeps the old one, with its journals, under names that end in
 * `damaged-<stamp>`. The old journals go first: they must never be replayed into the new file. Returns the old index's
 * new name. Null: there was no index, or another process was faster, whose index is as good.
 *
 * Reprise puts a copy in place: a connection that SQLite has not closed yet would share its memory with the next one on
 * the same file, unknown to other processes.
 */
export function replaceIndex(state: StateDir, fresh: string, { stamp, instead }: Replacing): string | null {
  const { indexPath } = state;
  const aside = freeName(`${indexPath}.damaged-${stamp}`);
  const copy = temporaryPath(state.root);
  try {
    if ((statSync(`${fresh}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) {
      throw new Fault("storage_failed", `The rebuilt index ${fresh} is still in use. Try again.`, {
        facts: { path: fresh },
      });
    }
    copyFileSync(fresh, copy, constants.COPYFILE_EXCL);
    confirm(copy);
    // From here to the end nothing waits, which leaves almost no time for another process.
    if (indexIdentity(state) !== instead) return null;
    // A second name first, so that an index exists at its path at every moment.
    if (instead !== null) linkSync(indexPath, aside);
    for (const suffix of JOURNALS) {
      if (existsSync(indexPath + suffix)) renameSync(indexPath + suffix, aside + suffix);
    }
    renameSync(copy, indexPath);
    syncDirectory(state.root);
    return instead === null ? null : aside;
  } catch (error) {
    throw storageFault(error, "replace", indexPath);
  } finally {
    for (const path of [copy, ...["", ...JOURNALS].map((suffix) => fresh + suffix)]) removeQuietly(path);
  }
}

const JOURNALS = ["-wal", "-shm", "-journal"];

/** Two indexes may be damaged within one second; neither is overwritten. */
function freeName(wanted: string): string {
  const isFree = (name: string) => ["", ...JOURNALS].every((suffix) => !existsSync(name + suffix));
  let name = wanted;
  for (let n = 2; !isFree(name); n += 1) name = `${wanted}-${n}`;
  return name;
}

function confirm(path: string): void {
  const fd = openSync(path, "r+");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

const LEFTOVER = /^\.(tmp|trash)-(\d{1,10})-/;

/** Whether the name is that of a leftover of Reprise. */
export function isLeftover(name: string): boolean {
  return LEFTOVER.test(name);
}

const HOUR = 3_600_000;
const MINUTE = 60_000;

/**
 * Removes leftovers of crashed writers and removals. Returns how many. `beside`: skips the run directories, of which
 * there may be a hundred thousand; each is swept at its next use.
 */
export async function sweepTemp(
  state: StateDir,
  clock: Clock,
  isDead: (pid: number) => boolean,
  what: "all" | "beside" = "all",
): Promise<number> {
  let removed = 0;
  const pending = [{ path: state.root, depth: 0 }];
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    const entries = await readdir(at.path, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const path = join(at.path, entry.name);
      if (LEFTOVER.test(entry.name)) removed += (await sweepOne(path, clock, isDead)) ? 1 : 0;
      else if (what === "beside" && at.path === state.runsRoot) continue;
      // root/runs/RUN/attempts/N is our deepest place; an agent's own directories are not entered.
      else if (entry.isDirectory() && at.depth < 4 && !(at.depth === 2 && /^work(tree)?$/.test(entry.name))) {
        pending.push({ path, depth: at.depth + 1 });
      }
    }
  }
  return removed;
}

/** Suffix of a failed removal that the user knows about: from then on, `doctor` names it. */
const TOLD = "-left";

/** A directory that a removal has renamed and that cannot be removed. `what` begins the sentence. */
export function leftOver(error: unknown, trash: string, what: string): unknown {
  if (!isErrno(error)) return error;
  let path = trash;
  try {
    renameSync(trash, `${trash}${TOLD}`);
    path = `${trash}${TOLD}`;
  } catch {
    // The next sweep reports it again.
  }
  const at =
    error.path?.startsWith(`${trash}/`) === true
      ? ` at ${shortened(error.path.slice(trash.length + 1))}`
      : "";
  return new Fault(
    "storage_failed",
    `Could not remove all of ${what} now ${path}: ${error.code}${at}. Remove it as a user with the permission: rm -rf ${shellWord(path)}`,
    { facts: { path, errno: error.code }, cause: error },
  );
}

function shortened(path: string): string {
  return path.length > 300 ? `${path.slice(0, 300)}…` : path;
}

/** Leftovers of removals that cannot be removed, for `doctor`. */
export async function stuckTrash(
  state: StateDir,
  clock: Clock,
  isDead: (pid: number) => boolean,
): Promise<readonly string[]> {
  const names = await readdir(state.runsRoot).catch(() => []);
  const found: string[] = [];
  for (const name of names.filter((one) => LEFTOVER.exec(one)?.[1] === "trash")) {
    const path = join(state.runsRoot, name);
    // Another process may be removing it right now.
    if (await isAbandoned(path, clock, isDead).catch(() => false)) found.push(path);
  }
  return found;
}

/** Finishes interrupted removals of runs, and throws for directories that cannot be removed. */
export async function sweepTrash(
  state: StateDir,
  clock: Clock,
  isDead: (pid: number) => boolean,
): Promise<void> {
  const names = await readdir(state.runsRoot).catch(() => []);
  const refusals: unknown[] = [];
  for (const name of names.filter((one) => LEFTOVER.exec(one)?.[1] === "trash")) {
    const path = join(state.runsRoot, name);
    try {
      if (await isAbandoned(path, clock, isDead)) await removeTree(path);
    } catch (error) {
      if (isErrno(error, "ENOENT") || name.endsWith(TOLD)) continue;
      refusals.push(error instanceof Fault ? error : leftOver(error, path, "what a removed run left,"));
    }
  }
  // A directory that cannot be removed must not block the others.
  if (refusals.length > 0) throw refusals[0];
}

/** The same for one run that the caller holds: files of dead writers need not age first. */
export function sweepRun(runDirectory: string, attempt: number, isDead: (pid: number) => boolean): void {
  const attempts = join(runDirectory, "attempts");
  const last = [attempt, attempt - 1].map((n) => join(attempts, String(n)));
  const there = [runDirectory, join(runDirectory, "escrow"), ...(isRealDirectory(attempts) ? last : [])];
  for (const directory of there.filter(isRealDirectory)) {
    for (const name of namesIn(directory)) {
      const pid = LEFTOVER.exec(name)?.[2];
      if (pid !== undefined && isDead(Number(pid))) removeQuietly(join(directory, name));
    }
  }
}

/** Reprise removes nothing behind a link. */
function isRealDirectory(path: string): boolean {
  return lstat(path)?.isDirectory() === true;
}

async function removeTree(path: string): Promise<void> {
  assertNoMounts(path, `${path} was not removed`);
  await rm(path, { recursive: true, force: true });
}

async function sweepOne(path: string, clock: Clock, isDead: (pid: number) => boolean): Promise<boolean> {
  try {
    if (!(await isAbandoned(path, clock, isDead))) return false;
    await removeTree(path);
    return true;
  } catch {
    // Gone in the meantime, or not removable: the next sweep looks again.
    return false;
  }
}

/**
 * Older than an hour, or its process is gone. The process may be invisible in another pid namespace, so its files are
 * left alone for a minute. Its removals are not, since two processes may remove the same directory.
 */
async function isAbandoned(path: string, clock: Clock, isDead: (pid: number) => boolean): Promise<boolean> {
  const [, kind, pid] = LEFTOVER.exec(basename(path)) ?? [];
  const { mtimeMs, ctimeMs } = await lstatOf(path);
  const isTrash = kind === "trash";
  // A renamed directory keeps its time of modification.
  const age = clock.now() - (isTrash ? ctimeMs : mtimeMs);
  return age >= HOUR || ((isTrash || age >= MINUTE) && isDead(Number(pid)));
}
