/**
 * An engine's session files. Reads defensively, because other programs write there, and changes nothing except to
 * restore a copy that the engine has lost.
 */
import { constants, type FSWatcher, watch } from "node:fs";
import {
  copyFile,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  unlink,
  type FileHandle,
} from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { errorCode } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import type { FileEntry, NewLines, DatabaseRow, SessionFiles } from "../engines/engine.ts";

export function sessionFiles(): SessionFiles {
  return { list, stat, head, tail, lines, rows };
}

/** The same store, as if the file at `path` existed with this content. */
export function sessionFilesWith(path: string, content: string): SessionFiles {
  const at = (asked: string) => (asked === path ? content : asked);
  const standIn = async (asked: string): Promise<FileEntry | null> => {
    const entry = await stat(content);
    return entry === null ? null : { ...entry, name: basename(asked), directory: asked !== path };
  };
  const leadsTo = (asked: string) => asked === path || path.startsWith(`${asked}/`);
  return {
    list: async (directory) => {
      const entries = await list(directory);
      const [name] = path.startsWith(`${directory}/`) ? path.slice(directory.length + 1).split("/") : [];
      if (name === undefined || entries.some((entry) => entry.name === name)) return entries;
      const missing = await standIn(join(directory, name));
      return missing === null ? entries : [...entries, missing];
    },
    stat: async (asked) => {
      const found = asked === path ? null : await stat(asked);
      return found ?? (leadsTo(asked) ? standIn(asked) : null);
    },
    head: (asked, bytes) => head(at(asked), bytes),
    tail: (asked, bytes) => tail(at(asked), bytes),
    lines: (asked, from, bytes) => lines(at(asked), from, bytes),
    rows,
  };
}

