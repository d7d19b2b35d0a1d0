/**
 * Removing runs without destroying work: a live run never, unsaved work and the only copy of a conversation only when
 * the user says so.
 *
 * The directory goes first, then the index row, both under the run's lease: whatever a crash leaves behind still
 * has its handle, and `rm` can finish it. The engine's own session is not ours to remove.
 */
import { join } from "node:path";
import { assertNoMounts, assertOwnState, removeRunDir, sweepTrash } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import type { Deps } from "./deps.ts";
import { leaveWorktree, neededBy } from "./isolate.ts";
import { assertNoBatch, leaseRun, isDead, liveOwner } from "./leases.ts";
import { assertAgentGone, assertAllRecorded, assertNoneUnknown } from "./agent-locks.ts";
import { listRuns } from "./select.ts";
import { endStrays } from "./stop.ts";
import { conversationAtRisk } from "./resume/resumable.ts";
import { gitDirectoryOf } from "./git.ts";
import { workAtRisk } from "./unsaved.ts";

export interface CleanOptions {
  /** Removes a worktree or directory with work that is saved nowhere else, and the only copy of a conversation. */
  readonly discardWork: boolean;
  /** Why the run is still needed, and what to do first, for people; null: it is not. */
  readonly needed?: (run: RunRecord) => Promise<string | null>;
  /** Removes what others keep of the run. It is gone before the run is, so that `rm` can finish what a crash left. */
  readonly alongside?: (run: RunRecord) => Promise<void>;
}

/** Throws `run_busy` for a live run, `work_unsaved` for work that would be lost, and `mount_inside` for files of others. */
export async function removeRun(deps: Deps, run: RunRecord, options: CleanOptions): Promise<void> {
  assertOwnState(deps);
  await assertNotLive(deps, run);
  await assertNotNeeded(deps, run, options);
  await using _held = await withReserve(deps, () => leaseRun(deps, run));
  await assertNoneUnknown(deps, run);
  // An agent that outlived its owner would work on in a directory that is gone, and nothing would name it. Only what a
  // finished turn left running in the user's own directory, a server say, is the user's.
  if (run.status !== "completed" || run.launch.isolate !== null) {
    await assertAllRecorded(deps, run);
    await endStrays(deps, run);
    await assertAgentGone(deps, run);
  }
  await assertNoWork(deps, run, options);
  await assertNotNeeded(deps, run, options);
  await options.alongside?.(run);
  await leaveWorktree(deps, run);
  await removeRunDir(deps.state, run.runId);
  await forgetRun(deps, run);
}

/** The rest of a removal. What is thrown says that the directory is gone. */
async function forgetRun(deps: Deps, run: RunRecord): Promise<void> {
  try {
    await withReserve(deps, async () => {
      await forgetAgent(deps, run);
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

/** The agent that the run was, and what was asked about it. It has ended: a supervised run is not removed. */
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

/** Finishes removals that were killed: the recordings of such a run are out of sight, but still on the disk. */
export async function finishRemovals({ state, clock, log, processes }: Deps): Promise<void> {
  if (!state.writable) return;
  try {
    await sweepTrash(state, clock, isDead({ processes }));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    log.warn(`what an earlier removal left is still there: ${error.message}`);
  }
}

/** On a full disk, removing may use what is kept in reserve: it makes room. */
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
  /** With `dryRun`: what would be removed. */
  readonly removed: readonly RunRecord[];
  readonly skipped: readonly Skipped[];
  /** Our bug, which ended the work: what was removed before is said first. */
  readonly bug?: unknown;
}

export interface Skipped {
  readonly run: RunRecord;
  readonly code: string;
  readonly reason: string;
  /** It was to be removed and could not be; the others are kept on purpose. */
  readonly failed: boolean;
}

/** Runs that nobody touched for so long. `onProgress` hears of every run that was looked at. */
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
  // A run that was found dead just now has been touched just now.
  const old = found.filter((run) => run.updatedAt < updatedBefore);
  const removed: RunRecord[] = [];
  const skipped: Skipped[] = [];
  for (const [at, run] of old.entries()) {
    onProgress(at, old.length);
    try {
      if (options.dryRun) {
        await assertNotLive(deps, run);
        await assertNotNeeded(deps, run, options);
        await assertNoWork(deps, run, options);
      } else await removeRun(deps, run, options);
      removed.push(run);
    } catch (error) {
      if (!(error instanceof Fault)) return { removed, skipped, bug: error };
      skipped.push({ run, code: error.code, reason: error.message, failed: !KEPT.includes(error.code) });
    }
  }
  return { removed, skipped };
}

const KEPT: readonly string[] = ["run_busy", "session_busy", "work_unsaved", "mount_inside"];

async function assertNotLive(deps: Deps, run: RunRecord): Promise<void> {
  await assertNoBatch(deps, run);
  // Its supervisor would bring back an agent of which only the process was ended.
  await assertNotSupervised(deps, run);
  const owner = await liveOwner(deps, run.runId);
  if (owner === null) return;
  throw new Fault(
    "run_busy",
    `Run ${run.handle} is live (pid ${owner.pid}). End it first: reprise stop ${run.handle}`,
    { facts: { handle: run.handle, pid: owner.pid } },
  );
}

/** An agent whose process is gone just now is brought back. */
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

/** A run that is live would lose the directory that it works in; the user's word that work may go does not cover that run. */
async function assertNotNeeded(deps: Deps, run: RunRecord, { discardWork }: CleanOptions): Promise<void> {
  const need = await neededBy(deps, run);
  if (need === null || (discardWork && need.stop === null)) return;
  const what = `Run ${run.handle} was not removed: run ${need.handle} ${need.how}`;
  const facts = { handle: run.handle, neededBy: need.handle };
  if (need.stop !== null) throw new Fault("run_busy", `${what}. End it first: ${need.stop}`, { facts });
  const next = `Remove it first (reprise rm ${need.handle}), or add --discard-work: it cannot be resumed then.`;
  throw new Fault("work_unsaved", `${what}. ${next}`, { facts });
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
