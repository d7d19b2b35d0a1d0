/**
 * Pipelines in the store, and a person's commands: start, cancel, resume.
 *
 * A record changes by compare-and-set. `reduce.ts` decides the next step, and `pipeline-driver.ts` carries it out.
 */
import { join } from "node:path";
import { makeDirectory } from "../state/files.ts";
import { movedState, stateMoved } from "../state/identity.ts";
import { isDirectory, resolveDirectory } from "../state/places.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { readSelector } from "../core/ids.ts";
import type { AgentDefinition, PipelineDefinition, RunbookSource } from "../core/runbook.ts";
import type { AgentRecord, PipelineRecord } from "../core/supervision.ts";
import { isSecretName } from "../lib/secret-names.ts";
import { shellLine } from "../lib/shell.ts";
import { assertReachable, type Deps } from "../run/run.ts";
import type { Document } from "../store/store.ts";
import { planWorkplace } from "../run/engine-setup.ts";
import { cancelled, stepRecordOf, nextOf, resumed } from "./reduce.ts";
import { redactorOf, refuseSecretPipeline } from "./secrets.ts";
import { selectOne } from "./selection.ts";

/** A record, and the version that a change must be based on. */
export interface StoredPipeline {
  readonly record: PipelineRecord;
  readonly version: number;
}

export interface PipelineOptions {
  readonly vars: Readonly<Record<string, string>>;
  readonly trustCwd: boolean;
}

/** Makes the workspace before the record, so that every recorded pipeline can begin. */
export async function startPipeline(
  deps: Deps,
  definition: PipelineDefinition,
  source: RunbookSource,
  { vars, trustCwd }: PipelineOptions,
): Promise<PipelineRecord> {
  refuseSecretPipeline(deps, definition, vars);
  const cwd = resolveDirectory(definition.cwd);
  const { id, home } = newWorkspaceHome(deps, definition.workspace);
  const isolate = definition.workspace === "cwd" ? null : definition.workspace;
  const workplace = await planWorkplace(deps, home, { cwd, isolate, branch: `reprise/${id}` });
  if (isolate !== null) {
    makeDirectory(home);
    await workplace.make();
  }
  const record: PipelineRecord = {
    v: 1,
    id,
    definition: storableDefinition(deps, definition),
    runbook: source,
    vars,
    phase: "active",
    step: null,
    steps: [],
    workspace: workplace.cwd,
    trustCwd,
    reason: null,
    createdAt: isoNow(deps),
    endedAt: null,
  };
  if ((await savePipeline(deps, record, null)) !== null) return record;
  throw new Fault("run_busy", `The pipeline id ${id} is already in use. Run the command again.`, {
    facts: { id },
  });
}

/** Replaces the value of a secret in the stored definition. */
const NOT_STORED = "[redacted]";

function storableDefinition(deps: Deps, definition: PipelineDefinition): PipelineDefinition {
  const steps = definition.steps.map((step) => {
    if (step.agent === null) return step;
    const redact = redactorOf(deps, step.agent);
    const env = step.agent.env.map(
      ([name, value]) => [name, isSecretName(name) || redact(value) !== value ? NOT_STORED : value] as const,
    );
    return { ...step, agent: { ...step.agent, env } };
  });
  return { ...definition, steps };
}

/** The variables of a step's agent. Values that are not stored come from the present environment. */
export function environmentOfStep(agent: AgentDefinition, env: Env): AgentDefinition["env"] {
  return agent.env.map(([name, value]) => {
    const known = value === NOT_STORED ? env[name] : value;
    if (known !== undefined) return [name, known] as const;
    throw new Fault(
      "option_unkept",
      `The variable ${name} of agent ${agent.name} is a secret, which Reprise does not store. ` +
        "Set it in a shell, run `reprise daemon stop` there, then resume the pipeline.",
      { facts: { variable: name } },
    );
  });
}

function newWorkspaceHome(
  deps: Deps,
  workspace: PipelineDefinition["workspace"],
): { id: string; home: string } {
  const all = join(deps.state.root, "workspaces");
  if (workspace !== "cwd") makeDirectory(all);
  for (;;) {
    const id = deps.newHandle();
    const home = join(all, id);
    if (!isDirectory(home)) return { id, home };
  }
}

