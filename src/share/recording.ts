/**
 * Reads the recording of a terminal with its timing: output and sizes in order. Missing times, of an old or interrupted
 * recording, become an even pace.
 */
import { Fault } from "../core/faults.ts";
import { numberIn, parseObject } from "../lib/json.ts";
import { LineSplitter } from "../lib/lines.ts";
import type { TerminalSize } from "../lib/terminal-state.ts";
import { readStream } from "../state/logs.ts";

/** `atMs`: since the attempt began. Never smaller than that of the step before. */
export interface RecordedStep {
  readonly atMs: number;
  /** The size changes before the output. */
  readonly size?: TerminalSize;
  readonly bytes: Buffer;
}

export interface RecordingFacts {
  readonly durationMs: number;
  /** The size at the beginning. Null: the recording has none. */
  readonly size: TerminalSize | null;
  /** False: some output has no time and plays at an even pace. */
  readonly timed: boolean;
}

/** Steps within this time become one: faster than people see. */
const TOGETHER_MS = 33;
/** Untimed output, per step. */
const EVEN_BYTES = 256;
const EVEN_MS = 20;
const MAX_LINE = 4_096;
const MAX_SIDE = 1_000;
/** Of a step that goes on for long, this much at once. */
const MAX_STEP = 256 * 1024;

export async function recordingFacts(directory: string): Promise<RecordingFacts> {
  let timed = 0;
  let atMs = 0;
  let size: TerminalSize | null = null;
  for await (const mark of marksOf(directory)) {
    atMs = Math.max(atMs, mark.atMs);
    if (mark.size !== null && timed === 0) size = mark.size;
    timed += mark.bytes;
  }
  let total = 0;
  for await (const chunk of readStream(directory, "pty-output")) total += chunk.length;
  const untimed = Math.max(0, total - timed);
  return { durationMs: atMs + Math.ceil(untimed / EVEN_BYTES) * EVEN_MS, size, timed: untimed === 0 };
}

export async function* stepsOf(directory: string): AsyncGenerator<RecordedStep> {
  const tape = new Chunks(readStream(directory, "pty-output"));
  let held: { atMs: number; size?: TerminalSize; bytes: Buffer[]; length: number } | null = null;
  const step = () => {
    const { atMs, size, bytes } = held ?? { atMs: 0, bytes: [] };
    held = null;
    return { atMs, bytes: Buffer.concat(bytes), ...(size === undefined ? {} : { size }) };
  };
  let atMs = 0;
  for await (const mark of marksOf(directory)) {
    atMs = Math.max(atMs, mark.atMs);
    const { size } = mark;
    const isApart =
      held !== null && (size !== null || atMs - held.atMs > TOGETHER_MS || held.length > MAX_STEP);
    if (isApart) yield step();
    held ??= { atMs, bytes: [], length: 0, ...(size === null ? {} : { size }) };
    if (mark.bytes === 0) continue;
    const bytes = await tape.take(mark.bytes);
    if (bytes === null) break;
    held.bytes.push(bytes);
    held.length += bytes.length;
  }
  if (held !== null) yield step();
  for (;;) {
    const bytes = await tape.take(EVEN_BYTES);
    if (bytes === null) return;
    atMs += EVEN_MS;
    yield { atMs, bytes };
  }
}

interface TimingMark {
  readonly atMs: number;
  readonly bytes: number;
  readonly size: TerminalSize | null;
}

/** The lines of `timing.jsonl`. Skips others: any process of the user may have changed the file. */
async function* marksOf(directory: string): AsyncGenerator<TimingMark> {
  const lines = new LineSplitter(MAX_LINE);
  try {
    for await (const chunk of readStream(directory, "timing"))
      for (const line of lines.push(chunk)) {
        const mark = markIn(line);
        if (mark !== null) yield mark;
      }
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "attempt_unknown") throw error;
  }
}

function markIn(line: string): TimingMark | null {
  const found = parseObject(line);
  const atMs = numberIn(found, "t");
  if (atMs === undefined || !(atMs >= 0 && atMs <= Number.MAX_SAFE_INTEGER)) return null;
  const [bytes, cols, rows] = ["n", "cols", "rows"].map((name) => numberIn(found, name));
  if (isWithin(bytes, Number.MAX_SAFE_INTEGER)) return { atMs, bytes, size: null };
  return isWithin(cols, MAX_SIDE) && isWithin(rows, MAX_SIDE)
    ? { atMs, bytes: 0, size: { cols, rows } }
    : null;
}

function isWithin(value: number | undefined, most: number): value is number {
  return value !== undefined && Number.isSafeInteger(value) && value >= 1 && value <= most;
}

/** Takes any number of bytes from a stream of chunks. */
class Chunks {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Less at the end. Null: nothing is left. */
  async take(count: number): Promise<Buffer | null> {
    const parts: Buffer[] = [];
    let missing = count;
    while (missing > 0) {
      if (this.#rest.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) break;
        this.#rest = Buffer.from(next.value);
      }
      const part = this.#rest.subarray(0, missing);
      this.#rest = this.#rest.subarray(part.length);
      missing -= part.length;
      parts.push(part);
    }
    return parts.length === 0 ? null : Buffer.concat(parts);
  }
}
