/** Pipelines with real commands and workspaces, and with agents that are played. */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type TestDeps, testDeps } from "../../test/deps.ts";
import { Fault } from "../core/faults.ts";
import type { AgentDefinition, PipelineDefinition, StepDefinition } from "../core/runbook.ts";
import type { AgentPhase, AgentRecord, PipelineRecord } from "../core/supervision.ts";
import { type AgentControl, PipelineDriver } from "./pipeline-driver.ts";
import { forecastPipelineResume } from "./agent-resume.ts";
import { findMarked } from "../process/process.ts";
import {
  cancelPipeline,
  environmentOfStep,
  listPipelines,
  pipelineMarker,
  resumePipeline,
  savePipeline,
  selectPipeline,
  startPipeline,
} from "./pipelines.ts";

let root: string;
let cwd: string;
let deps: TestDeps;
let desk: FakeDesk;
let driver: PipelineDriver;

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-pipeline-")));
  cwd = join(root, "project");
  mkdirSync(cwd);
  deps = await testDeps(root);
  desk = new FakeDesk();
  driver = new PipelineDriver(deps, desk);
});
afterEach(async () => {
  await driver.stop();
  rmSync(root, { recursive: true, force: true });
});

/** Agents that are documents alone: started, resumed and stopped, and ended by the test. */
class FakeDesk implements AgentControl {
  readonly started: { readonly id: string; readonly step: string; readonly cwd: string }[] = [];
  readonly stopped: string[] = [];
  readonly resumed: string[] = [];
  /** What the next start throws: before or after the agent was recorded. */
  refuse: { readonly when: "before" | "after"; readonly error: Error } | null = null;

  async start(
    definition: AgentDefinition,
    source: AgentRecord["runbook"],
    { vars, pipeline }: Parameters<AgentControl["start"]>[2],
  ): Promise<AgentRecord> {
    const { refuse } = this;
    this.refuse = null;
    if (refuse?.when === "before") throw refuse.error;
    const id = `a${this.started.length + 1}`;
    const record: AgentRecord = {
      v: 1,
      id,
      runId: `20260401T120000Z-demo-${id}`,
      definition,
      runbook: source,
      vars,
      phase: "active",
      reason: null,
      pipeline,
      createdAt: "2026-04-01T12:00:00.000Z",
      endedAt: null,
    };
    this.started.push({ id, step: pipeline?.step ?? "", cwd: definition.cwd });
    await deps.store.saveDocument({ kind: "agent", id, open: true, data: { ...record } }, null);
    if (refuse !== null) {
      if (refuse.error instanceof Fault) await this.end(id, "failed", refuse.error.message);
      throw refuse.error;
    }
    return record;
  }

  async end(id: string, phase: AgentPhase, reason: string | null = null): Promise<void> {
    const found = await deps.store.getDocument("agent", id);
    if (found === null) throw new Error(`no agent ${id}`);
    const data = { ...found.data, phase, reason };
    await deps.store.saveDocument({ kind: "agent", id, open: phase === "active", data }, found.version);
  }

  async stop(id: string): Promise<void> {
    this.stopped.push(id);
    await this.end(id, "stopped");
  }

  readonly resume = async (id: string) => {
    this.resumed.push(id);
    await this.end(id, "active");
    return { done: true, why: "" };
  };
}

const agent = (more: Partial<AgentDefinition> = {}): AgentDefinition => ({
  name: "fixer",
  engine: "demo",
  args: [],
  mode: "headless",
  prompt: "fix it",
  cwd,
  env: [],
  policy: { on: { idle: [], dead: [], error: [], prompt: [] }, idleAfterMs: 1, maxAttempts: null },
  ...more,
});

const step = (name: string, more: Partial<StepDefinition>): StepDefinition => ({
  name,
  run: null,
  agent: null,
  timeoutMs: 20_000,
  onDone: null,
  onFail: null,
  ...more,
});

const sh = (script: string) => ["sh", "-c", script];

function start(
  steps: readonly StepDefinition[],
  more: Partial<PipelineDefinition> = {},
): Promise<PipelineRecord> {
  const definition: PipelineDefinition = { name: "ship", steps, workspace: "cwd", cwd, ...more };
  return startPipeline(
    deps,
    definition,
    { path: "/r.toml", sha256: "0" },
    { vars: { issue: "7" }, trustCwd: false },
  );
}

