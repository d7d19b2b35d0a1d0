/**
 * One live attempt a run, one live attempt a session (I6).
 *
 * The owner is a process that can be told from any other; a lease whose owner is dead is taken over with a
 * higher fencing number. Only the kernel says that an owner is dead, never a clock: one that cannot be looked at and
 * whose lock tells nothing keeps its lease until the user says that it is gone (docs/adr/0007-owners.md).
 *
 * An agent may outlive its owner, and in another pid namespace no process table shows it. So the agent keeps a file of its
 * attempt locked as long as it lives, by `flock`, whose lock is inherited where that of a process is not. The file goes
 * when the owner has seen the agent end; one that is left belongs to an owner that died. A lock that is held proves a life;
 * one that is free proves nothing, since many agents are started by a launcher that passes no descriptors on.
 */
import { closeSync, existsSync, statSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  agentLock,
  assertOwnState,
  attemptDir,
  listAttemptDirs,
  listRunDirs,
  openLog,
  removeHolderFiles,
  removeQuietly,
  runtimeDir,
  type StateDir,
  sweepRun,
} from "../state/state.ts";
import type { Processes } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, ProcessIdentity, RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Lease, LeaseOwner } from "../store/store.ts";
import { batchHoldOf, type Deps } from "./deps.ts";

const RENEW_MS = 30_000;
const LOOK_MS = 100;
const PATIENT_LOOKS = 3;
/** An owner whose attempt has ended only puts the copy of the session away. */
const FINISHING_LOOKS = 300;
/** An agent that was asked to end by its owner's death may take as long as one that is asked by us. */
const END_MS = 5_000;
const FLOCK_MS = 5_000;

/** What every process of an attempt carries in its environment. */
export const attemptMarker = (runId: string, n: number | ""): string => `${runId}/${n}`;
export const runKey = (runId: string): string => `run:${runId}`;
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
  const answer = await deps.store.acquireLease(runKey(run.runId), owner(deps), (other) =>
    ownerLives(deps, other),
  );
  if (answer.held) return new RunLease(deps, answer.lease);
  throw busy(deps, run.handle, answer.by, `run ${run.handle}`);
}

