/**
 * The watched agents, each with the connection to its holder and the time of its next check.
 *
 * The checks of one agent run one after another. A failed check is logged and repeated, and affects no other agent.
 * Connections and deadlines are rebuilt from the store after a restart.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault, ifFault } from "../core/faults.ts";
import type { Observed } from "../core/events.ts";
import type { RunRecord } from "../core/records.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { type HolderLink, openHolder } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import type { ActResult, ActContext } from "./act.ts";
import { advance } from "./advance.ts";
import { finishStart, getAgent, listAgents, restoreAgentFile } from "./agents.ts";
import type { DaemonLog } from "./daemon-log.ts";
import { markAllOvertaken } from "./decisions.ts";
import { type AgentView, type AgentSnapshot, takeSnapshot, runOf, viewOf } from "./snapshot.ts";

export interface WatchedAgentsOptions {
  readonly log: DaemonLog;
  mayStart(): Promise<void>;
  clockJumpMs(): number | null;
  /** Called when an agent has ended, because a pipeline may wait for it. */
  ended(agent: AgentRecord): void;
}

interface WatchedAgent {
  readonly id: string;
  link: HolderLink | null;
  /** When its holder last answered, on the monotonic clock. */
  connectedAt: number;
  unreachableSinceMs: number | null;
  /** Wall clock. Null: no deadline; the next event triggers the check. */
  dueMs: number | null;
  view: AgentView | null;
  failures: number;
  /** The present work; the next check waits for it. */
  work: Promise<void>;
  busy: boolean;
  /** A check is already waiting. */
  queued: boolean;
  /** The number of running and waiting jobs. At zero, an ended agent is no longer watched. */
  jobs: number;
  left: boolean;
}

/** The most decisions in a row that one check carries out. */
const MOST_STEPS = 20;
/** The interval while a live holder does not answer, or another process starts the agent. */
const AGAIN_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;
const RECONNECT_MS = 25_000;
/** Much shorter than a client waits: a refused request must not be carried out later. */
const ASK_MS = 30_000;

export class WatchedAgents {
  readonly #deps: Deps;
  readonly #options: WatchedAgentsOptions;
  readonly #agents = new Map<string, WatchedAgent>();
  #closed = false;

