/** Checks a whole SQLite index for `doctor`: pages, checksums and shapes of rows, and the chain of events. */
import type { Sql } from "./connection.ts";
import { DOCUMENTS_SINCE } from "./migrations.ts";
import * as rows from "./rows.ts";
import type { Damage } from "./contract.ts";

/** SQLite's own check comes first: it finds damage that rows cannot show, such as an incomplete index. */
export function verifyAll(sql: Sql, schema: number): readonly Damage[] {
  const damage: Damage[] = [];
  const check = (table: string, work: () => void) => {
    try {
      work();
    } catch (error) {
      // An unreadable page ends the scan of its table, not the report.
      damage.push({ table, key: "*", what: error instanceof Error ? error.message : String(error) });
    }
  };
  check("index", () => {
    for (const row of sql.all("PRAGMA integrity_check")) {
      const what = String(row["integrity_check"]);
      if (what !== "ok") damage.push({ table: "index", key: "*", what });
    }
  });
  for (const { table, keyOf, read, since = 1 } of CHECKED) {
    if (schema < since) continue;
    check(table, () => {
      for (const row of sql.each(`SELECT * FROM ${table}`)) {
        const { wrong } = read(row);
        if (wrong !== undefined) damage.push({ table, key: keyOf(row), what: wrong });
      }
    });
  }
  check("events", () => damage.push(...verifyChain(sql)));
  return damage;
}

export const documentKey = (row: rows.SqlRow) => `${String(row["kind"])} ${String(row["id"])}`;

const CHECKED: readonly {
  readonly table: string;
  readonly keyOf: (row: rows.SqlRow) => string;
  readonly read: (row: rows.SqlRow) => { readonly wrong?: string };
  /** The schema that added it. */
  readonly since?: number;
}[] = [
  { table: "runs", keyOf: (row) => String(row["run_id"]), read: rows.readRun },
  {
    table: "attempts",
    keyOf: (row) => `${String(row["run_id"])} ${String(row["n"])}`,
    read: rows.readAttempt,
  },
  { table: "leases", keyOf: (row) => String(row["key"]), read: rows.readLease },
  { table: "events", keyOf: (row) => String(row["seq"]), read: rows.readEvent },
  { table: "documents", keyOf: documentKey, read: rows.readDocument, since: DOCUMENTS_SINCE },
];

function verifyChain(sql: Sql): readonly Damage[] {
  const damage: Damage[] = [];
  let prev: unknown = rows.CHAIN_START;
  let seq = 0;
  for (const row of sql.each("SELECT seq, prev_hash, hash FROM events ORDER BY seq")) {
    seq += 1;
    if (row["seq"] !== seq || row["prev_hash"] !== prev) {
      const key = String(row["seq"]);
      damage.push({ table: "events", key, what: "the event before it is missing or changed" });
    }
    seq = Number(row["seq"]);
    prev = row["hash"];
  }
  if (lastSeq(sql) !== seq) {
    damage.push({ table: "events", key: String(lastSeq(sql)), what: "the last events are missing" });
  }
  return damage;
}

/** SQLite's own counter, which survives a lost tail. Events are never deleted, so it has no gaps. */
export function lastSeq(sql: Sql): number {
  return Number(sql.one("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?.["seq"] ?? 0);
}
