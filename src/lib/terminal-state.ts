/**
 * The modes that a program left on in its terminal, derived from its output, and the sequences that undo exactly those.
 * Pure.
 *
 * `leave` restores only changed modes: leaving an alternate screen that was never entered moves the cursor, and the
 * next output overwrites the program's last lines.
 */
import { Extent } from "./extent.ts";
import { SequenceReader } from "./sequences.ts";

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

/** Private modes that affect display or input: cursor, wrapping, keys, mouse, focus, paste. */
const MODES = new Set([
  1, 5, 6, 7, 9, 25, 45, 69, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2026, 2031, 2048,
  9001,
]);
/** On by default in a terminal. */
const ON_AT_FIRST = new Set([7, 25]);
const SCREENS = new Set([47, 1047, 1049]);
/** On only during drawing: a terminal that attaches later need not wait. */
const PASSING = 2026;
const ORIGIN = 6;
const WRAPS = 7;
/** Keyboard flags kept for a terminal that attaches later. */
const MAX_FLAGS = 8;

/** Kitty's keyboard protocol has one stack per screen. */
interface Keyboard {
  pushed: string[];
  count: number;
  /** Set without a push. */
  set: boolean;
}

/** Saved and restored together with the cursor position. */
interface Look {
  readonly origin: boolean;
  readonly charsets: ReadonlyMap<string, string>;
  readonly shifted: boolean;
  readonly styled: boolean;
}

const noKeyboard = (): Keyboard => ({ pushed: [], count: 0, set: false });

export class TerminalState {
  readonly #reader: SequenceReader;
  readonly #extent: Extent;
  /** Modes that differ from the default. */
  readonly #changed = new Set<number>();
  /** `CSI 4 h`, `CSI 20 h`. */
  readonly #ansi = new Set<number>();
  /** Resources of `CSI > n m`, with their values. */
  readonly #keys = new Map<string, string>();
  /** OSC colours that were set: `10`, `11`, `12`, `4`. */
  readonly #colours = new Set<string>();
  /** By slot, `(` to `+`. */
  readonly #charsets = new Map<string, string>();
  #main = noKeyboard();
  #other = noKeyboard();
  #alternate: number | null = null;
  #saved: { main: Look | null; other: Look | null } = { main: null, other: null };
  #keypad = false;
  #shifted = false;
  #styled = false;
  #shape = "";
  #region = "";
  #link = false;
  #progress = false;

