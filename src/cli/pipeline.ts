/** `reprise pipeline run|list|show|resume|cancel`: ordered steps that the daemon drives. */
import type { DecisionRecord, PipelineRecord, StepRecord } from "../core/supervision.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine, wholeSentences } from "../lib/harmless.ts";
import { type Column, fitTable } from "../lib/table.ts";
import type { Deps } from "../run/run.ts";
import { findPipeline } from "../runbooks/runbooks.ts";
import {
  listDecisions,
  forecastPipelineResume,
  stopAgent,
  type ResumeForecast,
} from "../supervisor/supervisor.ts";
import {
  cancelPipeline,
  listPipelines,
  resumePipeline,
  selectPipeline,
  startPipeline,
} from "../supervisor/pipelines.ts";
import { ensureDaemon, findDaemon, type ResumedAgent } from "../supervisor/daemon-client.ts";
import { asksWords, isSupervised, UNSUPERVISED, wayWords, withQuestions } from "./agent-look.ts";
import { openForRunbook, VAR } from "./agent-run.ts";
import type { Terminal } from "./context.ts";
import { defineCommand, type CommandGroup, flag, JSON_FLAG, type Argument, IDS_FLAG } from "./define.ts";
import { age, labelled, printTable, shortPath, widthLimit } from "./words.ts";

export const command: CommandGroup = {
  name: "pipeline",
  summary: "Commands and agents that run in order, defined by a runbook.",
  commands: {
    run: { summary: "start a pipeline of a runbook", load: async () => start },
    list: { summary: "list pipelines: current step, time in that step", load: async () => list },
    show: { summary: "show one pipeline and the result of each step", load: async () => show },
    resume: { summary: "continue at the step that failed or was cancelled", load: async () => resume },
    cancel: { summary: "cancel a pipeline; completed steps stay", load: async () => cancel },
  },
  examples: [
    "reprise pipeline run ci --var branch=main",
    "reprise pipeline list",
    "reprise pipeline resume 1a2b3c4d",
  ],
};

const ID = {
  help: "id or unique prefix",
  required: true,
  missing: "Which pipeline? `reprise pipeline list --all` shows them.",
  values: "pipelines",
} as const satisfies Argument;

const start = defineCommand({
  name: "pipeline run",
  summary: "Start a pipeline of a runbook. The daemon runs its steps in order.",
  args: {
    name: {
      help: "pipeline.NAME in a runbook of this project or in your own runbooks",
      required: true,
      missing: "Which pipeline? `reprise runbook list` shows the pipelines of the runbooks here.",
      values: "pipeline names",
    },
  },
  options: {
    var: VAR,
    trustCwd: flag("trust this directory, its workspace and the project's runbooks as they are now"),
    json: JSON_FLAG,
  },
  examples: ["reprise pipeline run ci", "reprise pipeline run ci --var branch=main --json"],
  run: async ({ args: { name }, options, reply }, context) => {
    const { deps, trust, place } = await openForRunbook(context, options);
    const found = await findPipeline(name, place);
    if (found.trust !== null) await context.trust(deps, found.trust, trust);
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    const { definition, source } = found;
    const how = { vars: found.vars, trustCwd: trust.trustCwd };
    const { id, workspace } = await startPipeline(deps, definition, source, how);
    await daemon.poke(null);
    reply({ id, name, workspace, runbook: source.path }, id);
    if (options.json === undefined)
      context.log.info(`${name} has begun in ${workspace}. Look at it: reprise pipeline show ${id}`);
    return 0;
  },
});

const list = defineCommand({
  name: "pipeline list",
  summary: "List pipelines: current step, time in that step.",
  options: {
    all: flag("include ended pipelines"),
    json: JSON_FLAG,
    ids: IDS_FLAG,
  },
  examples: ["reprise pipeline list", "reprise pipeline list --all --json"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const pipelines = await listPipelines(deps, options.all === true ? {} : { open: true });
    const isActive = pipelines.some(({ phase }) => phase === "active");
    const isHalted = isActive && !(await isSupervised(deps));
    const views = (await viewsOf(deps, pipelines)).map((view) => (isHalted ? halted(view) : view));
    const none =
      options.all === true
        ? "No pipelines yet. Start one: reprise pipeline run NAME"
        : "No pipeline is active. `reprise pipeline list --all` shows ended pipelines.";
    reply({ pipelines: views }, () => {
      if (options.ids === true) for (const { id } of pipelines) context.print(id);
      else if (pipelines.length === 0) context.print(none);
      else printTable(context, pipelineTable(views, deps.clock.now(), context.terminal));
    });
    if (isHalted) context.log.warn(UNSUPERVISED);
    return 0;
  },
});

const HALTED = "does not continue: the daemon is not running";

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
    return fitTable(COLUMNS, rows, widthLimit(terminal));
  };
  return withQuestions(pipelines, made, pipelineWords);
}

