import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openState, type StateDir } from "../../state/directory.ts";
import { createAttemptDir, createRunDir, saveAttemptFile, saveRunFile } from "../../state/runs.ts";
import type { RunRecord } from "../../core/records.ts";
import { attemptLike, runLike } from "../../../test/contracts/store-samples.ts";
import { memoryStore } from "../../../test/contracts/memory-store.ts";
import { checkRuns } from "./check-runs.ts";

const offer = async () => "reprise show";

let root: string;
let state: StateDir;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-check-"));
  state = await openState(join(root, "state"));
});
afterEach(() => rmSync(root, { recursive: true }));

function saved(n: number, change: Partial<RunRecord> = {}): RunRecord {
  const like = runLike(n, { status: "completed", attempts: 1, ...change });
  const run = { ...like, runDirectory: createRunDir(state, like.runId) ?? "", escrow: null };
  saveRunFile(run);
  createAttemptDir(run.runDirectory, 1);
  saveAttemptFile(run.runDirectory, attemptLike(run, 1, { state: "ended" }));
  return run;
}

test("doctor names attempts that only the index has", async () => {
  const run = saved(1);
  const store = memoryStore();
  await store.createRun(run);
  await store.saveAttempt(attemptLike(run, 1, { state: "ended" }));
  expect(await checkRuns({ state, store, offer }, [run], () => {})).toEqual([]);
  await store.saveAttempt(attemptLike(run, 2, { state: "intended" }));
  await store.saveAttempt(attemptLike(run, 3, { state: "ended" }));
  const note = (what: string) => ({ level: "note", about: "runs", what, todo: null });
  expect(await checkRuns({ state, store, offer }, [run], () => {})).toEqual([
    note(`attempt 2 of run ${run.handle} was recorded but never started`),
    note(`attempt 3 of run ${run.handle} has lost its directory`),
  ]);
});

test("a run whose owner died before its directory or record existed has lost nothing", async () => {
  const begun = { attempts: 0, status: "interrupted" as const };
  const session = { field: "session_id", value: null, source: null, verifiedAt: null } as const;
  const [bare, empty] = [runLike(1, { ...begun, session }), runLike(2, { ...begun, session })];
  createRunDir(state, empty.runId);
  const gone = runLike(3, { attempts: 1, status: "completed" });
  const found = await checkRuns({ state, store: memoryStore(), offer }, [bare, empty, gone], () => {});
  expect(found.map(({ level, what }) => [level, what])).toEqual([
    ["attention", `1 run has no run directory any more: ${gone.handle}`],
    ["note", `run ${empty.handle} was recorded but never started`],
    ["note", `run ${bare.handle} was recorded but never started`],
  ]);
});

test("a missing earlier copy is named even if the newest one is intact", async () => {
  const copy = { file: `${"0".repeat(64)}-s`, restoreTo: "s", size: 3, sha256: "0".repeat(64) };
  const run = saved(1, {
    kept: [{ session: "earlier", files: [copy], takenAt: "2026-01-01T00:00:00.000Z" }],
  });
  const store = memoryStore();
  await store.createRun(run);
  await store.saveAttempt(attemptLike(run, 1, { state: "ended" }));
  const [found, ...more] = await checkRuns({ state, store, offer }, [run], () => {});
  expect(found).toMatchObject({ level: "attention", todo: `reprise show ${run.handle}` });
  expect(found?.what).toContain(`run ${run.handle}: an earlier copy, of session earlier, is damaged`);
  expect(more).toEqual([]);
});

test("a live run is left to its owner", async () => {
  const run = saved(1, { status: "running" });
  expect(await checkRuns({ state, store: memoryStore(), offer }, [run], () => {})).toEqual([]);
});

test("a record that is older than the index and names another session is found", async () => {
  const run = saved(1);
  const store = memoryStore();
  const newer = {
    ...run,
    updatedAt: "2999-01-01T00:00:00.000Z",
    session: { ...run.session, value: "another" },
  };
  await store.createRun(newer);
  await store.saveAttempt(attemptLike(run, 1, { state: "ended" }));
  expect(await checkRuns({ state, store, offer }, [newer], () => {})).toEqual([
    expect.objectContaining({ level: "attention", todo: `reprise show ${run.handle}` }),
  ]);
});

test("many findings are counted, not listed", async () => {
  const store = memoryStore();
  const runs: RunRecord[] = [];
  for (let n = 1; n <= 25; n += 1) {
    const run = saved(n);
    runs.push(run);
    await store.createRun(run);
    await store.saveAttempt(attemptLike(run, 1, { state: "ended" }));
    rmSync(join(run.runDirectory, "attempts/1/meta.json"));
  }
  const found = await checkRuns({ state, store, offer }, runs, () => {});
  expect(found).toHaveLength(21);
  expect(found.at(-1)).toMatchObject({ level: "note", what: "and 5 more findings about runs" });
});

test("a run that changes during the check is in order", async () => {
  const before = saved(1);
  const now = { ...before, updatedAt: "2999-01-01T00:00:00.000Z" };
  saveRunFile(now);
  const store = memoryStore();
  await store.createRun(now);
  await store.saveAttempt(attemptLike(now, 1, { state: "ended" }));
  expect(await checkRuns({ state, store, offer }, [before], () => {})).toEqual([]);
});
