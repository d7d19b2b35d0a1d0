/**
 * The embedded store: the methods of `Store` as SQL on one SQLite file.
 *
 * Every method is one transaction. Rows pass through `rows.ts`, so no row leaves unchecked; `connection.ts` opens the
 * file.
 */
import { placedAt } from "../core/placed.ts";
import { type Label, withLaterLabel } from "../core/label.ts";
import { limitOf } from "../core/limit.ts";
import type { RunRecord } from "../core/records.ts";
import { Fault } from "../core/faults.ts";
import { openConnection, type SqliteConnection, type Sql } from "./connection.ts";
import { type Counting, generationOf, SAVE_DOCUMENT, saveGeneration, withCount } from "./generation.ts";
import { checkFence, decideLease, runLeaseKey, unknownRun, type LeaseState } from "./lease.ts";
import { countLease } from "./lives.ts";
import { DOCUMENTS_SINCE } from "./migrations.ts";
import * as rows from "./rows.ts";
import { loadSqlite } from "./sqlite-module.ts";
import { documentKey, lastSeq, verifyAll } from "./sqlite-verify.ts";
import { countOf, HIT_LIMIT, selectionOf } from "./selection.ts";
import type { OpenOptions, Store } from "./contract.ts";

export async function openSqliteStore(path: string, options: OpenOptions): Promise<Store> {
  const connection = await openConnection(loadSqlite(), path, options);
  const counting = withCount(connection, path, options);
  return {
    ...runLookUps(counting, options),
    ...runChanges(counting),
    ...attemptMethods(counting, options),
    ...figures(counting),
    ...leaseMethods(connection),
    ...eventMethods(counting),
    ...documentMethods(counting, options),
    async generation() {
      return connection.facts.schema < DOCUMENTS_SINCE ? 0 : connection.read(generationOf);
    },
    async raiseGeneration(to) {
      const before = connection.write((sql) => {
        const present = generationOf(sql);
        if (present < to) saveGeneration(sql, to);
        return present;
      });
      if (before < to) options.mark?.raise(before, to);
    },
    repairing: (work) => counting.repairing(work),
    async verify() {
      return connection.read((sql) => verifyAll(sql, connection.facts.schema));
    },
    async about() {
      return { backend: "sqlite", path, ...connection.facts };
    },
    async [Symbol.asyncDispose]() {
      connection.close();
    },
  };
}

const NEWEST_FIRST = "ORDER BY created_at DESC, run_id DESC";

type RunLookUp = "getRun" | "findByHandle" | "listRuns" | "countRuns" | "listNames" | "unknownRuns";

function runLookUps(connection: Counting, { onDamage, runDirectory }: OpenOptions): Pick<Store, RunLookUp> {
  const placed = (run: RunRecord) => (runDirectory ? placedAt(run, runDirectory(run.runId)) : run);
  /** Lists leave out and report a damaged row: one bad row must not hide the others. */
  const undamaged = (found: readonly rows.SqlRow[]) =>
    found.flatMap((row) => {
      const read = rows.readRun(row);
      if (read.wrong === undefined) return [placed(read.value)];
      onDamage?.({ table: "runs", key: String(row["run_id"]), what: read.wrong });
      return [];
    });

  return {
    async getRun(runId) {
      const run = connection.read((sql) => runOf(sql, runId));
      return run === null ? null : placed(run);
    },
    async findByHandle(prefix) {
      const from = rows.toColumn(prefix);
      const text = `SELECT * FROM runs WHERE handle >= ? AND handle < ? ${NEWEST_FIRST} LIMIT 20`;
      return undamaged(connection.read((sql) => sql.all(text, [from, `${from}\u{10ffff}`])));
    },
    async listRuns(filter) {
      const [text, bound] = selectionOf(filter);
      const { matches, limit = 50 } = filter;
      const found = connection.read((sql) => sql.all(text, bound));
      if (matches === undefined) return undamaged(found);
      const fitting: RunRecord[] = [];
      for (const row of found) {
        if (fitting.length >= limit) break;
        fitting.push(...undamaged([row]).filter(matches));
      }
      return fitting;
    },
    async countRuns(filter) {
      const [text, bound] = countOf(filter);
      const found = connection.read((sql) => sql.all(text, bound));
      return Object.fromEntries(found.map(({ status, runs }) => [String(status), Number(runs)]));
    },
    async listNames() {
      const found = connection.read((sql) =>
        sql.all("SELECT DISTINCT name FROM runs WHERE name IS NOT NULL ORDER BY name", []),
      );
      return found.map(({ name }) => rows.fromColumn(String(name)));
    },
    async unknownRuns(runIds) {
      const text = "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT run_id FROM runs)";
      const found = connection.read((sql) => sql.all(text, [JSON.stringify(runIds)]));
      return found.map(({ value }) => String(value));
    },
  };
}

