/** What attempts used, in groups: sums, costs and limits that were hit. Pure; `usage.ts` reads and prints. */
import type { ModelPrice } from "../core/config.ts";
import type { Tokens } from "../core/events.ts";
import type { RunLimit } from "../core/limit.ts";
import type { UsedAttempt } from "../core/records.ts";

export const GROUPINGS = ["day", "engine", "model", "run", "folder"] as const;
export type UsageGrouping = (typeof GROUPINGS)[number];

type Prices = Readonly<Record<string, ModelPrice>>;

export interface UsageSum {
  readonly runs: number;
  readonly attempts: number;
  /** Attempts without token counts: UIs, text output, engines that report nothing. */
  readonly uncounted: number;
  readonly input: number;
  readonly output: number;
  /** Null: no attempt reported it. */
  readonly cached: number | null;
  readonly reasoning: number | null;
  /** US dollars, of the attempts with a cost. Null: none has one. */
  readonly costUsd: number | null;
  /** Counted attempts without a cost: the engine reports none, and the model has no price. */
  readonly unpriced: number;
}

export interface UsageGroup extends UsageSum {
  /** A local day (`2026-11-18`), an engine, a model, a handle or a folder. Null: the model is unknown. */
  readonly key: string | null;
}

/** A limit that ended an attempt. */
export interface HitLimit {
  readonly handle: string;
  readonly attempt: number;
  readonly engine: string;
  readonly kind: RunLimit["kind"];
  readonly at: string;
  /** Null: the engine named no time. */
  readonly resetsAt: string | null;
}

export interface UsageReport {
  readonly groups: readonly UsageGroup[];
  readonly total: UsageSum;
  readonly limits: readonly HitLimit[];
}

export function usageReport(
  all: readonly UsedAttempt[],
  by: UsageGrouping,
  prices: Prices = {},
): UsageReport {
  const members = new Map<string | null, UsedAttempt[]>();
  for (const one of all) {
    const key = keyOf(one, by);
    const found = members.get(key);
    if (found === undefined) members.set(key, [one]);
    else found.push(one);
  }
  const groups = [...members].map(([key, its]) => ({ key, ...sumOf(its, prices) }));
  return { groups: sorted(groups, by), total: sumOf(all, prices), limits: limitsIn(all) };
}

function keyOf({ startedAt, engine, model, handle, cwd }: UsedAttempt, by: UsageGrouping): string | null {
  switch (by) {
    case "day":
      return localDay(startedAt);
    case "engine":
      return engine;
    case "model":
      return model;
    case "run":
      return handle;
    case "folder":
      return cwd;
  }
}

function localDay(iso: string): string {
  const at = new Date(iso);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

function sumOf(attempts: readonly UsedAttempt[], prices: Prices): UsageSum {
  let [input, output, uncounted, unpriced] = [0, 0, 0, 0];
  let [cached, reasoning, costUsd] = [null, null, null] as (number | null)[];
  for (const { tokens, model } of attempts) {
    if (tokens === null) {
      uncounted += 1;
      continue;
    }
    input += tokens.input;
    output += tokens.output;
    cached = plus(cached, tokens.cached);
    reasoning = plus(reasoning, tokens.reasoning);
    const cost = costOf(tokens, model, prices);
    if (cost === undefined) unpriced += 1;
    costUsd = plus(costUsd, cost);
  }
  const runs = new Set(attempts.map(({ runId }) => runId)).size;
  return {
    runs,
    attempts: attempts.length,
    uncounted,
    input,
    output,
    cached: cached ?? null,
    reasoning: reasoning ?? null,
    costUsd: costUsd ?? null,
    unpriced,
  };
}

function plus(sum: number | null | undefined, more: number | undefined): number | null {
  return more === undefined ? (sum ?? null) : (sum ?? 0) + more;
}

/** The engine's own figure; else the configured price. Cached tokens are part of the input. */
export function costOf(tokens: Tokens, model: string | null, prices: Prices): number | undefined {
  if (tokens.costUsd !== undefined) return tokens.costUsd;
  const price = model !== null && Object.hasOwn(prices, model) ? prices[model] : undefined;
  if (price === undefined) return undefined;
  const cached = Math.min(tokens.cached ?? 0, tokens.input);
  const uncached = tokens.input - cached;
  const millionths =
    uncached * price.input + cached * (price.cached ?? price.input) + tokens.output * price.output;
  return millionths / 1_000_000;
}

/** Days by date; other groups by what they used, the largest first. */
function sorted(groups: readonly UsageGroup[], by: UsageGrouping): readonly UsageGroup[] {
  const name = ({ key }: UsageGroup) => key ?? "";
  const byName = (a: UsageGroup, b: UsageGroup) => (name(a) < name(b) ? -1 : 1);
  if (by === "day") return groups.toSorted(byName);
  const size = ({ costUsd, input, output }: UsageGroup) => [costUsd ?? 0, input + output] as const;
  return groups.toSorted((a, b) => {
    const [[costA, tokensA], [costB, tokensB]] = [size(a), size(b)];
    return costB - costA || tokensB - tokensA || byName(a, b);
  });
}

/** Newest first. */
function limitsIn(attempts: readonly UsedAttempt[]): readonly HitLimit[] {
  const hit = attempts.flatMap(({ handle, engine, n, limit, startedAt, endedAt }): HitLimit[] =>
    limit === null ? [] : [{ handle, attempt: n, engine, ...limit, at: endedAt ?? startedAt }],
  );
  return hit.toSorted((a, b) => (a.at < b.at ? 1 : -1));
}