const show = defineCommand({
  name: "pipeline show",
  summary: "Show one pipeline and the result of each step.",
  args: { id: ID },
  options: { json: JSON_FLAG },
  examples: ["reprise pipeline show 1a2b3c4d", "reprise pipeline show 1a2b --json"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const { record } = await selectPipeline(deps, args.id);
    const decision = questionOf(record, await listDecisions(deps, { open: true }));
    const isHalted = record.phase === "active" && !(await isSupervised(deps));
    const isOver = record.phase === "failed" || record.phase === "cancelled";
    const on = isOver ? await forecastPipelineResume(deps, record) : null;
    const next = `reprise pipeline resume ${record.id}`;
    const works = on !== null && on.way !== "none";
    reply({ pipeline: record, decision, resume: works ? next : null }, () => {
      const facts = { decision, isHalted, nowMs: deps.clock.now(), home: deps.env["HOME"] };
      for (const line of describe(record, facts, context.terminal)) context.print(line);
      if (on !== null) context.print(`\n${onWords(next, on)}`);
    });
    if (isHalted) context.log.warn(UNSUPERVISED);
    return 0;
  },
});

/** Offers only a command that works. */
function onWords(next: string, on: ResumeForecast): string {
  if (on.way === "none") return `It cannot continue${on.later ? " as it is" : ""}: ${wayWords(on, next)}`;
  const again = on.way === "fresh" ? ` (its agent begins a new conversation: ${harmlessLine(on.why)})` : "";
  return `Continue: ${next}${again}`;
}

interface Around {
  readonly decision: string | null;
  /** It is active, but the daemon is not running. */
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
    ...definition.steps.flatMap(({ name, run, agent }) => {
      const entry = record.steps.find((one) => one.name === name);
      const what = run === null ? `agent ${agent?.name ?? ""}` : run.join(" ");
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

/** An agent lives without the daemon; a command ends with it and runs again later. */
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

const resume = defineCommand({
  name: "pipeline resume",
  summary: "Continue at the step that failed or was cancelled, in the conversation of its agent.",
  args: { id: ID },
  options: { json: JSON_FLAG },
  examples: ["reprise pipeline resume 1a2b3c4d", "reprise pipeline resume 1a2b --json"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null, badConfig: "refuse" });
    // Before the daemon is started for nothing.
    const before = (await selectPipeline(deps, args.id)).record;
    const { id } = before;
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    let told: (ResumedAgent & { readonly id: string }) | null = null;
    const how = { kill: false, ended: true, wasActive: false, seen: null, strict: false };
    const resumeAgent = async (agent: string) => {
      const answer = await daemon.resume(agent, how);
      told = { ...answer, id: agent };
      return answer;
    };
    const record = await resumePipeline(deps, resumeAgent, id);
    await daemon.poke(null);
    const agent = agentJson(told);
    reply({ id, step: record.step, agent }, () => {
      context.print(`Pipeline ${id} continues${record.step === null ? "" : ` at step ${record.step}`}.`);
      if (agent?.result === "restarted")
        context.print(`Its agent ${agent.id} began a new conversation: ${harmlessLine(agent.reason, 300)}`);
      const gone = replacedIn(before, record);
      if (gone !== null)
        context.print(
          `Agent ${gone} was removed, so the step starts again with a new agent and conversation.`,
        );
    });
    return 0;
  },
});

/** The agent that the step no longer has. Null: it had none, or continues with it. */
function replacedIn(before: PipelineRecord, after: PipelineRecord): string | null {
  const agentIn = ({ steps }: PipelineRecord) =>
    steps.find(({ name }) => name === before.step)?.agent ?? null;
  return after.step === before.step && agentIn(after) === null ? agentIn(before) : null;
}

/** Null: its step has no agent to resume. */
function agentJson(told: (ResumedAgent & { readonly id: string }) | null) {
  if (told === null) return null;
  const { id, result, why: reason, attempt, session, verified } = told;
  return { id, result, reason, attempt, session, verified };
}

const cancel = defineCommand({
  name: "pipeline cancel",
  summary: "Cancel a pipeline and stop its agent. Completed steps stay, and you can resume the pipeline.",
  args: { id: ID },
  options: { json: JSON_FLAG },
  examples: ["reprise pipeline cancel 1a2b3c4d", "reprise pipeline cancel 1a2b --json"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const record = await cancelPipeline(deps, (id, reason) => stopAgent(deps, id, reason), args.id);
    const { id, step, workspace } = record;
    await using daemon = await findDaemon(deps).catch(() => null);
    await daemon?.poke(null);
    reply({ id, step }, `Pipeline ${id} is cancelled. Its work is in ${workspace}`);
    return 0;
  },
});
