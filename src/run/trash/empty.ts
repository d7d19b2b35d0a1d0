/**
 * Deletes runs in the trash for good. Work that was saved elsewhere at the removal need not be there any more: a branch was
 * deleted, the engine dropped a session, somebody wrote into the worktree. So every check runs again here, and work that is
 * nowhere else stays in the trash.
 */
import { join } from "node:path";
import { assertOwnState } from "../../state/identity.ts";
import { assertNoMounts } from "../../state/mounts.ts";
import { isEmptyDirectory } from "../../state/places.ts";
import { loadRunFile, removeRunDir } from "../../state/runs.ts";
import { trashRoot } from "../../state/trash.ts";
import { treeStamp } from "../../state/tree.ts";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import type { Deps } from "../deps.ts";
import { allEngines } from "../engine-setup.ts";
import { copiesOf } from "../escrow/copies.ts";
import { conversationAtRisk } from "../escrow/only-copy.ts";
import { assertNotNeeded } from "../isolate.ts";
import { workAtRisk } from "../unsaved.ts";
import { forget, onlyIn, recordInTrash } from "./git-record.ts";
import { findTrashed, holdingTrash, inTrash, listTrash, recordLost, type Trashed } from "./trash.ts";

export interface Emptied {
  /** With `dryRun`: the runs that would go. */
  readonly gone: readonly Trashed[];
  /** Those that stay on purpose. */
  readonly kept: readonly Stays[];
  readonly failed: readonly Stays[];
}

interface Stays {
  readonly handle: string;
  readonly code: string;
  readonly reason: string;
}

export interface EmptyOptions {
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** Deletes work that is saved nowhere else. */
  readonly discardWork: boolean;
}

/** Deletes runs that have been in the trash for `olderThanMs`. */
export async function emptyTrash(deps: Deps, options: EmptyOptions): Promise<Emptied> {
  const { olderThanMs, dryRun, discardWork } = options;
  const before = deps.clock.now() - olderThanMs;
  const gone: Trashed[] = [];
  const kept: Stays[] = [];
  const failed: Stays[] = [];
  for (const one of listTrash(deps)) {
    if (one.trashedAt === null || Date.parse(one.trashedAt) >= before) continue;
    try {
      if (dryRun) await assertMayGo(deps, one, discardWork);
      else await holdingTrash(deps, () => discard(deps, one, discardWork));
      gone.push(one);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const named = { handle: one.handle, code: error.code, reason: error.message };
      (isKept(error) ? kept : failed).push(named);
    }
  }
  return { gone, kept, failed };
}

/** Reprise refused the removal on purpose. False: the removal failed. */
export function isKept({ code }: Fault): boolean {
  return ["run_busy", "session_busy", "work_unsaved", "mount_inside"].includes(code);
}

/** `rm --discard-work` of a run that is in the trash already. Null: no run there has this handle, or several have. */
export async function discardTrashed(deps: Deps, given: string): Promise<Trashed | null> {
  assertOwnState(deps);
  const [found, ...others] = findTrashed(deps, given);
  if (found === undefined || others.length > 0) return null;
  await holdingTrash(deps, () => discard(deps, found, true));
  return found;
}

async function discard(deps: Deps, one: Trashed, discardWork: boolean): Promise<void> {
  const { runId, handle, path } = one;
  const record = recordInTrash(path);
  const stampOf = (directory: string) =>
    [directory, ...(record === null ? [] : [record.gitDir])].map(treeStamp).join();
  const seen = discardWork ? null : stampOf(path);
  await assertMayGo(deps, one, discardWork);
  // From its new name on, only what the checks have seen is deleted.
  await removeRunDir(deps.state, runId, {
    root: trashRoot(deps.state),
    last: async (moved) => {
      if (seen !== null && stampOf(moved) !== seen)
        throw stays(one, "its files changed while Reprise checked them");
      if (record !== null) await forget(deps, record, handle);
    },
  });
}

async function assertMayGo(deps: Deps, one: Trashed, discardWork: boolean): Promise<void> {
  const what = `Run ${one.handle} stays in the trash`;
  assertNoMounts(one.path, what);
  await assertNotNeeded(deps, inTrash(one), { what, discardWork });
  const why = discardWork ? null : await whyKept(deps, one);
  if (why !== null) throw stays(one, why);
}

function stays({ handle, path }: Trashed, why: string): Fault {
  return new Fault(
    "work_unsaved",
    `Run ${handle} stays in the trash: ${why}. To bring it back: reprise rm --restore ${handle}; to throw it away: reprise rm ${handle} --discard-work`,
    { facts: { handle, path, why } },
  );
}

/** Names work that is only in the trash. Null: all work is elsewhere. */
async function whyKept(deps: Deps, one: Trashed): Promise<string | null> {
  const run = await runIn(one);
  if (run === null)
    return `${join(one.path, "run.json")} cannot be read, so nothing shows what is saved elsewhere`;
  const record = recordInTrash(one.path);
  if (one.record !== null && record === null && !isEmptyDirectory(join(one.path, "worktree")))
    return recordLost(one);
  const risk = await workAtRisk(deps, run);
  if (risk !== null) return risk;
  const objects = record === null ? [] : await onlyIn(deps, record, one.handle);
  if (objects === null) return `git cannot tell what is only in ${record?.gitDir}`;
  if (objects.length > 0)
    return `only ${record?.gitDir} leads to the git objects ${objects.slice(0, SHOWN).join(", ")} (\`git tag <name> <object>\` keeps them)`;
  const [copy] = copiesOf(run);
  if (copy !== undefined && allEngines(deps).every(({ id }) => id !== run.agentName))
    return `no config here defines ${run.agentName}, so nothing shows that it still has session ${copy.session}`;
  return (await conversationAtRisk(deps, run))?.why ?? null;
}

const SHOWN = 3;

/** Null: missing, damaged, or of a newer Reprise. */
async function runIn({ path }: Trashed): Promise<RunRecord | null> {
  try {
    return await loadRunFile(path);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}
