/**
 * The one writer of a run's and an attempt's records while an attempt lives.
 *
 * Each change goes to the run directory first, synchronously, then to the index: the directory is the truth for
 * what happened, so an index that cannot be written right now loses nothing and is repaired from it later.
 */
import { saveAttemptFile, saveRunFile } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { type Deps, isoNow } from "./deps.ts";

export class Ledger {
  run: RunRecord;
  attempt: AttemptRecord;
  readonly fence: number;
  readonly #deps: Deps;
  #pending: Promise<void> = Promise.resolve();
  #onLeaseLost: () => void = () => {};

  constructor(deps: Deps, records: { run: RunRecord; attempt: AttemptRecord; fence: number }) {
    this.#deps = deps;
    this.run = records.run;
    this.attempt = records.attempt;
    this.fence = records.fence;
  }

  /** Another process believes that we are dead: the caller must stop its agent (I6). */
  onLeaseLost(listener: () => void): void {
    this.#onLeaseLost = listener;
  }

  save(change: { run?: Partial<RunRecord>; attempt?: Partial<AttemptRecord> }): void {
    if (change.attempt !== undefined) {
      this.attempt = { ...this.attempt, ...change.attempt };
      saveAttemptFile(this.run.runDirectory, this.attempt);
    }
    if (change.run !== undefined) {
      this.run = { ...this.run, ...change.run, updatedAt: isoNow(this.#deps) };
      saveRunFile(this.run);
    }
    this.#index(this.run, change.attempt === undefined ? null : this.attempt);
  }

  /** Resolves when the index has everything, or has said why not. */
  async settled(): Promise<void> {
    await this.#pending;
  }

  #index(run: RunRecord, attempt: AttemptRecord | null): void {
    const { store, log } = this.#deps;
    this.#pending = this.#pending
      .then(async () => {
        if (attempt !== null) await store.saveAttempt(attempt, this.fence);
        await store.saveRun(run, this.fence);
      })
      .catch((error: unknown) => {
        if (!(error instanceof Fault)) throw error;
        if (error.code === "lease_lost") this.#onLeaseLost();
        log.warn(
          `the index was not updated for run ${run.handle}: ${error.message} The run directory has it.`,
        );
      });
  }
}
