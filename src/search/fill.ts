/**
 * Fills `search.db` from the recordings: after an attempt, and before a search whatever is missing. Reads only redacted
 * records: `events.jsonl` and the messages of attempts. The end of `events.jsonl` that was read last is kept per attempt.
 */
import { closeSync, existsSync, fstatSync, readSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { parseObject } from "../lib/json.ts";
import type { Deps } from "../run/run.ts";
import { openOwn } from "../state/files.ts";
import { attemptDir } from "../state/runs.ts";
import { LOG_FILES } from "../state/tape.ts";
import { copyOf, type FillProgress, replaceText } from "./sessions.ts";
import { type Section, Sections } from "./section.ts";
import { type ConversationKey, openSearchFile, type SearchFile } from "./search-file.ts";

/** Text that one transaction adds: other processes wait for it. */
const BATCH_BYTES = 4 * 1024 * 1024;
const READ_BYTES = 1024 * 1024;
/** A longer line of `events.jsonl` is skipped. */
const MAX_LINE = 8 * 1024 * 1024;
/** What an attempt's end may add to the search by itself; the next search adds more. */
const AT_END_BYTES = 192 * 1024;
/** Clocks of several processes differ. */
const OVERLAP_MS = 60_000;
/** Name in `meta`: everything before this time is in the search. */
const CAUGHT_UP = "caught-up";

/**
 * After the end of an attempt. Never in the way: an attempt with much text, a busy file or any trouble is left to the next
 * search.
 */
export async function indexAttempt(
  { state }: Pick<Deps, "state">,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<void> {
  if (!state.writable) return;
  let file: SearchFile | null = null;
  try {
    const size = sizeOf(run, attempt.n);
    if (size === null || size > AT_END_BYTES) return;
    file = await openSearchFile(state, { busyTimeoutMs: 0 });
    const known = file;
    known?.write(() => addAttempt(known, run, attempt));
  } catch {
    // The next search reports what it cannot do.
  } finally {
    file?.close();
  }
}

/** The text of a removed run goes with it. */
export async function removeFromSearch(deps: Deps, run: Pick<RunRecord, "runId">): Promise<void> {
  if (!deps.state.writable) return;
  let file: SearchFile | null = null;
  try {
    file = await openSearchFile(deps.state, { busyTimeoutMs: 5_000 });
    const row = file?.one("SELECT id FROM conversations WHERE run_id = ?", [run.runId]);
    if (file === null || row === undefined) return;
    const known = file;
    known.write(() => known.removeConversation(Number(row["id"])));
    known.settle();
  } catch (error) {
    // The next search removes it, or makes a damaged file again.
    if (!(error instanceof Fault) && file?.trouble(error) === null) throw error;
  } finally {
    file?.close();
  }
}

/** Brings the file up to date with the runs. A live run is read as far as it is. */
export async function catchUp(deps: Deps, file: SearchFile, onProgress: FillProgress): Promise<void> {
  const startedAt = new Date(deps.clock.now() - OVERLAP_MS).toISOString();
  const known = knownRuns(file);
  const listed = new Set(deps.state.runIds);
  // A run may be newer than the list.
  const isThere = (runId: string) => listed.has(runId) || existsSync(join(deps.state.runsRoot, runId));
  const removed = [...known].filter((runId) => !isThere(runId));
  const runs = (await changedRuns(deps, file.meta(CAUGHT_UP), known)).filter(({ runId }) => isThere(runId));
  for (const runId of removed) forget(file, runId);
  let batch: (() => void)[] = [];
  let bytes = 0;
  const flush = () => {
    const work = batch;
    [batch, bytes] = [[], 0];
    if (work.length > 0) file.write(() => work.forEach((add) => add()));
  };
  for (const [at, run] of runs.entries()) {
    onProgress(at, runs.length);
    const attempts = await deps.store.listAttempts(run.runId);
    batch.push(() => void file.conversation(keyOf(run)));
    for (const attempt of attempts) {
      batch.push(() => addAttempt(file, run, attempt));
      bytes += sizeOf(run, attempt.n) ?? 0;
      if (bytes > BATCH_BYTES) flush();
    }
    const copy = await copyOf(deps, file, run, attempts);
    if (copy !== null) batch.push(() => replaceText(file, keyOf(run), copy));
    // Lets a signal through.
    if (at % 100 === 99) await new Promise((wake) => setImmediate(wake));
  }
  flush();
  file.write(() => file.setMeta(CAUGHT_UP, startedAt));
  if (runs.length > 0 || removed.length > 0) file.settle();
}

/** Runs that the search lacks. */
export function missingRuns(deps: Deps, file: SearchFile | null): number {
  const known = file === null ? new Set() : knownRuns(file);
  return deps.state.runIds.filter((runId) => !known.has(runId)).length;
}

/** As one text: ten thousand rows would take longer than the search itself. */
function knownRuns(file: SearchFile): ReadonlySet<string> {
  const row = file.one("SELECT group_concat(run_id, '/') AS ids FROM conversations WHERE run_id IS NOT NULL");
  const ids = row?.["ids"];
  return new Set(typeof ids === "string" ? ids.split("/") : []);
}

function forget(file: SearchFile, runId: string): void {
  file.write(() => {
    const row = file.one("SELECT id FROM conversations WHERE run_id = ?", [runId]);
    if (row !== undefined) file.removeConversation(Number(row["id"]));
  });
}

/** Oldest first: new runs, runs that changed since the last time, and live ones. */
async function changedRuns(
  deps: Deps,
  since: string | null,
  known: ReadonlySet<string>,
): Promise<readonly RunRecord[]> {
  const limit = Number.POSITIVE_INFINITY;
  if (since === null) return (await deps.store.listRuns({ limit })).toReversed();
  const found = new Map<string, RunRecord>();
  const changed = await deps.store.listRuns({ updatedSince: since, limit });
  const live = await deps.store.listRuns({ status: "running", limit });
  for (const run of [...changed, ...live]) found.set(run.runId, run);
  for (const runId of deps.state.runIds) {
    if (known.has(runId) || found.has(runId)) continue;
    const run = await rowOf(deps, runId);
    if (run !== null) found.set(runId, run);
  }
  return [...found.values()].toSorted((one, other) => (one.createdAt < other.createdAt ? -1 : 1));
}

/** Null: the index has no readable row for this directory, which `doctor` reports. */
async function rowOf(deps: Deps, runId: string): Promise<RunRecord | null> {
  try {
    return await deps.store.getRun(runId);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

function keyOf({ runId, handle, agentName, cwd }: RunRecord): ConversationKey {
  return { runId, handle, engine: agentName, session: null, cwd, title: null };
}

/** Inside a transaction: another process may have added it a moment ago. */
function addAttempt(file: SearchFile, run: RunRecord, attempt: AttemptRecord): void {
  const name = `${run.runId}/${attempt.n}`;
  const conversation = file.conversation(keyOf(run));
  const known = file.source(name);
  const startedMs = Date.parse(attempt.startedAt);
  const source = known ?? file.newSource(conversation, name, attempt.n);
  const sections: Section[] = [];
  const text = new Sections((section) => sections.push(section));
  if (known === null) text.add("message", attempt.message ?? "", startedMs);
  const offset = readEvents(run, attempt.n, source.offset, (line) => {
    const event = parseObject(line);
    if (event !== undefined) text.event(event, startedMs);
  });
  text.end();
  if (known === null || offset !== source.offset) file.extend(source, sections, { offset, stamp: "" });
}

/** Null: there are no events. */
function sizeOf({ runDirectory }: RunRecord, n: number): number | null {
  const fd = openEvents(runDirectory, n);
  if (fd === null) return null;
  try {
    return fstatSync(fd).size;
  } finally {
    closeSync(fd);
  }
}

/** Whole lines after the byte `from`. Returns where the next look begins. */
function readEvents(
  { runDirectory }: RunRecord,
  n: number,
  from: number,
  take: (line: string) => void,
): number {
  const fd = openEvents(runDirectory, n);
  if (fd === null) return from;
  try {
    let at = from;
    let held = Buffer.alloc(0);
    const { size } = fstatSync(fd);
    for (let next = from; next < size;) {
      const part = Buffer.allocUnsafe(Math.min(READ_BYTES, size - next));
      const read = readSync(fd, part, 0, part.length, next);
      if (read === 0) break;
      next += read;
      held = held.length === 0 ? part.subarray(0, read) : Buffer.concat([held, part.subarray(0, read)]);
      const end = held.lastIndexOf(0x0a) + 1;
      if (end === 0 && held.length <= MAX_LINE) continue;
      for (const line of held.toString("utf8", 0, end).split("\n")) if (line !== "") take(line);
      at = end === 0 ? next : next - (held.length - end);
      held = held.subarray(end === 0 ? held.length : end);
    }
    return at;
  } finally {
    closeSync(fd);
  }
}

/** Null: missing, or not ours. */
function openEvents(runDirectory: string, n: number): number | null {
  try {
    return openOwn(join(attemptDir(runDirectory, n), LOG_FILES.events));
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}
