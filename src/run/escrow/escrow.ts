/**
 * A copy of the engine's own session beside the run, and the way back.
 *
 * Engines delete and lose their sessions. While an agent works, `escrow-keeper.ts` keeps links and copies; the last copy
 * is taken after the attempt, never delays the summary, and goes back only where the engine has nothing: an existing
 * file of the engine is never overwritten.
 */
import { basename, join } from "node:path";
import {
  checkEscrow,
  continuesCopy,
  describeCopy,
  dropOldEscrow,
  endLive,
  type EscrowSource,
  fileAt,
  isEmptied,
  keepEscrow,
  keepEscrowText,
  type LivePiece,
  livePieces,
  liveSession,
  saveRunFile,
  sourceOf,
  wholeOf,
} from "../../state/state.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { restoreFile, sessionFiles, sessionFilesWith, setAside } from "../../drivers/drivers.ts";
import type { Engine } from "../../engines/engine.ts";
import {
  continuesFile,
  copiesOf,
  copyId,
  damageOf,
  holdsAll,
  lastCopyOf,
  leftAsIs,
  lostSince,
  sameFile,
} from "./copies.ts";
import { type Deps, isoNow } from "../deps.ts";
import { type EngineSetup, findEngine } from "../engine-setup.ts";
import type { RunLease } from "../leases.ts";
import { resumeCommand } from "../resume/plan.ts";

interface Taking {
  readonly run: RunRecord;
  readonly fence: number;
}

type Copies = Pick<RunRecord, "escrow" | "kept">;

/** Never throws a fault: a copy that could not be taken is a warning, the run is not harmed. */
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
      dropNewer(run);
      return run;
    }
    for (const file of taken.longer)
      deps.log.warn(
        `${file}, which session ${session} depends on, lacks a part that its last copy has; that copy stays in ${join(run.runDirectory, "escrow")}`,
      );
    return await recordCopy(deps, setup.engine, { run, fence }, taken);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`no copy of the session was kept: ${error.message}`);
    return run;
  }
}

/** Conversations that the user left in a UI, by `/clear`: the copy of the last one does not hold them. */
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

/** A turn was completed, so there must have been something to copy. */
function isLost({ can, transfer }: Engine, { status, launch, escrow, session }: RunRecord): boolean {
  const isKept = can.readStore && transfer === undefined && launch.unresumable === undefined;
  return isKept && status === "completed" && escrow?.session !== session.value;
}

/** Nothing to keep: the links go. A copy that failed leaves them, unless they are more than may be kept. */
function withoutCopy(deps: Deps, run: RunRecord, { skipped }: NotTaken): RunRecord {
  if (skipped !== null) deps.log.warn(`no copy of the session was kept: ${skipped}`);
  const bytes = livePieces(run.runDirectory).reduce((sum, { size }) => sum + size, 0);
  if (skipped === null || bytes > deps.config.escrowLimitBytes) endLive(run.runDirectory);
  return run;
}

export function keepsEscrow(deps: Deps, run: RunRecord): boolean {
  return run.launch.escrow && deps.config.escrowLimitBytes > 0;
}

/** Of an attempt whose owner died: what its links hold becomes the copy. The caller holds the run. */
export async function recoverEscrow(deps: Deps, run: RunRecord, fence: number): Promise<RunRecord> {
  const live = liveSession(run.runDirectory);
  if (live === null || run.engineHome === null || !keepsEscrow(deps, run)) return run;
  const engine = findEngine(deps, run.agentName);
  const home = run.engineHome;
  const taken = await copyFiles(deps, { engine, home, run, session: live.session });
  if (!("escrow" in taken)) return withoutCopy(deps, run, taken);
  if (taken.lacks) {
    dropNewer(run);
    return run;
  }
  return recordCopy(deps, engine, { run, fence }, taken);
}

/** The user goes on with what is left of a session: its copy counts from now on, and the longer one is kept. */
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
  if (taken.skipped !== null) deps.log.warn(`no copy of the session was kept: ${taken.skipped}`);
  return run;
}

/** The record names the copy before an older one and the links go. */
async function recordCopy(
  deps: Deps,
  engine: Engine,
  { run, fence }: Taking,
  { escrow }: Taken,
): Promise<RunRecord> {
  const kept = { ...run, ...(await withCopy(engine, run, escrow)) };
  await saveCopies(deps, { run: kept, fence });
  dropOldEscrow(run.runDirectory, copiesOf(kept));
  endLive(run.runDirectory);
  return kept;
}

