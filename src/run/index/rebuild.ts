/**
 * Rebuilds the index from the run directories, which are the truth for what happened (I7).
 *
 * The index is the truth for leases. A live owner that loses its lease must end its agent (I6), so leases
 * of live runs are carried over with their fencing numbers. If they cannot be read, the index is not replaced until
 * that run has ended. An index with only some damaged rows is repaired in place. Events and documents, which only the
 * index has, are copied as far as the old one can be read.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { StateDir } from "../../state/directory.ts";
import { generationMark } from "../../state/generation.ts";
import {
  listAttemptDirs,
  listRunDirs,
  loadAttemptFile,
  loadRunFile,
  readAgentFile,
} from "../../state/runs.ts";
import { indexIdentity, replaceIndex } from "../../state/upkeep.ts";
import type { Log, Processes } from "../../core/deps.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../../core/records.ts";
import type { AgentRecord } from "../../core/supervision.ts";
import { type Damage, type Lease, openStore, runLeaseKey, type Store } from "../../store/store.ts";
import { observe } from "../conversation.ts";
import type { Deps } from "../deps.ts";
import { liveOwner, sessionKey } from "../leases.ts";
import { lostIn, ownerGoneFile, type Unrecorded, unrecordedAgent } from "../agent-locks.ts";

export interface Rebuilt {
  /** The number of runs from run directories. */
  readonly runs: number;
  /** The number of unusable run directories. Each was named in a warning and left in place. */
  readonly skipped: number;
  /** The new name of the old index. Null: repaired in place, no old index, or another process was faster. */
  readonly setAside: string | null;
}

/** `doctor --rebuild-index`: in place if only some rows are damaged, otherwise as a new file. */
export async function renewIndex(deps: Deps): Promise<Rebuilt> {
  const damage = await deps.store.verify();
  if (damage.some(isBeyondRows)) return rebuildIndex(deps.state, openStore, deps.log, deps.processes);
  let runs = 0;
  const { usable, skipped } = await readRuns(deps.state, deps.log);
  for (const found of usable) {
    // A live owner keeps its rows itself.
    if ((await liveOwner(deps, found.run.runId)) === null && !(await mend(deps, found))) continue;
    runs += 1;
  }
  return { runs, skipped: skipped + usable.length - runs, setAside: null };
}

/** Leases and events are only in the index, and a damaged page may hide any row. */
function isBeyondRows(damage: Damage): boolean {
  return damage.key === "*" || !["runs", "attempts"].includes(damage.table);
}

/**
 * Reads a run that the index has lost or cannot read from its directory, and puts it into the index. Null: no directory
 * with that handle or run id has a usable record.
 */
export async function recallRun(deps: Deps, wanted: string): Promise<RunRecord | null> {
  const isWanted = (runId: string) => runId === wanted || runId.endsWith(`-${wanted}`);
  const [runId, ...others] = listRunDirs(deps.state).runIds.filter(isWanted);
  if (runId === undefined || others.length > 0) return null;
  const found = await orWarn(deps.log, () => readRunDirectory(join(deps.state.runsRoot, runId), deps.log));
  if (found === undefined || found === null) return null;
  deps.log.warn(`run ${found.run.handle} was read from its directory, because the index does not have it.`);
  if (deps.state.writable) await mend(deps, found);
  return found.run;
}

export async function mend(deps: Deps, found: FoundRun, fence?: number): Promise<boolean> {
  const { store, log } = deps;
  if ((await store.createRun(found.run)) === "handle_taken") {
    try {
      await store.saveRun(found.run, fence);
    } catch (error) {
      if (!(error instanceof Fault && error.code === "handle_unknown")) throw error;
      log.warn(`skipped ${found.run.runDirectory}: another run has the handle ${found.run.handle}.`);
      return false;
    }
  }
  for (const attempt of found.attempts) await store.saveAttempt(attempt, fence);
  await putAgentBack(store, found.agent);
  return true;
}

/** An existing document is at least as new as the file. */
export async function putAgentBack(store: Store, agent: AgentRecord | null): Promise<void> {
  if (agent === null) return;
  const data: Readonly<Record<string, unknown>> = { ...agent };
  await store.saveDocument({ kind: "agent", id: agent.id, open: agent.phase === "active", data }, null);
}

/**
 * Builds a new index beside the old one and puts it in its place; the old one stays as `index.db.damaged-<time>`.
 * Processes that have the old one open notice and open the new one.
 */
