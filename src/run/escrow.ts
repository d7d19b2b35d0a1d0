/**
 * A copy of the engine's own session beside the run, and the way back.
 *
 * Engines delete and lose their sessions. While an agent works, `escrow-keeper.ts` keeps links and copies; the last copy
 * is taken after the attempt, never delays the summary, and goes back only where the engine has nothing: an existing
 * file of the engine is never overwritten.
 */
import { join } from "node:path";
import {
  checkEscrow,
  continuesCopy,
  describeCopy,
  dropOldEscrow,
  endLive,
  type EscrowSource,
  fileAt,
  keepEscrow,
  keepEscrowText,
  type LivePiece,
  livePieces,
  liveSession,
  saveRunFile,
  sourceOf,
  wholeOf,
} from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { Escrow, RunRecord } from "../core/records.ts";
import { restoreFile, sessionFiles, sessionFilesWith, setAside } from "../drivers/drivers.ts";
import type { Engine } from "../engines/engine.ts";
import { type Deps, isoNow } from "./deps.ts";
import { type EngineSetup, findEngine } from "./engine-setup.ts";

interface Taking {
  readonly run: RunRecord;
  readonly fence: number;
  /** The user went on with a session that lacks what the copy has: from now on the session counts. */
  readonly ignoresCopy?: boolean;
}

/** Never throws a fault: a copy that could not be taken is a warning, the run is not harmed. */
export async function takeEscrow(
  deps: Deps,
  setup: EngineSetup,
  { run, fence, ignoresCopy = false }: Taking,
): Promise<RunRecord> {
  if (!keepsEscrow(deps, run) || run.session.value === null || setup.home === null) return run;
  try {
    const session = run.session.value;
    const { transfer } = setup.engine;
    const taken =
      transfer === undefined
        ? await copyFiles(deps, { engine: setup.engine, home: setup.home, run, session })
        : await exportSession(deps, setup, { run, session });
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
    }
    if (taken.lacks && !ignoresCopy) {
      dropNewer(run);
      return run;
    }
    return await recordCopy(deps, { run, fence }, taken);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`no copy of the session was kept: ${error.message}`);
    return run;
  }
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
  return recordCopy(deps, { run, fence }, taken);
}

/** The record names the copy before an older one and the links go. */
async function recordCopy(deps: Deps, { run, fence }: Taking, taken: Taken): Promise<RunRecord> {
  const kept = { ...run, escrow: taken.escrow };
  saveRunFile(kept);
  await deps.store.saveRun(kept, fence);
  if (!taken.lacks) dropOldEscrow(run.runDirectory, taken.escrow);
  endLive(run.runDirectory);
  return kept;
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
  const before = run.escrow?.session === session ? run.escrow : null;
  if (before?.files[0] !== undefined && !(await continuesCopy(piece.path, before.files[0]))) return run;
  const rights = sources.rights ?? before?.rights;
  const files = [await describeCopy(piece.path, live.restoreTo)];
  const escrow = { session, files, takenAt: isoNow(deps), ...(rights === undefined ? {} : { rights }) };
  return { ...run, escrow };
}

interface Copying {
  readonly engine: Engine;
  readonly home: string;
  readonly run: RunRecord;
  readonly session: string;
}

interface Taken {
  readonly escrow: Escrow;
  /** The new copy does not have all that the run's last copy of this session has. */
  readonly lacks: boolean;
}

interface NotTaken {
  /** Why there is no copy of what is there; null: there is nothing to be copied. */
  readonly skipped: string | null;
}

/** Copies, and leaves it to the caller to record the copy. */
export async function copyFiles(deps: Deps, copying: Copying): Promise<Taken | NotTaken> {
  const { engine, run, session } = copying;
  const sources = await sourcesOf(copying);
  if (sources === null) return { skipped: null };
  const kept = await keepEscrow(run.runDirectory, {
    session,
    files: sources.files,
    limitBytes: deps.config.escrowLimitBytes,
    clock: deps.clock,
  });
  if ("skipped" in kept) return kept;
  const before = run.escrow?.session === session ? run.escrow : null;
  const rights = sources.rights ?? before?.rights;
  const escrow = rights === undefined ? kept : { ...kept, rights };
  return { escrow, lacks: await lacksPart({ engine, run, before, escrow, anew: sources.anew }) };
}

