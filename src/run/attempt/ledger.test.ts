/** Records of a live attempt: its owner writes them, and nothing over another owner's. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps } from "../../../test/deps.ts";
import { beginAttemptDir, createRunDir, loadAttemptFile, saveAttemptFile } from "../../state/runs.ts";
import { attemptLike, runLike } from "../../../test/contracts/store-samples.ts";
import { runLeaseKey } from "../../store/store.ts";
import { Ledger } from "./ledger.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reprise-ledger-"));
});
afterEach(() => rmSync(root, { recursive: true }));

test.each([
  ["its own", {}, "late", false],
  ["another process's", { pid: 99 }, "theirs", true],
])("an owner writes the record of an attempt only where it is %s", async (_name, owner, message, isLost) => {
  const deps = await testDeps(root);
  const like = runLike(1);
  const runDirectory = createRunDir(deps.state, like.runId) ?? "";
  const run = { ...like, runDirectory };
  const attempt = attemptLike(run, 1);
  beginAttemptDir(runDirectory, 1);
  saveAttemptFile(runDirectory, { ...attempt, message: "theirs", owner: { ...attempt.owner, ...owner } });
  await deps.store.createRun(run);
  const by = { ...attempt.owner, machine: "m", renewedAtMs: 0 };
  await deps.store.acquireLease(runLeaseKey(run.runId), by, () => false);
  let lost = false;
  const onLeaseLost = () => (lost = true);
  const ledger = new Ledger(deps, { run, attempt, fence: 1, redact: (text) => text, onLeaseLost });
  ledger.save({ attempt: { message: "late" } });
  await ledger.settled();
  expect([(await loadAttemptFile(runDirectory, 1))?.message, lost]).toEqual([message, isLost]);
});
