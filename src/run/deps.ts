/** Everything a run needs from outside, wired once in `setup.ts` and in one test helper. */
import type { StateDir } from "../state/directory.ts";
import type { Config } from "../core/config.ts";
import type { Clock, Env, Log, Processes } from "../core/deps.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { Store } from "../store/store.ts";

export interface Deps {
  readonly state: StateDir;
  readonly store: Store;
  readonly config: Config;
  readonly clock: Clock;
  readonly env: Env;
  readonly log: Log;
  readonly processes: Processes;
  /** How an index that was older than the run directories was repaired. Absent: it was not older. */
  readonly repaired?: string;
  /** Names the machine whose session files a run depends on. */
  readonly machine: string;
  /** The command that runs the built-in demo agent. */
  readonly demo: readonly [program: string, ...args: string[]];
  /** Runs that belong to a live batch of issues in another process, by handle. Absent: no batches. */
  batchHolds?(
    runs: readonly Pick<RunRecord, "handle" | "subject">[],
  ): Promise<ReadonlyMap<string, BatchLease>>;
  /** Gets every attempt after its end, when its run is free again. Quick, and never fails. Absent: nobody wants it. */
  attemptEnded?(run: RunRecord, attempt: AttemptRecord): Promise<void>;
  /** Eight lower-case hex characters. */
  newHandle(): string;
  /** A random UUID, version 4. */
  newSessionId(): string;
}

/** A live batch works on the run's issue: in a turn, at its gate, between turns or waiting for a limit. */
export interface BatchLease {
  readonly batch: string;
  readonly pid: number;
  readonly issue: string;
  /** The issue's state in the batch. */
  readonly state: string;
  /** False: the batch is in another container or on another machine, and nothing shows whether it still lives. */
  readonly certain: boolean;
}

export async function batchHoldOf(
  deps: Pick<Deps, "batchHolds">,
  run: Pick<RunRecord, "handle" | "subject">,
): Promise<BatchLease | null> {
  return (await deps.batchHolds?.([run]))?.get(run.handle) ?? null;
}

export function isoNow(deps: Deps): string {
  return new Date(deps.clock.now()).toISOString();
}

/** The time of a change to a run. Never before the last change, even if the clock goes back: the newer record has the later time. */
export function changedNow(deps: Deps, { updatedAt }: RunRecord): string {
  const now = isoNow(deps);
  return now < updatedAt ? updatedAt : now;
}
