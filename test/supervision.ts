/**
 * Agents, entries, events and facts for tests of the supervisor, and a world that drives `decide` with a separate clock.
 */
import type { Observed, Outcome, Trouble } from "../src/core/events.ts";
import type { ActionName, AgentMode, Policy, PolicyEntry, Trigger } from "../src/core/runbook.ts";
import type { AgentPhase, AgentRecord, SupervisionEvent } from "../src/core/supervision.ts";
import { decide, type NextAction, type SupervisionFacts } from "../src/supervisor/decide.ts";
import { jitterOf } from "../src/supervisor/delay.ts";
import type { EndedAttempt, ProcessState } from "../src/supervisor/occurrence.ts";
import { inFlight } from "../src/supervisor/counts.ts";

export const RUN_ID = "20260101T000000Z-claude-1a2b3c4d";
export const T0 = Date.UTC(2026, 0, 1);
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export function entry(action: ActionName, fields: Partial<PolicyEntry> = {}): PolicyEntry {
  return {
    action,
    message: null,
    append: false,
    run: action === "gate" ? ["make", "check"] : null,
    timeoutMs: 0,
    attempts: action === "nudge" ? 3 : 1,
    cooldownMs: 0,
    match: "any",
    ...fields,
  };
}

export type On = Partial<Record<Trigger, readonly PolicyEntry[]>>;

export interface AgentSketch {
  readonly on?: On;
  readonly mode?: AgentMode;
  readonly phase?: AgentPhase;
  readonly idleAfterMs?: number;
  readonly maxAttempts?: number | null;
}

export function agentLike(sketch: AgentSketch = {}): AgentRecord {
  const {
    on = {},
    mode = "interactive",
    phase = "active",
    idleAfterMs = MINUTE,
    maxAttempts = null,
  } = sketch;
  const policy: Policy = {
    on: { idle: [], dead: [], error: [], prompt: [], ...on },
    idleAfterMs,
    maxAttempts,
  };
  return {
    v: 1,
    id: "1a2b3c4d",
    runId: RUN_ID,
    definition: {
      name: "worker",
      engine: "claude",
      args: [],
      mode,
      prompt: "work",
      cwd: "/w",
      env: [],
      policy,
    },
    runbook: { path: "/w/runbooks/a.toml", sha256: "00" },
    vars: {},
    phase,
    reason: null,
    pipeline: null,
    createdAt: new Date(T0).toISOString(),
    endedAt: null,
  };
}

export function live(
  activity: Observed["activity"],
  sinceMs: number,
  rest: Partial<Observed> = {},
): ProcessState {
  return { is: "live", observed: { activity, sinceMs, grewAtMs: sinceMs, turns: 0, certain: true, ...rest } };
}

export function trouble(kind: Trouble["kind"], resetsAtMs?: number): Trouble {
  const reset = resetsAtMs === undefined ? {} : { resetsAt: new Date(resetsAtMs).toISOString() };
  return { kind, message: "the engine's words", ...reset };
}

export const failing = (kind: Trouble["kind"], sinceMs: number, resetsAtMs?: number): ProcessState =>
  live({ state: "error", trouble: trouble(kind, resetsAtMs) }, sinceMs);

export function past(
  attempt: number,
  span: readonly [number, number],
  outcome: Partial<Outcome> = {},
): EndedAttempt {
  const [startedAtMs, endedAtMs] = span;
  return {
    attempt,
    outcome: { result: "interrupted", reason: "it was ended by SIGKILL", ...outcome },
    exit: { code: null, signal: "SIGKILL" },
    startedAtMs,
    endedAtMs,
  };
}

export const ended = (
  attempt: number,
  span: readonly [number, number],
  outcome: Partial<Outcome> = {},
): ProcessState => ({
  is: "ended",
  ...past(attempt, span, outcome),
});

/** Events get their `seq` by their place. */
export type Event = SupervisionEvent extends infer E ? (E extends unknown ? Omit<E, "seq"> : never) : never;
export const log = (...events: readonly Event[]): readonly SupervisionEvent[] =>
  events.map((event, at) => ({ ...event, seq: at + 1 }));

/** A decision and, unless told otherwise, its report a millisecond later. */
export function did(
  entryFor: readonly [Trigger | "user", number, ActionName],
  at: number,
  rest: { attempt?: number; result?: "ok" | "failed" | "refused" | null; newAttempt?: number } = {},
): readonly Event[] {
  const [trigger, position, action] = entryFor;
  const { attempt = 1, result = "ok", newAttempt = null } = rest;
  const key = `${RUN_ID}/${attempt}/${trigger}/${position}/${at}`;
  const decided = {
    kind: "decided",
    at,
    attempt,
    key,
    trigger,
    position,
    action,
    message: null,
    newAttempt,
  } as const;
  if (result === null) return [decided];
  return [decided, { kind: "carried_out", at: at + 1, attempt, key, result, detail: "its last words" }];
}

export function factsLike(
  fields: Partial<SupervisionFacts> & Pick<SupervisionFacts, "seen">,
): SupervisionFacts {
  return {
    now: T0,
    agent: agentLike(),
    attempt: 1,
    latest: fields.attempt ?? 1,
    ended: [],
    history: [],
    openDecision: null,
    clockJumpMs: null,
    jitter: 0,
    ...fields,
  };
}

/** What a scripted agent does in one attempt, in milliseconds from its start. */
export interface Script {
  /** Null: it never ends by itself. */
  readonly endsAfterMs: number | null;
  readonly outcome: Outcome;
  /** Turns are completed at these moments. */
  readonly progressAtMs?: readonly number[];
  /** Seen while it lives, from the moment it started. */
  live?(startedAtMs: number, now: number): ProcessState;
}

