/** Owns screen lines, made from untrusted text: harmless, of known width and limited length. Pure. */
import { harmless, harmlessLine } from "../lib/harmless.ts";
import type { Style } from "../lib/palette.ts";
import { cutToColumns, widthOf } from "../lib/width.ts";

export interface Piece {
  readonly text: string;
  readonly style?: Style;
}
/** One row, or one part of it. */
export type Line = readonly Piece[];

/** The most to show of one text: a body may have 5 MB. */
const MAX_SHOWN = 20_000;
const TAB = "    ";

/** Lines of untrusted text, at most `columns` wide. `keep` selects the end to show of a text longer than `most`. */
export function linesOf(
  text: string,
  columns: number,
  keep: "start" | "end" = "start",
  most = MAX_SHOWN,
): string[] {
  const left = Math.max(0, text.length - most);
  const part =
    left === 0
      ? text
      : keep === "start"
        ? text.slice(0, most).replace(/[\ud800-\udbff]$/, "")
        : text.slice(-most).replace(/^[\udc00-\udfff]/, "");
  const lines = wrap(
    evenWidth(harmless(unjoined(part).replaceAll("\r\n", "\n"))).replaceAll("\t", TAB),
    columns,
  );
  if (left === 0) return lines;
  const note = cutToColumns(`… ${left.toLocaleString("en")} more characters are not shown`, columns);
  return keep === "start" ? [...lines, note] : [note, ...lines];
}

/** One line of untrusted text, cut to `columns`. */
export function lineOf(text: string, columns: number): string {
  // More than `harmlessLine` needs, even if every other character is a joiner, so that a huge text costs no more.
  const part = unjoined(text.slice(0, columns * 32 + 256));
  return cutToColumns(evenWidth(harmlessLine(part, columns * 2)), columns);
}

/** Padded or cut to exactly this many columns. Takes harmless text. */
export function fit(text: string, columns: number): string {
  const cut = cutToColumns(text, columns);
  return cut + " ".repeat(Math.max(0, columns - widthOf(cut)));
}

export function styled(lines: readonly string[], style?: Style): Line[] {
  return lines.map((text) => [style === undefined ? { text } : { text, style }]);
}

export function cutLine(line: Line, columns: number): Line {
  let room = columns;
  return line.map((piece) => {
    const text = cutToColumns(piece.text, room);
    room -= widthOf(text);
    return { ...piece, text };
  });
}

/** Caches the lines that `make` returned for an object, as long as the object lives and the width stays the same. */
export function remembered<T extends object>(make: (of: T, columns: number) => readonly Line[]): typeof make {
  const known = new WeakMap<T, { readonly columns: number; readonly lines: readonly Line[] }>();
  return (of, columns) => {
    let made = known.get(of);
    if (made?.columns !== columns) known.set(of, (made = { columns, lines: make(of, columns) }));
    return made.lines;
  };
}

/** Breaks at blanks if possible. Takes harmless text. */
export function wrap(text: string, columns: number): string[] {
  const out: string[] = [];
  for (const line of text.split("\n")) wrapLine(line, Math.max(2, columns), out);
  return out;
}

function wrapLine(line: string, columns: number, out: string[]): void {
  let start = 0;
  let at = 0;
  let width = 0;
  let afterBlank = 0;
  for (const character of line) {
    const own = widthOf(character);
    if (width + own > columns) {
      const end = afterBlank > start ? afterBlank : at;
      out.push(line.slice(start, end).trimEnd());
      start = end;
      width = widthOf(line.slice(start, at));
    }
    width += own;
    at += character.length;
    if (character === " ") afterBlank = at;
  }
  out.push(line.slice(start));
}

/** A joiner between two pictures is not a hidden character: the pictures appear side by side. */
const JOINERS =
  /(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?)\u200d(?=\p{Extended_Pictographic})/gu;

function unjoined(text: string): string {
  return text.includes("\u200d") ? text.replace(JOINERS, "") : text;
}

const FLAGS = /[\u{1f1e6}-\u{1f1ff}]/gu;
/** Variation selectors, skin tones, and more than three marks on one letter. */
const UNEVEN = /[\ufe00-\ufe0f]|[\u{1f3fb}-\u{1f3ff}]|[\p{Mn}\p{Me}](?<=[\p{Mn}\p{Me}]{4})[\p{Mn}\p{Me}]*/gu;

/**
 * Terminals disagree on the width of combined pictures. Leaves out the combining parts; a flag becomes its two letters.
 */
function evenWidth(text: string): string {
  return text
    .replace(UNEVEN, "")
    .replace(FLAGS, (letter) => String.fromCodePoint((letter.codePointAt(0) ?? 0) - 0x1f1e6 + 0x41));
}
