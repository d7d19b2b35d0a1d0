/** The user's directories and programs that a run refers to: read, never written. */
import { isUtf8 } from "node:buffer";
import {
  accessSync,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  readdirSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { storageFault, openToRead } from "./files.ts";

/** The real path of a directory for an agent. */
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
    // The current directory itself is gone, whatever the given path.
    if (isErrno(error) && error.syscall === "uv_cwd") throw error;
    const raw = isErrno(error, "ENOENT", "ENOTDIR") ? unspeakableName(path) : null;
    if (raw !== null) throw notUtf8(raw);
    if (isErrno(error, "ENOENT", "ENOTDIR")) return refuse("does not exist");
    if (isErrno(error, "EACCES", "EPERM")) return refuse("cannot be read");
    if (isErrno(error, "ELOOP", "ENAMETOOLONG")) return refuse("is not a usable path");
    throw error;
  }
}

/** A directory whose name Node cannot represent, because part of it is not UTF-8. Null: nothing is there. */
function unspeakableName(path: string): string | null {
  try {
    // The system's function knows the current directory without a name.
    const real = realpathSync.native(path, "buffer");
    return isUtf8(real) ? null : spelled(real);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
}

/** A path for display; bytes that are not UTF-8 are escaped. */
export function spelled(path: Buffer): string {
  if (isUtf8(path)) return path.toString();
  return path
    .toString("latin1")
    .replaceAll(/[^ -~]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function notUtf8(path: string): Fault {
  return new Fault(
    "cwd_invalid",
    `"${path}" has a name that is not valid UTF-8, and Reprise could not record it or pass it on. Rename it, or work elsewhere.`,
    { facts: { path } },
  );
}

/** Null: nothing is there. A place without access is a fault: its content is unknown. */
function look(path: string): Stats | null {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch (error) {
    throw storageFault(error, "look at", path);
  }
}

export function isDirectory(path: string): boolean {
  return look(path)?.isDirectory() ?? false;
}

/** A missing one counts as empty. */
export function isEmptyDirectory(path: string): boolean {
  if (!isDirectory(path)) return true;
  try {
    return readdirSync(path).length === 0;
  } catch (error) {
    throw storageFault(error, "read", path);
  }
}

/** Null: no such file. */
export function fileSize(path: string): number | null {
  return look(path)?.size ?? null;
}

/** 0: no such file. */
export function modifiedAtMs(path: string): number {
  return look(path)?.mtimeMs ?? 0;
}

/** False: the file system shows another mode than Reprise gave the file. */
export function keepsModes(record: string): boolean {
  const mode = look(record)?.mode;
  return mode === undefined || (mode & 0o777) === 0o600;
}

/** Changes with every replacement or rewrite of the file. */
export function fileStamp(path: string): string {
  const stat = look(path) ?? undefined;
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

export const MAX_SMALL = 16 << 20;

/** A regular file of at most 16 MiB. Null: missing or unreadable. */
export function readSmallText(path: string | Buffer, encoding: "utf8" | "latin1" = "utf8"): string | null {
  let fd: number;
  try {
    fd = openToRead(path);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > MAX_SMALL) return null;
    const bytes = Buffer.alloc(stat.size);
    return bytes.toString(encoding, 0, readSync(fd, bytes, 0, bytes.length, 0));
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** Empty: no such directory. An unreadable one is a fault: Reprise could overlook something. */
export function entriesOf(path: string): readonly Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "read", path);
  }
}

/** It exists, it and all directories above belong to root, and only root may change them. */
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
