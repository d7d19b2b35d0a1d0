/**
 * The daemon: one process that watches every agent of a state directory and acts by the runbooks.
 *
 * It holds no agent, and the store has everything it knows, so it may be killed at any moment and the next daemon
 * continues. A lock that the kernel releases allows one daemon.
 */
import { randomBytes } from "node:crypto";
import { lstatSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writeAtomic } from "../state/files.ts";
import { generationMark } from "../state/generation.ts";
import { assertOwnState } from "../state/identity.ts";
import { isDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import { formatDuration } from "../lib/duration.ts";
import { fieldIn, type JsonObject, numberIn, stringIn } from "../lib/json.ts";
import { type Channel, listen, type Method, type Peer } from "../ipc/ipc.ts";
import type { Deps } from "../run/run.ts";
import { finishRemovals } from "../run/clean.ts";
import { lockFile } from "../store/store.ts";
import type { ActResult } from "./act.ts";
import { gateMarker } from "./agent-gate.ts";
import { actForUser } from "./advance.ts";
import { finishStops, getAgent, startAgent, stopAgent } from "./agents.ts";
import { resumeAgent } from "./agent-resume.ts";
import { type DaemonAnswer, daemonPlaces, findDaemon, spawnDaemon } from "./daemon-client.ts";
import type { DaemonLog } from "./daemon-log.ts";
import { PipelineDriver } from "./pipeline-driver.ts";
import { getDecision } from "./decisions.ts";
import { Schedule } from "../schedule/schedule.ts";
import { WatchedAgents } from "./watched-agents.ts";
import { Watchers } from "./watchers.ts";
import { refuseSecretMessage } from "./secrets.ts";

export interface DaemonOptions {
  readonly version: string;
  readonly log: DaemonLog;
}

const TICK_MS = 1_000;
const SWEEP_MS = 30_000;
/** A larger difference between wall clock and elapsed time: the machine slept, or someone set the clock. */
const JUMP_MS = 10_000;
/** After a tick this late, the daemon was suspended: it reads the holders' reports before it decides. */
const LATE_MS = 5_000;
const BETWEEN_STARTS_MS = 1_000;
/** How often the daemon checks its own files, and so how often it restarts at most. */
const GUARD_MS = 10_000;
/** How long a stop waits for an action that is under way. */
const STOP_MS = 20_000;

/**
 * Resolves when the daemon was asked to stop, or has lost its files; in the second case it has started a new daemon.
 * Faults: another daemon runs, or the socket's path is too long.
 */
export async function runDaemon(deps: Deps, options: DaemonOptions): Promise<void> {
  assertOwnState(deps);
  const places = daemonPlaces(deps);
  const lock = await lockFile(places.lock);
  if (lock === null) throw await alreadyRunning(deps);
  let end: End = "stopped";
  try {
    end = await serve(deps, options, places);
  } finally {
    lock.release();
  }
  if (end === "restart") spawnDaemon(deps, daemonPlaces(deps).log);
}

type Places = ReturnType<typeof daemonPlaces>;
type End = "stopped" | "restart";

async function serve(deps: Deps, { version, log }: DaemonOptions, places: Places): Promise<End> {
  const sinceMs = deps.clock.now();
  const watch = new Supervision(deps, log);
  let leave: (end: End) => void = () => {};
  const over = new Promise<End>((resolve) => (leave = resolve));
  const token = randomBytes(32).toString("hex");
  writeAtomic(places.token, `${token}\n`);
  const { pid } = deps.processes.self();
  const status = () => ({ pid, sinceMs, version, agents: watch.agents.views() });
  const watchers = new Watchers({ store: deps.store, views: () => watch.agents.views() });
  const methods = {
    ...methodsFor(deps, watch, sinceMs),
    status,
    watch: (_params: JsonObject, peer: Peer) => watchers.add(peer),
    quit: () => void setImmediate(() => leave("stopped")),
  };
  await using channel = await listen(places.socket, token, methods, {
    hello: () => ({ pid, version, sinceMs }),
    onBug: (error) => log.note("a bug", { detail: String(error instanceof Error ? error.stack : error) }),
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => leave("stopped"));
  log.note("started", { version });
  void watch.begin();
  const ticking = setInterval(() => watch.tick(), TICK_MS);
  const ground = integrityCheck(deps, places, { token, channel });
  const guarding = setInterval(() => {
    void ground().then((lost) => {
      if (lost === null) return;
      log.warn(lost.why);
      leave(lost.end);
    });
  }, GUARD_MS);
  const end = await over;
  watchers.close();
  clearInterval(ticking);
  clearInterval(guarding);
  await watch.close();
  log.note(end === "stopped" ? "stopped" : "restarts");
  return end;
}

interface Failure {
  readonly end: End;
  readonly why: string;
}

/**
 * Checks the daemon's state directory, lock, socket, token and index. Creates a removed socket or token again. Without
 * its lock, a second daemon may run. A replaced index cannot be opened again in this process, which would then watch no
 * agent. Both need a new process.
 */
function integrityCheck(
  deps: Deps,
  places: Places,
  { token, channel }: { readonly token: string; readonly channel: Pick<Channel, "renew"> },
): () => Promise<Failure | null> {
  const lockAt = () => fileAt(places.lock);
  const ours = lockAt();
  return async () => {
    if (!isDirectory(deps.state.root)) return { end: "stopped", why: "the state directory no longer exists" };
    if (lockAt() !== ours) return { end: "restart", why: `${places.lock} was removed` };
    if (!isDirectory(dirname(places.socket)))
      return { end: "restart", why: `${dirname(places.socket)} was removed` };
    try {
      await channel.renew();
      if (fileAt(places.token) === null) writeAtomic(places.token, `${token}\n`);
      const noted = generationMark(deps.state.root).read();
      if ((await deps.store.generation()) < noted)
        return { end: "restart", why: "the index was replaced by an older one" };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return error.code === "index_damaged" ? { end: "restart", why: error.message } : null;
    }
    return null;
  };
}

/** Identifies the file at a path. Null: missing. Never opens it: closing the lock's file would release the lock. */
function fileAt(path: string): string | null {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}

/** Checks the agents and pipelines of one state directory when they are due. */
class Supervision {
  readonly agents: WatchedAgents;
  readonly #pipelines: PipelineDriver;
  readonly #schedule: Schedule;
  readonly #deps: Deps;
  readonly #log: DaemonLog;
  readonly #pulse: ClockWatch;
  /** On the monotonic clock. */
  #sweptAt: number;

  constructor(deps: Deps, log: DaemonLog) {
    this.#deps = deps;
    this.#log = log;
    this.#pulse = new ClockWatch(deps);
    this.#sweptAt = deps.clock.mono();
    const mayStart = throttle(deps);
    this.agents = new WatchedAgents(deps, {
      log,
      mayStart,
      clockJumpMs: () => this.#pulse.jumpedAtMs,
      ended: () => void this.#try(() => this.#pipelines.check()),
    });
    this.#schedule = new Schedule(deps, { mayStart, note: (what, facts) => log.note(what, facts) });
    this.#pipelines = new PipelineDriver(deps, {
      start: async (definition, source, options) => {
        await mayStart();
        const agent = await startAgent(deps, definition, source, options);
        void this.agents.check(agent.id);
        return agent;
      },
      stop: (id, reason) => stopAgent(deps, id, reason),
    });
  }

  /** Finishes interrupted stops and removals, and checks everything. */
  async begin(): Promise<void> {
    const unfinished = [finishStops, finishRemovals].map((finish) => this.#try(() => finish(this.#deps)));
    await Promise.all([...unfinished, this.#try(() => this.#schedule.check()), this.sweep()]);
  }

  tick(): void {
    // After a suspension, the holders' reports come first.
    if (!this.#pulse.tick()) return;
    this.agents.tick();
    void this.#try(() => this.#schedule.check());
    if (this.#deps.clock.mono() - this.#sweptAt >= SWEEP_MS) void this.sweep();
  }

  async sweep(): Promise<void> {
    this.#sweptAt = this.#deps.clock.mono();
    // The check of an agent may last as long as its gate; pipelines do not wait for it.
    await Promise.all([this.#try(() => this.#pipelines.check()), this.#try(() => this.agents.sweep())]);
  }

  async close(): Promise<void> {
    await this.agents.close();
    await this.#pipelines.stop();
  }

  /** The index may be busy or full; the next sweep follows soon. */
  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#log.warn(error.message);
    }
  }
}

function methodsFor(deps: Deps, watch: Supervision, sinceMs: number): Record<string, Method> {
  const { agents } = watch;
  const reported = new Set<string>();
  return {
    poke: (params) => {
      const id = stringIn(params, "id");
      void (id === undefined ? watch.sweep() : agents.check(id));
    },
    resume: async (params) => {
      const { result, ...rest } = await resumeAgent({ deps, agents, sinceMs, reported }, agentIn(params), {
        kill: fieldIn(params, "kill") === true,
        ended: fieldIn(params, "ended") === true,
        wasActive: fieldIn(params, "wasActive") === true,
        strict: fieldIn(params, "strict") === true,
        seen: numberIn(params, "seen") ?? null,
      });
      return { done: result === "resumed" || result === "restarted" || result === "told", result, ...rest };
    },
    stop: (params) => stop(deps, agents, agentIn(params)),
    send: async (params) => {
      const message = stringIn(params, "message") ?? "";
      const id = agentIn(params);
      const agent = await getAgent(deps, id);
      if (agent !== null) refuseSecretMessage(deps, agent.record.definition, message);
      return answer(
        await agents.ask(id, (context, snapshot) =>
          actForUser(context, snapshot, { action: "nudge", message }),
        ),
      );
    },
    resolve: (params) => carryOutAnswer(deps, agents, stringIn(params, "decision") ?? ""),
  };
}

/** Does not wait for other actions of the agent: a long action, or a start, ends with the stop. */
async function stop(deps: Deps, agents: WatchedAgents, id: string): Promise<DaemonAnswer> {
  const done = await stopAgent(deps, id);
  if (!done) return { done, why: "it has already ended" };
  const record = (await getAgent(deps, id))?.record;
  if (record !== undefined) await deps.processes.endTree(null, gateMarker(record), "terminate");
  await Promise.race([agents.check(id), sleep(STOP_MS, undefined, { ref: false })]);
  return { done, why: "stopped" };
}

async function carryOutAnswer(deps: Deps, agents: WatchedAgents, id: string): Promise<DaemonAnswer> {
  const decision = await getDecision(deps, id);
  if (decision === null)
    throw new Fault("handle_unknown", `There is no decision ${id}. Run: reprise decisions list`);
  await agents.check(decision.agentId);
  const events = await deps.store.listEvents(decision.runId);
  const done = events.find(({ key }) => key === `${decision.runId}/answer/${id}/carried_out`);
  if (done === undefined) return { done: true, why: "left as it is" };
  return { done: done.payload["result"] === "ok", why: String(done.payload["detail"]) };
}

function answer({ result, detail }: ActResult): DaemonAnswer {
  return { done: result === "ok", why: detail };
}

function agentIn(params: JsonObject): string {
  const id = stringIn(params, "id");
  if (id === undefined || !/^[0-9a-f]{8}$/.test(id)) throw new Fault("usage", "Missing agent id.");
  return id;
}

/** One new process per second, for all agents together. */
function throttle(deps: Deps): () => Promise<void> {
  let next = 0;
  return async () => {
    const now = deps.clock.mono();
    const turn = Math.max(now, next);
    next = turn + BETWEEN_STARTS_MS;
    if (turn > now) await sleep(turn - now);
  };
}

class ClockWatch {
  readonly #deps: Deps;
  #wall: number;
  #mono: number;
  jumpedAtMs: number | null = null;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#wall = deps.clock.now();
    this.#mono = deps.clock.mono();
  }

  /** False: the tick came late, so reports come before decisions. */
  tick(): boolean {
    const [wall, mono] = [this.#deps.clock.now(), this.#deps.clock.mono()];
    const passed = mono - this.#mono;
    if (Math.abs(wall - this.#wall - passed) > JUMP_MS) this.jumpedAtMs = wall;
    this.#wall = wall;
    this.#mono = mono;
    return passed < LATE_MS;
  }
}

async function alreadyRunning(deps: Deps): Promise<Fault> {
  const other = await findDaemon(deps).catch(() => null);
  const who =
    other === null
      ? ""
      : ` (pid ${other.pid}, for ${formatDuration(deps.clock.now() - other.sinceMs)}, version ${other.version})`;
  await other?.[Symbol.asyncDispose]();
  return new Fault("run_busy", `The daemon is already running${who}.`, {
    facts: { pid: other?.pid ?? null },
  });
}
