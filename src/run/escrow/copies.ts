/**
 * Compares the copies of a run's conversations with each other and with the engine's sessions: which of them holds
 * everything that another one holds.
 *
 * A session's file only ever grows, so a file that begins with a copy holds all of it. Exports are compared by the engine's
 * ids of messages and parts. A copy is dropped only where the comparison is certain.
 */
import { createHash } from "node:crypto";
import { basename, join, relative } from "node:path";
import { continuesCopy, endsCopy, readCopy } from "../../state/escrow.ts";
import type { AttemptRecord, Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine, Located } from "../../engines/engine.ts";
import {
  changedWords,
  differenceOf,
  isBlank,
  isNothing,
  type Missing,
  saidSince,
  type ConversationWords,
} from "../conversation.ts";
import type { KnownSession } from "../resume/plan.ts";

type Copies = Pick<RunRecord, "escrow" | "kept">;

/** Every copy of the run, oldest first. Of several copies of a session the last one counts. */
export function copiesOf({ escrow, kept = [] }: Copies): readonly Escrow[] {
  return escrow === null ? kept : [...kept, escrow];
}

/** The id of a copy: the checksum of the session's own file, or of all checksums if the session depends on other files. */
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

/** What the conversation lacks after this copy is restored, in sentences for the user. */
export async function lacking(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  { located, attempts }: { readonly located: Located; readonly attempts: readonly AttemptRecord[] },
): Promise<readonly string[]> {
  const since = (await keepsOwn(engine, run, copy, located)) ? null : saidSince(copy, attempts);
  // Attempts alone do not show it: older messages may be only in another copy.
  const others = await lackedWith(engine, run, copy, located);
  const named = others.map((other) => `copy ${copyName(other)}`).join(" and ");
  const have = others.length === 1 ? "has" : "have";
  const also = `${named} of the same session ${have} something that the session lacks after this copy is restored`;
  return [...(since === null ? [] : [since]), ...(others.length === 0 ? [] : [also])];
}

/** For people: the first characters of its id, and its time. */
export function copyName(copy: Escrow): string {
  return `${copyId(copy).slice(0, 8)} (made ${copy.takenAt})`;
}

/** Whether restoring the copy keeps everything in the session: an import adds to it, and a complete file stays. */
async function keepsOwn(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<boolean> {
  if (engine.transfer !== undefined) return located.state === "present";
  const [own] = await filesAfter(run, copy, located);
  return own?.path === ownPath(run, copy, located);
}

/** Other copies of the same session with something that it lacks after this copy is restored. Unreadable copies are left out. */
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
  /** Where its content is now. */
  readonly path: string;
}

/**
 * The files after a restore. An engine's file that holds all of its copy stays. If all files do, the session's own file is
 * replaced, since the session must need the copy for some reason.
 */
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

/** Existing text stays, even if the copy has different text. */
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

/** Whether this copy holds everything in an earlier one. In doubt: no. */
export function holdsAll(engine: Engine, run: RunRecord, copy: Escrow, earlier: Escrow): Promise<boolean> {
  return holdsAllOf(engine, { run, copy }, { run, copy: earlier });
}

interface RunCopy {
  readonly run: RunRecord;
  readonly copy: Escrow;
}

/** The same for copies of two runs. */
export async function holdsAllOf(
  engine: Engine,
  { run, copy }: RunCopy,
  { run: whose, copy: earlier }: RunCopy,
): Promise<boolean> {
  if (earlier.session !== copy.session) return false;
  const [before, after] = [earlier.files[0], copy.files[0]];
  if (before === undefined) return true;
  if (after === undefined) return false;
  if (before.restoreTo === null) {
    if (before.sha256 === after.sha256) return true;
    const missing = differenceOf(wordsOf(engine, whose, before), wordsOf(engine, run, after));
    return missing !== null && isNothing(missing);
  }
  for (const [at, file] of earlier.files.entries()) {
    const theirs = at === 0 ? after : sameFile(copy.files.slice(1), file);
    if (theirs === undefined || !(await continuesFile(run, theirs, file))) return false;
  }
  return true;
}

/** Finds a file that a session depends on, by its name, because the engine may move it. */
export function sameFile<T extends Pick<EscrowFile, "restoreTo">>(
  files: readonly T[],
  { restoreTo }: Pick<EscrowFile, "restoreTo">,
): T | undefined {
  return (
    files.find((file) => file.restoreTo === restoreTo) ??
    files.find((file) => basename(file.restoreTo ?? "") === basename(restoreTo ?? ""))
  );
}

/** Whether a file in `escrow/` begins with the whole of an earlier one. */
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

/** What a copy holds that a newer one lacks, for an engine that imports copies. Null: unknown, or the engine keeps files. */
export function lostSince(engine: Engine, run: RunRecord, copy: Escrow, newer: Escrow): Missing | null {
  return differenceOf(wordsOf(engine, run, copy.files[0]), wordsOf(engine, run, newer.files[0]));
}

/** Why the text of a copy cannot be restored, as the end of a sentence. */
export function leftAsIs({ title }: Engine, run: RunRecord, copy: Escrow): string {
  const where = join(run.runDirectory, "escrow", copy.files[0]?.file ?? "");
  return `${title}'s import does not change existing messages, so the copy's text is only in ${where}`;
}

/** Why a copy with different text than the session cannot be restored. Null: it can be, or it holds nothing else. */
export async function whyStuck(engine: Engine, run: RunRecord, copy: Escrow): Promise<string | null> {
  const missing = engine.transfer === undefined ? null : await missingFrom(engine, run, copy);
  if (missing === null || missing.gone > 0 || missing.changed === 0) return null;
  return `${changedWords(missing)} than in ${engine.title}'s session ${copy.session}, and ${leftAsIs(engine, run, copy)}`;
}

/** Whether this copy could restore something that the engine's own session lacks. */
export async function hasMore(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<boolean> {
  if (located.state !== "present") return true;
  // Importing existing parts again is harmless.
  if (engine.transfer !== undefined) return (await missingFrom(engine, run, copy))?.gone !== 0;
  const [theirs, ours] = [located.files[0], copy.files[0]];
  if (theirs === undefined || ours === undefined || theirs.restoreTo !== ours.restoreTo) return false;
  return !(await continuesAll(run, copy, located));
}

/** Whether the engine's own session holds everything in this copy, wherever its file is. In doubt: no. */
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

export function ownPath(run: RunRecord, { files }: Escrow, located: Located): string | undefined {
  if (located.state === "present") return located.files[0]?.path;
  if (located.state !== "unusable") return undefined;
  // The session may depend on the unreadable file.
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

/** Describes a session that lacks something in the run's copy of it. Null: it lacks nothing. */
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
  // The file was deleted while the agent worked and began again in the middle, so the copy has all of it.
  if (await endsCopy(run.runDirectory, copy, path))
    return { id, state: "absent", note: `only its end is left in ${path}` };
  if (located.state !== "unusable") return { id, state: "torn", note: path };
  return { id, state: "unusable", note: `${located.why} (${path})`, damaged: true };
}

/** A file that the session depends on lacks a part that the copy has. The engine itself reports a missing file. */
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
