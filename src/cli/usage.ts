/** `reprise usage`: what agents used and cost, and the limits that they hit. */
import type { UsedAttempt } from "../core/records.ts";
import { dollars, usedBy } from "../core/tokens.ts";
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { table } from "../lib/table.ts";
import type { Deps } from "../run/run.ts";
import { readRemovedUsage, removedUsagePath } from "../state/removed-usage.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { choice, defineCommand, duration, JSON_FLAG, withValue } from "./define.ts";
import {
  GROUPINGS,
  type UsageGroup,
  type UsageGrouping,
  type UsageReport,
  usageReport,
  type UsageSum,
} from "./usage-report.ts";
import { printTable, resetText, shortPath, widthLimit } from "./words.ts";

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;

export const command = defineCommand({
  name: "usage",
  summary: "Show tokens and cost of all runs, removed ones included, and the limits that they hit.",
  options: {
    by: choice("<group>", `one line per ${GROUPINGS.join(", ")} (default: day)`, GROUPINGS),
    since: withValue(
      "<age>",
      `only attempts of this period, such as 7d; 0: all (default ${DEFAULT_DAYS}d)`,
      duration,
    ),
    json: JSON_FLAG,
  },
  examples: [
    "reprise usage",
    "reprise usage --by model --since 7d",
    "reprise usage --json | jq .total.costUsd",
  ],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const by = options.by ?? "day";
    const nowMs = deps.clock.now();
    const since = sinceOf(options.since, nowMs, by);
    const { used, removed } = await usedSince(deps, since ?? "");
    const report = usageReport(used, by, deps.config.prices);
    reply({ since, by, ...report, removed }, () => {
      if (report.total.attempts === 0)
        return context.print("No attempt in this period. `--since 0` shows all.");
      printGroups(context, report, by, deps.env["HOME"]);
      printNotes(context, report.total, removed);
      printLimits(context, report, nowMs);
    });
    return 0;
  },
});

interface Used {
  readonly used: readonly UsedAttempt[];
  /** Runs that are no longer there. */
  readonly removed: number;
}

/** A run that is in the index counts there: it was restored, or its removal did not come to an end. */
async function usedSince({ store, state, log }: Deps, since: string): Promise<Used> {
  const present = (await store.attemptsSince(since)).flatMap((one) => usedBy(one, one.attempt) ?? []);
  const { attempts, damaged } = readRemovedUsage(state);
  if (damaged > 0)
    log.warn(`the sums lack ${plural(damaged, "line")} of ${removedUsagePath(state)} that cannot be read.`);
  const gone = new Set(await store.unknownRuns([...new Set(attempts.map(({ runId }) => runId))]));
  const past = attempts.filter(({ runId, startedAt }) => gone.has(runId) && startedAt >= since);
  return { used: [...past, ...present], removed: new Set(past.map(({ runId }) => runId)).size };
}

/** ISO 8601. Null: everything. With `--by day`, the first day is whole. */
function sinceOf(given: number | null | undefined, nowMs: number, by: UsageGrouping): string | null {
  if (given === null) return null;
  const at = new Date(nowMs - (given ?? DEFAULT_DAYS * DAY_MS));
  if (by === "day") at.setHours(0, 0, 0, 0);
  return at.toISOString();
}

const NUMBERS = ["IN", "CACHED", "OUT", "REASONING", "COST"] as const;

function printGroups(
  context: Context,
  report: UsageReport,
  by: UsageGrouping,
  home: string | undefined,
): void {
  const { terminal } = context;
  const { groups, total } = report;
  const rows = groups.map((group) => [keyText(group, by, terminal, home), ...numbersOf(group, terminal)]);
  const all = [
    [by.toUpperCase(), ...NUMBERS],
    ...rows,
    ...(groups.length > 1 ? [["total", ...numbersOf(total, terminal)]] : []),
  ];
  const lines = table(alignRight(all), widthLimit(terminal));
  const bars = barsFor(terminal, report, Math.max(...lines.map(({ length }) => length)));
  printTable(context, lines, (line, at) => {
    const bar = bars[at];
    if (at >= groups.length) return paint(terminal, "bold", line);
    return bar === undefined ? line : `${line.padEnd(bar.from)}${paint(terminal, "cyan", bar.text)}`;
  });
}

