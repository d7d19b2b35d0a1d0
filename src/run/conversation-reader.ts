/**
 * Reads the conversation of a run from a cursor on, in the shape of our events: from its recordings where the engine
 * reported events, otherwise from the engine's session or the run's copy of it.
 *
 * Changes nothing. A hostile or torn line is left out. Every text is redacted, then cut to a bounded length.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { EngineEvent } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { linesFrom, sessionFiles } from "../drivers/drivers.ts";
import type { Engine, SaidEvent } from "../engines/engine.ts";
import { type JsonObject, numberIn, parseObject, stringIn } from "../lib/json.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import { copyPath, readCopy } from "../state/escrow.ts";
import { attemptDir } from "../state/runs.ts";
import { boundedEvent, LOG_FILES } from "../state/tape.ts";
import type { Deps } from "./deps.ts";
import { allEngines, environmentOf } from "./engine-setup.ts";
import { lastCopyOf } from "./escrow/copies.ts";
import { recognition } from "./launch.ts";

export interface ConversationEvent {
  readonly event: EngineEvent;
  /** Wall clock, milliseconds. Null: the session does not say when. */
  readonly atMs: number | null;
  /** The attempt that was the latest at that time. Null: before the first attempt, or unknown. */
  readonly attempt: number | null;
  /** A later event with the same id replaces this one. Absent: nothing replaces it. */
  readonly id?: string;
}

export interface ConversationRead {
  /** Oldest first. A tool call is a `started` and an `ended` event with the same `event.id`. */
  readonly events: readonly ConversationEvent[];
  /** The cursor for the next call. Opaque. */
  readonly next: string;
  /** More can be read now. */
  readonly more: boolean;
  /** The events begin at the beginning, not at the cursor: the caller discards those of earlier calls. */
  readonly reset: boolean;
  /** events: our recording. session: the engine's own session. escrow: the run's copy of it. */
  readonly source: "events" | "session" | "escrow";
  /** Something is left out because it is too long. */
  readonly cut: boolean;
  /** Variables with secrets that an attempt had and that are not set today, so the events may hold their values. */
  readonly unknown: readonly string[];
}

export interface ConversationOptions {
  /** `next` of an earlier call. Absent: from the beginning. */
  readonly from?: string;
  /** About how many bytes to read (1 MiB). */
  readonly bytes?: number;
}

const READ_BYTES = 1024 * 1024;
/** A longer export is left out. */
const MAX_EXPORT = 64 * 1024 * 1024;

export async function readConversation(
  deps: Deps,
  run: RunRecord,
  { from, bytes = READ_BYTES }: ConversationOptions = {},
): Promise<ConversationRead> {
  const attempts = await deps.store.listAttempts(run.runId);
  const engine = allEngines(deps).find(({ id }) => id === run.agentName) ?? null;
  const env = engine === null ? deps.env : environmentOf(deps, engine, []).env;
  const { redact, unknown } = recognition(env, run, attempts);
  const reader: Reader = { deps, run, attempts, redact, bytes };
  const cursor = from === undefined ? null : cursorIn(from);
  const found =
    (engine === null || isRecorded(engine, attempts) ? null : await fromSessions(reader, engine, cursor)) ??
    (await fromEvents(reader, cursor));
  const { cursor: next, ...rest } = found;
  return { ...rest, next: Buffer.from(JSON.stringify(next)).toString("base64url"), unknown };
}

/** The engine reported every attempt in events. */
function isRecorded(engine: Engine, attempts: readonly AttemptRecord[]): boolean {
  return (
    attempts.length > 0 &&
    attempts.every((attempt) => !attempt.interactive && engine.printed(attempt) !== "text")
  );
}

interface Reader {
  readonly deps: Deps;
  readonly run: RunRecord;
  readonly attempts: readonly AttemptRecord[];
  readonly redact: Redact;
  readonly bytes: number;
}

/**
 * e: the attempt and the offset in its `events.jsonl`. s: the session and the offset in its file. x: the session, the
 * number of events in its export, and hashes of all but the last and of the last.
 */
type Cursor =
  | { readonly e: number; readonly at: number }
  | { readonly s: string; readonly at: number }
  | { readonly x: string; readonly n: number; readonly all: string; readonly last: string };

type Read = Omit<ConversationRead, "next" | "unknown"> & { readonly cursor: Cursor };

function cursorIn(text: string): Cursor {
  const found = parseObject(Buffer.from(text, "base64url").toString("utf8"));
  const [at, n] = [numberIn(found, "at") ?? -1, numberIn(found, "n") ?? -1];
  const [s, x] = [stringIn(found, "s"), stringIn(found, "x")];
  const e = numberIn(found, "e");
  if (e !== undefined && Number.isSafeInteger(e) && e >= 1 && Number.isSafeInteger(at) && at >= 0)
    return { e, at };
  if (s !== undefined && Number.isSafeInteger(at) && at >= 0) return { s, at };
  if (x !== undefined && Number.isSafeInteger(n) && n >= 0)
    return { x, n, all: stringIn(found, "all") ?? "", last: stringIn(found, "last") ?? "" };
  throw new Fault("usage", "Reprise did not make this cursor of a conversation. Begin without a cursor.");
}

