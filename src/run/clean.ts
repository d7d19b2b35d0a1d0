/**
 * Removes runs without destroying work: never a live run, and unsaved work or the only copy of a conversation only when
 * the user allows it.
 *
 * The directory goes first, then the index row, both under the run's lease. After a crash the rest still has its handle,
 * and `rm` can finish. Reprise never removes the engine's own session.
 */
import { join } from "node:path";
import { assertOwnState } from "../state/identity.ts";
import { scheduledFile } from "../state/directory.ts";
import { readRecord, removeQuietly } from "../state/files.ts";
import { assertNoMounts } from "../state/mounts.ts";
import { removeRunDir } from "../state/runs.ts";
import { sweepTrash } from "../state/upkeep.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import { usedBy } from "../core/tokens.ts";
import type { Deps } from "./deps.ts";
import { assertNotNeeded, leaveWorktree } from "./isolate.ts";
import { assertNoBatch, leaseRun, isDead, liveOwner } from "./leases.ts";
import { assertAgentGone, assertAllRecorded, assertNoneUnknown } from "./agent-locks.ts";
import { listRuns } from "./select.ts";
import { endStrays } from "./stop.ts";
import { gitDirectoryOf } from "./git.ts";
import { conversationAtRisk } from "./escrow/only-copy.ts";
import { discardTrashed, isKept } from "./trash/empty.ts";
import { keepInTrash, settleTrash, type Trashed } from "./trash/trash.ts";
import { newIn, workAtRisk } from "./unsaved.ts";

export { restoreRun } from "./trash/restore.ts";
export { discardTrashed, type Emptied, emptyTrash } from "./trash/empty.ts";
export type { Trashed } from "./trash/trash.ts";
export { heldByWorktree } from "./unsaved.ts";

export interface CleanOptions {
  /** Removes a worktree or directory with work that is saved nowhere else, and the only copy of a conversation. */
  readonly discardWork: boolean;
  /** Why the run is still needed and what to do first, for people. Null: not needed. */
  readonly needed?: (run: RunRecord) => Promise<string | null>;
  /** Removes records about the run in other folders. Called before the run goes, so that `rm` can finish after a crash. */
  readonly alongside?: (run: RunRecord) => Promise<void>;
}

/**
 * Throws `run_busy` for a live run, `work_unsaved` for work that would be lost, and `mount_inside` for a mounted file system.
 * Returns the trash with the run's worktree, null: it had none, or the user gave its work up.
 */
export async function removeRun(deps: Deps, run: RunRecord, options: CleanOptions): Promise<Trashed | null> {
  assertOwnState(deps);
  await assertNotLive(deps, run);
  assertNotScheduled(deps, run);
  await assertFree(deps, run, options);
  await using _held = await withReserve(deps, () => leaseRun(deps, run));
  await assertNoneUnknown(deps, run);
  // An agent that outlived its owner would keep working in a removed directory, and nothing would name it. Processes that a
  // finished turn left in the user's own directory, such as a server, belong to the user.
  if (run.status !== "completed" || run.launch.isolate !== null) {
    await assertAllRecorded(deps, run);
    await endStrays(deps, run);
    await assertAgentGone(deps, run);
  }
  await assertNoWork(deps, run, options);
  await assertFree(deps, run, options);
  await keepItsUsage(deps, run);
  await options.alongside?.(run);
  // The checks may miss a way to hide work, so nothing goes for good at once.
  const kept = options.discardWork ? null : await withReserve(deps, () => keepInTrash(deps, run));
  if (kept === null) {
    await leaveWorktree(deps, run);
    const last = async (moved: string) => assertNothingNew(run, options.discardWork ? null : newIn(moved));
    await removeRunDir(deps.state, run.runId, { last });
    // A removal that was killed may have left the run there.
    if (options.discardWork) await discardTrashed(deps, run.runId);
  }
  await forgetRun(deps, run);
  return kept;
}

