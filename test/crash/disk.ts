/**
 * A disk as it may be after a power cut: built from the earlier content and a trace of every call since. Synced data is
 * there; other data is there, gone or torn, at random. Pure but for reading and writing whole trees.
 */
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, normalize } from "node:path";

/** In the order of `io.c`. */
const KINDS = [
  "",
  "create",
  "write",
  "sync",
  "rename",
  "link",
  "unlink",
  "mkdir",
  "rmdir",
  "truncate",
  "symlink",
  "said",
] as const;

export interface Op {
  readonly kind: (typeof KINDS)[number];
  readonly pid: number;
  /** said: the descriptor. */
  readonly inode: number;
  /** truncate: the length. */
  readonly offset: number;
  readonly path: string;
  /** rename and link: the new name. symlink: where it leads. */
  readonly other: string;
  readonly data: Buffer;
}

const HEAD = 40;

export function parseTrace(bytes: Buffer): Op[] {
  const ops: Op[] = [];
  const inodes = new Inodes();
  for (let at = 0; at + HEAD <= bytes.length;) {
    const [kind, pid] = [bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)];
    const [inode, offset] = [bytes.readBigUInt64LE(at + 8), bytes.readBigUInt64LE(at + 16)];
    const [path, other, data] = [24, 28, 32].map((field) => bytes.readUInt32LE(at + field)) as [
      number,
      number,
      number,
    ];
    const from = at + HEAD;
    at = from + path + other + data;
    const text = (start: number, length: number) => bytes.toString("utf8", start, start + length);
    const named = KINDS[kind] ?? "";
    ops.push({
      kind: named,
      pid,
      inode: named === "said" ? Number(inode) : inodes.idOf(named, Number(inode)),
      offset: Number(offset),
      path: normalize(text(from, path)).replace(/(.)\/$/, "$1"),
      other: kind === 10 ? text(from + path, other) : normalize(text(from + path, other)),
      data: Buffer.from(bytes.subarray(from + path + other, at)),
    });
  }
  return ops;
}

/** A file system gives the number of a removed file to the next one: here each file has a unique number. */
class Inodes {
  readonly #ids = new Map<number, number>();
  #made = 0;

  idOf(kind: Op["kind"], inode: number): number {
    // What was there before the trace keeps its own number; no real one is negative.
    if (kind === "create" || kind === "mkdir" || kind === "symlink") this.#ids.set(inode, -(this.#made += 1));
    return this.#ids.get(inode) ?? inode;
  }
}

export interface Node {
  readonly type: "file" | "directory" | "link";
  readonly mode: number;
  /** Of a link: where it leads. */
  readonly content: Buffer;
}

/** By path; a path of a file and its inode. */
export interface Tree {
  readonly nodes: ReadonlyMap<number, Node>;
  readonly names: ReadonlyMap<string, number>;
}

export function readTree(root: string, except: (path: string) => boolean): Tree {
  const nodes = new Map<number, Node>();
  const names = new Map<string, number>();
  for (const name of ["", ...readdirSync(root, { recursive: true, encoding: "utf8" })]) {
    const path = join(root, name);
    const stats = lstatSync(path);
    if (except(path) || !(stats.isFile() || stats.isDirectory() || stats.isSymbolicLink())) continue;
    const type = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "link";
    const content =
      type === "file" ? readFileSync(path) : Buffer.from(type === "link" ? readlinkSync(path) : "");
    nodes.set(stats.ino, { type, mode: stats.mode & 0o777, content });
    names.set(path.replace(/(.)\/$/, "$1"), stats.ino);
  }
  return { nodes, names };
}

/** Replaces the existing tree by this one, except for files outside of it. */
export function writeTree(root: string, tree: Tree, except: (path: string) => boolean): void {
  for (const name of readdirSync(root))
    if (!except(join(root, name))) rmSync(join(root, name), { recursive: true, force: true });
  for (const path of [...tree.names.keys()].toSorted()) {
    const node = tree.nodes.get(tree.names.get(path) ?? 0);
    if (node === undefined || path === root) continue;
    if (node.type === "directory") mkdirSync(path, { mode: node.mode });
    else if (node.type === "link") symlinkSync(node.content.toString(), path);
    else writeFileSync(path, node.content, { mode: node.mode });
  }
}

export interface Cut {
  /** So many calls were made. */
  readonly at: number;
  /**
   * journal: names change in the order of the calls, and any sync makes all names before it last (ext4).
   * worst: a name lasts only when its directory was synced.
   */
  readonly model: "journal" | "worst";
  readonly chance: () => number;
  /** True: this is written by programs that the power cut is not about, and stays as it was. */
  readonly spared: (path: string) => boolean;
}

