/**
 * From what the user types to a run, and from what the index says to what is true now.
 */
import {
  isDirectory,
  loadAttemptFile,
  loadRunFile,
  runDirAt,
  saveAttemptFile,
  saveRunFile,
} from "../audit/audit.ts";
import { basename } from "node:path";
import { Fault } from "../core/faults.ts";
import { isRunId, parseSelector } from "../core/ids.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { RunFilter } from "../store/store.ts";
import { type Deps, isoNow } from "./deps.ts";
import { liveOwner } from "./leases.ts";
import { recallRun } from "./rebuild.ts";
import { recoverSession } from "./recover.ts";

/** A handle, a unique prefix or a full run id; the record is true for now. */
export async function selectRun(deps: Deps, text: string): Promise<RunRecord> {
  const selector = parseSelector(text);
  if (selector.by === "runId") {
    const run = (await rowOf(deps, selector.runId)) ?? (await recallRun(deps, selector.runId));
    if (run === null) throw unknown(text);
    return correctStatus(deps, run);
  }
  const found = await deps.store.findByHandle(selector.by === "handle" ? selector.handle : selector.prefix);
  const only = found[0] ?? (selector.by === "handle" ? await recallRun(deps, selector.handle) : null);
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
  return correctStatus(deps, only);
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

/** The newest run that works in this directory. */
export async function selectLatest(deps: Deps, cwd: string): Promise<RunRecord> {
  const [run] = await deps.store.listRuns({ cwd, limit: 1 });
  if (run !== undefined) return correctStatus(deps, run);
  throw new Fault(
    "handle_unknown",
    `No run was started in ${cwd}. \`reprise list\` shows the runs there are.`,
    { facts: { cwd } },
  );
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
  const known = await mirrored(deps, run);
  const attempt =
    (await lastAttempt(deps, known)) ?? (await deps.store.listAttempts(run.runId)).at(-1) ?? null;
  const corrected = attempt === null ? interrupted(deps, known) : await ended(deps, known, attempt);
  if (deps.state.writable) {
    if (isDirectory(run.runDirectory)) saveRunFile(corrected);
    await deps.store.saveRun(corrected);
  }
  return corrected;
}

async function ended(deps: Deps, run: RunRecord, attempt: AttemptRecord): Promise<RunRecord> {
  if (attempt.state === "ended" && attempt.outcome !== null) {
    await deps.store.saveAttempt(attempt);
    return { ...run, status: attempt.outcome.result, attempts: Math.max(run.attempts, attempt.n) };
  }
  const found = await recoverSession(deps, run, attempt);
  const closed: AttemptRecord = {
    ...attempt,
    state: "ended",
    endedAt: isoNow(deps),
    outcome: { result: "interrupted", reason: whyDead(deps, attempt) },
    reported: found.reported,
    diagnostics: [...attempt.diagnostics, ...found.diagnostics],
  };
  if (deps.state.writable) {
    if (isDirectory(run.runDirectory)) saveAttemptFile(run.runDirectory, closed);
    await deps.store.saveAttempt(closed);
  }
  return interrupted(deps, { ...run, ...found.run, attempts: Math.max(run.attempts, attempt.n) });
}

function interrupted(deps: Deps, run: RunRecord): RunRecord {
  return { ...run, status: "interrupted", updatedAt: isoNow(deps) };
}

function whyDead(deps: Deps, attempt: AttemptRecord): string {
  const rebooted = attempt.owner.boot !== deps.processes.self().boot;
  return rebooted ? "the machine was restarted" : `Reprise (pid ${attempt.owner.pid}) died`;
}

/** `run.json` may be newer than the index row: it is written first. */
async function mirrored(deps: Deps, run: RunRecord): Promise<RunRecord> {
  try {
    const file = await loadRunFile(run.runDirectory);
    return file !== null && file.updatedAt >= run.updatedAt ? file : run;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(error.message);
    return run;
  }
}

async function lastAttempt(deps: Deps, run: RunRecord): Promise<AttemptRecord | null> {
  try {
    // An attempt's directory may exist before the run's counter was written.
    const next = await loadAttemptFile(run.runDirectory, run.attempts + 1);
    return next ?? (await loadAttemptFile(run.runDirectory, run.attempts));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(error.message);
    return null;
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
