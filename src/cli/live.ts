/**
 * The display of a live attempt, and how keys and signals reach it.
 *
 * Four views: the engine's UI on our terminal; native output, unchanged; a readable stream of events with a status
 * line; nothing. The last two make all text of the agent harmless (I11).
 */
import type { EngineEvent, SeenEvent, Stream } from "../core/events.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine, plain } from "../lib/harmless.ts";
import { parseObject } from "../lib/json.ts";
import { LineSplitter } from "../lib/lines.ts";
import { TerminalState } from "../lib/terminal-state.ts";
import { cutToColumns } from "../lib/width.ts";
import { Latch } from "../lib/latch.ts";
import type { LiveControls, LiveStatus, StopRequest, Watch } from "../run/run.ts";
import { type Context, paint } from "./context.ts";
import { EventText } from "./events-text.ts";

export interface View extends Watch {
  /** All assistant text, for `--json`; cut at 1 MiB. */
  text(): string;
  /** The agent's stderr was shown as it arrived. */
  readonly showsStderr: boolean;
  /** Restores the terminal. May be called twice. */
  close(): void;
}

export interface ViewOptions {
  readonly json?: true;
  readonly quiet?: true;
  readonly raw?: true;
  /** Readable even if stdout is not a terminal. */
  readonly readable?: true;
  /** Only assistant text goes to stdout; actions go to stderr. */
  readonly progress?: "stderr";
  /** Another process owns the agent: a stop request only ends the view. */
  readonly watching?: true;
}

const MAX_TEXT = 1024 * 1024;
/** After this silence the status line is worth a line break within a text. */
const PAUSE_MS = 2_000;

export function openView(context: Context, options: ViewOptions): View {
  return new LiveView(context, options);
}

class LiveView implements View {
  readonly #context: Context;
  readonly #look: "native" | "readable" | "nothing";
  readonly #statusLine: boolean;
  readonly #quiet: boolean;
  readonly #raw: boolean;
  readonly #watching: boolean;
  readonly #progress: NodeJS.WriteStream;
  #text = "";
  #statusShown = false;
  #interactive = false;
  readonly #stops = new Latch<StopRequest>();
  #presses = 0;
  #muted = false;
  readonly #stderrText = new TextDecoder();
  readonly #events: EventText;
  #undo: (() => void)[] = [];
  /** The changes of the agent's UI to our terminal. */
  #lent: TerminalState | null = null;
  /** For an engine in text mode, whose output is not events. */
  #spoken: Record<Stream, LineSplitter> | null = null;

