/**
 * Stopping a run from outside. The owner is asked as Ctrl-C would ask it, so that it ends its agent properly and
 * records the end itself; only an owner that does not listen is killed, and then its agent is ended by its marker.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { assertOwnState, homeOfOwner } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { LeaseOwner } from "../store/store.ts";
import type { Deps } from "./deps.ts";
import { markerOf } from "./job.ts";
import { assertAgentGone, elsewhere, forsake, liveOwner } from "./leases.ts";
import { correctStatus, selectRun } from "./select.ts";

export interface Stopped {
  readonly run: RunRecord;
  /**
   * asked: the owner stopped by itself. killed: it did not and was killed. strays: the owner was dead already and
   * had left processes behind. not_running: there was nothing to stop.
   */
  readonly how: "not_running" | "asked" | "killed" | "strays";
  /** How many processes the owner had left behind. */
  readonly strays: number;
}

export interface StopOptions {
  /** SIGINT: a person wants it to end. SIGTERM: it is interrupted. */
  readonly signal?: "SIGINT" | "SIGTERM";
  /** The user says that the owner, which cannot be examined from here, is gone with its agent. */
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
      `pid ${owner.pid} belongs to ${original}, of which this state directory is a copy; it is ended there`,
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

/** Nobody's word outweighs the kernel's. */
async function assertForsaken(deps: Deps, run: RunRecord): Promise<void> {
  if (await forsake(deps, run)) return;
  throw new Fault(
    "run_busy",
    `The owner of run ${run.handle}, or its agent, lives: it holds its lock. --owner-gone is for owners that are gone; stop this one where it runs.`,
    { facts: { handle: run.handle } },
  );
}

interface Asking {
  readonly onProgress: (text: string) => void;
  /** SIGINT: a person wants it to end. SIGTERM: it is interrupted. */
  readonly signal: "SIGINT" | "SIGTERM";
}

/** True: the owner let go of the run. */
async function askTwice(
  deps: Deps,
  run: RunRecord,
  owner: LeaseOwner,
  { onProgress, signal }: Asking,
): Promise<boolean> {
  if (!deps.processes.signal(owner, signal)) {
    // It ended between the look-up and the signal, or it lives where signals do not reach.
    if ((await liveOwner(deps, run.runId)) === null) return true;
    throw outOfReach(deps, run, owner);
  }
  onProgress(`asked pid ${owner.pid} to stop`);
  if (await untilGone(deps, run, owner, FIRST_WAIT_MS)) return true;
  onProgress(`asking pid ${owner.pid} again`);
  deps.processes.signal(owner, "SIGINT");
  return untilGone(deps, run, owner, SECOND_WAIT_MS);
}

function outOfReach(deps: Deps, { handle }: Pick<RunRecord, "handle">, owner: LeaseOwner): Fault {
  const todo = elsewhere(deps, owner, handle) ?? "It cannot be signalled: it runs as another user.";
  return new Fault("run_busy", `Run ${handle} is owned by pid ${owner.pid}. ${todo}`, {
    facts: { handle, pid: owner.pid, machine: owner.machine },
  });
}

/** Throws where `stopRun` would refuse since no signal reaches the owner or its agent: for those who change something before it. */
export async function assertReachable(deps: Deps, run: Pick<RunRecord, "handle" | "runId">): Promise<void> {
  assertOwnState(deps);
  const owner = await liveOwner(deps, run.runId);
  if (owner !== null && elsewhere(deps, owner, run.handle) !== null) throw outOfReach(deps, run, owner);
  const record = owner === null ? await deps.store.getRun(run.runId) : null;
  if (record !== null) await assertAgentGone(deps, record);
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

/** Ends what carries the marker of the last attempts; returns how many processes that were. */
export async function endStrays(deps: Deps, run: RunRecord): Promise<number> {
  let count = 0;
  // The owner may have begun an attempt that the record in our hands does not know.
  for (const n of [run.attempts, run.attempts + 1]) {
    const marker = markerOf(run.runId, n);
    const strays = n === 0 ? [] : deps.processes.findMarked(marker);
    if (strays.length === 0) continue;
    count += strays.length;
    const { survivors } = await deps.processes.endTree(null, marker, "terminate");
    if (survivors.length === 0) continue;
    throw new Fault(
      "run_busy",
      `Processes of run ${run.handle} cannot be ended: pid ${survivors.join(", ")}. End them yourself, then stop it again.`,
      { facts: { handle: run.handle, pids: survivors.map(String) } },
    );
  }
  return count;
}

/** Children of an earlier attempt that outlived it would be a second writer on the same session. */
export async function endLeftBehind(deps: Deps, run: RunRecord): Promise<void> {
  // What a finished turn left running on purpose, a server say, is the user's.
  if (run.status === "completed") return;
  const marker = markerOf(run.runId, run.attempts);
  const strays = deps.processes.findMarked(marker);
  if (strays.length === 0) return;
  deps.log.info(`ending ${strays.length} process(es) that the last attempt left behind`);
  const { survivors } = await deps.processes.endTree(null, marker, "terminate");
  if (survivors.length === 0) return;
  throw new Fault(
    "session_busy",
    `Processes of the last attempt of run ${run.handle} cannot be ended: ${survivors.join(", ")}.`,
    {
      facts: { handle: run.handle },
    },
  );
}
