/**
 * The commands to type after a batch, for all of it and for one issue. Used by the summary, `issues status` and `issues
 * show`.
 */
import { isDeepStrictEqual } from "node:util";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { stringIn } from "../lib/json.ts";
import { plural } from "../lib/plural.ts";
import {
  type BatchRecord,
  type Issue,
  isOrphan,
  isReversed,
  type LeftIssue,
  liveBatch,
  openSource,
  orphans,
  type IssueSource,
  damagedSessions,
  unknownIssue,
} from "../issues/issues.ts";
import { correctedOptions } from "../issues/rights.ts";
import { directoryFor } from "../issues/live-batch.ts";
import { parseScope, plan } from "../issues/plan.ts";
import { batchHistory, batchHistoryIn } from "../issues/prior.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "../run/run.ts";
import { isUnfinished, textsIn } from "./issues-inherit.ts";
import { byHandText, goOnCommand, optionWords, parsedWords, split, withoutTrust } from "./issues-options.ts";
import { type GoOn, sourceOptions } from "./issues-source.ts";

/** Where the user types the command. */
export interface ContinueTyper {
  /** The directory, if the command must name it. */
  readonly place: string | null;
  readonly config: Pick<Deps["config"], "engines">;
}

export function goOnOf(record: BatchRecord, typist: ContinueTyper): GoOn | null {
  // The batch's record at its end; for a killed or older batch, derived from its issues.
  const words = record.go_on === undefined ? (isUnfinished(record) ? ownWords(record) : null) : record.go_on;
  return words === null ? null : goOnWith(record, words, typist);
}

function goOnWith(record: BatchRecord, words: readonly string[], { place, config }: ContinueTyper): GoOn {
  const [own, theirs] = split(withoutTrust(words));
  const engine = stringIn(record.config, "engine") ?? "";
  const { native, byHand } = correctedOptions(record, theirs, config.engines[engine]?.args ?? []);
  const isLenient = record.config["strict"] === true && !own.includes("--strict");
  const said = [byHand, isLenient ? LENIENT : "", byHandText(textsIn(record, "by_hand"))];
  return {
    batch: record,
    words,
    command: goOnCommand([...own, "--", ...native], place),
    byHand: said.filter((part) => part !== "").join(" "),
  };
}

const LENIENT = "Without --strict, an issue whose conversation cannot continue begins a new one.";

const ownWords = (record: BatchRecord) => textsIn(record, "options");

/**
 * The command after the newest batch. A batch that began nothing leaves the batch before it to continue, unless it was
 * itself that continuation: then the same command has just done nothing. `waits`: its issues that only a person can
 * continue.
 */
