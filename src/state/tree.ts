/** Compares the files of a folder byte for byte, with a commit or with what they were. Reads, never writes. */
import { createHash, randomUUID } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  type Dirent,
  existsSync,
  fstatSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  readSync,
  type Stats,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { storageFault, openToRead } from "./files.ts";
import { fileSize, MAX_SMALL, readSmallText, realPath, spelled } from "./places.ts";

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

/** Finds the repositories in the directory and below it. Does not look inside a found one. */
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

/** Changes when something below the directory is made, written, replaced or removed, but not when the directory itself is renamed. */
export function treeStamp(directory: string): string {
  const hash = createHash("sha256");
  const open: Buffer[] = [Buffer.from(directory)];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const { name, isDirectory } of namesInReadable(at).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = below(at, name);
      const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      hash.update(JSON.stringify([name, ...stampOf(stat)]));
      if (isDirectory) open.push(path);
    }
  }
  return hash.digest("hex");
}

function stampOf(stat: BigIntStats | undefined): readonly string[] {
  if (stat === undefined) return [];
  return [stat.mode, stat.size, stat.mtimeNs, stat.ctimeNs].map(String);
}

function namesInReadable(directory: Buffer): readonly Name[] {
  try {
    return namesIn(directory);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [];
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

const MOST_ENTRIES = 10_000;
/** What else is in a folder counts by size and time. */
const MOST_BYTES = 128 << 20;

type Part = (content: string) => string;

/**
 * The SHA-256 digest of a file, or of all files below a folder with their names, without a repository's data. `unchanged` selects the relevant
 * part of a file of at most 16 MiB. What cannot be compared (too many entries, a pipe, a socket, no right to read it) has another
 * digest each time, which begins with "uncomparable". Null: missing, or a device.
 */
export function contentDigest(path: string, unchanged: Part = (content) => content): string | null {
  const stat = statOf(path);
  if (stat === null) return null;
  if (stat === "unreadable") return uncomparable();
  if (stat.isCharacterDevice() || stat.isBlockDevice()) return null;
  const real = realPath(path);
  if (real === null || !(stat.isFile() || stat.isDirectory())) return uncomparable();
  const walk = new ContentWalk(unchanged);
  if (stat.isDirectory()) return walk.folder(real);
  const word = walk.file(real, stat);
  return typeof word === "string" ? word : sha256(JSON.stringify(word));
}

function uncomparable(): string {
  return `uncomparable ${randomUUID()}`;
}

function sha256(content: string): string {
  return createHash("sha256").update(Buffer.from(content, "latin1")).digest("hex");
}

function statOf(path: string): Stats | "unreadable" | null {
  try {
    return statSync(path);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error)) return "unreadable";
    throw error;
  }
}

interface Place {
  /** Below the folder, by the names that lead there. */
  readonly name: string;
  /** Without links. */
  readonly real: string;
}

class ContentWalk {
  readonly #unchanged: Part;
  readonly #lines: string[] = [];
  /** Each directory is walked once, however many links lead to it. */
  readonly #walked = new Map<string, string>();
  #entries = 0;
  #bytes = 0;

  constructor(unchanged: Part) {
    this.#unchanged = unchanged;
  }

  folder(real: string): string {
    const links = this.#walk({ name: "", real });
    for (let link = links.shift(); link !== undefined; link = links.shift()) {
      if (this.#entries > MOST_ENTRIES) return uncomparable();
      links.push(...this.#follow(link));
    }
    if (this.#entries > MOST_ENTRIES) return uncomparable();
    return sha256(this.#lines.toSorted().join("\n"));
  }

  /** The links below, which are followed when all directories have been walked under their own names. */
  #walk(top: Place): Place[] {
    const open = [top];
    const links: Place[] = [];
    for (let at = open.shift(); at !== undefined; at = open.shift()) {
      if (this.#walked.has(at.real)) {
        this.#add(at.name, "same", this.#walked.get(at.real));
        continue;
      }
      this.#walked.set(at.real, at.name);
      for (const entry of this.#entriesIn(at)) {
        const place = { name: join(at.name, entry.name), real: join(at.real, entry.name) };
        if (this.#entries > MOST_ENTRIES) return [];
        if (entry.isDirectory()) open.push(place);
        else if (entry.isSymbolicLink()) links.push(place);
        else this.#addFile(place);
      }
    }
    return links;
  }

  #entriesIn({ name, real }: Place): readonly Dirent[] {
    try {
      const found = readdirSync(real, { withFileTypes: true }).filter((entry) => entry.name !== ".git");
      this.#entries += found.length;
      return found.toSorted((one, other) => (one.name < other.name ? -1 : 1));
    } catch (error) {
      if (!isErrno(error)) throw error;
      this.#add(name, "unreadable");
      return [];
    }
  }

  #follow({ name, real: link }: Place): readonly Place[] {
    const real = realPath(link);
    const stat = real === null ? null : statOf(real);
    if (real !== null && stat !== null && stat !== "unreadable" && stat.isDirectory())
      return this.#walk({ name, real });
    if (real === null) this.#add(name, sha256(this.#unchanged("")));
    else this.#addFile({ name, real });
    return [];
  }

  #addFile({ name, real }: Place): void {
    const stat = statOf(real);
    if (stat === null || stat === "unreadable") this.#add(name, "unreadable");
    else if (stat.isFile()) this.#add(name, ...[this.file(real, stat)].flat());
    else this.#add(name, "special", stat.mode, stat.rdev);
  }

  #add(...words: readonly unknown[]): void {
    this.#lines.push(JSON.stringify(words));
  }

  /** The digest of its content, or else what changes with it. */
  file(real: string, stat: Stats): string | readonly unknown[] {
    const known = ["size", stat.size, stat.mtimeMs, stat.ctimeMs];
    if (this.#bytes + stat.size > MOST_BYTES) return known;
    this.#bytes += stat.size;
    if (stat.size > MAX_SMALL) return hashFile(real, "sha256", () => "") ?? known;
    const content = readSmallText(real, "latin1");
    return content === null ? known : sha256(this.#unchanged(content));
  }
}
