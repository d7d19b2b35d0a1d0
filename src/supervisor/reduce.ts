/**
 * The life of a pipeline: a record in, the next action or the next record out. Pure.
 *
 * The driver stores each record by compare-and-set before it acts on it (I8), so a step begins in the store first. An
 * ended record does not change until a person resumes it.
 */
import type { StepDefinition } from "../core/runbook.ts";
import type { AgentRecord, PipelineRecord, StepRecord } from "../core/supervision.ts";

/** A step that repeats more often makes no progress, so the pipeline fails and a person decides. */
export const MOST_RUNS = 10;

export type PipelineStep =
  | { readonly do: "nothing" }
  /** Store this record, then ask again. */
  | { readonly do: "save"; readonly record: PipelineRecord }
  /** Run the step's command. After a crash this may be a repetition. */
  | { readonly do: "run"; readonly step: StepDefinition }
  /** Start the step's agent, unless an agent of this step exists and is not in the record yet. */
  | { readonly do: "start"; readonly step: StepDefinition };

/** The agent of the running step. Null: its document was removed. */
export type StepAgent = Pick<AgentRecord, "phase" | "reason"> | null;

export interface StepEnd {
  readonly state: "done" | "failed";
  readonly detail: string | null;
}

/** `agent` counts only if the running step names one. `at`: the present time, ISO 8601. */
export function nextOf(record: PipelineRecord, agent: StepAgent, at: string): PipelineStep {
  if (record.phase !== "active") return { do: "nothing" };
  const { definition } = record;
  const step = definition.steps.find(({ name }) => name === record.step);
  if (step === undefined) {
    const [first] = definition.steps;
    if (record.step === null && first !== undefined)
      return { do: "save", record: begun(record, first.name, at) };
    return { do: "save", record: ended(record, "failed", { reason: "it has no such step", at }) };
  }
  const running = stepRecordOf(record, step.name);
  if (running?.state !== "running") return { do: "save", record: begun(record, step.name, at) };
  if (step.agent === null) return { do: "run", step };
  if (running.agent === null) return { do: "start", step };
  return afterAgent(record, running.agent, { agent, at });
}

function afterAgent(
  record: PipelineRecord,
  id: string,
  { agent, at }: { readonly agent: StepAgent; readonly at: string },
): PipelineStep {
  const phase = agent?.phase ?? "gone";
  switch (phase) {
    case "active":
      return { do: "nothing" };
    case "done":
    case "failed":
      return { do: "save", record: stepEnded(record, { state: phase, detail: agent?.reason ?? null }, at) };
    // A person stopped or removed the agent, so no other step may begin in its place.
    case "stopped":
    case "gone": {
      const reason = `agent ${id} was ${phase === "gone" ? "removed" : phase}`;
      return { do: "save", record: halted(record, "failed", { reason, at }) };
    }
  }
}

/** The record after the end of the running step: at the next step, or ended. */
export function stepEnded(record: PipelineRecord, { state, detail }: StepEnd, at: string): PipelineRecord {
  const step = record.definition.steps.find(({ name }) => name === record.step);
  const running = step === undefined ? undefined : stepRecordOf(record, step.name);
  if (record.phase !== "active" || step === undefined || running?.state !== "running") return record;
  const after = withStepRecord(record, { ...running, state, detail });
  const target = state === "done" ? step.onDone : step.onFail;
  if (target !== null) return begun(after, target, at);
  if (state === "done") return ended({ ...after, step: null }, "done", { reason: null, at });
  return ended(after, "failed", { reason: `step ${step.name} failed`, at });
}

/** The record with the agent of the running step. */
export function agentStarted(record: PipelineRecord, step: string, agent: string): PipelineRecord {
  const running = stepRecordOf(record, step);
  if (record.phase !== "active" || record.step !== step || running?.state !== "running") return record;
  return withStepRecord(record, { ...running, agent, agents: [...running.agents, agent] });
}

/** Returns the same record if it has already ended. */
export function cancelled(record: PipelineRecord, at: string): PipelineRecord {
  if (record.phase !== "active") return record;
  return halted(record, "cancelled", { reason: "cancelled by the user", at });
}

/**
 * Continues a failed or cancelled pipeline at its step; returns the same record if it is active or done. `keep`: the
 * step's agent continues. Otherwise the step gets a new agent.
 */
export function resumed(record: PipelineRecord, keep: boolean): PipelineRecord {
  if (record.phase !== "failed" && record.phase !== "cancelled") return record;
  const steps = record.steps.map((stepRecord): StepRecord => {
    const again = { ...stepRecord, runs: 0 };
    if (stepRecord.name !== record.step || stepRecord.state === "done") return again;
    return { ...again, state: "running", runs: 1, detail: null, agent: keep ? stepRecord.agent : null };
  });
  return { ...record, steps, phase: "active", reason: null, endedAt: null };
}

export function stepRecordOf(record: PipelineRecord, step: string | null): StepRecord | undefined {
  return record.steps.find(({ name }) => name === step);
}

function begun(record: PipelineRecord, step: string, at: string): PipelineRecord {
  const before = stepRecordOf(record, step);
  if (before !== undefined && before.runs >= MOST_RUNS) {
    const reason = `step ${step} ran ${before.runs} times`;
    return ended({ ...record, step }, "failed", { reason, at });
  }
  return withStepRecord(
    { ...record, step },
    {
      name: step,
      state: "running",
      runs: (before?.runs ?? 0) + 1,
      agent: null,
      agents: before?.agents ?? [],
      detail: null,
    },
  );
}

/** Ends the pipeline in the middle of a step. */
function halted(
  record: PipelineRecord,
  phase: "failed" | "cancelled",
  end: { readonly reason: string; readonly at: string },
): PipelineRecord {
  const running = stepRecordOf(record, record.step);
  const after =
    running?.state === "running"
      ? withStepRecord(record, { ...running, state: "failed", detail: end.reason })
      : record;
  return ended(after, phase, end);
}

function ended(
  record: PipelineRecord,
  phase: "done" | "failed" | "cancelled",
  { reason, at }: { readonly reason: string | null; readonly at: string },
): PipelineRecord {
  return { ...record, phase, reason, endedAt: at };
}

function withStepRecord(record: PipelineRecord, stepRecord: StepRecord): PipelineRecord {
  const known = record.steps.some(({ name }) => name === stepRecord.name);
  const steps = known
    ? record.steps.map((one) => (one.name === stepRecord.name ? stepRecord : one))
    : [...record.steps, stepRecord];
  return { ...record, steps };
}
