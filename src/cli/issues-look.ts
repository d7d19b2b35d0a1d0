/** `reprise issues list|show|sessions|status|logs|clean`: issues, and the records of batches about them. */
import type { Command } from "commander";
import { Fault } from "../core/faults.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { wrapTable } from "../lib/table.ts";
import {
  shownRecord,
  cleanBatches,
  type Issue,
  type BatchRecord,
  type IssueRecord,
  type LeftIssue,
  liveBatch,
  openSource,
  batchHistory,
  readiness,
  repositoryRoot,
  type SourceOptions,
  unknownIssue,
} from "../issues/issues.ts";
import type { Deps } from "../run/run.ts";
import { count, duration, makeCommand, once, oneOf, parse, text } from "./command.ts";
import { type Context, paint } from "./context.ts";
import type { GoOn } from "./issues-go-on.ts";
import type { LogsOptions } from "./logs.ts";
import { workingDirectory } from "./start.ts";
import { gateLines, historyTable, howLong, leaveLines } from "./issues-live.ts";
import { onlyArgument } from "./verbs.ts";

export interface SourceFlags {
  readonly cwd?: string;
  readonly source?: "beads" | "markdown" | "github";
  readonly repo?: string;
  readonly apiUrl?: string;
  readonly token?: string;
}

interface LookOptions extends SourceFlags {
  readonly all?: true;
  readonly json?: true;
}

export function addSourceOptions(command: Command): Command {
  return command
    .addOption(
      once(
        "--source <kind>",
        "beads, markdown or github (default: .beads/issues.jsonl, else issues/*.md)",
        oneOf("beads", "markdown", "github"),
      ),
    )
    .addOption(once("--repo <owner/name>", "GitHub repository (default: this clone's remote)", text))
    .addOption(once("--api-url <url>", "URL of GitHub's API", text))
    .addOption(once("--token <token>", "GitHub token (default: GITHUB_TOKEN, GH_TOKEN)", text));
}

export function sourceOptions(flags: SourceFlags): SourceOptions {
  return {
    kind: flags.source ?? (flags.repo === undefined ? null : "github"),
    repository: flags.repo ?? null,
    apiUrl: flags.apiUrl ?? null,
    token: flags.token ?? null,
  };
}

const addCwd = (command: Command): Command =>
  command.addOption(once("--cwd <dir>", "directory in the repository (default: current directory)", text));

async function open(context: Context, flags: SourceFlags): Promise<{ deps: Deps; root: string }> {
  const cwd = workingDirectory(flags.cwd ?? ".");
  const deps = await context.open({ cwd });
  return { deps, root: await repositoryRoot(deps, cwd) };
}

async function load(
  context: Context,
  deps: Deps,
  root: string,
  flags: SourceFlags,
): Promise<readonly Issue[]> {
  const source = await openSource(deps, root, sourceOptions(flags));
  const { issues, warnings } = await source.list();
  for (const warning of warnings) context.log.warn(warning);
  return issues;
}

const STATUS_PAINT = { open: "bold", in_progress: "cyan", closed: "dim", blocked: "yellow" } as const;

export async function list(args: readonly string[], context: Context): Promise<number> {
  const parser = addSourceOptions(
    addCwd(
      makeCommand({
        name: "issues list",
        summary: "List the issues of this repository: ready ones, and what each other issue waits for.",
        examples: [
          "reprise issues list",
          "reprise issues list --all --json",
          "reprise issues list --repo acme/shop",
        ],
      }),
    ),
  )
    .option("--all", "include closed issues")
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: LookOptions = parser.opts();
  const { deps, root } = await open(context, options);
  const all = await load(context, deps, root, options);
  const issues = all.filter((issue) => options.all === true || issue.status !== "closed");
  const waits = readiness(all);
  if (options.json === true) {
    const rows = issues.map(({ body: _body, ...issue }) => ({
      ...issue,
      waitsFor: waits.get(issue.id) ?? [],
    }));
    context.printJson({ ok: true, repository: root, issues: rows });
    return 0;
  }
  if (issues.length === 0) context.print("No open issues.");
  const rows = issues.map((issue) => [
    issue.id,
    issue.status,
    `P${issue.priority}`,
    harmlessLine(issue.title + waitWords(issue, waits.get(issue.id) ?? []), 200),
  ]);
  const [header = "", ...lines] = wrapTable(
    [["ISSUE", "STATUS", "PRIO", "TITLE"], ...rows],
    context.terminal.stdout ? context.terminal.columns : undefined,
  );
  if (issues.length > 0) context.print(paint(context.terminal, "dim", header));
  for (const [at, line] of lines.entries())
    context.print(paint(context.terminal, STATUS_PAINT[issues[at]?.status ?? "open"], line));
  return 0;
}

