/** Issues that the source has lost while Reprise keeps work on them. */
import { Fault } from "../core/faults.ts";
import type { Deps } from "../run/run.ts";
import type { LeftIssue } from "./metadata.ts";
import { keptRun } from "./past.ts";
import { batchHistory } from "./prior.ts";
import { GONE, type Issue, type IssueSource } from "./sources/source.ts";

const LOST = "the source no longer has it";

/** The source had lost the issue when the batch ended. */
export const isOrphan = ({ why, go_on: words }: LeftIssue) =>
  // Earlier versions wrote "has it no more".
  words === null && (why.startsWith(LOST) || why.startsWith("the source has it no more"));

/** Kept work on issues that the source has lost. */
export async function orphans(
  deps: Deps,
  { root, source }: { readonly root: string; readonly source: Pick<IssueSource, "one"> },
  listed: readonly Issue[],
  gone: readonly string[],
): Promise<readonly LeftIssue[]> {
  const found: LeftIssue[] = [];
  const known = new Set(listed.map(({ id }) => id));
  for (const id of new Set([...gone, ...begunLast(deps, root)])) {
    if (known.has(id)) continue;
    const run = await keptRun(deps, root, id);
    if (run === null || !(gone.includes(id) || (await isGone(source, id)))) continue;
    const { handle, branch } = run;
    const where = branch === null ? "" : ` on branch ${branch}`;
    const why = `${LOST}; its run ${handle}${where} is kept: reprise show ${handle}`;
    found.push({ id, why, handle, branch, go_on: null });
  }
  return found;
}

/** Unfinished issues of the newest batch that began any. */
function begunLast(deps: Deps, root: string): readonly string[] {
  for (const { issues } of batchHistory(deps, root).batches()) {
    const all = Object.entries(issues);
    if (all.length > 0) return all.filter(([, { status }]) => status !== "completed").map(([id]) => id);
  }
  return [];
}

/** A source may list less than it has. */
async function isGone(source: Pick<IssueSource, "one">, id: string): Promise<boolean> {
  try {
    await source.one(id);
    return false;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return GONE.includes(error.code);
  }
}
