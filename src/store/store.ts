/**
 * What must survive: runs, attempts, leases, the event log and documents, behind one interface.
 *
 * Every verb is one transaction. `test/contracts/store.ts` holds the cases that any backend must pass. The run
 * directory is the truth for what happened; the store is the truth for leases and decisions in flight.
 */
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, Life, ProcessIdentity, RunRecord, RunStatus } from "../core/records.ts";

export { identityIn, judgeOwner } from "./lease.ts";

export interface OpenOptions {
  /** For reading commands where nothing can be written. Every write then fails: with this fault, if it is one. */
  readonly readOnly?: boolean | Fault;
  /** How long to wait for another process's transaction; default 5000. */
  readonly busyTimeoutMs?: number;
  /** Told of every row that `listRuns` and `findByHandle` leave out, and of an index that was replaced while open. */
  readonly onDamage?: (damage: Damage) => void;
  /** Told of a file of the index with more than one name before it is opened for writing; throws if that must not be. */
  readonly onLinked?: (file: string) => void;
  /** Where the index's generation is noted outside it. Absent: nowhere, and an older index is not noticed. */
  readonly mark?: Mark;
  /** Where a run's directory is now: the state directory may have been moved since the row was written. */
  readonly runDirectory?: (runId: string) => string;
}

/** The largest generation that the index ever had, as it is noted beside it. */
export interface Mark {
  has(generation: number): boolean;
  /** 0: none is noted. */
  read(): number;
  raise(from: number, to: number): void;
}

/** The embedded store: one SQLite file, created when it is not there. The directory must exist. */
export async function openStore(path: string, options: OpenOptions = {}): Promise<Store> {
  const { openSqliteStore } = await import("./sqlite.ts");
  return openSqliteStore(path, options);
}

export interface FileLock {
  release(): void;
}

/**
 * An exclusive lock that the kernel releases when its process ends, however it ends; null when it is held, also by
 * this process. The file stays and is never to be removed or opened otherwise: its lock would be gone with it.
 */
export async function lockFile(path: string): Promise<FileLock | null> {
  const { lockWithSqlite } = await import("./lock.ts");
  return lockWithSqlite(path);
}

/** The lives of processes that own something, as locks on files in this directory. */
export interface Lives {
  /** This process's own: taken on first use, and kept until it ends. */
  own(): Life;
  /** held: its process lives. free: it has ended. unknown: its file is gone or another one, or cannot be locked. */
  look(life: Life): "held" | "free" | "unknown";
  /** Does another process hold a life that none of these owners has? */
  hasOther(known: readonly Pick<ProcessIdentity, "life">[]): boolean;
  /** Does a process that lives name this boot as its own? */
  holds(boot: string): boolean;
  /** Several machines may have this directory. */
  readonly shared: boolean;
}

export async function openLives(directory: string, boot: () => string): Promise<Lives> {
  const { livesIn } = await import("./lives.ts");
  return livesIn(directory, boot);
}

const TURN_MS = 30_000;
const LOOK_AGAIN_MS = 10;