function waitWords(issue: Issue, waits: readonly string[]): string {
  if (issue.epic) return "  (epic)";
  return waits.length === 0 || issue.status === "closed" ? "" : `  (waits for ${waits.join(", ")})`;
}

export async function show(args: readonly string[], context: Context): Promise<number> {
  const parser = addSourceOptions(
    addCwd(
      makeCommand({
        name: "issues show",
        summary: "Show one issue and what batches did with it.",
        examples: ["reprise issues show a-12", "reprise issues show a-12 --json"],
      }),
    ),
  )
    .usage("[options] <issue>")
    .argument("[issue]", "id of the issue")
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: LookOptions = parser.opts();
  const id = onlyArgument(parser.args, "Which issue? `reprise issues list` shows them.");
  const { deps, root } = await open(context, options);
  const issue = (await load(context, deps, root, options)).find((one) => one.id === id);
  const told = historyOf(deps, root).filter((entry) => entry.issue === id);
  const history = await Promise.all(told.map((entry) => shownRecord(deps, entry)));
  if (issue === undefined) throw withRun(unknownIssue(id, "The source"), history);
  const { left, goOn } =
    issue.status === "in_progress"
      ? await (await goOns()).undone(deps, root, id, placeOf(root, options))
      : { left: null, goOn: null };
  if (options.json === true) {
    const why = left === null ? {} : { left };
    context.printJson({ ok: true, repository: root, issue, history, ...why, resume: goOn?.command ?? null });
    return 0;
  }
  context.print(`${issue.id}  ${harmlessLine(issue.title)}`);
  const facts = [issue.status, `P${issue.priority}`];
  if (issue.dependencies.length > 0) facts.push(`depends on ${issue.dependencies.join(", ")}`);
  if (issue.parent !== null) facts.push(`part of ${issue.parent}`);
  context.print(paint(context.terminal, "dim", facts.join(" · ")));
  context.print(`\n${harmless(issue.body.slice(0, 20_000))}`);
  if (history.length > 0) printHistory(context, history, deps.clock.now());
  printGates(context, history);
  printLeaves(context, left === null ? [] : [left], deps.clock.now());
  printGoOn(context, goOn);
  return 0;
}

/** For an issue that the source does not have: its last run still exists. */
function withRun(fault: Fault, history: readonly Past[]): Fault {
  const handle = history.find((past) => past.handle !== null)?.handle;
  if (handle === undefined || handle === null) return fault;
  const more = `Its last run was ${handle}: reprise show ${handle}`;
  return new Fault("issue_unknown", `${fault.message} ${more}`, { facts: { ...fault.facts, handle } });
}

interface Past extends IssueRecord {
  readonly issue: string;
  readonly batch: string;
}

/** Newest first. */
function historyOf(deps: Deps, root: string): readonly Past[] {
  const live = liveBatch(deps, root);
  const found: Past[] = [];
  for (const { issues, file, run_id: runId } of batchHistory(deps, root).batches()) {
    for (const [issue, record] of Object.entries(issues))
      found.push({ issue, batch: file.replace(/\.json$/, ""), ...seen(record, runId === live) });
  }
  return found;
}

/** A killed batch could not record that its issues are no longer worked on. */
function seen(record: IssueRecord, isLive: boolean): IssueRecord {
  const ended = isLive || ["completed", "failed", "interrupted", "no_change", "left"].includes(record.status);
  return ended ? record : { ...record, status: "interrupted" };
}

const STATE_PAINT = {
  running: "cyan",
  waiting: "cyan",
  checking: "cyan",
  passed: "green",
  completed: "green",
  failed: "red",
  interrupted: "yellow",
  no_change: "red",
  left: "dim",
} as const;

function printHistory(
  context: Context,
  history: readonly Past[],
  nowMs: number,
  mayGo?: readonly string[],
): void {
  const columns = context.terminal.stdout ? context.terminal.columns : undefined;
  const [header = "", ...lines] = historyTable(history, nowMs, columns, mayGo);
  context.print(paint(context.terminal, "dim", `\n${header}`));
  for (const [at, line] of lines.entries())
    context.print(paint(context.terminal, STATE_PAINT[history[at]?.status ?? "interrupted"], line));
}

