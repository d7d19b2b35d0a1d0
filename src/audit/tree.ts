/** The files of a working tree, compared byte for byte with what a commit says they are. Reads, never writes. */
import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
} from "node:fs";
import { join } from "node:path";
import { isErrno } from "./files.ts";

/** One entry of a commit, as `git ls-tree` prints it. */
export interface TreeEntry {
  /** `100644`, `100755`, `120000` (a link) or `160000` (a submodule). */
  readonly mode: string;
  readonly id: string;
}

export interface TreeDifference {
  /** In both, with other bytes. */
  readonly changed: readonly string[];
  /** In both, but of another kind, or executable in one of them only. */
  readonly altered: readonly string[];
  /** In the commit only. */
  readonly missing: readonly string[];
  /** On the disk only; a directory of which the commit has nothing is named once, with a slash behind it. */
  readonly extra: readonly string[];
  /** Directories of submodules that are not empty. */
  readonly submodules: readonly string[];
}

interface Walk {
  readonly root: string;
  readonly entries: ReadonlyMap<string, TreeEntry>;
  /** Every directory that the commit has. */
  readonly directories: ReadonlySet<string>;
  readonly fileMode: boolean;
  readonly changed: string[];
  readonly altered: string[];
  readonly extra: string[];
  readonly submodules: string[];
  readonly seen: Set<string>;
}

/** `fileMode`: whether the file system can tell an executable file. */
export function compareTree(
  root: string,
  entries: ReadonlyMap<string, TreeEntry>,
  fileMode: boolean,
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
    fileMode,
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

function look(walk: Walk, directory: string): void {
  for (const found of readdirSync(join(walk.root, directory), { withFileTypes: true })) {
    const path = directory === "" ? found.name : `${directory}/${found.name}`;
    if (path === ".git") continue;
    // A name that is not valid UTF-8 cannot be compared with what git printed.
    const entry = found.name.includes("\uFFFD") ? undefined : walk.entries.get(path);
    walk.seen.add(path);
    if (entry?.mode === SUBMODULE) {
      if (!found.isDirectory()) walk.altered.push(path);
      else if (readdirSync(join(walk.root, path)).length > 0) walk.submodules.push(path);
    } else if (found.isDirectory()) {
      if (entry !== undefined) walk.altered.push(path);
      else if (walk.directories.has(path)) look(walk, path);
      else if (holdsFile(join(walk.root, path))) walk.extra.push(`${path}/`);
    } else if (entry === undefined) walk.extra.push(path);
    else compare(walk, path, entry);
  }
}

/** Git keeps no empty directories, so they hold no work. */
function holdsFile(directory: string): boolean {
  return readdirSync(directory, { withFileTypes: true }).some(
    (one) => !one.isDirectory() || holdsFile(join(directory, one.name)),
  );
}

function compare({ root, fileMode, changed, altered }: Walk, path: string, { mode, id }: TreeEntry): void {
  const file = join(root, path);
  const stat = lstatSync(file);
  const algorithm = id.length === 64 ? "sha256" : "sha1";
  if (mode === LINK) {
    if (!stat.isSymbolicLink()) return void altered.push(path);
    const target = readlinkSync(file, { encoding: "buffer" });
    const linked = createHash(algorithm).update(`blob ${target.length}\0`).update(target).digest("hex");
    return void (linked === id || altered.push(path));
  }
  const isExecutable = (stat.mode & 0o100) !== 0;
  if (!stat.isFile() || (fileMode && (mode === "100755") !== isExecutable)) altered.push(path);
  else if (hashFile(file, algorithm, (size) => `blob ${size}\0`) !== id) changed.push(path);
}

const CHUNK = 1 << 20;

/** Null: it cannot be read, or grows meanwhile. */
export function hashFile(file: string, algorithm: string, head: (size: number) => string): string | null {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
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
