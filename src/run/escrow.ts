/**
 * A copy of the engine's own session beside the run, and the way back.
 *
 * Engines delete and lose their sessions. The copy is taken after a turn, never delays the summary, and goes back
 * only where the engine has nothing: an existing file of the engine is never overwritten.
 */
import { join } from "node:path";
import {
  checkEscrow,
  continuesCopy,
  dropOldEscrow,
  keepEscrow,
  keepEscrowText,
  saveRunFile,
} from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { Escrow, RunRecord } from "../core/records.ts";
import { restoreFile, sessionFiles, setAside } from "../drivers/drivers.ts";
import type { Deps } from "./deps.ts";
import type { EngineSetup } from "./engine-setup.ts";

/** Never throws a fault: a copy that could not be taken is a warning, the run is not harmed. */
export async function takeEscrow(
  deps: Deps,
  setup: EngineSetup,
  run: RunRecord,
  fence: number,
): Promise<RunRecord> {
  const { escrowLimitBytes } = deps.config;
  if (!run.launch.escrow || escrowLimitBytes === 0 || run.session.value === null || setup.home === null)
    return run;
  try {
    const escrow = await copy(deps, setup, run, run.session.value);
    if (escrow === null) return run;
    const lostPart = await lacksPart(setup, run, escrow);
    const kept = { ...run, escrow };
    saveRunFile(kept);
    await deps.store.saveRun(kept, fence);
    if (lostPart)
      deps.log.warn(
        `the session is shorter than its last copy; that copy stays in ${join(run.runDirectory, "escrow")}`,
      );
    else dropOldEscrow(run.runDirectory, escrow);
    return kept;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`no copy of the session was kept: ${error.message}`);
    return run;
  }
}

/** The new copy does not begin with what the one before it holds, though such files only ever grow. */
async function lacksPart(setup: EngineSetup, run: RunRecord, escrow: Escrow): Promise<boolean> {
  const before = run.escrow?.session === escrow.session ? run.escrow.files[0] : undefined;
  const now = escrow.files[0];
  if (before === undefined || now === undefined || setup.engine.session.appendOnly === undefined)
    return false;
  return !(await continuesCopy(join(run.runDirectory, "escrow", now.file), before));
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

async function copy(deps: Deps, setup: EngineSetup, run: RunRecord, session: string): Promise<Escrow | null> {
  const { engine } = setup;
  const limit = deps.config.escrowLimitBytes;
  if (engine.transfer !== undefined) {
    const [file, ...first] = setup.program;
    const result = await deps.processes.runTool(file, [...first, ...engine.transfer.exportArgs(session)], {
      cwd: run.cwd,
      env: { ...setup.env, PWD: run.cwd },
      timeoutMs: 60_000,
      maxBytes: limit,
    });
    if (result.code !== 0 || result.timedOut) return null;
    return keepEscrowText(run.runDirectory, { session, text: result.stdout, clock: deps.clock });
  }
  if (!engine.can.readStore || setup.home === null) return null;
  const located = await engine.locate(session, { home: setup.home, cwd: run.cwd }, sessionFiles());
  if (located.state !== "present" || located.files.length === 0) return null;
  const kept = await keepEscrow(run.runDirectory, {
    session,
    files: located.files,
    limitBytes: limit,
    clock: deps.clock,
  });
  if (!("skipped" in kept)) return located.rights === undefined ? kept : { ...kept, rights: located.rights };
  deps.log.warn(`no copy of the session was kept: ${kept.skipped}`);
  return null;
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
