/**
 * The schema of the SQLite index as numbered steps, and the check that a file is our index.
 *
 * Never edit a released step; `sqlite.fixtures/` holds a dump of every released schema.
 */
import { Fault } from "../core/faults.ts";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";

/** "RPRS". Distinguishes our index from other SQLite files. */
const APPLICATION_ID = 0x52_50_52_53;

/** Step N brings `user_version` from N to N + 1. Columns used as filters have an index that also gives the order. */
export const MIGRATIONS: readonly string[] = [
  `PRAGMA application_id = ${APPLICATION_ID};
   CREATE TABLE runs (
     run_id TEXT PRIMARY KEY, handle TEXT NOT NULL UNIQUE, engine TEXT NOT NULL, status TEXT NOT NULL,
     cwd TEXT NOT NULL, subject TEXT, name TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
     record TEXT NOT NULL, sum TEXT NOT NULL
   ) STRICT;
   CREATE INDEX runs_newest ON runs (created_at, run_id);
   CREATE INDEX runs_engine ON runs (engine, created_at, run_id);
   CREATE INDEX runs_status ON runs (status, created_at, run_id);
   CREATE INDEX runs_cwd ON runs (cwd, created_at, run_id);
   CREATE INDEX runs_subject ON runs (subject, created_at, run_id) WHERE subject IS NOT NULL;
   CREATE INDEX runs_name ON runs (name, created_at, run_id) WHERE name IS NOT NULL;
   CREATE TABLE attempts (
     run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, n INTEGER NOT NULL, state TEXT NOT NULL,
     record TEXT NOT NULL, sum TEXT NOT NULL, PRIMARY KEY (run_id, n)
   ) STRICT;
   CREATE TABLE leases (
     key TEXT PRIMARY KEY, fence INTEGER NOT NULL, owner TEXT, sum TEXT NOT NULL
   ) STRICT;
   CREATE TABLE events (
     seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, attempt INTEGER, kind TEXT NOT NULL,
     at TEXT NOT NULL, key TEXT UNIQUE, payload TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL
   ) STRICT;
   CREATE INDEX events_run ON events (run_id, seq);`,
  `CREATE TABLE documents (
     seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, open INTEGER NOT NULL,
     data TEXT NOT NULL, sum TEXT NOT NULL, UNIQUE (kind, id)
   ) STRICT;
   CREATE INDEX documents_open ON documents (kind, open);`,
  "CREATE INDEX runs_recent ON runs (updated_at, run_id);",
];

/** The first schema with documents; an older index that is opened read-only has none. */
export const DOCUMENTS_SINCE = 2;

/**
 * The schema number of a file that is ours or new (0). Leaves any other file alone: the caller sets it aside. Uses one
 * read transaction, since another process may be setting up the same new file.
 */
export function schemaOf(db: DatabaseSyncInstance, path: string): number {
  db.exec("BEGIN");
  try {
    const application = pragma(db, "application_id");
    const schema = pragma(db, "user_version");
    if (application === APPLICATION_ID) return schema;
    const { count } = db.prepare("SELECT count(*) AS count FROM sqlite_master").get() as { count: number };
    if (application === 0 && schema === 0 && count === 0) return 0;
  } finally {
    if (db.isTransaction) db.exec("ROLLBACK");
  }
  throw new Fault("index_damaged", `${path} is a database of another program, not an index of Reprise.`, {
    facts: { path },
  });
}

/**
 * Each step is one transaction with its number: a crash leaves the schema before or after it. The number is read again
 * inside, so that processes that open a new file together run each step once.
 */
export function migrate(db: DatabaseSyncInstance, migrations: readonly string[] = MIGRATIONS): number {
  for (;;) {
    db.exec("BEGIN IMMEDIATE");
    try {
      const schema = pragma(db, "user_version");
      const step = migrations[schema];
      if (step === undefined) return schema;
      db.exec(`${step}\nPRAGMA user_version = ${schema + 1};\nCOMMIT`);
    } finally {
      if (db.isTransaction) db.exec("ROLLBACK");
    }
  }
}

function pragma(db: DatabaseSyncInstance, name: string): number {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] ?? 0;
}
