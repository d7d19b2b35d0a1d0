/** Every row of the pipeline's machine, and what no order of events may do to it. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { AgentDefinition, StepDefinition } from "../core/runbook.ts";
import type { AgentPhase, PipelineRecord, StepRecord } from "../core/supervision.ts";
import {
  agentStarted,
  cancelled,
  MOST_RUNS,
  nextOf,
  resumed,
  type StepAgent,
  stepEnded,
  type PipelineStep,
} from "./reduce.ts";

const AT = "2026-04-01T12:00:00.000Z";

const AGENT: AgentDefinition = {
  name: "fixer",
  engine: "demo",
  args: [],
  mode: "headless",
  prompt: "fix it",
  cwd: "/p",
  env: [],
  policy: { on: { idle: [], dead: [], error: [], prompt: [] }, idleAfterMs: 1, maxAttempts: null },
};

const step = (name: string, more: Partial<StepDefinition> = {}): StepDefinition => ({
  name,
  run: more.agent === undefined ? ["make", name] : null,
  agent: null,
  timeoutMs: 1000,
  onDone: null,
  onFail: null,
  ...more,
});

/** build → test; test fails → fix (an agent) → test; fix fails → the end. */
const BUILD = step("build", { onDone: "test" });
const TEST = step("test", { onFail: "fix" });
const FIX = step("fix", { agent: AGENT, onDone: "test" });

const entry = (name: string, more: Partial<StepRecord> = {}): StepRecord => ({
  name,
  state: "running",
  runs: 1,
  agent: null,
  agents: [],
  detail: null,
  ...more,
});

const NEW: PipelineRecord = {
  v: 1,
  id: "1a2b3c4d",
  definition: { name: "ship", steps: [BUILD, TEST, FIX], workspace: "cwd", cwd: "/p" },
  runbook: { path: "/p/runbooks/r.toml", sha256: "0" },
  vars: {},
  phase: "active",
  step: null,
  steps: [],
  workspace: "/p",
  trustCwd: false,
  reason: null,
  createdAt: AT,
  endedAt: null,
};

const at = (
  name: string,
  steps: readonly StepRecord[],
  more: Partial<PipelineRecord> = {},
): PipelineRecord => ({
  ...NEW,
  step: name,
  steps,
  ...more,
});

const fixing = (agent: string | null) =>
  at("fix", [
    entry("test", { state: "failed" }),
    entry("fix", { agent, agents: agent === null ? [] : [agent] }),
  ]);
const agentIs = (phase: AgentPhase, reason: string | null = null): StepAgent => ({ phase, reason });
const FAILED = { phase: "failed", endedAt: AT } as const;

