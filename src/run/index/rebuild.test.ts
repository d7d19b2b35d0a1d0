import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openState, type StateDir } from "../../state/directory.ts";
import { generationMark } from "../../state/generation.ts";
import {
  createAttemptDir,
  createRunDir,
  saveAgentFile,
  saveAttemptFile,
  saveRunFile,
} from "../../state/runs.ts";
import type { Processes, OwnerState } from "../../core/deps.ts";
import type { AttemptRecord, ProcessIdentity, RunRecord } from "../../core/records.ts";
import type { AgentRecord } from "../../core/supervision.ts";
import { openStore, runLeaseKey, type Store } from "../../store/store.ts";
import { sessionKey } from "../leases.ts";
import type { Deps } from "../deps.ts";
import { rebuildIndex } from "./rebuild.ts";
import { catchUp, isBehind } from "./catch-up.ts";
import { areRuns, forsakeUnindexed } from "./unindexed.ts";

const owner: ProcessIdentity = { pid: 4_000_000, start: "1", boot: "b", space: "s" };
const at = "2026-11-15T05:00:00.000Z";

let root: string;
let state: StateDir;
let warnings: string[];
const log = { warn: (message: string) => void warnings.push(message), info: () => {} };

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-rebuild-")));
  state = await openState(join(root, "state"));
  warnings = [];
});
afterEach(() => rmSync(root, { recursive: true }));

/** Only what a rebuild asks: who am I, and does that owner live? */
function processes(alive: boolean, examined: OwnerState = "lives"): Processes {
  const refuse = () => {
    throw new Error("not asked by a rebuild");
  };
  const self = () => ({ pid: process.pid, start: "9", boot: "b", space: "s" });
  return {
    self,
    owner: self,
    isAlive: () => alive,
    examine: () => (alive ? examined : "gone"),
    identify: refuse,
    signal: refuse,
    findMarked: refuse,
    findMarkedBy: refuse,
    findStrays: refuse,
    endTree: refuse,
    resolveProgram: refuse,
    runTool: refuse,
  };
}

function makeRun(handle: string, status: RunRecord["status"], attempts: number): RunRecord {
  const runId = `20261115T050000Z-demo-${handle}`;
  const runDirectory = createRunDir(state, runId) ?? "";
  const session = { value: "s-1", source: "stdout", at, attempt: 1, verifiedAt: at } as const;
  const run: RunRecord = {
    v: 1,
    handle,
    runId,
    runDirectory,
    agentName: "demo",
    session: { field: "session_id", value: "s-1", source: "stdout", verifiedAt: at },
    sessions: [session],
    launch: {
      args: [],
      given: [],
      redacted: [],
      env: [],
      rights: [],
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      program: "/bin/demo",
      version: null,
      message: "hi",
    },
    cwd: "/",
    engineHome: null,
    status,
    attempts,
    subject: null,
    name: null,
    escrow: null,
    createdAt: at,
    updatedAt: at,
  };
  saveRunFile(run);
  for (let n = 1; n <= attempts; n += 1) {
    createAttemptDir(runDirectory, n);
    saveAttemptFile(runDirectory, makeAttempt(runId, n));
  }
  return run;
}

function makeAttempt(runId: string, n: number): AttemptRecord {
  return {
    v: 1,
    runId,
    n,
    kind: n === 1 ? "start" : "resume",
    state: "running",
    mode: "pipe",
    interactive: false,
    program: "/bin/demo",
    args: [],
    native: [],
    cwd: "/",
    message: "hi",
    owner,
    agent: null,
    asked: null,
    reported: [],
    engineVersion: null,
    startedAt: at,
    endedAt: null,
    exit: null,
    outcome: null,
    tokens: null,
    bytes: { stdout: 0, stderr: 0 },
    diagnostics: [],
  };
}

function makeAgent(run: RunRecord, phase: AgentRecord["phase"]): AgentRecord {
  const policy = {
    on: { idle: [], dead: [], error: [], prompt: [] },
    idleAfterMs: 60_000,
    maxAttempts: null,
  };
  const agent: AgentRecord = {
    v: 1,
    id: run.handle,
    runId: run.runId,
    definition: {
      name: "worker",
      engine: "demo",
      args: [],
      mode: "headless",
      prompt: "hi",
      cwd: "/",
      env: [],
      policy,
    },
    runbook: { path: "/a.toml", sha256: "00" },
    vars: {},
    phase,
    reason: null,
    pipeline: null,
    createdAt: at,
    endedAt: phase === "active" ? null : at,
  };
  saveAgentFile(run.runDirectory, agent);
  return agent;
}

