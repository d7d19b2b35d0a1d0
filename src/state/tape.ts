/**
 * The tape of one attempt: every byte in order of arrival, written before anything else happens with it (I7), together
 * with the times of arrival and the events.
 *
 * Bytes go to the system at once, so they survive the death of this process; the sync to disk happens in the
 * background. The raw logs are exact and therefore sensitive; `events.jsonl` is redacted (I11).
 */
import { closeSync, constants, fdatasync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Clock } from "../core/deps.ts";
import type { EngineEvent, SeenEvent, Stream } from "../core/events.ts";
import { bounded } from "../lib/bounded.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import type { TerminalSize } from "../lib/terminal-state.ts";
import { isOurs, notOurs, storageFault, syncDirectory, writeFully } from "./files.ts";

export const LOG_FILES = {
  "pty-output": "pty-output.log",
  stdout: "stdout.log",
  stderr: "stderr.log",
  timing: "timing.jsonl",
  events: "events.jsonl",
} as const;
export type LogName = keyof typeof LOG_FILES;
const LOG_NAMES = Object.keys(LOG_FILES) as LogName[];

const SYNC_MS = 1_000;
const SYNC_BYTES = 8 * 1024 * 1024;
const TIMING_BYTES = 64 * 1024;
/** Chunks of one stream within this time share a line in `timing.jsonl`. */
const TOGETHER_MS = 5;

/** The most to keep in memory for a disk that refuses writes. */
const MAX_OWED_BYTES = 8 * 1024 * 1024;

interface Part {
  readonly log: LogName;
  readonly data: Buffer;
}

export interface TapeOptions {
  readonly redact: Redact;
  readonly clock: Clock;
}

const MAX_OUTPUT = 4 * 1024;
const MAX_MESSAGE = 64 * 1024;

/** An event as it is kept: a long result of a tool and a long message are cut, after their secrets were removed. */
export function boundedEvent<E extends EngineEvent>(event: E): E {
  const isTool = event.type === "tool" && event.output !== undefined;
  const text = isTool ? event.output : event.type === "message" ? event.text : undefined;
  if (text === undefined) return event;
  const { text: kept, cut } = bounded(text, isTool ? MAX_OUTPUT : MAX_MESSAGE);
  if (cut === 0) return event;
  const before = event.type === "tool" || event.type === "message" ? (event.cut ?? 0) : 0;
  return { ...event, [isTool ? "output" : "text"]: kept, cut: before + cut };
}

/** Creates every file of the attempt, so that even a silent attempt leaves a complete set. */
export function openTape(attemptDirectory: string, options: TapeOptions): Tape {
  const open = new Map<LogName, number>();
  try {
    for (const name of LOG_NAMES) open.set(name, openLog(join(attemptDirectory, LOG_FILES[name])));
  } catch (error) {
    for (const fd of open.values()) closeSync(fd);
    throw error;
  }
  return new Tape(attemptDirectory, open, options);
}

export class Tape implements AsyncDisposable {
  readonly #directory: string;
  readonly #open: ReadonlyMap<LogName, number>;
  readonly #options: TapeOptions;
  readonly #startedAt: number;
  readonly #bytes: { stdout: number; stderr: number };
  /** Accepted but not written: the disk refused. Nothing is written past it. */
  #owed: Part[] = [];
  #lost = 0;
  #timingLine: { t: number; stream: Stream; n: number } | null = null;
  #timingText = "";
  #unknown = 0;
  #unconfirmed = new Set<LogName>();
  #unconfirmedBytes = 0;
  #syncing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The disk did not confirm a write that it had accepted. A retry would only hide that. */
  #failure: unknown = null;
  #closed = false;

  constructor(directory: string, open: ReadonlyMap<LogName, number>, options: TapeOptions) {
    this.#directory = directory;
    this.#open = open;
    this.#options = options;
    this.#startedAt = options.clock.mono();
    this.#bytes = { stdout: sizeOf(open.get("stdout")), stderr: sizeOf(open.get("stderr")) };
  }

