/**
 * Converts records to rows and back: columns, checksums, the event chain, and the damage of a changed row.
 *
 * Knows the columns, not the database: no SQL and no I/O. SQLite's checks miss most bit rot, so every row has a
 * checksum.
 */
import { createHash } from "node:crypto";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { LeaseState } from "./lease.ts";
import type { Document, LeaseOwner, NewEvent, StoredEvent } from "./contract.ts";

/** A row from the database. All of it is untrusted. */
export type SqlRow = Readonly<Record<string, string | number | null | Uint8Array>>;

/** Values to bind in a statement. */
export type Columns = Readonly<Record<string, string | number | null>>;

export type Read<T> = { readonly value: T; readonly wrong?: never } | { readonly wrong: string };

export const CHAIN_START = "0".repeat(64);

/**
 * Text for a column. SQLite's C strings end at a zero byte and UTF-8 has no lone surrogates; JSON escapes keep both,
 * and leave ordinary paths and names unchanged. Injective, so equality in SQL is equality of the originals.
 */
export function toColumn(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

export function fromColumn(column: string): string {
  return JSON.parse(`"${column}"`) as string;
}

export function runColumns(run: RunRecord): Columns {
  const runId = toColumn(run.runId);
  const record = JSON.stringify(run);
  return {
    run_id: runId,
    handle: toColumn(run.handle),
    engine: toColumn(run.agentName),
    status: toColumn(run.status),
    cwd: toColumn(run.cwd),
    subject: run.subject === null ? null : toColumn(run.subject),
    name: run.name === null ? null : toColumn(run.name),
    created_at: toColumn(run.createdAt),
    updated_at: toColumn(run.updatedAt),
    record,
    sum: sumOf("runs", runId, record),
  };
}

export function attemptColumns(attempt: AttemptRecord): Columns {
  const runId = toColumn(attempt.runId);
  const record = JSON.stringify(attempt);
  return {
    run_id: runId,
    n: attempt.n,
    state: toColumn(attempt.state),
    record,
    sum: sumOf("attempts", runId, attempt.n, record),
  };
}

export function leaseColumns(key: string, state: LeaseState): Columns {
  const column = toColumn(key);
  const owner = state.owner === null ? null : JSON.stringify(state.owner);
  return { key: column, fence: state.fence, owner, sum: sumOf("leases", column, state.fence, owner) };
}

/** `prev` is the hash of the previous event, so that no event can be changed, moved or dropped unnoticed. */
export function eventColumns(event: NewEvent, seq: number, prev: string): Columns {
  const columns = {
    seq,
    run_id: toColumn(event.runId),
    attempt: event.attempt,
    kind: toColumn(event.kind),
    at: toColumn(event.at),
    key: event.key === null ? null : toColumn(event.key),
    payload: JSON.stringify(event.payload),
    prev_hash: prev,
  };
  return { ...columns, hash: hashOf(Object.values(columns)) };
}

export function readRun(row: SqlRow): Read<RunRecord> {
  const { record, run_id: runId } = row;
  if (row["sum"] !== sumOf("runs", runId, record)) return { wrong: "the checksum does not match" };
  const value = parseObject(record);
  if (value?.["v"] !== 1 || !hasText(value, RUN_TEXTS) || typeof value["attempts"] !== "number") {
    return { wrong: "the record has not the shape of a run" };
  }
  const run = value as unknown as RunRecord;
  return disagreement(row, runColumns(run)) ?? { value: run };
}

export function readAttempt(row: SqlRow): Read<AttemptRecord> {
  const { record, run_id: runId, n } = row;
  if (row["sum"] !== sumOf("attempts", runId, n, record)) return { wrong: "the checksum does not match" };
  const value = parseObject(record);
  if (value?.["v"] !== 1 || !hasText(value, ATTEMPT_TEXTS) || typeof value["n"] !== "number") {
    return { wrong: "the record has not the shape of an attempt" };
  }
  const attempt = value as unknown as AttemptRecord;
  return disagreement(row, attemptColumns(attempt)) ?? { value: attempt };
}

export function readLease(row: SqlRow): Read<LeaseState> {
  const { key, fence, owner } = row;
  if (row["sum"] !== sumOf("leases", key, fence, owner)) return { wrong: "the checksum does not match" };
  const value = owner === null ? null : parseObject(owner);
  if (typeof fence !== "number" || value === undefined) return { wrong: "the owner is not an object" };
  return { value: { fence, owner: value as unknown as LeaseOwner | null } };
}

/** Checks the event alone. The reader checks that it follows its predecessor (`prev_hash`). */
export function readEvent(row: SqlRow): Read<StoredEvent> {
  const { seq, run_id: runId, attempt, kind, at, key, payload, prev_hash: prev } = row;
  if (row["hash"] !== hashOf([seq, runId, attempt, kind, at, key, payload, prev])) {
    return { wrong: "the hash does not match" };
  }
  const value = parseObject(payload);
  if (value === undefined) return { wrong: "the payload is not an object" };
  return {
    value: {
      seq: seq as number,
      runId: fromColumn(runId as string),
      attempt: attempt as number | null,
      kind: fromColumn(kind as string),
      at: fromColumn(at as string),
      key: key === null ? null : fromColumn(key as string),
      payload: value,
    },
  };
}

/** `seq` is the creation order of documents; the checksum covers it as well. */
export function documentColumns(document: Document, seq: number): Columns {
  const columns = {
    seq,
    kind: toColumn(document.kind),
    id: toColumn(document.id),
    version: document.version,
    open: document.open ? 1 : 0,
    data: JSON.stringify(document.data),
  };
  return { ...columns, sum: sumOf("documents", ...Object.values(columns)) };
}

export function readDocument(row: SqlRow): Read<Document> {
  const { seq, kind, id, version, open, data } = row;
  if (row["sum"] !== sumOf("documents", seq, kind, id, version, open, data)) {
    return { wrong: "the checksum does not match" };
  }
  const value = parseObject(data);
  if (value === undefined) return { wrong: "the data is not an object" };
  return {
    value: {
      kind: fromColumn(kind as string),
      id: fromColumn(id as string),
      version: version as number,
      open: open === 1,
      data: value,
    },
  };
}

/** These fields become columns and must exist; otherwise the columns cannot be compared. */
const RUN_TEXTS = ["runId", "handle", "agentName", "status", "cwd", "createdAt", "updatedAt"];
const ATTEMPT_TEXTS = ["runId", "state", "startedAt"];

function hasText(value: Readonly<Record<string, unknown>>, names: readonly string[]): boolean {
  return names.every((name) => typeof value[name] === "string");
}

function disagreement(row: SqlRow, expected: Columns): { wrong: string } | undefined {
  const column = Object.keys(expected).find((name) => row[name] !== expected[name]);
  return column === undefined ? undefined : { wrong: `the column ${column} disagrees with the record` };
}

function parseObject(text: unknown): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(String(text));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    // Text that is not JSON is damage, which the caller reports.
    return undefined;
  }
}

function sumOf(...parts: readonly unknown[]): string {
  return hashOf(parts).slice(0, 16);
}

function hashOf(parts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
