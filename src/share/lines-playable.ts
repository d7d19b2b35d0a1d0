/** The words and actions of an agent without a UI as something to play: the last lines, each with its time. */
import { linesOf } from "../terminal/terminal.ts";
import { clockText } from "./playback.ts";
import type { Playable } from "./player.ts";

/** Untrusted text. `continues`: without a line break after the text before it. */
export interface TimedText {
  readonly atMs: number;
  readonly text: string;
  readonly continues: boolean;
}

export function linesPlayable(texts: readonly TimedText[]): Playable {
  let shown: { readonly atMs: number; text: string }[] = [];
  return {
    durationMs: texts.at(-1)?.atMs ?? 0,
    begin: async function* () {
      shown = [];
      let last = 0;
      for (const { atMs, text, continues } of texts) {
        last = Math.max(last, atMs);
        const apply = () => {
          const before = shown.at(-1);
          if (continues && before !== undefined) before.text += text;
          else shown.push({ atMs, text });
        };
        yield { atMs: last, apply };
      }
    },
    rows: ({ columns, rows }) => ({ rows: lastRows(shown, columns, rows - 1), note: null }),
  };
}

/** Only as many texts as fit are laid out. */
function lastRows(
  shown: readonly { readonly atMs: number; readonly text: string }[],
  columns: number,
  most: number,
): readonly string[] {
  let rows: string[] = [];
  for (const { atMs, text } of shown.toReversed()) {
    const stamp = `${clockText(atMs)}  `;
    const lines = linesOf(text.trimEnd(), Math.max(10, columns - stamp.length), "end");
    rows = [...lines.map((line, at) => `${at === 0 ? stamp : " ".repeat(stamp.length)}${line}`), ...rows];
    if (rows.length >= most) break;
  }
  return rows.slice(-most);
}
