/**
 * What the user sees while an attempt lives, and how keys and signals reach it.
 *
 * Four views: the engine's own UI on our terminal; native output passed on untouched; a readable stream of events
 * with a status line; nothing. All but the first two make every word of the agent harmless first (I11).
 */
import type { EngineEvent, SeenEvent, Stream } from "../core/events.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import type { LiveControls, LiveStatus, StopRequest, Watch } from "../run/run.ts";
import { type Context, paint } from "./context.ts";

export interface View extends Watch {
  /** Everything the assistant said, for `--json`; cut at 1 MiB. */
  text(): string;
  /** What the agent wrote to stderr was shown as it came. */
  readonly showsStderr: boolean;
  /** Gives the terminal back. May be called twice. */
  close(): void;
}

export interface ViewOptions {
  readonly json?: true;
  readonly quiet?: true;
  readonly raw?: true;
  /** Readable even when stdout is no terminal. */
  readonly readable?: true;
  /** The agent is somebody else's: a request to stop only stops the view. */
  readonly watching?: true;
}

const MAX_TEXT = 1024 * 1024;
/** After so long without a word the status line is worth a line break in the middle of a text. */
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
  #text = "";
  #statusShown = false;
  #midLine = false;
  #interactive = false;
  #onStop: ((request: StopRequest) => void) | null = null;
  /** Asked for before there was anybody to hear it. */
  #early: StopRequest | null = null;
  #presses = 0;
  #muted = false;
  readonly #stderrText = new TextDecoder();
  #undo: (() => void)[] = [];

  constructor(context: Context, options: ViewOptions) {
    this.#context = context;
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
    this.#listen();
  }

  get showsStderr(): boolean {
    return this.#look === "native";
  }

  raw(stream: Stream, chunk: Buffer): Promise<void> | undefined {
    if (this.#interactive) return write(process.stdout, chunk);
    if (this.#look !== "native") return undefined;
    this.#clearStatus();
    if (stream === "stdout") return write(process.stdout, chunk);
    // Whoever redirects stdout still has the agent's stderr on the terminal (I11).
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
    // Text that may go on keeps its line for a while.
    if (this.#midLine && status.quietMs < PAUSE_MS) return;
    this.#endLine();
    const { terminal } = this.#context;
    const tools = status.tools.map(
      (tool) => `${harmlessLine(tool.name, 40)} for ${formatDuration(tool.forMs)}`,
    );
    const parts = [
      formatDuration(status.elapsedMs),
      `attempt ${status.attempt}`,
      tools.length > 0 ? tools.join(", ") : `last activity ${formatDuration(status.quietMs)} ago`,
      ...(status.stopping ? ["stopping, Ctrl-C again ends it"] : []),
    ];
    const line = harmlessLine(parts.join(" · "), Math.max(20, terminal.columns - 1));
    process.stderr.write(`\r\x1b[2K${paint(terminal, "dim", line)}`);
    this.#statusShown = true;
  }

  live(controls: LiveControls): void {
    if (!controls.interactive) return;
    this.#interactive = true;
    const { stdin, stdout } = process;
    const type = (data: Buffer) => controls.write(data);
    const resize = () => controls.resize(stdout.columns, stdout.rows);
    stdin.setRawMode(true);
    stdin.on("data", type);
    stdin.resume();
    stdout.on("resize", resize);
    this.#undo.push(() => {
      stdin.off("data", type);
      stdin.setRawMode(false);
      stdin.pause();
      stdout.off("resize", resize);
      // Whatever the UI had switched on: alternate screen, hidden cursor, bracketed paste, mouse, focus events.
      stdout.write(
        "\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[>4;0m\x1b[<u\x1b[0m",
      );
    });
  }

  mute(): void {
    this.#muted = true;
  }

  onStop(listener: (request: StopRequest) => void): void {
    this.#onStop = listener;
    if (this.#early !== null) listener(this.#early);
  }

  text(): string {
    return this.#text;
  }

  close(): void {
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
    if (this.#onStop === null) this.#early ??= request;
    else this.#onStop(request);
  }

  #note(message: string): void {
    if (!this.#quiet) process.stderr.write(`reprise: ${message}\n`);
  }

  #show(event: EngineEvent): void {
    const line = this.#describe(event);
    if (line === null && event.type !== "text") return;
    this.#clearStatus();
    if (event.type !== "text" || event.delta === undefined) this.#endLine();
    if (event.type !== "text") process.stdout.write(`${line ?? ""}\n`);
    else if (event.text !== "") {
      process.stdout.write(harmless(event.text));
      this.#midLine = !event.text.endsWith("\n");
    }
  }

  #endLine(): void {
    if (this.#midLine) process.stdout.write("\n");
    this.#midLine = false;
  }

  /** One line for everything that is not assistant text; null: not worth one. */
  #describe(event: EngineEvent): string | null {
    const { terminal } = this.#context;
    const width = Math.max(20, terminal.columns - 4);
    switch (event.type) {
      case "tool": {
        const what = harmlessLine(
          event.detail === undefined ? event.name : `${event.name} ${event.detail}`,
          width,
        );
        if (event.state === "started") return paint(terminal, "cyan", `⚙ ${what}`);
        return event.ok === false ? paint(terminal, "red", `✗ ${what}`) : null;
      }
      case "retry": {
        const wait = event.delayMs === undefined ? "" : ` in ${formatDuration(event.delayMs)}`;
        return paint(
          terminal,
          "yellow",
          `↻ ${event.trouble.kind}, the engine tries again${wait}: ${harmlessLine(event.trouble.message, width)}`,
        );
      }
      case "notice":
        return paint(terminal, "dim", `· ${harmlessLine(event.message, width)}`);
      case "turn_ended":
        if (event.result === "completed") return null;
        return paint(
          terminal,
          "red",
          `✗ ${harmlessLine(event.trouble?.message ?? `the turn ${event.result}`, width)}`,
        );
      case "usage":
      case "session":
      case "session_changed":
      case "turn_started":
      case "text":
      case "unknown":
        return null;
    }
  }

  #clearStatus(): void {
    if (this.#statusShown) process.stderr.write("\r\x1b[2K");
    this.#statusShown = false;
  }
}

/** A slow reader makes the agent wait; a reader that went away does not. */
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