/** Attempts in order. A recording from before messages were recorded gets the one of its record. */
async function fromEvents(reader: Reader, cursor: Cursor | null): Promise<Read> {
  const { run, attempts, redact, bytes } = reader;
  const isOurs = cursor !== null && "e" in cursor;
  let place = isOurs ? cursor : { e: attempts[0]?.n ?? 1, at: 0 };
  const events: ConversationEvent[] = [];
  let left = bytes;
  let cut = false;
  for (const record of attempts.filter(({ n }) => n >= place.e)) {
    if (place.e !== record.n) place = { e: record.n, at: 0 };
    const path = join(attemptDir(run.runDirectory, record.n), LOG_FILES.events);
    for (;;) {
      const found = await linesFrom(path, place.at, Math.max(1, left));
      if (found === null || found.next === place.at) break;
      const startedMs = Date.parse(record.startedAt);
      const isFirst = place.at === 0;
      const seen = found.lines.flatMap((line) => recorded(line, record.n, startedMs));
      if (isFirst && record.message !== null && seen[0]?.event.type !== "message")
        events.push({ ...opening(record.message), atMs: startedMs, attempt: record.n });
      events.push(...seen.map((one) => ({ ...one, event: redactValue(one.event, redact) })));
      cut ||= found.cut;
      left -= found.next - place.at;
      place = { e: record.n, at: found.next };
      if (left <= 0)
        return {
          ...{ events, cut, source: "events", cursor: place, reset: cursor !== null && !isOurs },
          more: found.next < found.size || record !== attempts.at(-1),
        };
    }
  }
  return { events, cut, source: "events", cursor: place, reset: cursor !== null && !isOurs, more: false };
}

function opening(text: string): { readonly event: EngineEvent } {
  return { event: { type: "message", text, opening: true } };
}

const SHOWN: ReadonlySet<string> = new Set<EngineEvent["type"]>([
  "message",
  "text",
  "tool",
  "retry",
  "notice",
  "usage",
  "turn_started",
  "turn_ended",
  "session_changed",
]);

/** A line of `events.jsonl`. Any process of the user may have changed the file. */
function recorded(line: string, attempt: number, startedMs: number): readonly ConversationEvent[] {
  const found = parseObject(line);
  if (found === undefined || !SHOWN.has(stringIn(found, "type") ?? "")) return [];
  const { t: _t, stream: _stream, line: _line, ...event } = found;
  const t = numberIn(found, "t");
  if (!fits(event)) return [];
  return [{ event, atMs: t === undefined ? null : startedMs + t, attempt }];
}

/** As far as every reader of events counts on it. */
function fits(found: JsonObject): found is JsonObject & EngineEvent {
  const type = stringIn(found, "type");
  if (type === "message" || type === "text") return stringIn(found, "text") !== undefined;
  if (type === "tool") return ["id", "name", "state"].every((name) => stringIn(found, name) !== undefined);
  return type !== "notice" || stringIn(found, "message") !== undefined;
}

/** The sessions of the run in order. Null: none of them can be read. */
async function fromSessions(reader: Reader, engine: Engine, cursor: Cursor | null): Promise<Read | null> {
  const { run } = reader;
  const own = run.sessions.filter(({ foreign }) => foreign === undefined).map(({ value }) => value);
  const ids = [...new Set([...own, ...(run.session.value === null ? [] : [run.session.value])])];
  const held = cursor === null || "e" in cursor ? null : "s" in cursor ? cursor.s : cursor.x;
  const isKnown = held !== null && ids.includes(held);
  const rest = isKnown ? ids.slice(ids.indexOf(held)) : ids;
  const reads: Read[] = [];
  for (const id of rest) {
    const at = cursor !== null && id === held ? cursor : null;
    const read = engine.transfer === undefined ? fromFile : fromExport;
    const found = await read(reader, engine, id, at);
    if (found !== null) reads.push(found);
    if (found?.more === true) break;
  }
  const last = reads.at(-1);
  if (last === undefined) return null;
  return {
    ...last,
    events: reads.flatMap(({ events }) => events),
    cut: reads.some(({ cut }) => cut),
    reset: reads.some(({ reset }) => reset) || (cursor !== null && !isKnown),
  };
}