  constructor(size: TerminalSize = { cols: 80, rows: 24 }) {
    this.#extent = new Extent(size);
    this.#reader = new SequenceReader({
      print: (characters) => this.#extent.print(characters, !this.#changed.has(WRAPS)),
      control: (code) => this.#control(code),
      escape: (sequence) => this.#escape(sequence),
      csi: (mark, parameters, final) => this.#csi(mark, parameters, final),
      osc: (text) => this.#osc(text),
    });
  }

  read(chunk: Buffer): void {
    this.#reader.read(chunk);
  }

  resize(size: TerminalSize): void {
    this.#extent.resize(size);
  }

  /** `mode` is a private mode. */
  isOn(mode: number): boolean {
    return this.#changed.has(mode) !== ON_AT_FIRST.has(mode);
  }

  /** Puts a fresh terminal into this state. The program restores colours and the cursor position itself. */
  enter(): string {
    // The screen first, because switching clears it.
    let text = this.#main.pushed.map((flags) => `\x1b[>${flags}u`).join("");
    if (this.#alternate !== null) {
      text += `\x1b[?${this.#alternate}h`;
      text += this.#other.pushed.map((flags) => `\x1b[>${flags}u`).join("");
    }
    if (this.#region !== "") text += `\x1b[${this.#region}r`;
    for (const mode of this.#changed)
      if (mode !== PASSING) text += `\x1b[?${mode}${ON_AT_FIRST.has(mode) ? "l" : "h"}`;
    for (const mode of this.#ansi) text += `\x1b[${mode}h`;
    if (this.#keypad) text += "\x1b=";
    for (const [key, value] of this.#keys) text += `\x1b[>${key};${value}m`;
    for (const [slot, set] of this.#charsets) text += `\x1b${slot}${set}`;
    if (this.#shifted) text += "\x0e";
    return this.#shape === "" ? text : `${text}\x1b[${this.#shape} q`;
  }

  /** Undoes active modes and moves to a new line below all output. Empty: nothing to undo. */
  leave(): string {
    // An unfinished sequence would swallow ours.
    let text = this.#reader.unfinished ? "\x18" : "";
    if (this.#changed.has(PASSING)) text += `\x1b[?${PASSING}l`;
    if (this.#alternate !== null) {
      text += `${popped(this.#other)}\x1b[?${this.#alternate}l`;
      this.#screen(this.#alternate, false);
    }
    // Both move the cursor home; its position is saved, except in origin mode, which the restore would bring back.
    const origin = this.#changed.has(ORIGIN);
    if (origin) text += `\x1b[r\x1b[?${ORIGIN}l`;
    else if (this.#region !== "") text += "\x1b7\x1b[r\x1b8";
    return text + popped(this.#main) + this.#switchesOff() + this.#looksPlain() + this.#extent.below(origin);
  }

  #switchesOff(): string {
    let text = "";
    for (const mode of this.#changed)
      if (mode !== PASSING && mode !== ORIGIN) text += `\x1b[?${mode}${ON_AT_FIRST.has(mode) ? "h" : "l"}`;
    for (const mode of this.#ansi) text += `\x1b[${mode}l`;
    if (this.#keypad) text += "\x1b>";
    for (const key of this.#keys.keys()) text += `\x1b[>${key}m`;
    return text;
  }

  #looksPlain(): string {
    let text = "";
    for (const slot of this.#charsets.keys()) text += `\x1b${slot}B`;
    if (this.#shifted) text += "\x0f";
    if (this.#styled) text += "\x1b[0m";
    if (this.#shape !== "") text += "\x1b[0 q";
    if (this.#link) text += "\x1b]8;;\x1b\\";
    for (const colour of this.#colours) text += `\x1b]1${colour.padStart(2, "0")}\x1b\\`;
    return this.#progress ? `${text}\x1b]9;4;0\x1b\\` : text;
  }

  #control(code: number): void {
    if (code === 0x0e || code === 0x0f) this.#shifted = code === 0x0e;
    else this.#extent.control(code);
  }

  #escape(sequence: string): void {
    if (sequence === "=" || sequence === ">") this.#keypad = sequence === "=";
    else if (sequence === "c") this.#reset();
    else if (/^[()*+][0-9A-Z<>=`a-z]$/.test(sequence)) {
      const [slot = "", set = ""] = sequence;
      if (set === "B") this.#charsets.delete(slot);
      else this.#charsets.set(slot, set);
    } else {
      if (sequence === "7") this.#save();
      else if (sequence === "8") this.#restore();
      this.#extent.escape(sequence);
    }
  }

  #save(): void {
    const look = {
      origin: this.#changed.has(ORIGIN),
      charsets: new Map(this.#charsets),
      shifted: this.#shifted,
      styled: this.#styled,
    };
    this.#saved[this.#alternate === null ? "main" : "other"] = look;
  }

  /** Terminals differ in what they restore, so a mode that was on then or is on now counts as on. */
  #restore(): void {
    const look = this.#saved[this.#alternate === null ? "main" : "other"];
    if (look === null) return;
    if (look.origin) this.#changed.add(ORIGIN);
    for (const [slot, set] of look.charsets) this.#charsets.set(slot, set);
    this.#shifted ||= look.shifted;
    this.#styled ||= look.styled;
  }

  #csi(mark: string, parameters: string, final: string): void {
    if (mark === "?" && (final === "h" || final === "l")) this.#modes(parameters, final === "h");
    else if (mark === "" && (final === "h" || final === "l")) this.#ansiModes(parameters, final === "h");
    else if (final === "u" && mark !== "" && mark !== "?") this.#keyboard(mark, parameters);
    else if (mark === ">" && (final === "m" || final === "n")) this.#keyResource(parameters, final);
    else if (mark !== "") return;
    else if (final === "m") this.#styled = isStyled(parameters, this.#styled);
    else if (final === " q") this.#shape = /^0*$/.test(parameters) ? "" : parameters;
    else if (final === "!p") this.#softReset();
    else if (final === "r") {
      this.#region = /^[01]?(?:;0?)?$/.test(parameters) ? "" : parameters;
      this.#extent.region(parameters);
    } else if (final === "s" || final === "u") this.#escape(final === "s" ? "7" : "8");
    else this.#extent.csi(parameters, final);
  }

  #modes(parameters: string, on: boolean): void {
    for (const mode of parameters.split(";").map(Number)) {
      if (SCREENS.has(mode)) this.#screen(mode, on);
      else if (mode === 66) this.#keypad = on;
      else if (MODES.has(mode)) {
        if (on === ON_AT_FIRST.has(mode)) this.#changed.delete(mode);
        else this.#changed.add(mode);
        if (mode === ORIGIN) this.#extent.home();
      } else if (mode === 1048) this.#escape(on ? "7" : "8");
    }
  }

  #screen(mode: number, on: boolean): void {
    if (on && mode === 1049) this.#escape("7");
    if (on && this.#alternate === null) {
      this.#alternate = mode;
      this.#extent.enterOther();
    } else if (!on) {
      if (this.#alternate !== null) this.#extent.leaveOther();
      this.#alternate = null;
      if (mode === 1049) this.#escape("8");
    }
  }

  #ansiModes(parameters: string, on: boolean): void {
    for (const mode of parameters.split(";").map(Number)) {
      if (mode !== 4 && mode !== 20) continue;
      if (on) this.#ansi.add(mode);
      else this.#ansi.delete(mode);
    }
  }

  #keyboard(mark: string, parameters: string): void {
    const stack = this.#alternate === null ? this.#main : this.#other;
    if (mark === ">") {
      stack.pushed = [...stack.pushed, parameters].slice(-MAX_FLAGS);
      stack.count += 1;
    } else if (mark === "<") {
      const count = Math.max(1, Number(parameters.split(";")[0]) || 1);
      stack.pushed = stack.pushed.slice(0, Math.max(0, stack.pushed.length - count));
      stack.count = Math.max(0, stack.count - count);
    } else if (stack.count === 0) stack.set = !/^0*(?:;.*)?$/.test(parameters);
  }

  #keyResource(parameters: string, final: string): void {
    const [key = "", value = ""] = parameters.split(";");
    if (!/^[0-7]$/.test(key)) return;
    if (final === "m" && /[1-9]/.test(value)) this.#keys.set(key, value);
    else this.#keys.delete(key);
  }

  #osc(text: string): void {
    const [command = "", first = "", second = ""] = text.split(";");
    if (command === "8") this.#link = !/^8;[^;]*;?$/.test(text);
    else if (command === "9" && first === "4") this.#progress = second !== "0" && second !== "";
    else if (["4", "10", "11", "12"].includes(command)) {
      if (!text.endsWith("?")) this.#colours.add(command);
    } else if (["104", "110", "111", "112"].includes(command) && first === "")
      this.#colours.delete(String(Number(command) - 100));
  }

  /** The resets that terminals agree on. */
  #softReset(): void {
    for (const mode of [1, 6, 25]) this.#changed.delete(mode);
    this.#ansi.delete(4);
    this.#charsets.clear();
    this.#keypad = false;
    this.#shifted = false;
    this.#styled = false;
    this.#region = "";
    this.#extent.forgetRegion();
  }

  #reset(): void {
    // Some terminals keep the cursor hidden.
    const hidden = this.#changed.has(25);
    this.#softReset();
    this.#changed.clear();
    if (hidden) this.#changed.add(25);
    this.#ansi.clear();
    this.#keys.clear();
    this.#colours.clear();
    this.#main = noKeyboard();
    this.#other = noKeyboard();
    this.#alternate = null;
    this.#shape = "";
    this.#link = false;
    this.#extent.cleared();
  }
}

function popped({ count, set }: Keyboard): string {
  return `${count === 0 ? "" : `\x1b[<${count}u`}${set ? "\x1b[=0u" : ""}`;
}

/** Parameters that do not end with a reset count as a style. */
function isStyled(parameters: string, before: boolean): boolean {
  if (/^[0;]*$/.test(parameters)) return false;
  // A final zero may belong to a colour.
  if (/;0*$/.test(parameters) && !/[345]8/.test(parameters)) return false;
  return /^(?:39|49|59|2[2-9]|[56]5|54)(?:;|$)/.test(parameters) && !parameters.includes(";") ? before : true;
}