function runChanges(connection: Counting): Pick<Store, "createRun" | "saveRun" | "labelRun" | "deleteRun"> {
  return {
    async createRun(run) {
      const added = connection.count(
        (sql) => sql.run(INSERT_RUN, rows.runColumns(run)),
        (count) => count === 1,
      );
      return added === 1 ? "created" : "handle_taken";
    },
    async saveRun(run, fence) {
      connection.write((sql) => {
        checkFence(leaseOf(sql, runLeaseKey(run.runId)), run.runId, fence);
        const labelled = withLaterLabel(run, storedLabel(sql, run.runId));
        if (sql.run(UPDATE_RUN, rows.runColumns(labelled)) === 0) throw unknownRun(run.runId);
      });
    },
    async labelRun(runId, label) {
      connection.write((sql) => {
        const run = runOf(sql, runId);
        if (run === null) throw unknownRun(runId);
        sql.run(UPDATE_RUN, rows.runColumns(withLaterLabel(run, label)));
      });
    },
    async deleteRun(runId) {
      connection.count((sql) => {
        // The attempts go with it (ON DELETE CASCADE).
        sql.run("DELETE FROM runs WHERE run_id = ?", [rows.toColumn(runId)]);
        sql.run("DELETE FROM leases WHERE key = ?", [rows.toColumn(runLeaseKey(runId))]);
      }, always);
    },
  };
}

const always = () => true;
const notNull = (answer: unknown) => answer !== null;

const INSERT_RUN = `INSERT INTO runs VALUES (:run_id, :handle, :engine, :status, :cwd, :subject, :name, :created_at,
  :updated_at, :record, :sum) ON CONFLICT DO NOTHING`;
const UPDATE_RUN = `UPDATE runs SET handle = :handle, engine = :engine, status = :status, cwd = :cwd,
  subject = :subject, name = :name, created_at = :created_at, updated_at = :updated_at, record = :record, sum = :sum
  WHERE run_id = :run_id`;

type AttemptMethod = "createAttempt" | "saveAttempt" | "listAttempts" | "attemptsSince";

function attemptMethods(connection: Counting, { onDamage }: OpenOptions): Pick<Store, AttemptMethod> {
  return {
    async createAttempt(attempt, fence) {
      return connection.count((sql) => {
        checkFence(leaseOf(sql, runLeaseKey(attempt.runId)), attempt.runId, fence);
        const run = runOf(sql, attempt.runId);
        if (run === null) throw unknownRun(attempt.runId);
        if (sql.run(`${INSERT_ATTEMPT} DO NOTHING`, rows.attemptColumns(attempt)) === 0) return false;
        sql.run(UPDATE_RUN, rows.runColumns({ ...run, attempts: attempt.n, status: "running" }));
        return true;
      }, Boolean);
    },
    async saveAttempt(attempt, fence) {
      connection.write((sql) => {
        checkFence(leaseOf(sql, runLeaseKey(attempt.runId)), attempt.runId, fence);
        const runId = rows.toColumn(attempt.runId);
        if (sql.one("SELECT 1 FROM runs WHERE run_id = ?", [runId]) === undefined)
          throw unknownRun(attempt.runId);
        sql.run(
          `${INSERT_ATTEMPT} DO UPDATE SET state = :state, record = :record, sum = :sum`,
          rows.attemptColumns(attempt),
        );
      });
    },
    async listAttempts(runId) {
      const text = "SELECT * FROM attempts WHERE run_id = ? ORDER BY n";
      const found = connection.read((sql) => sql.all(text, [rows.toColumn(runId)]));
      return found.map((row) =>
        valueOf(rows.readAttempt(row), `attempt ${String(row["n"])} of run ${runId}`, { runId }),
      );
    },
    async attemptsSince(startedAt) {
      const found = connection.read((sql) => sql.all(SINCE, [startedAt]));
      return found.flatMap((row) => {
        const read = rows.readAttempt(row);
        if (read.wrong === undefined) {
          const [handle, agentName] = [String(row["handle"]), String(row["engine"])].map(rows.fromColumn);
          return { handle: handle ?? "", agentName: agentName ?? "", attempt: read.value };
        }
        onDamage?.({
          table: "attempts",
          key: `${String(row["run_id"])} ${String(row["n"])}`,
          what: read.wrong,
        });
        return [];
      });
    },
  };
}

