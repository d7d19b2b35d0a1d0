/** What attempts used: sums, and the share of one attempt in the totals of its conversation. Pure. */
import type { Tokens } from "./events.ts";
import { limitOf } from "./limit.ts";
import type { AttemptRecord, RunRecord, UsedAttempt } from "./records.ts";

/** What an engine said about an attempt: its own counts, totals of the conversation, or both. */
export interface ReportedUsage {
  readonly tokens: Tokens | null;
  readonly session?: Tokens;
}

const COUNTS = ["input", "output", "cached", "reasoning", "costUsd"] as const;

export const NO_TOKENS: Tokens = { input: 0, output: 0 };

/**
 * What the attempt itself used. `before`: the totals of the conversation when it began; null if they are unknown, for
 * example in an adopted conversation.
 */
export function ownTokens({ tokens, session }: ReportedUsage, before: Tokens | null): Tokens | null {
  if (session === undefined) return tokens;
  const share = before === null ? null : difference(session, before);
  if (tokens === null) return share;
  // The counts of the turn are certain; only the cost comes from the totals, if they grew by these counts at least.
  if (tokens.costUsd !== undefined || share?.costUsd === undefined) return tokens;
  return share.input < tokens.input || share.output < tokens.output
    ? tokens
    : { ...tokens, costUsd: share.costUsd };
}

/** Null: a count is smaller than before, so these are not totals of the same conversation. */
function difference(after: Tokens, before: Tokens): Tokens | null {
  const found: { -readonly [K in keyof Tokens]?: Tokens[K] } = {};
  for (const name of COUNTS) {
    const present = after[name];
    if (present === undefined) continue;
    const rest = present - (before[name] ?? 0);
    if (rest < 0) return null;
    found[name] = name === "costUsd" ? roundedCost(rest) : rest;
  }
  const { input = 0, output = 0, ...more } = found;
  return { input, output, ...more, ...(after.model === undefined ? {} : { model: after.model }) };
}

/** Both together. A part that only one of them reports is kept; a model only if it is the same. */
export function sumTokens(a: Tokens, b: Tokens): Tokens {
  const part = (name: "cached" | "reasoning" | "costUsd") =>
    a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
  const model = a.model !== undefined && a.model === b.model ? { model: a.model } : {};
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    ...part("cached"),
    ...part("reasoning"),
    ...part("costUsd"),
    ...model,
  };
}

/** Differences of binary fractions have errors far below a millionth of a cent. */
function roundedCost(usd: number): number {
  return Math.round(usd * 1e10) / 1e10;
}

/** `100 in (60 cached), 12 out (4 reasoning), $0.02`. */
export function tokensText({ input, output, cached, reasoning, costUsd }: Tokens): string {
  const part = (count: number | undefined, what: string) =>
    count === undefined || count === 0 ? "" : ` (${count} ${what})`;
  const cost = costUsd === undefined ? "" : `, ${dollars(costUsd)}`;
  return `${input} in${part(cached, "cached")}, ${output} out${part(reasoning, "reasoning")}${cost}`;
}

/** Cents; two significant digits below ten cents. */
export function dollars(usd: number): string {
  if (usd === 0 || usd >= 0.1) return `$${usd.toFixed(2)}`;
  let text = Number(usd.toPrecision(2)).toFixed(10);
  while (text.endsWith("0")) text = text.slice(0, -1);
  return `$${text}`;
}

/** Null: the attempt never began. */
export function usedBy(
  { handle, agentName }: Pick<RunRecord, "handle" | "agentName">,
  attempt: AttemptRecord,
): UsedAttempt | null {
  if (attempt.state === "intended") return null;
  const { runId, n, startedAt, endedAt, cwd, tokens } = attempt;
  return {
    ...{ v: 1, runId, handle, engine: agentName, n, startedAt, endedAt, cwd },
    ...{ model: modelOf(attempt), tokens, limit: limitOf(attempt) },
  };
}

/** The name that the engine reported; else the value of its option. Null: neither. */
function modelOf({ tokens, args }: AttemptRecord): string | null {
  if (tokens?.model !== undefined) return tokens.model;
  const end = args.indexOf("--");
  const options = end === -1 ? args : args.slice(0, end);
  const at = options.findLastIndex((arg) => /^(?:-m|--model)(?:=|$)/.test(arg));
  if (at === -1) return null;
  const [, joined] = /^[^=]*=(.+)$/s.exec(options[at] ?? "") ?? [];
  return joined ?? options[at + 1] ?? null;
}
