/** Owns the bytes that reach a terminal: how lines look, and the fewest rows to write for the next frame. Pure. */
import type { Line, Style } from "./text.ts";

/** Enters the alternate screen, hides the cursor, stops wrapping at the edge, and has pastes marked. */
export const ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J";
/** Undoes `ENTER`. */
export const LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l";

/** Colours of the terminal's own palette, and no backgrounds: both show well in every theme. */
const CODES: Readonly<Record<Style, readonly [on: number, off: number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  bad: [31, 39],
  good: [32, 39],
  warn: [33, 39],
  accent: [36, 39],
  bar: [7, 27],
};

export function painted(line: Line, colours: boolean): string {
  return line
    .map(({ text, style }) => {
      if (!colours || style === undefined || text === "") return text;
      const [on, off] = CODES[style];
      return `\x1b[${on}m${text}\x1b[${off}m`;
    })
    .join("");
}

/** Terminals that know these two show a frame when it is complete; the others ignore them. */
const BEGIN_FRAME = "\x1b[?2026h";
const END_FRAME = "\x1b[?2026l";

/**
 * What to write so that painted rows replace those shown `before`; null: the screen's content is unknown. Each row is
 * erased and written at its own place, so that no row depends on the width of another.
 */
export function changesOf(before: readonly string[] | null, rows: readonly string[]): string {
  let out = before === null ? "\x1b[2J" : "";
  const count = Math.max(rows.length, before?.length ?? 0);
  for (let at = 0; at < count; at += 1) {
    const row = rows[at] ?? "";
    if (before === null || row !== before[at]) out += `\x1b[${at + 1};1H\x1b[K${row}`;
  }
  return out === "" ? "" : `${BEGIN_FRAME}${out}${END_FRAME}`;
}
