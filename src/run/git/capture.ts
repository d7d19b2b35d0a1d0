/**
 * All files of a checkout that git does not ignore, as a git tree. Writes nothing into the repository: a copy of its index gets the
 * content of the files that differ from it, and the new objects go into a directory of Reprise.
 */
import { accessSync, constants, copyFileSync, linkSync, mkdirSync, rmSync, statSync } from "node:fs";
import { type BigIntStats, chmodSync, utimesSync, writeFileSync } from "node:fs";
import { isUtf8 } from "node:buffer";
import { dirname, join } from "node:path";
import { isErrno } from "../../core/errno.ts";
import { storageFault } from "../../state/files.ts";
import { checkedOutAt, gitFilesAt } from "./head.ts";
import {
  ask,
  type Asking,
  assertPlainFiles,
  bytesOf,
  listFiles,
  type Listing,
  look,
  unread,
} from "./listing.ts";
import type { Git } from "./place.ts";

export interface CapturePlan extends Asking {
  /** An empty directory of Reprise, for the index and the new objects. */
  readonly place: string;
  /** Other directories with objects that the tree may need. */
  readonly objects: readonly string[];
  /** Bytes of content to keep at most. */
  readonly room: number;
  /** More files that differ from the index are a Fault. */
  readonly mostPaths: number;
  /** Files that are stand-ins in the tree to compare with, and so in this one, even if they equal the index. */
  readonly standIns: ReadonlySet<string>;
  /** Files that count although git ignores them. */
  readonly also: readonly string[];
  /** Since when an agent may change files, in milliseconds. Null: not yet. */
  readonly changingSince: () => number | null;
}

/** Paths have one character per byte. */
export interface Captured {
  /** With these variables, git sees the copy of the index and all objects. */
  readonly env: Readonly<Record<string, string>>;
  /** Files whose content is not in the tree: a line about their size and time stands for it. */
  readonly standIns: readonly string[];
  /** Repositories in the checkout. The tree has their commit, and nothing of their files. */
  readonly repositories: readonly string[];
  /** Files that an agent may have changed first. The tree has them as the index does. */
  readonly unsure: readonly string[];
  /** An agent may have changed files before they were read, and nothing proves that it did not. */
  readonly isLate: boolean;
}

/** Larger files are stand-ins. Git shows no lines of them either (`core.bigFileThreshold`). */
export const LARGE_BYTES = 8 << 20;

/** The kernel's clock for files may be this much behind. */
const TICK_MS = 20;
/** Looking at more files would take too long. */
const MOST_PROVEN = 200_000;

export async function capture(git: Git, plan: CapturePlan): Promise<Captured> {
  const { top, place } = plan;
  const files = gitFilesAt(top);
  if (files === null) throw unread(top, "its .git leads nowhere");
  const [index, first] = [join(place, "index"), join(place, "index-first")];
  const objects = join(place, "objects");
  assertPlainFiles(top);
  assertReadable(top, files.index);
  try {
    mkdirSync(objects, { mode: 0o700 });
    copyIndex(files.index, first);
  } catch (error) {
    throw storageFault(error, "write", place);
  }
  const env = {
    GIT_INDEX_FILE: index,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: [files.objects, ...plan.objects].map(quotedPath).join(":"),
  };
  const listing = await listFiles(git, plan, { ...env, GIT_INDEX_FILE: first });
  const listed = toRead(plan, listing);
  const unsure = new Set<string>();
  for (;;) {
    const entries = examine(plan, listed);
    for (const entry of entries) if (isLate(plan, entry)) unsure.add(entry.path);
    const early = entries.filter(({ path }) => !unsure.has(path));
    // Git replaces an index, so the first one stays as it is.
    link(first, index);
    await update(git, plan, env, early);
    const fresh = early.filter((entry) => isLate(plan, entry));
    for (const { path } of fresh) unsure.add(path);
    if (fresh.length > 0) continue;
    const isProven = unsure.size === 0 && (await wasQuiet(plan, [...listing.tracked, ...listed]));
    rmSync(first, { force: true });
    const standIns = early.filter(({ standIn }) => standIn !== null).map(({ path }) => path);
    const { repositories } = listing;
    return { env, standIns, repositories, unsure: [...unsure], isLate: !isProven };
  }
}

