/**
 * One connection to the index file: opens it, makes it durable and private, and turns SQLite's errors into faults.
 * Knows nothing of runs.
 *
 * Never open the index file with `fs` while it may be open here: closing such a descriptor drops SQLite's locks and
 * with them committed rows. `stat` and `chmod` use the path and are safe.
 */
import { chmodSync, closeSync, openSync, statSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { DatabaseSyncInstance, SqliteModule, StatementSyncInstance } from "@photostructure/sqlite";
import { Fault } from "../core/faults.ts";
import { errnoOf, faultOf, isUnwritable, newerSchema, notAFile } from "./sqlite-faults.ts";
import { migrate, MIGRATIONS, schemaOf } from "./migrations.ts";
import type { Columns, SqlRow } from "./rows.ts";
import type { OpenOptions } from "./contract.ts";

type Sqlite = Pick<SqliteModule, "DatabaseSync">;
type Bound = readonly (string | number | null)[] | Columns;

export interface SqliteConnection {
  /**
   * Runs `work` inside `BEGIN IMMEDIATE` … `COMMIT`. A deferred transaction would fail with busy despite the timeout.
   */
  write<T>(work: (sql: Sql) => T): T;
  read<T>(work: (sql: Sql) => T): T;
  readonly facts: Facts;
  close(): void;
}

/** Prepares each statement once, on first use. */
export interface Sql {
  one(text: string, bound?: Bound): SqlRow | undefined;
  all(text: string, bound?: Bound): SqlRow[];
  each(text: string): Iterable<SqlRow>;
  /** The number of changed rows. */
  run(text: string, bound: Bound): number;
}

interface Facts {
  readonly version: string;
  readonly schema: number;
  readonly journal: string;
  /** Why the journal mode is unusual. */
  readonly note: string | null;
}

interface Live {
  readonly db: DatabaseSyncInstance;
  readonly sql: Sql;
  readonly facts: Facts;
  /** The opened files. Null: they cannot change (`immutable`). */
  readonly files: Files | null;
}

/** Device and inode of each. Null: missing. */
interface Files {
  readonly index: string | null;
  /** Undefined: not watched, since it comes and goes with the writing connections. */
  readonly wal?: string | null;
}

/** Twenty starts at once on a busy machine wait for each other surprisingly long. */
const BUSY_TIMEOUT_MS = 30_000;

/**
 * Switching to WAL may report busy without waiting, so opening retries until the timeout. SQLite reports a page that
 * could not be read (EIO) as damaged; real damage is still there at a second read.
 */
export async function openConnection(
  sqlite: Sqlite,
  path: string,
  options: OpenOptions,
): Promise<SqliteConnection> {
  const deadline = performance.now() + (options.busyTimeoutMs ?? BUSY_TIMEOUT_MS);
  for (let tries = 1; ; tries += 1) {
    try {
      return connection(sqlite, path, options);
    } catch (error) {
      const fault = faultOf(error, path);
      const isBusy = fault instanceof Fault && fault.code === "index_busy";
      const again = isBusy || (tries === 1 && isDamage(fault));
      if (!again || performance.now() > deadline) throw fault;
      await sleep(10);
    }
  }
}

/** Reads again after apparent damage. */
function lookedAtAgain<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return read();
  }
}

function isDamage(fault: unknown): boolean {
  return fault instanceof Fault && fault.code === "index_damaged";
}

