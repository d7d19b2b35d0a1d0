/**
 * How Reprise parses an engine's output, line by line, without running anything: the reader, the choice
 * of the session id and the judgement are those of a live attempt. The command line is unknown, so Reprise assumes from
 * the output whether it is machine-readable, and reports the assumption.
 */
import type { EngineEvent, Exit, Outcome, SeenEvent, Stream, Trouble } from "../core/events.ts";
import type { Engine } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import { judge } from "./attempt/outcome.ts";

export interface Explanation {
  readonly engine: string;
  readonly stream: Stream;
  /** events: some lines are events of the engine. Otherwise text. */
  readonly assumed: "events" | "text";
  /** The exit code that the judgement assumes. Null: unknown. */
  readonly exitCode: number | null;
  /** How many lines there were. */
  readonly lines: number;
  /** The id that counts without the engine's store: the first one. */
  readonly session: SeenId | null;
  /** Every id in the output, each where it was first seen. More than one is a `session_mismatch`. */
  readonly sessions: readonly SeenId[];
  /** The parsed events in order, at most `MAX_EVENTS`. */
  readonly events: readonly SeenEvent[];
  readonly eventsLeftOut: number;
  readonly troubles: readonly { readonly line: number; readonly trouble: Trouble }[];
  /** The latest reset that was announced, ISO 8601. */
  readonly resetsAt: string | null;
  readonly unknown: { readonly count: number; readonly firstLines: readonly number[] };
  /** Null: the input does not show how the turn ended. Text shows it only with an exit code, stderr only for failures. */
  readonly outcome: Outcome | null;
}

export interface SeenId {
  readonly field: string;
  readonly value: string;
  readonly source: Stream;
  readonly line: number;
}

const MAX_LINE_BYTES = 1024 * 1024;
const MAX_EVENTS = 10_000;
const MAX_UNKNOWN_LINES = 10;
const TAIL_CHARACTERS = 8_192;

export interface ExplainOptions {
  readonly stream: Stream;
  readonly now: () => number;
  /** Null: unknown. */
  readonly exitCode: number | null;
  /** Null: assumed from the output. */
  readonly printed: "events" | "text" | null;
}

export async function explainOutput(
  engine: Engine,
  chunks: AsyncIterable<Buffer>,
  options: ExplainOptions,
): Promise<Explanation> {
  const { stream, now } = options;
  const kinds = options.printed === null ? (["events", "text"] as const) : [options.printed];
  const readings = kinds.map((printed) => ({
    reader: engine.reader(now, printed),
    notes: new Notes(engine, printed, options),
  }));
  const splitter = new LineSplitter(MAX_LINE_BYTES);
  const read = (line: string) => {
    for (const { reader, notes } of readings) notes.add(line, reader.line(stream, line));
  };
  for await (const chunk of chunks) for (const line of splitter.push(chunk)) read(line);
  for (const line of splitter.end()) read(line);
  for (const { reader, notes } of readings) notes.end(reader.end({ code: options.exitCode, signal: null }));
  const [first, second = first] = readings.map(({ notes }) => notes);
  // Events that plain text can produce as well do not count: iFlow prints nothing else.
  const isText = (events: Notes, text: Notes) =>
    text.understood > events.understood || (stream === "stdout" && text.understood === events.understood);
  const taken = first === undefined || second === undefined || isText(first, second) ? second : first;
  return (taken ?? new Notes(engine, "text", options)).explanation(now());
}

class Notes {
  readonly #engine: Engine;
  readonly #printed: "events" | "text";
  readonly #options: ExplainOptions;
  readonly #events: SeenEvent[] = [];
  readonly #sessions: SeenId[] = [];
  readonly #troubles: { line: number; trouble: Trouble }[] = [];
  readonly #unknownLines: number[] = [];
  #line = 0;
  #leftOut = 0;
  #unknown = 0;
  #tail = "";
  #turnEnd: Extract<EngineEvent, { type: "turn_ended" }> | null = null;

  constructor(engine: Engine, printed: "events" | "text", options: ExplainOptions) {
    this.#engine = engine;
    this.#printed = printed;
    this.#options = options;
  }

  /** How many events there were. */
  get understood(): number {
    return this.#events.length + this.#leftOut;
  }

