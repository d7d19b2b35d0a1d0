/**
 * The life of a process as a lock on a file in the state directory: SQLite takes it, and the kernel releases it when
 * the process ends in any way. It is visible from every pid, network and time namespace of the machine, and needs no
 * clock.
 *
 * These files stay empty. Never open a held one with `fs`: closing such a descriptor would drop the lock. A check takes
 * the lock as shared, so two checks never block each other.
 */
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, readdirSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { Life } from "../core/records.ts";
import { fileSystemOf } from "./connection.ts";
import { errnoOf, faultOf } from "./sqlite-faults.ts";
import { loadSqlite } from "./sqlite-module.ts";
import type { Lives } from "./contract.ts";

const NAME = /^[0-9a-f]{8}-[0-9a-f]{16}$/;

interface Own extends Life {
  readonly path: string;
  /** Kept, so that the lock is not garbage-collected. */
  readonly lock: unknown;
  /** Leases that were taken with this life and not released yet. */
  readonly leases: Set<string>;
}

/** One per state directory. */
const own = new Map<string, Own>();

export function livesIn(directory: string, boot: () => string): Lives {
  let shared: boolean | null = null;
  const isShared = () => (shared ??= fileSystemOf(directory) !== null);
  return {
    own() {
      const found = own.get(directory) ?? begin(directory, boot(), isShared());
      own.set(directory, found);
      return { file: found.file, inode: found.inode, shared: found.shared };
    },
    look: (life) => (own.get(directory)?.file === life.file ? "held" : look(directory, life)),
    hasOther(known) {
      const files = new Set([own.get(directory)?.file, ...known.map(({ life }) => life?.file)]);
      return namesIn(directory).some((name) => !files.has(name) && isHeld(directory, name));
    },
    holds: (other) => namesIn(directory).some((name) => isOf(other, name) && isHeld(directory, name)),
    get shared() {
      return isShared();
    },
  };
}

/** Records a lease that was taken with a life of this process, or released. */
export function countLease(life: Life | undefined, key: string, isTaken: boolean): void {
  for (const { file, leases } of own.values()) {
    if (isTaken && file === life?.file) leases.add(key);
    else if (!isTaken) leases.delete(key);
  }
}

const TRIES = 5;

function begin(directory: string, boot: string, shared: boolean): Own {
  const start = bootOf(boot);
  try {
    mkdirSync(directory, { mode: 0o700, recursive: true });
    if (!shared) sweep(directory, start);
  } catch (error) {
    throw refusal(faultOf(error, directory), directory);
  }
  for (let tries = 1; ; tries += 1) {
    const file = `${start}-${randomBytes(8).toString("hex")}`;
    const path = join(directory, file);
    try {
      closeSync(openSync(path, "wx", 0o600));
      const lock = lockExclusively(path);
      // A sweep under another boot id may have removed the file before it was locked.
      const inode = statSync(path, { throwIfNoEntry: false })?.ino;
      if (lock !== null && inode !== undefined) {
        process.once("exit", () => end(directory));
        return { file, inode, shared, path, lock, leases: new Set() };
      }
      lock?.close();
      if (tries === TRIES)
        throw new Fault("storage_failed", `${path} was removed or locked by another process`);
    } catch (error) {
      throw refusal(faultOf(error, path), directory);
    }
  }
}

type Lock = InstanceType<ReturnType<typeof loadSqlite>["DatabaseSync"]>;

/** Null: another process holds it. */
function lockExclusively(path: string): Lock | null {
  const { DatabaseSync } = loadSqlite();
  const lock = new DatabaseSync(path, { timeout: 0, defensive: true });
  try {
    // Without writes, no journal file is needed.
    lock.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    const fault = faultOf(error, path);
    if (fault instanceof Fault && fault.code === "index_busy") return null;
    throw error;
  }
}

/** A life that no lease names is useless. A life that a lease still names proves that its process is gone. */
function end(directory: string): void {
  const found = own.get(directory);
  if (found === undefined || found.leases.size > 0) return;
  removeQuietly(found.path);
}

/**
 * Removes files of other boots whose processes have ended. Another boot id alone proves nothing: a container may have a
 * separate one. While a process of that boot lives, all files of that boot stay, since they prove which of its
 * processes are gone. Each file is locked during its removal, so that no process takes it as its life meanwhile.
 */
function sweep(directory: string, start: string): void {
  const names = namesIn(directory).filter((name) => !name.startsWith(`${start}-`));
  const running = new Set(names.filter((name) => isHeld(directory, name)).map(startOf));
  for (const name of names.filter((one) => !running.has(startOf(one)))) {
    const path = join(directory, name);
    try {
      const lock = lockExclusively(path);
      if (lock === null) continue;
      removeQuietly(path);
      lock.close();
    } catch (error) {
      // A file that cannot be locked stays: an extra file is harmless.
      if (!(faultOf(error, path) instanceof Fault)) throw error;
    }
  }
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).filter((name) => NAME.test(name));
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw faultOf(error, directory);
  }
}

function look(directory: string, { file, inode }: Life): ReturnType<Lives["look"]> {
  if (!NAME.test(file)) return "unknown";
  const path = join(directory, file);
  // In a copy of the state directory this is another file, which no process has locked.
  return statSync(path, { throwIfNoEntry: false })?.ino === inode ? lookAt(path) : "unknown";
}

function isHeld(directory: string, name: string): boolean {
  // A check would drop this process's own lock.
  return own.get(directory)?.file === name || lookAt(join(directory, name)) === "held";
}

function lookAt(path: string): ReturnType<Lives["look"]> {
  const { DatabaseSync } = loadSqlite();
  let db: InstanceType<typeof DatabaseSync> | null = null;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 0 });
    db.exec("SELECT count(*) FROM sqlite_master");
    return "free";
  } catch (error) {
    const fault = faultOf(error, path);
    if (fault instanceof Fault && fault.code === "too_many_files") throw fault;
    return fault instanceof Fault && fault.code === "index_busy" ? "held" : "unknown";
  } finally {
    db?.close();
  }
}

function refusal(fault: unknown, directory: string): unknown {
  if (!(fault instanceof Fault) || !["storage_failed", "index_busy"].includes(fault.code)) return fault;
  // The fault's own message is about an index.
  const why = fault.cause instanceof Error ? fault.cause.message : fault.message;
  return new Fault(
    "storage_failed",
    `Reprise cannot lock files in ${directory} (${why}), so other processes could not tell whether this process is alive. ` +
      "Set REPRISE_HOME to a directory on a file system with locks.",
    { facts: { path: directory }, cause: fault },
  );
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    // Another process was faster, or the disk refused: an extra file is harmless.
    if (errnoOf(error) === null) throw error;
  }
}

const startOf = (name: string) => name.slice(0, 8);

function isOf(boot: string, name: string): boolean {
  return startOf(name) === bootOf(boot);
}

/** The prefix of a boot id, as part of a file name. */
function bootOf(boot: string): string {
  return boot
    .toLowerCase()
    .replaceAll(/[^0-9a-f]/g, "")
    .slice(0, 8)
    .padStart(8, "0");
}
