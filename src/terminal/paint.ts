/** Owns the bytes sent to a terminal: the look of lines, and the fewest rows to write for the next frame. Pure. */
import { inStyle } from "../lib/palette.ts";
import type { Line } from "./text.ts";

/** Enters the alternate screen, hides the cursor, disables wrapping, and enables bracketed paste. */
export const ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J";
/** Undoes `ENTER`. */
export const LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l";

export function painted(line: Line, colours: boolean): string {
  return line
    .map(({ text, style }) => {
      return !colours || style === undefined || text === "" ? text : inStyle(style, text);
    })
    .join("");
}

/** Terminals that know these sequences show only complete frames; the others ignore them. */
const BEGIN_FRAME = "\x1b[?2026h";
const END_FRAME = "\x1b[?2026l";

/**
 * The bytes that replace the rows shown `before`. Null: the screen's content is unknown. Each row is erased and written
 * at its position, so that no row depends on the width of another.
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