  add(text: string, events: readonly EngineEvent[]): void {
    this.#line += 1;
    this.#tail = `${this.#tail}${text}\n`.slice(-TAIL_CHARACTERS);
    this.note(events);
  }

  note(events: readonly EngineEvent[]): void {
    for (const event of events) {
      if (event.type === "unknown") {
        this.#unknown += 1;
        if (this.#unknownLines.length < MAX_UNKNOWN_LINES) this.#unknownLines.push(this.#line);
        continue;
      }
      if (this.#events.length < MAX_EVENTS)
        this.#events.push({ event, stream: this.#options.stream, line: this.#line });
      else this.#leftOut += 1;
      this.#understand(event);
    }
  }

  /** The end of stderr alone proves a turn's end only if stderr reports it, because the reader did not see stdout. */
  end(events: readonly EngineEvent[]): void {
    const { stream } = this.#options;
    const isSaid = (event: EngineEvent) =>
      event.type !== "turn_ended" ||
      (event.result === "failed" && this.#tail.includes(event.trouble?.message ?? "\n"));
    this.note(stream === "stderr" ? events.filter(isSaid) : events);
  }

  #understand(event: EngineEvent): void {
    if (event.type === "session" || event.type === "session_changed") this.#sawSession(event.session);
    if (event.type === "turn_ended") this.#turnEnd = event;
    const trouble = event.type === "retry" || event.type === "turn_ended" ? event.trouble : undefined;
    if (trouble !== undefined && this.#troubles.length < MAX_EVENTS)
      this.#troubles.push({ line: this.#line, trouble });
  }

  #sawSession(value: string): void {
    if (this.#sessions.length >= MAX_EVENTS || this.#sessions.some((known) => known.value === value)) return;
    const { field } = this.#engine.session;
    this.#sessions.push({ field, value, source: this.#options.stream, line: this.#line });
  }

  explanation(nowMs: number): Explanation {
    const { stream, exitCode } = this.#options;
    const explained = this.#turnEnd === null ? this.#explained(nowMs) : null;
    const troubles =
      explained === null ? this.#troubles : [...this.#troubles, { line: this.#line, trouble: explained }];
    const resets = troubles.flatMap(({ trouble }) => trouble.resetsAt ?? []).toSorted();
    return {
      engine: this.#engine.id,
      stream,
      assumed: this.#printed,
      exitCode,
      lines: this.#line,
      session: this.#sessions[0] ?? null,
      sessions: this.#sessions,
      events: this.#events,
      eventsLeftOut: this.#leftOut,
      troubles,
      resetsAt: resets.at(-1) ?? null,
      unknown: { count: this.#unknown, firstLines: this.#unknownLines },
      outcome: this.#outcome(explained),
    };
  }

  /** The trouble that the engine's last output explains, unless the exit code shows success. */
  #explained(nowMs: number): Trouble | null {
    const { stream, exitCode } = this.#options;
    const exit: Exit = { code: exitCode ?? FAILED, signal: null };
    const stdout = stream === "stdout" ? this.#tail : "";
    const stderr = stream === "stderr" ? this.#tail : "";
    const trouble = this.#engine.explainExit(
      exit,
      stderr,
      nowMs,
      this.#printed === "text" ? stdout : undefined,
    );
    // A successful agent also writes warnings and retries to stderr.
    const isGuess = (kind: string) =>
      kind === "other" || this.#troubles.some((retried) => retried.trouble.kind === kind);
    const isUnseen = stream === "stderr" && exitCode === null;
    return trouble !== null && isUnseen && isGuess(trouble.kind) ? null : trouble;
  }

  #outcome(explained: Trouble | null): Outcome | null {
    const { exitCode, stream } = this.#options;
    const structured = this.#printed === "events";
    const isSilent = explained === null && this.#turnEnd === null;
    // If stdout has the events, stderr proves nothing about a turn that did not fail.
    if (isSilent && (structured ? stream === "stderr" : exitCode === null)) return null;
    return judge({
      structured,
      interactive: false,
      exit: { code: exitCode, signal: null },
      turnEnd: this.#turnEnd,
      stop: null,
      explained,
      diverged: null,
    });
  }
}

/** The exit code of an assumed failure. */
const FAILED = 1;
