/** What the API reads beside the commands of the CLI: rows, parts of conversations and recordings, the inbox. */
import { lstatSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import { arrayIn, type JsonObject, parseObject, stringIn } from "../lib/json.ts";
import { openHolder } from "../detached/detached.ts";
import { redactValue } from "../lib/secrets.ts";
import { redactorFor } from "../run/engine-setup.ts";
import { selectRun } from "../run/select.ts";
import { READ_FLAGS, storageFault } from "../state/files.ts";
import { attemptDir, loadReceipt, runDirAt } from "../state/runs.ts";
import { LOG_FILES, type LogName } from "../state/tape.ts";
import { isErrno } from "../core/errno.ts";
import type { Core } from "./core.ts";
import { detailOf, type RunRow, rowOf } from "./rows.ts";
import type { BytesReply } from "./reply.ts";

type Words = Readonly<Record<string, string>>;

const MOST_ROWS = 2_000;
/** Rows beyond these have no tokens and limits, which cost a query each. */
const DETAILED = 200;

export async function listRows({ deps }: Core, query: Words): Promise<JsonObject> {
  const limit = Math.min(Number(query["limit"] ?? 500), MOST_ROWS);
  const { engine, status, tag, grep, after } = query;
  const filter = {
    ...(engine === undefined ? {} : { engine }),
    ...(status === undefined ? {} : { status: status as RunStatus }),
    ...(tag === undefined ? {} : { tags: [tag] }),
  };
  const runs = await deps.store.listRuns({
    ...filter,
    ...{ limit, sort: "updated" },
    ...(after === undefined ? {} : { after: cursorIn(after) }),
    ...(grep === undefined ? {} : { matches: mentions(grep) }),
  });
  const rows: JsonObject[] = [];
  for (const [at, run] of runs.entries())
    rows.push(at < DETAILED && after === undefined ? await detailed(deps, run) : rowOf(run));
  const last = runs.at(-1);
  const counts = grep === undefined ? Object.values(await deps.store.countRuns(filter)) : [];
  const total = grep === undefined ? counts.reduce((sum, count) => sum + count, 0) : null;
  return {
    ok: true,
    runs: rows,
    total,
    next: runs.length < limit || last === undefined ? null : cursorOf(last),
  };
}

const detailed = async (deps: Core["deps"], run: RunRecord): Promise<RunRow> => ({
  ...rowOf(run),
  ...(await detailOf(deps, run)),
});

function mentions(grep: string): (run: RunRecord) => boolean {
  const wanted = grep.toLowerCase();
  return (run) => {
    const { title, handle, agentName, cwd, name, tags } = rowOf(run);
    return JSON.stringify([title, handle, agentName, cwd, name, tags]).toLowerCase().includes(wanted);
  };
}

const cursorOf = ({ createdAt, runId, updatedAt }: RunRecord) =>
  Buffer.from(JSON.stringify([createdAt, runId, updatedAt])).toString("base64url");

function cursorIn(text: string): { createdAt: string; runId: string; updatedAt: string } {
  const [createdAt, runId, updatedAt] = arrayIn(
    parseObject(`{"a":${Buffer.from(text, "base64url").toString()}}`),
    "a",
  );
  if (typeof createdAt !== "string" || typeof runId !== "string" || typeof updatedAt !== "string")
    throw new Fault("usage", "The cursor is not one of this server.");
  return { createdAt, runId, updatedAt };
}

export async function showRun(core: Core, handle: string): Promise<JsonObject> {
  const shown = await core.ask(["show", handle]);
  const run = shown as unknown as RunRecord;
  return { ...(await detailed(core.deps, run)), ...shown, why: shown["whyNot"] ?? null };
}

/** An attempt by the path of a request. */
async function attemptAt(
  { deps }: Core,
  path: Words,
): Promise<{ run: RunRecord; n: number; directory: string }> {
  const run = await selectRun(deps, path["handle"] ?? "");
  const n = Number(path["n"]);
  if (n < 1 || n > run.attempts)
    throw new Fault(
      "attempt_unknown",
      `Run ${run.handle} has no attempt ${n}; the last one is ${run.attempts}.`,
      {
        facts: { handle: run.handle, attempt: n },
      },
    );
  runDirAt(deps.state, run.runDirectory);
  return { run, n, directory: attemptDir(run.runDirectory, n) };
}

const MOST_BYTES = 4 * 1024 * 1024;

/** Part of a log. Null: the log does not exist. */
async function readPart(
  directory: string,
  log: LogName,
  from: number,
  limit: number,
): Promise<{ readonly bytes: Buffer; readonly total: number } | null> {
  try {
    await using file = await open(join(directory, LOG_FILES[log]), READ_FLAGS);
    const { size: total } = await file.stat();
    const length = Math.max(0, Math.min(limit, total - from));
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.alloc(length), position: from });
    return { bytes: buffer.subarray(0, bytesRead), total };
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw storageFault(error, "read", join(directory, LOG_FILES[log]));
  }
}