/** Oldest first. */
export async function listPipelines(
  deps: Pick<Deps, "store">,
  filter: { readonly open?: boolean } = {},
): Promise<readonly PipelineRecord[]> {
  const documents = await deps.store.listDocuments("pipeline", filter);
  return documents.map(({ data }) => data as unknown as PipelineRecord);
}

/** `given`: an id, or a unique prefix of 4 to 7 characters. */
export async function selectPipeline(deps: Pick<Deps, "store">, given: string): Promise<StoredPipeline> {
  const known = readSelector(given);
  const exact = known?.by === "handle" ? await getPipeline(deps, known.handle) : null;
  if (exact !== null) return exact;
  return selectOne("pipeline", given, (await deps.store.listDocuments("pipeline", {})).map(readPipeline));
}

/** Ends a pipeline at its present step: stops its agents and commands; finished work stays. */
export async function cancelPipeline(
  deps: Deps,
  stopAgent: (id: string, reason: string) => Promise<unknown>,
  given: string,
): Promise<PipelineRecord> {
  for (;;) {
    const { record, version } = await selectPipeline(deps, given);
    const after = cancelled(record, isoNow(deps));
    if (after === record) {
      throw new Fault("usage", `Pipeline ${record.id} is already ${record.phase}.`, {
        facts: { id: record.id, phase: record.phase },
      });
    }
    for (const { id, runId } of await agentsOf(deps, record.id, { open: true }))
      await assertReachable(deps, { handle: id, runId });
    if ((await savePipeline(deps, after, version)) === null) continue;
    const agents = await agentsOf(deps, record.id, { open: true });
    for (const agent of agents) await stopAgent(agent.id, CANCELLED);
    if (record.step !== null)
      await deps.processes.endTree(null, pipelineMarker(record.id, record.step), "terminate");
    return after;
  }
}

export const CANCELLED = "its pipeline was cancelled";

/** The result of a resumed agent. `why`: the reason if it could not be resumed. */
export interface ResumeAnswer {
  readonly done: boolean;
  readonly why: string;
  /** No later try can succeed. */
  readonly never?: true;
}

/**
 * Continues a pipeline at its step, in the conversation of its agent if it has one. Resumes the agent first: a refused
 * resume then changes nothing, and after a crash in between the next resume finds the agent running.
 */
export async function resumePipeline(
  deps: Deps,
  resumeAgent: (id: string) => Promise<ResumeAnswer>,
  given: string,
): Promise<PipelineRecord> {
  for (;;) {
    const { record, version } = await selectPipeline(deps, given);
    const failed = await failedWith(deps, record);
    if (failed !== null) {
      await savePipeline(deps, failed, version);
      continue;
    }
    const keep = await continueStep(deps, resumeAgent, record);
    if (record.phase === "active") return record;
    const after = resumed(record, keep);
    if ((await savePipeline(deps, after, version)) !== null) return after;
  }
}

/** The failed record of a pipeline whose agent was stopped or removed, and which the daemon has not checked since. */
async function failedWith(deps: Deps, record: PipelineRecord): Promise<PipelineRecord | null> {
  const id = stepRecordOf(record, record.step)?.agent ?? null;
  const todo = id === null ? null : nextOf(record, await agentOf(deps, id), isoNow(deps));
  return todo?.do === "save" && todo.record.phase === "failed" ? todo.record : null;
}

/** A workspace inside a moved state directory has a new path: no step may begin, and none fails for it. */
export function assertNotMoved({ state }: Pick<Deps, "state">, { id, workspace }: PipelineRecord): void {
  const moved = movedState(state.root, workspace);
  if (moved !== null) throw stateMoved(`Pipeline ${id}`, workspace, moved, `reprise pipeline resume ${id}`);
}

