/**
 * Reads and replaces files of the user's repository: atomically, with a size limit and the file's mode, and never
 * through a link that leaves the repository.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  renameSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { isErrno } from "../../core/errno.ts";
import { removeQuietly, storageFault, writeFully, openToRead, openNew } from "../../state/files.ts";
import { Fault } from "../../core/faults.ts";
import { invalid } from "./source.ts";

const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * The real path of a file or folder, links resolved. Null: missing. `shown` is its path in the repository. The
 * repository's authors chose its links, so a link that leaves it is refused before anything is read.
 */
export function placeIn(root: string, shown: string): string | null {
  const path = join(root, shown);
  let real: string;
  let way: string;
  try {
    real = realpathSync(path);
    way = relative(realpathSync(root), real);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error, "ELOOP")) throw invalid(shown, "it is a symbolic link that leads back to itself");
    throw storageFault(error, "read", path);
  }
  if (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return real;
  throw new Fault(
    "outside_repository",
    `${shown} leaves the repository by a symbolic link, to ${real}. Reprise read and changed nothing there. ` +
      `Put the files themselves into ${root}, or remove the link.`,
    { facts: { repository: root, path: shown, target: real } },
  );
}

/** The names in a folder of the repository. Empty: no such folder. */
export function namesIn(root: string, shown: string): readonly string[] {
  const folder = placeIn(root, shown);
  if (folder === null) return [];
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "read", folder);
  }
}

/** Null: no such file. `shown` is its path in the repository, also in messages. */
export function readText(root: string, shown: string, maxBytes: number): string | null {
  bringOver();
  const fd = openIn(root, shown);
  if (fd === null) return null;
  try {
    return textOf(readAll(fd, shown, maxBytes), shown);
  } finally {
    closeSync(fd);
  }
}

/** Tries of a change, if other programs rewrite the file meanwhile. */
const TRIES = 50;

export interface TextChange {
  readonly root: string;
  readonly shown: string;
  readonly maxBytes: number;
  /** Null: leave the file as it is. Called again if another program has rewritten the file. */
  readonly change: (text: string) => string | null;
}

/**
 * Replaces the file's text atomically. Other programs do not use Reprise's lock, so bytes that they append meanwhile are
 * carried over, and after any other edit the change is made again. Null: no such file. False: no change.
 */
export function changeText(file: TextChange): boolean | null {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const done = tryChange(file);
    if (done !== "again") return done;
  }
  throw new Fault(
    "storage_failed",
    `${join(file.root, file.shown)} was not changed: another program keeps rewriting it. Try again when that program has ended.`,
    { facts: { path: file.shown, repository: file.root } },
  );
}

function tryChange({ root, shown, maxBytes, change }: TextChange): boolean | null | "again" {
  bringOver();
  const fd = openIn(root, shown);
  if (fd === null) return null;
  let isKept = false;
  try {
    const before = readAll(fd, shown, maxBytes);
    const text = change(textOf(before, shown));
    if (text === null) return false;
    const at = replace(fd, { root, shown, before, text });
    if (at === null) return "again";
    if (late.length === 0) process.once("exit", bringOverAtExit);
    late.push({ root, shown, fd, at });
    isKept = true;
    bringOver();
    return true;
  } finally {
    if (!isKept) closeSync(fd);
  }
}

/** The length of the old file that the new one includes. Null: the file changed meanwhile and stays. */
function replace(
  fd: number,
  { root, shown, before, text }: { root: string; shown: string; before: Buffer; text: string },
): number | null {
  const path = join(placeIn(root, dirname(shown)) ?? join(root, dirname(shown)), basename(shown));
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  let isDone = false;
  try {
    const mode = fstatSync(fd).mode & 0o777;
    const target = openNew(temporary, mode);
    let known = before;
    try {
      fchmodSync(target, mode);
      writeFully(target, Buffer.from(text));
      fsyncSync(target);
      const now = readFrom(fd, 0);
      if (!now.subarray(0, known.length).equals(known)) return null;
      if (now.length > known.length) {
        writeFully(target, now.subarray(known.length));
        fsyncSync(target);
      }
      known = now;
    } finally {
      closeSync(target);
    }
    if (!isSameFile(fd, path)) return null;
    renameSync(temporary, path);
    isDone = true;
    return known.length;
  } catch (error) {
    throw storageFault(error, "write", path);
  } finally {
    if (!isDone) removeQuietly(temporary);
  }
}

/**
 * Replaced files, and the length that the new file includes: a program that opened the old file may still append to it.
 */
const late: { root: string; shown: string; fd: number; at: number }[] = [];
const MAX_LATE = 16;

function bringOver(): void {
  for (const old of late) {
    const { size, nlink } = fstatSync(old.fd);
    // A file with another name is a copy, so nothing is lost.
    if (size <= old.at || nlink > 0) continue;
    const folder = placeIn(old.root, dirname(old.shown));
    if (folder === null) continue;
    const bytes = readFrom(old.fd, old.at);
    if (append(join(folder, basename(old.shown)), bytes)) old.at += bytes.length;
  }
  for (const old of late.splice(0, Math.max(0, late.length - MAX_LATE))) closeSync(old.fd);
}

function bringOverAtExit(): void {
  try {
    bringOver();
  } catch {
    // The process is ending and cannot report anything.
  }
}

/** False: no such file. */
function append(path: string, bytes: Buffer): boolean {
  try {
    const fd = openSync(path, APPEND);
    try {
      writeFully(fd, bytes);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    return true;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "ELOOP")) return false;
    throw storageFault(error, "write", path);
  }
}

/** Null: no such file. */
function openIn(root: string, shown: string): number | null {
  const folder = placeIn(root, dirname(shown));
  if (folder === null) return null;
  const path = join(folder, basename(shown));
  try {
    return openToRead(path);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error, "ELOOP")) {
      placeIn(root, shown);
      throw invalid(shown, "it is a symbolic link, which is not followed");
    }
    throw storageFault(error, "read", path);
  }
}

function readAll(fd: number, shown: string, maxBytes: number): Buffer {
  const stats = fstatSync(fd);
  if (!stats.isFile()) throw invalid(shown, "it is not a regular file");
  if (stats.size > maxBytes) throw invalid(shown, `it has ${stats.size} bytes, more than ${maxBytes}`);
  try {
    return readFrom(fd, 0);
  } catch (error) {
    throw storageFault(error, "read", shown);
  }
}

function readFrom(fd: number, from: number): Buffer {
  const bytes = Buffer.alloc(Math.max(0, fstatSync(fd).size - from));
  let length = 0;
  for (let read = -1; read !== 0 && length < bytes.length; length += read)
    read = readSync(fd, bytes, length, bytes.length - length, from + length);
  return bytes.subarray(0, length);
}

function textOf(bytes: Buffer, shown: string): string {
  const text = bytes.toString("utf8");
  // Other bytes would not survive a rewrite.
  if (!Buffer.from(text).equals(bytes)) throw invalid(shown, "it is not UTF-8 text");
  return text;
}

/** An editor or git may have replaced the file. */
function isSameFile(fd: number, path: string): boolean {
  const [mine, there] = [fstatSync(fd), lstatSync(path, { throwIfNoEntry: false })];
  return there !== undefined && there.ino === mine.ino && there.dev === mine.dev;
}
