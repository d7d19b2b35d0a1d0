/**
 * Keeps copies of the engine's own session in the run directory.
 *
 * Engines delete and lose their sessions. While an agent works, `escrow-keeper.ts` keeps links and copies; the last copy
 * is taken after the attempt and never delays the summary. An existing file of the engine is never
 * overwritten.
 */
import { join } from "node:path";
import { endLive, livePieces, liveSession } from "../../state/escrow-live.ts";
import { continuesCopy, describeCopy, dropOldEscrow, isEmptied } from "../../state/escrow.ts";
import { saveRunFile } from "../../state/runs.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import type { Engine } from "../../engines/engine.ts";
import { copiesOf, copyId, holdsAll, lastCopyOf, leftAsIs, lostSince } from "./copies.ts";
import { type Deps, isoNow } from "../deps.ts";
import { type EngineSetup, findEngine } from "../engine-setup.ts";
import { resumeCommand } from "../resume/plan.ts";
import { copyApart, copyFiles, type CopiedApart, copyNow, type Taken } from "./copying.ts";
import { type NotTaken, sourcesOf } from "./sources.ts";

export interface Taking {
  readonly run: RunRecord;
  readonly fence: number;
}

export type Copies = Pick<RunRecord, "escrow" | "kept">;

/** Never throws a fault: a failed copy is a warning. */
export async function takeEscrow(deps: Deps, setup: EngineSetup, taking: Taking): Promise<RunRecord> {
  const session = taking.run.session.value;
  if (!keepsEscrow(deps, taking.run) || session === null || setup.home === null) return taking.run;
  const { fence } = taking;
  let { run } = taking;
  try {
    run = await withLeft(deps, setup, taking);
    const taken = await copyNow(deps, { ...setup, home: setup.home }, { run, session });
    if (!("escrow" in taken)) {
      if (taken.skipped === null && isLost(setup.engine, run))
        deps.log.warn(
          `${setup.engine.title} has no file of session ${session}, and there is no copy: it cannot be resumed`,
        );
      return withoutCopy(deps, run, taken);
    }
    if (taken.lacks) {
      const where = join(run.runDirectory, "escrow");
      deps.log.warn(`the session is shorter than its last copy; that copy stays in ${where}`);
      return await recordBeside(deps, setup.engine, { run, fence }, taken);
    }
    for (const file of taken.longer)
      deps.log.warn(
        `${file}, which session ${session} depends on, lacks a part that its last copy has; that copy stays in ${join(run.runDirectory, "escrow")}`,
      );
    return await recordCopy(deps, setup.engine, { run, fence }, taken);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`Reprise kept no copy of the session: ${error.message}`);
    return run;
  }
}

/** Copies conversations that the user left in a UI with `/clear`, which the last copy does not contain. */
async function withLeft(deps: Deps, setup: EngineSetup, { run, fence }: Taking): Promise<RunRecord> {
  const { home, engine } = setup;
  let now = run;
  for (const { value, attempt, foreign, verifiedAt } of run.sessions) {
    const isLeft = attempt === run.attempts && foreign === undefined && verifiedAt !== null;
    if (!isLeft || value === run.session.value || home === null) continue;
    const taken = await copyNow(deps, { ...setup, home }, { run: now, session: value });
    if (!("escrow" in taken) || taken.lacks) continue;
    now = { ...now, ...(await withCopy(engine, now, taken.escrow)) };
    await saveCopies(deps, { run: now, fence });
  }
  return now;
}

/** A turn was completed, so the session must exist. */
function isLost({ can, transfer }: Engine, { status, launch, escrow, session }: RunRecord): boolean {
  const isKept = can.readStore && transfer === undefined && launch.unresumable === undefined;
  return isKept && status === "completed" && escrow?.session !== session.value;
}

/** Removes the links if nothing was to copy. After a failed copy they stay, unless they exceed the size limit. */
function withoutCopy(deps: Deps, run: RunRecord, { skipped }: NotTaken): RunRecord {
  if (skipped !== null) deps.log.warn(`Reprise kept no copy of the session: ${skipped}`);
  const bytes = livePieces(run.runDirectory).reduce((sum, { size }) => sum + size, 0);
  if (skipped === null || bytes > deps.config.escrowLimitBytes) endLive(run.runDirectory);
  return run;
}

export function keepsEscrow(deps: Deps, run: RunRecord): boolean {
  return run.launch.escrow && deps.config.escrowLimitBytes > 0;
}

/** After an attempt whose owner died: the content of the links becomes the copy. The caller has the run's lease. */
export async function recoverEscrow(deps: Deps, run: RunRecord, fence: number): Promise<RunRecord> {
  const live = liveSession(run.runDirectory);
  if (live === null || run.engineHome === null || !keepsEscrow(deps, run)) return run;
  const engine = findEngine(deps, run.agentName);
  const home = run.engineHome;
  const taken = await copyFiles(deps, { engine, home, run, session: live.session });
  if (!("escrow" in taken)) return withoutCopy(deps, run, taken);
  const record = taken.lacks ? recordBeside : recordCopy;
  return record(deps, engine, { run, fence }, taken);
}