/** True: the step's agent continues. Throws a Fault for a refusal. */
async function continueStep(
  deps: Deps,
  resumeAgent: (id: string) => Promise<ResumeAnswer>,
  record: PipelineRecord,
): Promise<boolean> {
  const { id, phase, step, workspace } = record;
  const refuse = (code: "usage" | "run_busy" | "session_unknown", why: string) =>
    new Fault(code, `Pipeline ${id} ${why}`, { facts: { id, phase, step } });
  if (phase === "done") throw refuse("usage", "is done; there is nothing to resume.");
  assertNotMoved(deps, record);
  if (!isDirectory(workspace)) {
    throw new Fault("cwd_missing", `The workspace of pipeline ${id}, ${workspace}, no longer exists.`, {
      facts: { id },
    });
  }
  const stepRecord = stepRecordOf(record, step);
  const agent = stepRecord?.agent == null ? null : await agentOf(deps, stepRecord.agent);
  const at = `step ${step ?? "none"}`;
  if (phase === "active") {
    if (agent?.phase !== "active")
      throw refuse("run_busy", `is active, at ${at}; there is nothing to resume.`);
    const answer = await resumeAgent(agent.id);
    if (!answer.done)
      throw refuse(
        codeOf(answer),
        `is active, at ${at}, and its agent ${agent.id} was not resumed: ${sentence(answer.why)}`,
      );
    return true;
  }
  if (agent === null || stepRecord?.state === "done") return false;
  if (agent.phase === "active" || agent.phase === "done") return true;
  const answer = await resumeAgent(agent.id);
  if (!answer.done)
    throw refuse(
      codeOf(answer),
      `stays ${phase}: its agent ${agent.id} was not resumed: ${sentence(answer.why)}`,
    );
  return true;
}

function sentence(why: string): string {
  return /[.!?]$/.test(why) ? why : `${why}.`;
}

function codeOf({ never }: ResumeAnswer): "run_busy" | "session_unknown" {
  return never === true ? "session_unknown" : "run_busy";
}

/** The agents of a pipeline, oldest first. */
export async function agentsOf(
  deps: Pick<Deps, "store">,
  pipeline: string,
  filter: { readonly open?: boolean },
): Promise<readonly AgentRecord[]> {
  const documents = await deps.store.listDocuments("agent", filter);
  const agents = documents.map(({ data }) => data as unknown as AgentRecord);
  return agents.filter((agent) => agent.pipeline?.id === pipeline);
}

export async function agentOf(deps: Pick<Deps, "store">, id: string): Promise<AgentRecord | null> {
  return ((await deps.store.getDocument("agent", id))?.data ?? null) as AgentRecord | null;
}

export async function getPipeline(deps: Pick<Deps, "store">, id: string): Promise<StoredPipeline | null> {
  const document = await deps.store.getDocument("pipeline", id);
  return document === null ? null : readPipeline(document);
}

function readPipeline({ data, version }: Document): StoredPipeline {
  // Only Reprise writes documents, with a checksum.
  return { record: data as unknown as PipelineRecord, version };
}

/** Advice about a command line that the engine refuses, without a full stop. */
export async function correctionAdvice(deps: Pick<Deps, "store">, agent: AgentRecord): Promise<string> {
  const what = agent.pipeline === null ? "it" : "the pipeline";
  const again = await startCommand(deps, agent);
  return `Correct its options in the runbook, or those of its engine in the config file, and start ${what} again in its project with \`${again}\``;
}

/** The command that starts this agent's work again, in the project of its runbook. */
export async function startCommand(
  deps: Pick<Deps, "store">,
  { definition, pipeline, vars }: AgentRecord,
): Promise<string> {
  if (pipeline === null) return runCommand("agent", definition.name, vars);
  const found = await getPipeline(deps, pipeline.id);
  if (found === null) return "reprise pipeline run";
  return runCommand("pipeline", found.record.definition.name, found.record.vars);
}

export function runCommand(
  what: "agent" | "pipeline",
  name: string,
  vars: Readonly<Record<string, string>>,
): string {
  const given = Object.entries(vars).flatMap(([variable, value]) => ["--var", `${variable}=${value}`]);
  return shellLine(["reprise", what, "run", name, ...given]);
}

/** Null: another process changed the record first. */
export function savePipeline(
  deps: Pick<Deps, "store">,
  record: PipelineRecord,
  expected: number | null,
): Promise<number | null> {
  const open = record.phase === "active";
  return deps.store.saveDocument({ kind: "pipeline", id: record.id, open, data: { ...record } }, expected);
}

/** Marks the processes of a command step. */
export function pipelineMarker(id: string, step: string): string {
  return `pipeline/${id}/${step}`;
}

export function isoNow(deps: Pick<Deps, "clock">): string {
  return new Date(deps.clock.now()).toISOString();
}
