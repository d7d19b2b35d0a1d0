/**
 * The agents that are watched, each with its link to its holder and the moment when it is to be looked at next.
 *
 * One agent is looked at by one look at a time, and what goes wrong with one is that one's: it is logged and tried
 * again. Nothing here is kept that the store does not have; links and deadlines are found again after a restart.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import type { Observed } from "../core/events.ts";
import type { RunRecord } from "../core/records.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { type HolderLink, openHolder } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import type { ActResult, ActContext } from "./act.ts";
import { advance } from "./advance.ts";
import { finishStart, getAgent, listAgents, mendFile } from "./agents.ts";
import type { DaemonLog } from "./daemon-log.ts";
import { overtakeAll } from "./decisions.ts";
import { type AgentView, type Look, lookAt, runOf, viewOf } from "./snapshot.ts";

export interface RosterOptions {
  readonly log: DaemonLog;
  mayStart(): Promise<void>;
  clockJumpMs(): number | null;
  /** An agent has ended: a pipeline may wait for it. */
  ended(agent: AgentRecord): void;
}

interface Entry {
  readonly id: string;
  link: HolderLink | null;
  /** When its holder last answered, by the monotonic clock. */
  greetedAt: number;
  unreachableSinceMs: number | null;
  /** Wall clock; null: only when something happens. */
  dueMs: number | null;
  view: AgentView | null;
  failures: number;
  /** What is being done about it now; the next look waits for it. */
  work: Promise<void>;
  busy: boolean;
  /** A look is waiting already. */
  queued: boolean;
  /** What is under way or waits for its turn. An entry goes when its agent has ended and nothing is left to do. */
  jobs: number;
  left: boolean;
}

/** Decisions in a row that are carried out in one look. */
const MOST_STEPS = 20;
/** While a live holder cannot be reached, and while somebody else starts the agent. */
const AGAIN_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;
const GREET_MS = 25_000;
/** Much shorter than a client waits: what a person was told not to have been done is not done later. */
const ASK_MS = 30_000;

export class Roster {
  readonly #deps: Deps;
  readonly #options: RosterOptions;
  readonly #entries = new Map<string, Entry>();
  #closed = false;