const asides = () => readdirSync(state.root).filter((name) => name.includes(".damaged-"));
const leftovers = () => readdirSync(state.root).filter((name) => name.startsWith(".tmp-"));

test("runs and attempts come back from their directories; damaged ones are named and left", async () => {
  const one = makeRun("00000001", "completed", 2);
  const two = makeRun("00000002", "failed", 2);
  const three = makeRun("00000003", "failed", 1);
  writeFileSync(join(two.runDirectory, "attempts/2/meta.json"), "{");
  writeFileSync(join(three.runDirectory, "run.json"), "{");
  mkdirSync(join(state.runsRoot, "not-a-run"));
  const bare = join(state.runsRoot, "20261115T050000Z-demo-00000004");
  mkdirSync(bare);
  writeFileSync(state.indexPath, "no database ".repeat(1_000));

  const rebuilt = await rebuildIndex(state, openStore, log, processes(false));

  expect(rebuilt).toEqual({ runs: 2, skipped: 3, setAside: expect.stringContaining(".damaged-") });
  expect(asides()).toHaveLength(1);
  expect(leftovers()).toEqual([]);
  await using store = await openStore(state.indexPath);
  expect((await store.listRuns({})).map((run) => run.handle).toSorted()).toEqual(["00000001", "00000002"]);
  expect(await store.getRun(one.runId)).toEqual(one);
  expect((await store.listAttempts(one.runId)).map(({ n }) => n)).toEqual([1, 2]);
  expect((await store.listAttempts(two.runId)).map(({ n }) => n)).toEqual([1]);
  expect(await store.verify()).toEqual([]);
  const all = warnings.join("\n");
  for (const path of ["attempts/2/meta.json", `${three.runDirectory}/run.json`, "not-a-run"])
    expect(all).toContain(path);
  expect(warnings).toContain(`skipped ${bare}: it has no run.json.`);
  expect(all).toContain(`skipped ${three.runDirectory}: ${three.runDirectory}/run.json cannot be used`);
});

test.each([
  ["without", () => {}],
  ["with an empty", () => writeFileSync(state.indexPath, "")],
])("%s old index nothing is set aside", async (_name, make) => {
  makeRun("00000001", "completed", 1);
  make();
  expect(await rebuildIndex(state, openStore, log, processes(false))).toEqual({
    runs: 1,
    skipped: 0,
    setAside: null,
  });
  expect(asides()).toEqual([]);
});

test("a damaged index is replaced even if no run exists", async () => {
  writeFileSync(state.indexPath, "no database ".repeat(1_000));
  expect(await rebuildIndex(state, openStore, log, processes(false))).toMatchObject({ runs: 0, skipped: 0 });
  await using store = await openStore(state.indexPath);
  expect(await store.listRuns({})).toEqual([]);
});

test.each([
  ["damaged", () => writeFileSync(state.indexPath, "no database ".repeat(1_000))],
  ["gone", () => {}],
])("an index that was %s is left to the faster process", async (_how, spoil) => {
  makeRun("00000001", "completed", 1);
  const later = makeRun("00000002", "completed", 1);
  spoil();
  const other = join(root, "other.db");
  {
    await using store = await openStore(other);
    await store.createRun({ ...later, name: "of the faster one" });
  }
  const open = async (path: string) => {
    if (existsSync(other) && path !== state.indexPath) renameSync(other, state.indexPath);
    return openStore(path);
  };
  expect(await rebuildIndex(state, open, log, processes(false))).toMatchObject({ setAside: null });
  expect({ asides: asides(), leftovers: leftovers() }).toEqual({ asides: [], leftovers: [] });
  await using store = await openStore(state.indexPath);
  expect((await store.listRuns({})).map(({ name }) => name)).toEqual(["of the faster one"]);
});

test("two damaged indexes within one second are both kept", async () => {
  makeRun("00000001", "completed", 1);
  const texts = ["one", "two", "three"].map((word) => `no database ${word} `.repeat(1_000));
  for (const text of texts) {
    writeFileSync(state.indexPath, text);
    vi.useFakeTimers({ now: Date.parse(at), toFake: ["Date"] });
    try {
      await rebuildIndex(state, openStore, log, processes(false));
    } finally {
      vi.useRealTimers();
    }
  }
  expect(
    asides()
      .map((name) => readFileSync(join(state.root, name), "utf8"))
      .toSorted(),
  ).toEqual(texts.toSorted());
});

