/**
 * Reads and replaces files of the user's repository: bounded, never through a link that leaves the repository, atomic,
 * with their own mode.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { removeQuietly, storageFault, writeFully } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import { invalid } from "./source.ts";

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Where a file or folder of the repository really is, every link resolved; null: nothing is there. `shown` is its path in
 * the repository. Whoever wrote the repository chose its links: what leaves it is refused before anything is read.
 */
export function placeIn(root: string, shown: string): string | null {
  const path = join(root, shown);
  let real: string;
  let way: string;
  try {
    real = realpathSync(path);
    way = relative(realpathSync(root), real);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return null;
    if (hasCode(error, "ELOOP")) throw invalid(shown, "it is a symbolic link that leads back to itself");
    throw storageFault(error, "read", path);
  }
  if (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return real;
  throw new Fault(
    "outside_repository",
    `${shown} leads out of the repository by a symbolic link, to ${real}. Nothing there was read or changed. ` +
      `Put the files themselves into ${root}, or remove the link.`,
    { facts: { repository: root, path: shown, target: real } },
  );
}

/** The names in a folder of the repository; none where there is no such folder. */
export function namesIn(root: string, shown: string): readonly string[] {
  const folder = placeIn(root, shown);
  if (folder === null) return [];
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "read", folder);
  }
}

/** Null: there is no such file. `shown` is its path in the repository, also in messages. */
export function readText(root: string, shown: string, maxBytes: number): string | null {
  const folder = placeIn(root, dirname(shown));
  if (folder === null) return null;
  const path = join(folder, basename(shown));
  let fd: number;
  try {
    fd = openSync(path, READ);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return null;
    if (hasCode(error, "ELOOP")) {
      placeIn(root, shown);
      throw invalid(shown, "it is a symbolic link, which is not followed");
    }
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
export function replaceText(root: string, shown: string, text: string): void {
  const path = join(placeIn(root, dirname(shown)) ?? join(root, dirname(shown)), basename(shown));
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

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