const unrecorded = (n: number) => new Fault("attempt_unknown", `The recording of attempt ${n} is missing.`);

export async function readOutput(core: Core, path: Words, query: Words): Promise<BytesReply> {
  const { directory, n } = await attemptAt(core, path);
  const limit = Math.min(Number(query["limit"] ?? MOST_BYTES), MOST_BYTES);
  const part = await readPart(directory, "pty-output", Number(query["from"] ?? 0), limit);
  if (part === null) throw unrecorded(n);
  return { bytes: part.bytes, headers: { "Reprise-Total": String(part.total) } };
}

export async function readTiming(core: Core, path: Words): Promise<JsonObject> {
  const { directory, n } = await attemptAt(core, path);
  const part = await readPart(directory, "timing", 0, 16 * MOST_BYTES);
  if (part === null) throw unrecorded(n);
  const lines = part.bytes
    .toString("utf8")
    .split("\n")
    .flatMap((line) => parseObject(line) ?? []);
  return { ok: true, lines };
}

export async function readReceipt(core: Core, path: Words): Promise<JsonObject> {
  const { run, n } = await attemptAt(core, path);
  return { ok: true, receipt: await loadReceipt(run.runDirectory, n) };
}

const EVENT_BYTES = 256 * 1024;
const TOO_LONG = {
  type: "notice",
  message: "A part that is longer than 4 MiB is left out. `reprise logs` shows it.",
};

/** Whole lines only: the last line may still be growing. Instead of a longer line than a large part, a notice. */
async function eventsFrom(
  directory: string,
  from: number,
  most = EVENT_BYTES,
): Promise<{ readonly events: readonly JsonObject[]; readonly next: number; readonly done: boolean }> {
  const part = await readPart(directory, "events", from, most);
  if (part === null) return { events: [], next: from, done: true };
  const end = part.bytes.lastIndexOf(10) + 1;
  const isTooLong = end === 0 && part.bytes.length === most;
  if (isTooLong && most < MOST_BYTES) return eventsFrom(directory, from, MOST_BYTES);
  if (isTooLong)
    return {
      events: [TOO_LONG],
      next: from + part.bytes.length,
      done: from + part.bytes.length >= part.total,
    };
  const next = from + end;
  const lines = part.bytes.subarray(0, end).toString("utf8").split("\n");
  return {
    events: joined(lines.map((line) => parseObject(line)).filter((event) => event !== undefined)),
    next,
    done: next >= part.total || next === from,
  };
}

/** Text in many pieces becomes one event. */
function joined(events: readonly JsonObject[]): readonly JsonObject[] {
  const result: JsonObject[] = [];
  for (const event of events) {
    const last = result.at(-1);
    const continues = event["type"] === "text" && event["delta"] === true && last?.["type"] === "text";
    if (continues && last !== undefined)
      result[result.length - 1] = { ...last, text: `${String(last["text"])}${String(event["text"])}` };
    else result.push(event);
  }
  return result;
}

