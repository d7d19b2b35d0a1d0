/**
 * One attempt in readable form or as JSON lines: the message, the agent's words and actions, and the end.
 *
 * Shows parsed output as the live view does. Shows unparsed output, and a UI's output, as text. Uses bounded memory,
 * during the attempt or afterwards.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { followStream, readStream } from "../state/logs.ts";
import { attemptDir, loadAttemptFile } from "../state/runs.ts";
import type { LogName } from "../state/tape.ts";
import { Fault, ifFault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessJson, harmlessLine } from "../lib/harmless.ts";
import { type JsonObject, parseObject, stringIn } from "../lib/json.ts";
import { LineSplitter } from "../lib/lines.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { readConversation } from "../run/conversation-reader.ts";
import { selectRun } from "../run/select.ts";
import { paint, type Terminal } from "./context.ts";
import { asked, eventFrom, EventText } from "./events-text.ts";
import { plainText, renderScreen } from "./plain.ts";
import { redactedText } from "./redacted.ts";

export interface TranscriptSource {
  readonly deps: Deps;
  readonly found: RunRecord;
  readonly n: number;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  /** For callers that know the end better than the records. */
  readonly ended?: () => boolean;
}

export interface Reading extends TranscriptSource {
  readonly isFirst: boolean;
  readonly json: boolean;
  readonly follow: boolean;
  readonly redact: Redact | null;
}

/** A line of `events.jsonl` is one event; skips longer ones. */
const MAX_EVENT = 8 * 1024 * 1024;
const POLL_MS = 50;
const FILE_COLUMNS = 1_000;
/** Enough to recognize the kind of output. */
const FIRST_LINE = 64 * 1024;

/** Throws `attempt_unknown` before the first part if nothing is readable. */
export async function* readableAttempt(reading: Reading): AsyncGenerator<string> {
  const { found, n, json, redact } = reading;
  // In this order: a record read first may be from before the end.
  const isLive = reading.follow && !(await hasEnded(reading));
  const record = await recordOf(found, n);
  const items = itemsOf(reading, record, isLive);
  // Opens the files before it prints anything; a live attempt may be silent for a long time.
  if (isLive) await filesThere(reading);
  const first = isLive ? null : await items.next();
  const head = { attempt: n, type: "attempt", ...(record === null ? {} : factsOf(record)) };
  const all = (async function* () {
    yield head;
    if (first !== null && first.done !== true) yield first.value;
    yield* items;
    const end = isLive && record?.outcome === null ? await recordOf(found, n) : null;
    if (end !== null && end.outcome !== null)
      yield { attempt: n, type: "attempt_ended", endedAt: end.endedAt, outcome: end.outcome };
  })();
  if (json) {
    for await (const item of all)
      yield `${harmlessJson({ attempt: n, ...(redact === null ? item : redactValue(item, redact)) })}\n`;
  } else {
    const text = asText(reading, record, all);
    yield* redact === null ? text : redactedText(text, redact);
  }
}

/** The parts of an attempt's record that belong in a log. */
function factsOf({ kind, state, startedAt, endedAt, message, outcome }: AttemptRecord): JsonObject {
  return { kind, state, startedAt, endedAt, message, outcome };
}

async function* asText(
  reading: Reading,
  record: AttemptRecord | null,
  items: AsyncIterable<JsonObject>,
): AsyncGenerator<string> {
  const { terminal, n } = reading;
  // Nothing needs to be cut for a file.
  const words = new EventText(terminal.stdout ? terminal : { ...terminal, columns: FILE_COLUMNS });
  for await (const item of items) {
    const type = stringIn(item, "type");
    if (type === "attempt") yield headerOf(reading, record);
    else if (type === "attempt_ended")
      yield `${words.endLine()}${paint(terminal, "dim", `attempt ${n} ended: ${howItEnded(await recordOf(reading.found, n))}`)}\n`;
    else {
      const event = eventFrom(item);
      if (event !== null) yield words.show(event);
    }
  }
  yield words.endLine();
}

function headerOf({ terminal, n, isFirst }: Reading, record: AttemptRecord | null): string {
  const facts = [
    `attempt ${n}`,
    ...(record === null ? [] : [record.kind, harmlessLine(record.startedAt, 40)]),
    howItEnded(record),
  ];
  const message = record === null || record.message === null ? [] : asked(record.message).split("\n");
  return [
    `${isFirst ? "" : "\n"}${paint(terminal, "bold", facts.join(" · "))}`,
    ...message.map((line) => paint(terminal, "dim", line)),
    "",
  ].join("\n");
}

function howItEnded(record: AttemptRecord | null): string {
  if (record === null) return "its record cannot be read";
  const { outcome, startedAt, endedAt } = record;
  if (outcome === null) return record.state === "ended" ? "ended" : "running";
  const took =
    endedAt === null ? "" : ` after ${formatDuration(Date.parse(endedAt) - Date.parse(startedAt))}`;
  const why = outcome.result === "completed" ? "" : `: ${harmlessLine(outcome.reason, 300)}`;
  return `${outcome.result}${took}${why}`;
}

/** The record may be damaged; the output is still there. */
function recordOf({ runDirectory }: RunRecord, n: number): Promise<AttemptRecord | null> {
  return loadAttemptFile(runDirectory, n).catch(ifFault(null));
}