/** Takes the run if nobody alive has it. */
export async function tryHoldRun(deps: Deps, runId: string): Promise<RunLease | null> {
  const answer = await deps.store.acquireLease(runKey(runId), owner(deps), (other) =>
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
  const lease = await deps.store.getLease(runKey(runId));
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
    .filter(({ key, owner: by }) => key.startsWith(runKey("")) && isSameOwner(by, session.owner))
    .map(({ key }) => key.slice(runKey("").length));
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
  const lease = await store.getLease(runKey(run.runId));
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
  const isMeant = ({ key }: Lease) => key.startsWith(runKey("")) && key.endsWith(`-${handle.toLowerCase()}`);
  const [lease, ...others] = handle.length === 8 ? (await store.listLeases()).filter(isMeant) : [];
  const runId = lease?.key.slice(runKey("").length);
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

/** There: the user said that the owner of this attempt is gone. */
export function ownerGoneFile({ runDirectory }: Pick<RunRecord, "runDirectory">, n: number): string {
  return join(attemptDir(runDirectory, n), "owner-gone");
}

/** Before the agent is started. What is in the file says that nobody locks it. */
export function prepareLock(deps: Deps, path: string): void {
  const fd = openLog(path);
  try {
    if (flockOf(deps) === null) writeSync(fd, "There is no flock here.\n");
  } finally {
    closeSync(fd);
  }
}

/** The kernel's first pid namespace, from which all others are seen. Its number never changes. */
const SEES_ALL = "pid:[4026531836]";

/**
 * Throws when an agent of the last attempts lives, or may live, where its processes cannot be seen from here. Those that
 * can be seen have been ended before.
 */
export async function assertAgentGone(deps: Deps, run: RunRecord): Promise<void> {
  const { boot, space } = deps.processes.self();
  const attempts = await deps.store.listAttempts(run.runId);
  for (const { n, owner: by } of attempts.slice(-2)) {
    const path = agentLock(run, n);
    // A container may have a boot id of its own, so the lock is looked at whatever the boots are.
    if ((by.boot === boot && by.space === space) || !existsSync(path)) continue;
    const found = await untilFree(deps, path);
    // After a restart of the machine nothing is left.
    if (found !== "held" && by.boot !== boot) continue;
    if (found === "free" && space === SEES_ALL) continue;
    const where = `its owner (pid ${by.pid}) in another container or namespace`;
    const gone = `Only if it is certainly gone: reprise stop ${run.handle} --owner-gone`;
    const what =
      found === "held"
        ? `The agent of attempt ${n} of run ${run.handle} outlived ${where}. End it there: reprise stop ${run.handle}`
        : `Nothing shows whether the agent of attempt ${n} of run ${run.handle} outlived ${where}. ${gone}`;
    throw new Fault("session_busy", what, { facts: { handle: run.handle, pid: by.pid } });
  }
}

export interface Unrecorded {
  readonly runDirectory: string;
  readonly handle: string;
  readonly n: number;
  /** False: nothing proves it. */
  readonly lives: boolean;
  /** Those of its processes that can be seen from here. */
  readonly pids: readonly number[];
}

/**
 * An agent at work in an attempt of this directory whose record is lost: nobody can tell whose it is, so nobody may start
 * another one or end it as a stray. Null: there is none.
 */
export async function findUnrecorded(
  world: Pick<Deps, "processes" | "env">,
  runDirectory: string,
  recorded: { readonly numbers: readonly number[]; readonly owners: readonly ProcessIdentity[] },
): Promise<Unrecorded | null> {
  const { processes } = world;
  const runId = basename(runDirectory);
  for (const n of attemptsIn(runDirectory)) {
    const path = agentLock({ runDirectory }, n);
    if (recorded.numbers.includes(n) || !existsSync(path)) continue;
    const pids = processes.findMarked(attemptMarker(runId, n)).map(({ pid }) => pid);
    const lives = (await lookAt(world, path)) === "held" || pids.length > 0;
    const mayLive = () =>
      !existsSync(ownerGoneFile({ runDirectory }, n)) && processes.hasOtherOwner?.(recorded.owners) === true;
    if (lives || mayLive()) return { runDirectory, handle: runId.slice(-8), n, lives, pids };
  }
  return null;
}

/** None where the directory is not safely ours; others say so. */
function attemptsIn(runDirectory: string): readonly number[] {
  try {
    return listAttemptDirs(runDirectory);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [];
  }
}

/** The same in all run directories, also in those without a usable `run.json`. `found`: what could be read. */
export async function lostIn(
  state: StateDir,
  found: readonly {
    readonly run: Pick<RunRecord, "runId">;
    readonly attempts: readonly Pick<AttemptRecord, "n" | "owner">[];
  }[],
  processes: Processes,
): Promise<Unrecorded | null> {
  const known = new Map(found.map(({ run, attempts }) => [run.runId, attempts.map(({ n }) => n)]));
  const owners = found.flatMap(({ attempts }) => attempts.map(({ owner: by }) => by));
  for (const runId of listRunDirs(state).runIds) {
    const recorded = { numbers: known.get(runId) ?? [], owners };
    const world = { processes, env: process.env };
    const lost = await findUnrecorded(world, join(state.runsRoot, runId), recorded);
    if (lost !== null) return lost;
  }
  return null;
}

/** What to do about it. */
export function unrecordedAgent({ handle, n, lives, pids }: Unrecorded): string {
  const who = `the record of attempt ${n} of run ${handle} is lost, and its agent ${lives ? "is" : "may be"} live`;
  const end =
    pids.length > 0
      ? `(pid ${pids.join(", ")}). To end it now: reprise stop ${handle} (or: kill ${pids.join(" ")})`
      : "in another container or namespace: stop it there";
  return `${who} ${end}${lives ? "" : `. Only if it is certainly gone: reprise stop ${handle} --owner-gone`}`;
}

/**
 * Throws when processes carry the marker of an attempt that has no record, neither in the index nor in the run directory: the
 * state directory was put back from a backup, say, while that attempt was at work.
 */
export async function assertNoneUnknown(deps: Deps, run: RunRecord): Promise<void> {
  const marked = deps.processes
    .findMarkedBy(attemptMarker(run.runId, ""))
    .filter(({ rest }) => /^\d{1,9}$/.test(rest));
  if (marked.length === 0) return;
  const rows = new Set((await deps.store.listAttempts(run.runId)).map(({ n }) => n));
  const isKnown = (n: number) =>
    rows.has(n) || existsSync(join(attemptDir(run.runDirectory, n), "meta.json"));
  const unknown = marked.filter(({ rest }) => !isKnown(Number(rest)));
  const [first] = unknown;
  if (first === undefined) return;
  const pids = unknown.map(({ identity }) => identity.pid);
  throw new Fault(
    "session_busy",
    `An agent works in attempt ${first.rest} of run ${run.handle} (pid ${pids.join(", ")}), which is not recorded here: an older state directory was put back, perhaps. ` +
      `Wait for it, or end it: kill ${pids.join(" ")}`,
    { facts: { handle: run.handle, attempt: Number(first.rest), pids: pids.map(String) } },
  );
}

/** Throws when an agent works in an attempt that neither the index nor the run directory has a record of. */
export async function assertAllRecorded(deps: Deps, run: RunRecord): Promise<void> {
  const attempts = await deps.store.listAttempts(run.runId);
  const recorded = { numbers: attempts.map(({ n }) => n), owners: attempts.map(({ owner: by }) => by) };
  const found = await findUnrecorded(deps, run.runDirectory, recorded);
  if (found === null || !found.lives) return;
  const text = unrecordedAgent(found);
  throw new Fault("session_busy", `Run ${run.handle} cannot go on: ${text}`, {
    facts: { handle: run.handle, attempt: found.n, pids: found.pids.map(String) },
  });
}

/** The agents of the last attempts are gone, and the caller holds the run: nobody need ask again, from wherever. */
export function forgetLocks(run: RunRecord): void {
  for (const n of [run.attempts - 1, run.attempts])
    if (n > 0 && existsSync(agentLock(run, n))) removeQuietly(agentLock(run, n));
}

/** False: the kernel says that an agent of the last attempts lives. All are looked at before one is forgotten. */
async function forsakeAgent(deps: Deps, run: RunRecord): Promise<boolean> {
  const attempts = (await deps.store.listAttempts(run.runId)).slice(-2);
  const locks = attempts.map(({ n }) => agentLock(run, n)).filter((path) => existsSync(path));
  // It may be ending just now, with its owner.
  for (const path of locks) if ((await untilFree(deps, path)) === "held") return false;
  for (const path of locks) removeQuietly(path);
  return true;
}

type Seen = "held" | "free" | "unknown";

async function untilFree(deps: Deps, path: string): Promise<Seen> {
  const deadline = deps.clock.mono() + END_MS;
  for (;;) {
    const seen = await lookAt(deps, path);
    if (seen !== "held" || deps.clock.mono() >= deadline) return seen;
    await sleep(LOOK_MS);
  }
}

async function lookAt(deps: Pick<Deps, "processes" | "env">, path: string): Promise<Seen> {
  const flock = flockOf(deps);
  if (flock === null || (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return "unknown";
  const options = { cwd: "/", env: { PATH: deps.env["PATH"] ?? "" }, timeoutMs: FLOCK_MS };
  const { code } = await deps.processes.runTool(flock, ["-n", path, "true"], options);
  return code === 0 ? "free" : code === 1 ? "held" : "unknown";
}

function flockOf({ processes, env }: Pick<Deps, "processes" | "env">): string | null {
  return processes.resolveProgram("flock", env);
}
