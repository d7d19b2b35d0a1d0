/**
 * The screen of a recording, drawn by a terminal in memory. Hostile bytes end there: a frame has only characters that
 * one cell can show, and colours. It has no title, clipboard, query, link or mode.
 */
import { harmless } from "../lib/harmless.ts";
import type { TerminalSize } from "../lib/terminal-state.ts";
import type { IBufferCell, Terminal } from "@xterm/headless";

export interface ScreenCell {
  /** Empty: the second half of a wide character. */
  readonly text: string;
  /** The parameters of the sequence that selects its look. Empty: plain. */
  readonly look: string;
}

export interface ScreenFrame {
  readonly size: TerminalSize;
  /** 0-based, of the cursor. */
  readonly row: number;
  readonly rows: readonly (readonly ScreenCell[])[];
  /** Whether a row continues the row before it. */
  readonly wrapped: readonly boolean[];
}

export class RecordedScreen implements Disposable {
  readonly #terminal: Terminal;

  private constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** `lineFeeds`: the output is that of a pipe, where a line feed begins a new line. */
  static async open(size: TerminalSize, lineFeeds: boolean): Promise<RecordedScreen> {
    const { default: xterm } = await import("@xterm/headless");
    return new RecordedScreen(
      new xterm.Terminal({ ...size, scrollback: 0, allowProposedApi: true, convertEol: lineFeeds }),
    );
  }

  resize({ cols, rows }: TerminalSize): void {
    this.#terminal.resize(cols, rows);
  }

  async write(bytes: Buffer): Promise<void> {
    await new Promise<void>((resolve) => this.#terminal.write(bytes, resolve));
  }

  frame(): ScreenFrame {
    const { cols, rows } = this.#terminal;
    const { active } = this.#terminal.buffer;
    const cell = active.getNullCell();
    const lines = Array.from({ length: rows }, (_none, y) => active.getLine(active.baseY + y));
    return {
      size: { cols, rows },
      row: active.cursorY,
      rows: lines.map((line) =>
        Array.from({ length: cols }, (_none, x) => cellOf(line?.getCell(x, cell), cell)),
      ),
      wrapped: lines.map((line) => line?.isWrapped === true),
    };
  }

  [Symbol.dispose](): void {
    this.#terminal.dispose();
  }
}

const BLANK: ScreenCell = { text: " ", look: "" };

function cellOf(found: IBufferCell | undefined, cell: IBufferCell): ScreenCell {
  if (found === undefined) return BLANK;
  if (cell.getWidth() === 0) return { text: "", look: "" };
  const text =
    cell.isInvisible() === 0 ? shown(cell.getChars(), cell.getWidth()) : " ".repeat(cell.getWidth());
  return { text, look: lookOf(cell) };
}

/** One character and its marks; a character that could change a terminal becomes a replacement character. */
function shown(chars: string, width: number): string {
  if (chars === "") return " ";
  if (chars >= " " && chars <= "~" && chars.length === 1) return chars;
  if (chars.length <= 8 && harmless(chars) === chars && !/[\n\t]/.test(chars)) return chars;
  const first = String.fromCodePoint(chars.codePointAt(0) ?? 0);
  return harmless(first) === first && first >= " " ? first : "\ufffd".padEnd(width);
}

function lookOf(cell: IBufferCell): string {
  if (cell.isAttributeDefault()) return "";
  const codes = [
    ...(cell.isBold() === 0 ? [] : ["1"]),
    ...(cell.isDim() === 0 ? [] : ["2"]),
    ...(cell.isItalic() === 0 ? [] : ["3"]),
    ...(cell.isUnderline() === 0 ? [] : ["4"]),
    ...(cell.isInverse() === 0 ? [] : ["7"]),
    ...(cell.isStrikethrough() === 0 ? [] : ["9"]),
    ...colour(38, cell.isFgRGB(), cell.isFgPalette(), cell.getFgColor()),
    ...colour(48, cell.isBgRGB(), cell.isBgPalette(), cell.getBgColor()),
  ];
  return codes.join(";");
}

function colour(base: 38 | 48, isRgb: boolean, isPalette: boolean, value: number): readonly string[] {
  if (isRgb) return [`${base};2;${(value >> 16) & 255};${(value >> 8) & 255};${value & 255}`];
  if (!isPalette) return [];
  return value < 8 ? [String(base - 8 + value)] : [`${base};5;${value & 255}`];
}

/** The rows as a terminal shows them, cut to the given number of columns. Omits trailing blanks without a style. */
export function paintedRows({ rows }: ScreenFrame, columns: number, colours: boolean): string[] {
  return rows.map((row) => {
    const cut = row.slice(0, columns);
    // Half of a wide character at the edge would be drawn beyond it.
    if (row[columns]?.text === "" && cut.length === columns) cut[columns - 1] = BLANK;
    const end = cut.findLastIndex(({ text, look }) => text !== " " || (colours && look !== ""));
    let out = "";
    let look = "";
    for (const cell of cut.slice(0, end + 1)) {
      if (colours && cell.text !== "" && cell.look !== look) {
        out += `\x1b[0${cell.look === "" ? "" : `;${cell.look}`}m`;
        look = cell.look;
      }
      out += cell.text;
    }
    return look === "" ? out : `${out}\x1b[0m`;
  });
}
