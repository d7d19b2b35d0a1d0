/** Puts a copy back into the engine's home. A file that is there is set aside, never overwritten. */
import { basename, join } from "node:path";
import { checkEscrow, continuesCopy } from "../../state/escrow.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { restoreFile, sessionFiles, setAside } from "../../drivers/drivers.ts";
import { copiesOf } from "./copies.ts";
import type { Deps } from "../deps.ts";
import type { EngineSetup } from "../engine-setup.ts";
import type { RunLease } from "../leases.ts";
import type { Exporting } from "./copying.ts";
import { type Copies, saveCopies, type Taking } from "./escrow.ts";

/**
 * Restores the copy into the engine's home. An existing file that lacks something in the copy is kept beside it. An earlier
 * copy becomes the newest first, and the copy that was the newest stays.
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

/** Conversations of other runs that these files belong to: no attempt may work in one while its file is restored. */
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
  // If nothing is missing, the engine cannot read the session's own file.
  const isOwn = whole.length === places.length;
  for (const [at, { path, place }] of places.entries()) {
    if (place === null) await importSession(deps, setup, { run, session: copy.session }, path);
    else if (!whole.includes(place) || (at === 0 && isOwn)) await putBack(deps, path, place);
  }
}

async function putBack(deps: Deps, from: string, to: string): Promise<void> {
  if ((await sessionFiles().stat(to)) !== null)
    deps.log.info(`moved the engine's file to ${await setAside(to, deps.clock.now())}`);
  await restoreFile(from, to);
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
