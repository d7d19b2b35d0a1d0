/** `reprise pipeline run|list|show|resume|cancel`: ordered steps that the daemon drives. */
import type { DecisionRecord, PipelineRecord, StepRecord } from "../core/supervision.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine, wholeSentences } from "../lib/harmless.ts";
import { type Column, fitTable } from "../lib/table.ts";
import type { Deps } from "../run/run.ts";
import { allEngines } from "../run/engine-setup.ts";
import { findPipeline } from "../runbooks/runbooks.ts";
import {
  cancelPipeline,
  ensureDaemon,
  findDaemon,
  listDecisions,
  listPipelines,
  forecastPipelineResume,
  type ResumedAgent,
  resumePipeline,
  selectPipeline,
  startPipeline,
  stopAgent,
  type ResumeForecast,
} from "../supervisor/supervisor.ts";
import { asksWords, isSupervised, UNSUPERVISED, wayWords, withQuestions } from "./agent-look.ts";
import { readVars } from "./agent-run.ts";
import { list as repeatable, makeCommand, parse } from "./command.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { engineTraits } from "./runbook.ts";
import { workingDirectory } from "./start.ts";
import { type VerbGroup, onlyArgument, runVerb } from "./verbs.ts";
import { age, labelled, shortPath } from "./words.ts";

const GROUP: VerbGroup = {
  name: "pipeline",
  about: "Commands and agents that run in order, defined by a runbook (docs/runbooks.md).",
  verbs: {
    run: { summary: "start a pipeline of a runbook", run: start },
    list: { summary: "list pipelines: current step, since when", run: list },
    show: { summary: "show one pipeline and the result of each step", run: show },
    resume: { summary: "continue at the step that failed or was cancelled", run: resume },
    cancel: { summary: "cancel a pipeline; completed steps stay", run: cancel },
  },
  examples: [
    "reprise pipeline run ci --var branch=main",
    "reprise pipeline list",
    "reprise pipeline resume 1a2b3c4d",
  ],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(GROUP, args, context);
}

interface StartOptions {
  readonly var?: readonly string[];
  readonly trustCwd?: true;
  readonly json?: true;
}

async function start(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "pipeline run",
    summary: "Start a pipeline of a runbook. The daemon runs its steps in order.",
    examples: ["reprise pipeline run ci", "reprise pipeline run ci --var branch=main --json"],
  })
    .usage("[options] <name>")
    .argument("[name]", "pipeline.NAME in a runbook of this project or in your own runbooks")
    .addOption(repeatable("--var <name=value>", "runbook variable (repeatable)"))
    .option(
      "--trust-cwd",
      "trust this directory, its workspace and the project's runbooks in their present form",
    )
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: StartOptions = parser.opts();
  const name = onlyArgument(
    parser.args,
    "Which pipeline? `reprise runbook list` shows those of the runbooks here.",
  );
  const vars = readVars(options.var ?? []);
  const cwd = workingDirectory(".");
  const trust = { runsAgents: true, trustCwd: options.trustCwd === true };
  const deps = await context.open({ cwd, ...trust });
  const engines = engineTraits(allEngines(deps));
  const found = await findPipeline(name, { cwd, env: deps.env, engines, vars });
  if (found.trust !== null) await context.trust(deps, found.trust, trust);
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const { definition, source } = found;
  const record = await startPipeline(deps, definition, source, {
    vars: found.vars,
    trustCwd: options.trustCwd === true,
  });
  await daemon.poke(null);
  const { id, workspace } = record;
  if (options.json === true) context.printJson({ ok: true, id, name, workspace, runbook: source.path });
  else {
    context.print(id);
    context.log.info(`${name} has begun in ${workspace}. Look at it: reprise pipeline show ${id}`);
  }
  return 0;
}