/**
 * Does the work while no other process does its own under the same lock: reading, changing and replacing a file that
 * several commands add to. The work is short; a process that dies in it lets go of the lock.
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

export interface Store extends AsyncDisposable {
  /** A taken handle is a value, not a fault: the caller picks another one. */
  createRun(run: RunRecord): Promise<"created" | "handle_taken">;
  /** Null: no such run. A damaged row is the fault `record_damaged`; `saveRun` with the run directory's record mends it. */
  getRun(runId: string): Promise<RunRecord | null>;
  /** Runs whose handle starts with the prefix (a full handle is its own prefix), newest first, at most 20. */
  findByHandle(prefix: string): Promise<readonly RunRecord[]>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  /** Those of these run ids that no run has. */
  unknownRuns(runIds: readonly string[]): Promise<readonly string[]>;
  /**
   * Replaces the record; a run that is not there is `handle_unknown`, so that a removed run stays removed.
   * With a fence: refused as `lease_lost` when the lease `run:<runId>` has moved on (I6).
   */
  saveRun(run: RunRecord, fence?: number): Promise<void>;
  /** Removes the run, its attempts and its lease. Events stay: the log is append-only. */
  deleteRun(runId: string): Promise<void>;

  /**
   * (runId, n) is the idempotency key: false when that attempt exists already (I8). In the same transaction the run
   * counts the attempt and says `running`: nobody sees one without the other.
   */
  createAttempt(attempt: AttemptRecord, fence: number): Promise<boolean>;
  /** Replaces the record, or adds it (rebuilding from a run directory). The run must exist. */
  saveAttempt(attempt: AttemptRecord, fence?: number): Promise<void>;
  /** Oldest first. */
  listAttempts(runId: string): Promise<readonly AttemptRecord[]>;

  /**
   * Takes the lease, or tells who has it. `isAlive` decides over the present owner inside the transaction's
   * compare-and-set: a dead owner is replaced and the fencing number grows.
   */
  acquireLease(key: string, owner: LeaseOwner, isAlive: (owner: LeaseOwner) => boolean): Promise<LeaseAnswer>;
  /** Only by the holder of that fence; otherwise nothing happens. */
  releaseLease(key: string, fence: number): Promise<void>;
  /** False: the lease is somebody else's now. */
  renewLease(key: string, fence: number, atMs: number): Promise<boolean>;
  getLease(key: string): Promise<Lease | null>;
  /** All that somebody holds. */
  listLeases(): Promise<readonly Lease[]>;

  /** Append-only, ordered by `seq`. `key` makes an event unique: a second one with that key is not written (I8). */
  appendEvent(event: NewEvent): Promise<number | null>;
  /** In order of `seq`; only those after `afterSeq` when it is given. */
  listEvents(runId: string, afterSeq?: number): Promise<readonly StoredEvent[]>;

  /**
   * Small documents that change by compare-and-set: supervised agents, decisions, pipelines. `expected` is the version
   * that the change is made from, null for a new one; the answer is the new version, null when somebody was faster.
   */
  saveDocument(document: NewDocument, expected: number | null): Promise<number | null>;
  getDocument(kind: string, id: string): Promise<Document | null>;
  /** Nothing happens where there is none. */
  deleteDocument(kind: string, id: string): Promise<void>;
  /** Oldest first. */
  listDocuments(kind: string, filter?: { readonly open?: boolean }): Promise<readonly Document[]>;

  /**
   * How many changes this index has seen of which runs, attempts, events and documents there are; 0: it was made before they
   * were counted. Less than what is noted outside: an older index was put back.
   */
  generation(): Promise<number>;
  /** Says that the index has come so far. A smaller number changes nothing. */
  raiseGeneration(to: number): Promise<void>;
  /** An older index refuses changes that count. Those of its repair do not, so that one that is cut off is begun again. */
  repairing<T>(work: () => Promise<T>): Promise<T>;

  /** Reads everything once: rows whose checksum or shape is wrong, by table and key. */
  verify(): Promise<readonly Damage[]>;
  /** Facts for `doctor`. */
  about(): Promise<{
    readonly backend: string;
    readonly version: string;
    readonly schema: number;
    readonly path: string | null;
    /** SQLite's journal mode; null for a backend without one. */
    readonly journal: string | null;
    /** What is unusual about this store, one sentence; null: nothing. */
    readonly note: string | null;
  }>;
}

export interface RunFilter {
  readonly engine?: string;
  readonly status?: RunStatus;
  readonly cwd?: string;
  /** Runs whose `cwd` is below this directory. */
  readonly below?: string;
  readonly subject?: string;
  readonly name?: string;
  /** ISO 8601; runs last updated before that moment. */
  readonly updatedBefore?: string;
  /** Newest `createdAt` first; default 50. */
  readonly limit?: number;
}

export interface LeaseOwner extends ProcessIdentity {
  readonly machine: string;
  /** Milliseconds since 1970, UTC; refreshed by `renewLease`. */
  readonly renewedAtMs: number;
}

export interface Lease {
  readonly key: string;
  readonly fence: number;
  readonly owner: LeaseOwner;
}

export type LeaseAnswer =
  | { readonly held: true; readonly lease: Lease }
  | { readonly held: false; readonly by: Lease };

export interface NewEvent {
  readonly runId: string;
  readonly attempt: number | null;
  readonly kind: string;
  readonly at: string;
  readonly key: string | null;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface StoredEvent extends NewEvent {
  readonly seq: number;
}

export interface NewDocument {
  readonly kind: string;
  readonly id: string;
  /** Something is still to be done about it; what is not open is history. */
  readonly open: boolean;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface Document extends NewDocument {
  readonly version: number;
}

export interface Damage {
  readonly table: string;
  readonly key: string;
  readonly what: string;
}
