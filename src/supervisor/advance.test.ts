/** One step with one agent, with a store in memory: what was asked of a person is asked once, and an answer is heard. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { agentLike, HOUR, MINUTE, RUN_ID, entry, SECOND, T0 } from "../../test/supervision.ts";
import { Fault } from "../core/faults.ts";
import type { AgentRecord, DecisionRecord } from "../core/supervision.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import type { ActContext } from "./act.ts";
import { advance } from "./advance.ts";
import { listDecisions, resolveDecision } from "./decisions.ts";
import { type AgentSnapshot, takeSnapshot, UNWATCHED } from "./snapshot.ts";

const root = mkdtempSync(join(tmpdir(), "reprise-advance-"));
afterAll(() => rmSync(root, { recursive: true }));

const ASKING = agentLike({ on: { dead: [entry("escalate")] } });
let worlds = 0;

class World {
  readonly deps: TestDeps;
  readonly #endedAt: string;
  now = T0;
  /** All of them have ended. */
  attempts = 1;

  constructor(deps: TestDeps, endedAtMs: number) {
    const getRun: typeof deps.store.getRun = async (runId) =>
      this.attempts === 1 ? deps.store.getRun(runId) : this.#run();
    const clock = { now: () => this.now, mono: () => this.now };
    this.deps = { ...deps, clock, store: { ...deps.store, getRun } };
    this.#endedAt = new Date(endedAtMs).toISOString();
  }

  #run() {
    const runDirectory = join(this.deps.state.runsRoot, RUN_ID);
    const launch = { ...runLike(1).launch, env: [] };
    const { attempts } = this;
    return runLike(1, { runId: RUN_ID, runDirectory, status: "interrupted", attempts, launch });
  }

  async snapshot(): Promise<AgentSnapshot> {
    const stored = await this.deps.store.getDocument("agent", ASKING.id);
    const agent = { ...ASKING, phase: stored?.data["phase"] as AgentRecord["phase"] };
    const run = this.#run();
    const outcome = { result: "interrupted", reason: "it was ended by SIGKILL" } as const;
    const startedAt = new Date(T0 - HOUR).toISOString();
    const ended = { state: "ended", startedAt, endedAt: this.#endedAt, outcome } as const;
    const attempts = Array.from({ length: this.attempts }, (_, at) => attemptLike(run, at + 1, ended));
    const store = { ...this.deps.store, listAttempts: async () => attempts };
    return takeSnapshot({ ...this.deps, store }, agent, run, UNWATCHED);
  }

  async step(): Promise<boolean> {
    const context: ActContext = { deps: this.deps, link: null, mayStart: async () => {}, note: () => {} };
    return (await advance(context, await this.snapshot())).again;
  }

  /** Until nothing is left to do, or for a hundred steps. */
  async settle(): Promise<number> {
    let steps = 0;
    while (steps < 100 && (await this.step())) steps += 1;
    return steps;
  }

  async kinds(): Promise<readonly string[]> {
    return (await this.deps.store.listEvents(RUN_ID)).map(({ kind }) => kind);
  }
}

async function world(endedAtMs = T0 - SECOND, more: Partial<TestDeps> = {}): Promise<World> {
  const deps = await testDeps(join(root, String((worlds += 1))), more);
  await deps.store.saveDocument({ kind: "agent", id: ASKING.id, open: true, data: { ...ASKING } }, null);
  return new World(deps, endedAtMs);
}

const ASKED_ONCE = ["decided", "escalated", "carried_out"];

test.each([
  ["before", -SECOND],
  ["a moment ahead of", 0],
  ["an hour ahead of a clock that was set back to", HOUR],
])("an end %s now is asked about once", async (_name, aheadMs) => {
  const here = await world(T0 + aheadMs);
  expect([await here.settle(), await here.kinds()]).toEqual([1, ASKED_ONCE]);
  for (here.now += SECOND; here.now < T0 + 10 * MINUTE; here.now += MINUTE) await here.settle();
  expect(await here.kinds()).toEqual(ASKED_ONCE);
  expect((await listDecisions(here.deps)).map(({ state }) => state)).toEqual(["open"]);
});