async function list(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "pipeline list",
    summary: "List pipelines: current step, since when.",
    examples: ["reprise pipeline list", "reprise pipeline list --all --json"],
  })
    .option("--all", "include those that have ended")
    .option("--json", "print one JSON object")
    .option("--ids", "print only ids, one per line");
  parse(parser, args);
  const options: { all?: true; json?: true; ids?: true } = parser.opts();
  const deps = await context.open({ cwd: null });
  const pipelines = await listPipelines(deps, options.all === true ? {} : { open: true });
  const isActive = pipelines.some(({ phase }) => phase === "active");
  const isHalted = isActive && !(await isSupervised(deps));
  const views = (await viewsOf(deps, pipelines)).map((view) => (isHalted ? halted(view) : view));
  if (options.json === true) context.printJson({ ok: true, pipelines: views });
  else if (options.ids === true) for (const { id } of pipelines) context.print(id);
  else if (pipelines.length === 0)
    context.print(
      options.all === true
        ? "No pipelines yet. Start one: reprise pipeline run NAME"
        : "No pipeline is active. `reprise pipeline list --all` shows those that have ended.",
    );
  else {
    const [header = "", ...lines] = pipelineTable(views, deps.clock.now(), context.terminal);
    context.print(paint(context.terminal, "dim", header));
    for (const line of lines) context.print(line);
  }
  if (isHalted) context.log.warn(UNSUPERVISED);
  return 0;
}

const HALTED = "stands still: the supervisor is not running";

function halted(view: PipelineView): PipelineView {
  return view.phase === "active" ? { ...view, reason: HALTED } : view;
}

/** A pipeline at a glance, as lists print it. Texts are untrusted. */
export interface PipelineView extends Pick<
  PipelineRecord,
  "id" | "phase" | "step" | "reason" | "workspace" | "createdAt" | "endedAt"
> {
  readonly name: string;
  /** Its agent's open question to a person. */
  readonly decision: string | null;
}

export async function viewsOf(
  deps: Deps,
  records: readonly PipelineRecord[],
): Promise<readonly PipelineView[]> {
  const isActive = records.some(({ phase }) => phase === "active");
  const open = isActive ? await listDecisions(deps, { open: true }) : [];
  return records.map((record) => {
    const { id, definition, phase, step, reason, workspace, createdAt, endedAt } = record;
    const decision = questionOf(record, open);
    return { id, name: definition.name, phase, step, reason, decision, workspace, createdAt, endedAt };
  });
}

/** Its agent waits for a person, and so does the pipeline. */
function questionOf({ phase, step, steps }: PipelineRecord, open: readonly DecisionRecord[]): string | null {
  const agent = phase === "active" ? steps.find(({ name }) => name === step)?.agent : null;
  return open.find(({ agentId }) => agentId === agent)?.id ?? null;
}

export function pipelineWords({ decision, reason }: Pick<PipelineView, "decision" | "reason">): string {
  return decision === null ? (reason ?? "") : asksWords(decision);
}

const COLUMNS: readonly Column[] = [
  { head: "PIPELINE", as: "whole" },
  { head: "NAME", least: 12 },
  { head: "STATE", as: "whole" },
  { head: "STEP", least: 12 },
  { head: "FOR", as: "whole" },
  { head: "WHY", as: "wrap" },
];

/** The header, then one text per pipeline, possibly in several lines. */
export function pipelineTable(
  pipelines: readonly PipelineView[],
  nowMs: number,
  terminal: Pick<Terminal, "stdout" | "columns">,
): string[] {
  const made = (why: (view: PipelineView) => string) => {
    const rows = pipelines.map((view) => [
      harmlessLine(view.id, 8),
      harmlessLine(view.name, 64),
      view.phase,
      harmlessLine(view.step ?? "-", 64),
      age(view.endedAt ?? view.createdAt, nowMs),
      wholeSentences(why(view), 400),
    ]);
    return fitTable(COLUMNS, rows, terminal.stdout ? terminal.columns : undefined);
  };
  return withQuestions(pipelines, made, pipelineWords);
}

