/**
 * Stops a run from another process. The owner gets the signal of Ctrl-C, so that it ends its agent properly and records
 * the end. An owner that does not react is killed; then Reprise ends its agent, found by its marker and its session.
 */
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { assertOwnState, homeOfOwner } from "../state/identity.ts";
import { agentLock } from "../state/runs.ts";
import type { Stray } from "../core/deps.ts";
import { Fault, type FaultCode } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import type { ProcessIdentity, RunRecord } from "../core/records.ts";
import { plural } from "../lib/plural.ts";
import type { LeaseOwner } from "../store/store.ts";
import type { Deps } from "./deps.ts";
import { elsewhere, forsake, liveOwner } from "./leases.ts";
import { assertAgentGone, attemptMarker } from "./agent-locks.ts";
import { correctStatus, selectRun } from "./select.ts";

export interface Stopped {
  readonly run: RunRecord;
  /**
   * asked: the owner stopped on request. killed: it did not and was killed. strays: the owner was dead already and
   * had left processes behind. not_running: nothing to stop.
   */
  readonly how: "not_running" | "asked" | "killed" | "strays";
  /** How many processes the owner had left behind. */
  readonly strays: number;
}

export interface StopOptions {
  /** SIGINT: a person wants it to end. SIGTERM: it is interrupted. */
  readonly signal?: "SIGINT" | "SIGTERM";
  /** The user declares that the owner, which this process cannot examine, is gone with its agent. */
  readonly ownerGone?: boolean;
}

const FIRST_WAIT_MS = 10_000;
const SECOND_WAIT_MS = 15_000;
const POLL_MS = 50;

export async function stopRun(
  deps: Deps,
  selector: string,
  onProgress: (text: string) => void,
  { signal = "SIGINT", ownerGone = false }: StopOptions = {},
): Promise<Stopped> {
  assertOwnState(deps);
  if (ownerGone) await assertForsaken(deps, await selectRun(deps, selector));
  const run = await selectRun(deps, selector);
  const owner = await liveOwner(deps, run.runId);
  if (owner === null) {
    const strays = await endStrays(deps, run);
    await assertAgentGone(deps, run);
    return { run, how: strays === 0 ? "not_running" : "strays", strays };
  }
  const original = homeOfOwner(deps.state, owner.life);
  if (original !== null)
    onProgress(
      `pid ${owner.pid} belongs to ${original}, of which this state directory is a copy; stop it there`,
    );
  const asked = await askTwice(deps, run, owner, { onProgress, signal });
  if (!asked) {
    onProgress(`pid ${owner.pid} does not stop; ending it`);
    deps.processes.signal(owner, "SIGKILL");
    await untilGone(deps, run, owner, FIRST_WAIT_MS);
  }
  const strays = await endStrays(deps, run);
  const now = await deps.store.getRun(run.runId);
  return { run: await correctStatus(deps, now ?? run), how: asked ? "asked" : "killed", strays };
}

/** The kernel's answer outweighs the user's. */
async function assertForsaken(deps: Deps, run: RunRecord): Promise<void> {
  if (await forsake(deps, run)) return;
  throw new Fault(
    "run_busy",
    `The owner of run ${run.handle}, or its agent, is alive: it holds its lock. Stop it where it runs; --owner-gone is only for an owner that has ended.`,
    { facts: { handle: run.handle } },
  );
}

interface Asking {
  readonly onProgress: (text: string) => void;
  /** SIGINT: a person wants it to end. SIGTERM: it is interrupted. */
  readonly signal: "SIGINT" | "SIGTERM";
}

/** True: the owner released the run. */
async function askTwice(
  deps: Deps,
  run: RunRecord,
  owner: LeaseOwner,
  { onProgress, signal }: Asking,
): Promise<boolean> {
  if (!deps.processes.signal(owner, signal)) {
    // It ended between the lookup and the signal, or it lives where no signal reaches it.
    if ((await liveOwner(deps, run.runId)) === null) return true;
    throw outOfReach(deps, run, owner);
  }
  onProgress(`asked pid ${owner.pid} to stop`);
  if (await untilGone(deps, run, owner, FIRST_WAIT_MS)) return true;
  await assertEndable(deps, run);
  onProgress(`asking pid ${owner.pid} again`);
  deps.processes.signal(owner, "SIGINT");
  return untilGone(deps, run, owner, SECOND_WAIT_MS);
}

