/**
 * One live attempt a run, one live attempt a session (I6).
 *
 * The owner is a process that can be told from any other; a lease whose owner is dead is taken over with a
 * higher fencing number. Only the kernel says that an owner is dead, never a clock: one that cannot be looked at and
 * whose lock tells nothing keeps its lease until the user says that it is gone (docs/adr/0007-owners.md).
 */
import { closeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  assertOwnState,
  listAttemptDirs,
  openLog,
  removeHolderFiles,
  runtimeDir,
  sweepRun,
} from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Lease, type LeaseOwner, runLeaseKey } from "../store/store.ts";
import { batchHoldOf, type Deps } from "./deps.ts";
import { forsakeAgent, ownerGoneFile } from "./agent-locks.ts";

const RENEW_MS = 30_000;
const LOOK_MS = 100;
const PATIENT_LOOKS = 3;
/** An owner whose attempt has ended only puts the copy of the session away. */
const FINISHING_LOOKS = 300;
export const sessionKey = (engine: string, session: string): string => `session:${engine}:${session}`;

export class RunLease implements AsyncDisposable {
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
    const take = () =>
      this.#deps.store.acquireLease(key, owner(this.#deps), (other) => ownerLives(this.#deps, other));
    let answer = await take();
    if (!answer.held && (await freeOrphan(this.#deps, answer.by))) answer = await take();
    if (!answer.held) {
      const handle = (await workedOnBy(this.#deps, answer.by)) ?? run.handle;
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

  /**
   * For an engine that chooses the earlier conversation itself: until it has named its choice, nothing else is continued
   * in that directory. Throws `session_busy` when another attempt is about to choose there.
   */
  async holdChoice(run: RunRecord): Promise<void> {
    await assertNoChoice(this.#deps, run);
    await this.holdSession(run, choiceIn(run));
  }

  async releaseChoice(run: RunRecord): Promise<void> {
    await this.releaseSession(run, choiceIn(run));
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

/** No engine has such an id. */
const choiceIn = ({ cwd }: RunRecord) => `the earlier one of ${cwd}`;

/** Throws `session_busy` while an engine is about to choose a conversation in this directory: it may be the one asked for. */
export async function assertNoChoice(deps: Deps, run: RunRecord): Promise<void> {
  const lease = await deps.store.getLease(sessionKey(run.agentName, choiceIn(run)));
  if (lease === null || !ownerLives(deps, lease.owner) || (await freeOrphan(deps, lease))) return;
  const handle = (await workedOnBy(deps, lease)) ?? run.handle;
  throw busy(deps, handle, lease, `an earlier conversation in ${run.cwd}, which the engine chooses`);
}

/** Takes the run, or says who has it. A live batch has its runs between their turns, too. */
export async function leaseRun(deps: Deps, run: RunRecord): Promise<RunLease> {
  await assertNoBatch(deps, run);
  const hold = await holdFree(deps, run);
  // A batch writes down that it works on a run before it takes it, so one of the two sees the other.
  return hold.untilFinished(async () => {
    await assertNoBatch(deps, run);
    return hold;
  });
}

/** Throws `run_busy` when another process's live batch is not done with the run. */
export async function assertNoBatch(
  deps: Pick<Deps, "batchHolds">,
  run: Pick<RunRecord, "handle" | "subject">,
): Promise<void> {
  const held = await batchHoldOf(deps, run);
  if (held === null) return;
  const { handle } = run;
  const { batch, pid, issue, state, certain } = held;
  const gone = certain
    ? ""
    : `. From here nothing shows whether the batch still lives. Only if it is certainly gone: reprise stop ${handle} --owner-gone`;
  throw new Fault(
    "run_busy",
    `Run ${handle} belongs to batch ${batch} (pid ${pid}), which works on issue ${harmlessLine(issue, 100)} (${state}). ` +
      `Wait for it, or stop this issue alone: reprise stop ${handle}${gone}`,
    { facts: { handle, batch, pid, issue, state } },
  );
}

async function holdFree(deps: Deps, run: RunRecord): Promise<RunLease> {
  const looks = run.status === "running" ? PATIENT_LOOKS : FINISHING_LOOKS;
  for (let look = 1; look < looks; look += 1) {
    // `list` holds a run for the moment in which it corrects it.
    const hold = await tryHoldRun(deps, run.runId);
    if (hold !== null) return hold;
    const isWorking = look >= PATIENT_LOOKS && (await deps.store.getRun(run.runId))?.status === "running";
    if (isWorking) break;
    await sleep(LOOK_MS);
  }
  const answer = await deps.store.acquireLease(runLeaseKey(run.runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  if (answer.held) return new RunLease(deps, answer.lease);
  throw busy(deps, run.handle, answer.by, `run ${run.handle}`);
}

/** Takes the run if nobody alive has it. */
export async function tryHoldRun(deps: Deps, runId: string): Promise<RunLease | null> {
  const answer = await deps.store.acquireLease(runLeaseKey(runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  return answer.held ? new RunLease(deps, answer.lease) : null;
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
  const lease = await deps.store.getLease(runLeaseKey(runId));
  return lease !== null && ownerLives(deps, lease.owner) ? lease.owner : null;
}

function ownerLives(deps: Deps, other: LeaseOwner): boolean {
  return deps.processes.isAlive(other);
}

function owner(deps: Deps): LeaseOwner {
  return { ...deps.processes.owner(), machine: deps.machine, renewedAtMs: deps.clock.now() };
}

/** The handle of the run for which this owner holds a session: a fork, say, of the run that was asked for. Null: of none. */
async function workedOnBy({ store }: Deps, session: Lease): Promise<string | null> {
  const runIds = (await store.listLeases())
    .filter(({ key, owner: by }) => key.startsWith(runLeaseKey("")) && isSameOwner(by, session.owner))
    .map(({ key }) => key.slice(runLeaseKey("").length));
  for (const runId of runIds) {
    const run = await store.getRun(runId);
    if (run?.sessions.some(({ value }) => sessionKey(run.agentName, value) === session.key) === true)
      return run.handle;
  }
  return runIds[0]?.slice(-8) ?? null;
}

/**
 * Whoever works holds a run, and its sessions after it and no longer. An owner that holds no run any more has died, which
 * was proved when its run was taken over, or said by the user: the session that it left is nobody's. True: it is free now.
 */
async function freeOrphan(deps: Deps, session: Lease): Promise<boolean> {
  if (deps.processes.examine(session.owner) === "lives" || (await workedOnBy(deps, session)) !== null)
    return false;
  await deps.store.releaseLease(session.key, session.fence);
  return true;
}

function isSameOwner(one: LeaseOwner, other: LeaseOwner): boolean {
  return (["pid", "start", "boot", "space"] as const).every((key) => one[key] === other[key]);
}

function busy(deps: Deps, handle: string, { owner: by }: Lease, what: string): Fault {
  const since = formatDuration(Math.max(0, deps.clock.now() - by.renewedAtMs));
  return new Fault(
    "session_busy",
    `Another process is working on ${what}: pid ${by.pid}, last seen ${since} ago. ` +
      (elsewhere(deps, by, handle) ?? `Wait for it, or end it with \`reprise stop ${handle}\`.`),
    { facts: { handle, pid: by.pid } },
  );
}

/** What to do about an owner that no signal reaches; null: it can be signalled. */
export function elsewhere(deps: Deps, by: LeaseOwner, handle: string): string | null {
  const { boot, space } = deps.processes.self();
  if (by.boot === boot && by.space === space) return null;
  const there = `It is in another container, namespace or machine (${by.machine}). Wait for it, or stop it there.`;
  if (deps.processes.examine(by) === "lives") return there;
  return (
    `${there} From here nothing shows whether it still lives. ` +
    `Only if it is certainly gone: reprise stop ${handle} --owner-gone`
  );
}

/**
 * The user says that the owner is gone, and its agent with it. False: the kernel says that one of them lives, and nothing was
 * changed. Otherwise what the owner held is free, its sessions included.
 */
export async function forsake(deps: Deps, run: RunRecord): Promise<boolean> {
  const { store, processes } = deps;
  const lease = await store.getLease(runLeaseKey(run.runId));
  if (lease !== null && processes.examine(lease.owner) === "lives") return false;
  if (!(await forsakeAgent(deps, run))) return false;
  // The word must hold for those who read the directory, too: they would take the owner for one that may live.
  if (lease !== null) noteGone(run);
  // Sessions that an owner left which holds no run any more are taken from it by whoever wants them.
  if (lease === null) return true;
  const keys = new Set(run.sessions.map(({ value }) => sessionKey(run.agentName, value)));
  for (const { key, fence, owner: by } of await store.listLeases())
    if (keys.has(key) && isSameOwner(by, lease.owner)) await store.releaseLease(key, fence);
  await store.releaseLease(lease.key, lease.fence);
  return true;
}

/**
 * The same of an owner that died before its run was recorded, or whose run was removed: its lease has a handle that no run has.
 * Null: there is no such lease, or there is such a run. Otherwise the run's id.
 */
export async function forsakeUnrecorded(deps: Deps, handle: string): Promise<string | null> {
  assertOwnState(deps);
  const { store, processes } = deps;
  const isMeant = ({ key }: Lease) =>
    key.startsWith(runLeaseKey("")) && key.endsWith(`-${handle.toLowerCase()}`);
  const [lease, ...others] = handle.length === 8 ? (await store.listLeases()).filter(isMeant) : [];
  const runId = lease?.key.slice(runLeaseKey("").length);
  if (lease === undefined || runId === undefined || others.length > 0) return null;
  if ((await store.findByHandle(handle.toLowerCase())).length > 0) return null;
  if (processes.examine(lease.owner) === "lives") return null;
  await store.releaseLease(lease.key, lease.fence);
  return runId;
}

function noteGone(run: RunRecord): void {
  const last = listAttemptDirs(run.runDirectory).at(-1);
  if (last !== undefined) closeSync(openLog(ownerGoneFile(run, last)));
}