test("a live owner keeps its leases and its fence, and continues writing through its open connection", async () => {
  const run = makeRun("00000001", "running", 1);
  await using old = await openStore(state.indexPath);
  await old.createRun(run);
  const me = { ...owner, machine: "m", renewedAtMs: 1 };
  const dead = { ...me, pid: 77 };
  await old.acquireLease(runLeaseKey(run.runId), dead, () => false);
  const held = await old.acquireLease(runLeaseKey(run.runId), me, () => false);
  await old.acquireLease(sessionKey("demo", "s-1"), me, () => false);
  expect(held).toMatchObject({ held: true, lease: { fence: 2 } });

  expect(await rebuildIndex(state, openStore, log, processes(true))).toMatchObject({ runs: 1, skipped: 0 });

  await old.saveRun({ ...run, name: "still mine" }, 2);
  await using store = await openStore(state.indexPath);
  expect((await store.getRun(run.runId))?.name).toBe("still mine");
  expect(await store.getLease(runLeaseKey(run.runId))).toEqual({
    key: runLeaseKey(run.runId),
    fence: 2,
    owner: me,
  });
  expect(await store.getLease(sessionKey("demo", "s-1"))).toMatchObject({ fence: 1, owner: me });
});

test.each([
  ["damaged", "no database ".repeat(1_000)],
  ["gone", ""],
])("leases of an index that is %s stop the rebuild while their owner lives", async (how, text) => {
  makeRun("00000001", "running", 1);
  writeFileSync(state.indexPath, text);
  await expect(rebuildIndex(state, openStore, log, processes(true))).rejects.toMatchObject({
    code: "index_damaged",
    message: expect.stringContaining(` is ${how}, and run 00000001 is live`),
    facts: { handle: "00000001", pid: owner.pid },
  });
  expect(asides()).toEqual([]);
  expect(await rebuildIndex(state, openStore, log, processes(false))).toMatchObject({ runs: 1 });
});

test("the user's word about an unknown owner is kept for the next rebuild, and no word about a live owner", async () => {
  for (const handle of ["00000001", "00000002"]) makeRun(handle, "running", 1);
  const doubt = processes(true, "doubt");
  const refused = (handle: string) =>
    expect.objectContaining({
      message: expect.stringMatching(`run ${handle} may be live .*reprise stop ${handle} --owner-gone`),
    });
  await expect(rebuildIndex(state, openStore, log, doubt)).rejects.toEqual(refused("00000001"));
  expect(await forsakeUnindexed(state, "00000001", processes(true))).toBe(false);
  expect(await forsakeUnindexed(state, "0000000", doubt), "two are meant").toBe(false);
  expect(await forsakeUnindexed(state, "00000001", doubt)).toBe(true);
  await expect(rebuildIndex(state, openStore, log, doubt)).rejects.toEqual(refused("00000002"));
  expect(await forsakeUnindexed(state, "00000002", doubt)).toBe(true);
  await expect(rebuildIndex(state, openStore, log, processes(true))).rejects.toThrow("is live");
  expect(await rebuildIndex(state, openStore, log, doubt)).toMatchObject({ runs: 2 });
});

test("a directory shows a run that the index lacks only where a run can be made of it", async () => {
  const { runId } = makeRun("00000001", "completed", 1);
  const bad = makeRun("00000002", "completed", 1);
  writeFileSync(join(bad.runDirectory, "run.json"), "{");
  expect(await areRuns(state, [bad.runId, "20261115T050000Z-demo-00000003"])).toBe(false);
  expect(await areRuns(state, [bad.runId, runId])).toBe(true);
});

test("agents come back with their phase, from their directories alone", async () => {
  const active = makeAgent(makeRun("00000001", "interrupted", 1), "active");
  const done = makeAgent(makeRun("00000002", "completed", 1), "done");
  const bad = makeRun("00000003", "completed", 1);
  writeFileSync(join(bad.runDirectory, "agent.json"), "{");
  writeFileSync(state.indexPath, "no database ".repeat(1_000));

  expect(await rebuildIndex(state, openStore, log, processes(false))).toMatchObject({ runs: 3, skipped: 0 });

  await using store = await openStore(state.indexPath);
  expect(await store.listDocuments("agent")).toEqual([
    { kind: "agent", id: "00000001", open: true, version: 1, data: active },
    { kind: "agent", id: "00000002", open: false, version: 1, data: done },
  ]);
  expect(warnings.join("\n")).toContain(`${bad.runDirectory}/agent.json`);
});

