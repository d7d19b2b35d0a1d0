/**
 * The conversations of a run, in the engine's store and in its own copies: which are there, with which rights, and which
 * of them holds all that another one holds.
 *
 * A session's file only ever grows, so one that begins with a copy holds all of it. Exports are compared by the engine's
 * own ids of what is in them. A copy goes only where this is certain.
 */
import { join, relative } from "node:path";
import { checkEscrow, continuesCopy, endsCopy, readCopy } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, Escrow, EscrowFile, RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import type { Ask, Engine, Located } from "../engines/engine.ts";
import { candidates, isConfirmed } from "./conversation.ts";
import { describeLocated, type KnownSession, oneOf } from "./plan.ts";

type Copies = Pick<RunRecord, "escrow" | "kept">;

/** Every copy that the run has, oldest first: of several of one session, the last one counts. */
export function copiesOf({ escrow, kept = [] }: Copies): readonly Escrow[] {
  return escrow === null ? kept : [...kept, escrow];
}

/** What a copy is called: the checksum of the session's own file. */
export function copyId({ files }: Escrow): string {
  return files[0]?.sha256 ?? "";
}

export function lastCopyOf(run: Copies, session: string): Escrow | null {
  return copiesOf(run).findLast((copy) => copy.session === session) ?? null;
}

/** What is missing from a copy that goes back, in a sentence for the user. Null: as far as is known, nothing is. */
export function saidSince(copy: Escrow, attempts: readonly AttemptRecord[]): string | null {
  const told = attempts.filter(
    ({ agent, asked, reported }) =>
      agent !== null && [asked, ...reported.map(({ value }) => value)].includes(copy.session),
  );
  const later = told.filter(({ startedAt }) => startedAt > copy.takenAt).map(({ n }) => n);
  if (later.length > 0) {
    const which = later.length === 1 ? `attempt ${later[0]}` : `attempts ${later.join(", ")}`;
    return `the copy is older than ${which}: what was said there is not in it`;
  }
  const cut = told.find(
    ({ endedAt, outcome }) => outcome?.result === "interrupted" && (endedAt ?? "") > copy.takenAt,
  );
  return cut === undefined
    ? null
    : `the copy was made while attempt ${cut.n} worked: what was said after that is not in it`;
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
  if (before === undefined || before.sha256 === after?.sha256) return true;
  if (after === undefined) return false;
  if (before.restoreTo !== null) return continuesCopy(join(run.runDirectory, "escrow", after.file), before);
  const [had, has] = [before, after].map((file) => contentOf(engine, run, file));
  if (had === null || had === undefined || has === null || has === undefined) return false;
  return [...had].every(([id, words]) => has.get(id)?.startsWith(words) === true);
}

function contentOf(
  { transfer }: Engine,
  run: RunRecord,
  copy: EscrowFile,
): ReadonlyMap<string, string> | null {
  const text = readCopy(run.runDirectory, copy);
  return text === null ? null : (transfer?.readExport(text) ?? null);
}

interface Missing {
  /** How many of the messages and parts in the export. */
  readonly count: number;
  readonly of: number;
}

/** What an export holds and the engine's store lacks. Null: it cannot be told. */
async function missingFrom(engine: Engine, run: RunRecord, copy: Escrow): Promise<Missing | null> {
  const [file] = copy.files;
  const had = file === undefined ? null : contentOf(engine, run, file);
  if (had === null || run.engineHome === null || engine.transfer === undefined) return null;
  const where = { home: run.engineHome, cwd: run.cwd };
  const has = await engine.transfer.idsIn(copy.session, where, sessionFiles());
  return has === null ? null : { count: [...had.keys()].filter((id) => !has.has(id)).length, of: had.size };
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
  if (engine.transfer !== undefined) return (await missingFrom(engine, run, copy))?.count !== 0;
  const [theirs, ours] = [located.files[0], copy.files[0]];
  if (theirs === undefined || ours === undefined) return false;
  return theirs.restoreTo === ours.restoreTo && !(await continuesCopy(theirs.path, ours));
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
  if (file.restoreTo === null)
    return located.state === "present" && (await missingFrom(engine, run, copy))?.count === 0;
  const path = pathOf(located);
  return path !== undefined && (await continuesCopy(path, file));
}

