/** A label and its text: on a terminal the text wraps beside the label, in a pipe it stays one line. */
import { widthOf } from "../lib/width.ts";
import { wrap } from "../lib/wrap.ts";
import type { Terminal } from "./context.ts";

/** Beside less than this a text is no longer readable. */
const LEAST = 20;

export function labelled(
  terminal: Pick<Terminal, "stdout" | "columns">,
  label: string,
  text: string,
): readonly string[] {
  if (!terminal.stdout) return [`${label}${text}`];
  const width = Math.max(LEAST, terminal.columns - widthOf(label));
  const [first = "", ...more] = wrap(text, { width, indent: 0 });
  const margin = " ".repeat(widthOf(label));
  return [`${label}${first}`, ...more.map((line) => `${margin}${line}`)];
}