export async function readEvents(core: Core, path: Words, query: Words): Promise<JsonObject> {
  const { directory, n } = await attemptAt(core, path);
  const { events, next, done } = await eventsFrom(directory, Number(query["from"] ?? 0));
  const redact = redactorFor(core.deps.env, []);
  const shown = events.map((event) => ({ n, ...redactValue(event, redact) }));
  return { ok: true, events: shown, next: String(next), done };
}

export async function readConversation(core: Core, handle: string, query: Words): Promise<JsonObject> {
  const run = await selectRun(core.deps, handle);
  return { ok: true, ...(await conversationFrom(core, run, query)), live: run.status === "running" };
}

export interface TalkPart {
  readonly events: readonly JsonObject[];
  readonly next: string;
  readonly done: boolean;
  /** The events begin at the beginning: earlier ones do not count any more. */
  readonly reset?: true;
}

/** The cursor of a conversation that is read from the engine's session. */
const IN_SESSION = "s:";
export const isInSession = (cursor: string): boolean => cursor.startsWith(IN_SESSION);

/** A UI reports no events: its conversation is in the engine's session or the run's copy. */
async function sessionFrom({ deps }: Core, run: RunRecord, cursor: string | undefined): Promise<TalkPart> {
  const { readConversation: read } = await import("../run/conversation-reader.ts");
  const from = cursor?.slice(IN_SESSION.length);
  const part = await read(deps, run, from === undefined || from === "" ? {} : { from });
  const events = part.events.map(({ event, atMs, attempt, id }) => ({
    ...{ n: attempt ?? run.attempts, at: atMs === null ? null : new Date(atMs).toISOString() },
    ...(id === undefined ? {} : { key: id }),
    ...event,
  }));
  const reset = part.reset && from !== undefined ? { reset: true as const } : {};
  return { events, next: `${IN_SESSION}${part.next}`, done: !part.more, ...reset };
}

export async function conversationFrom(
  core: Core,
  run: RunRecord,
  query: { readonly from?: string; readonly limit?: string },
): Promise<TalkPart> {
  const { deps } = core;
  runDirAt(deps.state, run.runDirectory);
  const isUi = query.from === undefined && (await detailOf(deps, run))["interactive"] === true;
  if (isUi || isInSession(query.from ?? "")) return sessionFrom(core, run, query.from);
  let [n, at] = placeIn(query.from ?? "1:0");
  const most = Math.max(1, Math.min(Number(query.limit ?? 1_000), 5_000));
  const redact = redactorFor(deps.env, []);
  const events: JsonObject[] = [];
  let bytes = 0;
  const isFull = () => events.length >= most || bytes >= MOST_BYTES;
  while (n <= run.attempts && !isFull()) {
    const part = await eventsFrom(attemptDir(run.runDirectory, n), at);
    // A secret that came in pieces shows when they are joined.
    for (const event of part.events) events.push({ n, ...redactValue(event, redact) });
    bytes += part.next - at;
    at = part.next;
    if (!part.done) continue;
    if (n === run.attempts) break;
    [n, at] = [n + 1, 0];
  }
  return { events, next: `${n}:${at}`, done: n >= run.attempts && !isFull() };
}

/** 0: it does not exist, or cannot be examined. */
function sizeOf(path: string): number {
  try {
    return lstatSync(path).size;
  } catch {
    return 0;
  }
}

/** The cursor of a conversation: an attempt, and the offset in its events. */
function placeIn(cursor: string): [n: number, at: number] {
  const [, n, at] = /^([1-9]\d{0,8}):(\d{1,15})$/.exec(cursor) ?? [];
  if (n === undefined || at === undefined) throw new Fault("usage", "The cursor is not one of this server.");
  return [Number(n), Number(at)];
}