export interface Simulated {
  /** The moments at which the agent was started, the first start included. */
  readonly starts: readonly number[];
  readonly acts: readonly { readonly at: number; readonly key: string; readonly action: ActionName }[];
  readonly exhausted: readonly { readonly at: number; readonly why: string }[];
  readonly phase: AgentPhase;
}

/**
 * Drives `decide` as the daemon does, every `tickMs` of simulated time: a decision is stored, carried out from the log
 * at the next tick, then reported. Only the log is remembered from tick to tick. With `dieEveryMs` the daemon dies that
 * often between an act and its report, so that the next daemon finds one intent that was carried out, and another that
 * was not.
 */
export function simulate(
  agent: AgentRecord,
  script: (attempt: number, startedAtMs: number) => Script,
  options: { readonly forMs: number; readonly tickMs?: number; readonly dieEveryMs?: number },
): Simulated {
  const { forMs, tickMs = SECOND, dieEveryMs = Number.POSITIVE_INFINITY } = options;
  const world = new World(agent, script);
  let bornAt = T0;
  // Once a person is asked or the agent has ended, it is only looked at that nothing more happens.
  for (let now = T0; now <= T0 + forMs; now += world.over ? HOUR : tickMs) {
    const dies = now - bornAt >= dieEveryMs;
    if (dies) bornAt = now;
    world.pass(now - tickMs, now);
    world.reconcile(now, dies);
  }
  return world;
}

type Decided = Extract<SupervisionEvent, { readonly kind: "decided" }>;

class World implements Simulated {
  readonly starts = [T0];
  readonly acts: { at: number; key: string; action: ActionName }[] = [];
  readonly exhausted: { at: number; why: string }[] = [];
  readonly #history: SupervisionEvent[] = [];
  readonly #script: (attempt: number, startedAtMs: number) => Script;
  #agent: AgentRecord;
  #openDecision: string | null = null;

  constructor(agent: AgentRecord, script: (attempt: number, startedAtMs: number) => Script) {
    this.#agent = agent;
    this.#script = script;
  }

  get phase(): AgentPhase {
    return this.#agent.phase;
  }

  get over(): boolean {
    return this.#openDecision !== null || this.#agent.phase !== "active";
  }

  /** What the agent does by itself. */
  pass(from: number, now: number): void {
    const attempt = this.starts.length;
    const startedAt = this.#startOf(attempt);
    for (const after of this.#script(attempt, startedAt).progressAtMs ?? []) {
      const at = startedAt + after;
      if (at > from && at <= now) this.#append({ kind: "progress", at, attempt });
    }
  }

  reconcile(now: number, dies: boolean): void {
    const attempt = this.starts.length;
    const open = inFlight(this.#history, attempt, attempt);
    if (open !== null) {
      this.#carryOut(open, now);
      if (dies) return;
      const { key } = open;
      this.#append({ kind: "carried_out", at: now, attempt, key, result: "ok", detail: "" });
      return;
    }
    const decision = this.#decide(attempt, now);
    if (decision.do === "wait" && decision.untilMs <= now) throw new Error("a wait that is over");
    if (decision.do !== "act" && decision.do !== "exhausted") return;
    const { key, trigger, position, why } = decision;
    if (this.#history.some((event) => event.kind === "decided" && event.key === key)) {
      throw new Error(`decided twice: ${key}`);
    }
    if (decision.do === "exhausted") this.exhausted.push({ at: now, why });
    const action = decision.do === "act" ? decision.entry.action : "escalate";
    const newAttempt = this.#startsProcess(action, now) ? attempt + 1 : null;
    this.#append({
      kind: "decided",
      at: now,
      attempt,
      key,
      trigger,
      position,
      action,
      message: null,
      newAttempt,
    });
  }

  #decide(attempt: number, now: number): NextAction {
    const earlier = this.starts.slice(0, -1).map((_, n) => this.#endOf(n + 1));
    return decide({
      now,
      agent: this.#agent,
      attempt,
      latest: attempt,
      seen: this.#seen(attempt, now),
      ended: earlier.filter((end) => end !== null),
      history: this.#history,
      openDecision: this.#openDecision,
      clockJumpMs: null,
      jitter: jitterOf(RUN_ID, attempt),
    });
  }

  #carryOut({ key, action, newAttempt }: Decided, now: number): void {
    this.acts.push({ at: now, key, action });
    if (action === "done" || action === "fail") {
      this.#agent = { ...this.#agent, phase: action === "done" ? "done" : "failed" };
    }
    if (action === "escalate") this.#openDecision = "1a2b3c4d-1";
    if (newAttempt !== null) this.starts.push(now);
  }

  #startsProcess(action: ActionName, now: number): boolean {
    const { mode } = this.#agent.definition;
    if (action !== "resume" && !(action === "nudge" && mode === "headless")) return false;
    return this.#seen(this.starts.length, now).is !== "live";
  }

  #seen(attempt: number, now: number): ProcessState {
    const end = this.#endOf(attempt);
    if (end !== null && end.endedAtMs <= now) return { is: "ended", ...end };
    const startedAt = this.#startOf(attempt);
    return this.#script(attempt, startedAt).live?.(startedAt, now) ?? live({ state: "working" }, startedAt);
  }

  #endOf(attempt: number): EndedAttempt | null {
    const startedAtMs = this.#startOf(attempt);
    const { endsAfterMs, outcome } = this.#script(attempt, startedAtMs);
    if (endsAfterMs === null) return null;
    const exit = { code: 1, signal: null };
    return { attempt, outcome, exit, startedAtMs, endedAtMs: startedAtMs + endsAfterMs };
  }

  #startOf(attempt: number): number {
    return this.starts[attempt - 1] ?? T0;
  }

  #append(event: Event): void {
    this.#history.push({ ...event, seq: this.#history.length + 1 });
  }
}
