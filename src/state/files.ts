/**
 * Writes and reads files of the state directory: atomically, never through a link, never blocked by a pipe, and with a
 * fault that names the path when the system refuses.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  type Stats,
  unlinkSync,
  writeSync,
} from "node:fs";
import { open, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { type FaultFacts, Fault, wantOf, unlessFault } from "../core/faults.ts";
import { hasDuplicateKeys, isObject, type JsonObject, parseJson } from "../lib/json.ts";

/** Never through a link, never blocked by a pipe. Links in the directories above the file still count. */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

export const MAX_RECORD_BYTES = 8 * 1024 * 1024;

type WriteCheck = (path: string, data: string | Buffer) => void;
let checkWritten: WriteCheck | null = null;

/** Tests check every written file with its own reader (`REPRISE_CHECK_RECORDS`). */
export function checkWrites(check: WriteCheck): void {
  checkWritten = check;
}

/** Replaces the file: readers find the old or the new content whole, even after a crash or a power cut. */
export function writeAtomic(path: string, data: string | Buffer): void {
  const temporary = temporaryPath(dirname(path));
  try {
    const fd = openNew(temporary);
    try {
      writeFully(fd, typeof data === "string" ? Buffer.from(data) : data);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
    syncDirectory(dirname(path));
  } catch (error) {
    removeQuietly(temporary);
    throw storageFault(error, "write", path);
  }
  checkWritten?.(path, data);
}

/** The same, without blocking other work. */
export async function writeAtomicAsync(path: string, data: string): Promise<void> {
  const temporary = temporaryPath(dirname(path));
  try {
    await synced(temporary, CREATE_FLAGS, data);
    await rename(temporary, path);
    await synced(dirname(path), constants.O_RDONLY, null);
  } catch (error) {
    removeQuietly(temporary);
    throw storageFault(error, "write", path);
  }
  checkWritten?.(path, data);
}

async function synced(path: string, flags: number, data: string | null): Promise<void> {
  const file = await open(path, flags, 0o600);
  try {
    if (data !== null) await file.writeFile(data);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A name for a file that is being written. Its pid tells `sweepTemp` whether the writer still lives. */
export function temporaryPath(directory: string): string {
  return join(directory, `.tmp-${process.pid}-${randomBytes(6).toString("hex")}`);
}

/** Null: no such file. An invalid record stays in place. */
export function readRecord(path: string, maxBytes = 1024 * 1024): JsonObject | null {
  const bytes = readOwnFile(path, maxBytes);
  if (bytes === null) return null;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw damaged(path, "it is not UTF-8 text");
  }
  const value = parseJson(text);
  if (value === undefined) throw damaged(path, bytes.length === 0 ? "it is empty" : "it is not JSON");
  if (!isObject(value)) throw damaged(path, "it is not a JSON object");
  if (hasDuplicateKeys(text)) throw damaged(path, "it names a key twice");
  return value;
}

/** Null: no such file, or not a trustworthy one. Never blocks, whatever is there. */
export function readOwnText(path: string, maxBytes: number): string | null {
  return unlessFault(() => readOwnFile(path, maxBytes)?.toString("utf8") ?? null, null);
}

/** Null: no such file, or no usable record in it. */
export function readRecordOrNull(path: string): JsonObject | null {
  return unlessFault(() => readRecord(path), null);
}

export function damaged(path: string, why: string): Fault {
  return new Fault(
    "record_damaged",
    `${path} cannot be used: ${why}. The file was not changed; \`reprise doctor\` says what can be rebuilt.`,
    { facts: { path, why } },
  );
}

function readOwnFile(path: string, maxBytes: number): Buffer | null {
  const fd = openOwn(path);
  if (fd === null) return null;
  try {
    const { size } = fstatSync(fd);
    if (size > maxBytes) throw damaged(path, `it has ${size} bytes, more than ${maxBytes}`);
    const bytes = Buffer.alloc(size);
    let length = 0;
    for (let read = -1; read !== 0 && length < size; length += read) {
      read = readSync(fd, bytes, length, size - length, length);
    }
    return bytes.subarray(0, length);
  } catch (error) {
    throw storageFault(error, "read", path);
  } finally {
    closeSync(fd);
  }
}

/** Opens a file that another program may have replaced by a pipe, or by a link unless links may count. */
export function openToRead(path: string | Buffer, links: "refuse" | "follow" = "refuse"): number {
  return openSync(path, links === "follow" ? READ_FLAGS & ~constants.O_NOFOLLOW : READ_FLAGS);
}

/** Creates a file; whatever is at that path already is an error. */
export function openNew(path: string, mode = 0o600): number {
  return openSync(path, CREATE_FLAGS, mode);
}

/** A descriptor of a regular file that is ours. Null: no file at that path. */
export function openOwn(path: string): number | null {
  let fd: number;
  try {
    fd = openToRead(path);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error, "ELOOP")) throw notOurs(path, "it is a symbolic link", "Remove it.");
    if (isErrno(error, "ENXIO")) throw damaged(path, "it is not a regular file");
    throw storageFault(error, "read", path);
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw damaged(path, "it is not a regular file");
    if (!isOurs(stats)) throw notOurs(path, "it belongs to another user", "Remove it or change its owner.");
    return fd;
  } catch (error) {
    closeSync(fd);
    throw storageFault(error, "read", path);
  }
}