function pathOf(located: Located): string | undefined {
  if (located.state === "present") return located.files[0]?.path;
  return located.state === "unusable" ? located.path : undefined;
}

/** The engine's session lacks something that our copy of the same session holds. */
export async function isTorn(
  engine: Engine,
  run: RunRecord,
  id: string,
  located: Located,
): Promise<KnownSession | null> {
  const last = lastCopyOf(run, id);
  const [path, copy] = [pathOf(located), last?.files[0]];
  if (last === null || copy === undefined) return null;
  if (copy.restoreTo === null) return located.state === "present" ? tornStore(engine, run, last) : null;
  if (path === undefined) return null;
  const isSame = run.engineHome !== null && relative(run.engineHome, path) === copy.restoreTo;
  if (!isSame || (await continuesCopy(path, copy))) return null;
  // The file was deleted while the agent worked and began again in the middle: nothing is in it that the copy lacks.
  if (await endsCopy(run.runDirectory, copy, path))
    return { id, state: "absent", note: `only its end is left in ${path}` };
  if (located.state !== "unusable") return { id, state: "torn", note: path };
  return { id, state: "unusable", note: `${located.why} (${path})`, damaged: true };
}

async function tornStore(engine: Engine, run: RunRecord, copy: Escrow): Promise<KnownSession | null> {
  const missing = await missingFrom(engine, run, copy);
  if (missing === null || missing.count === 0) return null;
  const note = `${missing.count} of ${missing.of} messages and parts are gone from ${run.engineHome ?? ""}`;
  return { id: copy.session, state: "torn", note };
}

export interface CheckedCopies {
  /** The session that the newest copy is of, when size and checksum prove it whole. */
  readonly escrow: string | null;
  readonly copyDamage?: string;
  /** Whole ones among the earlier copies, oldest first. */
  readonly kept: readonly Escrow[];
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
  for (const copy of copies.kept) {
    const located = found.find(({ known }) => known.id === copy.session)?.located;
    if (located !== undefined && (await hasMore(engine, run, copy, located))) kept.push(copy);
  }
  return { ...copies, kept };
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
      ? `holds nothing that ${engine.title}'s session ${chosen.session} lacks`
      : `cannot be used: ${copyDamage}`;
  throw new Fault(
    "copy_missing",
    `Copy ${copyId(chosen).slice(0, 8)} of run ${handle} ${why}. Nothing was started. Leave out --copy to go on; \`reprise show ${handle}\` lists the copies.`,
    { facts: { handle, session: chosen.session } },
  );
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
export function earlierRights(run: RunRecord, found: readonly LookedUp[]): Rights {
  const told =
    found.findLast(({ rights }) => rights.rights !== undefined)?.rights.rights ??
    copiesOf(run).find(({ rights }) => rights !== undefined)?.rights;
  if (told !== undefined) return { rights: told };
  if (found.length === 0 && run.attempts > 0)
    return { rightsUnknown: "no attempt of the run ever named a conversation" };
  // In a session that is there and says nothing no turn ever began.
  const lost = found.findLast(
    ({ known, rights }) => known.state !== "present" || rights.rightsUnknown !== undefined,
  );
  return lost === undefined ? {} : { rightsUnknown: lost.rights.rightsUnknown ?? lost.known.note };
}

export type Rights = Pick<Ask, "rights" | "rightsUnknown">;

export interface LookedUp {
  readonly known: KnownSession;
  readonly located: Located;
  readonly rights: Rights;
}

/** `chosen`: only this one of the run's sessions. */
export async function lookUp(engine: Engine, run: RunRecord, chosen?: string): Promise<readonly LookedUp[]> {
  const all = candidates(run.sessions, run.session).filter((id) => engine.session.format.test(id));
  const ids = chosen === undefined ? all : [oneOf(run, all, chosen)];
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

function rightsIn(located: Located): Rights {
  if (located.state === "unknown") return { rightsUnknown: located.why };
  if (located.state !== "present") return {};
  const { rights, rightsUnknown } = located;
  if (rightsUnknown !== undefined) return { rightsUnknown };
  return rights === undefined ? {} : { rights };
}
