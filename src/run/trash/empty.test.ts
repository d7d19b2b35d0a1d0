import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps } from "../../../test/deps.ts";
import { runLike } from "../../../test/contracts/store-samples.ts";
import { gitOf, makeRepository } from "../../../test/hostile/hidden-work.ts";
import { createRunDir, saveRunFile } from "../../state/runs.ts";
import type { RunRecord } from "../../core/records.ts";
import type { Deps } from "../deps.ts";
import { emptyTrash } from "./empty.ts";
import { keepInTrash } from "./trash.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reprise-empty-"));
});
afterEach(() => rmSync(root, { recursive: true }));

/** A removed run, and its worktree in the trash. */
async function removed(
  part: Partial<RunRecord> = {},
): Promise<{ readonly deps: Deps; readonly tree: string }> {
  const deps = await testDeps(root);
  const git = gitOf(root);
  const repository = makeRepository(root, git);
  const like = runLike(1, { agentName: "demo", status: "completed" });
  const runDirectory = createRunDir(deps.state, like.runId) ?? "";
  const launch = { ...like.launch, isolate: "worktree" } as const;
  const run: RunRecord = { ...like, runDirectory, launch, escrow: null, engineHome: null, ...part };
  saveRunFile(run);
  git(repository, "worktree", "add", "-q", "--detach", join(runDirectory, "worktree"), "main");
  const kept = await keepInTrash(deps, run);
  return { deps, tree: join(kept?.path ?? "", "worktree") };
}

const NOW = { olderThanMs: -1_000, dryRun: false, discardWork: false };

test("emptying the trash keeps a run whose files change during the checks, even ignored ones", async () => {
  const { deps, tree } = await removed();
  mkdirSync(join(tree, "build"));
  const file = join(tree, "build/out");
  const listRuns: Deps["store"]["listRuns"] = async (filter) => {
    writeFileSync(file, "of a build that still runs");
    return deps.store.listRuns(filter);
  };
  const emptied = await emptyTrash({ ...deps, store: { ...deps.store, listRuns } }, NOW);
  expect(emptied).toMatchObject({
    gone: [],
    kept: [{ code: "work_unsaved", reason: expect.stringContaining("changed while Reprise checked") }],
    failed: [],
  });
  expect(readFileSync(file, "utf8")).toBe("of a build that still runs");
  expect(await emptyTrash(deps, NOW)).toMatchObject({ gone: [{}], kept: [], failed: [] });
  expect(existsSync(tree)).toBe(false);
});

test("a run without a readable record stays in the trash until the user gives it up", async () => {
  const { deps, tree } = await removed();
  rmSync(join(tree, "../run.json"));
  expect(await emptyTrash(deps, NOW)).toMatchObject({ gone: [], kept: [{ code: "work_unsaved" }] });
  writeFileSync(join(tree, "../run.json"), "{");
  expect(await emptyTrash(deps, NOW)).toMatchObject({ gone: [], kept: [{ code: "work_unsaved" }] });
  expect(existsSync(tree)).toBe(true);
  expect(await emptyTrash(deps, { ...NOW, discardWork: true })).toMatchObject({ gone: [{}], failed: [] });
});

test("the copy of a conversation stays in the trash while no config defines its engine", async () => {
  const escrow = { session: "s-1", files: [], takenAt: "2026-01-01T00:00:00.000Z" };
  const { deps, tree } = await removed({ agentName: "house-engine", escrow });
  expect(await emptyTrash(deps, NOW)).toMatchObject({
    gone: [],
    kept: [{ code: "work_unsaved", reason: expect.stringContaining("no config here defines house-engine") }],
  });
  expect(existsSync(tree)).toBe(true);
});
