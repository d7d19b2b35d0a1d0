/** What to type after a batch: for all of it, and for one issue. The summary, `issues status` and `issues show` ask here. */
import { isDeepStrictEqual } from "node:util";
import {
  type BatchRecord,
  corrected,
  type Leave,
  liveBatch,
  priorRuns,
  undecided,
} from "../issues/issues.ts";
import type { Deps } from "../run/run.ts";
import { byHandText, goOnCommand, isUnfinished, split, textsIn, withoutTrust } from "./issues-options.ts";

/** How a batch in the metadata is gone on with; null: it is finished, or is from before this was written down. */
export interface GoOn {
  /** The batch that is gone on with. */
  readonly batch: string;
  readonly command: string;
  readonly byHand: string;
}

export function goOnOf(record: BatchRecord, place: string | null): GoOn | null {
  // What it said at its end; of one that was killed, or is from before this was written down, what its issues say.
  const words = record.go_on === undefined ? (isUnfinished(record) ? ownWords(record) : null) : record.go_on;
  return words === null ? null : goOnWith(record, words, place);
}

export function goOnWith(record: BatchRecord, words: readonly string[], place: string | null): GoOn {
  const [own, theirs] = split(withoutTrust(words));
  const { native, byHand } = corrected(record, theirs);
  const said = [byHand, byHandText(textsIn(record, "by_hand"))].filter((part) => part !== "");
  return {
    batch: record.run_id,
    command: goOnCommand([...own, "--", ...native], place),
    byHand: said.join(" "),
  };
}

const ownWords = (record: BatchRecord) => textsIn(record, "options");

/**
 * What to type after the newest batch. One that began nothing leaves the batch before it as it was, unless it was that one
 * going on: then the same command has just done nothing. `waits`: its issues that only a person can go on with.
 */
export function goOnFirst(
  batches: Iterable<BatchRecord>,
  place: string | null,
  waits: readonly Leave[] = [],
): GoOn | null {
  let newest: BatchRecord | null = null;
  for (const batch of batches) {
    newest ??= batch;
    if (newest === batch && isStuck(batch, waits)) return null;
    if (Object.keys(batch.issues).length === 0) continue;
    if (newest === batch || !isUnfinished(batch)) break;
    if (newest.go_on === undefined) return goOnOf(batch, place);
    const own = goOnOf(newest, place);
    const isSame = isDeepStrictEqual(withoutTrust(ownWords(newest)), withoutTrust(ownWords(batch)));
    return own !== null || isSame ? own : goOnOf(batch, place);
  }
  return newest === null ? null : goOnOf(newest, place);
}

/** All that it could go on with waits for a person. */
function isStuck(
  { completed_at: ended, issues, leaves = [] }: BatchRecord,
  waits: readonly Leave[],
): boolean {
  const begun = Object.keys(issues).filter(
    (id) => !["completed", "left"].includes(issues[id]?.status ?? "left"),
  );
  const left = leaves.filter(({ go_on: words }) => words !== null).map(({ id }) => id);
  const isWaiting = (id: string) => waits.some((one) => one.id === id);
  return ended !== null && waits.length > 0 && [...begun, ...left].every(isWaiting);
}

/** What the newest batch that knows the issue left of it; nothing while a batch is at work on it. */
export async function undone(
  deps: Deps,
  root: string,
  id: string,
  place: string | null,
): Promise<{ readonly left: Leave | null; readonly goOn: GoOn | null }> {
  for (const batch of priorRuns(deps, root).batches()) {
    const left = batch.leaves?.find((one) => one.id === id) ?? null;
    if (left === null && !Object.hasOwn(batch.issues, id)) continue;
    if (liveBatch(deps, root) === batch.run_id) break;
    const [now = null] = await undecided(deps, batch, id);
    if (now !== null) return { left: now, goOn: null };
    if (left === null) return { left, goOn: goOnOf(batch, place) };
    return { left, goOn: left.go_on === null ? null : goOnWith(batch, left.go_on, place) };
  }
  return { left: null, goOn: null };
}