export function goOnFirst(
  batches: Iterable<BatchRecord>,
  typist: ContinueTyper,
  waits: readonly LeftIssue[] = [],
): GoOn | null {
  let newest: BatchRecord | null = null;
  for (const batch of batches) {
    newest ??= batch;
    if (newest === batch && isStuck(batch, waits)) return null;
    if (Object.keys(batch.issues).length === 0) continue;
    if (newest === batch || !isUnfinished(batch)) break;
    if (newest.go_on === undefined) return goOnOf(batch, typist);
    const own = goOnOf(newest, typist);
    const isSame =
      newest.config["resume"] !== false &&
      isDeepStrictEqual(withoutTrust(ownWords(newest)), withoutTrust(ownWords(batch)));
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

/** True: every issue that the batch could continue waits for a person. */
function isStuck(
  { completed_at: ended, issues, leaves = [] }: BatchRecord,
  waits: readonly LeftIssue[],
): boolean {
  const begun = Object.keys(issues).filter(
    (id) => !["completed", "left"].includes(issues[id]?.status ?? "left"),
  );
  const left = leaves.filter(({ go_on: words }) => words !== null).map(({ id }) => id);
  const isWaiting = (id: string) => waits.some((one) => one.id === id);
  return ended !== null && waits.length > 0 && [...begun, ...left].every(isWaiting);
}

/** Issues in progress that an earlier batch began and no later one has touched. */
export interface Earlier {
  readonly batch: BatchRecord;
  readonly ids: readonly string[];
  /** The source says so; false: it was not asked, and a person may have closed them since. */
  readonly isSure: boolean;
  readonly goOn: GoOn;
}

/** `isOpen`: whether an issue is in progress by now; null: the source was not asked. */
export function earlierOf(
  batches: Iterable<BatchRecord>,
  typist: ContinueTyper,
  isOpen: ((id: string) => boolean) | null,
): readonly Earlier[] {
  const found: Earlier[] = [];
  let known: Set<string> | null = null;
  for (const batch of batches) {
    const { issues, leaves = [] } = batch;
    const isLeft = (id: string) => !["completed", "left"].includes(issues[id]?.status ?? "left");
    const ids = Object.keys(issues).filter(
      (id) => known?.has(id) === false && isLeft(id) && isOpen?.(id) !== false,
    );
    if (ids.length > 0)
      found.push({
        batch,
        ids,
        isSure: isOpen !== null,
        goOn: goOnWith(batch, wordsFor(batch, ids), typist),
      });
    known ??= new Set(leaves.map(({ id }) => id));
    for (const id of Object.keys(issues)) known.add(id);
  }
  return found;
}

/** A later batch may lend a plain `--resume` other options: the issues and the engine are named. */
function wordsFor(batch: BatchRecord, ids: readonly string[]): readonly string[] {
  const [own, native] = split(ownWords(batch));
  const flags = parsedWords(own);
  if (flags === null) return ownWords(batch);
  const { maxIssues: _all, strict: _fails, ...rest } = flags;
  const engine = stringIn(batch.config, "engine");
  return optionWords(
    { ...rest, ...(engine === undefined ? {} : { engine }), scope: `ids:${ids.join(",")}` },
    native,
  );
}

/** `batch 2026…_1a2b3c4d left 2 issues in progress (a, b): reprise issues run --resume …` */
export function earlierText({ batch, ids, isSure, goOn }: Earlier): string {
  const ended = batch.completed_at === null ? "was killed and left" : "left";
  const named = harmlessLine(ids.slice(0, MAX_NAMED).join(", "), 500);
  const more = ids.length > MAX_NAMED ? ", …" : "";
  const what = `${plural(ids.length, "issue")} ${isSure ? "in progress" : "unfinished"} (${named}${more})`;
  const { command, byHand } = goOn;
  return `batch ${harmlessLine(batch.run_id, 40)} ${ended} ${what}: ${command}${byHand === "" ? "" : `\n${byHand}`}`;
}

const MAX_NAMED = 10;

/** As `--json` has it. */
export const earlierJson = ({ batch, ids, goOn }: Earlier) => ({
  batch: batch.run_id,
  issues: ids,
  resume: goOn.command,
});

/** The unfinished part of the newest batch, which has ended. */
export interface BatchRemainder {
  /** What earlier batches left, and it did not touch. */
  readonly earlier: readonly Earlier[];
  readonly leaves: readonly LeftIssue[];
  /** Of those, work on issues that the source does not have at the moment. */
  readonly orphans: readonly LeftIssue[];
  readonly goOn: GoOn | null;
}

/** Asks the source if that needs no network: the batch's record may be outdated. */
export async function standingOf(
  deps: Deps,
  root: string,
  last: BatchRecord,
  typist: ContinueTyper,
): Promise<BatchRemainder> {
  const waits = await damagedSessions(deps, last);
  const told = last.leaves ?? [];
  const first = goOnFirst(batchHistory(deps, root).batches(), typist, waits);
  const kept = earlierOf(batchHistory(deps, root).batches(), typist, null);
  const isAsked = first !== null || told.length > 0 || kept.length > 0;
  const present = isAsked ? await sourceNow(deps, root, last) : null;
  const lost = told.filter(isOrphan);
  const gone = present === null ? lost : await orphans(deps, { root, ...present }, present.issues, []);
  const isIn = (all: readonly { readonly id: string }[], { id }: LeftIssue) =>
    all.some((one) => one.id === id);
  const isPast = ({ id, why }: LeftIssue) => {
    const now = present?.issues.find((one) => one.id === id);
    return now !== undefined && isReversed(why, now);
  };
  const isBack =
    lost.some((one) => isIn(present?.issues ?? [], one) && !isIn(waits, one)) || told.some(isPast);
  const goOn = first ?? (isBack ? goOnWith(last, ownWords(last), typist) : null);
  const leaves = [...told.filter((one) => !isOrphan(one) && !isIn(gone, one) && !isPast(one)), ...gone];
  const isOpen = (id: string) =>
    present?.issues.some((one) => one.id === id && one.status === "in_progress") === true;
  return {
    earlier: present === null ? kept : earlierOf(batchHistory(deps, root).batches(), typist, isOpen),
    leaves: [...leaves, ...waits.filter((one) => !isIn(leaves, one))],
    orphans: gone,
    goOn: goOn === null || present === null || finds(goOn, present.issues) ? goOn : null,
  };
}

interface Present {
  readonly source: Pick<IssueSource, "one">;
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
): Promise<{ readonly left: LeftIssue | null; readonly goOn: GoOn | null }> {
  const typist = { place, config: deps.config };
  for (const batch of batchHistory(deps, root).batches()) {
    const left = batch.leaves?.find((one) => one.id === id && !isOrphan(one)) ?? null;
    if (left === null && !Object.hasOwn(batch.issues, id)) continue;
    if (liveBatch(deps, root) === batch.run_id) break;
    const [now = null] = await damagedSessions(deps, batch, id);
    if (now !== null) return { left: now, goOn: null };
    if (left === null) return { left, goOn: goOnOf(batch, typist) };
    return { left, goOn: left.go_on === null ? null : goOnWith(batch, left.go_on, typist) };
  }
  return { left: null, goOn: null };
}

/**
 * Why the run of an issue stays: the issue is in progress and continues in this run. Reprise asks a source that needs no
 * network; for any other source, the record of the newest batch decides.
 */
export function neededByIssue(deps: Deps): (run: RunRecord) => Promise<string | null> {
  // Of many runs that are removed, each repository is read once.
  const sources = new Map<string, Present | null>();
  const known = new Map<string, readonly BatchRecord[]>();
  return async ({ agentName, handle, subject }) => {
    const directory = directoryFor(deps, subject);
    const id = subject?.slice(subject.indexOf("#") + 1) ?? "";
    if (directory === null) return null;
    const batches = known.get(directory) ?? [...batchHistoryIn(deps, directory).batches()];
    known.set(directory, batches);
    for (const batch of batches) {
      const entry = Object.hasOwn(batch.issues, id) ? batch.issues[id] : undefined;
      if (entry === undefined || entry.engine !== agentName || entry.handle === null) continue;
      // An issue that started over has another run.
      if (entry.handle !== handle) return null;
      const root = batch.repo_path;
      const found = sources.get(root);
      const present = found === undefined ? await sourceNow(deps, root, batch) : found;
      sources.set(root, present);
      const isOpen =
        present === null
          ? !["completed", "left"].includes(entry.status)
          : present.issues.some((one) => one.id === id && one.status === "in_progress");
      if (!isOpen) return null;
      const { command } = goOnWith(batch, wordsFor(batch, [id]), { place: root, config: deps.config });
      return `issue ${harmlessLine(id, 100)} is in progress and goes on in it. Close the issue or set it to open first, or add --discard-work: the issue then starts over. To go on with it: ${command}`;
    }
    return null;
  };
}