test("an answer whose sender died before its event is heard while the supervisor runs", async () => {
  const here = await world();
  await here.settle();
  const [asked] = await listDecisions(here.deps, { open: true });
  const n = asked?.options.find(({ does }) => does === "fail")?.n ?? 0;
  const dying = {
    ...here.deps,
    store: { ...here.deps.store, appendEvent: () => Promise.reject(new Error()) },
  };
  await expect(resolveDecision(dying, asked?.id ?? "", n, null)).rejects.toThrow();
  expect(await here.kinds()).toEqual(ASKED_ONCE);
  await here.settle();
  expect(await here.kinds()).toEqual([...ASKED_ONCE, "answered", "decided", "carried_out"]);
  const agent = await here.deps.store.getDocument("agent", ASKING.id);
  expect(agent?.data["phase"]).toBe("failed");
});

async function askedIn(here: World): Promise<DecisionRecord> {
  await here.settle();
  const [decision] = await listDecisions(here.deps, { open: true });
  if (decision === undefined) throw new Error("nothing was asked");
  return decision;
}

const stateOf = async ({ deps }: World, { id }: DecisionRecord) =>
  (await deps.store.getDocument("decision", id))?.data["state"];
const phaseOf = async ({ deps }: World) => (await deps.store.getDocument("agent", ASKING.id))?.data["phase"];

test("a question about an earlier attempt is overtaken at once, also before the supervisor has looked", async () => {
  const here = await world();
  const decision = await askedIn(here);
  here.attempts = 2;
  expect((await listDecisions(here.deps)).map(({ state }) => state)).toEqual(["overtaken"]);
  expect(await listDecisions(here.deps, { open: true })).toEqual([]);
  expect((await here.snapshot()).openDecision).toBeNull();
  await expect(resolveDecision(here.deps, decision.id, 1, null)).rejects.toThrow(/is overtaken/);
  await here.step();
  expect(await stateOf(here, decision)).toBe("overtaken");
});

test("a question about an agent that has ended is overtaken at once", async () => {
  const here = await world();
  const decision = await askedIn(here);
  const stopped = { ...ASKING, phase: "stopped" };
  await here.deps.store.saveDocument({ kind: "agent", id: ASKING.id, open: false, data: stopped }, 1);
  expect(await listDecisions(here.deps, { open: true })).toEqual([]);
  await expect(resolveDecision(here.deps, decision.id, 1, null)).rejects.toThrow(/is overtaken/);
});

test.each(["fresh", "done", "fail"])(
  "the answer %s changes nothing when another attempt began before it was acted upon, and is not tried again",
  async (does) => {
    const here = await world();
    const decision = await askedIn(here);
    const n = decision.options.find((option) => option.does === does)?.n ?? 0;
    await resolveDecision(here.deps, decision.id, n, null);
    here.attempts = 2;
    await here.step();
    expect([await stateOf(here, decision), await phaseOf(here)]).toEqual(["overtaken", "active"]);
    expect(await here.kinds()).toEqual([...ASKED_ONCE, "answered", "carried_out"]);
    await here.settle();
    expect((await here.deps.store.listEvents(RUN_ID)).map(({ key }) => key)).not.toContain(
      `${RUN_ID}/answer/${decision.id}`,
    );
  },
);

test.each(["done", "fail"])(
  "the answer %s ends no agent that a person went on with at that very moment",
  async (does) => {
    const here = await world();
    const decision = await askedIn(here);
    const n = decision.options.find((option) => option.does === does)?.n ?? 0;
    await resolveDecision(here.deps, decision.id, n, null);
    const snapshot = await here.snapshot();
    here.attempts = 2;
    const context: ActContext = { deps: here.deps, link: null, mayStart: async () => {}, note: () => {} };
    await advance(context, snapshot);
    expect([await stateOf(here, decision), await phaseOf(here)]).toEqual(["overtaken", "active"]);
  },
);