export function afterCut(before: Tree, ops: readonly Op[], cut: Cut): Tree {
  const done = ops.slice(0, cut.at);
  return { nodes: contents(before, done, cut), names: reachable(before, done, cut) };
}

/** What each file holds: all that was synced, and any of the rest. */
function contents(before: Tree, ops: readonly Op[], { spared, chance }: Cut): Map<number, Node> {
  const nodes = new Map(before.nodes);
  const synced = new Map<number, number>();
  for (const [at, op] of ops.entries()) if (op.kind === "sync") synced.set(op.inode, at);
  for (const [at, op] of ops.entries()) {
    const node = nodes.get(op.inode);
    const lasts = spared(op.path) || at < (synced.get(op.inode) ?? -1);
    if (op.kind === "create") nodes.set(op.inode, { type: "file", mode: 0o600, content: Buffer.alloc(0) });
    else if (op.kind === "mkdir")
      nodes.set(op.inode, { type: "directory", mode: 0o700, content: Buffer.alloc(0) });
    else if (op.kind === "symlink")
      nodes.set(op.inode, { type: "link", mode: 0o777, content: Buffer.from(op.other) });
    else if (node !== undefined && op.kind === "truncate" && (lasts || chance() < 0.5))
      nodes.set(op.inode, { ...node, content: resized(node.content, op.offset) });
    else if (node !== undefined && op.kind === "write")
      nodes.set(op.inode, { ...node, content: written(node.content, op, lasts ? null : chance) });
  }
  return nodes;
}

function resized(content: Buffer, length: number): Buffer {
  const next = Buffer.alloc(length);
  content.copy(next);
  return next;
}

const SECTOR = 512;

/** Whole, not at all, or any of its sectors. */
function written(content: Buffer, { offset, data }: Op, chance: (() => number) | null): Buffer {
  const how = chance === null ? 1 : chance();
  if (how < 0.4) return content;
  const next = resized(content, Math.max(content.length, offset + data.length));
  if (chance === null || how > 0.6) {
    data.copy(next, offset);
    return next;
  }
  for (let from = 0; from < data.length;) {
    const to = Math.min(data.length, (Math.floor((offset + from) / SECTOR) + 1) * SECTOR - offset);
    if (chance() < 0.5) data.copy(next, offset + from, from, to);
    from = to;
  }
  return next;
}

const NAMING: ReadonlySet<string> = new Set([
  "create",
  "rename",
  "link",
  "unlink",
  "mkdir",
  "rmdir",
  "symlink",
]);

/** Which names there are, without those whose directory is not there. */
function reachable(before: Tree, ops: readonly Op[], cut: Cut): Map<string, number> {
  const names = new Map(before.names);
  const lasts = lasting(ops, cut);
  for (const [at, op] of ops.entries()) if (NAMING.has(op.kind) && lasts(op, at)) rename(names, op);
  for (const path of [...names.keys()].toSorted())
    if (!names.has(dirname(path)) && !before.names.has(path)) names.delete(path);
  for (const path of names.keys()) if (path.endsWith("-shm")) names.delete(path);
  return names;
}

function lasting(ops: readonly Op[], { model, spared, chance }: Cut): (op: Op, at: number) => boolean {
  const own = (path: string) => !spared(path);
  if (model === "journal") {
    const last = ops.findLastIndex(({ kind, path }) => kind === "sync" && own(path));
    const reaches = last + Math.floor(chance() * (ops.length - last + 1));
    return ({ path }, at) => !own(path) || at < reaches;
  }
  const synced = new Map<string, number>();
  for (const [at, { kind, path }] of ops.entries()) if (kind === "sync") synced.set(path, at);
  return ({ kind, path, other }, at) => {
    const name = kind === "rename" || kind === "link" ? other : path;
    return !own(name) || at < (synced.get(dirname(name)) ?? -1) || chance() < 0.5;
  };
}

function rename(names: Map<string, number>, { kind, path, other, inode }: Op): void {
  if (kind === "unlink" || kind === "rmdir") names.delete(path);
  else if (kind === "link") names.set(other, inode);
  else if (kind !== "rename") names.set(path, inode);
  else {
    names.delete(path);
    names.set(other, inode);
    for (const [name, at] of [...names])
      if (name.startsWith(`${path}/`)) {
        names.delete(name);
        names.set(other + name.slice(path.length), at);
      }
  }
}