/** Checks our directory before anything in it is trusted. False: no such directory. */
export function checkOwnDirectory(path: string): boolean {
  const stats = lstat(path);
  if (stats === null) return false;
  if (stats.isSymbolicLink()) {
    throw notOurs(path, "it is a symbolic link", "Put the directory itself there.");
  }
  if (!stats.isDirectory()) throw notOurs(path, "it is not a directory", "Move it away.");
  if (!isOurs(stats)) throw notOurs(path, "it belongs to another user", "Use a directory that you own.");
  if ((stats.mode & 0o022) !== 0) {
    throw notOurs(path, "others may write to it", `Look into it, then run: chmod 700 '${path}'`);
  }
  return true;
}

export function notOurs(path: string, why: string, fix: string): Fault {
  return new Fault("denied", `${path} has unsafe ownership or permissions: ${why}. ${fix}`, {
    facts: { path, why },
  });
}

export function lstat(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw storageFault(error, "read", path);
  }
}

export function isOurs(stats: Stats): boolean {
  return process.geteuid === undefined || stats.uid === process.geteuid();
}

/** False: it exists with safe ownership and permissions. Anything else in its place is refused. */
export function makeDirectory(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    syncDirectory(dirname(path));
    return true;
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw storageFault(error, "create", path);
    checkOwnDirectory(path);
    return false;
  }
}

/** Writes everything, or throws after it has passed the partial count to `onProgress`. */
export function writeFully(fd: number, data: Buffer, onProgress?: (written: number) => void): void {
  let from = 0;
  while (from < data.length) {
    const written = writeSync(fd, data, from);
    from += written;
    onProgress?.(written);
  }
}

/** Makes names in the directory survive a power cut. */
export function syncDirectory(path: string): void {
  const fd = openSync(path, constants.O_RDONLY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Already gone, or the disk refuses: `sweepTemp` tries again later.
  }
}

/** Turns a system error about a file into a fault. Faults and our own bugs pass unchanged. */
export function storageFault(error: unknown, doing: string, path: string, facts: FaultFacts = {}): unknown {
  if (error instanceof Fault || !isErrno(error)) return error;
  const want = wantOf(error);
  if (want !== null) return want;
  const errno = error.code;
  const all = { path, errno, ...facts };
  if (errno === "ENOSPC" || errno === "EDQUOT") {
    const what = errno === "ENOSPC" ? "The disk is full" : "The disk quota is used up";
    return new Fault("storage_full", `${what}: could not ${doing} ${path}. Free some space and try again.`, {
      facts: all,
      cause: error,
    });
  }
  const why = errno === "EROFS" ? "the file system is read-only" : errno;
  return new Fault("storage_failed", `Could not ${doing} ${path}: ${why}.`, { facts: all, cause: error });
}
