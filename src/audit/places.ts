/** Directories and programs of the user's that a run refers to: looked at, never written. */
import { isUtf8 } from "node:buffer";
import {
  accessSync,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import { isErrno } from "./files.ts";

/** The real path of a directory that an agent can work in. */
export function resolveDirectory(path: string): string {
  const refuse = (why: string): never => {
    throw new Fault("cwd_invalid", `${JSON.stringify(path)} ${why}.`, { facts: { path } });
  };
  try {
    const real = realpathSync(resolve(path));
    if (!statSync(real).isDirectory()) return refuse("is not a directory");
    accessSync(real, constants.R_OK | constants.X_OK);
    return real;
  } catch (error) {
    // The current directory itself is gone, whatever path was given.
    if (isErrno(error) && error.syscall === "uv_cwd") throw error;
    const raw = isErrno(error, "ENOENT", "ENOTDIR") ? unspeakableName(path) : null;
    if (raw !== null) throw notUtf8(raw);
    if (isErrno(error, "ENOENT", "ENOTDIR")) return refuse("does not exist");
    if (isErrno(error, "EACCES", "EPERM")) return refuse("cannot be read");
    if (isErrno(error, "ELOOP", "ENAMETOOLONG")) return refuse("is not a usable path");
    throw error;
  }
}

/** A directory is there, and Node cannot say its name: part of it is not UTF-8. Null: nothing is there. */
function unspeakableName(path: string): string | null {
  try {
    // By the system's own function, which knows the current directory without a name.
    const real = realpathSync.native(path, "buffer");
    if (isUtf8(real)) return null;
    return real
      .toString("latin1")
      .replaceAll(/[^ -~]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
}

function notUtf8(path: string): Fault {
  return new Fault(
    "cwd_invalid",
    `"${path}" has a name that is not valid UTF-8, and Reprise could not record it or pass it on. Rename it, or work elsewhere.`,
    { facts: { path } },
  );
}

export function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Missing counts as empty. */
export function isEmptyDirectory(path: string): boolean {
  return !isDirectory(path) || readdirSync(path).length === 0;
}

/** Null: there is no such file. */
export function fileSize(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

/** 0: there is no such file. */
export function modifiedAtMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** Changes whenever the file is replaced or rewritten. */
export function fileStamp(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "missing" : `${stat.ino}-${stat.size}-${stat.mtimeMs}`;
}

/** Null: the path leads nowhere. */
export function realPath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
}

const MAX_SMALL = 16 << 20;

/** A regular file of at most 16 MiB; null: there is none, or it cannot be read. */
export function readSmallText(path: string): string | null {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > MAX_SMALL) return null;
    const bytes = Buffer.alloc(stat.size);
    return bytes.toString("utf8", 0, readSync(fd, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(fd);
  }
}

/** Empty: there is no such directory, or it cannot be read. */
export function entriesOf(path: string): readonly Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if (isErrno(error)) return [];
    throw error;
  }
}

/** It exists, belongs to root like all directories above it, and nobody else may change any of them. */
export function isRootOnly(path: string): boolean {
  try {
    if (realpathSync(path) !== path) return false;
    for (let at = path; ; at = dirname(at)) {
      const { uid, mode } = lstatSync(at);
      if (uid !== 0 || (mode & 0o022) !== 0) return false;
      if (dirname(at) === at) return true;
    }
  } catch (error) {
    if (isErrno(error)) return false;
    throw error;
  }
}
