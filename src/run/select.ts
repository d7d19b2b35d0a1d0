/**
 * From what the user types to a run, and from what the index says to what is true now.
 */
import {
  createAttemptDir,
  isDirectory,
  listAttemptDirs,
  loadAttemptFile,
  loadRunFile,
  readRecord,
  runDirAt,
  saveAttemptFile,
  saveRunFile,
} from "../state/state.ts";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Fault } from "../core/faults.ts";
import { isRunId, parseSelector } from "../core/ids.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { RunFilter } from "../store/store.ts";
import { changedNow, type Deps, isoNow } from "./deps.ts";
import { clearAfterDead, liveOwner, tryHoldRun } from "./leases.ts";

/** A handle, a unique prefix or a full run id; the record is true for now. */
export async function selectRun(deps: Deps, text: string): Promise<RunRecord> {
  const selector = parseSelector(text);
  if (selector.by === "runId") {
    const run =
      (await rowOf(deps, selector.runId)) ??
      (await (await import("./index/rebuild.ts")).recallRun(deps, selector.runId));
    if (run === null) throw unknown(text);
    return correctStatus(deps, await asRecorded(deps, run));
  }
  const found = await deps.store.findByHandle(selector.by === "handle" ? selector.handle : selector.prefix);
  const only =
    found[0] ??
    (selector.by === "handle"
      ? await (await import("./index/rebuild.ts")).recallRun(deps, selector.handle)
      : null);
  if (only === null) throw unknown(text);
  if (found.length > 1) {
    const list = found.map((run) => `${run.handle} (${run.agentName}, ${run.createdAt})`);
    throw new Fault(
      "handle_ambiguous",
      `${text} fits ${found.length} runs: ${list.join("; ")}. Type more characters.`,
      {
        facts: { given: text, handles: found.map((run) => run.handle) },
      },
    );
  }
  return correctStatus(deps, await asRecorded(deps, only));
}

/** The run directory is the truth: an index that is older, since it was put back, takes the run from there. */
async function asRecorded(deps: Deps, row: RunRecord): Promise<RunRecord> {
  try {
    const file = readRecord(join(row.runDirectory, "run.json"));
    if (file === null) return row;
    // The directory may have been moved since.
    const { runDirectory } = row;
    if (isDeepStrictEqual({ ...file, runDirectory }, JSON.parse(JSON.stringify(row)))) return row;
    if (row.status === "running" && (await liveOwner(deps, row.runId)) !== null) return row;
    const found = await (await import("./index/catch-up.ts")).caughtUp(deps, row.runId, row);
    if (found === null || found === "held") return (await deps.store.getRun(row.runId)) ?? row;
    deps.log.warn(`the index was older than the directory of run ${row.handle}, which was taken instead.`);
    return found;
  } catch (error) {
    // What a newer Reprise wrote, or what is damaged, is told by whoever needs it.
    if (error instanceof Fault && !error.code.startsWith("index_")) return row;
    throw error;
  }
}

/** Null: there is no such row, or it is damaged. */
async function rowOf(deps: Deps, runId: string): Promise<RunRecord | null> {
  try {
    return await deps.store.getRun(runId);
  } catch (error) {
    if (error instanceof Fault && error.code === "record_damaged") return null;
    throw error;
  }
}

/** The newest run that works in this directory. One whose UI was closed before anything was said is meant by nobody. */
export async function selectLatest(deps: Deps, cwd: string): Promise<RunRecord> {
  for (let limit = 1; ; limit *= 8) {
    const runs = await deps.store.listRuns({ cwd, limit });
    const found = runs.find(({ empty }) => empty === undefined);
    if (found !== undefined) return correctStatus(deps, await asRecorded(deps, found));
    if (runs.length === limit) continue;
    const what =
      runs.length === 0
        ? `No run was started in ${cwd}.`
        : `Every run of ${cwd} is a UI that was closed before anything was said.`;
    throw new Fault("handle_unknown", `${what} \`reprise list\` shows the runs there are.`, {
      facts: { cwd },
    });
  }
}