async function driven(id: string): Promise<PipelineRecord> {
  await driver.check();
  await driver.settled();
  return (await selectPipeline(deps, id)).record;
}

const short = ({ phase, step: at, reason, steps }: PipelineRecord) => ({
  phase,
  at,
  reason,
  steps: steps.map(({ name, state, runs, agents }) => [name, state, runs, ...agents].join(" ")),
});

const LOOP = () => [
  step("test", { run: sh(`echo run >> log; test -e fixed`), onFail: "fix" }),
  step("fix", { agent: agent(), onDone: "test" }),
];

describe("driving", () => {
  test("runs commands in order, in the workspace, to the end", async () => {
    const { id } = await start([
      step("a", { run: sh("echo a >> log"), onDone: "b" }),
      step("b", { run: sh("echo b >> log; pwd") }),
    ]);
    const record = await driven(id);
    expect(short(record)).toEqual({ phase: "done", at: null, reason: null, steps: ["a done 1", "b done 1"] });
    expect(record.steps[1]?.detail).toContain(`passed.\n${cwd}`);
    expect(readFileSync(join(cwd, "log"), "utf8")).toBe("a\nb\n");
    expect(await listPipelines(deps, { open: true })).toEqual([]);
  });

  test("fails the pipeline when a command fails without on_fail, and says why", async () => {
    const { id } = await start([
      step("a", { run: sh("echo broken; exit 2"), onDone: "b" }),
      step("b", { run: ["true"] }),
    ]);
    const record = await driven(id);
    expect(short(record)).toEqual({
      phase: "failed",
      at: "a",
      reason: "step a failed",
      steps: ["a failed 1"],
    });
    expect(record.steps[0]?.detail).toMatch(/failed with exit code 2\.\nbroken$/);
  });

  test("fails the step of a command that takes too long", async () => {
    const { id } = await start([step("a", { run: ["sleep", "600"], timeoutMs: 300 })]);
    expect((await driven(id)).steps[0]?.detail).toBe("sleep 600 took longer than 300 ms and was ended.");
    expect(findMarked(pipelineMarker(id, "a"))).toEqual([]);
  });

  test("starts an agent once, waits for it, and moves on", async () => {
    const { id } = await start(LOOP());
    expect(short(await driven(id))).toEqual({
      phase: "active",
      at: "fix",
      reason: null,
      steps: ["test failed 1", "fix running 1 a1"],
    });
    await driven(id);
    await driven(id);
    expect(desk.started).toEqual([{ id: "a1", step: "fix", cwd }]);
    writeFileSync(join(cwd, "fixed"), "");
    await desk.end("a1", "done", "said so");
    expect(short(await driven(id))).toEqual({
      phase: "done",
      at: null,
      reason: null,
      steps: ["test done 2", "fix done 1 a1"],
    });
  });

  test("gives a repeated step a new agent, until it repeats too often", async () => {
    const { id } = await start(LOOP());
    await driven(id);
    for (let n = 1; n <= 9; n += 1) {
      await desk.end(`a${n}`, "done");
      await driven(id);
    }
    await desk.end("a10", "done");
    const record = await driven(id);
    expect({ phase: record.phase, reason: record.reason, started: desk.started.length }).toEqual({
      phase: "failed",
      reason: "step test ran 10 times",
      started: 10,
    });
  });

  test.each<[AgentPhase, string]>([
    ["failed", "step fix failed"],
    ["stopped", "agent a1 was stopped"],
  ])("fails the pipeline when its agent is %s", async (phase, reason) => {
    const { id } = await start(LOOP());
    await driven(id);
    await desk.end("a1", phase);
    expect(short(await driven(id))).toMatchObject({ phase: "failed", at: "fix", reason });
  });

  test("leaves the pipeline active while its agent waits for a person", async () => {
    const { id } = await start(LOOP());
    await driven(id);
    const data = { agentId: "a1" };
    await deps.store.saveDocument({ kind: "decision", id: "a1-1", open: true, data }, null);
    expect((await driven(id)).phase).toBe("active");
  });

  test("fails the step of a start that is refused before or after it was recorded", async () => {
    for (const when of ["before", "after"] as const) {
      desk.refuse = { when, error: new Fault("engine_missing", "demo is not installed.") };
      const { id } = await start([step("fix", { agent: agent() })]);
      const record = await driven(id);
      expect({ phase: record.phase, detail: record.steps[0]?.detail }).toEqual({
        phase: "failed",
        detail: "demo is not installed.",
      });
    }
  });

  test("starts no second agent after a driver dies between a start and its record", async () => {
    const { id } = await start([step("fix", { agent: agent() })]);
    desk.refuse = { when: "after", error: new Error("killed") };
    await driven(id);
    expect(deps.warnings).toEqual([
      `pipeline ${id} cannot continue now, and the daemon will try again: killed`,
    ]);
    driver = new PipelineDriver(deps, desk);
    expect(short(await driven(id)).steps).toEqual(["fix running 1 a1"]);
    expect(desk.started.length).toBe(1);
  });

  test("a pipeline in a renamed state directory waits, and goes on when the directory has its name again", async () => {
    const { id } = await start([step("a", { run: sh("echo a > log") })], { workspace: "dir" });
    const place = async (workspace: string) => {
      const { record, version } = await selectPipeline(deps, id);
      await savePipeline(deps, { ...record, workspace }, version);
      return record.workspace;
    };
    const away = join(root, "earlier", "workspaces", id, "work");
    const here = await place(away);
    const { root: state } = deps.state;
    const todo = `mv ${state} ${root}/earlier && REPRISE_HOME=${root}/earlier reprise pipeline resume ${id}`;
    for (let looks = 0; looks < 2; looks += 1) {
      expect(short(await driven(id))).toMatchObject({ phase: "active", at: "a" });
      expect(deps.warnings).toEqual([expect.stringContaining(todo)]);
    }
    expect(await forecastPipelineResume(deps, (await selectPipeline(deps, id)).record)).toMatchObject({
      way: "none",
      todo: `First: mv ${state} ${root}/earlier`,
    });
    await place(here);
    expect(short(await driven(id))).toMatchObject({ phase: "done", steps: ["a done 1"] });
  });

  test("a command that was running when its driver died is ended and run again", async () => {
    const { id } = await start([
      step("a", { run: sh(`echo begun >> log; if test -e go; then exit 0; fi; exec sleep 600`) }),
    ]);
    await driver.check();
    await until(() => existsSync(join(cwd, "log")));
    await driver.stop();
    expect(short((await selectPipeline(deps, id)).record)).toMatchObject({
      phase: "active",
      steps: ["a running 1"],
    });
    expect(findMarked(pipelineMarker(id, "a"))).toEqual([]);
    writeFileSync(join(cwd, "go"), "");
    driver = new PipelineDriver(deps, desk);
    expect(short(await driven(id))).toMatchObject({ phase: "done", steps: ["a done 1"] });
    expect(readFileSync(join(cwd, "log"), "utf8")).toBe("begun\nbegun\n");
  });

  test("runs nothing twice when two snapshot at once", async () => {
    const { id } = await start([step("a", { run: sh("echo a >> log; sleep 0.2") })]);
    await Promise.all([driver.check(), driver.check(), driver.check()]);
    await driver.check();
    await driver.settled();
    expect((await selectPipeline(deps, id)).record.phase).toBe("done");
    expect(readFileSync(join(cwd, "log"), "utf8")).toBe("a\n");
  });

  test("notices an agent that ends during a snapshot", async () => {
    const { id } = await start([step("fix", { agent: agent() })]);
    await driven(id);
    const { store } = deps;
    let looked = false;
    const late = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== "getDocument" || looked) return typeof value === "function" ? value.bind(target) : value;
        return async (kind: string, wanted: string) => {
          const found = await store.getDocument(kind, wanted);
          if (kind === "agent" && !looked) {
            looked = true;
            await desk.end("a1", "done");
            await driver.check();
          }
          return found;
        };
      },
    });
    driver = new PipelineDriver({ ...deps, store: late }, desk);
    expect((await driven(id)).phase).toBe("done");
  });

  test("does not hold up other pipelines when one cannot continue", async () => {
    desk.refuse = { when: "before", error: new Error("disk on fire") };
    const bad = await start([step("fix", { agent: agent() })]);
    const good = await start([step("a", { run: ["true"] })]);
    await driven(bad.id);
    expect((await selectPipeline(deps, good.id)).record.phase).toBe("done");
    expect((await driven(bad.id)).steps[0]?.agents).toEqual(["a1"]);
  });
});

