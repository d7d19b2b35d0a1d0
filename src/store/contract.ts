/**
 * The durable data behind one interface: runs, attempts, leases, the event log and documents; and the locks beside it.
 *
 * Every method of `Store` is one transaction. `test/contracts/store.ts` holds the cases that every backend must pass. The
 * run directory is the truth for past events, the store for leases and pending decisions.
 */
import type { Tokens } from "../core/events.ts";
import type { Fault } from "../core/faults.ts";
import type { Label } from "../core/label.ts";
import type { RunLimit } from "../core/limit.ts";
import type { AttemptRecord, Life, ProcessIdentity, RunRecord, RunStatus } from "../core/records.ts";

export interface OpenOptions {
  /** For reading commands where nothing can be written. Every write then fails, with this fault if given. */
  readonly readOnly?: boolean | Fault;
  /** How long to wait for another process's transaction; default 5000. */
  readonly busyTimeoutMs?: number;
  /**
   * Called for every row that `listRuns` and `findByHandle` leave out, and for an index that was replaced while open.
   */
  readonly onDamage?: (damage: Damage) => void;
  /**
   * Called for an index file with more than one name before it is opened for writing; throws if that is not allowed.
   */
  readonly onLinked?: (file: string) => void;
  /** Holds the index's generation outside it. Absent: an older index goes unnoticed. */
  readonly mark?: Mark;
  /** The current directory of a run: the state directory may have moved since the row was written. */
  readonly runDirectory?: (runId: string) => string;
}

/** The largest generation that the index ever had, noted beside it. */
export interface Mark {
  has(generation: number): boolean;
  /** 0: no note. */
  read(): number;
  raise(from: number, to: number): void;
}

export interface FileLock {
  release(): void;
}

/** The lives of owner processes, as locks on files in this directory. */
export interface Lives {
  /** This process's life: taken on first use, and kept until it ends. */
  own(): Life;
  /** held: its process lives. free: it has ended. unknown: its file is missing, replaced, or cannot be locked. */
  look(life: Life): "held" | "free" | "unknown";
  /** Whether another process holds a life that belongs to none of these owners. */
  hasOther(known: readonly Pick<ProcessIdentity, "life">[]): boolean;
  /** Whether a live process has this boot id. */
  holds(boot: string): boolean;
  /** Several machines may share this directory. */
  readonly shared: boolean;
}

export interface Store extends AsyncDisposable {
  /** A taken handle is a value, not a fault: the caller picks another one. */
  createRun(run: RunRecord): Promise<"created" | "handle_taken">;
  /**
   * Null: no such run. A damaged row is the fault `record_damaged`; `saveRun` with the run directory's record repairs
   * it.
   */
  getRun(runId: string): Promise<RunRecord | null>;
  /** Runs whose handle starts with the prefix (a full handle is its own prefix), newest first, at most 20. */
  findByHandle(prefix: string): Promise<readonly RunRecord[]>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  /** How many runs fit, by status; absent: none. Damaged rows count. */
  countRuns(filter: RunCountFilter): Promise<Readonly<Partial<Record<RunStatus, number>>>>;
  /** The names of all runs, each once. */
  listNames(): Promise<readonly string[]>;
  /** The run ids without a run. */
  unknownRuns(runIds: readonly string[]): Promise<readonly string[]>;
  /**
   * Replaces the record, except for a later label; a missing run is `handle_unknown`, so that a removed run stays
   * removed. With a fence: refused as `lease_lost` if the lease `run:<runId>` has moved on (I6).
   */
  saveRun(run: RunRecord, fence?: number): Promise<void>;
  /** Changes name and tags alone, unless the record has a later label. Needs no lease. */
  labelRun(runId: string, label: Label): Promise<void>;
  /** Removes the run, its attempts and its lease. Events stay: the log is append-only. */
  deleteRun(runId: string): Promise<void>;

  /**
   * (runId, n) is the idempotency key: false if that attempt exists (I8). The same transaction counts the attempt in
   * the run and sets `running`: no reader sees one without the other.
   */
  createAttempt(attempt: AttemptRecord, fence: number): Promise<boolean>;
  /** Replaces or adds the record (for a rebuild from a run directory). The run must exist. */
  saveAttempt(attempt: AttemptRecord, fence?: number): Promise<void>;
  /** Oldest first. */
  listAttempts(runId: string): Promise<readonly AttemptRecord[]>;
  /** Attempts of all runs that started at this moment or later (ISO 8601, UTC), oldest first. Leaves out damaged rows. */
  attemptsSince(startedAt: string): Promise<readonly AttemptOfRun[]>;
  /** By run id: the limits that ended the last attempts of these runs. Others are absent. */
  limitsOf(runIds: readonly string[]): Promise<ReadonlyMap<string, RunLimit>>;
  /** By run id: input, output and cost of all attempts together. Runs without any such figure are absent. */
  tokensOf(runIds: readonly string[]): Promise<ReadonlyMap<string, Tokens>>;

