/** Owns lines of a screen, made of untrusted text: harmless, of known width, and no longer than anybody reads. Pure. */
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { cutToColumns, widthOf } from "../lib/width.ts";

/** What a piece of a line looks like; without colours all look alike. */
export type Style = "bold" | "dim" | "good" | "bad" | "warn" | "accent" | "bar";
export interface Piece {
  readonly text: string;
  readonly style?: Style;
}
/** One row, or what one part of the screen has in it. */
export type Line = readonly Piece[];

/** More of one text is never shown: beyond this nobody reads, and a body may have 5 MB. */
const MAX_SHOWN = 20_000;
const TAB = "    ";

/** Lines of untrusted text, none wider than `columns`. `keep` says which end of a text longer than `most` is shown. */
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
  // More than `harmlessLine` looks at, also when every other character is a joiner: a huge text costs no more.
  const part = unjoined(text.slice(0, columns * 32 + 256));
  return cutToColumns(evenWidth(harmlessLine(part, columns * 2)), columns);
}

/** Filled with blanks, or cut, to exactly so many columns. Takes harmless text. */
export function fit(text: string, columns: number): string {
  const cut = cutToColumns(text, columns);
  return cut + " ".repeat(Math.max(0, columns - widthOf(cut)));
}

export function styled(lines: readonly string[], style?: Style): Line[] {
  return lines.map((text) => [style === undefined ? { text } : { text, style }]);
}

/** The line with its styles, cut to `columns`. */
export function cutLine(line: Line, columns: number): Line {
  let room = columns;
  return line.map((piece) => {
    const text = cutToColumns(piece.text, room);
    room -= widthOf(text);
    return { ...piece, text };
  });
}

/** Keeps the lines that `make` made of an object, for as long as the object lives and the width stays the same. */
export function remembered<T extends object>(make: (of: T, columns: number) => readonly Line[]): typeof make {
  const known = new WeakMap<T, { readonly columns: number; readonly lines: readonly Line[] }>();
  return (of, columns) => {
    let made = known.get(of);
    if (made?.columns !== columns) known.set(of, (made = { columns, lines: make(of, columns) }));
    return made.lines;
  };
}

/** Breaks at blanks where there are any. Takes harmless text. */
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

/** A joiner between two pictures is no hidden character: the pictures are shown one after the other. */
const JOINERS =
  /(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?)\u200d(?=\p{Extended_Pictographic})/gu;

function unjoined(text: string): string {
  return text.includes("\u200d") ? text.replace(JOINERS, "") : text;
}

const FLAGS = /[\u{1f1e6}-\u{1f1ff}]/gu;
/** Selectors of a picture's shape, skin tones, and marks beyond the third on one letter. */
const UNEVEN = /[\ufe00-\ufe0f]|[\u{1f3fb}-\u{1f3ff}]|[\p{Mn}\p{Me}](?<=[\p{Mn}\p{Me}]{4})[\p{Mn}\p{Me}]*/gu;

/**
 * Terminals do not agree on the width of characters that combine into one picture. The parts that combine are left
 * out; a flag becomes its two letters.
 */
function evenWidth(text: string): string {
  return text
    .replace(UNEVEN, "")
    .replace(FLAGS, (letter) => String.fromCodePoint((letter.codePointAt(0) ?? 0) - 0x1f1e6 + 0x41));
}
