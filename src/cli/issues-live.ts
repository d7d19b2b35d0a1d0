/** The display of a batch: one live line per issue on a terminal, otherwise one line per change; a table at the end. */
import type { Log } from "../core/deps.ts";
import type { Tokens } from "../core/events.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { wrapTable } from "../lib/table.ts";
import { untilText } from "../lib/until.ts";
import { widthOf } from "../lib/width.ts";
import {
  type BatchEnd,
  type BatchRecord,
  type BatchView,
  type Issue,
  type IssueEnd,
  type IssueRecord,
  type LeftIssue,
  type ProgressReport,
  RESET,
} from "../issues/issues.ts";
import { continuesRun, type PlannedBatch } from "../issues/batch-plan.ts";
import { IN_PROGRESS } from "../issues/plan.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { progressText, sumOf } from "./issues-totals.ts";
import { age } from "./words.ts";

type Prices = Parameters<typeof sumOf>[1];

interface Line {
  readonly title: string;
  readonly sinceMs: number;
  progress: ProgressReport | null;
}

const REDRAW_MS = 500;
const END_PAINT = {
  completed: "green",
  failed: "red",
  interrupted: "yellow",
  no_change: "red",
  left: "dim",
} as const;
const DECISION_WORDS = {
  resume: "resume",
  fresh: "fresh",
  gate: "check",
  close: "close",
  fail: "fail",
  leave: "leave",
} as const;

export class BatchScreen implements BatchView, Disposable {
  readonly #context: Context;
  readonly #quiet: boolean;
  readonly #verbose: boolean;
  readonly #live: boolean;
  readonly #lines = new Map<string, Line>();
  readonly #timer: NodeJS.Timeout | null;
  readonly #warned = new Set<string>();
  #drawn = 0;
  #planned = 0;
  #done = 0;
  #startedMs: number | null = null;
  /** What ended issues used. */
  readonly #spent: (Tokens | null)[] = [];
  readonly #prices: Prices;
  /** Never interrupts the live lines. */
  readonly log: Log;