/** Without its owner, an agent that cannot be ended would keep working unrecorded. */
async function assertEndable(deps: Deps, run: RunRecord): Promise<void> {
  const now = (await deps.store.getRun(run.runId)) ?? run;
  const { strays } = await leftOf(deps, now, now.attempts);
  const denied = strays.filter(({ standing }) => standing === "denied");
  if (denied.length > 0) throw cannotEnd(run, pidsOf(denied), "run_busy");
}

function outOfReach(deps: Deps, { handle }: Pick<RunRecord, "handle">, owner: LeaseOwner): Fault {
  const todo = elsewhere(deps, owner, handle) ?? "It cannot be signalled: it runs as another user.";
  return new Fault("run_busy", `Run ${handle} is owned by pid ${owner.pid}. ${todo}`, {
    facts: { handle, pid: owner.pid, machine: owner.machine },
  });
}

/** Throws where `stopRun` would refuse because no signal reaches the owner or its agent. Call it before a change that precedes a stop. */
export async function assertReachable(deps: Deps, run: Pick<RunRecord, "handle" | "runId">): Promise<void> {
  assertOwnState(deps);
  const owner = await liveOwner(deps, run.runId);
  if (owner !== null && elsewhere(deps, owner, run.handle) !== null) throw outOfReach(deps, run, owner);
  const record = await deps.store.getRun(run.runId);
  if (record === null) return;
  if (owner === null) await assertAgentGone(deps, record);
  const { agent, strays } = await leftOf(deps, record, record.attempts);
  // Checks only the agent itself: what its tools run as root for a moment ends with them.
  const denied = strays.filter(
    ({ standing, identity }) => standing === "denied" && (owner === null || identity.pid === agent?.pid),
  );
  if (denied.length > 0) throw cannotEnd(record, pidsOf(denied), "run_busy");
}

async function untilGone(deps: Deps, run: RunRecord, owner: LeaseOwner, waitMs: number): Promise<boolean> {
  const deadline = deps.clock.mono() + waitMs;
  for (;;) {
    const now = await liveOwner(deps, run.runId);
    if (now === null || now.pid !== owner.pid || now.start !== owner.start) return true;
    if (deps.clock.mono() >= deadline) return false;
    await sleep(POLL_MS);
  }
}

/** Ends the processes that the last attempts left. Returns their number. */
export async function endStrays(deps: Deps, run: RunRecord): Promise<number> {
  // The owner may have begun an attempt after this record was read.
  const before = await endLeftOf(deps, run, run.attempts, "run_busy");
  return before + (await endLeftOf(deps, run, run.attempts + 1, "run_busy"));
}

/** Children of an earlier attempt that outlived it would be a second writer on the same session. */
export async function endLeftBehind(deps: Deps, run: RunRecord): Promise<void> {
  // Processes that a finished turn left on purpose, such as a server, belong to the user.
  if (run.status === "completed") return;
  const count = await endLeftOf(deps, run, run.attempts, "session_busy");
  if (count > 0)
    deps.log.info(`ended ${plural(count, "process", "processes")} that the last attempt left behind`);
}

async function endLeftOf(deps: Deps, run: RunRecord, n: number, code: FaultCode): Promise<number> {
  const { agent, strays } = await leftOf(deps, run, n);
  const marker = attemptMarker(run.runId, n);
  if (strays.some(({ standing }) => standing !== "doubtful")) {
    const { survivors } = await deps.processes.endTree(agent, marker, "terminate");
    if (survivors.length > 0) throw cannotEnd(run, survivors, code);
  }
  const doubtful = strays.filter(({ standing }) => standing === "doubtful");
  if (doubtful.length > 0) throw mayBeLeft(run, n, pidsOf(doubtful), code);
  return strays.length;
}

