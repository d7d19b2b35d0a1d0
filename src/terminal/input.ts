/** Owns a line of text that the user edits. Pure: one key in, the next line out. */
import { cutStart, cutToColumns, widthOf } from "../lib/width.ts";
import type { Key } from "./keys.ts";
import { lineOf, type Line } from "./text.ts";

export interface Input {
  /** Harmless: `edited` leaves out characters that could control a terminal. */
  readonly text: string;
  /** The cursor, as an offset into `text`. */
  readonly at: number;
}

/** Null: the key does not edit, so the UI may give it another meaning. */
export function edited({ text, at }: Input, key: Key): Input | null {
  const [before, after] = [text.slice(0, at), text.slice(at)];
  const back = charactersOf(before).at(-1)?.length ?? 0;
  const on = charactersOf(after)[0]?.length ?? 0;
  switch (key) {
    case "left":
      return { text, at: at - back };
    case "right":
      return { text, at: at + on };
    case "home":
    case "ctrl-a":
      return { text, at: 0 };
    case "end":
    case "ctrl-e":
      return { text, at: text.length };
    case "backspace":
      return joined(text.slice(0, at - back), after);
    case "delete":
      return joined(before, text.slice(at + on));
    case "ctrl-u":
      return joined("", after);
    case "ctrl-k":
      return joined(before, "");
    case "ctrl-w":
      return joined(before.slice(0, before.trimEnd().lastIndexOf(" ") + 1), after);
  }
  const typed = key === "space" ? " " : key;
  if (Array.from(typed).length !== 1) return null;
  return lineOf(typed, 2) === typed ? joined(before + typed, after) : { text, at };
}

/** The part of the text around the cursor that has room, and the cursor itself. */
export function inputLine({ text, at }: Input, columns: number): Line {
  const before = cutStart(text.slice(0, at), columns - 1);
  const after = cutToColumns(text.slice(at), columns - 1 - widthOf(before));
  return [{ text: before }, { text: "▏", style: "accent" }, { text: after }];
}

function joined(before: string, after: string): Input {
  return { text: before + after, at: before.length };
}

/** Characters as people count them: a letter with its marks is one. */
function charactersOf(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}
