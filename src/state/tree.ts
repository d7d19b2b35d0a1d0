/** Compares the files of a working tree byte for byte with a commit. Reads, never writes. */
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  readSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { storageFault, openToRead } from "./files.ts";
import { fileSize, readSmallText, spelled } from "./places.ts";

/** One entry of a commit, as `git ls-tree` prints it. */
export interface TreeEntry {
  /** `100644`, `100755`, `120000` (a link) or `160000` (a submodule). */
  readonly mode: string;
  readonly id: string;
}

/** All paths are below the root, with one character per byte (latin1), because names need not be UTF-8. */
export interface TreeDifference {
  /** In both, with different bytes. */
  readonly changed: readonly string[];
  /** In both, but of another type, or executable in only one of them. */
  readonly altered: readonly string[];
  /** Only in the commit. */
  readonly missing: readonly string[];
  /** Only on the disk; a directory that the commit lacks entirely is listed once, with a trailing slash. */
  readonly extra: readonly string[];
  /** Non-empty directories of submodules. */
  readonly submodules: readonly string[];
}

interface Walk {
  readonly root: string;
  readonly entries: ReadonlyMap<string, TreeEntry>;
  /** Every directory that the commit has. */
  readonly directories: ReadonlySet<string>;
  readonly modes: boolean;
  readonly changed: string[];
  readonly altered: string[];
  readonly extra: string[];
  readonly submodules: string[];
  readonly seen: Set<string>;
}

/** `modes`: whether the file system supports executable bits. Throws a fault that names an unreadable file. */
export function compareTree(
  root: string,
  entries: ReadonlyMap<string, TreeEntry>,
  modes: boolean,
): TreeDifference {
  const directories = new Set<string>();
  for (const path of entries.keys()) {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1))
      directories.add(path.slice(0, at));
  }
  const walk: Walk = {
    root,
    entries,
    directories,
    modes,
    changed: [],
    altered: [],
    extra: [],
    submodules: [],
    seen: new Set(),
  };
  look(walk, "");
  const missing = [...entries].filter(([path, { mode }]) => mode !== SUBMODULE && !walk.seen.has(path));
  return { ...walk, missing: missing.map(([path]) => path) };
}

const SUBMODULE = "160000";
const LINK = "120000";

/** A path with one character per byte, as bytes for the system. */
export function pathIn(root: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, "latin1")]);
}

interface Name {
  /** One character per byte. */
  readonly name: string;
  readonly isDirectory: boolean;
}

function namesIn(directory: Buffer): readonly Name[] {
  try {
    return readdirSync(directory, { withFileTypes: true, encoding: "buffer" }).map((entry) => ({
      name: entry.name.toString("latin1"),
      isDirectory: entry.isDirectory(),
    }));
  } catch (error) {
    throw unreadable(error, directory);
  }
}

/** The longest path to show. */
const SHOWN = 300;

function unreadable(error: unknown, path: Buffer): unknown {
  const name = spelled(path);
  return storageFault(error, "read", name.length > SHOWN ? `${name.slice(0, SHOWN)}…` : name);
}

function look(walk: Walk, directory: string): void {
  for (const { name, isDirectory } of namesIn(pathIn(walk.root, directory))) {
    const path = directory === "" ? name : `${directory}/${name}`;
    if (path === ".git") continue;
    const entry = walk.entries.get(path);
    walk.seen.add(path);
    if (entry?.mode === SUBMODULE) {
      if (!isDirectory) walk.altered.push(path);
      else if (namesIn(pathIn(walk.root, path)).length > 0) walk.submodules.push(path);
    } else if (isDirectory) {
      if (entry !== undefined) walk.altered.push(path);
      else if (walk.directories.has(path)) look(walk, path);
      else if (holdsFile(pathIn(walk.root, path))) walk.extra.push(`${path}/`);
    } else if (entry === undefined) walk.extra.push(path);
    else compare(walk, path, entry);
  }
}

/** Git keeps no empty directories, so they contain no work. */
function holdsFile(directory: Buffer): boolean {
  return namesIn(directory).some(
    ({ name, isDirectory }) => !isDirectory || holdsFile(below(directory, name)),
  );
}

function below(directory: Buffer, name: string): Buffer {
  return Buffer.concat([directory, Buffer.from(`/${name}`, "latin1")]);
}

