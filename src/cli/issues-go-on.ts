/**
 * The commands to type after a batch, for all of it and for one issue. Used by the summary, `issues status` and `issues
 * show`.
 */
import { isDeepStrictEqual } from "node:util";
import { Fault } from "../core/faults.ts";
import { stringIn } from "../lib/json.ts";
import {
  type BatchRecord,
  corrected,
  type Issue,
  isOrphan,
  type Leave,
  liveBatch,
  openSource,
  orphans,
  parseScope,
  plan,
  priorRuns,
  type Source,
  undecided,
  unknownIssue,
} from "../issues/issues.ts";
import type { Deps } from "../run/run.ts";
import { sourceOptions } from "./issues-look.ts";
import {
  byHandText,
  goOnCommand,
  isUnfinished,
  parsedWords,
  split,
  textsIn,
  withoutTrust,
} from "./issues-options.ts";

/** How to continue a recorded batch. Null: it is finished, or older than these records. */
export interface GoOn {
  readonly batch: BatchRecord;
  /** The options after `reprise issues run --resume`. */
  readonly words: readonly string[];
  readonly command: string;
  readonly byHand: string;
}

/** Where the user types the command. */
export interface Typist {
  /** The directory, if the command must name it. */
  readonly place: string | null;
  readonly config: Pick<Deps["config"], "engines">;
}

export function goOnOf(record: BatchRecord, typist: Typist): GoOn | null {
  // The batch's record at its end; for a killed or older batch, derived from its issues.
  const words = record.go_on === undefined ? (isUnfinished(record) ? ownWords(record) : null) : record.go_on;
  return words === null ? null : goOnWith(record, words, typist);
}

function goOnWith(record: BatchRecord, words: readonly string[], { place, config }: Typist): GoOn {
  const [own, theirs] = split(withoutTrust(words));
  const engine = stringIn(record.config, "engine") ?? "";
  const { native, byHand } = corrected(record, theirs, config.engines[engine]?.args ?? []);
  const isLenient = record.config["strict"] === true && !own.includes("--strict");
  const said = [byHand, isLenient ? LENIENT : "", byHandText(textsIn(record, "by_hand"))];
  return {
    batch: record,
    words,
    command: goOnCommand([...own, "--", ...native], place),
    byHand: said.filter((part) => part !== "").join(" "),
  };
}

const LENIENT = "Without --strict, an issue whose conversation cannot go on begins a new one.";

const ownWords = (record: BatchRecord) => textsIn(record, "options");

/**
 * The command after the newest batch. A batch that began nothing leaves the batch before it to continue, unless it was
 * itself that continuation: then the same command has just done nothing. `waits`: its issues that only a person can
 * continue.
 */
export function goOnFirst(
  batches: Iterable<BatchRecord>,
  typist: Typist,
  waits: readonly Leave[] = [],
): GoOn | null {
  let newest: BatchRecord | null = null;
  for (const batch of batches) {
    newest ??= batch;
    if (newest === batch && isStuck(batch, waits)) return null;
    if (Object.keys(batch.issues).length === 0) continue;
    if (newest === batch || !isUnfinished(batch)) break;
    if (newest.go_on === undefined) return goOnOf(batch, typist);
    const own = goOnOf(newest, typist);
    const isSame = isDeepStrictEqual(withoutTrust(ownWords(newest)), withoutTrust(ownWords(batch)));
    if (isSame || (own !== null && !isWayTo(batch, newest))) return own;
    return goOnOf(batch, typist) ?? own;
  }
  return newest === null ? null : goOnOf(newest, typist);
}

/** An earlier batch began everything that the newest one would continue, and its own command continues it. */
function isWayTo({ issues }: BatchRecord, newest: BatchRecord): boolean {
  const taken = (newest.leaves ?? []).filter(({ go_on: words }) => words !== null);
  const isOther = !isDeepStrictEqual(newest.go_on, ownWords(newest));
  return isOther && taken.length > 0 && taken.every(({ id }) => Object.hasOwn(issues, id));
}

