/**
 * Drives pipelines from step to step: runs commands, starts agents, stores the results.
 *
 * Only the daemon drives. Other processes change a record and ask the daemon to check it. After a crash, the driver finds
 * a started agent by its document, and ends and repeats a command that was running.
 */
import { isAbsolute, join, relative } from "node:path";
import { Fault } from "../core/faults.ts";
import type { AgentDefinition, RunbookSource, StepDefinition } from "../core/runbook.ts";
import type { AgentRecord, PipelineRecord } from "../core/supervision.ts";
import type { Deps } from "../run/run.ts";
import { environmentAt, redactorFor } from "../run/engine-setup.ts";
import { plainEnv, runGate } from "../process/process.ts";
import {
  agentOf,
  environmentOfStep,
  agentsOf,
  assertNotMoved,
  CANCELLED,
  getPipeline,
  isoNow,
  listPipelines,
  pipelineMarker,
  savePipeline,
  type StoredPipeline,
} from "./pipelines.ts";
import { agentStarted, stepRecordOf, nextOf, stepEnded } from "./reduce.ts";

/** The driver's access to agents. */
export interface AgentControl {
  /** Records the agent before it starts anything. Throws the Fault of a refused start. */
  start(
    definition: AgentDefinition,
    source: RunbookSource,
    options: {
      readonly vars: Readonly<Record<string, string>>;
      readonly pipeline: AgentRecord["pipeline"];
      readonly trustCwd: boolean;
    },
  ): Promise<Pick<AgentRecord, "id">>;
  stop(id: string, reason: string): Promise<unknown>;
}

/** Drives the active pipelines. Only one process may have a driver. */
export class PipelineDriver {
  readonly #deps: Deps;
  readonly #agents: AgentControl;
  readonly #busy = new Map<string, Promise<void>>();
  /** Pipelines to check again when their present work is over. */
  readonly #again = new Set<string>();
  /** The markers of running commands, by pipeline. */
  readonly #gates = new Map<string, string>();
  /** The last warning per pipeline. */
  readonly #lastWarnings = new Map<string, string>();
  #stopped = false;

  constructor(deps: Deps, agents: AgentControl) {
    this.#deps = deps;
    this.#agents = agents;
  }

  /** Begins to drive every active pipeline. Does not wait for the end of their work. */
  async check(): Promise<void> {
    const open = (await listPipelines(this.#deps, { open: true })).map(({ id }) => id);
    for (const id of open) this.#begin(id);
    for (const [id, marker] of this.#gates) {
      if (!open.includes(id)) await this.#deps.processes.endTree(null, marker, "terminate");
    }
  }

  /** Begins no further step. Commands end, and the next driver repeats them; agents continue. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const marker of this.#gates.values()) {
      await this.#deps.processes.endTree(null, marker, "terminate");
    }
    await this.settled();
  }

  /** Resolves when no work is under way. */
  async settled(): Promise<void> {
    while (this.#busy.size > 0) await Promise.all(this.#busy.values());
  }

  #begin(id: string): void {
    if (this.#stopped) return;
    if (this.#busy.has(id)) {
      this.#again.add(id);
      return;
    }
    const driving = this.#drive(id)
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        // Checks repeat, so the same reason is logged once.
        if (this.#lastWarnings.get(id) === why) return;
        this.#lastWarnings.set(id, why);
        this.#deps.log.warn(`pipeline ${id} cannot continue now, and the daemon will try again: ${why}`);
      })
      .finally(() => {
        this.#busy.delete(id);
        if (this.#again.delete(id)) this.#begin(id);
      });
    this.#busy.set(id, driving);
  }

  async #drive(id: string): Promise<void> {
    const deps = this.#deps;
    for (;;) {
      const found = await getPipeline(deps, id);
      if (found === null || this.#stopped) return;
      const { record, version } = found;
      const named = stepRecordOf(record, record.step)?.agent ?? null;
      const todo = nextOf(record, named === null ? null : await agentOf(deps, named), isoNow(deps));
      switch (todo.do) {
        case "nothing":
          return;
        case "save":
          await savePipeline(deps, todo.record, version);
          break;
        case "run":
          assertNotMoved(deps, record);
          await this.#run(found, todo.step);
          break;
        case "start":
          assertNotMoved(deps, record);
          await this.#start(found, todo.step);
          break;
      }
    }
  }

  /** The result applies only to the version of the record that the command ran for. */
  async #run({ record, version }: StoredPipeline, step: StepDefinition): Promise<void> {
    const deps = this.#deps;
    const marker = pipelineMarker(record.id, step.name);
    this.#gates.set(record.id, marker);
    try {
      const result = await runGate(deps.processes, {
        command: step.run ?? [],
        cwd: record.workspace,
        env: plainEnv(environmentAt(deps, record.workspace, deps.env)),
        timeoutMs: step.timeoutMs,
        redact: redactorFor(deps.env, []),
        marker,
      });
      if (this.#stopped) return;
      const end = { state: result.passed ? ("done" as const) : ("failed" as const), detail: result.detail };
      await savePipeline(deps, stepEnded(record, end, isoNow(deps)), version);
    } finally {
      this.#gates.delete(record.id);
    }
  }

  async #start({ record, version }: StoredPipeline, step: StepDefinition): Promise<void> {
    const deps = this.#deps;
    const { id, runbook, vars, trustCwd } = record;
    let agent = await unrecordedAgent(deps, record, step.name);
    try {
      const options = { vars, trustCwd, pipeline: { id, step: step.name } };
      agent ??= (await this.#agents.start(inWorkspace(deps, record, step), runbook, options)).id;
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // An agent that was recorded before the refusal ends like any other.
      agent = await unrecordedAgent(deps, record, step.name);
      if (agent === null) {
        const end = { state: "failed" as const, detail: error.message };
        await savePipeline(deps, stepEnded(record, end, isoNow(deps)), version);
        return;
      }
    }
    if ((await savePipeline(deps, agentStarted(record, step.name, agent), version)) !== null) return;
    const now = await getPipeline(deps, id);
    if (now?.record.phase !== "active") await this.#agents.stop(agent, CANCELLED);
  }
}

/** An agent of this step that the record does not name: the process that started it died before it stored the name. */
async function unrecordedAgent(deps: Deps, record: PipelineRecord, step: string): Promise<string | null> {
  const known = stepRecordOf(record, step)?.agents ?? [];
  const agents = await agentsOf(deps, record.id, {});
  return agents.find(({ id, pipeline }) => pipeline?.step === step && !known.includes(id))?.id ?? null;
}

/** Maps a directory below the pipeline's directory to the same one below its workspace. */
function inWorkspace(deps: Deps, record: PipelineRecord, step: StepDefinition): AgentDefinition {
  const { agent } = step;
  if (agent === null) throw new Error(`step ${step.name} has no agent`);
  const env = environmentOfStep(agent, deps.env);
  const inside = relative(record.definition.cwd, agent.cwd);
  if (isAbsolute(inside) || inside === ".." || inside.startsWith("../")) return { ...agent, env };
  return { ...agent, env, cwd: join(record.workspace, inside) };
}
