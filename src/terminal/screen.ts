/**
 * Owns the user's terminal while a UI runs: alternate screen, raw mode, keys in, frames out. Restores the terminal
 * however the UI ends, also if its process is killed.
 */
import { StringDecoder } from "node:string_decoder";
import { guardTerminal, type TerminalGuard } from "./guard.ts";
import { decode, isPaste, type Key } from "./keys.ts";
import type { Size } from "./layout.ts";
import { changesOf, ENTER, LEAVE, painted } from "./paint.ts";
import type { Line } from "./text.ts";

export interface ScreenOptions {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  readonly colours: boolean;
  /** Pastes come as keys. Absent: they are ignored. */
  readonly pastes?: boolean;
  readonly onKeys: (keys: readonly Key[]) => void;
  readonly onResize: (size: Size) => void;
  /** The terminal was closed. */
  readonly onGone: () => void;
}

/** After this time a lone escape character is a key. */
const ESCAPE_MS = 50;
/** On a slow line, a key's sequence or the mark of a paste may come in two parts; after this time the rest is lost. */
const SEQUENCE_MS = 2_000;

export function sizeOf(output: NodeJS.WriteStream): Size {
  return { columns: output.columns || 80, rows: output.rows || 24 };
}

export class Screen implements Disposable {
  readonly #options: ScreenOptions;
  readonly #bytes = new StringDecoder("utf8");
  readonly #listening: readonly (readonly [NodeJS.EventEmitter, string, (chunk: Buffer | string) => void])[];
  #inside = false;
  #guard: TerminalGuard | null = null;
  /** The received part of an incomplete sequence. */
  #begun = "";
  #timer: NodeJS.Timeout | undefined;
  /** Painted rows on the screen. Null: unknown. */
  #shown: readonly string[] | null = null;
  /** A frame for a terminal that is not ready yet. */
  #waiting: readonly string[] | null = null;

  constructor(options: ScreenOptions) {
    const { input, output, onGone } = options;
    this.#options = options;
    this.#listening = [
      [input, "data", (chunk) => this.#read(chunk)],
      [input, "end", onGone],
      [input, "error", onGone],
      [output, "error", onGone],
      [output, "drain", () => this.#drained()],
      [output, "resize", () => this.#resized()],
      [process, "SIGCONT", () => this.#continue()],
      [process, "exit", () => this.#leave()],
    ];
    for (const [emitter, event, listener] of this.#listening) emitter.on(event, listener);
    this.#enter();
    input.resume();
  }

  /** Lines no wider than the terminal; writes only changed lines. */
  paint(frame: readonly Line[]): void {
    this.paintRows(frame.map((line) => painted(line, this.#options.colours)));
  }

  /** Rows of harmless text and the caller's own styles, no wider than the terminal. */
  paintRows(frame: readonly string[]): void {
    const { output } = this.#options;
    if (!this.#inside) return;
    // A terminal that cannot keep up gets the newest frame when it is ready, and skips those between.
    if (output.writableNeedDrain) {
      this.#waiting = frame;
      return;
    }
    const rows = frame.slice(0, sizeOf(output).rows);
    const changes = changesOf(this.#shown, rows);
    this.#shown = rows;
    this.#waiting = null;
    if (changes !== "") output.write(changes);
  }

  /** Makes the next frame write all rows. */
  forget(): void {
    this.#shown = null;
  }

  /** Returns to the shell until it continues this program. */
  suspend(): void {
    this.#leave();
    // The whole job, as the terminal does it. Without job control, nothing stops.
    process.kill(0, "SIGTSTP");
    this.#timer = setTimeout(() => this.#inside || this.#continue(), ESCAPE_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#leave();
    for (const [emitter, event, listener] of this.#listening) emitter.off(event, listener);
    // A late error of a closed terminal must not end the program.
    this.#options.output.on("error", () => {});
    this.#options.input.pause();
  }

  #enter(): void {
    if (this.#options.input === process.stdin) this.#guard = guardTerminal();
    this.#options.input.setRawMode(true);
    this.#options.output.write(ENTER);
    this.#shown = null;
    this.#inside = true;
  }

  #leave(): void {
    if (!this.#inside) return;
    this.#inside = false;
    try {
      this.#options.input.setRawMode(false);
      this.#options.output.write(LEAVE);
    } catch {
      // The terminal is gone; nothing is left to restore.
    }
    this.#guard?.release();
    this.#guard = null;
  }

  #continue(): void {
    this.#enter();
    this.#resized();
  }

  #resized(): void {
    this.#shown = null;
    this.#options.onResize(sizeOf(this.#options.output));
  }

  #drained(): void {
    const frame = this.#waiting;
    this.#waiting = null;
    if (frame !== null) this.paintRows(frame);
  }

  #read(chunk: Buffer | string): void {
    clearTimeout(this.#timer);
    const { keys, rest } = decode(
      this.#begun + (typeof chunk === "string" ? chunk : this.#bytes.write(chunk)),
      this.#options.pastes === true,
    );
    this.#begun = rest;
    if (keys.length > 0) this.#options.onKeys(keys);
    if (this.#begun === "" || isPaste(this.#begun)) return;
    const isLone = this.#begun === "\x1b";
    const late = () => {
      this.#begun = "";
      if (isLone) this.#options.onKeys(["escape"]);
    };
    this.#timer = setTimeout(late, isLone ? ESCAPE_MS : SEQUENCE_MS);
  }
}