describe("nextOf", () => {
  const cases: Record<string, [record: PipelineRecord, agent: StepAgent, then: PipelineStep]> = {
    "a new one begins its first step": [NEW, null, { do: "save", record: at("build", [entry("build")]) }],
    "a command that was begun is run": [at("build", [entry("build")]), null, { do: "run", step: BUILD }],
    "an agent that was not started is started": [fixing(null), null, { do: "start", step: FIX }],
    "an agent at work is left alone": [fixing("a1"), agentIs("active"), { do: "nothing" }],
    "an agent that is done leads on": [
      fixing("a1"),
      agentIs("done", "its gate passed"),
      {
        do: "save",
        record: at("test", [
          entry("test", { runs: 2 }),
          entry("fix", { state: "done", agent: "a1", agents: ["a1"], detail: "its gate passed" }),
        ]),
      },
    ],
    "an agent that failed fails its step": [
      fixing("a1"),
      agentIs("failed", "gave up"),
      {
        do: "save",
        record: at(
          "fix",
          [
            entry("test", { state: "failed" }),
            entry("fix", { state: "failed", agent: "a1", agents: ["a1"], detail: "gave up" }),
          ],
          { ...FAILED, reason: "step fix failed" },
        ),
      },
    ],
    "an agent that was stopped ends the pipeline, whatever on_fail says": [
      at("fix", [entry("fix", { agent: "a1", agents: ["a1"] })], {
        definition: { ...NEW.definition, steps: [{ ...FIX, onFail: "fix" }] },
      }),
      agentIs("stopped"),
      {
        do: "save",
        record: at(
          "fix",
          [entry("fix", { state: "failed", agent: "a1", agents: ["a1"], detail: "agent a1 was stopped" })],
          {
            ...FAILED,
            reason: "agent a1 was stopped",
            definition: { ...NEW.definition, steps: [{ ...FIX, onFail: "fix" }] },
          },
        ),
      },
    ],
    "an agent that was removed ends the pipeline": [
      at("fix", [entry("fix", { agent: "a1", agents: ["a1"] })]),
      null,
      {
        do: "save",
        record: at(
          "fix",
          [entry("fix", { state: "failed", agent: "a1", agents: ["a1"], detail: "agent a1 was removed" })],
          { ...FAILED, reason: "agent a1 was removed" },
        ),
      },
    ],
    "a step that was to be begun is begun": [
      at("test", [entry("test", { state: "failed", runs: 0 })]),
      null,
      { do: "save", record: at("test", [entry("test")]) },
    ],
    "a step that the definition lacks is the end": [
      at("gone", []),
      null,
      { do: "save", record: at("gone", [], { ...FAILED, reason: "it has no such step" }) },
    ],
    "without steps there is nothing to do but fail": [
      { ...NEW, definition: { ...NEW.definition, steps: [] } },
      null,
      {
        do: "save",
        record: {
          ...NEW,
          ...FAILED,
          definition: { ...NEW.definition, steps: [] },
          reason: "it has no such step",
        },
      },
    ],
    "done is done": [{ ...NEW, phase: "done", endedAt: AT }, null, { do: "nothing" }],
    "failed is failed": [at("test", [entry("test", { state: "failed" })], FAILED), null, { do: "nothing" }],
    "cancelled is cancelled": [
      at("build", [entry("build")], { phase: "cancelled", endedAt: AT }),
      null,
      { do: "nothing" },
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [record, agent, then]) => {
    expect(nextOf(record, agent, AT)).toEqual(then);
  });
});

describe("stepEnded", () => {
  const DONE = { state: "done", detail: "passed." } as const;
  const FAIL = { state: "failed", detail: "exit code 1" } as const;
  const cases: Record<
    string,
    [record: PipelineRecord, end: typeof DONE | typeof FAIL, then: PipelineRecord]
  > = {
    "on_done leads on": [
      at("build", [entry("build")]),
      DONE,
      at("test", [entry("build", { ...DONE }), entry("test")]),
    ],
    "the last on_done is the end": [
      at("test", [entry("test")]),
      DONE,
      { ...at("test", [entry("test", { ...DONE })]), step: null, phase: "done", endedAt: AT },
    ],
    "on_fail leads on": [
      at("test", [entry("test")]),
      FAIL,
      at("fix", [entry("test", { ...FAIL }), entry("fix")]),
    ],
    "without on_fail the pipeline fails, and knows where": [
      at("build", [entry("build")]),
      FAIL,
      at("build", [entry("build", { ...FAIL })], { ...FAILED, reason: "step build failed" }),
    ],
    "a step that comes round gets another agent, and keeps the earlier ones": [
      at("test", [entry("test"), entry("fix", { state: "done", agent: "a1", agents: ["a1"] })]),
      FAIL,
      at("fix", [entry("test", { ...FAIL }), entry("fix", { runs: 2, agents: ["a1"] })]),
    ],
    "a step that comes round too often is the end": [
      at("test", [entry("test"), entry("fix", { state: "done", runs: MOST_RUNS })]),
      FAIL,
      at("fix", [entry("test", { ...FAIL }), entry("fix", { state: "done", runs: MOST_RUNS })], {
        ...FAILED,
        reason: `step fix ran ${MOST_RUNS} times`,
      }),
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [record, end, then]) => {
    expect(stepEnded(record, end, AT)).toEqual(then);
  });

  test.each([
    ["a pipeline that has ended", at("test", [entry("test")], { phase: "cancelled", endedAt: AT })],
    ["a step that is not running", at("test", [entry("test", { state: "done" })])],
    ["no step", NEW],
  ])("does not move %s", (_name, record) => {
    expect(stepEnded(record, DONE, AT)).toBe(record);
  });
});