  constructor(deps: Deps, options: WatchedAgentsOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  views(): readonly AgentView[] {
    return [...this.#agents.values()].flatMap(({ view }) => view ?? []);
  }

  /** Checks every agent in the store, eight at a time. */
  async sweep(): Promise<void> {
    const agents = await listAgents(this.#deps, { open: true });
    const open = new Set(agents.map(({ record }) => record.id));
    const waiting = [...new Set([...open, ...this.#agents.keys()])];
    const worker = async () => {
      for (let id = waiting.shift(); id !== undefined && !this.#closed; id = waiting.shift()) {
        // A busy agent, for example with a gate of an hour, must not delay the others; its check follows the gate.
        if (this.#watched(id).busy) void this.check(id);
        else await this.check(id);
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
  }

  /** Checks the agents that are due. */
  tick(): void {
    const now = this.#deps.clock.now();
    for (const watched of this.#agents.values()) {
      if (watched.dueMs === null || watched.dueMs > now) continue;
      watched.dueMs = null;
      void this.check(watched.id);
    }
  }

  /** Resolves after the check and all its actions. */
  check(id: string): Promise<void> {
    const watched = this.#watched(id);
    if (watched.queued) return watched.work;
    watched.queued = true;
    return this.#queue(watched, () => {
      watched.queued = false;
      return this.#evaluate(watched);
    });
  }

  /** Carries out a person's request between two checks. If it waits too long, it is refused and never carried out. */
  async ask(
    id: string,
    act: (context: ActContext, snapshot: AgentSnapshot) => Promise<ActResult>,
  ): Promise<ActResult> {
    const watched = this.#watched(id);
    const turn = { came: false, missed: false };
    let done: ActResult = { result: "refused", detail: "it has ended, or is still starting" };
    let failure: unknown = null;
    const work = this.#queue(watched, async () => {
      if (turn.missed) return;
      turn.came = true;
      try {
        const found = await this.#see(watched);
        if (found !== null) done = await act(this.#context(watched), found);
      } catch (error) {
        failure = error;
      }
    });
    await Promise.race([work, sleep(ASK_MS, undefined, { ref: false })]);
    if (!turn.came && !this.#closed) {
      turn.missed = true;
      return { result: "refused", detail: "it is busy, for example with its gate; nothing was done" };
    }
    await work;
    void this.check(id);
    if (failure !== null) throw failure;
    return done;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const watched of this.#agents.values()) await watched.link?.[Symbol.asyncDispose]();
  }

  #watched(id: string): WatchedAgent {
    const known = this.#agents.get(id);
    if (known !== undefined) return known;
    const watched: WatchedAgent = {
      id,
      link: null,
      connectedAt: 0,
      unreachableSinceMs: null,
      dueMs: null,
      view: null,
      failures: 0,
      work: Promise.resolve(),
      busy: false,
      queued: false,
      jobs: 0,
      left: false,
    };
    this.#agents.set(id, watched);
    return watched;
  }

  #queue(watched: WatchedAgent, work: () => Promise<void>): Promise<void> {
    watched.jobs += 1;
    watched.work = watched.work.then(async () => {
      if (this.#closed) return;
      watched.busy = true;
      try {
        await work();
        watched.failures = 0;
      } catch (error) {
        // The failure of one agent affects no other; the next check finds the remaining work in the store.
        watched.failures += 1;
        const delay = Math.min(AGAIN_MS * 2 ** watched.failures, LONGEST_RETRY_MS);
        watched.dueMs = this.#deps.clock.now() + delay;
        const detail =
          error instanceof Fault ? error.message : String(error instanceof Error ? error.stack : error);
        this.#options.log.note("an agent could not be checked", { agent: watched.id, detail });
      } finally {
        watched.busy = false;
        watched.jobs -= 1;
        if (watched.left && watched.jobs === 0) this.#agents.delete(watched.id);
      }
    });
    return watched.work;
  }

  async #evaluate(watched: WatchedAgent): Promise<void> {
    watched.dueMs = null;
    for (let step = 0; step < MOST_STEPS && !this.#closed; step += 1) {
      const snapshot = await this.#see(watched);
      if (snapshot === null) return;
      const next = await advance(this.#context(watched), snapshot);
      if (next.again) continue;
      if (next.dueMs !== null) watched.dueMs = Math.min(next.dueMs, watched.dueMs ?? next.dueMs);
      return;
    }
    watched.dueMs = this.#deps.clock.now() + AGAIN_MS;
  }

  #context(watched: WatchedAgent): ActContext {
    const options = this.#options;
    return {
      deps: this.#deps,
      link: watched.link,
      mayStart: () => options.mayStart(),
      note: (what, facts) => options.log.note(what, facts),
    };
  }

  /** A new snapshot. Null: the agent has ended, or is still starting. */
  async #see(watched: WatchedAgent): Promise<AgentSnapshot | null> {
    const deps = this.#deps;
    const stored = await getAgent(deps, watched.id);
    if (stored === null || stored.record.phase !== "active") {
      await this.#leave(watched, stored?.record ?? null);
      return null;
    }
    const { record } = stored;
    watched.left = false;
    const run = await runOf(deps, record);
    if (run === null) {
      await this.#begin(watched, record);
      return null;
    }
    if (watched.view === null) await this.#adopt(record);
    await this.#reach(watched, run);
    const snapshot = await takeSnapshot(deps, record, run, {
      link: watched.link,
      unreachableSinceMs: watched.unreachableSinceMs,
      clockJumpMs: this.#options.clockJumpMs(),
    });
    watched.view = viewOf(snapshot);
    return snapshot;
  }

  /** Called at the first check; repairs the file that a crash may have left unwritten. */
  async #adopt(record: AgentRecord): Promise<void> {
    await restoreAgentFile(this.#deps, record);
    this.#options.log.note("watching", { agent: record.id, name: record.definition.name });
  }

  async #leave(watched: WatchedAgent, record: AgentRecord | null): Promise<void> {
    watched.left = true;
    watched.view = null;
    await this.#letGo(watched);
    if (record === null) return;
    await markAllOvertaken(this.#deps, record);
    this.#options.ended(record);
  }

  async #letGo(watched: WatchedAgent): Promise<void> {
    const { link } = watched;
    watched.link = null;
    await link?.[Symbol.asyncDispose]();
  }

  async #begin(watched: WatchedAgent, record: AgentRecord): Promise<void> {
    watched.dueMs = this.#deps.clock.now() + AGAIN_MS;
    try {
      await this.#options.mayStart();
      if (await finishStart(this.#deps, record)) this.#options.log.note("started", { agent: watched.id });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#options.log.note("not started", { agent: watched.id, detail: error.message });
    }
  }

  /** Connects to the holder of the current attempt, if it runs and answers. */
  async #reach(watched: WatchedAgent, run: RunRecord): Promise<void> {
    if (run.status !== "running") watched.unreachableSinceMs = null;
    if (run.status !== "running" || (watched.link?.hello.attempt ?? run.attempts) < run.attempts)
      await this.#letGo(watched);
    const mono = this.#deps.clock.mono();
    // A suspended holder keeps its connections, so only a new connection shows that it still answers.
    const isKnown = watched.link !== null && mono - watched.connectedAt < RECONNECT_MS;
    if (run.status !== "running" || isKnown) return;
    const link = await connectToHolder(this.#deps, run);
    watched.connectedAt = mono;
    await this.#letGo(watched);
    const now = this.#deps.clock.now();
    watched.unreachableSinceMs = link === "silent" ? (watched.unreachableSinceMs ?? now) : null;
    if (link === null || link === "silent") {
      watched.dueMs = now + AGAIN_MS;
      return;
    }
    watched.link = link;
    let last = link.observed();
    link.onObserved((observed) => {
      // New output alone only moves a deadline; the check at the deadline sees that.
      if (isNews(last, observed)) void this.check(watched.id);
      last = observed;
    });
    void link.closed.then(() => {
      if (watched.link !== link) return;
      watched.link = null;
      void this.check(watched.id);
    });
  }
}

/** Null: no holder. silent: a holder exists but does not answer, which does not prove that it is dead. */
function connectToHolder(deps: Deps, run: RunRecord): Promise<HolderLink | "silent" | null> {
  return openHolder(deps, run).catch(ifFault("silent" as const));
}

function isNews(before: Observed, now: Observed): boolean {
  return (
    before.activity.state !== now.activity.state ||
    before.turns !== now.turns ||
    before.certain !== now.certain ||
    (now.activity.state === "error" && before.sinceMs !== now.sinceMs)
  );
}