/** The user continues with the rest of a session: its copy is the newest from now on, and the longer one stays. */
export async function leaveCopy(
  deps: Deps,
  setup: EngineSetup,
  { run, fence }: Taking,
  session: string,
): Promise<Copies> {
  const { engine, home } = setup;
  if (!keepsEscrow(deps, run) || home === null) return run;
  const taken = await copyNow(deps, { ...setup, home }, { run, session, asIs: true });
  if ("escrow" in taken) return recordCopy(deps, engine, { run, fence }, taken);
  if (taken.skipped !== null) deps.log.warn(`Reprise kept no copy of the session: ${taken.skipped}`);
  return run;
}

/** The new copy is the newest one. */
async function recordCopy(deps: Deps, engine: Engine, taking: Taking, taken: Taken): Promise<RunRecord> {
  const apart = await copyApart(deps, taking.run, taken);
  let { run } = taking;
  for (const copy of [...apart.copies, taken.escrow])
    run = { ...run, ...(await withCopy(engine, run, copy)) };
  return replaceLinks(deps, taking, run, apart);
}

/** The run's last copy stays the newest one: the new copy lacks a part of it, and is kept only if nothing else holds it. */
async function recordBeside(deps: Deps, engine: Engine, taking: Taking, taken: Taken): Promise<RunRecord> {
  const apart = await copyApart(deps, taking.run, taken);
  const { run } = taking;
  let { kept = [] } = run;
  for (const copy of [...apart.copies, ...(taken.linked ? [taken.escrow] : [])]) {
    const held = await Promise.all(
      copiesOf({ escrow: run.escrow, kept }).map((one) => holdsAll(engine, run, one, copy)),
    );
    if (!held.includes(true)) kept = [...kept, copy];
  }
  const isSame = kept.length === (run.kept ?? []).length;
  return replaceLinks(deps, taking, isSame ? run : { ...run, kept }, apart);
}

/** The record names the copies before older ones and the links go. */
async function replaceLinks(
  deps: Deps,
  { run: before, fence }: Taking,
  run: RunRecord,
  { failed }: CopiedApart,
): Promise<RunRecord> {
  if (run !== before) await saveCopies(deps, { run, fence });
  dropOldEscrow(run.runDirectory, copiesOf(run));
  if (!failed) endLive(run.runDirectory);
  return run;
}

export async function saveCopies(deps: Deps, { run, fence }: Taking): Promise<void> {
  saveRunFile(run);
  await deps.store.saveRun(run, fence);
}

/** The run's copies with `escrow` as the newest. An earlier one is dropped only if `escrow` holds all of it. */
export async function withCopy(engine: Engine, run: RunRecord, escrow: Escrow): Promise<Copies> {
  const kept: Escrow[] = [];
  for (const copy of copiesOf(run)) {
    if (await holdsAll(engine, run, escrow, copy)) continue;
    // A damaged copy stays as well: most of it is still readable.
    if (copy !== run.escrow || !isEmptied(run.runDirectory, copy)) kept.push(copy);
  }
  return kept.length > 0 || run.kept !== undefined ? { escrow, kept } : { escrow };
}

/** Warns about text that the engine deleted while it worked. The last copy with it stays beside the new one. */
export function copiesLeft(engine: Engine, before: RunRecord, after: RunRecord): readonly string[] {
  const newest = after.escrow;
  const known = new Set((before.kept ?? []).map(copyId));
  const left = (after.kept ?? []).filter(
    (copy) => copy.session === newest?.session && !known.has(copyId(copy)),
  );
  const [copy] = left;
  if (newest === null || copy === undefined) return [];
  const command = resumeCommand(after.handle, { want: "resume" }, "--restore-copy");
  const lost = left.map((one) => lostSince(engine, after, one, newest));
  const isGone = lost.some((one) => one === null || one.gone > 0);
  const isChanged = lost.some((one) => one !== null && one.changed > 0);
  const ways = [
    ...(isGone ? [`\`${command}\` restores the missing parts`] : []),
    ...(isChanged ? [`some text was changed in place: ${leftAsIs(engine, after, copy)}`] : []),
  ];
  return [
    `${engine.title}'s session ${newest.session} no longer holds everything in its last copy; that copy stays: ${ways.join("; ")}`,
  ];
}

/** The result of `recoverEscrow`, as far as it is known without writing. */
export async function expectedEscrow(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const live = liveSession(run.runDirectory);
  if (live === null || run.engineHome === null || !keepsEscrow(deps, run)) return run;
  const { session } = live;
  const engine = findEngine(deps, run.agentName);
  const sources = await sourcesOf({ engine, home: run.engineHome, run, session });
  if ("skipped" in sources) return run;
  const [own] = sources.files;
  const piece = livePieces(run.runDirectory).find(({ path }) => path === own?.path);
  if (own === undefined || piece === undefined || own.before?.length !== 0) return run;
  if (piece.size > deps.config.escrowLimitBytes) return run;
  const before = lastCopyOf(run, session);
  if (before?.files[0] !== undefined && !(await continuesCopy(piece.path, before.files[0]))) return run;
  const rights = sources.rights ?? before?.rights;
  const files = [await describeCopy(piece.path, own.restoreTo), ...(before?.files.slice(1) ?? [])];
  const escrow = { session, files, takenAt: isoNow(deps), ...(rights === undefined ? {} : { rights }) };
  return { ...run, ...(await withCopy(engine, run, escrow)) };
}
