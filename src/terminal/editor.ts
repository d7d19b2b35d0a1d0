/** A text that a person types: changed by keys and pastes, and drawn with its cursor. Pure. */
import { harmless } from "../lib/harmless.ts";
import { widthOf } from "../lib/width.ts";
import { type Key, pastedIn } from "./keys.ts";
import type { Line } from "./text.ts";

export interface Edited {
  readonly text: string;
  /** The cursor stands before this character. */
  readonly at: number;
}

export const EMPTY: Edited = { text: "", at: 0 };

/** Null: the key means nothing to an editor. `lines` keeps the line breaks of a paste. */
export function edited(before: Edited, key: Key, lines = false): Edited | null {
  const pasted = pastedIn(key);
  if (pasted !== null) return insert(before, typable(pasted, lines));
  if (key === "space") return insert(before, " ");
  if (Object.hasOwn(MOVES, key)) return MOVES[key]?.(before) ?? null;
  return isCharacter(key) ? insert(before, key) : null;
}

const MOVES: Readonly<Record<Key, (before: Edited) => Edited>> = {
  left: ({ text, at }) => ({ text, at: previous(text, at) }),
  right: ({ text, at }) => ({ text, at: next(text, at) }),
  home: ({ text, at }) => ({ text, at: lineStart(text, at) }),
  end: ({ text, at }) => ({ text, at: lineEnd(text, at) }),
  "ctrl-a": ({ text, at }) => ({ text, at: lineStart(text, at) }),
  "ctrl-e": ({ text, at }) => ({ text, at: lineEnd(text, at) }),
  "ctrl-b": ({ text, at }) => ({ text, at: previous(text, at) }),
  "ctrl-f": ({ text, at }) => ({ text, at: next(text, at) }),
  backspace: ({ text, at }) => without(text, previous(text, at), at),
  delete: ({ text, at }) => without(text, at, next(text, at)),
  "ctrl-d": ({ text, at }) => without(text, at, next(text, at)),
  "ctrl-u": ({ text, at }) => without(text, lineStart(text, at), at),
  "ctrl-k": ({ text, at }) => without(text, at, lineEnd(text, at)),
  "ctrl-w": ({ text, at }) => without(text, wordStart(text, at), at),
};

function isCharacter(key: Key): boolean {
  return key.length === String.fromCodePoint(key.codePointAt(0) ?? 0).length;
}

function insert({ text, at }: Edited, more: string): Edited {
  return { text: text.slice(0, at) + more + text.slice(at), at: at + more.length };
}

function without(text: string, from: number, to: number): Edited {
  return { text: text.slice(0, from) + text.slice(to), at: from };
}

/** No terminal sequence of a paste reaches the text. */
function typable(pasted: string, lines: boolean): string {
  const even = pasted.replaceAll(/\r\n?/g, "\n").replaceAll(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "");
  return lines ? even : even.replaceAll(/[\n\t]+/g, " ");
}

/** The most characters that one visible character has. */
const NEAR = 64;
const segments = new Intl.Segmenter("en", { granularity: "grapheme" });

function previous(text: string, at: number): number {
  const near = text.slice(Math.max(0, at - NEAR), at);
  const last = [...segments.segment(near)].at(-1);
  return last === undefined ? 0 : at - last.segment.length;
}

function next(text: string, at: number): number {
  for (const { segment } of segments.segment(text.slice(at, at + NEAR))) return at + segment.length;
  return text.length;
}

function lineStart(text: string, at: number): number {
  return at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1;
}

function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

function wordStart(text: string, at: number): number {
  let start = text.slice(0, at).trimEnd().length;
  while (start > 0 && text.charAt(start - 1).trim() !== "") start -= 1;
  return start;
}

/** At most `rows` rows that show the cursor, broken at the last column. The cursor is reversed, or a line without colours. */
export function drawn({ text, at }: Edited, columns: number, rows: number, colours: boolean): Line[] {
  const all: { before: string; under: string | null; after: string; width: number }[] = [];
  const fresh = () => all.push({ before: "", under: null, after: "", width: 0 });
  fresh();
  let index = 0;
  for (const character of `${text} `) {
    const isCursor = index === at;
    const isBreak = character === "\n";
    const shown = isBreak ? (isCursor ? " " : "") : character === "\t" ? " " : harmless(character);
    if ((all.at(-1)?.width ?? 0) + widthOf(shown) > columns) fresh();
    const row = all.at(-1);
    if (row === undefined) break;
    if (isCursor) row.under = shown;
    else if (row.under === null) row.before += shown;
    else row.after += shown;
    row.width += widthOf(shown);
    index += character.length;
    if (isBreak) fresh();
  }
  const cursor = all.findIndex(({ under }) => under !== null);
  const top = Math.max(0, Math.min(cursor - rows + 1, all.length - rows));
  return all.slice(top, top + rows).map(({ before, under, after }) => {
    if (under === null) return [{ text: before.trimEnd() }];
    const mark = colours ? { text: under, style: "bar" as const } : { text: under === " " ? "▏" : under };
    return [{ text: before }, mark, { text: after.trimEnd() }];
  });
}
