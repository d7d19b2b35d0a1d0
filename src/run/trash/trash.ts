/**
 * Removed runs with a worktree or a separate directory, kept for a while. The whole run directory moves by one rename, so
 * a removal or restore that is killed leaves it whole at one of both places; the next command finishes the rest.
 */
import { basename, dirname, join } from "node:path";
import { readRecordOrNull } from "../../state/files.ts";
import { isDirectory, realPath } from "../../state/places.ts";
import { moveRunDir, removeEmptyDirectory, saveNote, trashedRuns, trashRoot } from "../../state/trash.ts";
import { Fault } from "../../core/faults.ts";
import { isSelected, parseSelector } from "../../core/ids.ts";
import type { RunRecord } from "../../core/records.ts";
import { stringIn } from "../../lib/json.ts";
import { shellWord } from "../../lib/shell.ts";
import { lockFile } from "../../store/store.ts";
import { type Deps, isoNow } from "../deps.ts";
import type { PlacedRun } from "../isolate.ts";
import { follow, type GitRecord, headOf, leadsTo, protect, recordAt, recordInTrash } from "./git-record.ts";

/** A removed run in the trash. */
export interface Trashed {
  readonly runId: string;
  readonly handle: string;
  readonly path: string;
  /** Full UTC time. Null: the note is damaged, and the run stays. */
  readonly trashedAt: string | null;
  /** The branch that was checked out, as a ref. */
  readonly branch: string | null;
  /** Git's record of the worktree, and its repository, at the removal. Null: the worktree had no record. */
  readonly record: GitRecord | null;
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
  // The system refuses to remove a directory with a file, even if the file has just appeared.
  if (removeEmptyDirectory(place)) return null;
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
    record: recordIn(note),
  };
}

function recordIn(note: ReturnType<typeof readRecordOrNull>): GitRecord | null {
  const gitDir = stringIn(note, "gitDir");
  if (gitDir === undefined) return null;
  return { gitDir, common: stringIn(note, "repository") ?? dirname(dirname(gitDir)) };
}

/** The run at its place in the trash, where another run may have been started. */
export function inTrash({ runId, handle, path }: Trashed): PlacedRun {
  return { runId, handle, runDirectory: path, cwd: path };
}

/** The removed runs that this handle, prefix or run id fits. */
export function findTrashed(deps: Pick<Deps, "state">, given: string): readonly Trashed[] {
  const selector = parseSelector(given);
  return listTrash(deps).filter(({ handle, runId }) => isSelected(selector, handle, runId));
}

/** Why git's record of a worktree in the trash cannot be found, and what to type: a sentence without its end. */
export function recordLost({ path, record }: Trashed): string {
  const tree = join(path, "worktree");
  const common = record?.common ?? "";
  const repository = basename(common) === ".git" ? dirname(common) : common;
  const why =
    realPath(common) === null
      ? `its repository is no longer at ${repository}`
      : `git's record of its worktree is no longer in ${repository}, as after \`git worktree remove\``;
  return `${why}. Its files are still in ${tree}. If you moved the repository, type there: \`git worktree repair ${shellWord(tree)}\``;
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
