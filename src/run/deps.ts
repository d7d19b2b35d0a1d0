/** Everything a run needs from outside, wired once in `setup.ts` and in one test helper. */
import type { StateDir } from "../audit/audit.ts";
import type { Config } from "../core/config.ts";
import type { Clock, Env, Log, Processes } from "../core/deps.ts";
import type { RunRecord } from "../core/records.ts";
import type { Store } from "../store/store.ts";

export interface Deps {
  readonly state: StateDir;
  readonly store: Store;
  readonly config: Config;
  readonly clock: Clock;
  readonly env: Env;
  readonly log: Log;
  readonly processes: Processes;
  /** What was repaired in an index that was older than the run directories. Absent: it was not. */
  readonly repaired?: string;
  /** Names the machine whose session files a run depends on. */
  readonly machine: string;
  /** The command that runs the built-in demo agent. */
  readonly demo: readonly [program: string, ...args: string[]];
  /** Eight lower-case hex characters. */
  newHandle(): string;
  /** A random UUID, version 4. */
  newSessionId(): string;
}

export function isoNow(deps: Deps): string {
  return new Date(deps.clock.now()).toISOString();
}

/** When a run changes. Never before its last change, whatever the clock says: the later record of a run is the newer one. */
export function changedNow(deps: Deps, { updatedAt }: RunRecord): string {
  const now = isoNow(deps);
  return now < updatedAt ? updatedAt : now;
}