/** Reprise corrects a dead owner's status on sight, so this becomes true when no process writes any more. */
async function hasEnded({ deps, found, n, ended }: TranscriptSource): Promise<boolean> {
  if (ended !== undefined) return ended();
  const now = await selectRun(deps, found.runId);
  return now.status !== "running" || now.attempts > n;
}

/**
 * Events as recorded, the conversation of an ended UI from its session, or else the text that was printed as events.
 * Ends with the attempt. Only printed text has no `t`.
 */
export async function* itemsOf(
  source: TranscriptSource,
  record: (Pick<AttemptRecord, "interactive"> & Partial<AttemptRecord>) | null,
  isLive: boolean,
): AsyncGenerator<JsonObject> {
  const { terminal } = source;
  if (record?.interactive === true && !isLive) {
    let found = false;
    for await (const item of saidDuring(source, record)) {
      found = true;
      yield item;
    }
    if (found) return;
  }
  if (record?.interactive !== true && (await isUnderstood(source, isLive))) {
    const lines = new LineSplitter(MAX_EVENT);
    for await (const chunk of bytesOf(source, "events", isLive)) yield* objectsIn(lines.push(chunk));
    yield* objectsIn(lines.end());
    return;
  }
  const bytes = bytesOf(source, "pty-output", isLive);
  const isScreen = record?.interactive === true && !isLive;
  for await (const text of isScreen ? renderScreen(bytes, terminal) : plainText(bytes))
    yield { type: "text", text, delta: true };
}

/** Nothing: the session cannot be read, or nobody said anything in this attempt. */
async function* saidDuring(
  { deps, found, n }: TranscriptSource,
  { message = null, startedAt = "" }: Partial<AttemptRecord>,
): AsyncGenerator<JsonObject> {
  const startedMs = Date.parse(startedAt);
  let isFirst = true;
  let from: string | undefined;
  for (;;) {
    const part = await readConversation(deps, found, from === undefined ? {} : { from });
    if (part.source === "events") return;
    for (const { event, atMs, attempt } of part.events) {
      if ((attempt ?? (atMs === null ? 1 : null)) !== n) continue;
      const isOpening =
        isFirst && event.type === "message" && message !== null && begins(event.text, message);
      isFirst &&= event.type !== "message";
      const t = atMs === null || Number.isNaN(startedMs) ? 0 : atMs - startedMs;
      yield { t, ...event, ...(isOpening ? { opening: true } : {}) };
    }
    if (!part.more) return;
    from = part.next;
  }
}

/** The record of an attempt has the beginning of a long message. */
function begins(text: string, recorded: string): boolean {
  return text.trim().startsWith(recorded.replace(/…$/, "").trim());
}

/** Skips a line that a crash cut off (I9). */
function objectsIn(lines: readonly string[]): JsonObject[] {
  return lines.map((line) => parseObject(line)).filter((found) => found !== undefined);
}

function bytesOf(source: TranscriptSource, log: LogName, isLive: boolean): AsyncIterable<Buffer> {
  const directory = attemptDir(source.found.runDirectory, source.n);
  if (!isLive) return readStream(directory, log);
  return followStream(directory, log, { ended: () => hasEnded(source), signal: source.signal });
}

/** An attempt is recorded before its files exist, also if a crash comes in between. */
async function filesThere(source: TranscriptSource): Promise<void> {
  for (;;) {
    try {
      for await (const _chunk of bytesOf(source, "pty-output", false)) break;
      return;
    } catch (error) {
      const isEarly = error instanceof Fault && error.code === "attempt_unknown" && !source.signal.aborted;
      if (!isEarly || (await hasEnded(source))) throw error;
      await sleep(POLL_MS);
    }
  }
}

/** Whether the engine's reader understood the output. For a live attempt, waits until that is clear. */
async function isUnderstood(source: TranscriptSource, isLive: boolean): Promise<boolean> {
  for (;;) {
    const over = !isLive || source.signal.aborted || (await hasEnded(source));
    if (await hasWords(source)) return true;
    const line = await firstLine(source);
    if (line !== null) return line.startsWith("{") && (await isThere(source, "events"));
    if (over) return false;
    await sleep(POLL_MS);
  }
}

/** Events that only a reader of structured output can produce. */
async function hasWords(source: TranscriptSource): Promise<boolean> {
  if (!(await isThere(source, "events"))) return false;
  const lines = new LineSplitter(MAX_EVENT);
  for await (const chunk of bytesOf(source, "events", false))
    for (const line of lines.push(chunk))
      if (WORDS.has(stringIn(parseObject(line), "type") ?? "")) return true;
  return false;
}

const WORDS: ReadonlySet<string> = new Set(["text", "tool", "turn_started"]);

/** Null: no whole line yet. */
async function firstLine(source: TranscriptSource): Promise<string | null> {
  if (!(await isThere(source, "stdout"))) return null;
  let bytes = Buffer.alloc(0);
  for await (const chunk of bytesOf(source, "stdout", false)) {
    bytes = Buffer.concat([bytes, chunk]);
    const text = bytes.toString("utf8").trimStart();
    if (text.includes("\n") || bytes.length >= FIRST_LINE) return text;
  }
  return null;
}

async function isThere(source: TranscriptSource, log: LogName): Promise<boolean> {
  try {
    for await (const _chunk of bytesOf(source, log, false)) break;
    return true;
  } catch (error) {
    if (error instanceof Fault && error.code === "attempt_unknown") return false;
    throw error;
  }
}
