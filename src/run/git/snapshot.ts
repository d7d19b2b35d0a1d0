/**
 * The folder of an attempt as it was before the agent started: `start.json` and, for files that differed from the repository's
 * index, `start/objects` in the attempt's directory. Without it, `diff` cannot tell earlier uncommitted changes from the agent's.
 */
import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "../../core/errno.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptRecord, RunRecord, StartRecord } from "../../core/records.ts";
import { lstat } from "../../state/files.ts";
import { attemptDir, loadStart, saveStart } from "../../state/runs.ts";
import type { Deps } from "../deps.ts";
import { type Git, openGit } from "../git.ts";
import { capture, type CapturePlan, writeTree } from "./capture.ts";

/** The agent waits this long at most. After that, a file that changed since the agent's start is unsure. */
const PATIENCE_MS = 100;
const TIMEOUT_MS = 20_000;
/** After the agent's end, the command waits this long for it. */
const LAST_MS = 3_000;
/** Of files that differ from the index, in all. */
const MOST_BYTES = 64 << 20;
const MOST_PATHS = 5_000;

/** Null: nothing to take. A fresh worktree is its commit, and a folder outside git cannot be compared. */
export function openSnapshot(deps: Deps, run: RunRecord, attempt: AttemptRecord): StartSnapshot | null {
  const { startedFrom } = attempt;
  if (startedFrom === undefined || isFresh(run, attempt) || run.launch.isolate === "dir") return null;
  return deps.processes.resolveProgram("git", deps.env) === null
    ? null
    : new StartSnapshot(deps, startedFrom.top);
}

/** The folder was made for this attempt, so it began with the files of its commit. */
export function isFresh({ launch }: RunRecord, { n }: AttemptRecord): boolean {
  return launch.isolate === "worktree" && n === 1;
}

export class StartSnapshot {
  readonly #top: string;
  /** Git judges the settings of the repository while the attempt is recorded. */
  readonly #git: Promise<Git>;
  readonly #abort = new AbortController();
  #done: Promise<void> = Promise.resolve();
  #since: number | null = null;
  #isCaptured = false;

  constructor(deps: Deps, top: string) {
    this.#top = top;
    this.#git = openGit(deps, top, {}, { timeoutMs: TIMEOUT_MS, signal: this.#abort.signal });
    this.#git.catch(() => {});
  }

  /** Begins it in the attempt's directory. Await it before the agent starts. */
  async take(directory: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const patience = setTimeout(resolve, PATIENCE_MS);
      this.#done = this.#take(directory, resolve).finally(() => {
        clearTimeout(patience);
        resolve();
      });
      // `settled` reports it.
      this.#done.catch(() => {});
    });
    // The time of files is the system's.
    if (!this.#isCaptured) this.#since = Date.now();
  }

  /** Await it when the agent has ended. */
  async settled(): Promise<void> {
    const timer = setTimeout(() => this.#abort.abort(), this.#isCaptured ? TIMEOUT_MS : LAST_MS);
    try {
      await this.#done;
    } finally {
      clearTimeout(timer);
    }
  }

  async #take(directory: string, captured: () => void): Promise<void> {
    const place = startPlace(directory);
    try {
      mkdirSync(place, { mode: 0o700 });
      const record = await this.#capture(place, captured);
      makePrivate(place);
      await saveStart(directory, record);
    } catch (error) {
      if (!(error instanceof Fault) && !isErrno(error)) throw error;
      await this.#giveUp(directory, error);
    }
  }

  async #capture(place: string, onCaptured: () => void): Promise<StartRecord> {
    const git = await this.#git;
    const plan: CapturePlan = {
      top: this.#top,
      place,
      objects: [],
      room: MOST_BYTES,
      mostPaths: MOST_PATHS,
      standIns: new Set(),
      also: [],
      changingSince: () => this.#since,
      timeoutMs: TIMEOUT_MS,
      signal: this.#abort.signal,
    };
    const captured = await capture(git, plan);
    const { standIns, unsure } = captured;
    const late = captured.isLate ? { lateMs: Math.max(0, Date.now() - (this.#since ?? 0)), unsure } : {};
    this.#isCaptured = true;
    onCaptured();
    const tree = await writeTree(git, plan, captured);
    rmSync(join(place, "index"), { force: true });
    return { v: 1, tree, standIns, ...late };
  }

  async #giveUp(directory: string, error: Error): Promise<void> {
    const told = error instanceof Fault ? error.facts["why"] : undefined;
    const why = this.#abort.signal.aborted
      ? "the agent ended before Reprise had read the folder"
      : String(told ?? error.message);
    try {
      rmSync(startPlace(directory), { recursive: true, force: true });
      await saveStart(directory, { v: 1, tree: null, why, standIns: [] });
    } catch (second) {
      // Without a record, `diff` says that there is no snapshot.
      if (!(second instanceof Fault) && !isErrno(second)) throw second;
    }
  }
}

function startPlace(directory: string): string {
  return join(directory, "start");
}

/** Git makes files with the user's umask. A place without objects is removed: the repository has everything. */
function makePrivate(place: string): void {
  const entries = readdirSync(place, { recursive: true, withFileTypes: true });
  if (!entries.some((entry) => entry.isFile())) return rmSync(place, { recursive: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    chmodSync(path, entry.isDirectory() ? 0o700 : 0o600);
  }
}

export interface FoundStart {
  /** Null: Reprise has no snapshot, and `why` says why. */
  readonly record: StartRecord | null;
  readonly objects: readonly string[];
  /** Null: the attempt was made by a version that took no snapshots. */
  readonly why: string | null;
}

export async function findStart({ runDirectory }: RunRecord, { n }: AttemptRecord): Promise<FoundStart> {
  try {
    const directory = attemptDir(runDirectory, n);
    const record = await loadStart(directory);
    const place = lstat(startPlace(directory));
    if (record === null) {
      const why = place === null ? null : "it was not finished, because Reprise was killed or still takes it";
      return { record, objects: [], why };
    }
    if (record.tree === null)
      return { record: null, objects: [], why: record.why ?? "for an unknown reason" };
    return { record, objects: place === null ? [] : [join(startPlace(directory), "objects")], why: null };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { record: null, objects: [], why: error.message };
  }
}