/** `--run-dir`: a path, a full run id or a handle, bound to this engine. */
export async function selectRunDir(deps: Deps, text: string, engine: string): Promise<RunRecord> {
  const run = await selectRun(deps, text.includes("/") ? runIdOfPath(deps, text) : text);
  if (run.agentName !== engine) {
    throw new Fault(
      "run_engine_mismatch",
      `Run ${run.handle} belongs to ${run.agentName}, not to ${engine}. Start a new run, or name the right engine.`,
      { facts: { handle: run.handle, engine: run.agentName, given: engine } },
    );
  }
  return run;
}

/** Newest first. Runs whose owner died are corrected on sight. */
export async function listRuns(deps: Deps, filter: RunFilter): Promise<readonly RunRecord[]> {
  // Whoever asks for a status asks for the true one, so those that may be wrong are put right before the look-up.
  if (filter.status !== undefined) {
    const running = await deps.store.listRuns({ status: "running", limit: Number.POSITIVE_INFINITY });
    for (const run of running) await correctStatus(deps, run);
  }
  const runs = await deps.store.listRuns(filter);
  return Promise.all(runs.map((run) => correctStatus(deps, run)));
}

/**
 * A run that says `running` while its owner is dead was interrupted; the run directory tells how far it came.
 * Where the directory already knows the end, the index is behind and takes it over.
 */
export async function correctStatus(deps: Deps, run: RunRecord): Promise<RunRecord> {
  if (run.status !== "running" || (await liveOwner(deps, run.runId)) !== null) return run;
  // Without the engine's own settings its session may not be found, and that must not be recorded.
  if (!deps.state.writable || deps.config.unread !== undefined) return (await corrected(deps, run)).run;
  try {
    return await putRight(deps, run);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    // True all the same, and the next look tries again: one run that cannot be written must not hide the others.
    deps.log.warn(`what became of run ${run.handle} could not be recorded: ${error.message}`);
    return (await corrected(deps, run)).run;
  }
}

/** Whoever corrects a run owns it for that moment: otherwise an old look could be written over a new attempt (I6). */
async function putRight(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const hold = await tryHoldRun(deps, run.runId);
  if (hold === null) return run;
  try {
    return await recordEnd(deps, run, hold.fence);
  } finally {
    await hold.release();
  }
}

/** The caller holds the run: one that says it is running has an owner that died, and what became of it is recorded. */
export async function recordEnd(deps: Deps, run: RunRecord, fence: number): Promise<RunRecord> {
  const now = await deps.store.getRun(run.runId);
  if (now?.status !== "running") return now ?? run;
  const found = await corrected(deps, now);
  if (found.newer) {
    // With the stamp that it had, so that whoever can read the records believes them.
    const known: RunRecord = { ...now, status: "interrupted" };
    await deps.store.saveRun(known, fence);
    return known;
  }
  if (isDirectory(now.runDirectory)) {
    if (found.attempt !== null) {
      // The attempt is in the index before it has a directory.
      createAttemptDir(now.runDirectory, found.attempt.n);
      saveAttemptFile(now.runDirectory, found.attempt);
    }
    saveRunFile(found.run);
  }
  if (found.attempt !== null) await deps.store.saveAttempt(found.attempt, fence);
  await deps.store.saveRun(found.run, fence);
  await clearAfterDead(deps, found.run);
  return found.run;
}

interface Corrected {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord | null;
  /** A newer Reprise wrote the records: they are left as they are (I9). */
  readonly newer: boolean;
}

async function corrected(deps: Deps, run: RunRecord): Promise<Corrected> {
  const mirror = await readOrWarn(deps, () => loadRunFile(run.runDirectory));
  // `run.json` may be newer than the index row: it is written first.
  const file = mirror.value;
  const known = file !== null && file.updatedAt >= run.updatedAt ? file : run;
  const last = await lastAttempt(deps, known);
  const newer = mirror.newer || last.newer;
  const attempt = last.value;
  if (attempt === null) return { run: interrupted(deps, known), attempt, newer };
  return { ...(await ended(deps, known, attempt)), newer };
}