function connection(sqlite: Sqlite, path: string, options: OpenOptions): SqliteConnection {
  let live = open(sqlite, path, options);
  let wrote = false;

  /**
   * Writes to an index that was set aside and rebuilt would be lost, so this opens the new one. A deleted WAL cannot be
   * replaced while this process lives (see `close`): its content goes into the index, unless another process has begun
   * a new WAL, and nothing more is written.
   */
  function current(): Live {
    const was = live.files;
    const now = filesAt(path);
    if (was === null || (was.index === now.index && (was.wal === undefined || was.wal === now.wal)))
      return live;
    if (was.index === now.index && now.wal === null) checkpoint(live.db);
    if (was.index === now.index || now.index === null) {
      const gone = now.index === null ? path : `${path}-wal`;
      throw new Fault("index_damaged", `${gone} was removed while it was in use. Start this command again.`, {
        facts: { path },
      });
    }
    close();
    live = open(sqlite, path, options);
    options.onDamage?.({ table: "index", key: path, what: "the file was replaced while it was open" });
    return live;
  }

  /**
   * The package keeps a connection half open until its statements are collected, so SQLite's checkpoint at the last
   * close never happens. Without this one, every next command would replay the WAL.
   */
  function close(): void {
    if (!live.db.isOpen) return;
    if (wrote && live.files?.index === filesAt(path).index) checkpoint(live.db);
    wrote = false;
    live.db.close();
  }

  function guarded<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw faultOf(error, path, live.facts.schema);
    }
  }

  return {
    get facts() {
      return live.facts;
    },
    read: (work) => lookedAtAgain(() => guarded(() => work(current().sql))),
    write: (work) =>
      guarded(() => {
        if (options.readOnly instanceof Fault) throw options.readOnly;
        const { db, sql } = current();
        db.exec("BEGIN IMMEDIATE");
        wrote = true;
        try {
          const result = work(sql);
          db.exec("COMMIT");
          return result;
        } finally {
          if (db.isTransaction) db.exec("ROLLBACK");
        }
      }),
    close,
  };
}

function isReadOnly({ readOnly }: OpenOptions): boolean {
  return readOnly !== undefined && readOnly !== false;
}