/** The tree's id. The index is not needed any more. */
export async function writeTree(git: Git, plan: CapturePlan, { env }: Captured): Promise<string> {
  // A partial clone lacks objects of files that are not checked out.
  return (await ask(git, plan, ["write-tree", "--missing-ok"], { env })).trim();
}

function assertReadable(top: string, index: string): void {
  try {
    accessSync(index, constants.R_OK);
  } catch (error) {
    // A repository without commits may have no index.
    if (isErrno(error, "ENOENT", "ENOTDIR")) return;
    if (!isErrno(error)) throw error;
    throw unread(top, `${index} cannot be read (${error.code})`);
  }
}

function copyIndex(from: string, to: string): void {
  try {
    copyFileSync(from, to);
    chmodSync(to, 0o600);
    // Git trusts a file's time only if the file is older than the index. A newer copy would hide a change of the same size
    // that was made in the second in which the index was written.
    const seconds = Math.floor(statSync(from).mtimeMs / 1_000);
    utimesSync(to, seconds, seconds);
  } catch (error) {
    // A repository without commits may have no index.
    if (!isErrno(error, "ENOENT")) throw error;
  }
}

function link(first: string, index: string): void {
  rmSync(index, { force: true });
  try {
    linkSync(first, index);
  } catch (error) {
    if (isErrno(error, "ENOENT")) return;
    copyIndex(first, index);
  }
}

/** A colon separates paths in this variable, unless the path is quoted as in C. */
function quotedPath(path: string): string {
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll("\n", String.raw`\n`)}"`;
}

function toRead(plan: CapturePlan, { changed }: Listing): readonly string[] {
  const paths = new Set(changed);
  if (paths.size > plan.mostPaths)
    throw unread(plan.top, `${paths.size} files are uncommitted, and at most ${plan.mostPaths} can be kept`);
  for (const path of [...plan.standIns, ...plan.also]) {
    if ((look(plan.top, `${path}/.git`) ?? null) !== null) paths.add(`${path}/`);
    else if (isFileAt(plan.top, path)) paths.add(path);
  }
  return [...paths];
}

interface Entry {
  readonly path: string;
  readonly isMissing: boolean;
  /** What stands for the content. Null: the content itself. */
  readonly standIn: { readonly mode: string; readonly text: string } | null;
}

/** Missing files and folders first: a file can take the place of a folder, and a folder that of a file. */
function examine(plan: CapturePlan, listed: readonly string[]): readonly Entry[] {
  const links = new Map<string, boolean>();
  const found = listed
    .map((path) => ({ path, stat: look(plan.top, path) }))
    .filter(({ path, stat }) => stat !== undefined && !isBehindLink(plan.top, path, links));
  const rank = (stat: BigIntStats | null | undefined) => (stat?.isFile() === true ? Number(stat.size) : -1);
  found.sort((one, other) => rank(one.stat) - rank(other.stat));
  let { room } = plan;
  return found.map(({ path, stat = null }): Entry => {
    if (stat === null) return { path, isMissing: true, standIn: null };
    if (path.endsWith("/")) return nestedRepository(plan.top, path.slice(0, -1));
    const size = Number(stat.size);
    const isKept = size <= LARGE_BYTES && size <= room && !plan.standIns.has(path);
    if (!stat.isFile() || (isKept && isReadable(plan.top, path))) {
      if (stat.isFile()) room -= size;
      return { path, isMissing: false, standIn: null };
    }
    const at = `${new Date(Number(stat.mtimeMs)).toISOString()} (${stat.mtimeNs}, inode ${stat.ino})`;
    const text = `Reprise keeps no content of this file: ${size} bytes, modified ${at}\n`;
    const mode = (stat.mode & 0o100n) === 0n ? "100644" : "100755";
    return { path, isMissing: false, standIn: { mode, text } };
  });
}

export function isFileAt(top: string, path: string): boolean {
  return look(top, path)?.isDirectory() === false;
}

