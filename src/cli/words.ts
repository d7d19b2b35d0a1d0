/** How look-up commands print times and places: short, readable, harmless. */
import type { RunStatus } from "../core/records.ts";
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { styleOfState } from "../lib/palette.ts";
import { cutStart, widthOf } from "../lib/width.ts";
import { untilText } from "../lib/until.ts";
import { wrap, wrapPath } from "../lib/wrap.ts";
import { type Context, paint, type Terminal } from "./context.ts";

export { age } from "../lib/duration.ts";

/** A path for display: `~` for the home directory, and only its end if it is too long for the columns. */
export function shortPath(path: string, home: string | undefined, columns?: number): string {
  const atHome = home !== undefined && home !== "" && (path === home || path.startsWith(`${home}/`));
  const whole = harmlessLine(atHome ? `~${path.slice(home.length)}` : path);
  return columns === undefined ? whole : cutStart(whole, columns);
}

/** When a limit ends: ` until 16:40 (in 23 min)`; if it has ended, since when. Empty: unknown. */
export function resetText(resetsAt: string | undefined, nowMs: number): string {
  const atMs = Date.parse(resetsAt ?? "");
  if (Number.isNaN(atMs)) return "";
  return atMs > nowMs ? ` ${untilText(atMs, nowMs)}` : ` (ended ${localTime(resetsAt ?? "", nowMs)})`;
}

/** The command that resumes when a limit ends. Null: no limit, or nobody knows its end, or it is over. */
export function resumeAtReset(handle: string, resetsAt: string | undefined, nowMs: number): string | null {
  return Date.parse(resetsAt ?? "") > nowMs ? `reprise resume ${handle} --when-reset "…"` : null;
}

/** On a terminal, a wrapped text with all but the first line indented. Text that `unbroken` joined stays together. */
export function hanging(
  terminal: Pick<Terminal, "stdout" | "columns">,
  text: string,
  indent: number,
): string {
  const lines = terminal.stdout ? wrap(text, { width: terminal.columns, indent }).join("\n") : text;
  return lines.replaceAll(NO_BREAK, " ");
}

const NO_BREAK = "\u00a0";

/** A command for `hanging` that must stay on one line, to be typed or copied. */
export function unbroken(command: string): string {
  return command.replaceAll(" ", NO_BREAK);
}

/** A path for a terminal, after a label of the given number of columns. */
export function hangingPath(
  terminal: Pick<Terminal, "stdout" | "columns">,
  path: string,
  indent: number,
): string {
  return terminal.stdout ? wrapPath(path, { width: terminal.columns, indent }).join("\n") : path;
}

export const STATUSES = [
  "running",
  "completed",
  "failed",
  "interrupted",
  "cancelled",
  "diverged",
] as const satisfies readonly RunStatus[];

/** The state of anything, in its colour. */
export function paintState(terminal: Terminal, state: string): string {
  const style = styleOfState(state);
  return style === undefined ? state : paint(terminal, style, state);
}

/** Text in a narrower column is unreadable. */
const LEAST = 20;

/** A label and its text: on a terminal the text wraps beside the label, in a pipe it stays on one line. */
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

/** Tables fit a terminal; in a pipe they have their natural width. */
export function widthLimit({ stdout, columns }: Pick<Terminal, "stdout" | "columns">): number | undefined {
  return stdout ? columns : undefined;
}

/** Prints a table, header first. `colour` gets each row with its index. */
export function printTable(
  context: Context,
  [header = "", ...rows]: readonly string[],
  colour: (row: string, at: number) => string = (row) => row,
): void {
  context.print(paint(context.terminal, "dim", header));
  for (const [at, row] of rows.entries()) context.print(colour(row, at));
}
