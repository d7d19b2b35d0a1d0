/**
 * The number of changes to an index, inside it and outside: an older index that was put back is noticed, before it is
 * believed.
 */
import { Fault } from "../core/faults.ts";
import type { Sql, SqliteConnection } from "./connection.ts";
import type { OpenOptions } from "./contract.ts";
import * as rows from "./rows.ts";

export const SAVE_DOCUMENT =
  "INSERT OR REPLACE INTO documents VALUES (:seq, :kind, :id, :version, :open, :data, :sum)";

/** A connection that can count writes. */
export interface Counting extends SqliteConnection {
  /**
   * Adds or removes runs, attempts, events or documents. The index counts the change first, then the note outside: a
   * crash in between leaves an index that is ahead, which is always right. `changed` reports whether anything changed.
   */
  count<T>(work: (sql: Sql) => T, changed: (result: T) => boolean): T;
  repairing<T>(work: () => Promise<T>): Promise<T>;
}

export function withCount(connection: SqliteConnection, path: string, { mark }: OpenOptions): Counting {
  let repairs = 0;
  const isOlder = (present: number) => mark !== undefined && !mark.has(present) && mark.read() > present;
  return {
    async repairing(work) {
      repairs += 1;
      try {
        return await work();
      } finally {
        repairs -= 1;
      }
    },
    get facts() {
      return connection.facts;
    },
    read: (work) => connection.read(work),
    write: (work) => connection.write(work),
    close: () => connection.close(),
    count(work, changed) {
      let before: number | null = null;
      const result = connection.write((sql) => {
        const present = generationOf(sql);
        const older = isOlder(present);
        if (older && repairs === 0) throw olderIndex(path);
        const answer = work(sql);
        if (!older && changed(answer)) saveGeneration(sql, (before = present) + 1);
        return answer;
      });
      if (before !== null) mark?.raise(before, before + 1);
      return result;
    },
  };
}

/** For a process that has the index open; every command that opens it repairs it. */
function olderIndex(path: string): Fault {
  return new Fault(
    "index_damaged",
    `${path} changed while this command used it: something replaced it with an older file. Start this command again.`,
    { facts: { path } },
  );
}

/** The document that precedes all others. */
const GENERATION = { kind: "generation", id: "index", open: false, data: {} } as const;

const RAISE =
  "UPDATE documents SET version = ?, sum = ? WHERE seq = 0 AND kind = 'generation' AND id = 'index' AND open = 0 AND data = '{}'";

export function generationOf(sql: Sql): number {
  const row = sql.one("SELECT * FROM documents WHERE seq = 0");
  const read = row === undefined ? undefined : rows.readDocument(row);
  return read?.wrong === undefined ? (read?.value.version ?? 0) : 0;
}

export function saveGeneration(sql: Sql, version: number): void {
  const columns = rows.documentColumns({ ...GENERATION, version }, 0);
  // An existing row keeps its place in the indexes: this writes one page instead of three.
  if (sql.run(RAISE, [version, columns["sum"] ?? null]) === 0) sql.run(SAVE_DOCUMENT, columns);
}