export async function rebuildIndex(
  state: StateDir,
  open: (path: string) => Promise<Store>,
  log: Log,
  processes: Processes,
): Promise<Rebuilt> {
  const before = indexIdentity(state);
  const { usable, skipped } = await readRuns(state, log);
  const leases = await leasesOfLive(state, open, usable, processes);
  // Named like every unfinished file, so that it is removed after a crash.
  const path = join(state.root, `.tmp-${processes.self().pid}-index-${Date.now().toString(36)}`);
  let runs = 0;
  {
    await using fresh = await open(path);
    for (const { run, attempts, agent } of usable) {
      if ((await fresh.createRun(run)) === "handle_taken") {
        log.warn(`skipped ${run.runDirectory}: another run has the handle ${run.handle}.`);
        continue;
      }
      for (const attempt of attempts) await fresh.saveAttempt(attempt);
      await putAgentBack(fresh, agent);
      runs += 1;
    }
    await takeAlong(state, fresh, usable, log);
    for (const lease of leases) await carryOver(fresh, lease);
    // A store empties its WAL on close only after a write, so an index without runs needs one.
    if (runs === 0) await fresh.releaseLease("nobody", 0);
    await fresh.raiseGeneration(generationMark(state.root).read());
  }
  const setAside = replaceIndex(state, path, { stamp: stamp(), instead: before });
  return { runs, skipped: skipped + usable.length - runs, setAside };
}

export interface FoundRun {
  readonly run: RunRecord;
  readonly attempts: readonly AttemptRecord[];
  /** Null: not supervised. */
  readonly agent: AgentRecord | null;
}

export async function readRuns(
  state: StateDir,
  log: Log,
): Promise<{ usable: readonly FoundRun[]; skipped: number }> {
  const { runIds, odd } = listRunDirs(state);
  for (const { path, why } of odd) log.warn(`skipped ${path}: ${why}.`);
  const usable: FoundRun[] = [];
  for (const [at, runId] of runIds.entries()) {
    if (at > 0 && at % 1_000 === 0) log.info(`read ${at} of ${runIds.length} run directories`);
    const directory = join(state.runsRoot, runId);
    const leftOut = { warn: (why: string) => log.warn(`skipped ${directory}: ${why}`) };
    const found = await orWarn(leftOut, () => readRunDirectory(directory, log));
    if (found === null) leftOut.warn("it has no run.json.");
    else if (found !== undefined) usable.push(found);
  }
  return { usable, skipped: odd.length + runIds.length - usable.length };
}

/** Null: the directory has no `run.json`. */
export async function readRunDirectory(directory: string, log: Log): Promise<FoundRun | null> {
  const run = await loadRunFile(directory);
  if (run === null) return null;
  const attempts: AttemptRecord[] = [];
  for (const n of (await orWarn(log, async () => listAttemptDirs(directory))) ?? []) {
    const attempt = await orWarn(log, () => loadAttemptFile(directory, n));
    if (attempt !== undefined && attempt !== null) attempts.push(attempt);
  }
  const agent = (await orWarn(log, () => readAgentFile(directory))) ?? null;
  return { run: withAttempts(run, attempts), attempts, agent };
}

/** Adds the numbers and sessions of attempts that an older, restored `run.json` lacks. */
function withAttempts(run: RunRecord, attempts: readonly AttemptRecord[]): RunRecord {
  const unknown = attempts.filter(({ n }) => n > run.attempts);
  const last = unknown.at(-1);
  if (last === undefined) return run;
  const isOwn = ({ kind, asked }: AttemptRecord, value: string) => kind !== "resume" || value === asked;
  const seen = unknown.flatMap((attempt) =>
    attempt.reported.filter(({ value, foreign }) => foreign === undefined && isOwn(attempt, value)),
  );
  const newest = seen.at(-1);
  const { field } = run.session;
  const session =
    newest === undefined || field === null
      ? run.session
      : { field, value: newest.value, source: newest.source, verifiedAt: newest.verifiedAt };
  return { ...run, attempts: last.n, sessions: seen.reduce(observe, run.sessions), session };
}

/**
 * Copies events and documents of the old index, each run's log separately: a damaged event costs the log of its run. Records
 * from the run directories stay.
 */