/** Puts a copy back into the engine's store, atomically. An existing file is never replaced: it is a Fault. */
export async function restoreFile(from: string, to: string): Promise<void> {
  const parent = dirname(to);
  const temporary = join(parent, `.${basename(to)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    await mkdir(parent, { recursive: true, mode: 0o700 });
    try {
      await copyFile(from, temporary, constants.COPYFILE_EXCL);
      await using copy = await opened(temporary, constants.O_RDWR);
      await copy.chmod(0o600);
      await copy.sync();
      // Unlike a rename, a link fails if the name exists.
      await link(temporary, to);
    } finally {
      await unlink(temporary).catch(() => {});
    }
    await using directory = await open(parent, constants.O_RDONLY);
    await directory.sync();
  } catch (cause) {
    throw restoreFault(cause, to);
  }
}

/**
 * Reports names that appear, disappear or change in a folder, not below it. Null: no such folder, or no watches left.
 * Callers also poll, because events may be lost.
 */
export function watchFolder(
  folder: string,
  listener: (kind: "rename" | "change", name: string | null) => void,
): { close(): void } | null {
  let watcher: FSWatcher;
  try {
    watcher = watch(folder, { persistent: false }, listener);
  } catch {
    return null;
  }
  watcher.on("error", () => watcher.close());
  return watcher;
}

async function list(directory: string): Promise<readonly FileEntry[]> {
  const names = await readdir(directory).catch(() => []);
  const entries = await Promise.all(names.map((name) => stat(join(directory, name))));
  return entries.filter((entry) => entry !== null);
}

/** Null for anything but regular files and directories: links, pipes and devices count as missing. */
async function stat(path: string): Promise<FileEntry | null> {
  try {
    const found = await lstat(path);
    if (!found.isFile() && !found.isDirectory()) return null;
    const { size, mtimeMs } = found;
    return { name: basename(path), directory: found.isDirectory(), size, mtimeMs };
  } catch {
    return null;
  }
}

function head(path: string, bytes: number): Promise<string | null> {
  return part(path, bytes, () => 0);
}

function tail(path: string, bytes: number): Promise<string | null> {
  return part(path, bytes, (size) => Math.max(0, size - bytes));
}

async function part(path: string, bytes: number, from: (size: number) => number): Promise<string | null> {
  try {
    await using file = await opened(path, constants.O_RDONLY);
    const { size } = await file.stat();
    return (await read(file, from(size), Math.min(bytes, size))).toString("utf8");
  } catch {
    return null;
  }
}

async function lines(path: string, from: number, bytes: number): Promise<NewLines | null> {
  try {
    await using file = await opened(path, constants.O_RDONLY);
    const { size } = await file.stat();
    if (size === from) return { lines: [], next: from };
    const behind = from > size ? 0 : from;
    const start = Math.max(behind, size - bytes);
    const buffer = await read(file, start, size - start);
    const end = buffer.lastIndexOf(0x0a) + 1;
    // A read that begins inside a line skips that line.
    const first = start === behind ? 0 : buffer.indexOf(0x0a) + 1;
    const text = buffer.toString("utf8", first, Math.max(first, end));
    return { lines: text.split("\n").slice(0, -1), next: start + end };
  } catch {
    return null;
  }
}

export interface LinesFrom {
  /** Without line breaks. */
  readonly lines: readonly string[];
  /** Where the next look begins: after the last whole line. */
  readonly next: number;
  readonly size: number;
  /** A line was longer than the limit and left out. */
  readonly cut: boolean;
}

/** A line that is longer than this is left out. */
const MAX_LINE = 8 * 1024 * 1024;

/** Whole lines from the byte `from` on, about `bytes` of them, oldest first. Null: unreadable. */
export async function linesFrom(path: string, from: number, bytes: number): Promise<LinesFrom | null> {
  try {
    await using file = await opened(path, constants.O_RDONLY);
    const { size } = await file.stat();
    const buffer = await read(file, from, Math.min(bytes, Math.max(0, size - from)));
    const end = buffer.lastIndexOf(0x0a) + 1;
    if (end > 0 || buffer.length < bytes) {
      const whole = end === 0 ? [] : buffer.toString("utf8", 0, end - 1).split("\n");
      return { lines: whole, next: from + end, size, cut: false };
    }
    const line = bytes >= MAX_LINE ? null : await linesFrom(path, from, MAX_LINE);
    if (line !== null) return line;
    return { lines: [], next: await nextLine(file, from + buffer.length), size, cut: true };
  } catch {
    return null;
  }
}

/** Where the line at this place ends. Without an end, the end of the file. */
async function nextLine(file: FileHandle, from: number): Promise<number> {
  for (let at = from; ;) {
    const chunk = await read(file, at, 1024 * 1024);
    const end = chunk.indexOf(0x0a);
    if (end !== -1) return at + end + 1;
    if (chunk.length === 0) return at;
    at += chunk.length;
  }
}

async function read(file: FileHandle, start: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(Math.max(0, bytes));
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, start + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.subarray(0, length);
}

/** A regular file. Opening neither follows a link nor blocks on a pipe. */
async function opened(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new Error(`${path} is not a regular file`);
}

const BUSY_MS = 1000;

async function rows(
  database: string,
  sql: string,
  values: readonly string[],
): Promise<readonly DatabaseRow[] | null> {
  try {
    const file = await stat(database);
    if (file === null || file.directory) return null;
    const { DatabaseSync } = await import("@photostructure/sqlite");
    const address = pathToFileURL(database);
    // SQLite creates both files of its write-ahead log even for a reader, unless told that it needs none (no log:
    // nothing is being written) or must use the existing ones.
    const log = await stat(`${database}-wal`);
    address.searchParams.set(log === null || log.size === 0 ? "immutable" : "readonly_shm", "1");
    const reader = new DatabaseSync(address.href, { readOnly: true, timeout: BUSY_MS });
    try {
      return reader.prepare(sql).all(...values) as DatabaseRow[];
    } finally {
      reader.close();
    }
  } catch {
    return null;
  }
}

/** Moves an engine's file aside in its folder, and returns the new path. */
export async function setAside(path: string, nowMs: number): Promise<string> {
  const aside = `${path}.set-aside-${nowMs}`;
  try {
    await rename(path, aside);
    return aside;
  } catch (error) {
    throw restoreFault(error, path);
  }
}

function restoreFault(cause: unknown, to: string): Fault {
  const code = errorCode(cause) ?? "unknown";
  const facts = { path: to, code };
  if (code === "EEXIST") {
    return new Fault(
      "storage_failed",
      `${to} already exists, and Reprise did not change it. Move it away first.`,
      {
        facts,
        cause,
      },
    );
  }
  const full = code === "ENOSPC" || code === "EDQUOT";
  return new Fault(
    full ? "storage_full" : "storage_failed",
    `The session could not be restored at ${to} (${code}).`,
    { facts, cause },
  );
}
