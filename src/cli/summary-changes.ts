/** The changes of a run, for its summary: files and, for a worktree, the commands to merge or discard them. */
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { shellWord } from "../lib/shell.ts";
import { changesOf } from "../run/changes.ts";
import type { Deps } from "../run/run.ts";

const MOST_NAMES = 5;
/** A summary without changes is better than a late one. */
const TIMEOUT_MS = 2_000;

/**
 * A worktree since its base, any other folder since this attempt began. Empty: git cannot tell the agent's changes from
 * earlier ones. The commands are typed in the user's own checkout.
 */
export async function changeLines(
  deps: Deps,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<readonly string[]> {
  const isWorktree = run.launch.isolate === "worktree";
  const since = isWorktree ? 1 : attempt.n;
  try {
    const { files, exact, notes } = await changesOf(deps, run, {
      attempt: since,
      patch: false,
      timeoutMs: TIMEOUT_MS,
    });
    if (!exact) return [];
    if (files.length === 0) return isWorktree && notes.length === 0 ? ["changes  no file changed"] : [];
    const names = files.slice(0, MOST_NAMES).map(({ path }) => harmlessLine(path, 60));
    const more = files.length > MOST_NAMES ? ", …" : "";
    const diff = `reprise diff ${run.handle}${since === 1 ? "" : ` --attempt ${since}`}`;
    const changes = `changes  ${plural(files.length, "file")}: ${names.join(", ")}${more}   (${diff})`;
    if (!isWorktree) return [changes];
    const at = shellWord(join(run.runDirectory, "worktree"));
    return [
      changes,
      `commit   git -C ${at} add -A && git -C ${at} commit`,
      `merge    git merge "$(git -C ${at} rev-parse HEAD)"`,
      `discard  reprise rm --discard-work ${run.handle}`,
    ];
  } catch (error) {
    if (error instanceof Fault) return [];
    throw error;
  }
}