describe("workspaces", () => {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", cwd, "-c", "user.name=x", "-c", "user.email=x@x", ...args], {
      encoding: "utf8",
    });

  test("a separate directory keeps relative places the same", async () => {
    const { id, workspace } = await start(
      [
        step("make", { run: ["mkdir", "sub"], onDone: "fix" }),
        step("fix", { agent: agent({ cwd: join(cwd, "sub") }) }),
      ],
      { workspace: "dir" },
    );
    expect(workspace).toBe(join(root, "state", "workspaces", id, "work"));
    await driven(id);
    expect(existsSync(join(workspace, "sub"))).toBe(true);
    expect(desk.started).toEqual([{ id: "a1", step: "fix", cwd: join(workspace, "sub") }]);
  });

  test("a place outside of the project stays where it is", async () => {
    const { id } = await start([step("fix", { agent: agent({ cwd: root }) })], { workspace: "dir" });
    await driven(id);
    expect(desk.started.map((one) => one.cwd)).toEqual([root]);
  });

  test("a worktree gets a separate branch", async () => {
    git("init", "-q", "-b", "main");
    mkdirSync(join(cwd, "sub"));
    writeFileSync(join(cwd, "sub", "file"), "x");
    git("add", "-A");
    git("commit", "-qm", "first");
    const { id, workspace } = await start([step("fix", { agent: agent({ cwd: join(cwd, "sub") }) })], {
      workspace: "worktree",
      cwd: join(cwd, "sub"),
    });
    expect(workspace).toBe(join(root, "state", "workspaces", id, "worktree", "sub"));
    expect(readFileSync(join(workspace, "file"), "utf8")).toBe("x");
    const branch = execFileSync("git", ["-C", workspace, "branch", "--show-current"], { encoding: "utf8" });
    expect(branch).toBe(`reprise/${id}\n`);
    await driven(id);
    expect(desk.started.map((one) => one.cwd)).toEqual([workspace]);
  });

  test("an impossible workspace is refused before anything is recorded", async () => {
    await expect(start([], { workspace: "worktree" })).rejects.toThrow(
      "A worktree needs a git repository with a commit",
    );
    await expect(start([], { cwd: join(root, "gone") })).rejects.toThrow("does not exist");
    expect(await listPipelines(deps)).toEqual([]);
  });

  test("a variable that looks like a secret is refused", async () => {
    const definition: PipelineDefinition = { name: "p", steps: [], workspace: "cwd", cwd };
    const secret = { key: `ghp_${"x".repeat(36)}` };
    await expect(
      startPipeline(deps, definition, { path: "", sha256: "" }, { vars: secret, trustCwd: false }),
    ).rejects.toThrow("The variable key contains text that looks like a secret");
    deps = { ...deps, env: { ...deps.env, MY_TOKEN: "plainCanary00112233" } };
    const known = { task: "log in with plainCanary00112233" };
    await expect(
      startPipeline(deps, definition, { path: "", sha256: "" }, { vars: known, trustCwd: false }),
    ).rejects.toThrow("The variable task contains the value of MY_TOKEN");
  });

  test("a command that holds a secret is refused; a secret variable of an agent is not stored, and needed again", async () => {
    const given = { vars: {}, trustCwd: false };
    const source = { path: "", sha256: "" };
    const base = { name: "p", workspace: "cwd", cwd } as const;
    const command = step("fix", { run: ["curl", "--token", `ghp_${"x".repeat(36)}`] });
    await expect(startPipeline(deps, { ...base, steps: [command] }, source, given)).rejects.toThrow(
      "Step fix contains text that looks like a secret",
    );
    const env = [
      ["LAB_TOKEN", "Zq8xW2vB7nM4kJ6hG3"],
      ["CI", "1"],
    ] as const;
    const steps = [step("fix", { agent: { ...agent(), env } })];
    const { definition } = await startPipeline(deps, { ...base, steps }, source, given);
    expect(JSON.stringify(await listPipelines(deps))).not.toContain("Zq8xW2vB7nM4kJ6hG3");
    const [stored] = definition.steps;
    if (stored?.agent == null) throw new Error("there is no such step");
    const kept = stored.agent;
    expect(environmentOfStep(kept, { LAB_TOKEN: "of today" })).toEqual([
      ["LAB_TOKEN", "of today"],
      ["CI", "1"],
    ]);
    expect(() => environmentOfStep(kept, {})).toThrow("The variable LAB_TOKEN of agent");
  });
});