/** Everything that it could continue waits for a person. */
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

/** The remaining work of the newest batch, after its end. */
export interface Standing {
  readonly leaves: readonly Leave[];
  /** Of those, work on issues that the source does not have at the moment. */
  readonly orphans: readonly Leave[];
  readonly goOn: GoOn | null;
}

/** Asks the source if that needs no network: the batch's record may be outdated. */
export async function standingOf(
  deps: Deps,
  root: string,
  last: BatchRecord,
  typist: Typist,
): Promise<Standing> {
  const waits = await undecided(deps, last);
  const told = last.leaves ?? [];
  const first = goOnFirst(priorRuns(deps, root).batches(), typist, waits);
  const present = first === null && told.length === 0 ? null : await sourceNow(deps, root, last);
  const lost = told.filter(isOrphan);
  const gone = present === null ? lost : await orphans(deps, { root, ...present }, present.issues, []);
  const isIn = (all: readonly { readonly id: string }[], { id }: Leave) => all.some((one) => one.id === id);
  const isBack = lost.some((one) => isIn(present?.issues ?? [], one) && !isIn(waits, one));
  const goOn = first ?? (isBack ? goOnWith(last, ownWords(last), typist) : null);
  const leaves = [...told.filter((one) => !isOrphan(one) && !isIn(gone, one)), ...gone];
  return {
    leaves: [...leaves, ...waits.filter((one) => !isIn(leaves, one))],
    orphans: gone,
    goOn: goOn === null || present === null || finds(goOn, present.issues) ? goOn : null,
  };
}

interface Present {
  readonly source: Pick<Source, "one">;
  readonly issues: readonly Issue[];
}

/** Null: the source is not on this machine, or is unreadable at the moment. */
async function sourceNow(deps: Deps, root: string, last: BatchRecord): Promise<Present | null> {
  const flags = parsedWords(split(ownWords(last))[0]);
  const options = flags === null ? null : sourceOptions(flags);
  if (options === null || options.kind === "github") return null;
  try {
    const source = await openSource(deps, root, options);
    return { source, issues: (await source.list()).issues };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (error.code !== "issues_missing") return null;
    const one = (id: string) => Promise.reject(unknownIssue(id, "The source"));
    return { source: { one }, issues: [] };
  }
}

/** Whether the command would find an issue to work on. */
function finds({ batch, words }: GoOn, issues: readonly Issue[]): boolean {
  const flags = parsedWords(split(words)[0]);
  if (flags === null) return true;
  try {
    const { take } = plan(issues, {
      scope: parseScope(flags.scope ?? "all"),
      order: flags.order ?? "priority",
      resume: true,
      maxIssues: flags.maxIssues ?? null,
      begun: [...textsIn(batch, "begun"), ...Object.keys(batch.issues)],
      mayLack: true,
      includeStrangers: flags.includeAll === true,
    });
    return take.length > 0;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return false;
  }
}

/** What the newest batch with this issue left of it; empty while a batch works on it. The source has the issue. */
export async function undone(
  deps: Deps,
  root: string,
  id: string,
  place: string | null,
): Promise<{ readonly left: Leave | null; readonly goOn: GoOn | null }> {
  const typist = { place, config: deps.config };
  for (const batch of priorRuns(deps, root).batches()) {
    const left = batch.leaves?.find((one) => one.id === id && !isOrphan(one)) ?? null;
    if (left === null && !Object.hasOwn(batch.issues, id)) continue;
    if (liveBatch(deps, root) === batch.run_id) break;
    const [now = null] = await undecided(deps, batch, id);
    if (now !== null) return { left: now, goOn: null };
    if (left === null) return { left, goOn: goOnOf(batch, typist) };
    return { left, goOn: left.go_on === null ? null : goOnWith(batch, left.go_on, typist) };
  }
  return { left: null, goOn: null };
}
