/** `reprise issues list|show|sessions`: issues, and the conversations about them. */
import { Fault } from "../core/faults.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { wrapTable } from "../lib/table.ts";
import { shownRecord, type Issue, unknownIssue } from "../issues/issues.ts";
import { readiness } from "../issues/plan.ts";
import { type Context, paint } from "./context.ts";
import { count, defineCommand, flag, JSON_FLAG, withValue } from "./define.ts";
import {
  CWD,
  goOns,
  historyOf,
  issueArgument,
  load,
  open,
  type PastBatch,
  placeOf,
  printGates,
  printGoOn,
  printHistory,
  printLeaves,
  SOURCE_OPTIONS,
} from "./issues-source.ts";
import { printTable, widthLimit } from "./words.ts";

const STATUS_PAINT = { open: "bold", in_progress: "cyan", closed: "dim", blocked: "yellow" } as const;

export const list = defineCommand({
  name: "issues list",
  summary: "List the issues of this repository: which are ready, and what blocks the others.",
  options: { cwd: CWD, ...SOURCE_OPTIONS, all: flag("include closed issues"), json: JSON_FLAG },
  examples: [
    "reprise issues list",
    "reprise issues list --all --json",
    "reprise issues list --repo acme/shop",
  ],
  run: async ({ options, reply }, context) => {
    const { deps, root } = await open(context, options);
    const all = await load(context, deps, root, options);
    const issues = all.filter((issue) => options.all === true || issue.status !== "closed");
    const waits = readiness(all);
    const rows = issues.map(({ body: _body, ...issue }) => ({
      ...issue,
      waitsFor: waits.get(issue.id) ?? [],
    }));
    reply({ repository: root, issues: rows }, () => {
      if (rows.length === 0) return context.print("No open issues.");
      const cells = rows.map((issue) => [
        issue.id,
        issue.status,
        `P${issue.priority}`,
        harmlessLine(issue.title + waitWords(issue, issue.waitsFor), 200),
      ]);
      const lines = wrapTable([["ISSUE", "STATUS", "PRIO", "TITLE"], ...cells], widthLimit(context.terminal));
      return printTable(context, lines, (line, at) =>
        paint(context.terminal, STATUS_PAINT[rows[at]?.status ?? "open"], line),
      );
    });
    return 0;
  },
});

function waitWords(issue: Pick<Issue, "epic" | "status">, waits: readonly string[]): string {
  if (issue.epic) return "  (epic)";
  return waits.length === 0 || issue.status === "closed" ? "" : `  (waits for ${waits.join(", ")})`;
}

export const show = defineCommand({
  name: "issues show",
  summary: "Show one issue and its history in batches.",
  args: { issue: issueArgument("Which issue? `reprise issues list` shows them.") },
  options: { cwd: CWD, ...SOURCE_OPTIONS, json: JSON_FLAG },
  examples: ["reprise issues show a-12", "reprise issues show a-12 --json"],
  run: async ({ args: { issue: id }, options, reply }, context) => {
    const { deps, root } = await open(context, options);
    const issue = (await load(context, deps, root, options)).find((one) => one.id === id);
    const told = historyOf(deps, root).filter((entry) => entry.issue === id);
    const history = await Promise.all(told.map((entry) => shownRecord(deps, entry)));
    if (issue === undefined) throw withRun(unknownIssue(id, "The source"), history);
    const { left, goOn } =
      issue.status === "in_progress"
        ? await (await goOns()).undone(deps, root, id, placeOf(root, options))
        : { left: null, goOn: null };
    const why = left === null ? {} : { left };
    reply({ repository: root, issue, history, ...why, resume: goOn?.command ?? null }, () => {
      printIssue(context, issue);
      const now = deps.clock.now();
      if (history.length > 0) printHistory(context, history, now);
      printGates(context, history);
      printLeaves(context, left === null ? [] : [left], now);
      printGoOn(context, goOn);
    });
    return 0;
  },
});

function printIssue(context: Context, issue: Issue): void {
  context.print(`${issue.id}  ${harmlessLine(issue.title)}`);
  const facts = [issue.status, `P${issue.priority}`];
  if (issue.dependencies.length > 0) facts.push(`depends on ${issue.dependencies.join(", ")}`);
  if (issue.parent !== null) facts.push(`part of ${issue.parent}`);
  context.print(paint(context.terminal, "dim", facts.join(" · ")));
  context.print(`\n${harmless(issue.body.slice(0, 20_000))}`);
}

/** For an issue that the source does not have: its last run still exists. */
function withRun(fault: Fault, history: readonly PastBatch[]): Fault {
  const handle = history.find((past) => past.handle !== null)?.handle;
  if (handle === undefined || handle === null) return fault;
  const more = `Its last run was ${handle}: reprise show ${handle}`;
  return new Fault("issue_unknown", `${fault.message} ${more}`, { facts: { ...fault.facts, handle } });
}

const DEFAULT_LIMIT = 50;

export const sessions = defineCommand({
  name: "issues sessions",
  summary: "List the conversations about issues of this repository, newest first.",
  args: { issue: { help: "only conversations about this issue" } },
  options: {
    cwd: CWD,
    limit: withValue("<n>", `maximum number (default ${DEFAULT_LIMIT})`, count(1, 100_000)),
    json: JSON_FLAG,
  },
  examples: ["reprise issues sessions", "reprise issues sessions a-12 --json"],
  run: async ({ args: { issue: id }, options, reply }, context) => {
    const { deps, root } = await open(context, options);
    const found: PastBatch[] = [];
    for (const past of historyOf(deps, root)) {
      if (past.session_id === null || (id !== undefined && past.issue !== id)) continue;
      const actual = await shownRecord(deps, past);
      if (actual.session_id !== null) found.push(actual);
      if (found.length >= (options.limit ?? DEFAULT_LIMIT)) break;
    }
    reply({ repository: root, sessions: found }, () => {
      if (found.length > 0) printHistory(context, found, deps.clock.now(), ["AGE", "ENGINE", "STATE"]);
      else context.print("No agent has worked on an issue of this repository yet.");
    });
    return 0;
  },
});