  constructor(deps: Deps, options: RosterOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  views(): readonly AgentView[] {
    return [...this.#entries.values()].flatMap(({ view }) => view ?? []);
  }

  /** Looks at every agent that the store has, some at a time. */
  async sweep(): Promise<void> {
    const agents = await listAgents(this.#deps, { open: true });
    const open = new Set(agents.map(({ record }) => record.id));
    const waiting = [...new Set([...open, ...this.#entries.keys()])];
    const worker = async () => {
      for (let id = waiting.shift(); id !== undefined && !this.#closed; id = waiting.shift()) {
        // One that is busy, with a gate of an hour say, must not keep the others waiting; it is looked at after that.
        if (this.#entry(id).busy) void this.look(id);
        else await this.look(id);
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
  }

  /** Looks at those whose time has come. */
  tick(): void {
    const now = this.#deps.clock.now();
    for (const entry of this.#entries.values()) {
      if (entry.dueMs === null || entry.dueMs > now) continue;
      entry.dueMs = null;
      void this.look(entry.id);
    }
  }

  /** Resolves when it was looked at and everything that followed was done. */
  look(id: string): Promise<void> {
    const entry = this.#entry(id);
    if (entry.queued) return entry.work;
    entry.queued = true;
    return this.#queue(entry, () => {
      entry.queued = false;
      return this.#evaluate(entry);
    });
  }

  /** Something a person asked for, between two looks. What had to wait too long for its turn is refused, and not done later. */
  async ask(id: string, act: (hand: ActContext, look: Look) => Promise<ActResult>): Promise<ActResult> {
    const entry = this.#entry(id);
    const turn = { came: false, missed: false };
    let done: ActResult = { result: "refused", detail: "it has ended, or is still being started" };
    let failure: unknown = null;
    const work = this.#queue(entry, async () => {
      if (turn.missed) return;
      turn.came = true;
      try {
        const found = await this.#see(entry);
        if (found !== null) done = await act(this.#hand(entry), found);
      } catch (error) {
        failure = error;
      }
    });
    await Promise.race([work, sleep(ASK_MS, undefined, { ref: false })]);
    if (!turn.came && !this.#closed) {
      turn.missed = true;
      return { result: "refused", detail: "it is busy, with its gate say; nothing was done" };
    }
    await work;
    void this.look(id);
    if (failure !== null) throw failure;
    return done;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const entry of this.#entries.values()) await entry.link?.[Symbol.asyncDispose]();
  }

  #entry(id: string): Entry {
    const known = this.#entries.get(id);
    if (known !== undefined) return known;
    const entry: Entry = {
      id,
      link: null,
      greetedAt: 0,
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
    this.#entries.set(id, entry);
    return entry;
  }

  #queue(entry: Entry, work: () => Promise<void>): Promise<void> {
    entry.jobs += 1;
    entry.work = entry.work.then(async () => {
      if (this.#closed) return;
      entry.busy = true;
      try {
        await work();
        entry.failures = 0;
      } catch (error) {
        // One agent's trouble strands no other; the store says next time what is still to be done.
        entry.failures += 1;
        const delay = Math.min(AGAIN_MS * 2 ** entry.failures, LONGEST_RETRY_MS);
        entry.dueMs = this.#deps.clock.now() + delay;
        const detail =
          error instanceof Fault ? error.message : String(error instanceof Error ? error.stack : error);
        this.#options.log.note("an agent could not be looked at", { agent: entry.id, detail });
      } finally {
        entry.busy = false;
        entry.jobs -= 1;
        if (entry.left && entry.jobs === 0) this.#entries.delete(entry.id);
      }
    });
    return entry.work;
  }

  async #evaluate(entry: Entry): Promise<void> {
    entry.dueMs = null;
    for (let step = 0; step < MOST_STEPS && !this.#closed; step += 1) {
      const look = await this.#see(entry);
      if (look === null) return;
      const next = await advance(this.#hand(entry), look);
      if (next.again) continue;
      if (next.dueMs !== null) entry.dueMs = Math.min(next.dueMs, entry.dueMs ?? next.dueMs);
      return;
    }
    entry.dueMs = this.#deps.clock.now() + AGAIN_MS;
  }

  #hand(entry: Entry): ActContext {
    const options = this.#options;
    return {
      deps: this.#deps,
      link: entry.link,
      mayStart: () => options.mayStart(),
      note: (what, facts) => options.log.note(what, facts),
    };
  }

  /** What is to be seen of it now. Null: it is not watched any more, or it is still being started. */
  async #see(entry: Entry): Promise<Look | null> {
    const deps = this.#deps;
    const stored = await getAgent(deps, entry.id);
    if (stored === null || stored.record.phase !== "active") {
      await this.#leave(entry, stored?.record ?? null);
      return null;
    }
    const { record } = stored;
    entry.left = false;
    const run = await runOf(deps, record);
    if (run === null) {
      await this.#begin(entry, record);
      return null;
    }
    if (entry.view === null) await this.#adopt(record);
    await this.#reach(entry, run);
    const look = await lookAt(deps, record, run, {
      link: entry.link,
      unreachableSinceMs: entry.unreachableSinceMs,
      clockJumpMs: this.#options.clockJumpMs(),
    });
    entry.view = viewOf(look);
    return look;
  }

  /** What a crash may have left half done. */
  async #adopt(record: AgentRecord): Promise<void> {
    await mendFile(this.#deps, record);
    this.#options.log.note("watching", { agent: record.id, name: record.definition.name });
  }

  async #leave(entry: Entry, record: AgentRecord | null): Promise<void> {
    entry.left = true;
    entry.view = null;
    await this.#letGo(entry);
    if (record === null) return;
    await overtakeAll(this.#deps, record);
    this.#options.ended(record);
  }

  async #letGo(entry: Entry): Promise<void> {
    const { link } = entry;
    entry.link = null;
    await link?.[Symbol.asyncDispose]();
  }

  async #begin(entry: Entry, record: AgentRecord): Promise<void> {
    entry.dueMs = this.#deps.clock.now() + AGAIN_MS;
    try {
      await this.#options.mayStart();
      if (await finishStart(this.#deps, record)) this.#options.log.note("started", { agent: entry.id });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#options.log.note("not started", { agent: entry.id, detail: error.message });
    }
  }

  /** A link to the holder of the attempt that runs now, if one runs and answers. */
  async #reach(entry: Entry, run: RunRecord): Promise<void> {
    if (run.status !== "running") entry.unreachableSinceMs = null;
    if (run.status !== "running" || (entry.link?.hello.attempt ?? run.attempts) < run.attempts)
      await this.#letGo(entry);
    const mono = this.#deps.clock.mono();
    // A holder that is stopped keeps its connections, so it is greeted anew now and then.
    const isKnown = entry.link !== null && mono - entry.greetedAt < GREET_MS;
    if (run.status !== "running" || isKnown) return;
    const link = await reachHolder(this.#deps, run);
    entry.greetedAt = mono;
    await this.#letGo(entry);
    const now = this.#deps.clock.now();
    entry.unreachableSinceMs = link === "silent" ? (entry.unreachableSinceMs ?? now) : null;
    if (link === null || link === "silent") {
      entry.dueMs = now + AGAIN_MS;
      return;
    }
    entry.link = link;
    let last = link.observed();
    link.onObserved((observed) => {
      // Growth alone moves a deadline, and that is looked at when it comes.
      if (isNews(last, observed)) void this.look(entry.id);
      last = observed;
    });
    void link.closed.then(() => {
      if (entry.link !== link) return;
      entry.link = null;
      void this.look(entry.id);
    });
  }
}

/** Null: there is no holder. silent: there is one, and it does not answer, which proves nothing. */
async function reachHolder(deps: Deps, run: RunRecord): Promise<HolderLink | "silent" | null> {
  try {
    return await openHolder(deps, run);
  } catch (error) {
    if (error instanceof Fault) return "silent";
    throw error;
  }
}

function isNews(before: Observed, now: Observed): boolean {
  return (
    before.activity.state !== now.activity.state ||
    before.turns !== now.turns ||
    before.certain !== now.certain ||
    (now.activity.state === "error" && before.sinceMs !== now.sinceMs)
  );
}