async function saveCopies(deps: Deps, { run, fence }: Taking): Promise<void> {
  saveRunFile(run);
  await deps.store.saveRun(run, fence);
}

/** The run's copies once `escrow` is the newest. Earlier ones go only if it holds all that they hold. */
export async function withCopy(engine: Engine, run: RunRecord, escrow: Escrow): Promise<Copies> {
  const kept: Escrow[] = [];
  for (const copy of copiesOf(run)) {
    if (await holdsAll(engine, run, escrow, copy)) continue;
    // Also one that is damaged and cannot be put back: most of it can still be read.
    if (copy !== run.escrow || !isEmptied(run.runDirectory, copy)) kept.push(copy);
  }
  return kept.length > 0 || run.kept !== undefined ? { escrow, kept } : { escrow };
}

/** What the engine took back while it worked: its last copy stays beside the new one. */
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
    ...(isGone ? [`\`${command}\` puts back what is missing`] : []),
    ...(isChanged ? [`of words that were changed in their place, ${leftAsIs(engine, after, copy)}`] : []),
  ];
  return [
    `${engine.title}'s session ${newest.session} no longer holds all that its last copy has; that copy stays: ${ways.join("; ")}`,
  ];
}

/** What `recoverEscrow` would make of it, as far as it can be told without writing. */
export async function expectedEscrow(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const live = liveSession(run.runDirectory);
  if (live === null || run.engineHome === null || !keepsEscrow(deps, run)) return run;
  const { session } = live;
  const engine = findEngine(deps, run.agentName);
  const sources = await sourcesOf({ engine, home: run.engineHome, run, session });
  const [own] = sources?.files ?? [];
  const piece = livePieces(run.runDirectory).find(({ path }) => path === own?.path);
  if (sources === null || piece === undefined || own?.before?.length !== 0) return run;
  if (piece.size > deps.config.escrowLimitBytes) return run;
  const before = lastCopyOf(run, session);
  if (before?.files[0] !== undefined && !(await continuesCopy(piece.path, before.files[0]))) return run;
  const rights = sources.rights ?? before?.rights;
  const files = [await describeCopy(piece.path, live.restoreTo), ...(before?.files.slice(1) ?? [])];
  const escrow = { session, files, takenAt: isoNow(deps), ...(rights === undefined ? {} : { rights }) };
  return { ...run, ...(await withCopy(engine, run, escrow)) };
}

interface Copying {
  readonly engine: Engine;
  readonly home: string;
  readonly run: RunRecord;
  readonly session: string;
  /** Also what is shorter than in the last copy. */
  readonly asIs?: true;
}

interface Taken {
  readonly escrow: Escrow;
  /** Files that the session depends on and that lack what the last copy has of them: the new copy has that instead. */
  readonly longer: readonly string[];
  /** The new copy does not have all that the run's last copy of this session has. */
  readonly lacks: boolean;
}

interface NotTaken {
  /** Why there is no copy of what is there; null: there is nothing to be copied. */
  readonly skipped: string | null;
}

/** Copies, and leaves it to the caller to record the copy. */
export function copyNow(
  deps: Deps,
  setup: Pick<EngineSetup, "engine" | "program" | "env"> & { readonly home: string },
  of: Exporting,
): Promise<Taken | NotTaken> {
  const { engine, home } = setup;
  return engine.transfer === undefined
    ? copyFiles(deps, { engine, home, ...of })
    : exportSession(deps, setup, of);
}

async function copyFiles(deps: Deps, copying: Copying): Promise<Taken | NotTaken> {
  const { run, session } = copying;
  const sources = await sourcesOf(copying);
  if (sources === null) return { skipped: null };
  const kept = await keepEscrow(run.runDirectory, {
    session,
    files: sources.files,
    limitBytes: deps.config.escrowLimitBytes,
    clock: deps.clock,
  });
  if ("skipped" in kept) return kept;
  const before = lastCopyOf(run, session);
  const rights = sources.rights ?? before?.rights;
  const { files, longer } =
    copying.asIs === true || before === null
      ? { files: kept.files, longer: [] }
      : await withLonger(run, before, kept.files);
  const escrow = { ...kept, files, ...(rights === undefined ? {} : { rights }) };
  return { escrow, longer, lacks: await lacksPart(run, before, escrow) };
}