async function show(args: readonly string[], context: Context): Promise<number> {
  const { json, given } = oneId("show", "Show one pipeline and the result of each step.", args);
  const deps = await context.open({ cwd: null });
  const { record } = await selectPipeline(deps, given);
  const decision = questionOf(record, await listDecisions(deps, { open: true }));
  const isHalted = record.phase === "active" && !(await isSupervised(deps));
  const isOver = record.phase === "failed" || record.phase === "cancelled";
  const on = isOver ? await forecastPipelineResume(deps, record) : null;
  const command = `reprise pipeline resume ${record.id}`;
  const works = on !== null && on.way !== "none";
  if (json) context.printJson({ ok: true, pipeline: record, decision, resume: works ? command : null });
  else {
    const facts = { decision, isHalted, nowMs: deps.clock.now(), home: deps.env["HOME"] };
    for (const line of describe(record, facts, context.terminal)) context.print(line);
    if (on !== null) context.print(`\n${onWords(command, on)}`);
  }
  if (isHalted) context.log.warn(UNSUPERVISED);
  return 0;
}

/** Offers only a command that works. */
function onWords(command: string, on: ResumeForecast): string {
  if (on.way === "none") return `It cannot go on${on.later ? " as it is" : ""}: ${wayWords(on, command)}`;
  const again = on.way === "fresh" ? ` (its agent begins a new conversation: ${harmlessLine(on.why)})` : "";
  return `Go on: ${command}${again}`;
}

interface Around {
  readonly decision: string | null;
  /** It is active, and no supervisor runs that takes it on. */
  readonly isHalted: boolean;
  readonly nowMs: number;
  readonly home: string | undefined;
}

function describe(
  record: PipelineRecord,
  { decision, isHalted, nowMs, home }: Around,
  terminal: Pick<Terminal, "stdout" | "columns">,
): readonly string[] {
  const { id, definition, phase, reason, createdAt, endedAt } = record;
  const why = pipelineWords({ decision, reason: isHalted ? HALTED : reason });
  const line = (name: string, text: string) => labelled(terminal, `${name.padEnd(9)} `, text);
  const took = formatDuration((endedAt === null ? nowMs : Date.parse(endedAt)) - Date.parse(createdAt));
  const vars = Object.entries(record.vars).map(([name, value]) => `${name}=${value}`);
  return [
    ...labelled(
      terminal,
      `${id}  `,
      `${harmlessLine(definition.name, 64)}  ${phase}${why === "" ? "" : `: ${harmlessLine(why, 1_000)}`}`,
    ),
    ...line("began", `${createdAt}, ${endedAt === null ? `${took} ago` : `took ${took}`}`),
    ...line("workspace", shortPath(record.workspace, home)),
    ...line("runbook", shortPath(record.runbook.path, home)),
    ...(vars.length === 0 ? [] : line("variables", harmlessLine(vars.join("  "), 300))),
    "",
    ...definition.steps.flatMap(({ name, run: command, agent }) => {
      const entry = record.steps.find((one) => one.name === name);
      const what = command === null ? `agent ${agent?.name ?? ""}` : command.join(" ");
      return [
        ...labelled(
          terminal,
          `${name === record.step ? stateNow(entry, { decision, isHalted }) : (entry?.state ?? "-")}  ${name}  `,
          `${harmlessLine(what, 400)}${timesOf(entry)}`,
        ),
        ...wordsOf(entry),
      ];
    }),
  ];
}

/** An agent may live without a supervisor; a command ends with it, and is run again. */
function stateNow(
  entry: StepRecord | undefined,
  { decision, isHalted }: Pick<Around, "decision" | "isHalted">,
): string {
  if (decision !== null) return "waiting";
  if (isHalted && entry?.state === "running" && entry.agent === null) return "interrupted";
  return entry?.state ?? "-";
}

