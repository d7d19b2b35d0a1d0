/** The changes of a run in a worktree, for its summary: files, and the commands to merge or discard them. */
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { shellWord } from "../lib/shell.ts";
import { changesOf } from "../run/changes.ts";
import type { Deps } from "../run/run.ts";

const MOST_NAMES = 5;

/** Empty: the run has no worktree, or git cannot compare it. The commands are typed in the user's own checkout. */
export async function changeLines(deps: Deps, run: RunRecord): Promise<readonly string[]> {
  if (run.launch.isolate !== "worktree") return [];
  try {
    const { files } = await changesOf(deps, run, { patch: false });
    if (files.length === 0) return ["changes  no file changed"];
    const names = files.slice(0, MOST_NAMES).map(({ path }) => harmlessLine(path, 60));
    const more = files.length > MOST_NAMES ? ", …" : "";
    const at = shellWord(join(run.runDirectory, "worktree"));
    return [
      `changes  ${plural(files.length, "file")}: ${names.join(", ")}${more}   (reprise diff ${run.handle})`,
      `commit   git -C ${at} add -A && git -C ${at} commit`,
      `merge    git merge "$(git -C ${at} rev-parse HEAD)"`,
      `discard  reprise rm --discard-work ${run.handle}`,
    ];
  } catch (error) {
    if (error instanceof Fault) return [];
    throw error;
  }
}