/** What a session depends on belongs to another conversation, which may be cut short: the copy keeps what it had of it. */
async function withLonger(
  run: RunRecord,
  before: Escrow,
  [own, ...others]: readonly EscrowFile[],
): Promise<{ readonly files: readonly EscrowFile[]; readonly longer: readonly string[] }> {
  const files = new Map(others.map((file) => [file, file]));
  const longer: string[] = [];
  const lost: EscrowFile[] = [];
  for (const had of before.files.slice(1)) {
    const has = sameFile(others, had);
    const isHeld = has !== undefined && (await continuesFile(run, has, had));
    if (isHeld || (await damageOf(run, { ...before, files: [had] })) !== null) continue;
    if (has === undefined) lost.push(had);
    else {
      files.set(has, { ...had, restoreTo: has.restoreTo });
      longer.push(has.restoreTo ?? "");
    }
  }
  return { files: [...(own === undefined ? [] : [own]), ...files.values(), ...lost], longer };
}

interface Sources {
  readonly files: readonly EscrowSource[];
  readonly rights?: readonly string[];
}

/** The engine's own files; where they were lost or began anew while the agent worked, what our links hold of them. */
async function sourcesOf({ engine, home, run, session }: Copying): Promise<Sources | null> {
  if (!engine.can.readStore) return null;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  const present = located.state === "present" && located.files.length > 0 ? located : null;
  const rights = present === null ? {} : rightsIn(present);
  const live = liveSession(run.runDirectory);
  const pieces = livePieces(run.runDirectory);
  const own = live === null ? null : join(home, live.restoreTo);
  const elsewhere = present !== null && present.files[0]?.path !== own;
  if (live === null || own === null || live.session !== session || pieces.length === 0 || elsewhere)
    return present === null ? null : { files: present.files, ...rights };
  if (located.state === "unknown" || (located.state === "unusable" && !located.damaged)) return null;
  const there = fileAt(own);
  const unseen = there !== null && !pieces.some((piece) => isSameFile(piece, there));
  const whole = wholeOf(unseen ? [...pieces, there] : pieces);
  const source = sourceOf(whole, live.restoreTo);
  const [first] = whole;
  if (source === null || first === undefined) return null;
  if (present !== null) return { files: [source, ...present.files.slice(1)], ...rights };
  const was = await engine.locate(session, { home, cwd: run.cwd }, sessionFilesWith(own, first.path));
  // What the engine itself would not take for a conversation is not worth a copy.
  if (was.state === "unusable") return null;
  if (was.state !== "present") return { files: [source] };
  return { files: [source, ...was.files.slice(1)], ...rightsIn(was) };
}

function rightsIn({ rights }: { readonly rights?: readonly string[] }): Pick<Sources, "rights"> {
  return rights === undefined ? {} : { rights };
}

function isSameFile(one: LivePiece, other: LivePiece): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/** The new copy does not begin with what the one before it holds, though such files only ever grow. */
async function lacksPart(run: RunRecord, before: Escrow | null, escrow: Escrow): Promise<boolean> {
  const [had, has] = [before?.files[0], escrow.files[0]];
  if (had === undefined || has === undefined) return false;
  return !(await continuesCopy(join(run.runDirectory, "escrow", has.file), had));
}

/** The run's copy is the better one: what was taken after it goes, the links with it. */
function dropNewer(run: RunRecord): void {
  dropOldEscrow(run.runDirectory, copiesOf(run));
  endLive(run.runDirectory);
}

/**
 * Puts the copy back into the engine's home; a file that is there without all that the copy has is kept beside it. An
 * earlier copy becomes the newest before that, and the one that was is kept.
 */
export async function restoreEscrow(
  deps: Deps,
  setup: EngineSetup,
  { run, fence, hold }: Taking & { readonly hold: RunLease },
  copy: Escrow | null,
): Promise<Copies> {
  if (copy === null || setup.home === null) return run;
  const others = await sessionsOf(deps, run, copy.files.slice(1));
  for (const session of others) await hold.holdSession(run, session);
  const isNewest = copy === run.escrow;
  const now = isNewest ? run : { ...run, escrow: copy, kept: copiesOf(run).filter((one) => one !== copy) };
  if (!isNewest) await saveCopies(deps, { run: now, fence });
  await putCopyBack(deps, setup, now, copy);
  for (const session of others) await hold.releaseSession(run, session);
  return now;
}