function compare({ root, modes, changed, altered }: Walk, path: string, { mode, id }: TreeEntry): void {
  const file = pathIn(root, path);
  const algorithm = id.length === 64 ? "sha256" : "sha1";
  try {
    const stat = lstatSync(file);
    if (mode === LINK) {
      if (!stat.isSymbolicLink()) return void altered.push(path);
      const target = readlinkSync(file, { encoding: "buffer" });
      const linked = createHash(algorithm).update(`blob ${target.length}\0`).update(target).digest("hex");
      return void (linked === id || altered.push(path));
    }
    const isExecutable = (stat.mode & 0o100) !== 0;
    if (!stat.isFile() || (modes && (mode === "100755") !== isExecutable)) altered.push(path);
    else if (hashFile(file, algorithm, (size) => `blob ${size}\0`) !== id) changed.push(path);
  } catch (error) {
    throw unreadable(error, file);
  }
}

/** A repository in a directory that git ignores. */
export interface FoundRepository {
  /** The directory with its `.git`, or the bare repository itself. */
  readonly path: Buffer;
  readonly bare: boolean;
}

/** At and below the directory, without repositories nested in a found one. */
export function repositoriesBelow(directory: Buffer): readonly FoundRepository[] {
  const names = namesIn(directory);
  if (names.some(({ name }) => name === ".git") && leadsToRepository(directory))
    return [{ path: directory, bare: false }];
  if (isRepository(names)) return [{ path: directory, bare: true }];
  return names
    .filter(({ name, isDirectory }) => isDirectory && name !== ".git")
    .flatMap(({ name }) => repositoriesBelow(below(directory, name)));
}

/** Includes a repository without HEAD: its objects could be lost. */
function isRepository(names: readonly Name[]): boolean {
  const has = (wanted: string) => names.some(({ name, isDirectory }) => isDirectory && name === wanted);
  return has("objects") && has("refs");
}

/** Some packages ship the `.git` file of a submodule, which leads nowhere. */
function leadsToRepository(directory: Buffer): boolean {
  const link = below(directory, ".git");
  try {
    if (statSync(link, { throwIfNoEntry: false })?.isDirectory() === true) return isRepository(namesIn(link));
  } catch (error) {
    throw unreadable(error, link);
  }
  const named = /^gitdir: (.+)\n?$/.exec(readSmallText(link, "latin1") ?? "")?.[1];
  if (named === undefined) return false;
  return existsSync(named.startsWith("/") ? Buffer.from(named, "latin1") : below(directory, named));
}

const CHUNK = 1 << 20;

/** Null: unreadable, or growing meanwhile. */
export function hashFile(
  file: string | Buffer,
  algorithm: string,
  head: (size: number) => string,
): string | null {
  let fd: number;
  try {
    fd = openToRead(file);
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
  try {
    const { size } = fstatSync(fd);
    const hash = createHash(algorithm).update(head(size));
    const chunk = Buffer.alloc(Math.min(CHUNK, size + 1));
    let read = 0;
    for (let n = readSync(fd, chunk); n > 0; n = readSync(fd, chunk)) {
      hash.update(chunk.subarray(0, n));
      read += n;
    }
    return read === size ? hash.digest("hex") : null;
  } finally {
    closeSync(fd);
  }
}

const CACHE = "Signature: 8a477f597d28d172789f06886806bc55";

/** Whether the folder marks itself as reproducible: a cache by its tag, or a Python environment. */
export function isCache(root: string, folder: string): boolean {
  if (folder === ".") return false;
  const own = pathIn(root, folder).toString();
  return (
    readSmallText(join(own, "CACHEDIR.TAG"))?.startsWith(CACHE) === true ||
    fileSize(join(own, "pyvenv.cfg")) !== null
  );
}

/** The kind of the entry at a path with one character per byte, without following a link. Null: no entry. */
export function kindAt(root: string, path: string): "link" | "other" | null {
  const file = pathIn(root, path);
  try {
    const stat = lstatSync(file, { throwIfNoEntry: false });
    return stat === undefined ? null : stat.isSymbolicLink() ? "link" : "other";
  } catch (error) {
    if (isErrno(error, "ENOTDIR")) return null;
    throw unreadable(error, file);
  }
}
