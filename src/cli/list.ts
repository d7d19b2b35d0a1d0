/** `reprise list`: all runs, newest first. On the fast path: import nothing heavy here. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { table } from "../lib/table.ts";
import type { BatchLease, Deps } from "../run/run.ts";
import { listRuns } from "../run/select.ts";
import type { RunFilter } from "../store/store.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import {
  choice,
  count,
  defineCommand,
  directory,
  flag,
  JSON_FLAG,
  type OptionsOf,
  text,
  withValue,
} from "./define.ts";
import { age, printTable, shortPath, STATUS_COLORS, STATUSES, widthLimit } from "./words.ts";

const DEFAULT_LIMIT = 50;

const OPTIONS = {
  engine: withValue("<engine>", "only runs of this engine", text, { values: "engines" }),
  status: choice("<status>", `only ${STATUSES.join(", ")}`, STATUSES),
  cwd: directory("only runs of this working directory"),
  here: flag("only runs of the current directory"),
  subject: withValue("<subject>", "only runs for this subject", text),
  name: withValue("<name>", "only runs with this name", text),
  limit: withValue("<n>", `maximum number (default ${DEFAULT_LIMIT})`, count(1, 10_000)),
  json: JSON_FLAG,
  handles: flag("print only handles, one per line"),
};
type ListOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "list",
  summary: "List runs, newest first. A run whose process died is shown as interrupted.",
  options: OPTIONS,
  examples: [
    "reprise list --here --status interrupted",
    "reprise list --engine codex --limit 200",
    "reprise list --json | jq '.runs[].handle'",
  ],
  run: async ({ options, reply }, context) => {
    const filter = filterOf(options);
    const deps = await context.open({ cwd: null });
    const runs = await listRuns(deps, filter);
    // An unreadable config may define the engine.
    if (options.engine !== undefined && runs.length === 0 && deps.config.unread === undefined) {
      // Only to report an unknown engine; otherwise loading the profiles is not worth it.
      (await import("../run/engine-setup.ts")).findEngine(deps, options.engine);
    }
    const held: Held = (await deps.batchHolds?.(runs)) ?? new Map();
    reply({ runs: runs.map((one) => withBatch(one, held)) }, () => {
      if (options.handles === true) for (const { handle } of runs) context.print(handle);
      else if (runs.length === 0) context.print(nothing(options));
      else printRuns(context, deps, { runs, held, limit: filter.limit ?? DEFAULT_LIMIT });
    });
    return 0;
  },
});

function filterOf(options: ListOptions): RunFilter {
  if (options.cwd !== undefined && options.here === true)
    throw new Fault("usage", "Give --cwd or --here, not both.");
  const { engine, status, subject, name } = options;
  const from = options.here === true ? "." : options.cwd;
  return {
    limit: options.limit ?? DEFAULT_LIMIT,
    ...(engine === undefined ? {} : { engine }),
    ...(status === undefined ? {} : { status }),
    ...(subject === undefined ? {} : { subject }),
    ...(name === undefined ? {} : { name }),
    ...(from === undefined ? {} : { cwd: realOrGiven(from) }),
  };
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
  const filtered = Object.keys(options).some((name) => !["json", "handles", "limit"].includes(name));
  return filtered
    ? "No run fits. `reprise list` without filters shows the newest runs."
    : 'No runs yet. Start one: reprise start codex "fix the flaky test" (or see `reprise demo`)';
}

/** By handle: runs that a live batch still works on. */
type Held = ReadonlyMap<string, BatchLease>;

function withBatch(record: RunRecord, held: Held): RunRecord & { readonly batch?: BatchLease } {
  const batch = held.get(record.handle);
  return batch === undefined ? record : { ...record, batch };
}

/** `completed (checking)`: the outcome of its last attempt, and the batch's present activity. */
function statusText({ handle, status }: RunRecord, held: Held | undefined): string {
  const state = held?.get(handle)?.state;
  return state === undefined || state === status ? status : `${status} (${harmlessLine(state, 20)})`;
}

