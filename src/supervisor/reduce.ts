/**
 * The life of a pipeline: what its record says, in; what is to be done next, or the next record, out.
 *
 * Pure. Whoever drives a pipeline stores each record by compare-and-set before it acts on it (I8): a step is begun in the
 * store first, and a record that has ended stays as it is until a person resumes it.
 */
import type { StepDefinition } from "../core/runbook.ts";
import type { AgentRecord, PipelineRecord, StepRecord } from "../core/supervision.ts";

/** A step that comes round more often gets nowhere: a person is to look at it. */
export const MOST_RUNS = 10;

export type PipelineStep =
  | { readonly do: "nothing" }
  /** Store this record, then look again. */
  | { readonly do: "save"; readonly record: PipelineRecord }
  /** Run the step's command. It was begun before, so it may be a second time after a crash. */
  | { readonly do: "run"; readonly step: StepDefinition }
  /** Start the step's agent, unless one that was started for it is not in the record yet. */
  | { readonly do: "start"; readonly step: StepDefinition };

/** The agent that the running step names, as it is; null: there is no such document any more. */
export type StepAgent = Pick<AgentRecord, "phase" | "reason"> | null;

export interface StepEnd {
  readonly state: "done" | "failed";
  readonly detail: string | null;
}

/** `agent` counts only where the running step names one. `at`: ISO 8601, now. */
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
    // Whoever stopped or removed it wants no other step to begin in its place.
    case "stopped":
    case "gone": {
      const reason = `agent ${id} was ${phase === "gone" ? "removed" : phase}`;
      return { do: "save", record: halted(record, "failed", { reason, at }) };
    }
  }
}

/** The step that is being worked on has ended: the next one, or the end of the pipeline. */
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

/** The running step has an agent. */
export function agentStarted(record: PipelineRecord, step: string, agent: string): PipelineRecord {
  const running = stepRecordOf(record, step);
  if (record.phase !== "active" || record.step !== step || running?.state !== "running") return record;
  return withStepRecord(record, { ...running, agent, agents: [...running.agents, agent] });
}

/** The same record: it has ended already. */
export function cancelled(record: PipelineRecord, at: string): PipelineRecord {
  if (record.phase !== "active") return record;
  return halted(record, "cancelled", { reason: "cancelled by the user", at });
}

/**
 * What failed or was cancelled goes on at its step; the same record: it is active, or done. `keep`: the agent of that
 * step goes on, too. Otherwise the step gets another one.
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

/** The end of the pipeline in the middle of a step. */
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