describe("agentStarted", () => {
  test("is named by the running step", () => {
    expect(agentStarted(fixing(null), "fix", "a1")).toEqual(fixing("a1"));
  });
  test.each([
    ["another step", fixing(null), "test"],
    ["a pipeline that has ended", { ...fixing(null), phase: "cancelled" } as const, "fix"],
  ])("does not change %s", (_name, record, name) => {
    expect(agentStarted(record, name, "a1")).toBe(record);
  });
});

describe("cancelled", () => {
  test("ends where it is", () => {
    expect(cancelled(at("build", [entry("build")]), AT)).toEqual(
      at("build", [entry("build", { state: "failed", detail: "cancelled by the user" })], {
        phase: "cancelled",
        endedAt: AT,
        reason: "cancelled by the user",
      }),
    );
  });
  test("ends even before its first step", () => {
    expect(cancelled(NEW, AT)).toEqual({
      ...NEW,
      phase: "cancelled",
      endedAt: AT,
      reason: "cancelled by the user",
    });
  });
  test.each(["done", "failed", "cancelled"] as const)("leaves a pipeline that is %s unchanged", (phase) => {
    const record = { ...NEW, phase };
    expect(cancelled(record, AT)).toBe(record);
  });
});

describe("resumed", () => {
  const over = { ...FAILED, reason: "x" };
  const failedFix = entry("fix", { state: "failed", runs: 4, agent: "a1", agents: ["a1"], detail: "x" });
  const cases: Record<string, [record: PipelineRecord, keep: boolean, then: PipelineRecord]> = {
    "a command runs again; counts begin again": [
      at(
        "build",
        [
          entry("test", { runs: 7, state: "done" }),
          entry("build", { state: "failed", runs: 3, detail: "x" }),
        ],
        over,
      ),
      false,
      at("build", [entry("test", { runs: 0, state: "done" }), entry("build")]),
    ],
    "an agent continues": [
      at("fix", [failedFix], over),
      true,
      at("fix", [entry("fix", { agent: "a1", agents: ["a1"] })]),
    ],
    "or another one is started": [
      at("fix", [failedFix], over),
      false,
      at("fix", [entry("fix", { agents: ["a1"] })]),
    ],
    "a step that came round too often is begun": [
      at("fix", [entry("fix", { state: "done", runs: MOST_RUNS, agent: "a1", agents: ["a1"] })], over),
      false,
      at("fix", [entry("fix", { state: "done", runs: 0, agent: "a1", agents: ["a1"] })]),
    ],
    "cancelled before its first step": [{ ...NEW, phase: "cancelled", endedAt: AT }, false, NEW],
  };
  test.each(Object.entries(cases))("%s", (_name, [record, keep, then]) => {
    expect(resumed(record, keep)).toEqual(then);
  });
  test.each(["active", "done"] as const)("leaves a pipeline that is %s unchanged", (phase) => {
    const record = { ...NEW, phase };
    expect(resumed(record, true)).toBe(record);
  });
});

/** Any graph of up to five steps, commands and agents mixed. */
const definitions = fc.integer({ min: 1, max: 5 }).chain((count) => {
  const names = Array.from({ length: count }, (_, n) => `s${n}`);
  const target = fc.option(fc.constantFrom(...names), { nil: null });
  const steps = names.map((name) =>
    fc
      .record({ isAgent: fc.boolean(), onDone: target, onFail: target })
      .map(({ isAgent, onDone, onFail }) =>
        step(name, { ...(isAgent ? { agent: AGENT } : {}), onDone, onFail }),
      ),
  );
  return fc.tuple(...steps);
});

type Event = "snapshot" | "done" | "failed" | "stopped" | "removed" | "crash" | "cancel" | "resume";
const events = fc.array(
  fc.constantFrom<Event>(
    "snapshot",
    "snapshot",
    "snapshot",
    "done",
    "done",
    "failed",
    "stopped",
    "removed",
    "crash",
    "cancel",
    "resume",
  ),
  { maxLength: 120 },
);

