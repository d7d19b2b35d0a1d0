/** How look-up commands say times and places: short, for people, already harmless. */
import type { RunStatus } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { cutStart, widthOf } from "../lib/width.ts";
import { untilText } from "../lib/until.ts";
import { wrap, wrapPath } from "../lib/wrap.ts";
import type { Terminal } from "./context.ts";

/** The greatest unit only: `3 h`, `12 d`, `now`. */
export function age(iso: string, nowMs: number): string {
  const ms = nowMs - Date.parse(iso);
  if (Number.isNaN(ms)) return "?";
  if (ms < 1_000) return "now";
  return formatDuration(ms).split(" ").slice(0, 2).join(" ").replace(/\.\d/, "");
}

/** A path for people: `~` for the home directory, and its end when it is too long for the columns. */
export function shortPath(path: string, home: string | undefined, columns?: number): string {
  const atHome = home !== undefined && home !== "" && (path === home || path.startsWith(`${home}/`));
  const whole = harmlessLine(atHome ? `~${path.slice(home.length)}` : path);
  return columns === undefined ? whole : cutStart(whole, columns);
}

/** When a limit ends: ` until 16:40 (in 23 min)`; of one that has ended, since when. Empty: nobody said. */
export function resetText(resetsAt: string | undefined, nowMs: number): string {
  const atMs = Date.parse(resetsAt ?? "");
  if (Number.isNaN(atMs)) return "";
  return atMs > nowMs ? ` ${untilText(atMs, nowMs)}` : ` (over since ${new Date(atMs).toISOString()})`;
}

/** On a terminal, a text in several lines, all but the first indented. What `unbroken` joined stays together. */
export function hanging(
  terminal: Pick<Terminal, "stdout" | "columns">,
  text: string,
  indent: number,
): string {
  const lines = terminal.stdout ? wrap(text, { width: terminal.columns, indent }).join("\n") : text;
  return lines.replaceAll(NO_BREAK, " ");
}

const NO_BREAK = "\u00a0";

/** A command for `hanging`, which must stay on one line to be typed or copied. */
export function unbroken(command: string): string {
  return command.replaceAll(" ", NO_BREAK);
}

/** On a terminal, a path behind a label of so many columns. */
export function hangingPath(
  terminal: Pick<Terminal, "stdout" | "columns">,
  path: string,
  indent: number,
): string {
  return terminal.stdout ? wrapPath(path, { width: terminal.columns, indent }).join("\n") : path;
}

export const STATUS_COLORS = {
  running: "cyan",
  completed: "green",
  failed: "red",
  interrupted: "yellow",
  cancelled: "yellow",
  diverged: "red",
} as const satisfies Record<RunStatus, string>;

export const STATUSES = Object.keys(STATUS_COLORS) as RunStatus[];

/** Beside less than this a text is no longer readable. */
const LEAST = 20;

/** A label and its text: on a terminal the text wraps beside the label, in a pipe it stays one line. */
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