interface Left {
  /** The recorded agent. Null: not started, or not recorded. */
  readonly agent: ProcessIdentity | null;
  readonly strays: readonly Stray[];
}

/** The live processes of this attempt: by its marker, and by the session of its recorded agent. */
async function leftOf(deps: Deps, run: RunRecord, n: number): Promise<Left> {
  if (n === 0) return { agent: null, strays: [] };
  const agent = (await deps.store.listAttempts(run.runId)).find((attempt) => attempt.n === n)?.agent ?? null;
  const strays = deps.processes.findStrays(attemptMarker(run.runId, n), agent);
  // Without the lock file the agent was seen to end, or the user declared it gone: then only certain processes count.
  const mayBe = existsSync(agentLock(run, n));
  return { agent, strays: strays.filter(({ standing }) => mayBe || standing !== "doubtful") };
}

/** Pids of the last attempt's live processes. */
export async function findLeft(deps: Deps, run: RunRecord): Promise<readonly number[]> {
  return pidsOf((await leftOf(deps, run, run.attempts)).strays);
}

/**
 * Throws when an agent of another run outlived its owner and may work in this session: two runs share a session when the
 * user names it by its id. Reprise ends leftover agents of the same run; about another run the user decides.
 */
export async function assertNobodyIn(deps: Deps, run: RunRecord, session: string): Promise<void> {
  const isIn = (other: RunRecord) =>
    other.agentName === run.agentName && other.sessions.some(({ value }) => value === session);
  const found = (await agentsLeft(deps, run)).find((survivor) => isIn(survivor.run));
  if (found === undefined) return;
  const { handle } = found.run;
  throw new Fault(
    "session_busy",
    `The agent of run ${handle} outlived its owner (pid ${found.pids.join(", ")}) and may still be working in session ${session}. ` +
      `Wait for it, or end it with \`reprise stop ${handle}\`.`,
    { facts: { handle, pids: found.pids.map(String) } },
  );
}

interface Survivor {
  readonly run: RunRecord;
  readonly pids: readonly number[];
}

/** Other runs without an owner whose last attempt still has processes, except for processes that a finished turn left. */
export async function agentsLeft(deps: Deps, { runId: own }: RunRecord): Promise<readonly Survivor[]> {
  const marked = deps.processes.findMarkedBy("");
  const found: Survivor[] = [];
  for (const marker of new Set(marked.map(({ rest }) => rest))) {
    const [runId = "", n] = marker.split("/");
    if (runId === own || !isRunId(runId)) continue;
    const run = await deps.store.getRun(runId);
    if (run === null || run.status === "completed" || String(run.attempts) !== n) continue;
    if ((await liveOwner(deps, runId)) === null)
      found.push({
        run,
        pids: marked.filter(({ rest }) => rest === marker).map(({ identity }) => identity.pid),
      });
  }
  return found;
}

const pidsOf = (strays: readonly Stray[]) => strays.map(({ identity }) => identity.pid);

/** The words about processes that survive SIGKILL. */
export function cannotBeEnded(pids: readonly number[]): string {
  const [are, them] = pids.length === 1 ? ["it runs", "it"] : ["they run", "them"];
  return (
    `pid ${pids.join(", ")} cannot be ended by this user: ${are} as another user, or the system holds ${them}. ` +
    `End ${them} as root: sudo kill ${pids.join(" ")}`
  );
}

function cannotEnd({ handle }: RunRecord, pids: readonly number[], code: FaultCode): Fault {
  return new Fault(code, `Run ${handle} is not over: ${cannotBeEnded(pids)}`, {
    facts: { handle, pids: pids.map(String) },
  });
}

function mayBeLeft({ handle }: RunRecord, n: number, pids: readonly number[], code: FaultCode): Fault {
  return new Fault(
    code,
    `The agent of attempt ${n} of run ${handle} may still be working: pid ${pids.join(", ")} has its process group number. ` +
      `Look: ps -fp ${pids.join(",")}. If it is the agent, end it: kill ${pids.join(" ")}. If not: reprise stop ${handle} --owner-gone`,
    { facts: { handle, pids: pids.map(String) } },
  );
}