/** A full disk is a reason to remove runs, so what cannot be written is only reported. */
async function keepItsUsage(deps: Deps, run: RunRecord): Promise<void> {
  try {
    const attempts = await deps.store.listAttempts(run.runId);
    const used = attempts.flatMap((attempt) => usedBy(run, attempt) ?? []);
    if (used.length === 0) return;
    const { keepUsage } = await import("../state/removed-usage.ts");
    await withReserve(deps, async () => keepUsage(deps.state, used));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`\`reprise usage\` does not count run ${run.handle} any more: ${error.message}`);
  }
}

/** Somebody else may write until the directory has another name. */
function assertNothingNew({ handle, runDirectory }: RunRecord, name: string | null): void {
  if (name === null) return;
  const why = `somebody wrote ${join(runDirectory, name)} while Reprise checked the run`;
  throw new Fault("work_unsaved", `Run ${handle} was not removed: ${why}. Look at it, then try again.`, {
    facts: { handle, why },
  });
}

/** The daemon would have nothing to resume. It carries out no damaged record, so such a record goes with the run. */
function assertNotScheduled({ state }: Deps, { runId, handle }: RunRecord): void {
  let phase: unknown;
  try {
    phase = readRecord(scheduledFile(state, runId))?.["state"];
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "record_damaged") throw error;
  }
  if (phase !== "waiting" && phase !== "starting") return;
  throw new Fault(
    "run_busy",
    `Run ${handle} has a scheduled resume. Cancel it first: reprise scheduled cancel ${handle}`,
    { facts: { handle } },
  );
}

/** Removes the index row. A fault says that the directory is removed already. */
async function forgetRun(deps: Deps, run: RunRecord): Promise<void> {
  try {
    await withReserve(deps, async () => {
      await forgetAgent(deps, run);
      removeQuietly(scheduledFile(deps.state, run.runId));
      await deps.store.deleteRun(run.runId);
    });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Fault(
      error.code,
      `The directory of run ${run.handle} is removed, but the index still lists the run: ${error.message} Then finish with: reprise rm ${run.handle}`,
      { facts: { ...error.facts, handle: run.handle }, cause: error },
    );
  }
}

/** Removes the agent's record and its questions. The agent has ended, because a supervised run is not removed. */
export async function forgetAgent(
  { store }: Pick<Deps, "store">,
  { handle, runId }: Pick<RunRecord, "handle" | "runId">,
): Promise<void> {
  if ((await store.getDocument("agent", handle))?.data["runId"] !== runId) return;
  for (const { id, data } of await store.listDocuments("decision")) {
    if (data["agentId"] === handle) await store.deleteDocument("decision", id);
  }
  await store.deleteDocument("agent", handle);
}

/** Finishes interrupted removals: the recordings of such a run are hidden, but still on the disk. */
export async function finishRemovals(deps: Deps): Promise<void> {
  const { state, clock, log, processes } = deps;
  if (!state.writable) return;
  try {
    await settleTrash(deps);
    await sweepTrash(state, clock, isDead({ processes }));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    log.warn(`an earlier removal left files behind: ${error.message}`);
  }
}

/** On a full disk, a removal may use the reserve, because it frees space. */
async function withReserve<T>(deps: Deps, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const full = error instanceof Fault && error.code === "storage_full";
    if (!full || !deps.state.releaseReserve()) throw error;
    return work();
  }
}

export interface PruneOptions extends CleanOptions {
  readonly olderThanMs: number;
  readonly status: RunStatus | null;
  readonly dryRun: boolean;
}

export interface Pruned {
  /** With `dryRun`: the runs that would be removed. */
  readonly removed: readonly RunRecord[];
  /** Those of them in the trash. */
  readonly kept: readonly Trashed[];
  readonly skipped: readonly Skipped[];
  /** A bug that ended the work. The caller reports the removed runs first. */
  readonly bug?: unknown;
}

export interface Skipped {
  readonly run: RunRecord;
  readonly code: string;
  readonly reason: string;
  /** True: the removal failed. False: the run is kept on purpose. */
  readonly failed: boolean;
}

