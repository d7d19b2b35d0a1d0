/**
 * The lowest row that a program's output may have reached, without emulating a screen: enough to move below it. Pure.
 *
 * Rows count from the start of the output until the program addresses a screen row by number; from then on they are
 * screen rows. In doubt the answer is too low on the screen, which costs blank lines; too high would overwrite output.
 */

interface Place {
  row: number;
  /** The lowest row with possible content. */
  low: number;
  /** Characters since the start of the row. */
  column: number;
  /** `row` is a row of the screen, from 1. */
  known: boolean;
}

const NOTHING = -Infinity;
/** The row of a cursor whose position is unknown. */
const NOWHERE = -Infinity;
const BOTTOM = Infinity;
const LF = 10;
const CR = 13;

export class Extent {
  #size: { readonly cols: number; readonly rows: number };
  /** Output of other programs is above the start. */
  #now: Place = { row: 0, low: -1, column: 0, known: false };
  #saved: Place | null = null;
  /** State of the main screen while the other screen is shown. */
  #main: { readonly now: Place; readonly saved: Place | null } | null = null;
  /** The last row that scrolls. Null: the last row of the screen. */
  #scrolls: number | null = null;

  constructor(size: { readonly cols: number; readonly rows: number }) {
    this.#size = size;
  }

  /** Counts wide characters as one column: programs that print them know the width of their lines. */
  print(characters: number, wraps: boolean): void {
    const now = this.#now;
    const { cols } = this.#size;
    now.column += characters;
    const lines = wraps ? Math.max(0, Math.ceil(now.column / cols) - 1) : 0;
    now.column = Math.min(now.column - lines * cols, cols);
    for (let line = 0; line < Math.min(lines, 1_000); line += 1) this.#down();
    now.low = now.row === NOWHERE ? BOTTOM : Math.max(now.low, now.row);
  }

  control(code: number): void {
    if (code === CR) this.#now.column = 0;
    else if (code >= LF && code <= 12) this.#down();
    else if (code === 9) this.#now.column += 8;
    else if (code === 8) this.#now.column = Math.max(0, this.#now.column - 1);
  }

  escape(sequence: string): void {
    if (sequence === "D") this.#down();
    else if (sequence === "E") {
      this.#now.column = 0;
      this.#down();
    } else if (sequence === "M") this.#up(1, true);
    else if (sequence === "7") this.#saved = { ...this.#now };
    else if (sequence === "8") this.#restore();
    else if (sequence === "#8") this.#now.low = BOTTOM;
  }

  csi(parameters: string, final: string): void {
    const numbers = parameters.split(";").map((one) => Number.parseInt(one, 10) || 0);
    const [first = 0, second = 0] = numbers;
    const count = Math.max(1, first);
    switch (final) {
      case "F":
      case "A":
        if (final === "F") this.#now.column = 0;
        return this.#up(count, false);
      case "E":
      case "B":
      case "e":
        if (final === "E") this.#now.column = 0;
        return this.#jumpDown(count);
      case "H":
      case "f":
        this.#now.column = Math.max(0, second - 1);
        return this.#to(count);
      case "d":
        return this.#to(count);
      case "G":
      case "`":
        this.#now.column = count - 1;
        return undefined;
      case "C":
      case "a":
        this.#now.column = Math.min(this.#size.cols - 1, this.#now.column + count);
        return undefined;
      case "J":
        return this.#erase(first);
      case "L":
      case "T":
        this.#now.low += count;
        return undefined;
      default:
        return undefined;
    }
  }

  region(parameters: string): void {
    const bottom = Number.parseInt(parameters.split(";")[1] ?? "", 10);
    this.#scrolls = Number.isNaN(bottom) || bottom === 0 ? null : bottom;
    this.home();
  }

  home(): void {
    this.#now.column = 0;
    this.#to(1);
  }

  cleared(): void {
    this.#main = null;
    this.#saved = null;
    this.#scrolls = null;
    this.#now = { row: 1, low: NOTHING, column: 0, known: true };
  }

  enterOther(): void {
    this.#main = { now: { ...this.#now }, saved: this.#saved };
  }

  /** The cursor keeps its place from the other screen unless the program restores it. */
  leaveOther(): void {
    if (this.#main === null) return;
    this.#now = { ...this.#main.now, row: NOWHERE, column: this.#size.cols };
    this.#saved = this.#main.saved;
    this.#main = null;
  }

  /** Lines wrap differently after a resize; only their end stays the end. */
  resize(size: { readonly cols: number; readonly rows: number }): void {
    this.#size = size;
    for (const place of [this.#now, this.#main?.now]) {
      if (place === undefined) continue;
      place.known = false;
      if (place.row < place.low) place.low = BOTTOM;
    }
    this.#saved = null;
  }

  /** Unlike setting a region, does not move the cursor. */
  forgetRegion(): void {
    this.#scrolls = null;
    this.#saved = null;
  }

  /** Moves from the cursor to a new line below all output. `lost`: the cursor may be elsewhere. */
  below(lost: boolean): string {
    const { row, low, column } = this.#now;
    if (lost || row === NOWHERE || low - row >= this.#size.rows) return `\x1b[${this.#size.rows}B\r\n`;
    if (low < row) return column === 0 ? "" : "\r";
    return `${low === row ? "" : `\x1b[${low - row}B`}\r\n`;
  }

  #down(): void {
    const now = this.#now;
    const isLast = now.known && (now.row === this.#scrolls || now.row >= this.#size.rows);
    if (!isLast) now.row += 1;
  }

  /** Stops at the bottom, wherever that is, so everything down to it counts as shown. */
  #jumpDown(count: number): void {
    this.#now.row += count;
    if (this.#now.known) this.#now.row = Math.min(this.#now.row, this.#size.rows);
    if (this.#now.low !== NOTHING) this.#now.low = Math.max(this.#now.low, this.#now.row);
  }

  #up(count: number, scrolls: boolean): void {
    const now = this.#now;
    // At the top, all rows move down.
    if (scrolls && (!now.known || now.row <= count)) now.low += count;
    now.row = now.known ? Math.max(1, now.row - count) : now.row - count;
  }

  #to(row: number): void {
    const now = this.#now;
    if (!now.known && now.low !== NOTHING) now.low = BOTTOM;
    now.known = true;
    now.row = Math.min(row, this.#size.rows);
  }

  #erase(what: number): void {
    const now = this.#now;
    if (what === 2) now.low = NOTHING;
    else if (what === 0 && now.row !== NOWHERE)
      now.low = Math.min(now.low, now.column === 0 ? now.row - 1 : now.row);
  }

  #restore(): void {
    const to = this.#saved;
    if (to === null) return this.home();
    const { low, known } = this.#now;
    this.#now = { ...to, low: known === to.known ? low : low === NOTHING ? NOTHING : BOTTOM };
    return undefined;
  }
}