  /**
   * A fault means that some of the bytes are not on disk. The tape still keeps them: do not pass them again, stop
   * reading, and call `retry` until it succeeds or give up. A caller that continues loses output after some megabytes,
   * and `events.jsonl` records how much.
   */
  raw(stream: Stream, chunk: Buffer): void {
    if (chunk.length === 0) return;
    if (this.#owed.reduce((sum, { data }) => sum + data.length, 0) > MAX_OWED_BYTES) {
      this.#lost += chunk.length;
      this.retry();
      this.#lost -= chunk.length;
    }
    const t = this.#elapsed();
    const line = this.#timingLine;
    if (line !== null && line.stream === stream && t - line.t <= TOGETHER_MS) line.n += chunk.length;
    else {
      this.#endTimingLine();
      this.#timingLine = { t, stream, n: chunk.length };
    }
    this.#append({ log: "pty-output", data: chunk }, { log: stream, data: chunk });
    if (this.#timingText.length >= TIMING_BYTES) this.#flushTiming();
  }

  /** Unknown lines are on the raw tape; here they are only counted. */
  events(seen: readonly SeenEvent[]): void {
    const t = this.#elapsed();
    let text = "";
    for (const { event, stream, line } of seen) {
      if (event.type === "unknown") this.#unknown += event.lines ?? 1;
      else text += `${JSON.stringify({ t, stream, line, ...this.#kept(event) })}\n`;
    }
    if (text !== "") this.#append({ log: "events", data: Buffer.from(text) });
  }

  /** A message to the agent, before it gets the message. `opening`: the attempt begins with it. */
  said(text: string, opening: boolean): void {
    const event = { type: "message", text, ...(opening ? { opening } : {}) } as const;
    this.#append({
      log: "events",
      data: Buffer.from(`${JSON.stringify({ t: this.#elapsed(), ...this.#kept(event) })}\n`),
    });
  }

  #kept(event: EngineEvent): EngineEvent {
    return boundedEvent(redactValue(event, this.#options.redact));
  }

  /** The size of the terminal from here on, for a replay. Written with the next times of arrival. */
  resized({ cols, rows }: TerminalSize): void {
    if (this.#closed) return;
    this.#endTimingLine();
    this.#timingText += `${JSON.stringify({ t: this.#elapsed(), s: "r", cols, rows })}\n`;
  }

  /** Writes the pending bytes after a fault. */
  retry(): void {
    this.#append();
  }

  /** Everything so far is on disk when this resolves. */
  async sync(): Promise<void> {
    this.#flushTiming();
    await this.#syncing;
    await this.#confirm();
  }

  /** Closes the files even after a fault. Returns the number of bytes of each stream. */
  async close(): Promise<{ stdout: number; stderr: number }> {
    if (this.#closed) return { ...this.#bytes };
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    try {
      const t = this.#elapsed();
      if (this.#unknown > 0) this.#appendEvent({ t, type: "unknown", count: this.#unknown });
      if (this.#lost > 0) {
        const message = `The disk was full: ${this.#lost} bytes of output were lost.`;
        this.#appendEvent({ t, type: "notice", message });
      }
      await this.sync();
      syncDirectory(this.#directory);
    } catch (error) {
      throw storageFault(error, "write", this.#directory, this.#facts());
    } finally {
      await this.#syncing;
      for (const fd of this.#open.values()) closeSync(fd);
    }
    return { ...this.#bytes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #appendEvent(line: Readonly<Record<string, string | number>>): void {
    this.#append({ log: "events", data: Buffer.from(`${JSON.stringify(line)}\n`) });
  }

  #append(...parts: Part[]): void {
    if (this.#failure !== null) throw this.#failure;
    const owed = this.#owed.length === 0 ? parts : [...this.#owed, ...parts];
    let at = 0;
    let written = 0;
    try {
      for (const { log, data } of owed) {
        written = 0;
        writeFully(this.#fd(log), data, (bytes) => {
          written += bytes;
          this.#wrote(log, bytes);
        });
        at += 1;
      }
      this.#owed = [];
    } catch (error) {
      const old = owed.length - parts.length;
      this.#owed = owed.slice(at).map(({ log, data }, index) => {
        const rest = data.subarray(index === 0 ? written : 0);
        // The caller may reuse its chunk.
        return { log, data: at + index < old ? rest : Buffer.from(rest) };
      });
      const path = join(this.#directory, LOG_FILES[owed[at]?.log ?? "pty-output"]);
      throw storageFault(error, "write", path, this.#facts());
    }
  }

  #wrote(log: LogName, bytes: number): void {
    if (log === "stdout" || log === "stderr") this.#bytes[log] += bytes;
    this.#unconfirmed.add(log);
    this.#unconfirmedBytes += bytes;
    if (this.#closed) return;
    if (this.#unconfirmedBytes >= SYNC_BYTES) this.#confirmSoon();
    this.#timer ??= setTimeout(() => this.#tick(), SYNC_MS).unref();
  }

  #tick(): void {
    this.#timer = null;
    try {
      this.#flushTiming();
    } catch {
      // The refused bytes stay pending: the next call tries again and reports to its caller.
    }
    this.#confirmSoon();
  }

  #confirmSoon(): void {
    this.#syncing ??= this.#confirm()
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => {
        this.#syncing = null;
      });
  }

  async #confirm(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    const logs = [...this.#unconfirmed];
    this.#unconfirmed = new Set();
    this.#unconfirmedBytes = 0;
    for (const log of logs) {
      try {
        await promisify(fdatasync)(this.#fd(log));
      } catch (error) {
        const path = join(this.#directory, LOG_FILES[log]);
        this.#failure = storageFault(error, "confirm what was written to", path, this.#facts());
        throw this.#failure;
      }
    }
  }

  #endTimingLine(): void {
    if (this.#timingLine === null) return;
    const { t, stream, n } = this.#timingLine;
    this.#timingText += `${JSON.stringify({ t, s: stream === "stdout" ? "o" : "e", n })}\n`;
    this.#timingLine = null;
  }

  #flushTiming(): void {
    this.#endTimingLine();
    const text = this.#timingText;
    this.#timingText = "";
    this.#append(...(text === "" ? [] : [{ log: "timing" as const, data: Buffer.from(text) }]));
  }

  #fd(log: LogName): number {
    const fd = this.#open.get(log);
    if (fd === undefined) throw new Error(`the tape has no ${log}`);
    return fd;
  }

  #elapsed(): number {
    return Math.max(0, Math.round(this.#options.clock.mono() - this.#startedAt));
  }

  #facts() {
    return { stdoutBytes: this.#bytes.stdout, stderrBytes: this.#bytes.stderr, lostBytes: this.#lost };
  }
}

/** Opened to append. Ends a line that a crash cut off; otherwise it would swallow the next one. */
export function openLog(path: string): number {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW;
  let fd: number | null = null;
  try {
    fd = openSync(path, flags | constants.O_NONBLOCK, 0o600);
    const stats = fstatSync(fd);
    if (!stats.isFile() || !isOurs(stats)) throw notOurs(path, "it is not a file of ours", "Remove it.");
    const last = Buffer.from("\n");
    if (path.endsWith(".jsonl") && stats.size > 0) readSync(fd, last, 0, 1, stats.size - 1);
    if (last[0] !== 10) writeFully(fd, Buffer.from("\n"));
    return fd;
  } catch (error) {
    if (fd !== null) closeSync(fd);
    throw storageFault(error, "open", path);
  }
}

function sizeOf(fd: number | undefined): number {
  return fd === undefined ? 0 : fstatSync(fd).size;
}
