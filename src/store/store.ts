/** The door of `store`: opens the index, and takes locks that die with their process. */
import { Fault } from "../core/faults.ts";
import type * as SideDatabases from "./side-database.ts";
import type { FileLock, Lives, OpenOptions, Store } from "./contract.ts";

export type {
  Damage,
  Document,
  FileLock,
  Lease,
  LeaseOwner,
  Lives,
  NewEvent,
  RunFilter,
  Store,
  StoredEvent,
} from "./contract.ts";
export { identityIn, judgeOwner, runLeaseKey } from "./lease.ts";
export type { SideDatabase } from "./side-database.ts";

/** The embedded store: one SQLite file, created if missing. The directory must exist. */
export async function openStore(path: string, options: OpenOptions = {}): Promise<Store> {
  const { openSqliteStore } = await import("./sqlite.ts");
  return openSqliteStore(path, options);
}

/** A SQLite file beside the index whose content can be made again, and the meaning of its errors. */
export async function sideDatabases(): Promise<typeof SideDatabases> {
  return import("./side-database.ts");
}

/**
 * An exclusive lock that the kernel releases when its process ends in any way. Null: held, possibly by this process.
 * Never remove the file or open it otherwise: that would drop the lock.
 */
export async function lockFile(path: string): Promise<FileLock | null> {
  const { lockWithSqlite } = await import("./lock.ts");
  return lockWithSqlite(path);
}

export async function openLives(directory: string, boot: () => string): Promise<Lives> {
  const { livesIn } = await import("./lives.ts");
  return livesIn(directory, boot);
}

const TURN_MS = 30_000;
const LOOK_AGAIN_MS = 10;

/**
 * Runs `work` while no other process runs under the same lock: reads, changes and replaces a file that several commands
 * write. The work must be short; a process that dies releases the lock.
 */
export async function inTurn<T>(path: string, work: () => T): Promise<T> {
  const deadline = performance.now() + TURN_MS;
  for (;;) {
    const lock = await lockFile(path);
    if (lock !== null) {
      try {
        return work();
      } finally {
        lock.release();
      }
    }
    if (performance.now() > deadline)
      throw new Fault(
        "no_answer",
        `Another process of Reprise has held ${path} for ${TURN_MS / 1000} s. End that process, or try again later.`,
        { facts: { path } },
      );
    await new Promise((wake) => setTimeout(wake, LOOK_AGAIN_MS));
  }
}