  constructor(context: Context, options: ViewOptions) {
    this.#context = context;
    this.#events = new EventText(context.terminal);
    const silent = options.json === true || options.quiet === true;
    const readable = options.readable === true || (context.terminal.stdout && options.raw === undefined);
    this.#look = silent ? "nothing" : readable ? "readable" : "native";
    this.#statusLine =
      context.terminal.stderr &&
      options.quiet === undefined &&
      (this.#look !== "native" || !context.terminal.stdout);
    this.#quiet = options.quiet === true;
    this.#raw = options.raw === true;
    this.#watching = options.watching === true;
    this.#progress = options.progress === "stderr" ? process.stderr : process.stdout;
    this.#listen();
  }

  get showsStderr(): boolean {
    return this.#look === "native";
  }

  raw(stream: Stream, chunk: Buffer): Promise<void> | undefined {
    if (this.#interactive) {
      this.#lent?.read(chunk);
      return write(process.stdout, chunk);
    }
    if (this.#spoken !== null) this.#speak(this.#spoken[stream].push(chunk));
    if (this.#look !== "native") return undefined;
    this.#clearStatus();
    if (stream === "stdout") return write(process.stdout, chunk);
    // With stdout redirected, the agent's stderr still goes to the terminal (I11).
    const harmful = this.#context.terminal.stderr && !this.#raw;
    return write(
      process.stderr,
      harmful ? harmless(this.#stderrText.decode(chunk, { stream: true })) : chunk,
    );
  }

  events(seen: readonly SeenEvent[]): void {
    for (const { event } of seen) {
      if (event.type === "text" && this.#text.length < MAX_TEXT) {
        this.#text += event.delta === true || this.#text === "" ? event.text : `\n${event.text}`;
      }
      if (this.#look === "readable" && !this.#interactive) this.#show(event);
    }
  }

  status(status: LiveStatus): void {
    if (!this.#statusLine || this.#interactive || !process.stderr.writable) return;
    // Text that may continue keeps its line for a while.
    if (this.#events.midLine && status.quietMs < PAUSE_MS) return;
    this.#endLine();
    const { terminal } = this.#context;
    const line = statusLine(status, Math.max(20, terminal.columns - 1));
    process.stderr.write(`\r\x1b[2K${paint(terminal, "dim", line)}`);
    this.#statusShown = true;
  }

  live(controls: LiveControls): void {
    if (!controls.interactive && !controls.structured && this.#look === "readable")
      this.#spoken = { stdout: new LineSplitter(MAX_TEXT), stderr: new LineSplitter(MAX_TEXT) };
    if (!controls.interactive) return;
    this.#interactive = true;
    const { stdin, stdout } = process;
    const type = (data: Buffer) => controls.write(data);
    const lent = new TerminalState(sizeOf(stdout));
    this.#lent = lent;
    const resize = () => {
      controls.resize(stdout.columns, stdout.rows);
      lent.resize(sizeOf(stdout));
    };
    stdin.setRawMode(true);
    stdin.on("data", type);
    stdin.resume();
    stdout.on("resize", resize);
    this.#undo.push(() => {
      stdin.off("data", type);
      stdin.setRawMode(false);
      stdin.pause();
      stdout.off("resize", resize);
      this.#lent = null;
      stdout.write(lent.leave());
    });
  }

  mute(): void {
    this.#muted = true;
  }

  onStop(listener: (request: StopRequest) => void): void {
    this.#stops.listen(listener);
  }

  text(): string {
    return this.#text;
  }

  close(): void {
    if (this.#spoken !== null)
      for (const stream of ["stdout", "stderr"] as const) this.#speak(this.#spoken[stream].end());
    this.#spoken = null;
    this.#clearStatus();
    this.#endLine();
    for (const undo of this.#undo.splice(0)) undo();
    if (this.#muted) this.#context.abandonOutput();
  }

  #listen(): void {
    const interrupt = () => {
      this.#presses += 1;
      this.#clearStatus();
      if (this.#presses === 1 && !this.#interactive && !this.#watching)
        this.#note("stopping the agent; Ctrl-C again ends it at once");
      this.#request(this.#presses > 1 || this.#interactive ? "end" : "interrupt");
    };
    const terminate = () => this.#request("SIGTERM");
    const hangUp = () => this.#request("SIGHUP");
    process.on("SIGINT", interrupt);
    process.on("SIGTERM", terminate);
    process.on("SIGHUP", hangUp);
    this.#undo.push(() => {
      process.off("SIGINT", interrupt);
      process.off("SIGTERM", terminate);
      process.off("SIGHUP", hangUp);
    });
  }

  #request(request: StopRequest): void {
    this.#stops.send(request);
  }

  #note(message: string): void {
    if (!this.#quiet) process.stderr.write(`reprise: ${message}\n`);
  }

  #show(event: EngineEvent): void {
    const { midLine } = this.#events;
    const text = this.#events.show(event);
    if (text === "") return;
    this.#clearStatus();
    // A text that may continue ends its line on its own stream.
    const isElsewhere = event.type !== "text" && this.#progress !== process.stdout;
    const ended = isElsewhere && midLine ? "\n" : "";
    if (ended !== "") process.stdout.write(ended);
    (isElsewhere ? this.#progress : process.stdout).write(text.slice(ended.length));
  }

  /** A JSON line is not readable, and its content is an event. */
  #speak(lines: readonly string[]): void {
    for (const text of lines.filter((line) => parseObject(line) === undefined))
      this.#show({ type: "text", text: `${plain(text)}\n` });
  }

  #endLine(): void {
    process.stdout.write(this.#events.endLine());
  }

  #clearStatus(): void {
    if (this.#statusShown) process.stderr.write("\r\x1b[2K");
    this.#statusShown = false;
  }
}

/** Tool names give way; key hints are never cut. */
export function statusLine(status: LiveStatus, columns: number): string {
  const tools = status.tools.map(
    ({ name, forMs }) => `${harmlessLine(name, 40)} for ${formatDuration(forMs)}`,
  );
  const now = tools.length > 0 ? tools.join(", ") : `last activity ${formatDuration(status.quietMs)} ago`;
  const keys = status.stopping ? "stopping, Ctrl-C again ends it" : null;
  const before = `${formatDuration(status.elapsedMs)} · attempt ${status.attempt}`;
  const room = columns - before.length - (keys === null ? 0 : keys.length + 3) - 3;
  const parts = [before, ...(room < 12 ? [] : [harmlessLine(now, room)]), ...(keys === null ? [] : [keys])];
  return cutToColumns(parts.join(" · "), columns);
}

function sizeOf({ columns, rows }: NodeJS.WriteStream): { cols: number; rows: number } {
  return { cols: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

/** A slow reader makes the agent wait; a reader that is gone does not. */
function write(stream: NodeJS.WriteStream, chunk: Buffer | string): Promise<void> | undefined {
  if (stream.destroyed || !stream.writable) return undefined;
  if (stream.write(chunk)) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      for (const event of ["drain", "close", "error"]) stream.off(event, done);
      resolve();
    };
    for (const event of ["drain", "close", "error"]) stream.once(event, done);
  });
}
