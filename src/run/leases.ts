/**
 * One live attempt a run, one live attempt a session (I6).
 *
 * The owner is a process that can be told from any other; a lease whose owner is dead is taken over with a
 * higher fencing number. A process of another pid namespace or machine cannot be looked at, so its lease counts
 * as alive while it is renewed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { removeHolderFiles, runtimeDir, sweepRun } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import type { Lease, LeaseOwner } from "../store/store.ts";
import type { Deps } from "./deps.ts";

const RENEW_MS = 30_000;
const LOOK_MS = 100;
const PATIENT_LOOKS = 3;
/** An owner whose attempt has ended only puts the copy of the session away. */
const FINISHING_LOOKS = 300;
/** Three missed renewals. */
const FOREIGN_DEAD_MS = 100_000;

export const runKey = (runId: string): string => `run:${runId}`;
export const sessionKey = (engine: string, session: string): string => `session:${engine}:${session}`;

export class RunHold implements AsyncDisposable {
  readonly fence: number;
  readonly #deps: Deps;
  readonly #held: { key: string; fence: number }[];
  readonly #renewing: NodeJS.Timeout;
  #onLost: () => void = () => {};

  constructor(deps: Deps, lease: Lease) {
    this.fence = lease.fence;
    this.#deps = deps;
    this.#held = [{ key: lease.key, fence: lease.fence }];
    this.#renewing = setInterval(() => void this.#renew(), RENEW_MS);
    this.#renewing.unref();
  }

  /** Throws `session_busy` when another live attempt has the session, whichever run it belongs to. */
  async holdSession(run: RunRecord, session: string): Promise<void> {
    const key = sessionKey(run.agentName, session);
    if (this.#held.some((held) => held.key === key)) return;
    const answer = await this.#deps.store.acquireLease(key, owner(this.#deps), (other) =>
      ownerLives(this.#deps, other),
    );
    if (!answer.held) {
      const { handle } = (await workedOnBy(this.#deps, run.agentName, answer.by)) ?? run;
      throw busy(this.#deps, handle, answer.by, `session ${session}`);
    }
    this.#held.push({ key, fence: answer.lease.fence });
  }

  /** Lets go of one session while the attempt goes on. */
  async releaseSession(run: RunRecord, session: string): Promise<void> {
    const key = sessionKey(run.agentName, session);
    const at = this.#held.findIndex((held) => held.key === key);
    const [held] = at === -1 ? [] : this.#held.splice(at, 1);
    if (held !== undefined) await this.#deps.store.releaseLease(held.key, held.fence);
  }

  /** Another process believes that we are dead: whoever works under this lease must stop (I6). */
  onLost(listener: () => void): void {
    this.#onLost = listener;
  }

  lost(): void {
    this.#onLost();
  }

  /** Lets go at once when the work fails; when it succeeds, the caller does, with `release`. */
  async untilFinished<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.release();
      throw error;
    }
  }

  async release(): Promise<void> {
    clearInterval(this.#renewing);
    for (const { key, fence } of this.#held.splice(0).toReversed())
      await this.#deps.store.releaseLease(key, fence);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  async #renew(): Promise<void> {
    try {
      for (const { key, fence } of this.#held) {
        if (!(await this.#deps.store.renewLease(key, fence, this.#deps.clock.now()))) this.lost();
      }
    } catch (error) {
      // Renewal matters only to other machines; the next one may succeed.
      if (!(error instanceof Fault)) throw error;
    }
  }
}

/** Takes the run, or says who has it. */
export async function holdRun(deps: Deps, run: RunRecord): Promise<RunHold> {
  const looks = run.status === "running" ? PATIENT_LOOKS : FINISHING_LOOKS;
  for (let look = 1; look < looks; look += 1) {
    // `list` holds a run for the moment in which it corrects it.
    const hold = await tryHoldRun(deps, run.runId);
    if (hold !== null) return hold;
    const isWorking = look >= PATIENT_LOOKS && (await deps.store.getRun(run.runId))?.status === "running";
    if (isWorking) break;
    await sleep(LOOK_MS);
  }
  const answer = await deps.store.acquireLease(runKey(run.runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  if (answer.held) return new RunHold(deps, answer.lease);
  throw busy(deps, run.handle, answer.by, `run ${run.handle}`);
}

/** Takes the run if nobody alive has it. */
export async function tryHoldRun(deps: Deps, runId: string): Promise<RunHold | null> {
  const answer = await deps.store.acquireLease(runKey(runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  return answer.held ? new RunHold(deps, answer.lease) : null;
}

/**
 * Clears what an owner that died left behind in a run that the caller holds: half-written files, and a holder's socket and
 * record. Nobody needs them, so a disk that refuses is no reason to stop.
 */
export async function clearAfterDead(deps: Deps, run: RunRecord): Promise<void> {
  if (!deps.state.writable) return;
  const last = (await deps.store.listAttempts(run.runId)).at(-1)?.n ?? 0;
  try {
    sweepRun(run.runDirectory, last, isDead(deps));
    removeHolderFiles(runtimeDir(deps.state, deps.env), run.handle);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
}

export function isDead({ processes }: Pick<Deps, "processes">): (pid: number) => boolean {
  return (pid) => processes.identify(pid) === null;
}

/** The live owner of a run, or null when nobody owns it. */
export async function liveOwner(deps: Deps, runId: string): Promise<LeaseOwner | null> {
  const lease = await deps.store.getLease(runKey(runId));
  return lease !== null && ownerLives(deps, lease.owner) ? lease.owner : null;
}

function ownerLives(deps: Deps, other: LeaseOwner): boolean {
  const self = deps.processes.self();
  // One boot and one pid namespace: the process itself can be looked at, whatever the machine calls itself now.
  if (other.boot === self.boot && other.space === self.space) return deps.processes.isAlive(other);
  if (other.machine === deps.machine && other.boot !== self.boot) return false;
  return deps.clock.now() - other.renewedAtMs < FOREIGN_DEAD_MS;
}

function owner(deps: Deps): LeaseOwner {
  return { ...deps.processes.self(), machine: deps.machine, renewedAtMs: deps.clock.now() };
}

/** The run for which this owner holds a session: a fork, say, of the run that was asked for. */
async function workedOnBy(deps: Deps, engine: string, { owner: by }: Lease): Promise<RunRecord | null> {
  for (const run of await deps.store.listRuns({ engine, status: "running", limit: 100 })) {
    const holder = (await deps.store.getLease(runKey(run.runId)))?.owner;
    if (holder?.pid === by.pid && holder.start === by.start && holder.boot === by.boot) return run;
  }
  return null;
}

function busy(deps: Deps, handle: string, by: Lease, what: string): Fault {
  const since = formatDuration(Math.max(0, deps.clock.now() - by.owner.renewedAtMs));
  return new Fault(
    "session_busy",
    `Another process is working on ${what}: pid ${by.owner.pid}, last seen ${since} ago. ` +
      `Wait for it, or end it with \`reprise stop ${handle}\`.`,
    { facts: { handle, pid: by.owner.pid } },
  );
}