test("a person gets a question whose asker died before", async () => {
  const told: string[] = [];
  const { config, processes } = await testDeps(join(root, "model"));
  const here = await world(T0 - SECOND, {
    config: { ...config, notify: { command: ["tell"] } },
    processes: {
      ...processes,
      runTool: async (_file, _args, { stdin }) => {
        told.push(String(stdin));
        return { code: 0, signal: null, stdout: "", stderr: "", timedOut: false };
      },
    },
  });
  const { store } = here.deps;
  const killed: typeof store.appendEvent = async (event) => {
    if (event.kind === "escalated") throw new Error("killed");
    return store.appendEvent(event);
  };
  const dying = new World({ ...here.deps, store: { ...store, appendEvent: killed } }, T0 - SECOND);
  await expect(dying.step()).rejects.toThrow("killed");
  expect([(await listDecisions(here.deps)).length, told]).toEqual([1, []]);
  await here.settle();
  const [asked] = await listDecisions(here.deps, { open: true });
  expect(told.map((text) => (JSON.parse(text) as { decision: DecisionRecord }).decision.id)).toEqual([
    asked?.id,
  ]);
  expect(await here.kinds()).toEqual(ASKED_ONCE);
});

test("a question on behalf of a dead process says what happened", async () => {
  const here = await world();
  const { store } = here.deps;
  const saveDocument: typeof store.saveDocument = () => Promise.reject(new Error("killed"));
  const dying = new World({ ...here.deps, store: { ...store, saveDocument } }, T0 - SECOND);
  await expect(dying.step()).rejects.toThrow("killed");
  await here.settle();
  expect((await listDecisions(here.deps)).map(({ what }) => what)).toEqual([
    "it was ended by SIGKILL. There is no conversation to continue",
  ]);
});

test.each(["decided", "escalated", "carried_out"])(
  "a disk without room for %s: nothing happens before it is decided, and nothing twice afterwards",
  async (kind) => {
    const here = await world();
    const { store } = here.deps;
    const full: typeof store.appendEvent = async (event) => {
      if (event.kind === kind) throw new Fault("storage_full", "The disk is full.");
      return store.appendEvent(event);
    };
    const poor = new World({ ...here.deps, store: { ...store, appendEvent: full } }, T0 - SECOND);
    const decisions = async () => (await listDecisions(here.deps)).length;
    for (let snapshot = 0; snapshot < 3; snapshot += 1) await poor.step().catch(() => null);
    expect(await decisions()).toBe(kind === "decided" ? 0 : 1);
    here.now = T0 + HOUR;
    await here.settle();
    expect(await decisions()).toBe(1);
    expect((await here.kinds()).filter((one) => one === "escalated")).toHaveLength(1);
  },
);

test("two turns between two looks count as two: the turn after a nudge, and another one", async () => {
  const here = await world();
  const turns = async (count: number) => {
    const observed = {
      activity: { state: "working" },
      sinceMs: T0,
      grewAtMs: T0,
      turns: count,
      certain: true,
    };
    const snapshot = { ...(await here.snapshot()), seen: { is: "live", observed } } as AgentSnapshot;
    const context: ActContext = { deps: here.deps, link: null, mayStart: async () => {}, note: () => {} };
    return (await advance(context, snapshot)).again;
  };
  const noted = async () =>
    (await here.deps.store.listEvents(RUN_ID)).flatMap(({ kind, payload }) =>
      kind === "progress" ? [payload["turn"]] : [],
    );
  expect([await turns(1), await noted()]).toEqual([true, [1]]);
  expect([await turns(3), await noted()]).toEqual([true, [1, 2, 3]]);
});