/** Without reading: the events of the attempt have grown beyond the cursor, or a later attempt exists. */
export function hasMore({ runDirectory, attempts, status }: RunRecord, cursor: string): boolean {
  if (isInSession(cursor)) return status === "running";
  const [n, at] = placeIn(cursor);
  const path = join(attemptDir(runDirectory, n), LOG_FILES.events);
  return n < attempts || sizeOf(path) > at;
}

const DAY_MS = 24 * 60 * 60_000;

export async function inbox(core: Core): Promise<JsonObject> {
  const { deps } = core;
  const { decisions } = await core.ask(["decisions", "list"]);
  const live = await deps.store.listRuns({ status: "running", limit: 100 });
  const since = new Date(deps.clock.now() - DAY_MS).toISOString();
  const recent = await deps.store.listRuns({ updatedSince: since, sort: "updated", limit: 100 });
  const rows = await Promise.all(
    recent.filter(({ status }) => status !== "running").map((run) => detailed(deps, run)),
  );
  const limits = rows.filter((row) => row["limit"] !== null);
  const waiting = (await Promise.all(live.map((run) => waitingRow(core, run)))).flat();
  return { ok: true, decisions, waiting, limits, ended: rows.slice(0, 50) };
}

/** A live UI that asks a person. Its holder answers quickly or not at all. */
async function waitingRow({ deps }: Core, run: RunRecord): Promise<readonly JsonObject[]> {
  if ((await detailOf(deps, run))["interactive"] !== true) return [];
  try {
    await using link = await openHolder(deps, run);
    const activity = link?.observed().activity;
    return activity?.state === "waiting" ? [{ ...rowOf(run), what: activity.what }] : [];
  } catch (error) {
    if (error instanceof Fault) return [];
    throw error;
  }
}

const BY_SUBJECT = 2_000;

export async function batches({ deps }: Core): Promise<JsonObject> {
  const runs = await deps.store.listRuns({
    ...{ limit: BY_SUBJECT, sort: "updated" },
    matches: ({ subject }) => subject?.startsWith("issue:") === true,
  });
  const held = await deps.batchHolds?.(runs);
  const byRepository = new Map<string, JsonObject[]>();
  for (const run of runs) {
    const [, repository = "", issue = ""] = /^issue:(.*)#(.*)$/.exec(run.subject ?? "") ?? [];
    const batch = held?.get(run.handle) ?? null;
    byRepository.set(repository, [...(byRepository.get(repository) ?? []), { ...rowOf(run), issue, batch }]);
  }
  return { ok: true, batches: [...byRepository].map(([repository, issues]) => ({ repository, issues })) };
}

export async function reviews({ deps }: Core): Promise<JsonObject> {
  const runs = await deps.store.listRuns({
    ...{ limit: BY_SUBJECT, sort: "updated" },
    matches: ({ subject }) => subject?.startsWith("pr:") === true,
  });
  return { ok: true, reviews: runs.map((run) => ({ ...rowOf(run), pull: run.subject?.slice(3) ?? "" })) };
}

export async function engines(core: Core): Promise<JsonObject> {
  const { engines: found } = await core.ask(["doctor"]);
  const rows = (found as readonly JsonObject[]).map((engine) => ({
    ...{ id: stringIn(engine, "id") ?? "", title: stringIn(engine, "title") ?? "" },
    ...{
      found: engine["program"] !== null,
      version: engine["version"] ?? null,
      login: engine["login"] ?? null,
    },
  }));
  return { ok: true, engines: rows };
}

/** Folders in which runs were started, last used first. */
export async function foldersOf({ deps }: Core): Promise<readonly string[]> {
  const runs = await deps.store.listRuns({ limit: 500, sort: "updated" });
  const own = runs.filter(({ runDirectory, cwd }) => !cwd.startsWith(runDirectory));
  return [...new Set(own.map(({ cwd }) => cwd))].slice(0, 50);
}
