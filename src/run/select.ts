/**
 * Finds the run that the user means, and corrects records whose owner has died.
 */
import { readRecord } from "../state/files.ts";
import { isDirectory } from "../state/places.ts";
import {
  createAttemptDir,
  listAttemptDirs,
  loadAttemptFile,
  loadLabel,
  loadRunFile,
  runDirAt,
  saveAttemptFile,
  saveRunFile,
} from "../state/runs.ts";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Fault } from "../core/faults.ts";
import { isRunId, parseSelector, readSelector, type Selector } from "../core/ids.ts";
import { foldedName, withLaterLabel } from "../core/label.ts";
import type { RunLimit } from "../core/limit.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { RunFilter } from "../store/store.ts";
import { changedNow, type Deps, isoNow } from "./deps.ts";
import { clearAfterDead, liveOwner, tryHoldRun } from "./leases.ts";

/**
 * Takes a handle, a full run id, a name or a unique prefix. Returns a current record. A name never stands for a handle or a
 * run id, so a stored handle finds its own run or none.
 */
export async function selectRun(deps: Deps, text: string): Promise<RunRecord> {
  const selector = readSelector(text);
  if (selector !== null && selector.by !== "prefix") return selectExact(deps, selector, text);
  const named = await runsNamed(deps, text);
  const prefixed = selector === null ? [] : await deps.store.findByHandle(selector.prefix);
  const found = [...new Map([...named, ...prefixed].map((run) => [run.runId, run])).values()];
  const [only] = found;
  if (only === undefined) {
    if (selector !== null) throw unknown(text);
    throw notSelected(text);
  }
  if (found.length > 1) throw (await import("./label.ts")).ambiguous(deps, text, found);
  return correctStatus(deps, await asRecorded(deps, only));
}

async function selectExact(deps: Deps, selector: ExactSelector, text: string): Promise<RunRecord> {
  const row =
    selector.by === "runId"
      ? await rowOf(deps, selector.runId)
      : ((await deps.store.findByHandle(selector.handle))[0] ?? null);
  const wanted = selector.by === "runId" ? selector.runId : selector.handle;
  const run = row ?? (await (await import("./index/rebuild.ts")).recallRun(deps, wanted));
  if (run === null) throw unknown(text);
  return correctStatus(deps, await asRecorded(deps, run));
}

type ExactSelector = Exclude<Selector, { readonly by: "prefix" }>;

/**
 * The runs with this name, or else with a name that differs only in case. A live run counts before those that ended, as no
 * two live runs get the same name.
 */
async function runsNamed(deps: Deps, text: string): Promise<readonly RunRecord[]> {
  const all = { limit: Number.POSITIVE_INFINITY, sort: "updated" } as const;
  let found = await deps.store.listRuns({ name: text, ...all });
  if (found.length === 0) {
    const like = (await deps.store.listNames()).filter((name) => foldedName(name) === foldedName(text));
    for (const name of like) found = [...found, ...(await deps.store.listRuns({ name, ...all }))];
  }
  if (found.length < 2) return found;
  const { isLive } = await import("./label.ts");
  const live: RunRecord[] = [];
  for (const run of found) if (await isLive(deps, run)) live.push(run);
  return live.length === 1 ? live : found;
}

function notSelected(text: string): Fault {
  try {
    parseSelector(text);
  } catch (error) {
    if (!(error instanceof Fault) || text.trim() === "") throw error;
    return new Fault(
      error.code,
      error.message.replace(" is not a handle: ", " is neither the name of a run nor a handle: "),
      {
        facts: error.facts,
      },
    );
  }
  return unknown(text);
}

