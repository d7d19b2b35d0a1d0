/** Maintenance of the state directory: its condition, and replacing a damaged index by a rebuilt one. */
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
import { Fault } from "../core/faults.ts";
import { isErrno, removeQuietly, storageFault, syncDirectory, temporaryPath } from "./files.ts";
import type { StateDir } from "./directory.ts";

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
