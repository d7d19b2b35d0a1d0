/** Checks by the run directories alone, for an index that is gone, or older than they are without showing it. */
import { closeSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { StateDir } from "../../state/directory.ts";
import { readRecordOrNull } from "../../state/files.ts";
import { assertOwnState } from "../../state/identity.ts";
import { listRunDirs } from "../../state/runs.ts";
import { openLog } from "../../state/tape.ts";
import type { Log, Processes } from "../../core/deps.ts";
import { Fault, ifFault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine } from "../../engines/engine.ts";
import type { earlierChoice } from "../../engines/engines.ts";
import type { Deps } from "../deps.ts";
import { runLeaseKey } from "../../store/store.ts";
import { attemptMarker, lostIn, ownerGoneFile, type Unrecorded } from "../agent-locks.ts";
import { caughtUp } from "./catch-up.ts";
import { agentsLeft } from "../stop.ts";
import { type FoundRun, liveOf, readRunDirectory, readRuns } from "./rebuild.ts";

const SILENT: Log = { info() {}, warn() {} };

/**
 * Whether one of these directories is a run that the index lacks. A run is in the index before its directory exists, and its
 * directory is removed before its row, so such an index is an older one. Unusable directories prove nothing.
 */
export async function areRuns(state: StateDir, runIds: readonly string[]): Promise<boolean> {
  for (const runId of runIds) {
    const found = await readRunDirectory(join(state.runsRoot, runId), SILENT).catch(ifFault(null));
    if (found !== null) return true;
  }
  return false;
}

/**
 * Called before an agent starts in a session that the user names: another agent may be in it whose lease is missing, because
 * the index was restored from a backup or the state directory is a copy.
 */
export async function assertMayName(deps: Deps, engine: string): Promise<void> {
  assertOwnState(deps);
  for (const runId of listRunDirs(deps.state).runIds) {
    const file = readRecordOrNull(join(deps.state.runsRoot, runId, "run.json"));
    if (file?.["status"] !== "running" || file["agentName"] !== engine) continue;
    const row = deps.store.getRun(runId);
    await row.then((known) => caughtUp(deps, runId, known)).catch(ifFault(null));
  }
}

/** An owner whose attempt has ended only stores the last copy of the session. */
const FINISHING_MS = 5_000;

/**
 * Called before an agent starts whose engine chooses an earlier conversation itself (`--continue`): a live agent may be
 * in that conversation. The caller holds the choice (`holdChoice`).
 */
export async function assertMayChoose(
  deps: Deps,
  engine: Engine,
  wanted: RunRecord,
  { word, scope }: NonNullable<ReturnType<typeof earlierChoice>>,
): Promise<void> {
  const { cwd, engineHome: home } = wanted;
  const listed = new Set<string>();
  if (scope === "here" && home !== null && engine.can.readStore)
    for (const { id } of await engine.sessions({ home, cwd }, sessionFiles())) listed.add(id);
  const mayBeIn = (run: RunRecord) =>
    run.agentName === engine.id &&
    run.engineHome === home &&
    (scope === "any" || run.cwd === cwd || run.sessions.some(({ value }) => listed.has(value)));
  const deadline = deps.clock.mono() + FINISHING_MS;
  for (;;) {
    const outlived = (await agentsLeft(deps, wanted)).map(({ run }) => run);
    const live = [...(await liveRuns(deps, wanted)), ...outlived].filter(mayBeIn);
    const [first] = live.toSorted((a, b) => Number(b.status === "running") - Number(a.status === "running"));
    if (first === undefined) return;
    if (first.status === "running" || deps.clock.mono() > deadline) throw mayBeLive(engine, first, word);
    await sleep(POLL_MS);
  }
}

/** Leased runs, except for this one. */
async function liveRuns({ store, processes }: Deps, { runId }: RunRecord): Promise<readonly RunRecord[]> {
  const held = (await store.listLeases()).filter(
    ({ key, owner }) =>
      key.startsWith(runLeaseKey("")) && key !== runLeaseKey(runId) && processes.isAlive(owner),
  );
  const runs = await Promise.all(held.map(({ key }) => store.getRun(key.slice(runLeaseKey("").length))));
  return runs.filter((run) => run !== null);
}

function mayBeLive({ title }: Engine, { handle, cwd }: RunRecord, word: string): Fault {
  return new Fault(
    "session_busy",
    `With ${word} ${title} chooses an earlier conversation itself, and run ${handle} in ${cwd} may be working in it. ` +
      `Wait for it, end it with \`reprise stop ${handle}\`, or name another conversation by its id.`,
    { facts: { handle, option: word } },
  );
}

const END_MS = 10_000;
const POLL_MS = 50;

/**
 * Ends the named live run by the identity in its attempt's record, because no index has its lease. It gets the signals of
 * `stop`, twice. False: no such live run, or it keeps running.
 */
export async function endUnindexed(
  state: StateDir,
  wanted: string,
  log: Log,
  processes: Processes,
): Promise<boolean> {
  const owner = (await liveOne(state, wanted, processes))?.attempts.at(-1)?.owner;
  if (owner === undefined) return endLost(state, wanted, processes);
  for (const asked of ["asked pid", "asked again: pid"]) {
    // No signal reaches it.
    if (!processes.signal(owner, "SIGINT")) return !processes.isAlive(owner);
    log.info(`${asked} ${owner.pid} to stop`);
    const deadline = Date.now() + END_MS;
    while (Date.now() < deadline) {
      if (!processes.isAlive(owner)) return true;
      await sleep(POLL_MS);
    }
  }
  return false;
}

/** The owner of an agent without a record is unknown. It ends when its agent ends. */
async function endLost(state: StateDir, wanted: string, processes: Processes): Promise<boolean> {
  const lost = await lostOne(state, wanted, processes);
  if (lost === null || lost.pids.length === 0) return false;
  const marker = attemptMarker(basename(lost.runDirectory), lost.n);
  const { survivors } = await processes.endTree(null, marker, "terminate");
  const deadline = Date.now() + END_MS;
  for (;;) {
    if (survivors.length === 0 && (await lostOne(state, wanted, processes)) === null) return true;
    if (survivors.length > 0 || Date.now() > deadline) return false;
    await sleep(POLL_MS);
  }
}

async function lostOne(state: StateDir, wanted: string, processes: Processes): Promise<Unrecorded | null> {
  const { usable } = await readRuns(state, SILENT);
  const lost = await lostIn(state, usable, processes);
  const text = wanted.toLowerCase();
  const isMeant =
    basename(lost?.runDirectory ?? "") === wanted ||
    (text.length >= 4 && lost?.handle.startsWith(text) === true);
  return isMeant ? lost : null;
}

/**
 * The user declares the owner of the named run gone. The run's directory keeps the declaration, even if another live run
 * prevents a new index. False: no such run, or the kernel shows that its owner lives.
 */
export async function forsakeUnindexed(
  state: StateDir,
  wanted: string,
  processes: Processes,
): Promise<boolean> {
  const found = await liveOne(state, wanted, processes);
  const last = found?.attempts.at(-1);
  const lost = found === null ? await lostOne(state, wanted, processes) : null;
  if (lost?.lives === false) {
    closeSync(openLog(ownerGoneFile(lost, lost.n)));
    return true;
  }
  if (found === null || last === undefined || processes.examine(last.owner) === "lives") return false;
  closeSync(openLog(ownerGoneFile(found.run, last.n)));
  return true;
}

async function liveOne(state: StateDir, wanted: string, processes: Processes): Promise<FoundRun | null> {
  const { usable } = await readRuns(state, SILENT);
  const text = wanted.toLowerCase();
  const [meant, ...others] = liveOf(usable, processes).filter(
    ({ run }) => run.runId === wanted || (text.length >= 4 && run.handle.startsWith(text)),
  );
  return others.length > 0 ? null : (meant ?? null);
}