describe("cancelling", () => {
  const stop = (id: string) => desk.stop(id);

  test("is refused, and changes nothing, when no signal reaches the process of its agent", async () => {
    const { id } = await start(LOOP());
    await driven(id);
    const { runId } = (await deps.store.listDocuments("agent"))[0]?.data ?? {};
    const owner = {
      ...deps.processes.self(),
      space: "another",
      machine: "other",
      renewedAtMs: deps.clock.now(),
    };
    await deps.store.acquireLease(`run:${String(runId)}`, owner, () => false);
    const processes = { ...deps.processes, isAlive: () => true, examine: () => "lives" as const };
    const cancelling = cancelPipeline({ ...deps, processes }, stop, id);
    await expect(cancelling).rejects.toMatchObject({ code: "run_busy" });
    expect((await selectPipeline(deps, id)).record.phase).toBe("active");
    expect(desk.stopped).toEqual([]);
  });

  test("stops the agent and keeps everything else", async () => {
    const { id } = await start(LOOP());
    await driven(id);
    expect(short(await cancelPipeline(deps, stop, id.slice(0, 5)))).toEqual({
      phase: "cancelled",
      at: "fix",
      reason: "cancelled by the user",
      steps: ["test failed 1", "fix failed 1 a1"],
    });
    expect(desk.stopped).toEqual(["a1"]);
    expect((await driven(id)).phase).toBe("cancelled");
  });

  test("ends a running command", async () => {
    const { id } = await start([
      step("a", { run: sh("echo x > log; exec sleep 600"), onFail: "b" }),
      step("b", { run: ["true"] }),
    ]);
    await driver.check();
    await until(() => existsSync(join(cwd, "log")));
    await cancelPipeline(deps, stop, id);
    await driver.settled();
    expect(short((await selectPipeline(deps, id)).record)).toMatchObject({
      phase: "cancelled",
      steps: ["a failed 1"],
    });
    expect(findMarked(pipelineMarker(id, "a"))).toEqual([]);
  });

  test("also stops an agent whose start was under way", async () => {
    const { id } = await start([step("fix", { agent: agent() })]);
    const original = desk.start.bind(desk);
    desk.start = async (...args) => {
      const record = await original(...args);
      // Nobody but the driver knows of this one yet.
      await deps.store.saveDocument(
        { ...(await document(id)), open: false, data: { ...(await document(id)).data, phase: "cancelled" } },
        (await document(id)).version,
      );
      return record;
    };
    await driven(id);
    expect(desk.stopped).toEqual(["a1"]);
  });

  test.each(["done", "failed", "cancelled"] as const)(
    "leaves a pipeline that is %s unchanged",
    async (phase) => {
      const { id } = await start([step("a", { run: [phase === "failed" ? "false" : "true"] })]);
      if (phase === "cancelled") await cancelPipeline(deps, stop, id);
      const before = await driven(id);
      await expect(cancelPipeline(deps, stop, id)).rejects.toThrow(`Pipeline ${id} is already ${phase}.`);
      expect((await selectPipeline(deps, id)).record).toEqual(before);
    },
  );
});

