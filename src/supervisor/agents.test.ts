/** Agents that were stopped by somebody who died at it, with real processes in the place of their holders. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { agentLike } from "../../test/supervision.ts";
import type { AgentPhase } from "../core/supervision.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import { finishStart, finishStops, getAgent, stopAgent } from "./agents.ts";

const root = mkdtempSync(join(tmpdir(), "reprise-agents-"));
afterAll(() => rmSync(root, { recursive: true }));
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();

/** Its run has a live owner and one attempt, begun in second 5. */
async function alive(deps: TestDeps, n: number, phase: AgentPhase, endedAt: string): Promise<ChildProcess> {
  const run = runLike(n, { runDirectory: join(root, "gone"), attempts: 1 });
  const agent = { ...agentLike({ phase }), id: run.handle, runId: run.runId, endedAt };
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  children.push(child);
  await once(child, "spawn");
  const owner = deps.processes.identify(child.pid ?? 0);
  if (owner === null) throw new Error("no such process");
  await deps.store.createRun(run);
  const lease = { ...owner, machine: deps.machine, renewedAtMs: deps.clock.now() };
  await deps.store.acquireLease(`run:${run.runId}`, lease, () => false);
  await deps.store.saveAttempt(attemptLike(run, 1, { state: "running", owner, startedAt: at(5) }));
  const open = phase === "active";
  await deps.store.saveDocument({ kind: "agent", id: agent.id, open, data: { ...agent } }, null);
  return child;
}

test("a process that was begun before its agent was stopped is ended, and no other", async () => {
  const deps = await testDeps(root);
  const stopped = await alive(deps, 1, "stopped", at(9));
  const others = [await alive(deps, 2, "stopped", at(1)), await alive(deps, 3, "active", at(9))];
  const ended = once(stopped, "exit");
  await finishStops(deps);
  expect((await ended)[1]).toBe("SIGINT");
  expect(others.map(({ signalCode }) => signalCode)).toEqual([null, null]);
  const runs = await deps.store.listRuns({ limit: 9 });
  expect(runs.map(({ status }) => status)).toEqual(["running", "running", "interrupted"]);
});

test("a stop that does not reach the agent's process is refused, and the agent stays supervised", async () => {
  const deps = await testDeps(root);
  const child = await alive(deps, 1, "active", at(9));
  const { handle } = runLike(1);
  const self = { ...deps.processes.self(), space: "another" };
  const elsewhere = {
    ...deps,
    processes: { ...deps.processes, self: () => self, signal: () => false, examine: () => "lives" as const },
  };
  await expect(stopAgent(elsewhere, handle)).rejects.toMatchObject({ code: "run_busy" });
  expect((await getAgent(deps, handle))?.record).toMatchObject({ phase: "active", reason: null });
  expect(child.signalCode).toBeNull();
  expect(await stopAgent(deps, handle)).toBe(true);
  expect((await getAgent(deps, handle))?.record.phase).toBe("stopped");
});

test("an agent whose option held a secret is not started by a process that has only the record", async () => {
  const deps = await testDeps(root);
  const agent = agentLike({ phase: "active" });
  const record = { ...agent, definition: { ...agent.definition, args: ["--api-key", "[redacted]"] } };
  await deps.store.saveDocument({ kind: "agent", id: agent.id, open: true, data: { ...record } }, null);
  expect(await finishStart(deps, record)).toBe(false);
  expect((await getAgent(deps, agent.id))?.record).toMatchObject({
    phase: "failed",
    reason: expect.stringContaining("an option contained a secret, which Reprise does not store"),
  });
});
