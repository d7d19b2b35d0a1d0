/** `reprise list`: all runs, last used first. On the fast path: import nothing heavy here. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Tokens } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { type RunLimit, limitWords } from "../core/limit.ts";
import type { RunRecord } from "../core/records.ts";
import type { ScheduledResume } from "../core/supervision.ts";
import { titleOf } from "../core/title.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural, shortCount } from "../lib/plural.ts";
import { table } from "../lib/table.ts";
import type { BatchLease, Deps } from "../run/run.ts";
import { limitsOf, listRuns } from "../run/select.ts";
import type { RunFilter } from "../store/store.ts";
import { canAsk, type Context, paint, type Terminal } from "./context.ts";
import {
  choice,
  count,
  defineCommand,
  directory,
  flag,
  JSON_FLAG,
  type OptionsOf,
  repeatable,
  text,
  withValue,
} from "./define.ts";
import type { WatchedRow } from "./list-watch.ts";
import { openScheduled, scheduledLines } from "./scheduled-lines.ts";
import { age, printTable, paintState, shortPath, STATUSES, widthLimit } from "./words.ts";

const DEFAULT_LIMIT = 50;
const ORDERS = ["created", "updated", "tokens", "duration"] as const;

const OPTIONS = {
  engine: withValue("<engine>", "only runs of this engine", text, { values: "engines" }),
  status: choice(
    "<status>",
    `only runs with this status: ${STATUSES.join(", ")}; limited: failed because of a limit`,
    [...STATUSES, "limited"] as const,
  ),
  cwd: directory("only runs of this working directory"),
  here: flag("only runs of the current directory and of the same folder in the repository's worktrees"),
  tag: repeatable("<tag>", "only runs with this tag (repeatable; all must match)", { values: "tags" }),
  grep: withValue("<text>", "only runs with this text in title, name, tags, folder, engine or handle", text),
  subject: withValue("<subject>", "only runs for this subject", text),
  name: withValue("<name>", "only runs with this name", text, { values: "names" }),
  sort: choice("<order>", `${ORDERS.join(", ")} (default: updated); newest or largest first`, ORDERS),
  limit: withValue("<n>", `maximum number (default ${DEFAULT_LIMIT})`, count(1, 10_000)),
  watch: flag("keep updating until q or Ctrl-C", "-w"),
  json: JSON_FLAG,
  handles: flag("print only handles, one per line"),
};
type ListOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "list",
  summary: "List runs, last used first. A run whose process died is shown as interrupted.",
  options: OPTIONS,
  examples: [
    "reprise list --here --status interrupted",
    "reprise list --grep cart --tag review",
    "reprise list --engine codex --sort tokens --limit 200",
    "reprise list --json | jq '.runs[].handle'",
  ],
  run: async ({ options, reply }, context) => {
    assertWatchable(options, context);
    const filter = await filterOf(options);
    const deps = await context.open({ cwd: null });
    if (options.watch === true) {
      const { watchRows } = await import("./list-watch.ts");
      return watchRows(context.terminal.color, (columns) => rowsNow(deps, { options, filter, columns }));
    }
    const runs = await listRuns(deps, filter);
    // An unreadable config may define the engine.
    if (options.engine !== undefined && runs.length === 0 && deps.config.unread === undefined) {
      // Only to report an unknown engine; otherwise loading the profiles is not worth it.
      (await import("../run/engine-setup.ts")).findEngine(deps, options.engine);
    }
    const held: Held = (await deps.batchHolds?.(runs)) ?? new Map();
    const limits = await limitsOf(deps, runs);
    const scheduled = await openScheduled(deps);
    const isWide = context.terminal.stdout && context.terminal.columns >= WIDE;
    const wants = options.json === true || options.sort === "tokens" || isWide;
    const tokens = wants ? await tokensOf(deps, runs) : NO_TOKENS;
    const inJson = (one: RunRecord) => ({
      ...withScheduled(withLimit(withBatch(one, held), limits), scheduled),
      ...(tokens.has(one.runId) ? { tokens: tokens.get(one.runId) } : {}),
    });
    reply({ runs: runs.map(inJson) }, () => {
      if (options.handles === true) for (const { handle } of runs) context.print(handle);
      else if (runs.length === 0) context.print(nothing(options));
      else printRuns(context, deps, { runs, held, limits, tokens, limit: filter.limit ?? DEFAULT_LIMIT });
      if (options.handles !== true)
        for (const line of scheduledLines(scheduled.values(), deps.clock.now())) context.print(line);
    });
    return 0;
  },
});

function assertWatchable(options: ListOptions, context: Context): void {
  if (options.watch !== true) return;
  if (options.json === true || options.handles === true)
    throw new Fault("usage", "--watch draws a table: leave out --json and --handles.");
  if (!canAsk(context))
    throw new Fault(
      "usage",
      "--watch needs a terminal that can draw (TERM is not dumb). In a script, repeat `reprise list`.",
    );
}

async function filterOf(options: ListOptions): Promise<RunFilter> {
  if (options.cwd !== undefined && options.here === true)
    throw new Fault("usage", "Give --cwd or --here, not both.");
  const { engine, status, subject, name, tag, grep } = options;
  return {
    limit: options.limit ?? DEFAULT_LIMIT,
    sort: options.sort ?? "updated",
    ...(engine === undefined ? {} : { engine }),
    ...(status === "limited" ? { limited: true } : status === undefined ? {} : { status }),
    ...(subject === undefined ? {} : { subject }),
    ...(name === undefined ? {} : { name }),
    ...(tag === undefined ? {} : { tags: tag }),
    ...(grep === undefined ? {} : mentioning(grep)),
    ...(options.cwd === undefined ? {} : { cwd: realOrGiven(options.cwd) }),
    ...(options.here === true ? { cwds: (await import("../run/here.ts")).placesHere(realOrGiven(".")) } : {}),
  };
}

/** The index finds candidates by the longest word; a title is known only to the code. */
function mentioning(grep: string): Pick<RunFilter, "mentions" | "matches"> {
  const wanted = grep.toLowerCase();
  const [word] = (grep.match(/[a-z0-9]+/gi) ?? []).toSorted((a, b) => b.length - a.length);
  const matches = (run: RunRecord) =>
    [titleOf(run) ?? "", run.name ?? "", run.cwd, run.agentName, run.handle, ...(run.tags ?? [])].some(
      (part) => part.toLowerCase().includes(wanted),
    );
  return { matches, ...(word === undefined ? {} : { mentions: word }) };
}