describe("resuming", () => {
  test("runs a failed command again", async () => {
    const { id } = await start([step("a", { run: sh("test -e fixed") })]);
    await driven(id);
    writeFileSync(join(cwd, "fixed"), "");
    expect((await resumePipeline(deps, desk.resume, id)).phase).toBe("active");
    expect(short(await driven(id))).toMatchObject({ phase: "done", steps: ["a done 1"] });
    expect(desk.resumed).toEqual([]);
  });

  test.each<[AgentPhase, string[]]>([
    ["failed", ["a1"]],
    ["stopped", ["a1"]],
  ])("continues the conversation of an agent that was %s", async (phase, resumed) => {
    const { id } = await start(LOOP());
    await driven(id);
    await desk.end("a1", phase);
    await driven(id);
    await resumePipeline(deps, desk.resume, id);
    expect({ resumed: desk.resumed, ...short(await driven(id)) }).toMatchObject({
      resumed,
      phase: "active",
      steps: ["test failed 0", "fix running 1 a1"],
    });
    writeFileSync(join(cwd, "fixed"), "");
    await desk.end("a1", "done");
    expect((await driven(id)).phase).toBe("done");
  });

  test("does not resume an agent again that an earlier resume brought back", async () => {
    const { id } = await start(LOOP());
    await driven(id);
    await desk.end("a1", "failed");
    await driven(id);
    await desk.end("a1", "active");
    await resumePipeline(deps, desk.resume, id);
    expect({ resumed: desk.resumed, phase: (await driven(id)).phase }).toEqual({
      resumed: [],
      phase: "active",
    });
  });

  test("gives a step another agent if its agent is gone or never existed", async () => {
    desk.refuse = { when: "before", error: new Fault("engine_missing", "no") };
    const { id } = await start([step("fix", { agent: agent() })]);
    await driven(id);
    await resumePipeline(deps, desk.resume, id);
    expect(short(await driven(id)).steps).toEqual(["fix running 1 a1"]);
    expect(desk.resumed).toEqual([]);
  });

  test("continues a cancelled pipeline where it was", async () => {
    const { id } = await start([step("a", { run: ["true"] })]);
    await cancelPipeline(deps, (agentId) => desk.stop(agentId), id);
    await resumePipeline(deps, desk.resume, id);
    expect((await driven(id)).phase).toBe("done");
  });

  test("passes the resume of an active pipeline on to its agent", async () => {
    const { id } = await start(LOOP());
    const before = await driven(id);
    expect(await resumePipeline(deps, desk.resume, id)).toEqual(before);
    expect(desk.resumed).toEqual(["a1"]);
  });

  const no = async () => ({ done: false, why: "it is at work" });

  test("changes nothing when it is refused", async () => {
    const refused = async (id: string, message: RegExp) => {
      const before = (await selectPipeline(deps, id)).record;
      await expect(resumePipeline(deps, no, id)).rejects.toThrow(message);
      expect((await selectPipeline(deps, id)).record).toEqual(before);
    };
    const active = await start(LOOP());
    await driven(active.id);
    await refused(active.id, /is active, at step fix, and its agent a1 was not resumed: it is at work\./);
    await desk.end("a1", "failed");
    await driven(active.id);
    await refused(active.id, /stays failed: its agent a1 was not resumed: it is at work\./);
    const done = await start([step("a", { run: ["true"] })]);
    await driven(done.id);
    await refused(done.id, /is done; there is nothing to resume\./);
    const waiting = await start([step("a", { run: ["true"] })]);
    await refused(waiting.id, /is active, at step none; there is nothing to resume\./);
    const homeless = await start([step("a", { run: ["false"] })], { workspace: "dir" });
    await driven(homeless.id);
    rmSync(homeless.workspace, { recursive: true });
    await refused(homeless.id, /The workspace of pipeline .* no longer exists\./);
  });
});

