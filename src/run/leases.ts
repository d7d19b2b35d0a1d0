/**
 * One live attempt per run, one live attempt per session (I6).
 *
 * Each owner is a uniquely identified process. A lease whose owner is dead is taken over with a higher fencing number.
 * Only the kernel decides that an owner is dead, never a clock: an owner that cannot be examined and whose lock proves
 * nothing keeps its lease until the user declares it gone (docs/adr/0007-owners.md).
 */
import { closeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { assertOwnState } from "../state/identity.ts";
import { listAttemptDirs } from "../state/runs.ts";
import { removeHolderFiles, runtimeDir } from "../state/runtime.ts";
import { openLog } from "../state/tape.ts";
import { sweepRun } from "../state/upkeep.ts";
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
/** An owner whose attempt has ended only stores the last copy of the session. */
const FINISHING_LOOKS = 300;

/** Two configured engines may run the same program, so a long id names one conversation whatever the engine is called. */
export const sessionKey = (engine: string, session: string): string =>
  /^[\w-]{16,}$/.test(session) ? `session:${session}` : `session:${engine}:${session}`;

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

  /** Releases one session while the attempt continues. */
  async releaseSession(run: RunRecord, session: string): Promise<void> {
    const key = sessionKey(run.agentName, session);
    const at = this.#held.findIndex((held) => held.key === key);
    const [held] = at === -1 ? [] : this.#held.splice(at, 1);
    if (held !== undefined) await this.#deps.store.releaseLease(held.key, held.fence);
  }

  /**
   * For an engine that chooses the earlier conversation itself: until it names its choice, no other conversation continues
   * in that directory. Throws `session_busy` when another attempt is about to choose there.
   */
  async holdChoice(run: RunRecord): Promise<void> {
    await assertNoChoice(this.#deps, run);
    await this.holdSession(run, choiceIn(run));
  }

  async releaseChoice(run: RunRecord): Promise<void> {
    await this.releaseSession(run, choiceIn(run));
  }

  /** Another process has taken the lease over: work under this lease must stop (I6). */
  onLost(listener: () => void): void {
    this.#onLost = listener;
  }

  lost(): void {
    this.#onLost();
  }

  /** Releases everything when the work fails. When it succeeds, the caller releases it. */
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
      // Renewal matters only to other machines, and the next one may succeed.
      if (!(error instanceof Fault)) throw error;
    }
  }
}

/** No engine has such an id. */
const choiceIn = ({ cwd }: RunRecord) => `the earlier one of ${cwd}`;

/** Throws `session_busy` while an engine is about to choose a conversation in this directory: it may choose this one. */
export async function assertNoChoice(deps: Deps, run: RunRecord): Promise<void> {
  const lease = await deps.store.getLease(sessionKey(run.agentName, choiceIn(run)));
  if (lease === null || !ownerLives(deps, lease.owner) || (await freeOrphan(deps, lease))) return;
  const handle = (await workedOnBy(deps, lease)) ?? run.handle;
  throw busy(deps, handle, lease, `an earlier conversation in ${run.cwd}, which the engine chooses`);
}

/** Takes the run's lease, or throws a fault that names its owner. A live batch owns its runs even between their turns. */
export async function leaseRun(deps: Deps, run: RunRecord): Promise<RunLease> {
  await assertNoBatch(deps, run);
  const hold = await holdFree(deps, run);
  // A batch records that it works on a run before it takes the lease, so one of the two sees the other.
  return hold.untilFinished(async () => {
    await assertNoBatch(deps, run);
    return hold;
  });
}

/** Throws `run_busy` when the run belongs to a live batch in another process. */
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
    // `list` takes the lease for a moment to correct the run.
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

/** Takes the run's lease if no live owner has it. */
export async function tryHoldRun(deps: Deps, runId: string): Promise<RunLease | null> {
  const answer = await deps.store.acquireLease(runLeaseKey(runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  return answer.held ? new RunLease(deps, answer.lease) : null;
}

/**
 * Clears what a dead owner left in a run that the caller has leased: half-written files, and a holder's socket and
 * record. They are useless, so a disk that refuses is no reason to stop.
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

/** Takes another kind of lease for a moment. Null: a live process has it. */
export async function takeLease(deps: Deps, key: string): Promise<Lease | null> {
  const answer = await deps.store.acquireLease(key, owner(deps), (other) => ownerLives(deps, other));
  return answer.held ? answer.lease : null;
}

/** The live owner of a run. Null: no owner. */
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

/** The handle of the run for which this owner holds a session, for example a fork of the run asked for. Null: none. */
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
 * An owner takes the lease of its run before those of sessions and releases it after them. So an owner without a run is
 * dead: another process has taken its run over, or the user declared it gone. True: the session is free now.
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

/** Advice about an owner that no signal reaches. Null: a signal reaches it. */
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
 * The user declares the owner and its agent gone. False: the kernel shows that one of them lives, and nothing was
 * changed. True: every lease of the owner is free.
 */
export async function forsake(deps: Deps, run: RunRecord): Promise<boolean> {
  const { store, processes } = deps;
  const lease = await store.getLease(runLeaseKey(run.runId));
  if (lease !== null && processes.examine(lease.owner) === "lives") return false;
  if (!(await forsakeAgent(deps, run))) return false;
  // Readers of the run directory need the declaration as well: for them the owner might still live.
  if (lease !== null) noteGone(run);
  // `freeOrphan` frees sessions of an owner without a run.
  if (lease === null) return true;
  const keys = new Set(run.sessions.map(({ value }) => sessionKey(run.agentName, value)));
  for (const { key, fence, owner: by } of await store.listLeases())
    if (keys.has(key) && isSameOwner(by, lease.owner)) await store.releaseLease(key, fence);
  await store.releaseLease(lease.key, lease.fence);
  return true;
}

/**
 * The same for an owner that died before its run was recorded, or whose run was removed: no run has the lease's handle.
 * Returns the run's id. Null: no such lease, or the run exists.
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