/** The conversations of other runs that these files are of: nobody may work in one while its file is put back. */
async function sessionsOf(
  deps: Deps,
  { agentName, engineHome }: RunRecord,
  files: readonly EscrowFile[],
): Promise<readonly string[]> {
  if (files.length === 0) return [];
  const runs = await deps.store.listRuns({ engine: agentName, limit: Number.POSITIVE_INFINITY });
  const ids = runs
    .filter((run) => run.engineHome === engineHome)
    .flatMap(({ session, sessions }) => [session.value, ...sessions.map(({ value }) => value)]);
  const names = files.map(({ restoreTo }) => basename(restoreTo ?? ""));
  const isNamed = (id: string | null): id is string =>
    id !== null && id !== "" && names.some((name) => name.includes(id));
  return [...new Set(ids.filter(isNamed))];
}

async function putCopyBack(deps: Deps, setup: EngineSetup, run: RunRecord, copy: Escrow): Promise<void> {
  const { home } = setup;
  if (home === null) return;
  const places = (await checkEscrow(run.runDirectory, copy)).map(({ path, restoreTo }, at) => ({
    path,
    file: copy.files[at],
    place: restoreTo === null ? null : join(home, restoreTo),
  }));
  const whole: string[] = [];
  for (const { file, place } of places)
    if (place !== null && file !== undefined && (await continuesCopy(place, file))) whole.push(place);
  // When nothing of it is missing, it is the session's own file that the engine cannot read.
  const isOwn = whole.length === places.length;
  for (const [at, { path, place }] of places.entries()) {
    if (place === null) await importSession(deps, setup, { run, session: copy.session }, path);
    else if (!whole.includes(place) || (at === 0 && isOwn)) await putBack(deps, path, place);
  }
}

async function putBack(deps: Deps, from: string, to: string): Promise<void> {
  if ((await sessionFiles().stat(to)) !== null)
    deps.log.info(`the engine's file is kept as ${await setAside(to, deps.clock.now())}`);
  await restoreFile(from, to);
}

interface Exporting {
  readonly run: RunRecord;
  readonly session: string;
  /** Also what is shorter than in the last copy. */
  readonly asIs?: true;
  /** Gives up. */
  readonly signal?: AbortSignal;
}

/** By the engine's own command. The engine may take back what was said, so an export may lack what the last one has. */
async function exportSession(
  deps: Deps,
  setup: Pick<EngineSetup, "engine" | "program" | "env"> & { readonly home: string },
  { run, session, signal }: Exporting,
): Promise<Taken | NotTaken> {
  const { home, engine } = setup;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  // A conversation without a message is not worth a copy.
  if (located.state === "unusable") return { skipped: null };
  const [file, ...first] = setup.program;
  const args = engine.transfer?.exportArgs(session) ?? [];
  const result = await deps.processes.runTool(file, [...first, ...args], {
    cwd: run.cwd,
    env: { ...setup.env, PWD: run.cwd },
    timeoutMs: 60_000,
    maxBytes: deps.config.escrowLimitBytes,
    ...(signal === undefined ? {} : { signal }),
  });
  if (result.code !== 0 || result.timedOut) return { skipped: null };
  const { clock } = deps;
  const escrow = keepEscrowText(run.runDirectory, { session, text: result.stdout, clock });
  return { escrow, longer: [], lacks: false };
}

async function importSession(
  deps: Deps,
  setup: EngineSetup,
  { run, session }: Exporting,
  from: string,
): Promise<void> {
  const [file, ...first] = setup.program;
  const args = setup.engine.transfer?.importArgs(from) ?? [];
  const result = await deps.processes.runTool(file, [...first, ...args], {
    cwd: run.cwd,
    env: { ...setup.env, PWD: run.cwd },
    timeoutMs: 60_000,
  });
  if (result.code === 0) return;
  throw new Fault("session_lost", `${setup.engine.title} refused the copy of session ${session}.`, {
    facts: { handle: run.handle, exit: result.code ?? -1 },
  });
}