test("decisions, pipelines and the log are kept, and the run directory wins for agents", async () => {
  const run = makeRun("00000001", "interrupted", 1);
  const torn = makeRun("00000002", "interrupted", 1);
  const agent = makeAgent(run, "failed");
  const event = (runId: string, n: number) => ({
    runId,
    attempt: 1,
    kind: "decided",
    at,
    key: `${runId}/1/dead/0/${n}`,
    payload: { n },
  });
  {
    await using old = await openStore(state.indexPath);
    await old.saveDocument({ kind: "agent", id: run.handle, open: true, data: { v: 1 } }, null);
    await old.saveDocument({ kind: "decision", id: "00000001-1", open: true, data: { v: 1 } }, null);
    await old.saveDocument({ kind: "pipeline", id: "p", open: false, data: { v: 1, later: [1] } }, null);
    for (const n of [1, 2]) await old.appendEvent(event(run.runId, n));
    await old.appendEvent(event(torn.runId, 1));
  }
  const db = new DatabaseSync(state.indexPath);
  db.exec(`UPDATE events SET payload = '{}' WHERE run_id = '${torn.runId}'`);
  db.close();

  expect(await rebuildIndex(state, openStore, log, processes(false))).toMatchObject({ runs: 2, skipped: 0 });

  await using store = await openStore(state.indexPath);
  expect(await store.getDocument("agent", run.handle)).toMatchObject({ open: false, data: agent });
  expect(await store.getDocument("decision", "00000001-1")).toMatchObject({ open: true, data: { v: 1 } });
  expect((await store.listDocuments("pipeline", { open: false })).map(({ data }) => data)).toEqual([
    { v: 1, later: [1] },
  ]);
  expect((await store.listEvents(run.runId)).map(({ payload }) => payload)).toEqual([{ n: 1 }, { n: 2 }]);
  expect(await store.appendEvent(event(run.runId, 2))).toBeNull();
  expect(await store.listEvents(torn.runId)).toEqual([]);
  expect(warnings.join("\n")).toContain("event 3 of run");
  expect(await store.verify()).toEqual([]);
});

let processIds = 0;

/** Each is another process: a store as `setup.ts` opens it, and what a repair asks of the world. */
function depsWith(store: Store, alive = false): Deps {
  processIds += 1;
  const self = { pid: process.pid, start: String(processIds), boot: "b", space: "s" };
  const clock = { now: () => Date.parse(at) + 60_000, mono: () => 0 };
  const part = {
    state,
    store,
    log,
    processes: { ...processes(alive), self: () => self, owner: () => self },
    clock,
    env: {},
    machine: "m",
  };
  return part as unknown as Deps;
}

const openIndex = () => openStore(state.indexPath, { mark: generationMark(state.root) });

/** An index as it was before `since` happened, with the generation of after it. */
async function putBack(before: (store: Store) => Promise<void>, since: () => void): Promise<void> {
  {
    await using store = await openIndex();
    await before(store);
  }
  since();
  const mark = generationMark(state.root);
  mark.raise(mark.read(), mark.read() + 5);
}

test("an older index takes over the runs of the directories, forgets removed ones, and is trusted only then", async () => {
  const old = makeRun("0000000a", "completed", 1);
  const gone = makeRun("0000000b", "completed", 1);
  await putBack(
    async (store) => {
      for (const run of [old, gone]) await store.createRun(run);
      for (const run of [old, gone]) await store.saveAttempt(makeAttempt(run.runId, 1));
    },
    () => {
      rmSync(gone.runDirectory, { recursive: true });
      const later = { ...old, attempts: 2, name: "later", updatedAt: "2026-11-15T06:00:00.000Z" };
      saveRunFile(later);
      createAttemptDir(old.runDirectory, 2);
      saveAttemptFile(old.runDirectory, makeAttempt(old.runId, 2));
      makeRun("0000000c", "failed", 0);
    },
  );
  await using store = await openIndex();
  expect(await catchUp(depsWith(store))).toMatch(/2 runs brought up to date, 1 removed run left out\.$/);
  const runs = await store.listRuns({});
  expect(runs.map(({ handle, attempts, name }) => [handle, attempts, name])).toEqual([
    ["0000000c", 0, null],
    ["0000000a", 2, "later"],
  ]);
  expect((await store.listAttempts(old.runId)).map(({ n }) => n)).toEqual([1, 2]);
  expect(await store.generation()).toBe(generationMark(state.root).read());
  expect(await catchUp(depsWith(store))).toContain("0 runs brought up to date, 0 removed runs");
});

