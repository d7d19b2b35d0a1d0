import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundleAgent } from "../../test/actors/bundle.ts";
import { type CodexWorld, type FakePlan, openCodexWorld } from "../../test/codex-world.ts";
import type { QuestionAnswer, Question } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import {
  type AttemptResult,
  type ResumeRequest,
  resumeRun,
  type StartRequest,
  startRun,
  type StopRequest,
  type Watch,
} from "./run.ts";
import { selectRun } from "./select.ts";

let world: CodexWorld;
beforeEach(async () => {
  world = await openCodexWorld();
});
afterEach(() => world[Symbol.dispose]());

const NO_LIMITS = { idleMs: null, toolMs: null, totalMs: null };
const DIALOGUE = { dialogue: { approval: "on-request" } } as const;

/** Sees nothing, and asks for nothing but what it is given. */
function watch(more: Partial<Watch> = {}): Watch {
  return { raw: () => undefined, events() {}, status() {}, live() {}, mute() {}, onStop() {}, ...more };
}

interface Case extends Partial<StartRequest> {
  readonly plan?: FakePlan;
  /** Of the process that starts codex. */
  readonly vars?: Readonly<Record<string, string>>;
  readonly watch?: Partial<Watch>;
}

function start({ plan, vars, watch: seen, ...more }: Case = {}): Promise<AttemptResult> {
  const request: StartRequest = {
    ...{
      mode: "auto",
      limits: NO_LIMITS,
      terminal: null,
      engine: "codex",
      message: "go",
      native: [],
      env: [],
    },
    ...{ cwd: world.cwd, cwdGiven: true, isolate: null, runDir: null, name: null, subject: null },
    ...{ trustCwd: false, escrow: true },
    ...more,
  };
  return finished(startRun(world.deps(plan, vars), request, watch(seen)));
}

function resume(selector: string, more: Partial<ResumeRequest> & { plan?: FakePlan } = {}) {
  const { plan, ...rest } = more;
  return finished(resumeRun(world.deps(plan), { ...resuming(selector), ...rest }, watch()));
}

function resuming(selector: string): ResumeRequest {
  return {
    ...{ mode: "auto", limits: NO_LIMITS, terminal: null, selector, want: "resume", damage: "refuse" },
    ...{ message: "on", native: [], keep: false, env: [], hasTerminal: false, trustCwd: false },
  };
}

async function finished(attempt: Promise<AttemptResult>): Promise<AttemptResult> {
  const result = await attempt;
  await result.finish();
  return result;
}

const methods = () => world.journal().flatMap(({ method }) => (method === undefined ? [] : [String(method)]));
const outcomeOf = ({ attempt }: AttemptResult) => attempt.outcome?.result;

describe("one conversation, two ways to talk", () => {
  test.each([
    ["the server", "exec", DIALOGUE, {}],
    ["exec", "the server", {}, DIALOGUE],
    ["the server", "the server", DIALOGUE, DIALOGUE],
  ])("continue a run that began over %s over %s, with its rights", async (_first, _second, first, second) => {
    const begun = await start({ ...first, native: ["-s", "read-only", "-m", "gpt-x"] });
    const { handle, session } = begun.run;
    const again = await resume(handle, second);
    expect([outcomeOf(begun), outcomeOf(again), again.run.session.value]).toEqual([
      "completed",
      "completed",
      session.value,
    ]);
    expect(again.receipt).toMatchObject({ asked: session.value, reported: session.value });
    const exec = world.journal().findLast(({ exec: args }) => args !== undefined)?.["exec"];
    const thread = world.journal().findLast(({ method }) => method === "thread/resume")?.["params"];
    if (second === DIALOGUE) {
      expect(thread).toMatchObject({ threadId: session.value, sandbox: "read-only", model: "gpt-x" });
    } else {
      expect(exec).toEqual(
        expect.arrayContaining(["-s", "read-only", "-m", "gpt-x", "resume", session.value]),
      );
    }
  });
});

describe("questions", () => {
  test("are declined where nobody can be asked, and the attempt says so", async () => {
    const result = await start({ ...DIALOGUE, plan: { ask: ["touch a", "touch b"] } });
    expect([outcomeOf(result), result.attempt.diagnostics]).toEqual([
      "completed",
      ["nobody could be asked: 2 request(s) of the agent for an approval were declined"],
    ]);
    const answers = world.journal().filter(({ method }) => method === undefined);
    expect(answers.map(({ result: answer }) => answer)).toEqual([
      { decision: "decline" },
      { decision: "decline" },
    ]);
  });

  test("stop the clock for the agent's silence while a person thinks", async () => {
    const asked: Question[] = [];
    const ask = (question: Question) => {
      asked.push(question);
      return new Promise<QuestionAnswer>((resolve) => setTimeout(resolve, 5_500, "accept"));
    };
    const limits = { ...NO_LIMITS, idleMs: 3_000 };
    const result = await start({ ...DIALOGUE, limits, plan: { ask: ["touch a"] }, watch: { ask } });
    expect([outcomeOf(result), asked.map(({ what }) => what)]).toEqual(["completed", ["touch a"]]);
  });

  test("are the only excuse for silence: otherwise the agent is interrupted", async () => {
    const result = await start({
      ...DIALOGUE,
      limits: { ...NO_LIMITS, idleMs: 3_000 },
      plan: { hang: true },
    });
    expect([result.attempt.outcome, methods().at(-1)]).toEqual([
      { result: "interrupted", reason: "no sign of life for 3 s" },
      "turn/interrupt",
    ]);
  });

  test("end the attempt when the caller cannot keep an answer", async () => {
    const ask = () => Promise.reject(new Fault("storage_full", "The disk is full."));
    const ended = start({ ...DIALOGUE, plan: { ask: ["touch a"] }, watch: { ask } });
    await expect(ended).rejects.toMatchObject({ code: "storage_full" });
    expect(world.journal().filter(({ method }) => method === undefined)).toEqual([]);
  });
});

