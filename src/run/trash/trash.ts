/**
 * Removed runs with a worktree or a separate directory, kept for a while. The whole run directory moves by one rename, so
 * a removal or restore that is killed leaves it whole at one of both places; the next command finishes the rest.
 */
import { join } from "node:path";
import { readRecordOrNull } from "../../state/files.ts";
import { assertNoMounts } from "../../state/mounts.ts";
import { isDirectory, isEmptyDirectory } from "../../state/places.ts";
import { removeRunDir } from "../../state/runs.ts";
import { moveRunDir, saveNote, trashedRuns, trashRoot } from "../../state/trash.ts";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import { stringIn } from "../../lib/json.ts";
import { lockFile } from "../../store/store.ts";
import { type Deps, isoNow } from "../deps.ts";
import { follow, forget, headOf, leadsTo, protect, recordAt, recordInTrash } from "./git-record.ts";

/** A removed run in the trash. */
export interface Trashed {
  readonly runId: string;
  readonly handle: string;
  readonly path: string;
  /** Full UTC time. Null: the note is damaged, and the run stays. */
  readonly trashedAt: string | null;
  /** The branch that was checked out, as a ref. */
  readonly branch: string | null;
  /** The worktree had a record in its repository. */
  readonly hadRecord: boolean;
}

const WAIT_MS = 30_000;
const LOOK_AGAIN_MS = 20;

/** One process at a time changes the trash. */
export async function holdingTrash<T>({ state }: Pick<Deps, "state">, work: () => Promise<T>): Promise<T> {
  const path = join(state.root, "trash.lock");
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const lock = await lockFile(path);
    if (lock !== null) {
      try {
        return await work();
      } finally {
        lock.release();
      }
    }
    if (performance.now() > deadline)
      throw new Fault("no_answer", "Another reprise command is changing the trash. Try again later.", {
        facts: { path },
      });
    await new Promise((wake) => setTimeout(wake, LOOK_AGAIN_MS));
  }
}

/** Null: the run has no separate directory, or nothing is in it. The caller holds the run. */
export async function keepInTrash(deps: Deps, run: RunRecord): Promise<Trashed | null> {
  const { isolate } = run.launch;
  if (isolate === null) return null;
  const earlier = listTrash(deps).find(({ runId }) => runId === run.runId);
  const place = join(run.runDirectory, isolate === "dir" ? "work" : "worktree");
  if (earlier !== undefined && !isDirectory(run.runDirectory)) return earlier;
  if (isEmptyDirectory(place)) return null;
  return holdingTrash(deps, async () => {
    const record = isolate === "worktree" ? recordAt(deps, place) : null;
    const head = record === null ? { branch: null, commit: null } : await headOf(deps, record);
    const { runId, handle, runDirectory } = run;
    const git = record === null ? {} : { repository: record.common, gitDir: record.gitDir, ...head };
    saveNote(runDirectory, { v: 1, runId, handle, from: runDirectory, trashedAt: isoNow(deps), ...git });
    if (record !== null) await protect(deps, record, handle);
    const path = moveRunDir(deps.state, runId, "to the trash");
    if (record !== null) await follow(deps, record, join(path, "worktree"));
    return noted(deps, runId);
  });
}

/** Oldest run first. */
export function listTrash({ state }: Pick<Deps, "state">): readonly Trashed[] {
  return trashedRuns(state).map((runId) => noted({ state }, runId));
}

function noted({ state }: Pick<Deps, "state">, runId: string): Trashed {
  const path = join(trashRoot(state), runId);
  const note = readRecordOrNull(join(path, "trash.json"));
  const at = stringIn(note, "trashedAt");
  return {
    ...{ runId, handle: runId.slice(-8), path },
    trashedAt: at !== undefined && !Number.isNaN(Date.parse(at)) ? at : null,
    branch: stringIn(note, "branch") ?? null,
    hadRecord: stringIn(note, "gitDir") !== undefined,
  };
}

/** Finishes moves that were interrupted after the rename, or before that of a restore. */
export async function settleTrash(deps: Deps): Promise<void> {
  const tree = ({ path }: Trashed) => join(path, "worktree");
  const isOff = (one: Trashed) => {
    const record = recordInTrash(one.path);
    return record !== null && !leadsTo(record, tree(one));
  };
  if (!listTrash(deps).some(isOff)) return;
  await holdingTrash(deps, async () => {
    for (const one of listTrash(deps).filter(isOff)) {
      const record = recordInTrash(one.path);
      if (record !== null) await follow(deps, record, tree(one));
    }
  });
}

export interface Emptied {
  /** With `dryRun`: the runs that would go. */
  readonly gone: readonly Trashed[];
  readonly failed: readonly { readonly handle: string; readonly code: string; readonly reason: string }[];
}

/** Removes runs for good that have been in the trash for `olderThanMs`, unless another run works there. */
export async function emptyTrash(
  deps: Deps,
  { olderThanMs, dryRun }: { readonly olderThanMs: number; readonly dryRun: boolean },
): Promise<Emptied> {
  const before = deps.clock.now() - olderThanMs;
  const gone: Trashed[] = [];
  const failed: Emptied["failed"][number][] = [];
  for (const one of listTrash(deps)) {
    if (one.trashedAt === null || Date.parse(one.trashedAt) >= before) continue;
    try {
      if (dryRun) await assertUnused(deps, one);
      else await holdingTrash(deps, () => discard(deps, one));
      gone.push(one);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      failed.push({ handle: one.handle, code: error.code, reason: error.message });
    }
  }
  return { gone, failed };
}

async function discard(deps: Deps, one: Trashed): Promise<void> {
  await assertUnused(deps, one);
  const record = recordInTrash(one.path);
  if (record !== null) await forget(deps, record, one.handle);
  await removeRunDir(deps.state, one.runId, trashRoot(deps.state));
}

async function assertUnused({ store }: Deps, { handle, path }: Trashed): Promise<void> {
  assertNoMounts(path, `Run ${handle} stays in the trash`);
  const [user] = await store.listRuns({ below: path, limit: 1 });
  if (user === undefined) return;
  throw new Fault("run_busy", `Run ${handle} stays in the trash: run ${user.handle} works in ${user.cwd}.`, {
    facts: { handle, neededBy: user.handle },
  });
}