test("a repair that is cut off anywhere is begun again by the next command, with the same result", async () => {
  await putBack(
    async () => {},
    () => {
      for (const handle of ["0000000a", "0000000b", "0000000c"]) makeRun(handle, "completed", 2);
    },
  );
  const noted = generationMark(state.root).read();
  for (let writes = 0; ; writes += 1) {
    await using store = await openIndex();
    let left = writes;
    const dies = new Proxy(store, {
      get(target, name: keyof Store) {
        const verb = target[name];
        if (!["createRun", "saveAttempt", "acquireLease", "releaseLease"].includes(String(name))) return verb;
        return (...args: unknown[]) => {
          left -= 1;
          if (left < 0) throw new Error("killed");
          return (verb as (...all: unknown[]) => unknown)(...args);
        };
      },
    });
    try {
      await catchUp(depsWith(dies));
      break;
    } catch (error) {
      if (!(error instanceof Error) || error.message !== "killed") throw error;
      expect(await store.generation()).toBeLessThan(noted);
    }
  }
  await using store = await openIndex();
  expect((await store.listRuns({})).map(({ attempts }) => attempts)).toEqual([2, 2, 2]);
});

test("two processes that repair one index at once leave the result of one", async () => {
  await putBack(
    async () => {},
    () => {
      for (const handle of ["0000000a", "0000000b", "0000000c"]) makeRun(handle, "completed", 2);
    },
  );
  await using one = await openIndex();
  await using other = await openIndex();
  await Promise.all([catchUp(depsWith(one)), catchUp(depsWith(other))]);
  expect((await one.listRuns({})).map(({ attempts }) => attempts)).toEqual([2, 2, 2]);
  expect(await one.generation()).toBe(generationMark(state.root).read());
});

test("an older index learns who works on a run, so that no other process begins", async () => {
  const run = makeRun("0000000a", "running", 1);
  saveAttemptFile(run.runDirectory, { ...makeAttempt(run.runId, 1), state: "running", owner });
  await putBack(
    async () => {},
    () => {},
  );
  const mark = generationMark(state.root);
  mark.raise(0, 5);
  await using store = await openIndex();
  await catchUp(depsWith(store, true));
  expect((await store.getLease(runLeaseKey(run.runId)))?.owner).toMatchObject(owner);
  expect((await store.getLease(sessionKey("demo", "s-1")))?.owner).toMatchObject(owner);
});

test("an older index is trusted again while an owner keeps one of its runs up to date", async () => {
  const run = makeRun("0000000a", "running", 1);
  await putBack(
    async (store) => {
      await store.createRun({ ...run, updatedAt: "2026-11-15T04:00:00.000Z" });
      await store.acquireLease(
        runLeaseKey(run.runId),
        { ...owner, machine: "m", renewedAtMs: 0 },
        () => true,
      );
    },
    () => {},
  );
  await using store = await openIndex();
  expect(await catchUp(depsWith(store, true))).toContain("0 runs brought up to date");
  expect(await store.generation()).toBe(generationMark(state.root).read());
});

test("an agent follows its own file, does not start again without its run, and unknown facts are reported", async () => {
  const done = makeRun("0000000a", "completed", 1);
  const active = makeAgent(done, "active");
  const nowhere = { ...active, id: "0000000b", runId: "20261115T050000Z-demo-0000000b" };
  await putBack(
    async (store) => {
      await store.createRun(done);
      for (const agent of [active, nowhere])
        await store.saveDocument({ kind: "agent", id: agent.id, open: true, data: { ...agent } }, null);
    },
    () => void makeAgent(done, "done"),
  );
  await using store = await openIndex();
  expect(await catchUp(depsWith(store))).toContain("as old as it is");
  expect(await store.listDocuments("agent", { open: true })).toEqual([]);
  expect((await store.getDocument("agent", "0000000a"))?.data).toMatchObject({ phase: "done" });
  expect((await store.getDocument("agent", "0000000b"))?.data).toMatchObject({ phase: "failed" });
});

test.each<[what: string, row: Partial<RunRecord> | null, file: Partial<RunRecord>, behind: boolean]>([
  ["lacks the run", null, {}, true],
  ["agrees", {}, {}, false],
  ["agrees but for where the directory is", { runDirectory: "/moved" }, {}, false],
  ["lacks an attempt", { attempts: 1 }, { attempts: 2 }, true],
  ["has an attempt that has no directory yet", { attempts: 3, status: "running" }, { attempts: 2 }, false],
  ["is older", { updatedAt: "2026-11-15T04:00:00.000Z", name: "x" }, {}, true],
  ["differs at the same stamp: the file is written first", { name: "x" }, {}, true],
  ["is newer than a file that was put back", { updatedAt: "2026-11-15T06:00:00.000Z" }, {}, false],
])("an index that %s", (_what, row, file, behind) => {
  const run = makeRun("0000000a", "completed", 2);
  expect(isBehind(row === null ? null : { ...run, ...row }, { ...run, ...file })).toBe(behind);
});