/** Text that is not JSON is damage, which the reader of the row reports. */
const SINCE = `SELECT a.*, r.handle, r.engine FROM attempts a JOIN runs r USING (run_id)
  WHERE CASE WHEN json_valid(a.record) THEN json_extract(a.record, '$.startedAt') >= ? ELSE TRUE END
  ORDER BY r.created_at, a.run_id, a.n`;

/** What lists show of the attempts of several runs at once. */
function figures(connection: Counting): Pick<Store, "limitsOf" | "tokensOf"> {
  return {
    async limitsOf(runIds) {
      const found = connection.read((sql) => sql.all(LIMITS, [JSON.stringify(runIds.map(rows.toColumn))]));
      return new Map(
        found.flatMap((row) => {
          const read = rows.readAttempt(row);
          const limit = read.wrong === undefined ? limitOf(read.value) : null;
          return limit === null ? [] : [[rows.fromColumn(String(row["run_id"])), limit] as const];
        }),
      );
    },
    async tokensOf(runIds) {
      const found = connection.read((sql) => sql.all(TOKENS, [JSON.stringify(runIds.map(rows.toColumn))]));
      return new Map(
        found.map((row) => {
          const costUsd = row["cost"] === null ? {} : { costUsd: Number(row["cost"]) };
          const tokens = { input: Number(row["input"]), output: Number(row["output"]), ...costUsd };
          return [rows.fromColumn(String(row["run_id"])), tokens] as const;
        }),
      );
    },
  };
}

const LIMITS = `SELECT a.* FROM json_each(?) w JOIN attempts a ON a.run_id = w.value WHERE ${HIT_LIMIT}`;

const TOKENS = `SELECT a.run_id, sum(json_extract(a.record, '$.tokens.input')) AS input,
  sum(json_extract(a.record, '$.tokens.output')) AS output, sum(json_extract(a.record, '$.tokens.costUsd')) AS cost
  FROM json_each(?) w JOIN attempts a ON a.run_id = w.value
  WHERE CASE WHEN json_valid(a.record) THEN json_type(a.record, '$.tokens') = 'object' ELSE FALSE END
  GROUP BY a.run_id`;

const INSERT_ATTEMPT =
  "INSERT INTO attempts VALUES (:run_id, :n, :state, :record, :sum) ON CONFLICT (run_id, n)";

type LeaseMethod = "acquireLease" | "releaseLease" | "renewLease" | "getLease" | "listLeases";

function leaseMethods(connection: SqliteConnection): Pick<Store, LeaseMethod> {
  const save = (sql: Sql, key: string, state: LeaseState) =>
    sql.run(
      "INSERT OR REPLACE INTO leases VALUES (:key, :fence, :owner, :sum)",
      rows.leaseColumns(key, state),
    );

  return {
    async acquireLease(key, owner, isAlive) {
      return connection.write((sql) => {
        const answer = decideLease(leaseOf(sql, key), { key, owner, isAlive });
        // Counted before the commit: an extra count only keeps a file, and never denies a life.
        if (answer.held) countLease(owner.life, key, true);
        if (answer.held) save(sql, key, answer.lease);
        return answer;
      });
    },
    async releaseLease(key, fence) {
      connection.write((sql) => {
        if (leaseOf(sql, key)?.fence === fence) save(sql, key, { fence, owner: null });
      });
      countLease(undefined, key, false);
    },
    async renewLease(key, fence, atMs) {
      return connection.write((sql) => {
        const lease = leaseOf(sql, key);
        if (lease?.fence !== fence || lease.owner === null) return false;
        save(sql, key, { fence, owner: { ...lease.owner, renewedAtMs: atMs } });
        return true;
      });
    },
    async getLease(key) {
      const lease = connection.read((sql) => leaseOf(sql, key));
      return lease === undefined || lease.owner === null
        ? null
        : { key, fence: lease.fence, owner: lease.owner };
    },
    async listLeases() {
      const found = connection.read((sql) => sql.all("SELECT * FROM leases WHERE owner IS NOT NULL"));
      // A lookup of its key reports a damaged lease.
      return found.flatMap((row) => {
        const read = rows.readLease(row);
        if (read.wrong !== undefined || read.value.owner === null) return [];
        return { key: rows.fromColumn(String(row["key"])), fence: read.value.fence, owner: read.value.owner };
      });
    },
  };
}

