/**
 * The conversations of a run, in the engine's store and in its own copies: which are there, with which rights, and which
 * of them holds all that another one holds.
 *
 * A session's file only ever grows, so one that begins with a copy holds all of it. Exports are compared by the engine's
 * own ids of what is in them. A copy goes only where this is certain.
 */
import { createHash } from "node:crypto";
import { basename, join, relative } from "node:path";
import { checkEscrow, continuesCopy, endsCopy, readCopy } from "../../state/state.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptRecord, Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine, Located } from "../../engines/engine.ts";
import {
  candidates,
  changedWords,
  differenceOf,
  isBlank,
  isConfirmed,
  isNothing,
  type Missing,
  type ConversationRights,
  rightsIn,
  saidSince,
  type ConversationWords,
} from "../conversation.ts";
import { describeLocated, type KnownSession, oneOfThese } from "../resume/plan.ts";

type Copies = Pick<RunRecord, "escrow" | "kept">;

/** Every copy that the run has, oldest first: of several of one session, the last one counts. */
export function copiesOf({ escrow, kept = [] }: Copies): readonly Escrow[] {
  return escrow === null ? kept : [...kept, escrow];
}

/** What a copy is called: the checksum of the session's own file; of a session that depends on others, that of all checksums. */
export function copyId({ files }: Escrow): string {
  const [own = "", ...others] = files.map(({ sha256 }) => sha256);
  return others.length === 0
    ? own
    : createHash("sha256")
        .update([own, ...others].join("\n"))
        .digest("hex");
}

export function lastCopyOf(run: Copies, session: string): Escrow | null {
  return copiesOf(run).findLast((copy) => copy.session === session) ?? null;
}

/** What the conversation lacks once this copy is back, in sentences for the user. */
export async function lacking(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  { located, attempts }: { readonly located: Located; readonly attempts: readonly AttemptRecord[] },
): Promise<readonly string[]> {
  const since = (await keepsOwn(engine, run, copy, located)) ? null : saidSince(copy, attempts);
  // Attempts alone do not tell: what was said before the copy was made may be in another copy only.
  const others = await lackedWith(engine, run, copy, located);
  const named = others.map((other) => `copy ${copyName(other)}`).join(" and ");
  const have = others.length === 1 ? "has" : "have";
  const also = `${named} of the same session ${have} something that the session lacks once this copy is back`;
  return [...(since === null ? [] : [since]), ...(others.length === 0 ? [] : [also])];
}

/** For people: the first characters of its id, and when it was made. */
export function copyName(copy: Escrow): string {
  return `${copyId(copy).slice(0, 8)} (made ${copy.takenAt})`;
}

