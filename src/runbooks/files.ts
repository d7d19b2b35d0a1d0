/** Finds and reads runbook files without trusting their type. Never blocks. */
import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  opendirSync,
  readSync,
  realpathSync,
} from "node:fs";
import { statSync } from "node:fs";
import { basename, dirname, extname, isAbsolute, join, relative, resolve } from "node:path";
import { errorCode } from "../core/errno.ts";
import type { Env } from "../core/deps.ts";

export const FORMATS = [".toml", ".hcl", ".json"];
const FOLDER = "runbooks";
const MAX_BYTES = 1024 * 1024;
/** The most entries of a folder to look at. */
const MAX_ENTRIES = 10_000;

export interface RunbookFolder {
  readonly path: string;
  readonly level: "project" | "user";
  /** Prompt files must be below it; `cwd` of a project's runbook is relative to it. */
  readonly root: string;
}

/** The project's folder, from the directory up to the root of its repository, and the user's. */
export function runbookFolders(cwd: string, env: Env): readonly RunbookFolder[] {
  const user = userFolder(env);
  const project = projectFolder(cwd);
  const folders = project === null || project.path === user?.path ? [] : [project];
  return user !== null && isDirectory(user.path) ? [...folders, user] : folders;
}

function projectFolder(cwd: string): RunbookFolder | null {
  for (let directory = resolve(cwd); ; directory = dirname(directory)) {
    const path = join(directory, FOLDER);
    if (isDirectory(path)) return { path, level: "project", root: directory };
    if (existsSync(join(directory, ".git")) || dirname(directory) === directory) return null;
  }
}

function userFolder(env: Env): RunbookFolder | null {
  const home = env["HOME"];
  const base = env["XDG_CONFIG_HOME"] ?? (home === undefined ? undefined : join(home, ".config"));
  if (base === undefined || !isAbsolute(base)) return null;
  const root = join(base, "reprise");
  return { path: join(root, FOLDER), level: "user", root };
}

/** The folder for a file that is named directly. */
export function folderOf(file: string, env: Env): RunbookFolder {
  const path = dirname(resolve(file));
  const user = userFolder(env);
  if (user?.path === path) return user;
  return { path, level: "project", root: basename(path) === FOLDER ? dirname(path) : path };
}

/** Runbook files by name; `tooMany`: some files were not listed. */
export function runbookFiles({ path }: RunbookFolder): { files: readonly string[]; tooMany: boolean } {
  const names: string[] = [];
  const directory = opendirSync(path);
  try {
    for (let seen = 0; ; seen += 1) {
      const entry = directory.readSync();
      if (entry === null) break;
      if (seen >= MAX_ENTRIES) return { files: sorted(path, names), tooMany: true };
      if (FORMATS.includes(extname(entry.name)) && !entry.name.startsWith(".")) names.push(entry.name);
    }
  } finally {
    directory.closeSync();
  }
  return { files: sorted(path, names), tooMany: false };
}

function sorted(path: string, names: readonly string[]): readonly string[] {
  return names.toSorted().map((name) => join(path, name));
}

export type Bytes = { readonly bytes: Buffer } | { readonly why: string };

/** The bytes of a regular file of at most 1 MiB. Never reads a pipe or a device. */
export function readRegular(path: string): Bytes {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    const code = codeOf(error);
    return { why: code === "ENOENT" || code === "ENOTDIR" ? "does not exist" : `cannot be read (${code})` };
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return { why: stat.isDirectory() ? "is a directory" : "is not a regular file" };
    if (stat.size > MAX_BYTES) return { why: "is larger than 1 MiB" };
    const buffer = Buffer.alloc(MAX_BYTES + 1);
    let length = 0;
    for (let got = -1; got !== 0 && length <= MAX_BYTES; length += got)
      got = readSync(fd, buffer, length, buffer.length - length, null);
    return length > MAX_BYTES ? { why: "is larger than 1 MiB" } : { bytes: buffer.subarray(0, length) };
  } catch (error) {
    return { why: `cannot be read (${codeOf(error)})` };
  } finally {
    closeSync(fd);
  }
}

export type PromptFile =
  | { readonly text: string; readonly path: string; readonly sha256: string }
  | { readonly why: string };

/** A prompt file: relative to the runbook, below the root after resolving links, UTF-8, not empty. */
export function readPromptFile(folder: RunbookFolder, name: string): PromptFile {
  if (name === "" || isAbsolute(name)) return { why: "is not a path relative to the runbook" };
  const path = join(folder.path, name);
  let real: string;
  let inside: string;
  try {
    real = realpathSync(path);
    inside = relative(realpathSync(folder.root), real);
  } catch (error) {
    return { why: codeOf(error) === "ENOENT" ? "does not exist" : `cannot be read (${codeOf(error)})` };
  }
  if (inside.startsWith("..") || isAbsolute(inside)) {
    return {
      why: folder.level === "project" ? "lies outside of the project" : `lies outside of ${folder.root}`,
    };
  }
  const read = readRegular(real);
  if ("why" in read) return read;
  const decoded = decode(read.bytes);
  if ("why" in decoded) return decoded;
  if (decoded.text.trim() === "") return { why: "is empty" };
  return { text: decoded.text, path, sha256: sha256(read.bytes) };
}

export type DecodedText =
  | { readonly text: string }
  | { readonly why: string; readonly offset: number; readonly shown: string };

/** UTF-8, with or without a byte order mark. `shown`, `offset`: the readable text, and where it becomes invalid. */
export function decode(bytes: Buffer): DecodedText {
  const utf16 = /^(?:\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0])/s.test(
    bytes.subarray(0, 4).toString("latin1"),
  );
  if (utf16) return { why: "looks like UTF-16; save it as UTF-8", offset: 0, shown: "" };
  const lossy = bytes.toString("utf8").replace(/^\uFEFF/, "");
  const zero = lossy.indexOf("\0");
  if (zero !== -1) return { why: "contains a zero byte", offset: zero, shown: lossy };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return { why: "is not UTF-8", offset: lossy.indexOf("\uFFFD"), shown: lossy };
  }
}

export function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

const codeOf = (error: unknown) => errorCode(error) ?? "unknown";