/** Does not wait: a WAL that other processes use is theirs to empty. */
function checkpoint(db: DatabaseSyncInstance): void {
  try {
    db.exec("PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // Committed data is safe in the WAL even if the checkpoint failed.
  }
}

function open(sqlite: Sqlite, path: string, options: OpenOptions): Live {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) throw notAFile(path);
  if (isReadOnly(options)) return openReadOnly(sqlite, path, options);
  makePrivate(path, options.onLinked);
  const db = openDatabase(sqlite, path, options);
  try {
    const version = versionOf(db);
    const found = schemaOf(db, path);
    if (found > MIGRATIONS.length) throw newerSchema(path, found);
    const { journal, note } = setJournal(db, journalFor(version, fileSystemOf(path)));
    // With secure_delete, the prompt of a removed run does not stay in free pages.
    db.exec(
      "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0",
    );
    if (pragma(db, "synchronous") !== 2) {
      throw new Fault("storage_failed", `${path} cannot be written durably.`, { facts: { path } });
    }
    const schema = found === MIGRATIONS.length ? found : migrate(db);
    if (schema > MIGRATIONS.length) throw newerSchema(path, schema);
    // The first read creates the WAL, so that it can be watched.
    pragma(db, "user_version");
    return liveOf(db, { version, schema, journal, note }, filesAt(path));
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * Reads a newer schema as well; a missing column then gives an error. In a read-only directory, WAL needs either its
 * two files or the promise that the WAL is empty (`immutable`).
 */
function openReadOnly(sqlite: Sqlite, path: string, options: OpenOptions): Live {
  let db = openDatabase(sqlite, path, options);
  let files: Files | null = null;
  try {
    try {
      schemaOf(db, path);
      files = { index: filesAt(path).index };
    } catch (error) {
      const log = statSync(`${path}-wal`, { throwIfNoEntry: false });
      if (!isUnwritable(error) || (log?.size ?? 0) > 0) throw error;
      db.close();
      db = openDatabase(sqlite, `${pathToFileURL(path).href}?immutable=1`, options);
      files = null;
    }
    const schema = schemaOf(db, path);
    if (schema === 0) {
      throw new Fault("storage_failed", `${path} is empty and cannot be set up while it is read only.`, {
        facts: { path },
      });
    }
    db.exec("PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0");
    const note = files === null ? "read only, in a directory that cannot be written" : null;
    return liveOf(
      db,
      { version: versionOf(db), schema, journal: String(pragma(db, "journal_mode")), note },
      files,
    );
  } catch (error) {
    db.close();
    throw error;
  }
}

function openDatabase(sqlite: Sqlite, location: string, options: OpenOptions): DatabaseSyncInstance {
  return new sqlite.DatabaseSync(location, {
    readOnly: isReadOnly(options),
    timeout: options.busyTimeoutMs ?? BUSY_TIMEOUT_MS,
    enableForeignKeyConstraints: true,
    defensive: true,
  });
}

function liveOf(db: DatabaseSyncInstance, facts: Facts, files: Files | null): Live {
  const prepared = new Map<string, StatementSyncInstance>();
  function prepare(text: string): StatementSyncInstance {
    const statement = prepared.get(text) ?? db.prepare(text);
    prepared.set(text, statement);
    return statement;
  }
  const spread = (bound: Bound): readonly unknown[] => (Array.isArray(bound) ? bound : [bound]);
  const sql: Sql = {
    one: (text, bound = []) => prepare(text).get(...spread(bound)) as SqlRow | undefined,
    all: (text, bound = []) => prepare(text).all(...spread(bound)) as SqlRow[],
    each: (text) => prepare(text).iterate() as Iterable<SqlRow>,
    run: (text, bound) => prepare(text).run(...spread(bound)).changes,
  };
  return { db, sql, facts, files };
}

/** Ensures mode 0600, because SQLite gives a WAL the mode of its index, whatever the umask. */
export function makePrivate(path: string, onLinked?: OpenOptions["onLinked"]): void {
  try {
    // Exclusive: succeeds only without an index, so no connection of this process has it open.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
  }
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    const { mode = 0, nlink = 1 } = statSync(file, { throwIfNoEntry: false }) ?? {};
    if (nlink > 1) onLinked?.(file);
    if ((mode & 0o077) !== 0) chmodSync(file, 0o600);
  }
}

/**
 * WAL, except where it is unsafe: SQLite before 3.51.3 can lose a WAL that is reset during other writes, and WAL's
 * shared memory does not work over a network.
 */
export function journalFor(
  version: string,
  fileSystem: string | null,
): { mode: string; note: string | null } {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  if (major * 1e6 + minor * 1e3 + patch < 3_051_003) {
    return { mode: "truncate", note: `SQLite ${version} is older than 3.51.3, so WAL is not used` };
  }
  if (fileSystem !== null) {
    return { mode: "truncate", note: `on a network file system (${fileSystem}), so WAL is not used` };
  }
  return { mode: "wal", note: null };
}

function setJournal(db: DatabaseSyncInstance, wanted: { mode: string; note: string | null }) {
  if (pragma(db, "journal_mode") === wanted.mode) return { journal: wanted.mode, note: wanted.note };
  const journal = String(pragma(db, `journal_mode = ${wanted.mode}`, "journal_mode"));
  const note = journal === wanted.mode ? wanted.note : `SQLite refused journal_mode ${wanted.mode}`;
  return { journal, note };
}

/** `f_type` of statfs(2) on Linux. Includes FUSE, because its backing store is unknown. */
const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xfe534d42, "smb2"],
  [0xff534d42, "cifs"],
  [0x01021997, "9p"],
  [0x65735546, "fuse"],
  [0x00c36400, "ceph"],
  [0x5346414f, "afs"],
  [0x0bd00bd0, "lustre"],
  [0x786f4256, "vboxsf"],
]);

/** The network file system of a file. Null: a local one, or unknown. */
export function fileSystemOf(path: string): string | null {
  if (process.platform !== "linux") return null;
  return NETWORK_FILE_SYSTEMS.get(statfsSync(dirname(path)).type >>> 0) ?? null;
}

/** The WAL stays the same file while a writing connection is open. */
function filesAt(path: string): Files {
  const idOf = (name: string) => {
    const stat = statSync(name, { throwIfNoEntry: false });
    return stat === undefined ? null : `${stat.dev}:${stat.ino}`;
  };
  return { index: idOf(path), wal: idOf(`${path}-wal`) };
}

function versionOf(db: DatabaseSyncInstance): string {
  const { version } = db.prepare("SELECT sqlite_version() AS version").get() as { version: string };
  return version;
}

function pragma(db: DatabaseSyncInstance, text: string, column = text): unknown {
  return (db.prepare(`PRAGMA ${text}`).get() as SqlRow | undefined)?.[column];
}
