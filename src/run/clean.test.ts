import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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

/** A run that has ended, and what somebody does between the checks of its removal and each later look for its place. */
async function removeWhile(isolate: "dir" | null, act: (runDirectory: string) => void) {
  const deps = await testDeps(root);
  const like = runLike(1, { agentName: "demo", status: "completed" });
  const runDirectory = createRunDir(deps.state, like.runId) ?? "";
  const run = { ...like, runDirectory, escrow: null, launch: { ...like.launch, isolate } };
  saveRunFile(run);
  await deps.store.createRun(run);
  if (isolate !== null) mkdirSync(join(runDirectory, "work"));
  let isChecked = false;
  const state = new Proxy(deps.state, {
    get(target, name) {
      if (isChecked && name === "runsRoot") act(runDirectory);
      return Reflect.get(target, name);
    },
  });
  const alongside = async () => void (isChecked = true);
  const removed = removeRun({ ...deps, state }, run, { discardWork: false, alongside });
  const result = await removed.catch((error: unknown) => error);
  isChecked = false;
  return { deps, run, result };
}

test("a removal destroys no file that somebody writes into an empty directory after the check", async () => {
  const written: string[] = [];
  const { deps, run } = await removeWhile("dir", (runDirectory) => {
    const name = `precious-${written.length}`;
    try {
      writeFileSync(join(runDirectory, "work", name), "precious");
      written.push(name);
    } catch {
      // The directory is gone, and the writer knows it.
    }
  });
  const places = ["runs", "trash"].map((name) => join(deps.state.root, name, run.runId, "work"));
  const lost = written.filter((name) => !places.some((place) => existsSync(join(place, name))));
  expect(lost).toEqual([]);
});

test.each(["dir", null] as const)(
  "a file that somebody writes beside the records after the check stays, and so does its run (isolate: %s)",
  async (isolate) => {
    const { deps, run, result } = await removeWhile(isolate, (runDirectory) =>
      writeFileSync(join(runDirectory, "precious"), "precious"),
    );
    const path = join(run.runDirectory, "precious");
    expect(result).toMatchObject({ code: "work_unsaved", message: expect.stringContaining(path) });
    expect(readFileSync(path, "utf8")).toBe("precious");
    expect(await deps.store.getRun(run.runId)).not.toBeNull();
  },
);

test.each(["dir", "worktree"] as const)(
  "a file in the place of the directory stays (isolate: %s)",
  async (isolate) => {
    const deps = await testDeps(root);
    const like = runLike(1, { agentName: "demo", status: "completed" });
    const runDirectory = createRunDir(deps.state, like.runId) ?? "";
    const run = { ...like, runDirectory, escrow: null, launch: { ...like.launch, isolate } };
    saveRunFile(run);
    await deps.store.createRun(run);
    const file = join(runDirectory, isolate === "dir" ? "work" : "worktree");
    writeFileSync(file, "precious");
    await expect(removeRun(deps, run, { discardWork: false })).rejects.toMatchObject({
      code: "work_unsaved",
    });
    expect(readFileSync(file, "utf8")).toBe("precious");
  },
);
