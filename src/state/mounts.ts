/**
 * Mount points inside directories to remove, and other names that mounts give to such a directory. The files behind a
 * mount belong elsewhere, so Reprise never removes them.
 */
import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { shellWord } from "../lib/shell.ts";
import { storageFault } from "./files.ts";
import { realPath } from "./places.ts";

/** Throws `mount_inside` if the directory is or contains a mount point. `what` begins the sentence. */
export function assertNoMounts(directory: string, what: string): void {
  const [path] = mountPointsIn(directory);
  if (path === undefined) return;
  throw new Fault(
    "mount_inside",
    `${what}: ${path} is a mount point, and the files behind it do not belong to the run. Unmount it first: umount ${shellWord(path)}`,
    { facts: { path } },
  );
}

/** Mount points at and below the directory, as this process sees them. */
function mountPointsIn(directory: string): readonly string[] {
  try {
    const root = realpathSync(directory);
    const table = mountTable();
    return table === null ? otherDevices(root, lstatSync(root).dev) : mountsBelow(root, table);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "look for mounts in", directory);
  }
}

/**
 * Every path under which the directory, or a part of it, is visible to this process: its own, with links resolved, and
 * those of bind mounts.
 */
export function namesOf(directory: string): readonly string[] {
  const own = realPath(directory) ?? directory;
  const table = mountTable();
  const others = table === null ? [] : otherNames(own, table);
  const visible = others.filter(
    ({ name, of }) => directoryId(name) !== null && directoryId(name) === directoryId(of),
  );
  return [...new Set([directory, own, ...visible.map(({ name }) => name)])];
}

/** The same for all names of a directory. Null: nothing is there. */
export function directoryId(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev}:${ino}`;
  } catch (error) {
    if (isErrno(error)) return null;
    throw error;
  }
}

/** Names that a mount table gives to the directory or to parts of it. A later mount can hide one of them. */
export function otherNames(
  own: string,
  table: Buffer,
): readonly { readonly name: string; readonly of: string }[] {
  const mounts = mountsOf(table);
  const path = Buffer.from(own).toString("latin1");
  const home = mounts
    .filter(({ point }) => isBelow(path, point))
    .toSorted((a, b) => a.point.length - b.point.length)
    .at(-1);
  if (home === undefined) return [];
  const text = (bytes: string) => Buffer.from(bytes, "latin1").toString();
  const onDevice = rebased(path, home.point, home.root);
  return mounts
    .filter(({ device, point }) => device === home.device && point !== home.point)
    .flatMap(({ root, point }) => {
      if (isBelow(onDevice, root)) return [{ name: text(rebased(onDevice, root, point)), of: own }];
      if (!isBelow(root, onDevice)) return [];
      return [{ name: text(point), of: text(rebased(root, home.root, home.point)) }];
    });
}

/** Paths have one character per byte. */
interface Mount {
  readonly device: string;
  /** The mounted directory, as a path on the device. */
  readonly root: string;
  readonly point: string;
}

/** A line has the device as its third word, then the root and the mount point, with blanks and backslashes in octal. */
function mountsOf(table: Buffer): readonly Mount[] {
  return table
    .toString("latin1")
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      const [, , device = "", root = "", point = ""] = line.split(" ", 5);
      return { device, root: plain(root), point: plain(point) };
    });
}

function plain(word: string): string {
  return word.replaceAll(/\\([0-7]{3})/g, unescaped);
}

function isBelow(path: string, directory: string): boolean {
  return path === directory || directory === "/" || path.startsWith(`${directory}/`);
}

/** The path, seen from `to` instead of `from`. */
function rebased(path: string, from: string, to: string): string {
  const rest = from === "/" ? path : path.slice(from.length);
  return rest === "" || rest === "/" ? to : `${to === "/" ? "" : to}${rest}`;
}

/** Null: the system has no such table, or does not show it. */
function mountTable(): Buffer | null {
  try {
    return readFileSync("/proc/self/mountinfo");
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "EPERM")) return null;
    throw error;
  }
}

/** The table lists bind mounts of the same device, which `stat` does not show. A path is bytes, so bytes are compared. */
export function mountsBelow(root: string, table: Buffer): readonly string[] {
  const bytes = Buffer.from(root).toString("latin1");
  return mountsOf(table)
    .map(({ point }) => point)
    .filter((path) => path === bytes || path.startsWith(`${bytes}/`))
    .map((path) => Buffer.from(path, "latin1").toString());
}

function unescaped(_whole: string, octal: string): string {
  return String.fromCharCode(Number.parseInt(octal, 8));
}

/** Without a table: directories on another device than their parent. */
export function otherDevices(directory: string, device: number): readonly string[] {
  const { dev } = lstatSync(directory);
  if (dev !== device) return [directory];
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => otherDevices(join(directory, name), device));
}
