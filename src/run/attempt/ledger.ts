/**
 * The one writer of a run's and an attempt's records while an attempt lives.
 *
 * Each change goes to the run directory first, synchronously, then to the index: the directory is the truth for
 * what happened, so an index that cannot be written at the moment loses nothing and is repaired from it later.
 */
import type { Redact } from "../../lib/secrets.ts";
import { join } from "node:path";
import { readRecord } from "../../state/files.ts";
import { attemptDir, saveAttemptFile, saveRunFile, storable } from "../../state/runs.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../../core/records.ts";
import { objectIn } from "../../lib/json.ts";
import { identityIn } from "../../store/store.ts";
import { changedNow, type Deps } from "../deps.ts";

export interface LedgerStart {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord;
  readonly fence: number;
  readonly redact: Redact;
  /** Another process has taken the lease over, so the agent must stop (I6). */
  readonly onLeaseLost: () => void;
}

/** False: another process has an attempt with this number, because an older state directory was restored and continued. */
export function ownsAttempt({ runDirectory }: RunRecord, { n, owner }: AttemptRecord): boolean {
  const there = identityIn(objectIn(recordOrNull(join(attemptDir(runDirectory, n), "meta.json")), "owner"));
  return (
    there === null || (["pid", "start", "boot", "space"] as const).every((key) => there[key] === owner[key])
  );
}

/** An unreadable record proves nothing and is written again. */
function recordOrNull(path: string): unknown {
  try {
    return readRecord(path);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

export class Ledger {
  run: RunRecord;
  attempt: AttemptRecord;
  readonly fence: number;
  readonly #deps: Deps;
  readonly #redact: Redact;
  #pending: Promise<void> = Promise.resolve();
  readonly #onLeaseLost: () => void;

  constructor(deps: Deps, start: LedgerStart) {
    this.#deps = deps;
    this.run = start.run;
    this.attempt = start.attempt;
    this.fence = start.fence;
    this.#redact = start.redact;
    this.#onLeaseLost = start.onLeaseLost;
  }

  save(change: { run?: Partial<RunRecord>; attempt?: Partial<AttemptRecord> }): void {
    if (!ownsAttempt(this.run, this.attempt)) {
      this.#onLeaseLost();
      return;
    }
    if (change.attempt !== undefined) {
      this.attempt = storable({ ...this.attempt, ...change.attempt }, this.#redact);
      saveAttemptFile(this.run.runDirectory, this.attempt);
    }
    if (change.run !== undefined) {
      this.run = storable(
        { ...this.run, ...change.run, updatedAt: changedNow(this.#deps, this.run) },
        this.#redact,
      );
      saveRunFile(this.run);
    }
    this.#index(
      change.run === undefined ? null : this.run,
      change.attempt === undefined ? null : this.attempt,
    );
  }

  /** Resolves when the index has every change, or a warning names the reason. */
  async settled(): Promise<void> {
    await this.#pending;
  }

  #index(run: RunRecord | null, attempt: AttemptRecord | null): void {
    const { store, log } = this.#deps;
    const { handle } = this.run;
    this.#pending = this.#pending
      .then(async () => {
        if (attempt !== null) await store.saveAttempt(attempt, this.fence);
        if (run !== null) await store.saveRun(run, this.fence);
      })
      .catch((error: unknown) => {
        if (!(error instanceof Fault)) throw error;
        if (error.code === "lease_lost") this.#onLeaseLost();
        log.warn(`the index was not updated for run ${handle}: ${error.message} The run directory has it.`);
      });
  }
}