function printRuns(
  context: Context,
  deps: Deps,
  { runs, held, limit }: { runs: readonly RunRecord[]; held: Held; limit: number },
): void {
  const { terminal } = context;
  const lines = runTable(runs, terminal, { nowMs: deps.clock.now(), home: deps.env["HOME"], held });
  printTable(context, lines, (line, at) => painted(terminal, line, runs[at]?.status));
  if (runs.length === limit && terminal.stdout) {
    context.print(paint(terminal, "dim", `The newest ${plural(limit, "run")}; --limit shows more.`));
  }
}

const HEADER = ["HANDLE", "ENGINE", "STATUS", "ATT", "UPDATED", "WHAT", "WHERE"] as const;
/** The order in which columns disappear on a narrow terminal. The handle stays. */
const FIRST_TO_GO = ["WHERE", "ATT", "ENGINE", "UPDATED", "WHAT", "STATUS"] as const;
/** Narrower columns are useless. */
const LEAST = { WHAT: 10, WHERE: 8 };

/** Header first. Cut to the terminal's width; a pipe gets whole paths. */
export function runTable(
  runs: readonly RunRecord[],
  terminal: Pick<Terminal, "stdout" | "columns">,
  now: { readonly nowMs: number; readonly home: string | undefined; readonly held?: Held },
): string[] {
  const statuses = runs.map((record) => statusText(record, now.held));
  const { shown, words, place } = layoutFor(runs, statuses, terminal);
  const rows = runs.map((record, at) => ({
    HANDLE: record.handle,
    ENGINE: harmlessLine(record.agentName),
    STATUS: statuses[at] ?? record.status,
    ATT: String(record.attempts),
    UPDATED: age(record.updatedAt, now.nowMs),
    WHAT: harmlessLine(whatOf(record, words), words),
    WHERE: shortPath(record.cwd, now.home, place),
  }));
  return table([[...shown], ...rows.map((row) => shown.map((name) => row[name]))], widthLimit(terminal));
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
  statusTexts: readonly string[],
  terminal: Pick<Terminal, "stdout" | "columns">,
): Layout {
  if (!terminal.stdout) return { shown: HEADER, words: 60, place: undefined };
  const engines = Math.max(6, ...runs.map(({ agentName }) => agentName.length));
  const statuses = Math.max(6, ...statusTexts.map(({ length }) => length));
  const widths = { HANDLE: 8, ENGINE: engines, STATUS: statuses, ATT: 3, UPDATED: 7, ...LEAST };
  const gone = new Set<Column>();
  const shown = () => HEADER.filter((name) => !gone.has(name));
  const room = () =>
    terminal.columns - shown().reduce((sum, name) => sum + widths[name], 2 * (shown().length - 1));
  for (const name of FIRST_TO_GO) if (room() < 0) gone.add(name);
  // The remaining columns go to words and directory.
  if (gone.has("WHERE")) return { shown: shown(), words: Math.min(48, LEAST.WHAT + room()), place: 0 };
  const free = LEAST.WHAT + LEAST.WHERE + room();
  const words = Math.min(48, Math.ceil(free * 0.55));
  return { shown: shown(), words, place: free - words };
}

function painted(terminal: Terminal, line: string, status: RunStatus | undefined): string {
  if (status === undefined) return line;
  const cell = new RegExp(` ${status}(?= |$)`);
  return line.replace(cell, ` ${paint(terminal, STATUS_COLORS[status], status)}`);
}

/** Its name; else what it is for and what was asked, as runs for the same thing often begin alike. */
function whatOf({ name, subject, launch }: RunRecord, columns: number): string {
  const asked = [subject, launch.message].filter((part) => part !== null);
  const words = name ?? (asked.length === 0 ? "-" : asked.join(": "));
  // Issues of one repository begin alike: what tells them apart is the id.
  return words.length <= columns ? words : words.replace(/^issue:[\w.-]+#/, "…#");
}
