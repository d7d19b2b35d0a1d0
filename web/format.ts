/** Numbers, times and texts as people read them. Pure, except that times are in the reader's time zone. */
import { harmless, harmlessLine } from "../src/lib/harmless.ts";
import type { RunRow, Tokens } from "./types.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `12s`, `4m`, `3h 5m`, `2d 4h`. */
export function duration(ms: number): string {
  const whole = Math.max(0, ms);
  if (whole < SECOND) return `${(whole / SECOND).toFixed(1)}s`;
  if (whole < MINUTE) return `${Math.floor(whole / SECOND)}s`;
  if (whole < HOUR) return pair(whole, [MINUTE, "m"], [SECOND, "s"]);
  if (whole < DAY) return pair(whole, [HOUR, "h"], [MINUTE, "m"]);
  return pair(whole, [DAY, "d"], [HOUR, "h"]);
}

function pair(ms: number, [big, bigUnit]: [number, string], [small, smallUnit]: [number, string]): string {
  const rest = Math.floor((ms % big) / small);
  return `${Math.floor(ms / big)}${bigUnit}${rest === 0 ? "" : ` ${rest}${smallUnit}`}`;
}

/** The age in one unit: `now`, `5m`, `3h`, `2d`; older than a month, the date. */
export function age(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "";
  const ms = now - at;
  if (ms < 10 * SECOND) return "now";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)}s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)}h`;
  if (ms < 31 * DAY) return `${Math.floor(ms / DAY)}d`;
  return iso.slice(0, 10);
}

export function clock(at: number | string): string {
  const date = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Day and minute, the day only if it is not today. */
export function moment(iso: string, now: number): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  const time = clock(iso).slice(0, 5);
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/** `940`, `12.3k`, `4.5M`. */
export function count(n: number): string {
  if (n < 1_000) return String(n);
  if (n < 1_000_000) return `${(n / 1_000).toFixed(n < 100_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(n < 100_000_000 ? 1 : 0)}M`;
}

/** Empty: the engine reported none. */
export function tokenWords(tokens: Tokens | null | undefined): string {
  if (tokens === null || tokens === undefined) return "";
  const parts = [
    ...(typeof tokens.input === "number" ? [`${count(tokens.input)} in`] : []),
    ...(typeof tokens.output === "number" ? [`${count(tokens.output)} out`] : []),
    ...(typeof tokens.cached === "number" && tokens.cached > 0 ? [`${count(tokens.cached)} cached`] : []),
    ...(typeof tokens.costUsd === "number" ? [money(tokens.costUsd)] : []),
  ];
  return parts.join(" · ");
}

export const money = (usd: number): string => `$${usd.toFixed(usd < 1 ? 3 : 2)}`;

export const plural = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;

/** Text of an agent, a file or a person: control and bidirectional characters become visible. */
export const safe = harmless;
export const safeLine = (text: string | null | undefined, max?: number): string =>
  harmlessLine(text ?? "", max);

/** A process may outlive its last attempt for a moment: the recorded end counts. */
export const isLive = ({ live, status }: Pick<RunRow, "live" | "status">): boolean =>
  (status === "running" || status === "starting") && live !== false && live !== null && live !== undefined;

/** What a live UI does, else the state of the run. */
/** A run that a limit ended is limited, until the limit ends. */
export function stateOf(run: RunRow): string {
  const live = typeof run.live === "object" ? run.live?.state : undefined;
  if (live !== undefined || run.status === "running" || (run.limit ?? null) === null)
    return live ?? run.status;
  return Date.parse(run.limit?.resetsAt ?? "") <= Date.now() ? "limit ended" : "limited";
}

export const isInteractive = (run: RunRow): boolean => run.interactive ?? run.launch?.interactive ?? false;

export function titleOf(run: Pick<RunRow, "title" | "name" | "launch">): string {
  const title = run.title ?? run.name ?? run.launch?.message ?? "";
  return safeLine(title, 200).trim() || "Untitled conversation";
}

/** The end of a path, which says more than its beginning. */
export function folder(path: string): string {
  const parts = path.split("/").filter((part) => part !== "");
  const worktree = parts.indexOf("runs");
  if (parts.at(-1) === "worktree" && worktree > 0) return "worktree";
  return safeLine(parts.at(-1) ?? "/");
}
