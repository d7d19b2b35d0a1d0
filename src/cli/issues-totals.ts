/** How far a batch is, how long the rest may take, and what its issues used. Pure. */
import type { ModelPrice } from "../core/config.ts";
import type { Tokens } from "../core/events.ts";
import { NO_TOKENS, sumTokens, tokensText } from "../core/tokens.ts";
import { formatDuration } from "../lib/duration.ts";
import type { BatchRecord, IssueRecord } from "../issues/issues.ts";
import { costOf } from "./usage-report.ts";

type Prices = Readonly<Record<string, ModelPrice>>;

/** A part of `issues status --json`. */
export interface BatchTotals {
  readonly planned: number;
  /** Ended, however. */
  readonly done: number;
  readonly completed: number;
  /** Of a live batch, by the pace so far. Null: nothing is done yet, or nothing is left. */
  readonly aboutLeftMs: number | null;
  /** All turns about these issues, earlier batches included. Null: no engine reported any. */
  readonly tokens: Tokens | null;
}

const UNDER_WAY: readonly IssueRecord["status"][] = ["running", "waiting", "checking", "passed"];

export function totalsOf(
  { planned = [], left, started_at: startedAt }: Pick<BatchRecord, "planned" | "left" | "started_at">,
  issues: ReadonlyMap<string, Pick<IssueRecord, "status" | "tokens">>,
  { live, nowMs, prices }: { readonly live: boolean; readonly nowMs: number; readonly prices: Prices },
): BatchTotals {
  const all = [...issues.values()];
  const known = new Set([...planned, ...issues.keys()]).size;
  const size = planned.length === 0 ? known + left : known;
  const done = all.filter(({ status }) => !UNDER_WAY.includes(status)).length;
  const elapsedMs = nowMs - Date.parse(startedAt);
  return {
    planned: size,
    done,
    completed: all.filter(({ status }) => status === "completed").length,
    aboutLeftMs: live ? aboutLeft({ done, planned: size, elapsedMs }) : null,
    tokens: sumOf(
      all.map(({ tokens }) => tokens),
      prices,
    ),
  };
}

interface Pace {
  readonly done: number;
  readonly planned: number;
  readonly elapsedMs: number;
}

/** Null: nothing is done yet, or nothing is left. */
function aboutLeft({ done, planned, elapsedMs }: Pace): number | null {
  if (done === 0 || done >= planned || !(elapsedMs >= 0)) return null;
  return Math.round((elapsedMs / done) * (planned - done));
}

/** The sum, with the cost of every part that has one: the engine's own, or by the configured price. */
export function sumOf(parts: readonly (Tokens | null)[], prices: Prices): Tokens | null {
  let sum: Tokens | null = null;
  for (const tokens of parts) {
    if (tokens === null) continue;
    const costUsd = costOf(tokens, tokens.model ?? null, prices);
    sum = sumTokens(sum ?? NO_TOKENS, costUsd === undefined ? tokens : { ...tokens, costUsd });
  }
  return sum;
}

/** `3 of 5 done, about 12 m left · 1200 in, 300 out, $0.02`; of a batch that is over, `3 of 5 completed`. */
export function totalsText(
  { planned, done, completed, aboutLeftMs, tokens }: BatchTotals,
  live: boolean,
): string {
  const left = aboutLeftMs === null ? "" : `, about ${roughly(aboutLeftMs)} left`;
  const how = live ? `${done} of ${planned} done${left}` : `${completed} of ${planned} completed`;
  return [...(planned === 0 ? [] : [how]), ...(tokens === null ? [] : [`tokens ${tokensText(tokens)}`])].join(
    " · ",
  );
}

/** For a live view: nothing before the first issue is done, and after the last. */
export function progressText(pace: Pace, tokens: Tokens | null): string {
  const leftMs = aboutLeft(pace);
  const how = leftMs === null ? [] : [`${pace.done} of ${pace.planned} done, about ${roughly(leftMs)} left`];
  return [...how, ...(tokens === null ? [] : [`tokens ${tokensText(tokens)}`])].join(" · ");
}

const roughly = (ms: number) => formatDuration(ms).split(" ").slice(0, 2).join(" ");