  /**
   * Takes the lease, or returns its owner. `isAlive` judges the present owner inside the transaction's compare-and-set:
   * a dead owner is replaced and the fencing number grows.
   */
  acquireLease(key: string, owner: LeaseOwner, isAlive: (owner: LeaseOwner) => boolean): Promise<LeaseAnswer>;
  /** Only for the holder of that fence; otherwise does nothing. */
  releaseLease(key: string, fence: number): Promise<void>;
  /** False: another process holds the lease. */
  renewLease(key: string, fence: number, atMs: number): Promise<boolean>;
  getLease(key: string): Promise<Lease | null>;
  /** All held leases. */
  listLeases(): Promise<readonly Lease[]>;

  /** Append-only, ordered by `seq`. `key` makes an event unique: a second one with that key is not written (I8). */
  appendEvent(event: NewEvent): Promise<number | null>;
  /** Ordered by `seq`; with `afterSeq`, only later events. */
  listEvents(runId: string, afterSeq?: number): Promise<readonly StoredEvent[]>;

  /**
   * Small documents that change by compare-and-set: supervised agents, decisions, pipelines. `expected` is the version
   * before the change, null for a new document; returns the new version, or null if another process was faster.
   */
  saveDocument(document: NewDocument, expected: number | null): Promise<number | null>;
  getDocument(kind: string, id: string): Promise<Document | null>;
  /** Does nothing if there is no such document. */
  deleteDocument(kind: string, id: string): Promise<void>;
  /** Oldest first. */
  listDocuments(kind: string, filter?: { readonly open?: boolean }): Promise<readonly Document[]>;

  /**
   * The number of added and removed runs, attempts, events and documents. 0: the index is older than the count. Less
   * than the note outside: an older index was put back.
   */
  generation(): Promise<number>;
  /** Raises the index to this generation. A smaller number changes nothing. */
  raiseGeneration(to: number): Promise<void>;
  /**
   * An older index refuses changes that count. A repair's changes do not count, so an interrupted repair starts over.
   */
  repairing<T>(work: () => Promise<T>): Promise<T>;

  /** Reads everything once and reports rows with a wrong checksum or shape, by table and key. */
  verify(): Promise<readonly Damage[]>;
  /** Facts for `doctor`. */
  about(): Promise<{
    readonly backend: string;
    readonly version: string;
    readonly schema: number;
    readonly path: string | null;
    /** SQLite's journal mode. Null: a backend without one. */
    readonly journal: string | null;
    /** Anything unusual about this store, one sentence. Null: nothing. */
    readonly note: string | null;
  }>;
}

/** Everything that the store itself can decide. */
export type RunCountFilter = Omit<RunFilter, "matches" | "after" | "sort" | "limit">;

export interface RunFilter {
  readonly engine?: string;
  readonly status?: RunStatus;
  /** Ended runs whose last attempt hit a limit. */
  readonly limited?: true;
  readonly cwd?: string;
  /** Runs whose `cwd` is below this directory. */
  readonly below?: string;
  readonly subject?: string;
  readonly name?: string;
  /** Runs in one of these directories. */
  readonly cwds?: readonly string[];
  /** Runs with all of these tags. */
  readonly tags?: readonly string[];
  /** Runs whose record as JSON contains these ASCII letters and digits, in any case. */
  readonly mentions?: string;
  /** A test in code, before `limit` counts. */
  readonly matches?: (run: RunRecord) => boolean;
  /** ISO 8601; runs last updated before that moment. */
  readonly updatedBefore?: string;
  /** ISO 8601; runs last updated at that moment or later. */
  readonly updatedSince?: string;
  /** Runs that follow this one in a list by `created` or, with its `updatedAt`, by `updated`, to read it in parts. */
  readonly after?: Pick<RunRecord, "createdAt" | "runId"> & Partial<Pick<RunRecord, "updatedAt">>;
  /**
   * Largest first: the time of the start, which is the default, or of the last change; the tokens or the time of all
   * attempts.
   */
  readonly sort?: "created" | "updated" | "tokens" | "duration";
  /** Default 50. */
  readonly limit?: number;
}

/** An attempt with the names of its run. */
export interface AttemptOfRun {
  readonly handle: string;
  readonly agentName: string;
  readonly attempt: AttemptRecord;
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
  /** Pending; a document that is not open is history. */
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