describe("a caller whose disk is full", () => {
  const full = () => {
    throw new Fault("storage_full", "The disk is full.");
  };

  test("before the start starts nothing", async () => {
    let handle = "";
    const recorded: Watch["recorded"] = (run, attempt) => {
      handle = run.handle;
      expect([attempt.state, attempt.n]).toEqual(["intended", 1]);
      full();
    };
    await expect(start({ ...DIALOGUE, watch: { recorded } })).rejects.toMatchObject({
      code: "storage_full",
      facts: { handle: expect.any(String) },
    });
    expect(world.journal()).toEqual([]);
    expect((await selectRun(world.deps(), handle)).status).toBe("interrupted");
  });

  test.each(["initialize", "thread/start", "turn/start"])("at %s sends nothing", async (method) => {
    const wire: Watch["wire"] = (direction, line) => {
      if (direction === "out" && line.includes(`"${method}"`)) full();
    };
    await expect(start({ ...DIALOGUE, watch: { wire } })).rejects.toMatchObject({ code: "storage_full" });
    expect(methods()).not.toContain(method);
  });

  test("at a received line makes nothing of it", async () => {
    const wire: Watch["wire"] = (direction) => (direction === "in" ? full() : undefined);
    await expect(start({ ...DIALOGUE, watch: { wire } })).rejects.toMatchObject({ code: "storage_full" });
    expect(methods()).toEqual(["initialize"]);
  });

  test("at the session's name sends no message", async () => {
    const events: Watch["events"] = (seen) => {
      if (seen.some(({ event }) => event.type === "session")) full();
    };
    await expect(start({ ...DIALOGUE, watch: { events } })).rejects.toMatchObject({ code: "storage_full" });
    expect(methods()).not.toContain("turn/start");
  });
});

test("a stop by the user asks the turn to end, and the cancelled run continues later", async () => {
  let stop: (request: StopRequest) => void = () => {};
  const result = await start({
    ...DIALOGUE,
    plan: { hang: true },
    watch: {
      onStop: (listener) => {
        stop = listener;
      },
      events: (seen) => {
        if (seen.some(({ event }) => event.type === "turn_started")) stop("interrupt");
      },
    },
  });
  expect([outcomeOf(result), result.exitCode, methods().at(-1)]).toEqual([
    "cancelled",
    130,
    "turn/interrupt",
  ]);
  expect(outcomeOf(await resume(result.run.handle, DIALOGUE))).toBe("completed");
});

describe("the scripted Codex server", () => {
  let built = "";
  let actor = "";
  beforeAll(() => {
    built = mkdtempSync(join(tmpdir(), "reprise-demo-"));
    actor = bundleAgent("actor", built);
  });
  afterAll(() => rmSync(built, { recursive: true }));
  beforeEach(async () => {
    world[Symbol.dispose]();
    world = await openCodexWorld([actor, "--as", "codex", "--"]);
  });

  const cues: Record<string, [first: string, then: string, again: string | null]> = {
    nothing: ["", "completed", "completed"],
    "death at initialize": ["die:initialize", "interrupted", null],
    "death at initialized": ["die:initialized", "interrupted", null],
    "death at the thread": ["die:thread", "interrupted", null],
    "death at the turn": ["die:turn", "interrupted", null],
    "death at the first words": ["die:first-delta", "interrupted", "completed"],
    "death at the end": ["die:end", "interrupted", "completed"],
    garbage: ["garbage:thread garbage:first-delta", "completed", "completed"],
    "answers to nobody": ["ids:thread ids:turn", "completed", "completed"],
    "a flood": ["flood:turn:20000", "completed", "completed"],
    "a line of 20 MB": ["line:first-delta:20000000", "completed", "completed"],
    "a refused turn": ["refuse:turn", "failed", null],
  };
  test.each(Object.entries(cues))(
    "%s: the run ends and continues as expected",
    async (_name, [cue, then, again]) => {
      const begun = await start({ ...DIALOGUE, vars: { REPRISE_DEMO_SERVER: cue } });
      expect([begun.attempt.outcome?.result, begun.run.status]).toEqual([then, then]);
      if (again === null) return;
      const second = await resume(begun.run.handle, DIALOGUE);
      expect([second.attempt.outcome?.result, second.receipt?.verified]).toEqual([again, "engine_reported"]);
      expect(outcomeOf(await resume(begun.run.handle))).toBe("completed");
    },
  );

  test.each([
    ["another conversation than asked for", "other:thread", "diverged"],
    ["more rights than asked for", "wide:thread", "failed"],
    ["a busy thread", "refuse:thread:busy", "failed"],
    ["death before the conversation is open", "die:thread", "interrupted"],
  ])("meets %s on a resume", async (_name, cue, then) => {
    const { run } = await start(DIALOGUE);
    const met = await finished(
      resumeRun(
        world.deps({}, { REPRISE_DEMO_SERVER: cue }),
        { ...resuming(run.handle), ...DIALOGUE },
        watch(),
      ),
    );
    expect([outcomeOf(met), met.run.session.value]).toEqual([then, run.session.value]);
    expect(outcomeOf(await resume(run.handle, DIALOGUE))).toBe("completed");
  });
});
