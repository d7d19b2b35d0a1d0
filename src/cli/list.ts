/** `reprise list`: the runs there are, newest first. On the fast path: nothing heavy may be imported here. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { table } from "../lib/table.ts";
import { type Deps, findEngine, listRuns } from "../run/run.ts";
import type { RunFilter } from "../store/store.ts";
import { count, makeCommand, once, oneOf, parse, text } from "./command.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { age, plural, shortPath, STATUS_COLORS, STATUSES } from "./words.ts";

interface ListOptions {
  readonly engine?: string;
  readonly status?: RunStatus;
  readonly cwd?: string;
  readonly here?: true;
  readonly subject?: string;
  readonly name?: string;
  readonly limit?: number;
  readonly json?: true;
  readonly handles?: true;
}

const DEFAULT_LIMIT = 50;

const command = () =>
  makeCommand({
    name: "list",
    summary: "List runs, newest first. A run whose process died is shown as interrupted.",
    examples: [
      "reprise list --here --status interrupted",
      "reprise list --engine codex --limit 200",
      "reprise list --json | jq '.runs[].handle'",
    ],
  })
    .addOption(once("--engine <engine>", "only runs of this engine", text))
    .addOption(once("--status <status>", `only ${STATUSES.join(", ")}`, oneOf(...STATUSES)))
    .addOption(once("--cwd <dir>", "only runs of this working directory", text))
    .option("--here", "only runs of the current directory")
    .addOption(once("--subject <subject>", "only runs for this subject", text))
    .addOption(once("--name <name>", "only runs with this name", text))
    .addOption(once("--limit <n>", `at most so many (default ${DEFAULT_LIMIT})`, count(1, 10_000)))
    .option("--json", "print one JSON object")
    .option("--handles", "print bare handles, one a line");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: ListOptions = parser.opts();
  const filter = filterOf(options);
  const deps = await context.open({ cwd: null });
  const runs = await listRuns(deps, filter);
  if (options.engine !== undefined && runs.length === 0) findEngine(deps, options.engine);
  if (options.json === true) context.printJson({ ok: true, runs });
  else if (options.handles === true) for (const { handle } of runs) context.print(handle);
  else if (runs.length === 0) context.print(nothing(options));
  else printTable(context, deps, runs, filter.limit ?? DEFAULT_LIMIT);
  return 0;
}

function filterOf(options: ListOptions): RunFilter {
  if (options.cwd !== undefined && options.here === true)
    throw new Fault("usage", "Give --cwd or --here, not both.");
  const { engine, status, subject, name } = options;
  const directory = options.here === true ? "." : options.cwd;
  return {
    limit: options.limit ?? DEFAULT_LIMIT,
    ...(engine === undefined ? {} : { engine }),
    ...(status === undefined ? {} : { status }),
    ...(subject === undefined ? {} : { subject }),
    ...(name === undefined ? {} : { name }),
    ...(directory === undefined ? {} : { cwd: realOrGiven(directory) }),
  };
}

/** A directory that is gone may still have runs. */
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

function printTable(context: Context, deps: Deps, runs: readonly RunRecord[], limit: number): void {
  const { terminal } = context;
  const [header = "", ...lines] = runTable(runs, terminal, {
    nowMs: deps.clock.now(),
    home: deps.env["HOME"],
  });
  context.print(paint(terminal, "dim", header));
  for (const [at, line] of lines.entries()) context.print(painted(terminal, line, runs[at]?.status));
  if (runs.length === limit && terminal.stdout) {
    context.print(paint(terminal, "dim", `The newest ${plural(limit, "run")}; --limit shows more.`));
  }
}

/** Header first. Cut to the columns of a terminal; a pipe gets whole paths. */
export function runTable(
  runs: readonly RunRecord[],
  terminal: Pick<Terminal, "stdout" | "columns">,
  now: { readonly nowMs: number; readonly home: string | undefined },
): string[] {
  const engines = Math.max(6, ...runs.map(({ agentName }) => agentName.length));
  // Handle, engine, status, attempts, age and the gaps between them; what is left is for words and directory.
  const room = Math.max(16, terminal.columns - (8 + 2 + engines + 2 + 11 + 2 + 3 + 2 + 7 + 2) - 2);
  const words = terminal.stdout ? Math.min(48, Math.ceil(room * 0.55)) : 60;
  const place = terminal.stdout ? room - words : undefined;
  const rows = runs.map((record) => [
    record.handle,
    harmlessLine(record.agentName),
    record.status,
    String(record.attempts),
    age(record.updatedAt, now.nowMs),
    harmlessLine(record.name ?? record.launch.message ?? "-", words),
    shortPath(record.cwd, now.home, place),
  ]);
  return table(
    [["HANDLE", "ENGINE", "STATUS", "ATT", "UPDATED", "WHAT", "WHERE"], ...rows],
    terminal.stdout ? terminal.columns : undefined,
  );
}

function painted(terminal: Terminal, line: string, status: RunStatus | undefined): string {
  if (status === undefined) return line;
  return line.replace(` ${status} `, ` ${paint(terminal, STATUS_COLORS[status], status)} `);
}