/** A missing directory may still have runs. */
function realOrGiven(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

function nothing(options: ListOptions): string {
  const filtered = Object.keys(options).some(
    (name) => !["json", "handles", "limit", "sort", "watch"].includes(name),
  );
  return filtered
    ? "No run fits. `reprise list` without filters shows the runs last used."
    : 'No runs yet. Start one: reprise start codex "fix the flaky test" (or see `reprise demo`)';
}

/** By handle: runs that a live batch still works on. */
type Held = ReadonlyMap<string, BatchLease>;

function withBatch(record: RunRecord, held: Held): RunRecord & { readonly batch?: BatchLease } {
  const batch = held.get(record.handle);
  return batch === undefined ? record : { ...record, batch };
}

/** By run id. */
type Limits = ReadonlyMap<string, RunLimit>;

function withLimit<T extends RunRecord>(record: T, limits: Limits): T & { readonly limit?: RunLimit } {
  const limit = limits.get(record.runId);
  return limit === undefined ? record : { ...record, limit };
}

type Scheduled = Pick<ScheduledResume, "id" | "dueAt" | "state">;

function withScheduled<T extends RunRecord>(
  record: T,
  open: ReadonlyMap<string, ScheduledResume>,
): T & { readonly scheduled?: Scheduled } {
  const found = open.get(record.runId);
  if (found === undefined) return record;
  const { id, dueAt, state } = found;
  return { ...record, scheduled: { id, dueAt, state } };
}

interface Status {
  /** Has a colour. */
  readonly word: string;
  readonly text: string;
}

/** `completed (checking)`: the outcome of its last attempt, and the batch's current activity. */
function statusOf({ runId, handle, status }: RunRecord, isNarrow: boolean, now: Shown): Status {
  const state = now.held?.get(handle)?.state;
  const limit = now.limits?.get(runId);
  const words = limit === undefined ? null : limitWords(limit, now.nowMs);
  const word = words?.state ?? status;
  if (state !== undefined && state !== status) return { word, text: `${word} (${harmlessLine(state, 20)})` };
  if (words === null) return { word, text: word };
  const short = words.left === "" ? word : `${word}, ${words.left} left`;
  return { word, text: isNarrow ? short : words.text };
}

/** What `--watch` shows. */
async function rowsNow(
  deps: Deps,
  { options, filter, columns }: { options: ListOptions; filter: RunFilter; columns: number },
): Promise<readonly WatchedRow[]> {
  const runs = await listRuns(deps, filter);
  if (runs.length === 0) return [{ text: nothing(options) }];
  const held: Held = (await deps.batchHolds?.(runs)) ?? new Map();
  const isWide = columns >= WIDE || options.sort === "tokens";
  const now = {
    ...{ nowMs: deps.clock.now(), home: deps.env["HOME"], held, limits: await limitsOf(deps, runs) },
    tokens: isWide ? await tokensOf(deps, runs) : NO_TOKENS,
  };
  const [header = "", ...lines] = runTable(runs, { stdout: true, columns }, now);
  const rows = lines.map((line, at) => {
    const record = runs[at];
    return record === undefined ? { text: line } : { text: line, status: statusOf(record, true, now).word };
  });
  return [{ text: header }, ...rows];
}

function printRuns(
  context: Context,
  deps: Deps,
  {
    runs,
    limit,
    ...known
  }: Pick<Shown, "held" | "limits" | "tokens"> & {
    runs: readonly RunRecord[];
    limit: number;
  },
): void {
  const { terminal } = context;
  const now = { nowMs: deps.clock.now(), home: deps.env["HOME"], ...known };
  const words = runs.map((record) => statusOf(record, true, now).word);
  printTable(context, runTable(runs, terminal, now), (line, at) => painted(terminal, line, words[at]));
  if (runs.length === limit && terminal.stdout) {
    context.print(paint(terminal, "dim", `The first ${plural(limit, "run")}; --limit shows more.`));
  }
}

const HEADER = ["HANDLE", "ENGINE", "STATUS", "ATT", "UPDATED", "TOKENS", "WHAT", "WHERE"] as const;
/** The order in which columns disappear on a narrow terminal. The handle stays. */
const FIRST_TO_GO = ["WHERE", "TOKENS", "ATT", "ENGINE", "UPDATED", "WHAT", "STATUS"] as const;
/** Narrower columns are useless. */
const LEAST = { WHAT: 10, WHERE: 8 };

interface Shown {
  readonly nowMs: number;
  readonly home: string | undefined;
  readonly held?: Held;
  readonly limits?: Limits;
  /** By run id. Absent or empty: no column. */
  readonly tokens?: ReadonlyMap<string, Tokens>;
}

const tokensOf = ({ store }: Deps, runs: readonly RunRecord[]) =>
  store.tokensOf(runs.map(({ runId }) => runId));

const NO_TOKENS: ReadonlyMap<string, Tokens> = new Map();
/** A narrower terminal has no column for tokens, unless they give the order. */
const WIDE = 120;

/** The end of a limit in words needs more columns than this. */
const NARROW = 100;

/** Header first. Cut to the terminal's width; a pipe gets whole paths. */
export function runTable(
  runs: readonly RunRecord[],
  terminal: Pick<Terminal, "stdout" | "columns">,
  now: Shown,
): string[] {
  const isNarrow = terminal.stdout && terminal.columns < NARROW;
  const statuses = runs.map((record) => statusOf(record, isNarrow, now).text);
  const used = runs.map(({ runId }) => tokensCell(now.tokens?.get(runId)));
  const { shown, words, place } = layoutFor(runs, { statuses, used }, terminal);
  const rows = runs.map((record, at) => ({
    HANDLE: record.handle,
    ENGINE: harmlessLine(record.agentName),
    STATUS: statuses[at] ?? record.status,
    ATT: String(record.attempts),
    UPDATED: age(record.updatedAt, now.nowMs),
    TOKENS: used[at] ?? "",
    WHAT: harmlessLine(whatOf(record, words), words),
    WHERE: shortPath(record.cwd, now.home, place),
  }));
  return table([[...shown], ...rows.map((row) => shown.map((name) => row[name]))], widthLimit(terminal));
}

/** `12k`. */
function tokensCell(tokens: Tokens | undefined): string {
  return tokens === undefined ? "" : shortCount(tokens.input + tokens.output);
}

type Column = (typeof HEADER)[number];

interface Layout {
  readonly shown: readonly Column[];
  /** Columns for the words; for the directory, undefined means its whole length. */
  readonly words: number;
  readonly place: number | undefined;
}

function layoutFor(
  runs: readonly RunRecord[],
  cells: { readonly statuses: readonly string[]; readonly used: readonly string[] },
  terminal: Pick<Terminal, "stdout" | "columns">,
): Layout {
  const gone = new Set<Column>(cells.used.every((cell) => cell === "") ? ["TOKENS"] : []);
  const shown = () => HEADER.filter((name) => !gone.has(name));
  if (!terminal.stdout) return { shown: shown(), words: 60, place: undefined };
  const engines = Math.max(6, ...runs.map(({ agentName }) => agentName.length));
  const statuses = Math.max(6, ...cells.statuses.map(({ length }) => length));
  const widths = { HANDLE: 8, ENGINE: engines, STATUS: statuses, ATT: 3, UPDATED: 7, TOKENS: 6, ...LEAST };
  const room = () =>
    terminal.columns - shown().reduce((sum, name) => sum + widths[name], 2 * (shown().length - 1));
  for (const name of FIRST_TO_GO) if (room() < 0) gone.add(name);
  // The remaining columns go to words and directory.
  if (gone.has("WHERE")) return { shown: shown(), words: Math.min(48, LEAST.WHAT + room()), place: 0 };
  const free = LEAST.WHAT + LEAST.WHERE + room();
  const words = Math.min(48, Math.ceil(free * 0.55));
  return { shown: shown(), words, place: free - words };
}

function painted(terminal: Terminal, line: string, status: string | undefined): string {
  if (status === undefined) return line;
  const cell = new RegExp(` ${status}(?=[ ,]|$)`);
  return line.replace(cell, ` ${paintState(terminal, status)}`);
}

/** Issues of one repository begin alike: what tells them apart is the id. */
function whatOf(record: RunRecord, columns: number): string {
  const words = titleOf(record) ?? "-";
  return words.length <= columns ? words : words.replace(/^issue:[\w.-]+#/, "…#");
}