/** All that is in the session stays when the copy goes back: an import adds to it, a file goes back only where it lacks something. */
async function keepsOwn(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<boolean> {
  if (engine.transfer !== undefined) return located.state === "present";
  const [own] = await filesAfter(run, copy, located);
  return own?.path === ownPath(run, copy, located);
}

/** Other copies of the same session with something that it lacks once this copy is back. What cannot be read is not told. */
export async function lackedWith(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<readonly Escrow[]> {
  const others = copiesOf(run).filter((other) => other !== copy && other.session === copy.session);
  const lacked: Escrow[] = [];
  const files = engine.transfer === undefined ? await filesAfter(run, copy, located) : null;
  const words = files === null ? await wordsAfter(engine, run, copy, located) : null;
  for (const other of others) {
    const missing = differenceOf(wordsOf(engine, run, other.files[0]), words);
    const isHeld = files === null ? missing === null || isNothing(missing) : await continueAll(files, other);
    if (!isHeld) lacked.push(other);
  }
  return lacked;
}

interface FileAfter extends Pick<EscrowFile, "restoreTo"> {
  /** Where what it holds is now. */
  readonly path: string;
}

/** A file of the engine's that has all that the copy has of it stays, unless nothing else explains that the session goes back. */
async function filesAfter(run: RunRecord, copy: Escrow, located: Located): Promise<readonly FileAfter[]> {
  const isOwn = await continuesAll(run, copy, located);
  const files: FileAfter[] = [];
  for (const [at, file] of copy.files.entries()) {
    const there = at === 0 ? ownPath(run, copy, located) : dependencyPath(run, file, located);
    const stays = there !== undefined && !(isOwn && at === 0) && (await continuesCopy(there, file));
    const path = stays ? there : join(run.runDirectory, "escrow", file.file);
    files.push({ restoreTo: file.restoreTo, path });
  }
  return files;
}

async function continueAll([own, ...others]: readonly FileAfter[], copy: Escrow): Promise<boolean> {
  for (const [at, file] of copy.files.entries()) {
    const path = at === 0 ? own?.path : sameFile(others, file)?.path;
    if (path === undefined || !(await continuesCopy(path, file))) return false;
  }
  return true;
}

/** What is there stays as it is, also where the copy has other words. */
async function wordsAfter(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<ConversationWords | null> {
  const back = wordsOf(engine, run, copy.files[0]);
  const there = located.state === "present" ? await storedWords(engine, run, copy.session) : null;
  return back === null ? null : new Map([...back, ...(there ?? [])]);
}

/** Does this copy hold all that an earlier one holds? In doubt it does not. */
export async function holdsAll(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  earlier: Escrow,
): Promise<boolean> {
  if (earlier.session !== copy.session) return false;
  const [before, after] = [earlier.files[0], copy.files[0]];
  if (before === undefined) return true;
  if (after === undefined) return false;
  if (before.restoreTo === null) {
    if (before.sha256 === after.sha256) return true;
    const missing = differenceOf(wordsOf(engine, run, before), wordsOf(engine, run, after));
    return missing !== null && isNothing(missing);
  }
  for (const [at, file] of earlier.files.entries()) {
    const theirs = at === 0 ? after : sameFile(copy.files.slice(1), file);
    if (theirs === undefined || !(await continuesFile(run, theirs, file))) return false;
  }
  return true;
}

/** Of the files that a session depends on: a name is enough, since the engine may move them. */
export function sameFile<T extends Pick<EscrowFile, "restoreTo">>(
  files: readonly T[],
  { restoreTo }: Pick<EscrowFile, "restoreTo">,
): T | undefined {
  return (
    files.find((file) => file.restoreTo === restoreTo) ??
    files.find((file) => basename(file.restoreTo ?? "") === basename(restoreTo ?? ""))
  );
}

/** Does one file of `escrow/` begin with all that an earlier one holds? */
export async function continuesFile(run: RunRecord, file: EscrowFile, earlier: EscrowFile): Promise<boolean> {
  if (file.sha256 === earlier.sha256) return true;
  return continuesCopy(join(run.runDirectory, "escrow", file.file), earlier);
}

function wordsOf(
  { transfer }: Engine,
  run: RunRecord,
  copy: EscrowFile | undefined,
): ConversationWords | null {
  const text = copy === undefined ? null : readCopy(run.runDirectory, copy);
  return text === null ? null : (transfer?.readExport(text) ?? null);
}

async function storedWords(
  engine: Engine,
  run: RunRecord,
  session: string,
): Promise<ConversationWords | null> {
  if (run.engineHome === null || engine.transfer === undefined) return null;
  return engine.transfer.wordsIn(session, { home: run.engineHome, cwd: run.cwd }, sessionFiles());
}

async function missingFrom(engine: Engine, run: RunRecord, copy: Escrow): Promise<Missing | null> {
  const had = wordsOf(engine, run, copy.files[0]);
  return had === null ? null : differenceOf(had, await storedWords(engine, run, copy.session));
}

/** What a copy holds that another one lacks, where the engine imports copies. Null: it cannot be told, or it keeps files. */
export function lostSince(engine: Engine, run: RunRecord, copy: Escrow, newer: Escrow): Missing | null {
  return differenceOf(wordsOf(engine, run, copy.files[0]), wordsOf(engine, run, newer.files[0]));
}

/** Why the words of a copy cannot be put back, as the end of a sentence. */
export function leftAsIs({ title }: Engine, run: RunRecord, copy: Escrow): string {
  const where = join(run.runDirectory, "escrow", copy.files[0]?.file ?? "");
  return `${title}'s import leaves what is there as it is, so the words of the copy are only in ${where}`;
}

/** Why a copy that holds other words than the session cannot be put back. Null: it can be, or it holds nothing else. */
export async function whyStuck(engine: Engine, run: RunRecord, copy: Escrow): Promise<string | null> {
  const missing = engine.transfer === undefined ? null : await missingFrom(engine, run, copy);
  if (missing === null || missing.gone > 0 || missing.changed === 0) return null;
  return `${changedWords(missing)} than in ${engine.title}'s session ${copy.session}, and ${leftAsIs(engine, run, copy)}`;
}

/** Could this copy give back anything that the engine's own session lacks? */
export async function hasMore(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<boolean> {
  if (located.state !== "present") return true;
  // To import what is there already is harmless.
  if (engine.transfer !== undefined) return (await missingFrom(engine, run, copy))?.gone !== 0;
  const [theirs, ours] = [located.files[0], copy.files[0]];
  if (theirs === undefined || ours === undefined || theirs.restoreTo !== ours.restoreTo) return false;
  return !(await continuesAll(run, copy, located));
}

/** Is everything that this copy holds in the engine's own session as well, wherever that is? In doubt it is not. */
export async function isElsewhere(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<boolean> {
  const [file] = copy.files;
  if (file === undefined) return true;
  if (file.restoreTo !== null) return continuesAll(run, copy, located);
  const missing = located.state === "present" ? await missingFrom(engine, run, copy) : null;
  return missing !== null && isNothing(missing);
}

async function continuesAll(run: RunRecord, copy: Escrow, located: Located): Promise<boolean> {
  for (const [at, file] of copy.files.entries()) {
    const path = at === 0 ? ownPath(run, copy, located) : dependencyPath(run, file, located);
    if (path === undefined || !(await continuesCopy(path, file))) return false;
  }
  return true;
}

function ownPath(run: RunRecord, { files }: Escrow, located: Located): string | undefined {
  if (located.state === "present") return located.files[0]?.path;
  if (located.state !== "unusable") return undefined;
  // What the engine cannot read may be a file that the session depends on.
  const [own, ...others] = files.map(({ restoreTo }) => placeIn(run, restoreTo));
  return others.includes(located.path) ? own : located.path;
}

function dependencyPath(run: RunRecord, file: EscrowFile, located: Located): string | undefined {
  const found = located.state === "present" ? sameFile(located.files.slice(1), file)?.path : undefined;
  return found ?? placeIn(run, file.restoreTo);
}

function placeIn({ engineHome }: RunRecord, restoreTo: string | null): string | undefined {
  return engineHome === null || restoreTo === null ? undefined : join(engineHome, restoreTo);
}

/** The engine's session lacks something that our copy of the same session holds. */
export async function isTorn(
  engine: Engine,
  run: RunRecord,
  id: string,
  located: Located,
): Promise<KnownSession | null> {
  const last = lastCopyOf(run, id);
  const copy = last?.files[0];
  if (last === null || copy === undefined) return null;
  if (copy.restoreTo === null)
    return located.state === "present" || isBlank(located) ? tornStore(engine, run, last) : null;
  const path = ownPath(run, last, located);
  if (path === undefined) return null;
  const isSame = run.engineHome !== null && relative(run.engineHome, path) === copy.restoreTo;
  if (!isSame) return null;
  if (await continuesCopy(path, copy)) return tornDependency(run, last, located);
  // The file was deleted while the agent worked and began again in the middle: nothing is in it that the copy lacks.
  if (await endsCopy(run.runDirectory, copy, path))
    return { id, state: "absent", note: `only its end is left in ${path}` };
  if (located.state !== "unusable") return { id, state: "torn", note: path };
  return { id, state: "unusable", note: `${located.why} (${path})`, damaged: true };
}

/** A file that the session depends on is there, but without all that the copy holds of it. One that is gone the engine misses itself. */
async function tornDependency(run: RunRecord, copy: Escrow, located: Located): Promise<KnownSession | null> {
  const id = copy.session;
  for (const file of copy.files.slice(1)) {
    const path = dependencyPath(run, file, located);
    if (path === undefined || (await sessionFiles().stat(path)) === null) continue;
    if (await continuesCopy(path, file)) continue;
    return located.state === "unusable"
      ? { id, state: "unusable", note: `${located.why} (${located.path})`, damaged: true }
      : { id, state: "torn", note: `in a file that it depends on, ${path}` };
  }
  return null;
}

async function tornStore(engine: Engine, run: RunRecord, copy: Escrow): Promise<KnownSession | null> {
  const missing = await missingFrom(engine, run, copy);
  if (missing === null || isNothing(missing)) return null;
  const { gone, changed, of } = missing;
  const id = copy.session;
  const home = run.engineHome ?? "";
  if (missing.empty && gone > 0)
    return { id, state: "unusable", note: `none of its words is left in ${home}`, damaged: true };
  if (gone === 0)
    return {
      id,
      state: "torn",
      note: `${changedWords(missing)} in ${home}`,
      stuck: leftAsIs(engine, run, copy),
    };
  const also = changed === 0 ? "" : `, and ${changedWords(missing)} there, which no import changes`;
  return { id, state: "torn", note: `${gone} of ${of} messages and parts are gone from ${home}${also}` };
}

export interface CheckedCopies {
  /** The session that the newest copy is of, when size and checksum prove it whole. */
  readonly escrow: string | null;
  readonly copyDamage?: string;
  /** Whole ones among the earlier copies, oldest first. */
  readonly kept: readonly Escrow[];
  /** Of earlier copies with words that the session lacks and that cannot be put back: why not. */
  readonly stuck?: readonly { readonly session: string; readonly why: string }[];
}

async function checkedCopies(run: RunRecord): Promise<CheckedCopies> {
  const kept: Escrow[] = [];
  for (const copy of run.kept ?? []) if ((await damageOf(run, copy)) === null) kept.push(copy);
  if (run.escrow === null) return { escrow: null, kept };
  const copyDamage = await damageOf(run, run.escrow);
  return copyDamage === null ? { escrow: run.escrow.session, kept } : { escrow: null, copyDamage, kept };
}

export async function damageOf(run: RunRecord, copy: Escrow): Promise<string | null> {
  try {
    await checkEscrow(run.runDirectory, copy);
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { path, why } = error.facts;
    const isTold = typeof path === "string" && typeof why === "string";
    return isTold ? `${path}: ${why}` : error.message.replace(/\.$/, "");
  }
}

interface Sought {
  readonly known: Pick<KnownSession, "id">;
  readonly located: Located;
}

/** The copies that could give back something; `found`: the sessions that are looked for. */
export async function usableCopies(
  engine: Engine,
  run: RunRecord,
  found: readonly Sought[],
  chosen: Escrow | null,
): Promise<CheckedCopies> {
  if (chosen !== null) return onlyChosen(engine, run, found, chosen);
  const copies = await checkedCopies(run);
  const kept: Escrow[] = [];
  const stuck: { session: string; why: string }[] = [];
  for (const copy of copies.kept) {
    const located = found.find(({ known }) => known.id === copy.session)?.located;
    if (located === undefined) continue;
    if (await hasMore(engine, run, copy, located)) kept.push(copy);
    const why = await whyStuck(engine, run, copy);
    if (why !== null)
      stuck.push({ session: copy.session, why: `in copy ${copyId(copy).slice(0, 8)}, ${why}` });
  }
  return { ...copies, kept, ...(stuck.length === 0 ? {} : { stuck }) };
}

/** The copy that the user names, as if there were no other; it must be whole and hold more than the session. */
async function onlyChosen(
  engine: Engine,
  run: RunRecord,
  found: readonly Sought[],
  chosen: Escrow,
): Promise<CheckedCopies> {
  const { handle } = run;
  const { copyDamage } = await checkedCopies({ ...run, escrow: chosen, kept: [] });
  const located = found.find(({ known }) => known.id === chosen.session)?.located;
  if (copyDamage === undefined && located !== undefined && (await hasMore(engine, run, chosen, located)))
    return { escrow: null, kept: [chosen] };
  const why =
    copyDamage === undefined
      ? await whyUseless(engine, run, chosen, located)
      : `cannot be used: ${copyDamage}`;
  throw new Fault(
    "copy_missing",
    `Copy ${copyId(chosen).slice(0, 8)} of run ${handle} ${why}. Nothing was started. Leave out --copy to go on; \`reprise show ${handle}\` lists the copies.`,
    { facts: { handle, session: chosen.session } },
  );
}

async function whyUseless(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located | undefined,
): Promise<string> {
  const stuck = await whyStuck(engine, run, copy);
  if (stuck !== null) return `cannot be put back: ${stuck}`;
  if (located === undefined || (await isElsewhere(engine, run, copy, located)))
    return `holds nothing that ${engine.title}'s session ${copy.session} lacks`;
  const path = ownPath(run, copy, located) ?? "another place";
  return `cannot be put back: ${engine.title} has session ${copy.session} in ${path} now`;
}

/** The copy that the user names, of the session that the user names, if any. */
export function chosenCopy(run: RunRecord, text: string, session: string | undefined): Escrow {
  const fitting = copiesOf(run).filter(
    (copy) =>
      text.length >= 8 &&
      copyId(copy).startsWith(text) &&
      (session === undefined || copy.session.startsWith(session)),
  );
  const [only] = fitting;
  if (only !== undefined && fitting.length === 1) return only;
  const { handle } = run;
  const of = session === undefined ? "" : ` of session ${session.slice(0, 80)}`;
  throw new Fault(
    "copy_missing",
    `Run ${handle} has no copy ${text.slice(0, 80)}${of}. Nothing was started. Give 8 or more characters of the id of a copy; \`reprise show ${handle}\` lists the copies.`,
    { facts: { handle, given: text.slice(0, 80) } },
  );
}

/** What a new conversation in an old run is held to: the oldest one that tells. A run whose agent was never started begins now. */
export function earlierRights(run: RunRecord, found: readonly LookedUp[]): ConversationRights {
  const told =
    found.findLast(({ rights }) => rights.rights !== undefined)?.rights.rights ??
    copiesOf(run).find(({ rights }) => rights !== undefined)?.rights;
  if (told !== undefined) return { rights: told };
  if (found.length === 0 && run.attempts > 0)
    return { rightsUnknown: "no attempt of the run ever named a conversation" };
  // In a session that is there and says nothing no turn ever began.
  const lost = found.findLast(
    ({ known, located, rights }) =>
      rights.rightsUnknown !== undefined || !(known.state === "present" || isBlank(located)),
  );
  return lost === undefined ? {} : { rightsUnknown: lost.rights.rightsUnknown ?? lost.known.note };
}

export interface LookedUp {
  readonly known: KnownSession;
  readonly located: Located;
  readonly rights: ConversationRights;
}

/** `chosen`: only this one of the run's sessions. */
export async function lookUp(engine: Engine, run: RunRecord, chosen?: string): Promise<readonly LookedUp[]> {
  const all = candidates(run.sessions, run.session).filter((id) => engine.session.format.test(id));
  const ids = chosen === undefined ? all : [oneOfThese(run, all, chosen)];
  const { engineHome } = run;
  if (engineHome === null || !engine.can.readStore) {
    const why = "the engine's store cannot be read";
    return ids.map((id) => ({
      known: { id, state: "unknown", note: why },
      located: { state: "unknown", why },
      rights: { rightsUnknown: why },
    }));
  }
  return Promise.all(
    ids.map(async (id) => {
      const located = await engine.locate(id, { home: engineHome, cwd: run.cwd }, sessionFiles());
      const torn = await isTorn(engine, run, id, located);
      const known = torn ?? describeLocated(id, located, engineHome);
      const silent = hasBegun(run, id) ? {} : { silent: true as const };
      return { known: { ...known, ...silent }, located, rights: rightsIn(located) };
    }),
  );
}

/** In doubt it has: an id that only we have chosen, or that a UI was left with, is that of no conversation. */
function hasBegun(run: RunRecord, id: string): boolean {
  return isConfirmed(run, id) || lastCopyOf(run, id) !== null;
}