/** All but the first column. */
function alignRight(rows: readonly (readonly string[])[]): string[][] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) => row.map((cell, at) => (at === 0 ? cell : cell.padStart(widths[at] ?? 0))));
}

const KEY_COLUMNS = 24;

function keyText(
  { key }: UsageGroup,
  by: UsageGrouping,
  { stdout }: Terminal,
  home: string | undefined,
): string {
  if (key === null) return "unknown";
  if (by === "folder") return shortPath(key, home, stdout ? KEY_COLUMNS : undefined);
  return harmlessLine(key, stdout ? KEY_COLUMNS : 200);
}

function numbersOf(sum: UsageSum, { stdout }: Terminal): string[] {
  const count = (value: number | null) => (value === null ? "-" : stdout ? short(value) : String(value));
  const cost = sum.costUsd === null ? "-" : dollars(sum.costUsd);
  return [count(sum.input), count(sum.cached), count(sum.output), count(sum.reasoning), cost];
}

/** `950`, `12.3k`, `4.6M`. */
function short(value: number): string {
  if (value < 1_000) return String(value);
  const [unit, name] = value < 999_950 ? [1_000, "k"] : [1_000_000, "M"];
  const scaled = value / unit;
  return `${scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)}${name}`;
}

const LEAST_BAR = 8;
const MOST_BAR = 40;

/** One bar per group where the terminal has room: its cost, or its tokens if nothing has a cost. */
function barsFor(
  terminal: Terminal,
  { groups, total }: UsageReport,
  used: number,
): readonly { readonly from: number; readonly text: string }[] {
  const room = Math.min(MOST_BAR, terminal.columns - used - 2);
  if (!terminal.stdout || room < LEAST_BAR || groups.length < 2) return [];
  const size = (group: UsageGroup) =>
    total.costUsd === null ? group.input + group.output : (group.costUsd ?? 0);
  const largest = Math.max(...groups.map(size));
  return groups.map((group) => {
    const length = largest === 0 ? 0 : Math.round((size(group) / largest) * room);
    return { from: used + 2, text: "█".repeat(size(group) > 0 ? Math.max(1, length) : 0) };
  });
}

function printNotes(context: Context, { uncounted, unpriced, attempts }: UsageSum, removed: number): void {
  const notes = [
    ...(uncounted === 0
      ? []
      : [
          `${uncounted} of ${plural(attempts, "attempt")} reported no tokens (UIs, text output, interrupted turns).`,
        ]),
    ...(unpriced === 0
      ? []
      : [
          `${plural(unpriced, "attempt")} without a cost: set [prices."MODEL"] in your config (docs/config.md).`,
        ]),
    ...(removed === 0 ? [] : [`${plural(removed, "removed run")} included.`]),
  ];
  for (const note of notes) context.print(paint(context.terminal, "dim", note));
}

const MOST_LIMITS = 10;

function printLimits(context: Context, { limits }: UsageReport, nowMs: number): void {
  if (limits.length === 0) return;
  context.print("");
  const rows = limits
    .slice(0, MOST_LIMITS)
    .map(({ handle, engine, kind, at, resetsAt }) => [
      localTime(at, nowMs),
      harmlessLine(engine, 20),
      handle,
      `${kind}${resetText(resetsAt ?? undefined, nowMs)}`,
    ]);
  printTable(
    context,
    table([["LIMIT HIT", "ENGINE", "HANDLE", "LIMIT"], ...rows], widthLimit(context.terminal)),
  );
  const more = limits.length - rows.length;
  if (more > 0) context.print(paint(context.terminal, "dim", `${plural(more, "more limit")} in --json.`));
}
