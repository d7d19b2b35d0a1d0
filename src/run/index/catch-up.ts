/** Repairs an index that is older than the run directories: it takes from them what it lacks. */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { generationMark } from "../../state/generation.ts";
import { isDirectory } from "../../state/places.ts";
import { listRunDirs, readAgentFile } from "../../state/runs.ts";
import { ifFault } from "../../core/faults.ts";
import { withLaterLabel } from "../../core/label.ts";
import type { RunRecord } from "../../core/records.ts";
import { plural } from "../../lib/plural.ts";
import { forgetAgent } from "../clean.ts";
import { type Deps, isoNow } from "../deps.ts";
import { sessionKey, tryHoldRun } from "../leases.ts";
import { runLeaseKey } from "../../store/store.ts";
import { type FoundRun, liveOf, mend, orWarn, putAgentBack, readRunDirectory } from "./rebuild.ts";

/**
 * Repairs an index that is older than the run directories, for example from a backup: it takes from them what it lacks,
 * drops removed runs, and returns a report. Each run is leased while it is repaired. The generation is raised last, so the
 * next command repeats an interrupted repair.
 */
export async function catchUp(deps: Deps): Promise<string> {
  return deps.store.repairing(() => catchUpAll(deps));
}

async function catchUpAll(deps: Deps): Promise<string> {
  const { store, state } = deps;
  const { runIds } = listRunDirs(state);
  const rows = await store.listRuns({ limit: Number.POSITIVE_INFINITY });
  const known = new Map(rows.map((row) => [row.runId, row]));
  let repaired = 0;
  let whole = true;
  for (const [at, runId] of runIds.entries()) {
    if (at > 0 && at % 1_000 === 0) deps.log.info(`read ${at} of ${runIds.length} run directories`);
    const changed = await orWarn(deps.log, () => caughtUpOrHeld(deps, runId, known.get(runId) ?? null));
    if (changed === "held") whole = false;
    else if (changed !== undefined && changed !== null) repaired += 1;
    await orWarn(deps.log, () => catchUpAgent(deps, join(state.runsRoot, runId)));
  }
  const directories = new Set(runIds);
  let removed = 0;
  for (const row of rows.filter(({ runId }) => !directories.has(runId)))
    if (await forgetRemoved(deps, row)) removed += 1;
  const open = await closeUnstarted(deps);
  if (whole) await store.raiseGeneration(generationMark(state.root).read());
  const runs = `${plural(repaired, "run")} brought up to date, ${plural(removed, "removed run")} left out`;
  return (
    `the index was older than the run directories, as if a backup had been restored; it was repaired from them: ${runs}.` +
    (open ? " Questions, pipelines and retry counts are only in the index, so they are as old as it is." : "")
  );
}

/** Waits while another process repairs the same run. If that process dies, the next command repairs it. */
async function caughtUpOrHeld(
  deps: Deps,
  runId: string,
  row: RunRecord | null,
): Promise<RunRecord | "held" | null> {
  for (let look = 1; ; look += 1) {
    const changed = await caughtUp(deps, runId, row);
    // A live owner keeps its rows itself.
    if (changed === "held" && row?.status === "running") return null;
    if (changed !== "held" || look === HELD_LOOKS) return changed;
    await sleep(POLL_MS);
  }
}

const HELD_LOOKS = 20;

/**
 * Repairs one run from its directory. `row`: the index's record, null if it has none. Returns null if the index is up to
 * date, and `held` if another process has the lease.
 */
export async function caughtUp(
  deps: Deps,
  runId: string,
  row: RunRecord | null,
): Promise<RunRecord | "held" | null> {
  const directory = join(deps.state.runsRoot, runId);
  const found = await readRunDirectory(directory, deps.log);
  if (found === null || !isBehind(row, found.run)) return null;
  if (!deps.state.writable) return found.run;
  const hold = await tryHoldRun(deps, runId);
  if (hold === null) return "held";
  try {
    // Another process may have changed it before the lease was taken.
    const now = await readRunDirectory(directory, deps.log);
    if (now === null || !isBehind(await deps.store.getRun(runId).catch(ifFault(null)), now.run)) return null;
    if (!(await mend(deps, now, row === null ? undefined : hold.fence))) return null;
    await giveToLive(deps, now);
    return now.run;
  } finally {
    await hold.release();
  }
}

/**
 * Whether the index lacks something in `run.json`. The file is written first, so of two records with the same time stamp it
 * is the newer one; but the index counts an attempt before its directory exists.
 */
export function isBehind(row: RunRecord | null, file: RunRecord): boolean {
  if (row === null) return true;
  if (row.attempts !== file.attempts) return row.attempts < file.attempts;
  const { runDirectory: _there, ...recorded } = file;
  const { runDirectory: _here, ...indexed } = JSON.parse(JSON.stringify(row)) as RunRecord;
  // A later label of the index is right: a copy of an older directory was put back.
  return row.updatedAt <= file.updatedAt && !isDeepStrictEqual(indexed, withLaterLabel(recorded, indexed));
}

/** A live owner's lease was in the lost index. The next attempt must find it (I6), so it is written again. */
async function giveToLive(deps: Deps, found: FoundRun): Promise<void> {
  const { store, processes, machine, clock } = deps;
  const { run, attempts } = found;
  const last = attempts.at(-1);
  if (last === undefined || liveOf([found], processes).length === 0) return;
  const owner = { ...last.owner, machine, renewedAtMs: clock.now() };
  await store.acquireLease(runLeaseKey(run.runId), owner, () => false);
  const sessions = new Set([run.session.value, last.asked, ...last.reported.map(({ value }) => value)]);
  for (const value of sessions)
    if (value !== null)
      await store.acquireLease(sessionKey(run.agentName, value), owner, (other) => processes.isAlive(other));
}

/** The file is written after the document, so it is newer than an old index. */
async function catchUpAgent({ store }: Deps, directory: string): Promise<void> {
  const agent = await readAgentFile(directory);
  const known = agent === null ? null : await store.getDocument("agent", agent.id);
  if (agent === null || known === null) return putAgentBack(store, agent);
  const data: Readonly<Record<string, unknown>> = { ...agent };
  if (isDeepStrictEqual(known.data, data)) return;
  await store.saveDocument({ ...known, open: agent.phase === "active", data }, known.version);
}

async function forgetRemoved(deps: Deps, row: RunRecord): Promise<boolean> {
  const hold = await tryHoldRun(deps, row.runId);
  if (hold === null) return false;
  try {
    if (isDirectory(join(deps.state.runsRoot, row.runId))) return false;
    await forgetAgent(deps, row);
    await deps.store.deleteRun(row.runId);
    return true;
  } finally {
    await hold.release();
  }
}

/**
 * An agent without a run may have been started, ended and removed since, so it is not started again. True: the index has
 * open supervision records that the run directories do not have.
 */
async function closeUnstarted(deps: Deps): Promise<boolean> {
  const { store, state } = deps;
  const agents = await store.listDocuments("agent", { open: true });
  for (const { id, data, version } of agents) {
    if (isDirectory(join(state.runsRoot, String(data["runId"])))) continue;
    const reason = "the index was older than the run directories, and its run is not among them";
    const ended = { ...data, phase: "failed", reason, endedAt: isoNow(deps) };
    await store.saveDocument({ kind: "agent", id, open: false, data: ended }, version);
  }
  const others = ["decision", "pipeline"].map((kind) => store.listDocuments(kind, { open: true }));
  return [agents, ...(await Promise.all(others))].some((documents) => documents.length > 0);
}

const POLL_MS = 50;