/** Plays a driver, its agents and a person; returns every start, and every record in the order it was stored. */
function play(steps: readonly StepDefinition[], list: readonly Event[]) {
  let record: PipelineRecord = { ...NEW, definition: { ...NEW.definition, steps } };
  const records = [record];
  const starts: { step: string; run: number; epoch: number }[] = [];
  const agents = new Map<string, AgentPhase>();
  /** A driver that died after the start of an agent and before it was recorded. */
  let unrecorded: string | null = null;
  let epoch = 0;
  const store = (next: PipelineRecord) => {
    if (next !== record) records.push((record = next));
  };
  const current = () => record.steps.find(({ name }) => name === record.step);
  for (const event of list) {
    const named = current()?.agent ?? null;
    if (event === "cancel") store(cancelled(record, AT));
    else if (event === "resume") {
      const phase = named === null ? undefined : agents.get(named);
      const next = resumed(record, phase !== undefined);
      if (next === record) continue;
      epoch += 1;
      if (named !== null && phase !== undefined && phase !== "done") agents.set(named, "active");
      store(next);
    } else if (event === "removed") {
      if (named !== null) agents.delete(named);
    } else if (event === "done" || event === "failed" || event === "stopped") {
      if (named !== null && agents.get(named) === "active") agents.set(named, event);
      else if (event !== "stopped" && current()?.state === "running" && nextOf(record, null, AT).do === "run")
        store(stepEnded(record, { state: event, detail: null }, AT));
    } else {
      const phase = named === null ? undefined : agents.get(named);
      const todo = nextOf(record, phase === undefined ? null : { phase, reason: null }, AT);
      if (todo.do === "save") store(todo.record);
      if (todo.do === "start") {
        if (unrecorded === null) {
          unrecorded = `a${agents.size + starts.length}`;
          agents.set(unrecorded, "active");
          starts.push({ step: todo.step.name, run: current()?.runs ?? 0, epoch });
        }
        if (event === "crash") continue;
        store(agentStarted(record, todo.step.name, unrecorded));
        unrecorded = null;
      }
    }
    if (record.phase !== "active") unrecorded = null;
  }
  return { records, starts };
}

describe("whatever happens", () => {
  test("no step gets a second agent unless it began again or was resumed", () => {
    fc.assert(
      fc.property(definitions, events, (steps, list) => {
        const { starts } = play(steps, list);
        const keys = starts.map(({ step: name, run, epoch }) => `${name}/${run}/${epoch}`);
        expect(keys).toEqual([...new Set(keys)]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("an ended pipeline stays ended until it is resumed, and a done one for ever", () => {
    fc.assert(
      fc.property(definitions, events, (steps, list) => {
        const { records } = play(steps, list);
        for (const [index, record] of records.slice(1).entries()) {
          const before = records[index];
          if (before?.phase === "done") expect.unreachable("moved on from done");
          if (before?.phase !== "active") expect(record.phase).toBe("active");
          expect((record.phase === "active") === (record.endedAt === null)).toBe(true);
          if (record.phase === "done") expect(record.step).toBe(null);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("no step begins more often than allowed, and at most one is at work", () => {
    fc.assert(
      fc.property(definitions, events, (steps, list) => {
        for (const record of play(steps, list).records) {
          const running = record.steps.filter(({ state }) => state === "running").map(({ name }) => name);
          expect(running.length <= 1 && running.every((name) => name === record.step)).toBe(true);
          expect(record.steps.every(({ runs }) => runs <= MOST_RUNS)).toBe(true);
          expect(record.steps.every(({ agent, agents }) => agent === null || agents.includes(agent))).toBe(
            true,
          );
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("a pipeline without a person comes to an end", () => {
    fc.assert(
      fc.property(
        definitions,
        fc.array(fc.constantFrom<Event>("done", "failed"), { minLength: 60 }),
        (steps, ends) => {
          const { records } = play(
            steps,
            [...ends, ...ends, ...ends].flatMap((end): Event[] => [
              "snapshot",
              "snapshot",
              "snapshot",
              end,
              "snapshot",
            ]),
          );
          expect(records.at(-1)?.phase).not.toBe("active");
        },
      ),
      { numRuns: 300 },
    );
  });
});