test.each([
  ["ship", /That is a name. Its last pipelines: [0-9a-f]{8}\./],
  ["ffff", /Run: reprise pipeline list --all$/],
  ["x; rm -rf /", /`reprise pipeline list --all`/],
  ["", /`reprise pipeline list --all`/],
])("no pipeline matches %j", async (given, message) => {
  await start([]);
  await expect(selectPipeline({ ...deps }, given)).rejects.toThrow(message);
});

test("a prefix that fits two pipelines is refused with both", async () => {
  let n = 0;
  deps = { ...deps, newHandle: () => `abcd000${(n += 1)}` };
  await start([]);
  await start([]);
  await expect(selectPipeline(deps, "abcd")).rejects.toThrow("abcd fits 2 pipelines: abcd0001, abcd0002.");
  expect((await selectPipeline(deps, "abcd0002")).record.id).toBe("abcd0002");
});

async function document(id: string) {
  const found = await deps.store.getDocument("pipeline", id);
  if (found === null) throw new Error(`no pipeline ${id}`);
  return found;
}

async function until(happened: () => boolean): Promise<void> {
  const end = Date.now() + 20_000;
  while (!happened()) {
    if (Date.now() > end) throw new Error("never happened");
    await new Promise((wake) => setTimeout(wake, 10));
  }
}
