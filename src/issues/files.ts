/** Reads and replaces files of the user's repository: bounded, never through a link, atomic, with their own mode. */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { removeQuietly, storageFault, writeFully } from "../audit/audit.ts";
import { invalid } from "./source.ts";

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** Null: there is no such file. `shown` is its name in messages. */
export function readText(path: string, shown: string, maxBytes: number): string | null {
  let fd: number;
  try {
    fd = openSync(path, READ);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    if (code === "ELOOP") throw invalid(shown, "it is a symbolic link, which is not followed");
    throw storageFault(error, "read", path);
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw invalid(shown, "it is not a regular file");
    if (stats.size > maxBytes) throw invalid(shown, `it has ${stats.size} bytes, more than ${maxBytes}`);
    const bytes = readFileSync(fd);
    const text = bytes.toString("utf8");
    // Whatever is not UTF-8 would be written back as something else.
    if (!Buffer.from(text).equals(bytes)) throw invalid(shown, "it is not UTF-8 text");
    return text;
  } finally {
    closeSync(fd);
  }
}

/** Whoever reads it, also after a crash, finds the old or the new text whole. */
export function replaceText(path: string, text: string): void {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    const mode = modeOf(path);
    const fd = openSync(temporary, CREATE, mode);
    try {
      fchmodSync(fd, mode);
      writeFully(fd, Buffer.from(text));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    throw storageFault(error, "write", path);
  }
}

function modeOf(path: string): number {
  const fd = openSync(path, READ);
  try {
    return fstatSync(fd).mode & 0o777;
  } finally {
    closeSync(fd);
  }
}
