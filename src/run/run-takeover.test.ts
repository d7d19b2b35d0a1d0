/** A run whose owner dies between being looked up and being held. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { createAttemptDir, createRunDir, saveAttemptFile, saveRunFile } from "../state/runs.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import { type ResumeRequest, resumeRun } from "./run.ts";

test("a takeover records the attempt as interrupted before the next one begins", async () => {
  const root = mkdtempSync(join(tmpdir(), "reprise-takeover-"));
  const deps = await testDeps(root);
  const like = runLike(1, { agentName: "demo", status: "running", attempts: 1 });
  const run = { ...like, runDirectory: createRunDir(deps.state, like.runId) ?? "", escrow: null };
  const owner = { ...deps.processes.self(), pid: 4_000_000, machine: deps.machine, renewedAtMs: Date.now() };
  const attempt = attemptLike(run, 1, { state: "running", owner, outcome: null, endedAt: null });
  createAttemptDir(run.runDirectory, 1);
  saveAttemptFile(run.runDirectory, attempt);
  saveRunFile(run);
  await deps.store.createRun(run);
  await deps.store.saveAttempt(attempt);
  await deps.store.acquireLease(`run:${run.runId}`, owner, () => false);
  // The owner lives while the run is looked up, and is dead when the run must be held.
  let looks = 2;
  const isAlive = () => (looks -= 1) >= 0;
  const dying = { ...deps, processes: { ...deps.processes, isAlive } };
  const request: ResumeRequest = {
    ...{ selector: run.runId, want: "resume", message: "go on", native: [], env: [], damage: "refuse" },
    ...{ mode: "auto", limits: { idleMs: null, toolMs: null, totalMs: null }, terminal: null },
    ...{ keep: false, hasTerminal: false, trustCwd: false },
  };
  await resumeRun(dying, request, {} as never).catch(() => {});
  expect(looks).toBeLessThan(0);
  expect((await deps.store.listAttempts(run.runId))[0]).toMatchObject({
    state: "ended",
    outcome: { result: "interrupted" },
  });
  rmSync(root, { recursive: true });
});
