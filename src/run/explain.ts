/**
 * What Reprise understands of an engine's output, line by line, without running anything: the reader, the choice
 * of the session id and the judgement are those of a live attempt.
 */
import type { EngineEvent, Exit, Outcome, SeenEvent, Stream, Trouble } from "../core/events.ts";
import type { Engine } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import { judge } from "./outcome.ts";

export interface Explanation {
  readonly engine: string;
  readonly stream: Stream;
  /** How many lines there were. */
  readonly lines: number;
  /** The id that counts when no session store is asked: the first one. */
  readonly session: SeenId | null;
  /** Every id in the output, each where it was first seen. More than one is a `session_mismatch`. */
  readonly sessions: readonly SeenId[];
  /** What was understood, in order; cut after `MAX_EVENTS`. */
  readonly events: readonly SeenEvent[];
  readonly eventsLeftOut: number;
  readonly troubles: readonly { readonly line: number; readonly trouble: Trouble }[];
  /** The latest reset that was announced, ISO 8601. */
  readonly resetsAt: string | null;
  readonly unknown: { readonly count: number; readonly firstLines: readonly number[] };
  readonly outcome: Outcome;
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

/** Nobody saw the process end, so its exit is not known. */
const UNSEEN: Exit = { code: null, signal: null };

export async function explainOutput(
  engine: Engine,
  chunks: AsyncIterable<Buffer>,
  options: { readonly stream: Stream; readonly now: () => number },
): Promise<Explanation> {
  const { stream } = options;
  const reader = engine.reader(options.now);
  const splitter = new LineSplitter(MAX_LINE_BYTES);
  const notes = new Notes(engine, stream);
  const read = (line: string) => notes.add(line, reader.line(stream, line));
  for await (const chunk of chunks) for (const line of splitter.push(chunk)) read(line);
  for (const line of splitter.end()) read(line);
  notes.note(reader.end(UNSEEN));
  return notes.explanation(options.now());
}

class Notes {
  readonly #engine: Engine;
  readonly #stream: Stream;
  readonly #events: SeenEvent[] = [];
  readonly #sessions: SeenId[] = [];
  readonly #troubles: { line: number; trouble: Trouble }[] = [];
  readonly #unknownLines: number[] = [];
  #line = 0;
  #leftOut = 0;
  #unknown = 0;
  #tail = "";
  #turnEnd: Extract<EngineEvent, { type: "turn_ended" }> | null = null;

  constructor(engine: Engine, stream: Stream) {
    this.#engine = engine;
    this.#stream = stream;
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
        this.#events.push({ event, stream: this.#stream, line: this.#line });
      else this.#leftOut += 1;
      this.#understand(event);
    }
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
    this.#sessions.push({ field: this.#engine.session.field, value, source: this.#stream, line: this.#line });
  }

  explanation(nowMs: number): Explanation {
    const explained = this.#turnEnd === null ? this.#engine.explainExit(UNSEEN, this.#tail, nowMs) : null;
    const troubles =
      explained === null ? this.#troubles : [...this.#troubles, { line: this.#line, trouble: explained }];
    const resets = troubles.flatMap(({ trouble }) => trouble.resetsAt ?? []).toSorted();
    return {
      engine: this.#engine.id,
      stream: this.#stream,
      lines: this.#line,
      session: this.#sessions[0] ?? null,
      sessions: this.#sessions,
      events: this.#events,
      eventsLeftOut: this.#leftOut,
      troubles,
      resetsAt: resets.at(-1) ?? null,
      unknown: { count: this.#unknown, firstLines: this.#unknownLines },
      outcome: judge({
        structured: true,
        interactive: false,
        exit: UNSEEN,
        turnEnd: this.#turnEnd,
        stop: null,
        explained,
        diverged: null,
      }),
    };
  }
}