/** The run directory is the truth: an older index, restored from a backup, takes the run from there. */
async function asRecorded(deps: Deps, row: RunRecord): Promise<RunRecord> {
  try {
    const file = readRecord(join(row.runDirectory, "run.json"));
    if (file === null) return row;
    // The directory may have moved.
    const { runDirectory } = row;
    const label = await loadLabel(runDirectory);
    const recorded = withLaterLabel({ ...(file as unknown as RunRecord), runDirectory }, label);
    const indexed = JSON.parse(JSON.stringify(row)) as RunRecord;
    if (isDeepStrictEqual(withLaterLabel(recorded, indexed), indexed)) return row;
    if (row.status === "running" && (await liveOwner(deps, row.runId)) !== null)
      return withLaterLabel(row, label);
    const found = await (await import("./index/catch-up.ts")).caughtUp(deps, row.runId, row);
    if (found === null || found === "held") return (await deps.store.getRun(row.runId)) ?? row;
    deps.log.warn(
      `the index was older than the directory of run ${row.handle}, so Reprise used the directory.`,
    );
    return found;
  } catch (error) {
    // Code that needs the record reports a damaged record and a record of a newer Reprise.
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

/** The run last used in this directory that can be resumed, as far as its record shows. */
export async function selectLatest(deps: Deps, cwd: string): Promise<RunRecord> {
  const [found] = await deps.store.listRuns({ cwd, sort: "updated", limit: 1, matches: canContinue });
  if (found !== undefined) return correctStatus(deps, await asRecorded(deps, found));
  const [other] = await deps.store.listRuns({ cwd, limit: 1 });
  const what =
    other === undefined
      ? `No run was started in ${cwd}.`
      : `No run of ${cwd} has a conversation to continue.`;
  throw new Fault("handle_unknown", `${what} \`reprise list\` shows the runs.`, { facts: { cwd } });
}

/** The reasons of a record alone, as in `whyNotResumable`, which loads more. */
function canContinue({ empty, launch, session, sessions, status }: RunRecord): boolean {
  if (empty === true || launch.unresumable !== undefined || launch.redacted.length > 0) return false;
  const hasSession = session.value !== null || sessions.some(({ foreign }) => foreign === undefined);
  return hasSession || status === "running";
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

/** Newest first. Corrects runs whose owner died. */
export async function listRuns(deps: Deps, filter: RunFilter): Promise<readonly RunRecord[]> {
  // A filter by status needs true statuses, so doubtful ones are corrected before the lookup.
  if (filter.status !== undefined || filter.limited === true) {
    const running = await deps.store.listRuns({ status: "running", limit: Number.POSITIVE_INFINITY });
    for (const run of running) await correctStatus(deps, run);
  }
  const runs = await deps.store.listRuns(filter);
  return Promise.all(runs.map((run) => correctStatus(deps, run)));
}

/** By run id: the limits that ended these runs. Asks nothing if none of them ended without success. */
export async function limitsOf(
  deps: Pick<Deps, "store">,
  runs: readonly RunRecord[],
): Promise<ReadonlyMap<string, RunLimit>> {
  const doubtful = runs.filter(({ status }) => status === "failed" || status === "interrupted");
  return doubtful.length === 0 ? new Map() : deps.store.limitsOf(doubtful.map(({ runId }) => runId));
}

/**
 * A run with the status `running` and a dead owner was interrupted. The run directory shows how far it came.
 * If the directory has the end already, the index takes it from there.
 */
export async function correctStatus(deps: Deps, run: RunRecord): Promise<RunRecord> {
  if (run.status !== "running" || (await liveOwner(deps, run.runId)) !== null) return run;
  // Without the engine's own settings its session may not be found, and that must not be recorded.
  if (!deps.state.writable || deps.config.unread !== undefined || !(await isEngineKnown(deps, run)))
    return (await corrected(deps, run)).run;
  try {
    return await putRight(deps, run);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    // The result is true even if it was not stored, and a run that cannot be written must not hide the others.
    deps.log.warn(`the end of run ${run.handle} could not be recorded: ${error.message}`);
    return (await corrected(deps, run)).run;
  }
}

/** Only the config of the project that started the run may define its engine. */
async function isEngineKnown(deps: Deps, { agentName }: RunRecord): Promise<boolean> {
  const { allEngines } = await import("./engine-setup.ts");
  return allEngines(deps).some(({ id }) => id === agentName);
}

/** Takes the lease while it corrects the run. Otherwise an old state could overwrite a new attempt (I6). */
async function putRight(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const hold = await tryHoldRun(deps, run.runId);
  if (hold === null) return run;
  try {
    return await recordEnd(deps, run, hold.fence);
  } finally {
    await hold.release();
  }
}

/** The caller has the lease, so the owner of a run with the status `running` has died. Records how the attempt ended. */
export async function recordEnd(deps: Deps, run: RunRecord, fence: number): Promise<RunRecord> {
  const now = await deps.store.getRun(run.runId);
  if (now?.status !== "running") return now ?? run;
  const found = await corrected(deps, now);
  if (found.newer) {
    // Keeps the old time stamp, so that the run directory stays the newer record for a reader who understands it.
    const known: RunRecord = { ...now, status: "interrupted" };
    await deps.store.saveRun(known, fence);
    return known;
  }
  if (isDirectory(now.runDirectory)) {
    if (found.attempt !== null) {
      // The index has an attempt before its directory exists.
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
  /** A newer Reprise wrote the records, so they stay unchanged (I9). */
  readonly newer: boolean;
}

async function corrected(deps: Deps, run: RunRecord): Promise<Corrected> {
  const mirror = await readOrWarn(deps, () => loadRunFile(run.runDirectory));
  // `run.json` is written first, so it may be newer than the index row.
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
  // Loaded only when needed, because `list` almost never needs the engines.
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

/** The index gets an attempt first, its directory has the details. An old index lacks the last attempt. */
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

/** Null: absent, or unreadable and a warning says why. */
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
    `No run has the handle${/^[0-9a-f]{4,7}$/i.test(text) ? " or name" : ""} ${text}. \`reprise list\` shows the runs.`,
    {
      facts: { given: text },
    },
  );
}

/** Another process may have finished an attempt between the lookup and the lease. */
export async function asItIsNow(deps: Deps, run: RunRecord): Promise<RunRecord> {
  const now = (await deps.store.getRun(run.runId)) ?? run;
  // The run's counter may come from an older file than the attempt's row.
  const last = (await deps.store.listAttempts(run.runId)).at(-1)?.n ?? 0;
  let attempts = Math.max(now.attempts, last);
  // An attempt that only its directory has keeps its number, for example after an older run.json was restored.
  for (const n of listAttemptDirs(run.runDirectory))
    if (n > attempts && (await isRecorded(run, n))) attempts = n;
  return { ...now, attempts };
}

/** The directory of an attempt that never began may contain other files. */
async function isRecorded({ runDirectory }: RunRecord, n: number): Promise<boolean> {
  try {
    return (await loadAttemptFile(runDirectory, n)) !== null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error.code === "schema_newer";
  }
}