interface Sources {
  readonly files: readonly EscrowSource[];
  readonly rights?: readonly string[];
  /** The engine wrote the file anew, so that it may be shorter than it was. */
  readonly anew: boolean;
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
    return present === null ? null : { files: present.files, ...rights, anew: true };
  if (located.state === "unknown" || (located.state === "unusable" && !located.damaged)) return null;
  const there = fileAt(own);
  const unseen = there !== null && !pieces.some((piece) => isSameFile(piece, there));
  const isPart = engine.session.appendOnly === true || located.state === "unusable";
  const whole = wholeOf(unseen ? [...pieces, there] : pieces, isPart);
  const source = sourceOf(whole, live.restoreTo);
  const [first] = whole;
  if (source === null || first === undefined) return null;
  const anew = pieces[0] !== undefined && !isSameFile(first, pieces[0]);
  if (present !== null) return { files: [source, ...present.files.slice(1)], ...rights, anew };
  const was = await engine.locate(session, { home, cwd: run.cwd }, sessionFilesWith(own, first.path));
  // What the engine itself would not take for a conversation is not worth a copy.
  if (was.state === "unusable") return null;
  return { files: [source], ...(was.state === "present" ? rightsIn(was) : {}), anew };
}

function rightsIn({ rights }: { readonly rights?: readonly string[] }): Pick<Sources, "rights"> {
  return rights === undefined ? {} : { rights };
}

function isSameFile(one: LivePiece, other: LivePiece): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/** The new copy does not begin with what the one before it holds, though such files only ever grow. */
async function lacksPart(now: {
  readonly engine: Engine;
  readonly run: RunRecord;
  readonly before: Escrow | null;
  readonly escrow: Escrow;
  readonly anew: boolean;
}): Promise<boolean> {
  const [before, after] = [now.before?.files[0], now.escrow.files[0]];
  if (before === undefined || after === undefined) return false;
  if (now.engine.session.appendOnly === undefined) return !now.anew && after.size < before.size;
  return !(await continuesCopy(join(now.run.runDirectory, "escrow", after.file), before));
}

/** The run's copy is the better one: what was taken after it goes, the links with it. */
function dropNewer(run: RunRecord): void {
  if (run.escrow !== null) dropOldEscrow(run.runDirectory, run.escrow);
  endLive(run.runDirectory);
}

/** Puts the copy back into the engine's home. What is damaged there is kept beside it. */
export async function restoreEscrow(deps: Deps, setup: EngineSetup, run: RunRecord): Promise<void> {
  if (run.escrow === null || setup.home === null) return;
  const [own] = run.escrow.files;
  const place = own?.restoreTo === null || own === undefined ? null : join(setup.home, own.restoreTo);
  if (place !== null && (await sessionFiles().stat(place)) !== null) {
    deps.log.info(`the engine's file is kept as ${await setAside(place, deps.clock.now())}`);
  }
  for (const [at, { path, restoreTo }] of (await checkEscrow(run.runDirectory, run.escrow)).entries()) {
    if (restoreTo === null) await importSession(deps, setup, run, path);
    else await putBack(path, join(setup.home, restoreTo), at > 0);
  }
}

/** What a session depends on, the parent of a fork, may still be there. */
async function putBack(from: string, to: string, mayExist: boolean): Promise<void> {
  try {
    await restoreFile(from, to);
  } catch (error) {
    if (!(error instanceof Fault && mayExist && error.facts["code"] === "EEXIST")) throw error;
  }
}

interface Exporting {
  readonly run: RunRecord;
  readonly session: string;
  /** Gives up. */
  readonly signal?: AbortSignal;
}

/** By the engine's own command, which tells nothing of how one copy continues another. */
export async function exportSession(
  deps: Deps,
  setup: Pick<EngineSetup, "engine" | "program" | "env">,
  { run, session, signal }: Exporting,
): Promise<Taken | NotTaken> {
  const [file, ...first] = setup.program;
  const args = setup.engine.transfer?.exportArgs(session) ?? [];
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
  return { escrow, lacks: false };
}

async function importSession(deps: Deps, setup: EngineSetup, run: RunRecord, from: string): Promise<void> {
  const [file, ...first] = setup.program;
  const args = setup.engine.transfer?.importArgs(from) ?? [];
  const result = await deps.processes.runTool(file, [...first, ...args], {
    cwd: run.cwd,
    env: { ...setup.env, PWD: run.cwd },
    timeoutMs: 60_000,
  });
  if (result.code === 0) return;
  throw new Fault(
    "session_lost",
    `${setup.engine.title} refused the copy of session ${run.session.value ?? ""}.`,
    {
      facts: { handle: run.handle, exit: result.code ?? -1 },
    },
  );
}
