/** Leftovers of an attempt, and what stop and resume do about them: end them, or name them and refuse. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { attemptLike, hold, runLike } from "../../test/contracts/store-samples.ts";
import { testDeps } from "../../test/deps.ts";
import type { Stray } from "../core/deps.ts";
import type { ProcessIdentity, RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";
import { runLeaseKey } from "../store/store.ts";
import { assertReachable, endLeftBehind, endStrays, findLeft, stopRun } from "./stop.ts";

const AGENT: ProcessIdentity = { pid: 4711, start: "9", boot: "b", space: "s", autogroup: "/autogroup-3" };
const stray = (standing: Stray["standing"]): Stray => ({ identity: { ...AGENT, pid: 4712 }, standing });

let root: string;
let run: RunRecord;
let deps: Deps;
let strays: readonly Stray[];
let ended: unknown[];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-stop-"));
  const plain = await testDeps(root);
  [strays, ended] = [[], []];
  deps = {
    ...plain,
    processes: {
      ...plain.processes,
      // Only the agent that was recorded leads to what it left.
      findStrays: (_marker, agent) => (agent?.pid === AGENT.pid ? strays : []),
      endTree: async (agent) => {
        ended.push(agent?.pid);
        const denied = strays.filter(({ standing }) => standing === "denied");
        return { survivors: denied.map(({ identity }) => identity.pid) };
      },
    },
  };
  const runDirectory = join(plain.state.runsRoot, runLike(1).runId);
  run = runLike(1, { status: "interrupted", attempts: 2, runDirectory });
  mkdirSync(join(runDirectory, "attempts", "2"), { recursive: true });
  writeFileSync(join(runDirectory, "attempts", "2", "agent.lock"), "");
  await deps.store.createRun(run);
  const fence = await hold(deps.store, run);
  await deps.store.createAttempt(attemptLike(run, 2, { agent: AGENT }), fence);
  await deps.store.releaseLease(runLeaseKey(run.runId), fence);
});
afterEach(() => rmSync(root, { recursive: true }));

const busy = (code: string, text: string) => ({ code, message: expect.stringContaining(text) });

describe("a process in the session of a recorded agent", () => {
  test("is ended by stop, rm and resume where that is allowed", async () => {
    strays = [stray("ours")];
    expect(await findLeft(deps, run)).toEqual([4712]);
    expect(await endStrays(deps, run)).toBe(1);
    await endLeftBehind(deps, run);
    expect(ended).toEqual([AGENT.pid, AGENT.pid]);
  });

  test("is named and refused when it runs as another user", async () => {
    strays = [stray("denied")];
    await expect(endStrays(deps, run)).rejects.toMatchObject(busy("run_busy", "sudo kill 4712"));
    await expect(endLeftBehind(deps, run)).rejects.toMatchObject(busy("session_busy", "sudo kill 4712"));
  });

  test("is never signalled if it may be a stranger's, and the user's word that it is foreign is enough", async () => {
    strays = [stray("doubtful")];
    await expect(endStrays(deps, run)).rejects.toMatchObject(busy("run_busy", "kill 4712"));
    await expect(endLeftBehind(deps, run)).rejects.toMatchObject(
      busy("session_busy", `reprise stop ${run.handle} --owner-gone`),
    );
    expect(ended).toEqual([]);
    await stopRun(deps, run.handle, () => {}, { ownerGone: true });
    await endLeftBehind(deps, run);
    expect([await findLeft(deps, run), ended]).toEqual([[], []]);
  });

  test("stays after a completed turn", async () => {
    strays = [stray("ours")];
    await endLeftBehind(deps, { ...run, status: "completed" });
    expect(ended).toEqual([]);
  });
});

test("an agent that runs as another user is out of reach, whether its owner lives or not; its tools get no signal", async () => {
  strays = [stray("denied")];
  await expect(assertReachable(deps, run)).rejects.toMatchObject(busy("run_busy", "sudo kill 4712"));
  const owner = { ...deps.processes.self(), machine: "m", renewedAtMs: 0 };
  await deps.store.acquireLease(runLeaseKey(run.runId), owner, () => true);
  await assertReachable(deps, run);
  strays = [{ identity: AGENT, standing: "denied" }];
  await expect(assertReachable(deps, run)).rejects.toMatchObject(busy("run_busy", "sudo kill 4711"));
});

test("an owner whose agent cannot be ended gets a request, and is not killed", async () => {
  strays = [stray("denied")];
  const owner = { ...deps.processes.self(), machine: "m", renewedAtMs: 0 };
  await deps.store.acquireLease(runLeaseKey(run.runId), owner, () => true);
  const signals: string[] = [];
  let now = 0;
  const patient: Deps = {
    ...deps,
    clock: { ...deps.clock, mono: () => (now += 5_000) },
    processes: { ...deps.processes, signal: (_, name) => signals.push(name) > 0 },
  };
  await expect(stopRun(patient, run.handle, () => {})).rejects.toMatchObject(
    busy("run_busy", "sudo kill 4712"),
  );
  expect(signals).toEqual(["SIGINT"]);
});