/** For each issue the last gate result, if it failed. */
function printGates(context: Context, history: readonly Past[]): void {
  const newest = [...new Map(history.toReversed().map((past) => [past.issue, past])).values()];
  const failed = newest.map(({ issue, gate }) => ({
    id: issue,
    gate: gate === null || gate.passed ? null : gate.detail,
  }));
  for (const line of gateLines(failed)) context.print(line);
}

const DEFAULT_LIMIT = 50;

export async function sessions(args: readonly string[], context: Context): Promise<number> {
  const parser = addCwd(
    makeCommand({
      name: "issues sessions",
      summary: "List the conversations about issues of this repository, newest first.",
      examples: ["reprise issues sessions", "reprise issues sessions a-12 --json"],
    }),
  )
    .usage("[options] [issue]")
    .argument("[issue]", "only conversations about this issue")
    .addOption(once("--limit <n>", `maximum number (default ${DEFAULT_LIMIT})`, count(1, 100_000)))
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: LookOptions & { readonly limit?: number } = parser.opts();
  const [id] = parser.args;
  const { deps, root } = await open(context, options);
  const found: Past[] = [];
  for (const past of historyOf(deps, root)) {
    if (past.session_id === null || (id !== undefined && past.issue !== id)) continue;
    const actual = await shownRecord(deps, past);
    if (actual.session_id !== null) found.push(actual);
    if (found.length >= (options.limit ?? DEFAULT_LIMIT)) break;
  }
  if (options.json === true) context.printJson({ ok: true, repository: root, sessions: found });
  else if (found.length === 0) context.print("No agent has worked on an issue of this repository yet.");
  else printHistory(context, found, deps.clock.now(), ["AGE", "ENGINE", "STATE"]);
  return 0;
}

export async function status(args: readonly string[], context: Context): Promise<number> {
  const parser = addCwd(
    makeCommand({
      name: "issues status",
      summary: "Show the last batch of this repository: the result of each issue.",
      examples: ["reprise issues status", "reprise issues status --json"],
    }),
  ).option("--json", "print one JSON object");
  parse(parser, args);
  const options: LookOptions = parser.opts();
  const { deps, root } = await open(context, options);
  const [last] = batchHistory(deps, root).batches();
  if (last === undefined) {
    const none = { batch: null, live: false, resume: null, earlier: [], orphans: [] };
    if (options.json === true) context.printJson({ ok: true, repository: root, ...none });
    else context.print("There was no batch in this repository yet. Start one: reprise issues run");
    return 0;
  }
  const live = last.completed_at === null && liveBatch(deps, root) === last.run_id;
  const issues = await Promise.all(
    Object.entries(last.issues).map(
      async ([id, record]) => [id, await shownRecord(deps, seen(record, live))] as const,
    ),
  );
  const typist = { place: placeOf(root, options), config: deps.config };
  const { earlierJson, earlierText, standingOf } = await goOns();
  const { leaves, orphans, goOn, earlier } = live
    ? { leaves: [], orphans: [], goOn: null, earlier: [] }
    : await standingOf(deps, root, last, typist);
  if (options.json === true) {
    const left = last.leaves === undefined && leaves.length === 0 ? {} : { leaves };
    const batch = { ...last, issues: Object.fromEntries(issues), ...left };
    const lost = orphans.map(({ go_on: _none, ...one }) => one);
    const now = { resume: goOn?.command ?? null, earlier: earlier.map(earlierJson), orphans: lost };
    context.printJson({ ok: true, repository: root, batch, live, ...now });
    return 0;
  }
  context.print(`${harmlessLine(last.run_id, 40)}  ${live ? "under way" : howLong(last)}`);
  const past = issues.map(([issue, record]) => ({ issue, batch: last.run_id, ...record }));
  if (past.length > 0) printHistory(context, past, deps.clock.now());
  else if (live) context.print("No issue of it has begun yet.");
  else context.print(last.left === 0 ? "There was nothing to do." : "It began no issue.");
  printUnbegun(context, last, live);
  printGates(context, past);
  printLeaves(context, leaves, deps.clock.now());
  const isSaid = earlier.some(({ batch }) => batch.run_id === goOn?.batch.run_id);
  printGoOn(context, isSaid ? null : goOn);
  for (const one of earlier) context.print(`\n${capital(earlierText(one))}`);
  return 0;
}

const capital = (words: string) => words.slice(0, 1).toUpperCase() + words.slice(1);