/** Removes runs without a change for `olderThanMs`. Calls `onProgress` for every run that it checks. */
export async function pruneRuns(
  deps: Deps,
  options: PruneOptions,
  onProgress: (done: number, of: number) => void,
): Promise<Pruned> {
  if (!options.dryRun) {
    assertOwnState(deps);
    await finishRemovals(deps);
  }
  const updatedBefore = new Date(deps.clock.now() - options.olderThanMs).toISOString();
  const found = await listRuns(deps, {
    updatedBefore,
    limit: Number.POSITIVE_INFINITY,
    ...(options.status === null ? {} : { status: options.status }),
  });
  // A run that `listRuns` has just corrected has a new time stamp.
  const old = found.filter((run) => run.updatedAt < updatedBefore);
  const removed: RunRecord[] = [];
  const kept: Trashed[] = [];
  const skipped: Skipped[] = [];
  for (const [at, run] of old.entries()) {
    onProgress(at, old.length);
    try {
      if (options.dryRun) {
        await assertNotLive(deps, run);
        await assertFree(deps, run, options);
        await assertNoWork(deps, run, options);
      } else {
        const trashed = await removeRun(deps, run, options);
        if (trashed !== null) kept.push(trashed);
      }
      removed.push(run);
    } catch (error) {
      if (!(error instanceof Fault)) return { removed, kept, skipped, bug: error };
      skipped.push({ run, code: error.code, reason: error.message, failed: !isKept(error) });
    }
  }
  return { removed, kept, skipped };
}

async function assertNotLive(deps: Deps, run: RunRecord): Promise<void> {
  await assertNoBatch(deps, run);
  // The daemon would restart an agent whose process alone has ended.
  await assertNotSupervised(deps, run);
  const owner = await liveOwner(deps, run.runId);
  if (owner === null) return;
  throw new Fault(
    "run_busy",
    `Run ${run.handle} is live (pid ${owner.pid}). End it first: reprise stop ${run.handle}`,
    { facts: { handle: run.handle, pid: owner.pid } },
  );
}

/** The daemon restarts a supervised agent whose process is gone. */
async function assertNotSupervised(deps: Deps, { handle }: RunRecord): Promise<void> {
  const agent = await deps.store.getDocument("agent", handle);
  if (agent?.open !== true) return;
  throw new Fault(
    "run_busy",
    `Run ${handle} is a supervised agent. End it first: reprise agent stop ${handle}`,
    {
      facts: { handle },
    },
  );
}

function assertFree(deps: Deps, run: RunRecord, { discardWork }: CleanOptions): Promise<void> {
  return assertNotNeeded(deps, run, { what: `Run ${run.handle} was not removed`, discardWork });
}

async function assertNoWork(deps: Deps, run: RunRecord, options: CleanOptions): Promise<void> {
  assertNothingMounted(run);
  if (options.discardWork) return;
  const { handle } = run;
  const why = (await options.needed?.(run)) ?? null;
  if (why !== null)
    throw new Fault("work_unsaved", `Run ${handle} was not removed: ${why}`, { facts: { handle, why } });
  const risk = await workAtRisk(deps, run);
  if (risk !== null)
    throw new Fault(
      "work_unsaved",
      `Run ${handle} was not removed: ${risk}. Save it, or add --discard-work to throw it away.`,
      { facts: { handle, why: risk } },
    );
  const only = await conversationAtRisk(deps, run);
  if (only === null) return;
  throw new Fault(
    "work_unsaved",
    `Run ${handle} was not removed: ${only.why}. ${only.way}; \`reprise rm ${handle} --discard-work\` throws away ${only.lost}.`,
    { facts: { handle, why: only.why } },
  );
}

/** In the run's directory, and in what git removes with a worktree. The user's word that work may go does not cover it. */
function assertNothingMounted(run: RunRecord): void {
  const gitDirectory = gitDirectoryOf(join(run.runDirectory, "worktree"));
  for (const directory of [run.runDirectory, gitDirectory])
    if (directory !== null) assertNoMounts(directory, `Run ${run.handle} was not removed`);
}