async function fromFile(
  reader: Reader,
  engine: Engine,
  session: string,
  cursor: Cursor | null,
): Promise<Read | null> {
  const from = cursor !== null && "at" in cursor ? cursor.at : 0;
  for (const [source, path] of await placesOf(reader, engine, session)) {
    let found = await linesFrom(path, from, reader.bytes);
    if (found === null) continue;
    // Somebody cut the file short: what was read from it no longer counts.
    const reset = found.size < from;
    if (reset) found = await linesFrom(path, 0, reader.bytes);
    if (found === null) continue;
    const said = found.lines.flatMap((line) => engine.said?.(line) ?? []);
    return {
      ...{ events: told(reader, said), cut: found.cut, source, reset },
      more: found.next > (reset ? 0 : from) && found.next < found.size,
      cursor: { s: session, at: found.next },
    };
  }
  return null;
}

/** Where the session's file is now, then the run's copy. */
async function placesOf(
  { deps, run }: Reader,
  engine: Engine,
  session: string,
): Promise<readonly (readonly ["session" | "escrow", string])[]> {
  const home = run.engineHome ?? environmentOf(deps, engine, []).home;
  const places: (readonly ["session" | "escrow", string])[] = [];
  if (home !== null && engine.can.readStore && engine.session.format.test(session)) {
    const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
    const own = located.state === "present" ? located.files[0] : undefined;
    if (own !== undefined) places.push(["session", own.path]);
  }
  const copy = lastCopyOf(run, session)?.files[0];
  if (copy !== undefined) places.push(["escrow", copyPath(run.runDirectory, copy)]);
  return places;
}

/** Parts of an export grow in place, so it is read as a whole, and events that the caller has are left out. */
async function fromExport(
  reader: Reader,
  engine: Engine,
  session: string,
  cursor: Cursor | null,
): Promise<Read | null> {
  const { deps, run } = reader;
  const home = run.engineHome ?? environmentOf(deps, engine, []).home;
  const place = { home: home ?? "", cwd: run.cwd };
  const live = home === null ? null : await engine.transfer?.saidIn(session, place, sessionFiles());
  const isLive = live !== null && live !== undefined && live.length > 0;
  const said = isLive ? live : inCopy(run, engine, session);
  if (said === null) return null;
  const all = told(reader, said);
  const [rest, reset] = newOf(all, cursor);
  return {
    ...{ events: rest, cut: false, reset, more: false, source: isLive ? "session" : "escrow" },
    cursor: { x: session, n: all.length, all: hashOf(all.slice(0, -1)), last: hashOf(all.slice(-1)) },
  };
}

/** Null: there is no copy, or it is too long. */
function inCopy(run: RunRecord, engine: Engine, session: string): readonly SaidEvent[] | null {
  const copy = lastCopyOf(run, session)?.files[0];
  const text = copy === undefined || copy.size > MAX_EXPORT ? null : readCopy(run.runDirectory, copy);
  return text === null ? null : (engine.transfer?.said(text) ?? null);
}

/** The last event that the caller has may have grown since. */
function newOf(
  all: readonly ConversationEvent[],
  cursor: Cursor | null,
): readonly [events: readonly ConversationEvent[], reset: boolean] {
  if (cursor === null || !("x" in cursor) || cursor.n === 0) return [all, false];
  if (hashOf(all.slice(0, cursor.n - 1)) !== cursor.all) return [all, true];
  const isSame = hashOf(all.slice(cursor.n - 1, cursor.n)) === cursor.last;
  return [all.slice(isSame ? cursor.n : cursor.n - 1), false];
}

function hashOf(events: readonly ConversationEvent[]): string {
  return createHash("sha256").update(JSON.stringify(events)).digest("base64url").slice(0, 16);
}

/** Redacted, bounded, once each: a session may have the same message again. */
function told({ attempts, redact }: Reader, said: readonly SaidEvent[]): readonly ConversationEvent[] {
  const begun = new Map<string, { readonly name: string; readonly detail?: string }>();
  const events = new Map<string, ConversationEvent>();
  for (const [n, { event, at, id }] of said.entries()) {
    const ms = Date.parse(at ?? "");
    const atMs = Number.isNaN(ms) ? null : ms;
    const during = attempts.findLast(({ startedAt }) => atMs !== null && Date.parse(startedAt) <= atMs);
    if (event.type === "tool" && event.state === "started") begun.set(event.id, event);
    const named = event.type === "tool" ? namedBy(event, begun.get(event.id)) : event;
    events.set(keyOf(event, id, n), {
      event: boundedEvent(redactValue(named, redact)),
      ...{ atMs, attempt: during?.n ?? null },
      ...(id === undefined ? {} : { id }),
    });
  }
  return [...events.values()];
}

type ToolEvent = Extract<EngineEvent, { type: "tool" }>;

/** A session names a tool only where its call begins. */
function namedBy(
  event: ToolEvent,
  start: { readonly name: string; readonly detail?: string } | undefined,
): ToolEvent {
  if (start === undefined) return event;
  const { name, detail } = start;
  return { ...event, name, ...(detail === undefined ? {} : { detail }) };
}

function keyOf(event: EngineEvent, id: string | undefined, n: number): string {
  if (event.type === "tool") return `tool ${event.state} ${event.id}`;
  return id === undefined ? String(n) : `${event.type} ${id}`;
}
