/**
 * Mount points inside directories to remove. The files behind a mount belong elsewhere, so Reprise never removes them.
 */
import { lstatSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { shellWord } from "../lib/shell.ts";
import { storageFault } from "./files.ts";

/** Throws `mount_inside` if the directory is or contains a mount point. `what` begins the sentence. */
export function assertNoMounts(directory: string, what: string): void {
  const [path] = mountsIn(directory);
  if (path === undefined) return;
  throw new Fault(
    "mount_inside",
    `${what}: ${path} is a mount point, and the files behind it do not belong to the run. Unmount it first: umount ${shellWord(path)}`,
    { facts: { path } },
  );
}

/** Mount points at and below the directory, as this process sees them. */
function mountsIn(directory: string): readonly string[] {
  try {
    const root = realpathSync(directory);
    const table = mountTable();
    return table === null ? otherDevices(root, lstatSync(root).dev) : mountsBelow(root, table);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "look for mounts in", directory);
  }
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

/**
 * The table lists bind mounts of the same device, which `stat` does not show. Each line has the mount point as its
 * fifth word, with blanks and backslashes in octal; a path is bytes, so bytes are compared.
 */
export function mountsBelow(root: string, table: Buffer): readonly string[] {
  const bytes = Buffer.from(root).toString("latin1");
  return table
    .toString("latin1")
    .split("\n")
    .map((line) => (line.split(" ", 5)[4] ?? "").replaceAll(/\\([0-7]{3})/g, unescaped))
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