async function takeAlong(state: StateDir, fresh: Store, found: readonly FoundRun[], log: Log): Promise<void> {
  if (indexIdentity(state) === null) return;
  try {
    await using old = await openStore(state.indexPath, {
      readOnly: true,
      onDamage: ({ table, key, what }) => log.warn(`skipped ${table} ${key}: ${what}.`),
    });
    for (const kind of ["agent", "decision", "pipeline"]) {
      for (const document of await old.listDocuments(kind)) await fresh.saveDocument(document, null);
    }
    for (const { run } of found) {
      const events = await orWarn(log, () => old.listEvents(run.runId));
      for (const event of events ?? []) await fresh.appendEvent(event);
    }
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    log.info(
      "Reprise could read only the run directories: earlier decisions are lost, and retry counts start again from zero.",
    );
  }
}

async function leasesOfLive(
  state: StateDir,
  open: (path: string) => Promise<Store>,
  found: readonly FoundRun[],
  processes: Processes,
): Promise<readonly Lease[]> {
  const live = liveOf(found, processes);
  const [first] = live;
  const lost = await lostIn(state, found, processes);
  if (lost !== null) throw lostAgent(state, lost);
  if (first === undefined) return [];
  if (indexIdentity(state) === null) throw stillLive(state, first, processes, { how: "gone" });
  const leases: Lease[] = [];
  for (const { run, attempts } of live) {
    try {
      await using old = await open(state.indexPath);
      const held = await old.getLease(runLeaseKey(run.runId));
      if (held === null) continue;
      const keys = new Set(run.sessions.map(({ value }) => sessionKey(run.agentName, value)));
      leases.push(held);
      for (const key of keys) leases.push(...[(await old.getLease(key)) ?? []].flat());
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      throw stillLive(state, { run, attempts }, processes, { how: "damaged", cause: error });
    }
  }
  return leases;
}

function lostAgent({ indexPath }: StateDir, lost: Unrecorded): Fault {
  return new Fault(
    "index_damaged",
    `The index ${indexPath} cannot be rebuilt now: ${unrecordedAgent(lost)}. The next command after that rebuilds the index.`,
    { facts: { handle: lost.handle, attempt: lost.n, path: indexPath } },
  );
}

/** Runs whose owner lives, or may live and was not declared gone. */
export function liveOf(found: readonly FoundRun[], processes: Processes): readonly FoundRun[] {
  return found.filter(({ run, attempts }) => {
    const last = attempts.at(-1);
    if (run.status !== "running" || last === undefined || !processes.isAlive(last.owner)) return false;
    return processes.examine(last.owner) === "lives" || !existsSync(ownerGoneFile(run, last.n));
  });
}

function stillLive(
  state: StateDir,
  { run, attempts }: Omit<FoundRun, "agent">,
  processes: Processes,
  { how, cause }: { readonly how: string; readonly cause?: unknown },
): Fault {
  const owner = attempts.at(-1)?.owner;
  const pid = owner?.pid ?? 0;
  const lives = owner !== undefined && processes.examine(owner) === "lives";
  const { boot, space } = processes.self();
  const there = "It is in another container, namespace or machine: stop it there.";
  const end = !lives
    ? `${there} From here nothing shows whether it still lives. Only if it is certainly gone: reprise stop ${run.handle} --owner-gone`
    : owner.space === space && owner.boot === boot
      ? `To end it now: reprise stop ${run.handle} (or: kill ${pid})`
      : there;
  return new Fault(
    "index_damaged",
    `The index ${state.indexPath} is ${how}, and run ${run.handle} ${lives ? "is" : "may be"} live (pid ${pid}). It continues and loses nothing; ` +
      `the next command after that rebuilds the index. ${end}`,
    { facts: { handle: run.handle, pid, path: state.indexPath }, cause },
  );
}

/** The owner keeps writing with its fence, so the new index must count up to the same number. */
async function carryOver(store: Store, lease: Lease): Promise<void> {
  for (;;) {
    const answer = await store.acquireLease(lease.key, lease.owner, () => false);
    if (!answer.held || answer.lease.fence >= lease.fence) return;
    await store.releaseLease(lease.key, answer.lease.fence);
  }
}

/** Undefined: unreadable, and the warning says why. */
export async function orWarn<T>(log: Pick<Log, "warn">, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    log.warn(error.message);
    return undefined;
  }
}

function stamp(): string {
  return new Date().toISOString().replace(/[-:]|\.\d{3}/g, "");
}
