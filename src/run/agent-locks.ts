/**
 * Agents that outlived their owner, or whose attempt has no record.
 *
 * In another pid namespace no process table shows such an agent. So each agent keeps a file of its attempt locked as long
 * as it lives, by `flock`, whose lock children inherit. The owner removes the file when it has seen the agent end; a file
 * that is left belongs to an owner that died. A held lock proves a life. A free one proves nothing, since many agents are
 * started by a launcher that passes no descriptors on.
 */
import { closeSync, existsSync, statSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { StateDir } from "../state/directory.ts";
import { removeQuietly } from "../state/files.ts";
import { agentLock, attemptDir, listAttemptDirs, listRunDirs } from "../state/runs.ts";
import { openLog } from "../state/tape.ts";
import type { Processes } from "../core/deps.ts";
import { Fault, unlessFault } from "../core/faults.ts";
import type { AttemptRecord, ProcessIdentity, RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";

/** An agent that ends because its owner died gets as much time as an agent that Reprise stops. */
const END_MS = 5_000;
const FLOCK_MS = 5_000;
const LOOK_MS = 100;
/** The marker in the environment of every process of an attempt. */
export const attemptMarker = (runId: string, n: number | ""): string => `${runId}/${n}`;

/** Exists when the user has declared the owner of this attempt gone. */
export function ownerGoneFile({ runDirectory }: Pick<RunRecord, "runDirectory">, n: number): string {
  return join(attemptDir(runDirectory, n), "owner-gone");
}

/** Called before the agent starts. Text in the file means that no process can lock it. */
export function prepareLock(deps: Deps, path: string): void {
  const fd = openLog(path);
  try {
    if (flockOf(deps) === null) writeSync(fd, "There is no flock here.\n");
  } finally {
    closeSync(fd);
  }
}

/** The kernel's first pid namespace, which sees all others. Its number never changes. */
const SEES_ALL = "pid:[4026531836]";

/**
 * Throws if an agent of the last attempts lives, or may live, in a pid namespace that this process cannot see. The caller
 * has ended visible agents.
 */
export async function assertAgentGone(deps: Deps, run: RunRecord): Promise<void> {
  const { boot, space } = deps.processes.self();
  const attempts = await deps.store.listAttempts(run.runId);
  for (const { n, owner: by } of attempts.slice(-2)) {
    const path = agentLock(run, n);
    // A container may have another boot id, so the lock is checked in any case.
    if ((by.boot === boot && by.space === space) || !existsSync(path)) continue;
    const found = await untilFree(deps, path);
    // No agent survives a restart of the machine.
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
  /** False: it may live, but nothing proves it. */
  readonly lives: boolean;
  /** Its visible processes. */
  readonly pids: readonly number[];
}

/**
 * A live agent in an attempt of this directory whose record is lost. Its owner is unknown, so no process may start another
 * agent or end it as a stray. Null: no such agent.
 */
export async function findUnrecorded(
  world: Pick<Deps, "processes" | "env">,
  runDirectory: string,
  recorded: { readonly numbers: readonly number[]; readonly owners: readonly ProcessIdentity[] },
): Promise<Unrecorded | null> {
  const { processes } = world;
  const runId = basename(runDirectory);
  // Other code reports a directory with unsafe permissions.
  for (const n of unlessFault(() => listAttemptDirs(runDirectory), [])) {
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

/** The same for all run directories, including those without a usable `run.json`. `found`: the readable records. */
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

/** Names the agent and what to do about it. */
export function unrecordedAgent({ handle, n, lives, pids }: Unrecorded): string {
  const who = `the record of attempt ${n} of run ${handle} is lost, and its agent ${lives ? "is" : "may be"} live`;
  const end =
    pids.length > 0
      ? `(pid ${pids.join(", ")}). To end it now: reprise stop ${handle} (or: kill ${pids.join(" ")})`
      : "in another container or namespace: stop it there";
  return `${who} ${end}${lives ? "" : `. Only if it is certainly gone: reprise stop ${handle} --owner-gone`}`;
}

/**
 * Throws when processes carry the marker of an attempt without a record in the index or the run directory. That happens when
 * the state directory is restored from a backup while the attempt works.
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
    `An agent works in attempt ${first.rest} of run ${run.handle} (pid ${pids.join(", ")}), which is not recorded here. Perhaps you restored an older state directory. ` +
      `Wait for it, or end it: kill ${pids.join(" ")}`,
    { facts: { handle: run.handle, attempt: Number(first.rest), pids: pids.map(String) } },
  );
}

/** Throws when an agent works in an attempt without a record in the index or the run directory. */
export async function assertAllRecorded(deps: Deps, run: RunRecord): Promise<void> {
  const attempts = await deps.store.listAttempts(run.runId);
  const recorded = { numbers: attempts.map(({ n }) => n), owners: attempts.map(({ owner: by }) => by) };
  const found = await findUnrecorded(deps, run.runDirectory, recorded);
  if (found === null || !found.lives) return;
  const text = unrecordedAgent(found);
  throw new Fault("session_busy", `Run ${run.handle} cannot be resumed: ${text}`, {
    facts: { handle: run.handle, attempt: found.n, pids: found.pids.map(String) },
  });
}

/** The agents of the last attempts are gone and the caller holds the lease, so their lock files are no longer needed. */
export function forgetLocks(run: RunRecord): void {
  for (const n of [run.attempts - 1, run.attempts])
    if (n > 0 && existsSync(agentLock(run, n))) removeQuietly(agentLock(run, n));
}

/** False: the kernel shows that an agent of the last attempts lives. All are checked before a file is removed. */
export async function forsakeAgent(deps: Deps, run: RunRecord): Promise<boolean> {
  const attempts = (await deps.store.listAttempts(run.runId)).slice(-2);
  const locks = attempts.map(({ n }) => agentLock(run, n)).filter((path) => existsSync(path));
  // It may be ending right now, with its owner.
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