function timesOf(entry: StepRecord | undefined): string {
  return entry === undefined || entry.runs < 2 ? "" : ` (${entry.runs} times)`;
}

/** Agents by id, and the last words of a step. */
function wordsOf(entry: StepRecord | undefined): readonly string[] {
  if (entry === undefined) return [];
  const agents = entry.agents.map((id) => `    agent ${id}${id === entry.agent ? "" : " (earlier)"}`);
  const words = entry.detail === null ? [] : harmless(entry.detail).split("\n").slice(-20);
  return [...agents, ...words.map((text) => `    ${text}`)];
}

async function resume(args: readonly string[], context: Context): Promise<number> {
  const summary = "Continue at the step that failed or was cancelled, in the conversation of its agent.";
  const { json, given } = oneId("resume", summary, args);
  const deps = await context.open({ cwd: null, badConfig: "refuse" });
  // Before the supervisor is started for nothing.
  const before = (await selectPipeline(deps, given)).record;
  const { id } = before;
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  let told: (ResumedAgent & { readonly id: string }) | null = null;
  const record = await resumePipeline(
    deps,
    async (agent) => {
      const answer = await daemon.resume(agent, {
        kill: false,
        ended: true,
        wasActive: false,
        seen: null,
        strict: false,
      });
      told = { ...answer, id: agent };
      return answer;
    },
    id,
  );
  await daemon.poke(null);
  const agent = agentJson(told);
  if (json) context.printJson({ ok: true, id, step: record.step, agent });
  else {
    context.print(`Pipeline ${id} goes on${record.step === null ? "" : ` at step ${record.step}`}.`);
    if (agent?.result === "restarted")
      context.print(`Its agent ${agent.id} began a new conversation: ${harmlessLine(agent.reason, 300)}`);
    const gone = replacedIn(before, record);
    if (gone !== null)
      context.print(`Agent ${gone} was removed, so the step begins anew, with a new agent and conversation.`);
  }
  return 0;
}

/** The agent that the step had and has no more; null: it had none, or goes on with it. */
function replacedIn(before: PipelineRecord, after: PipelineRecord): string | null {
  const agentIn = ({ steps }: PipelineRecord) =>
    steps.find(({ name }) => name === before.step)?.agent ?? null;
  return after.step === before.step && agentIn(after) === null ? agentIn(before) : null;
}

/** Null: its step has no agent that was to go on. */
function agentJson(told: (ResumedAgent & { readonly id: string }) | null) {
  if (told === null) return null;
  const { id, result, why: reason, attempt, session, verified } = told;
  return { id, result, reason, attempt, session, verified };
}

async function cancel(args: readonly string[], context: Context): Promise<number> {
  const summary =
    "Cancel a pipeline and stop its agent. Completed steps stay, and you can resume the pipeline.";
  const { json, given } = oneId("cancel", summary, args);
  const deps = await context.open({ cwd: null });
  const record = await cancelPipeline(deps, (id, reason) => stopAgent(deps, id, reason), given);
  const { id, step, workspace } = record;
  await using daemon = await findDaemon(deps).catch(() => null);
  await daemon?.poke(null);
  if (json) context.printJson({ ok: true, id, step });
  else context.print(`Pipeline ${id} is cancelled. Its work is in ${workspace}`);
  return 0;
}

function oneId(verb: string, summary: string, args: readonly string[]): { json: boolean; given: string } {
  const parser = makeCommand({
    name: `pipeline ${verb}`,
    summary,
    examples: [`reprise pipeline ${verb} 1a2b3c4d`, `reprise pipeline ${verb} 1a2b --json`],
  })
    .usage("[options] <id>")
    .argument("[id]", "id or unique prefix")
    .option("--json", "print one JSON object");
  parse(parser, args);
  const { json }: { json?: true } = parser.opts();
  const given = onlyArgument(parser.args, "Which pipeline? `reprise pipeline list --all` shows them.");
  return { json: json === true, given };
}