function eventMethods(connection: Counting): Pick<Store, "appendEvent" | "listEvents"> {
  return {
    async appendEvent(event) {
      return connection.count((sql) => {
        const key = event.key === null ? null : rows.toColumn(event.key);
        if (key !== null && sql.one("SELECT 1 FROM events WHERE key = ?", [key]) !== undefined) return null;
        const last = sql.one("SELECT hash FROM events ORDER BY seq DESC LIMIT 1");
        const seq = lastSeq(sql) + 1;
        sql.run(INSERT_EVENT, rows.eventColumns(event, seq, String(last?.["hash"] ?? rows.CHAIN_START)));
        return seq;
      }, notNull);
    },
    async listEvents(runId, afterSeq = 0) {
      const text = "SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq";
      const found = connection.read((sql) => sql.all(text, [rows.toColumn(runId), afterSeq]));
      return found.map((row) =>
        valueOf(rows.readEvent(row), `event ${String(row["seq"])} of run ${runId}`, { runId }),
      );
    },
  };
}

const INSERT_EVENT =
  "INSERT INTO events VALUES (:seq, :run_id, :attempt, :kind, :at, :key, :payload, :prev_hash, :hash)";

type DocumentMethod = "saveDocument" | "getDocument" | "deleteDocument" | "listDocuments";

function documentMethods(connection: Counting, { onDamage }: OpenOptions): Pick<Store, DocumentMethod> {
  const hasNone = () => connection.facts.schema < DOCUMENTS_SINCE;
  return {
    async saveDocument(document, expected) {
      if (hasNone()) throw new Fault("storage_failed", "The index is open read only.");
      return connection.count((sql) => {
        const [kind, id] = [rows.toColumn(document.kind), rows.toColumn(document.id)];
        const row = sql.one("SELECT seq, version FROM documents WHERE kind = ? AND id = ?", [kind, id]);
        if ((row?.["version"] ?? null) !== expected) return null;
        const seq =
          row?.["seq"] ?? sql.one("SELECT coalesce(max(seq), 0) + 1 AS next FROM documents")?.["next"];
        const version = (expected ?? 0) + 1;
        sql.run(SAVE_DOCUMENT, rows.documentColumns({ ...document, version }, Number(seq)));
        return version;
      }, notNull);
    },
    async getDocument(kind, id) {
      if (hasNone()) return null;
      const bound = [rows.toColumn(kind), rows.toColumn(id)];
      const row = connection.read((sql) =>
        sql.one("SELECT * FROM documents WHERE kind = ? AND id = ?", bound),
      );
      return row === undefined ? null : valueOf(rows.readDocument(row), `${kind} ${id}`, { kind, id });
    },
    async deleteDocument(kind, id) {
      if (hasNone()) return;
      const bound = [rows.toColumn(kind), rows.toColumn(id)];
      connection.count((sql) => sql.run("DELETE FROM documents WHERE kind = ? AND id = ?", bound), Boolean);
    },
    async listDocuments(kind, { open } = {}) {
      if (hasNone()) return [];
      const [where, bound] = open === undefined ? ["", []] : ["AND open = ?", [open ? 1 : 0]];
      const text = `SELECT * FROM documents WHERE kind = ? ${where} ORDER BY seq`;
      const found = connection.read((sql) => sql.all(text, [rows.toColumn(kind), ...bound]));
      return found.flatMap((row) => {
        const read = rows.readDocument(row);
        if (read.wrong === undefined) return [read.value];
        onDamage?.({ table: "documents", key: documentKey(row), what: read.wrong });
        return [];
      });
    },
  };
}

function runOf(sql: Sql, runId: string) {
  const row = sql.one("SELECT * FROM runs WHERE run_id = ?", [rows.toColumn(runId)]);
  return row === undefined ? null : valueOf(rows.readRun(row), `run ${runId}`, { runId });
}

/** Null: the label is that of the start, or the row is damaged. */
function storedLabel(sql: Sql, runId: string): Label | null {
  const text = `SELECT * FROM runs WHERE run_id = ? AND instr(record, '"relabelled":') > 0`;
  const row = sql.one(text, [rows.toColumn(runId)]);
  const read = row === undefined ? undefined : rows.readRun(row);
  return read === undefined || read.wrong !== undefined ? null : read.value;
}

function leaseOf(sql: Sql, key: string): LeaseState | undefined {
  const row = sql.one("SELECT * FROM leases WHERE key = ?", [rows.toColumn(key)]);
  return row === undefined ? undefined : valueOf(rows.readLease(row), `lease ${key}`, { key });
}

function valueOf<T>(read: rows.Read<T>, of: string, facts: Readonly<Record<string, string>>): T {
  if (read.wrong === undefined) return read.value;
  const text = `The index record of ${of} is damaged: ${read.wrong}. Type \`reprise doctor --rebuild-index\`.`;
  throw new Fault("record_damaged", text, { facts });
}