  constructor(
    context: Context,
    options: { readonly quiet: boolean; readonly verbose: boolean; readonly prices: Prices },
  ) {
    this.#context = context;
    this.#prices = options.prices;
    this.#quiet = options.quiet;
    this.#verbose = options.verbose;
    this.#live = context.terminal.stderr && !options.quiet;
    this.#timer = this.#live ? setInterval(() => this.#draw(), REDRAW_MS) : null;
    this.log = {
      // A warning about every agent appears once.
      warn: (message) => {
        if (this.#warned.has(message)) return;
        this.#warned.add(message);
        this.#between(() => context.log.warn(message));
      },
      info: (message) => this.#between(() => context.log.info(message)),
    };
  }

  planned(planned: PlannedBatch): void {
    this.#planned = planned.take.length;
    if (this.#quiet) return;
    const { take, skip } = planned;
    const begun = skip.filter(({ why }) => why === IN_PROGRESS).map(({ id }) => id);
    const more = begun.length > MAX_LEAVES ? ", …" : "";
    const named = harmlessLine(begun.slice(0, MAX_LEAVES).join(", "), 500);
    const which = begun.length === 0 ? "" : ` (in progress: ${named}${more})`;
    const left = skip.length === 0 ? "" : `, ${skip.length} left out${which}`;
    this.log.info([`${plural(take.length, "issue")}${left}`, ...mayWords(planned)].join(" · "));
    if (this.#verbose) for (const { id, why } of skip) this.log.info(`skipped ${id}: ${why}`);
  }

  verbose(text: string): void {
    if (this.#verbose) this.log.info(text);
  }

  say(text: string): void {
    this.log.info(text);
  }

  started(issue: Issue): void {
    this.#startedMs ??= performance.now();
    this.#lines.set(issue.id, { title: issue.title, sinceMs: performance.now(), progress: null });
    this.#draw();
  }

  progress(id: string, progress: ProgressReport): void {
    const line = this.#lines.get(id);
    if (line === undefined) return;
    const before = line.progress?.state;
    line.progress = progress;
    const news = before !== progress.state && ["running", "checking", "waiting"].includes(progress.state);
    const until = progress.state === "waiting" ? ` ${progress.detail}` : "";
    if (!this.#live && !this.#quiet && news) this.log.info(`${id}: ${progress.state}${until}`);
  }

  ended(end: IssueEnd): void {
    if (this.#lines.delete(end.id)) this.#done += 1;
    this.#spent.push(end.tokens);
    if (this.#quiet) return;
    const branch = end.state === "completed" && end.branch !== null ? [`branch ${end.branch}`] : [];
    const where = [...branch, reasonText(end.why, Date.now())].filter((part) => part !== "").join(" · ");
    const words = `${end.id}: ${end.state}${where === "" ? "" : ` · ${harmlessLine(where)}`}`;
    this.#between(() =>
      process.stderr.write(`${paint(this.#context.terminal, END_PAINT[end.state], harmless(words))}\n`),
    );
  }

  [Symbol.dispose](): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#erase();
    this.#lines.clear();
  }

  #between(write: () => void): void {
    this.#erase();
    write();
    this.#draw();
  }

  #erase(): void {
    if (this.#drawn > 0) process.stderr.write(`\x1b[${this.#drawn}A\r\x1b[J`);
    this.#drawn = 0;
  }

  #totals(elapsedMs: number): readonly string[] {
    const live = [...this.#lines.values()].map(({ progress }) => progress?.spent ?? null);
    const used = sumOf([...this.#spent, ...live], this.#prices);
    const text = progressText({ done: this.#done, planned: this.#planned, elapsedMs }, used);
    return text === "" ? [] : [text];
  }

  #draw(): void {
    if (!this.#live) return;
    this.#erase();
    const { terminal } = this.#context;
    const width = Math.max(20, terminal.columns - 1);
    const room = Math.max(1, terminal.rows - 3);
    const elapsedMs = performance.now() - (this.#startedMs ?? performance.now());
    const shown = [
      ...[...this.#lines].slice(0, room).map(([id, line]) => lineOf(id, line, width)),
      ...this.#totals(elapsedMs),
    ];
    for (const text of shown) process.stderr.write(`${paint(terminal, "dim", text)}\n`);
    this.#drawn = shown.length;
  }
}

function lineOf(id: string, { title, sinceMs, progress }: Line, width: number): string {
  const tokens = progress?.tokens ?? null;
  const parts = [
    id,
    progress?.state ?? "starting",
    formatDuration(performance.now() - sinceMs),
    `attempt ${progress?.attempt ?? 0}`,
    ...(tokens === null ? [] : [`${tokens.input + tokens.output} tokens`]),
    progress !== null && progress.detail !== "" ? progress.detail : title,
  ];
  return harmlessLine(parts.join(" · "), width);
}

/** For each issue: how it begins, from which session, and why. */
export function planLines(
  { take, skip, access, anyChange }: PlannedBatch,
  columns: number | undefined,
): readonly string[] {
  if (take.length === 0 && skip.length === 0) return ["There is nothing to do."];
  const rows = take.map(({ issue, decision }) => [
    issue.id,
    DECISION_WORDS[decision.do],
    harmlessLine("session" in decision ? (decision.session ?? "-") : "-", 200),
    harmlessLine(`${decision.why}: ${issue.title}`, MAX_REASON),
  ]);
  const left = skip.map(({ id, why }) => [id, "-", "-", why]);
  const lines = wrapTable([["ISSUE", "PLAN", "SESSION", "WHY"], ...rows, ...left], columns);
  const on = take.filter(continuesRun);
  const given = on.find(({ options }) => options.length > 0);
  const begins = take.find((one) => one.decision.do === "fresh" && !continuesRun(one))?.options ?? [];
  const more =
    begins.length > access.options.length ? ` Their options: ${harmlessLine(begins.join(" "), 300)}.` : "";
  return [
    ...lines,
    ...(take.length === 0 ? [] : ["", `New runs: ${accessWords(access)}.${more}`]),
    ...(on.length === 0
      ? []
      : [
          `Runs that go on keep the options that they began with${
            given === undefined ? "" : `, and get for now: ${harmlessLine(given.options.join(" "), 300)}`
          }. Their access: ${heldWords(on, true).join("; ")}.`,
        ]),
    ...(anyChange && take.length > 0
      ? ["Without a gate, a change by any program in this folder counts as work on the issue."]
      : []),
  ];
}

/** The agents' rights, for the first line of a batch: of new runs, and of continued runs if they differ. */
function mayWords({ take, access }: PlannedBatch): readonly string[] {
  const on = take.filter(continuesRun);
  const isNew = take.some((one) => one.decision.do === "fresh" && !continuesRun(one));
  const ours = access.by ?? (access.options.length === 0 ? null : access.options.join(" "));
  if (on.every(({ held }) => held === ours)) return isNew || on.length > 0 ? [accessWords(access)] : [];
  const held = `what goes on keeps ${heldWords(on, false).join(", ")}`;
  return isNew ? [`new runs: ${accessWords(access)}`, held] : [held];
}

/** `--access all (a, b)`, each once; a single level without its issues, unless `named`. */
function heldWords(take: readonly Planned[], named: boolean): readonly string[] {
  const issues = new Map<string, string[]>();
  for (const { held, issue } of take) {
    const words = held === null ? "the engine's own default" : harmlessLine(held, 100);
    issues.set(words, [...(issues.get(words) ?? []), issue.id]);
  }
  return [...issues].map(([words, ids]) =>
    named || issues.size > 1
      ? `${words} (${ids.slice(0, MAX_NAMED).join(", ")}${ids.length > MAX_NAMED ? ", …" : ""})`
      : words,
  );
}

type Planned = PlannedBatch["take"][number];
const MAX_NAMED = 5;

function accessWords({ level, options, by }: PlannedBatch["access"]): string {
  if (by !== null) return `access as given: ${harmlessLine(by, 100)}`;
  return `access ${level}${options.length === 0 ? ", which is the engine's own default" : ` (${options.join(" ")})`}`;
}

/** A reason may contain several commands with paths. */
const MAX_REASON = 1_200;

/** A reason with the end of its limit in words. Stored it is a time, shown it is a wait, and never cut off. */
export function reasonText(why: string, nowMs: number): string {
  const found = RESET.exec(why);
  if (found === null) return harmlessLine(why, MAX_REASON);
  const [all, at = ""] = found;
  const before = harmlessLine(why.slice(0, found.index), MAX_REASON).replace(/\.$/, "");
  const after = harmlessLine(why.slice(found.index + all.length), MAX_REASON);
  return `${before}, ${untilText(Date.parse(at), nowMs)}${after}`;
}

const MAX_LEAVES = 10;

/** Below a table: issues that a batch left alone, grouped by reason. */
export function leaveLines(
  leaves: readonly LeftIssue[],
  columns: number | undefined,
  nowMs: number,
): readonly string[] {
  const ids = new Map<string, string[]>();
  for (const { id, why } of leaves) ids.set(why, [...(ids.get(why) ?? []), harmlessLine(id, 40)]);
  const rows = [...ids].map(([why, all]) => {
    const more = all.length > MAX_LEAVES ? ` and ${all.length - MAX_LEAVES} more` : "";
    return [String(all.length), `${all.slice(0, MAX_LEAVES).join(", ")}${more}: ${reasonText(why, nowMs)}`];
  });
  return rows.length === 0 ? [] : ["", ...wrapTable([["LEFT", "ISSUES AND REASON"], ...rows], columns)];
}

/** Of a batch that is over. */
export function howLong({ completed_at: completed, started_at: started }: BatchRecord): string {
  if (completed === null) return "did not end: it was killed";
  const took = Date.parse(completed) - Date.parse(started);
  return took >= 0 ? formatDuration(took) : "ended";
}

/** What became of issues, header first. `mayGo`: columns that a narrow terminal does without, the first one first. */
export function historyTable(
  history: readonly (IssueRecord & { readonly issue: string })[],
  nowMs: number,
  columns: number | undefined,
  mayGo: readonly string[] = ["AGE", "ENGINE", "SESSION"],
): readonly string[] {
  const rows = history.map((past) => [
    harmlessLine(past.issue, 40),
    past.status,
    harmlessLine(past.engine, 20),
    past.handle ?? "-",
    harmlessLine(past.session_id ?? "-", 200),
    age(past.started_at, nowMs),
    reasonText(past.error ?? past.branch ?? "", nowMs),
  ]);
  const header = ["ISSUE", "STATE", "ENGINE", "HANDLE", "SESSION", "AGE", "BRANCH OR REASON"];
  return wrapTable(fitting([header, ...rows], mayGo, columns), columns);
}

/** The rows, header first, without columns of `mayGo`, as far as all but the last one are wider than the terminal. */
function fitting(
  rows: readonly (readonly string[])[],
  mayGo: readonly string[],
  columns: number | undefined,
): readonly (readonly string[])[] {
  const [header = []] = rows;
  const widths = header.slice(0, -1).map((_, at) => Math.max(...rows.map((row) => widthOf(row[at] ?? ""))));
  const [next, ...rest] = mayGo;
  const isWide = widths.reduce((sum, width) => sum + width + 2, -2) > (columns ?? Number.POSITIVE_INFINITY);
  if (!isWide || next === undefined) return rows;
  const gone = header.indexOf(next);
  return fitting(
    rows.map((row) => row.filter((_, at) => at !== gone)),
    rest,
    columns,
  );
}

const GATE_LINES = 20;

/** Below a table: why each failed gate failed, and the end of its output. */
export function gateLines(
  failed: readonly { readonly id: string; readonly gate: string | null }[],
): readonly string[] {
  return failed.flatMap(({ id, gate }) => {
    if (gate === null || gate === "") return [];
    const [why = "", ...output] = gate.split("\n");
    const shown = output.slice(-GATE_LINES);
    const left = output.length - shown.length;
    const cut = left > 0 ? [`  … ${plural(left, "line")} before`] : [];
    return [
      "",
      harmlessLine(`${id}: ${why}`, 300),
      ...cut,
      ...shown.map((line) => `  ${harmlessLine(line, 300)}`),
    ];
  });
}

export function summaryLines(terminal: Terminal, { issues }: BatchEnd): readonly string[] {
  if (issues.length === 0) return ["There was nothing to do."];
  const rows = issues.map(({ id, state, handle, branch, why }) => [
    id,
    state,
    handle ?? "-",
    branch ?? "-",
    reasonText(why, Date.now()),
  ]);
  const [header = "", ...lines] = wrapTable(
    [["ISSUE", "STATE", "HANDLE", "BRANCH", "WHY"], ...rows],
    terminal.stdout ? terminal.columns : undefined,
  );
  const painted = lines.map((line, at) => paint(terminal, END_PAINT[issues[at]?.state ?? "left"], line));
  return ["", paint(terminal, "dim", header), ...painted, ...gateLines(issues)];
}