/** Of a batch that has ended, its leaves say it. */
function printUnbegun(
  context: Context,
  { planned = [], issues, completed_at: ended }: BatchRecord,
  live: boolean,
) {
  const ids = planned.filter((id) => !Object.hasOwn(issues, id));
  if (ids.length === 0 || ended !== null) return;
  const isOne = ids.length === 1;
  const words = live ? `${isOne ? "has" : "have"} not begun yet` : `${isOne ? "was" : "were"} not begun`;
  const more = ids.length > MAX_UNBEGUN ? `, and ${ids.length - MAX_UNBEGUN} more` : "";
  context.print(
    `\n${plural(ids.length, "issue")} ${words}: ${harmlessLine(ids.slice(0, MAX_UNBEGUN).join(", "), 1_000)}${more}`,
  );
}

const MAX_UNBEGUN = 10;

function printLeaves(context: Context, leaves: readonly LeftIssue[], nowMs: number): void {
  const columns = context.terminal.stdout ? context.terminal.columns : undefined;
  for (const line of leaveLines(leaves, columns, nowMs)) context.print(line);
}

/** Loaded only if needed: it imports the options of another command. */
const goOns = () => import("./issues-go-on.ts");

/** The directory, if a command must name it. */
const placeOf = (root: string, { cwd }: SourceFlags) => (cwd === undefined ? null : root);

function printGoOn(context: Context, goOn: GoOn | null): void {
  if (goOn === null) return;
  context.print(`\nGo on with it: ${harmlessLine(goOn.command)}`);
  if (goOn.byHand !== "") context.print(goOn.byHand);
}

export async function logs(args: readonly string[], context: Context): Promise<number> {
  const { addLogsOptions, logText, printLogs } = await import("./logs.ts");
  const parser = addLogsOptions(
    addCwd(
      makeCommand({
        name: "issues logs",
        summary: "Print the messages and tool calls of an issue's last agent as readable text.",
        examples: ["reprise issues logs a-12 -f", "reprise issues logs a-12 --attempt 1"],
      }),
    )
      .usage("[options] <issue>")
      .argument("[issue]", "id of the issue"),
  ).option("--json", "print one JSON object with the output of an attempt as plain text");
  parse(parser, args);
  const options: LookOptions & LogsOptions = parser.opts();
  const id = onlyArgument(parser.args, "Which issue? As in: reprise issues logs a-12");
  if (options.json === true && (options.follow === true || options.raw === true))
    throw new Fault(
      "usage",
      "--json has the plain text of what was printed so far: leave --follow and --raw out.",
    );
  const { deps, root } = await open(context, options);
  const past = historyOf(deps, root).find(({ issue, handle }) => issue === id && handle !== null);
  if (past?.handle === undefined || past.handle === null)
    throw new Fault("issue_unknown", `No agent has worked on issue ${id.slice(0, 100)} of ${root} yet.`, {
      facts: { id: id.slice(0, 100), repository: root },
    });
  const { handle } = past;
  if (options.json !== true) return printLogs(context, deps, handle, options);
  const printed = await logText(context, deps, handle, options);
  context.printJson({ ok: true, repository: root, issue: id, handle, ...printed });
  return 0;
}

export async function clean(args: readonly string[], context: Context): Promise<number> {
  const parser = addSourceOptions(
    addCwd(
      makeCommand({
        name: "issues clean",
        summary: "Remove records of old batches. Keeps records that name the conversation of an open issue.",
        examples: ["reprise issues clean --dry-run", "reprise issues clean --older-than 7d"],
      }),
    ),
  )
    .addOption(once("--older-than <time>", "minimum age of a batch (default 30d)", duration))
    .option("--dry-run", "show what would be removed, without removing anything")
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: LookOptions & { readonly olderThan?: number | null; readonly dryRun?: true } = parser.opts();
  const { deps, root } = await open(context, options);
  const issues = await load(context, deps, root, options);
  const removed = cleanBatches(deps, root, {
    olderThanMs: options.olderThan ?? 30 * 24 * 3_600_000,
    closed: new Set(issues.filter((issue) => issue.status === "closed").map(({ id }) => id)),
    dryRun: options.dryRun === true,
  });
  if (options.json === true)
    context.printJson({ ok: true, repository: root, removed, dryRun: options.dryRun === true });
  else {
    for (const file of removed) context.print(file);
    const what = options.dryRun === true ? "would be removed" : "removed";
    context.log.info(`${plural(removed.length, "record")} ${what}`);
  }
  return 0;
}