async function ended(deps: Deps, run: RunRecord, attempt: AttemptRecord): Promise<Omit<Corrected, "newer">> {
  if (attempt.state === "ended" && attempt.outcome !== null) {
    return {
      run: { ...run, status: attempt.outcome.result, attempts: Math.max(run.attempts, attempt.n) },
      attempt,
    };
  }
  // The engines' profiles are loaded when they are needed, which `list` almost never does.
  const { recoverSession } = await import("./recover.ts");
  const found = await recoverSession(deps, run, attempt);
  const closed: AttemptRecord = {
    ...attempt,
    state: "ended",
    endedAt: isoNow(deps),
    outcome: { result: "interrupted", reason: whyDead(deps, attempt) },
    reported: found.reported,
    diagnostics: [...attempt.diagnostics, ...found.diagnostics],
  };
  const now = interrupted(deps, { ...run, ...found.run, attempts: Math.max(run.attempts, attempt.n) });
  return { run: now, attempt: closed };
}

function interrupted(deps: Deps, run: RunRecord): RunRecord {
  return { ...run, status: "interrupted", updatedAt: changedNow(deps, run) };
}

function whyDead(deps: Deps, attempt: AttemptRecord): string {
  const rebooted = attempt.owner.boot !== deps.processes.self().boot;
  return rebooted ? "the machine was restarted" : `Reprise (pid ${attempt.owner.pid}) died`;
}

/** The index has an attempt first, its directory knows it best; an index that is behind does not have the last one. */
async function lastAttempt(deps: Deps, run: RunRecord): Promise<Read<AttemptRecord>> {
  const row = (await deps.store.listAttempts(run.runId)).at(-1) ?? null;
  const n = Math.max(row?.n ?? 0, run.attempts);
  const { value, newer } = await readOrWarn(deps, () => loadAttemptFile(run.runDirectory, n));
  return { value: value ?? row, newer };
}

interface Read<T> {
  readonly value: T | null;
  readonly newer: boolean;
}

/** Null: there is none, or the warning says why it cannot be had. */
async function readOrWarn<T>(deps: Deps, read: () => Promise<T | null>): Promise<Read<T>> {
  try {
    return { value: await read(), newer: false };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(error.message);
    return { value: null, newer: error.code === "schema_newer" };
  }
}

function runIdOfPath(deps: Deps, path: string): string {
  const name = basename(runDirAt(deps.state, path));
  if (!isRunId(name)) {
    throw new Fault(
      "outside_root",
      `${JSON.stringify(path)} is not a run directory below ${deps.state.runsRoot}.`,
      {
        facts: { given: path },
      },
    );
  }
  return name;
}

function unknown(text: string): Fault {
  return new Fault(
    "handle_unknown",
    `No run has the handle ${text}. \`reprise list\` shows the runs there are.`,
    {
      facts: { given: text },
    },
  );
}

/** Another process may have finished an attempt between the look-up and the lease. */
export async function asItIsNow(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const now = (await deps.store.getRun(run.runId)) ?? run;
  // An attempt may have its row while the run's counter, rebuilt from an older file, is behind it.
  const last = (await deps.store.listAttempts(run.runId)).at(-1)?.n ?? 0;
  let attempts = Math.max(now.attempts, last);
  // One that only its directory knows keeps its number: an older run.json was put back, say.
  for (const n of listAttemptDirs(run.runDirectory))
    if (n > attempts && (await isRecorded(run, n))) attempts = n;
  return { ...now, attempts };
}

/** Other files may lie in the directory of an attempt that was never begun. */
async function isRecorded({ runDirectory }: RunRecord, n: number): Promise<boolean> {
  try {
    return (await loadAttemptFile(runDirectory, n)) !== null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error.code === "schema_newer";
  }
}