/** Git follows no link within a checkout: the link itself is in the list. */
function isBehindLink(top: string, path: string, known: Map<string, boolean>): boolean {
  const parent = dirname(path.replace(/\/$/, ""));
  if (parent === ".") return false;
  let found = known.get(parent);
  if (found === undefined) {
    found = look(top, parent)?.isSymbolicLink() === true || isBehindLink(top, parent, known);
    known.set(parent, found);
  }
  return found;
}

function isReadable(top: string, path: string): boolean {
  try {
    accessSync(bytesOf(top, path), constants.R_OK);
    return true;
  } catch (error) {
    if (isErrno(error)) return false;
    throw error;
  }
}

/** Git lists a repository inside of the checkout that is no submodule by its name alone. */
function nestedRepository(top: string, path: string): Entry {
  const bytes = bytesOf(top, path);
  const at = isUtf8(bytes) ? checkedOutAt(bytes.toString()) : null;
  const commit = at !== null && at.top === bytes.toString() ? at.commit : null;
  const text = `Reprise keeps no content of this git repository: ${commit ?? "no commit"}\n`;
  return { path, isMissing: false, standIn: { mode: "100644", text } };
}

/**
 * True: nothing changed between the agent's start and the reading of the files. A file that was put back or removed in that
 * time is not in the list: it shows by its own time, or by that of its folder. Git compares seconds, so it cannot tell.
 */
async function wasQuiet(plan: CapturePlan, files: readonly string[]): Promise<boolean> {
  const since = plan.changingSince();
  if (since === null) return true;
  if (files.length > MOST_PROVEN) return false;
  const paths = new Set<string>();
  for (const path of files) for (let at = path; !paths.has(at); at = dirname(at)) paths.add(at);
  paths.delete("");
  let count = 0;
  for (const path of paths) {
    const stat = look(plan.top, path);
    if (stat === undefined) return false;
    // An entry of a folder changes its modification time; a backup or a link may change its other time.
    const time = stat?.isDirectory() === true ? stat.mtimeMs : stat?.ctimeMs;
    if (time !== undefined && Number(time) >= since - TICK_MS) return false;
    count += 1;
    if (count % 1_000 === 0) await new Promise((next) => setImmediate(next));
  }
  return true;
}

/** An agent may have changed the file before it was read, or removed it. */
function isLate({ top, changingSince }: CapturePlan, { path, isMissing }: Entry): boolean {
  const since = changingSince();
  if (since === null) return false;
  let at = path;
  let stat = look(top, at);
  if (!isMissing && stat === null) return true;
  while (stat === null && at !== ".") {
    at = dirname(at);
    stat = look(top, at);
  }
  return stat === null || stat === undefined || Number(stat.ctimeMs) >= since - TICK_MS;
}

async function update(
  git: Git,
  plan: CapturePlan,
  env: Readonly<Record<string, string>>,
  entries: readonly Entry[],
): Promise<void> {
  const plain = entries.filter(({ standIn }) => standIn === null).map(({ path }) => `${path}\0`);
  const options = { env, stdin: Buffer.from(plain.join(""), "latin1") };
  if (plain.length > 0)
    await ask(git, plan, ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"], options);
  const others = entries.flatMap(({ path, standIn }) => (standIn === null ? [] : [{ path, ...standIn }]));
  if (others.length === 0) return;
  const names = others.map(({ text }, at) => {
    const name = join(plan.place, `stand-in-${at}`);
    writeFileSync(name, text, { mode: 0o600 });
    return name;
  });
  const stored = await ask(git, plan, ["hash-object", "-w", "--no-filters", "--stdin-paths"], {
    env,
    stdin: names.map((name) => `${name}\n`).join(""),
  });
  for (const name of names) rmSync(name);
  const ids = stored.trim().split("\n");
  const lines = others.map(({ mode, path }, at) => `${mode} ${ids[at]}\t${path}\0`).join("");
  await ask(git, plan, ["update-index", "-z", "--index-info"], { env, stdin: Buffer.from(lines, "latin1") });
}
