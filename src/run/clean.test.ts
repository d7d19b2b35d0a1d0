import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { createRunDir, saveRunFile } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { runLike } from "../../test/contracts/store-samples.ts";
import { removeRun } from "./clean.ts";
import type { Deps } from "./deps.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reprise-clean-"));
});
afterEach(() => rmSync(root, { recursive: true }));

/** A run that has ended, and an index that is full as often as `times` says when the run is taken out of it. */
async function runOnFullDisk(times: number): Promise<{ readonly deps: Deps; readonly run: RunRecord }> {
  const deps = await testDeps(root);
  const like = runLike(1, { agentName: "demo", status: "completed" });
  const run = { ...like, runDirectory: createRunDir(deps.state, like.runId) ?? "", escrow: null };
  saveRunFile(run);
  await deps.store.createRun(run);
  let refusals = times;
  const deleteRun: Deps["store"]["deleteRun"] = async (runId) => {
    refusals -= 1;
    if (refusals >= 0)
      throw new Fault("storage_full", "No room to write index.db. Free some space and try again.");
    await deps.store.deleteRun(runId);
  };
  return { deps: { ...deps, store: { ...deps.store, deleteRun } }, run };
}

test("a removal that finds no room for the index uses the reserve", async () => {
  const { deps, run } = await runOnFullDisk(1);
  await removeRun(deps, run, { discardWork: false });
  expect(await deps.store.getRun(run.runId)).toBeNull();
  expect(existsSync(join(deps.state.root, "reserve"))).toBe(false);
});

test("a removal that cannot change the index says that the directory is gone, and rm finishes it", async () => {
  const { deps, run } = await runOnFullDisk(2);
  const refused = await removeRun(deps, run, { discardWork: false }).catch((error: unknown) => error);
  expect(existsSync(run.runDirectory)).toBe(false);
  expect(refused).toMatchObject({
    code: "storage_full",
    message: expect.stringMatching(
      new RegExp(
        `directory of run ${run.handle} is removed, but the index still lists the run: .*reprise rm ${run.handle}`,
      ),
    ),
  });
  await removeRun(deps, run, { discardWork: false });
  expect(await deps.store.getRun(run.runId)).toBeNull();
});
