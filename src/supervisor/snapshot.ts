/**
 * The present facts about one agent and the decision that follows, for the daemon, which acts, and for commands, which
 * show it. Reading a run also corrects a record that claims a dead process is running.
 */
import type { Observed } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { AgentMode } from "../core/runbook.ts";
import type { AgentPhase, AgentRecord, DecisionRecord, SupervisionEvent } from "../core/supervision.ts";
import type { HolderLink } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import type { StoredEvent } from "../store/store.ts";
import { selectRun } from "../run/select.ts";
import { decide, type NextAction, type SupervisionFacts } from "./decide.ts";
import { jitterOf } from "./delay.ts";
import { fromStored } from "./history.ts";
import { endedAttempt, type ProcessState } from "./occurrence.ts";

/** Facts that only a process with a connection to the holder has. */
export interface WatchState {
  /** Null: no holder, or it does not answer. */
  readonly link: HolderLink | null;
  /** Since when a live holder has not answered. Null: it answers, or no holder exists. */
  readonly unreachableSinceMs: number | null;
  readonly clockJumpMs: number | null;
}

/** For a process that does not watch the agent. */
export const UNWATCHED: WatchState = { link: null, unreachableSinceMs: null, clockJumpMs: null };

export interface AgentSnapshot {
  readonly agent: AgentRecord;
  /** Null: recorded, but never started. */
  readonly run: RunRecord | null;
  readonly attempts: readonly AttemptRecord[];
  /** The attempt of `seen`, and the newest attempt. */
  readonly attempt: number;
  readonly latest: number;
  readonly seen: ProcessState;
  readonly history: readonly SupervisionEvent[];
  /** The completed turns in the history: `<attempt>/<turn>`. */
  readonly progress: ReadonlySet<string>;
  readonly openDecision: string | null;
  /** A question that is open in the store but concerns an earlier attempt. */
  readonly outdated: string | null;
  readonly decision: NextAction;
}

/** Null: neither the index nor a run directory has it. */
export async function runOf(deps: Deps, agent: AgentRecord): Promise<RunRecord | null> {
  try {
    return await selectRun(deps, agent.runId);
  } catch (error) {
    if (error instanceof Fault && error.code === "handle_unknown") return null;
    throw error;
  }
}

/** `run` must be current, as from `runOf`: a run that is `running` has a live owner. */
export async function takeSnapshot(
  deps: Deps,
  agent: AgentRecord,
  run: RunRecord | null,
  watched: WatchState,
): Promise<AgentSnapshot> {
  const attempts = run === null ? [] : await deps.store.listAttempts(run.runId);
  const events = await deps.store.listEvents(agent.runId);
  const history = fromStored(events);
  const asked = await openDecisionOf(deps, agent.id);
  const now = deps.clock.now();
  const seen = seenOf(run, attempts, watched, now);
  const attempt = seenAttempt(seen, watched, attempts);
  const latest = Math.max(run?.attempts ?? 0, attempts.at(-1)?.n ?? 0);
  const isPast = asked !== null && latest > asked.attempt;
  const openDecision = isPast ? null : (asked?.id ?? null);
  const facts: SupervisionFacts = {
    now,
    agent,
    attempt,
    latest,
    seen,
    ended: attempts.filter(({ n }) => n < attempt).flatMap((record) => endedAttempt(record) ?? []),
    history,
    openDecision,
    clockJumpMs: watched.clockJumpMs,
    jitter: jitterOf(agent.runId, attempt),
  };
  return {
    agent,
    run,
    attempts,
    attempt,
    latest,
    seen,
    history,
    progress: new Set(events.flatMap((event) => turnOf(event) ?? [])),
    openDecision,
    outdated: isPast ? asked.id : null,
    decision: decide(facts),
  };
}

function turnOf({ kind, attempt, payload }: StoredEvent): string | null {
  const turn = payload["turn"];
  return kind === "progress" && typeof turn === "number" ? `${attempt ?? 0}/${turn}` : null;
}

async function openDecisionOf(deps: Deps, agentId: string): Promise<DecisionRecord | null> {
  const open = await deps.store.listDocuments("decision", { open: true });
  const records = open.map(({ data }) => data as unknown as DecisionRecord);
  return records.find((record) => record.agentId === agentId) ?? null;
}

function seenOf(
  run: RunRecord | null,
  attempts: readonly AttemptRecord[],
  { link, unreachableSinceMs }: WatchState,
  now: number,
): ProcessState {
  if (run === null) return { is: "live", observed: guess("starting", now) };
  if (run.status === "running") {
    if (link !== null) return { is: "live", observed: link.observed() };
    if (unreachableSinceMs !== null) return { is: "unresponsive", sinceMs: unreachableSinceMs };
    // A person uses it in a terminal, or its holder will answer soon.
    return { is: "live", observed: guess("working", Date.parse(run.updatedAt)) };
  }
  const last = attempts.at(-1);
  const ended = last === undefined ? null : endedAttempt(last);
  if (ended !== null) return { is: "ended", ...ended };
  return { is: "missing", sinceMs: Date.parse(run.updatedAt) };
}

function guess(state: "starting" | "working", sinceMs: number): Observed {
  return { activity: { state }, sinceMs, grewAtMs: sinceMs, turns: 0, certain: false };
}

function seenAttempt(seen: ProcessState, { link }: WatchState, attempts: readonly AttemptRecord[]): number {
  if (seen.is === "ended") return seen.attempt;
  if (seen.is === "live" && link !== null) return link.hello.attempt;
  return attempts.at(-1)?.n ?? 0;
}

/** An agent as `status` and `agent list` show it. Texts are untrusted. */
export interface AgentView {
  readonly id: string;
  readonly name: string;
  readonly engine: string;
  readonly runId: string;
  readonly cwd: string;
  readonly phase: AgentPhase;
  readonly state:
    | "starting"
    | "working"
    | "idle"
    | "waiting"
    | "error"
    | "dead"
    | "unresponsive"
    | Exclude<AgentPhase, "active">;
  /** When the state began; milliseconds. */
  readonly sinceMs: number;
  readonly attempts: number;
  /** The situation, one sentence. */
  readonly why: string;
  readonly next: { readonly action: string; readonly atMs: number } | null;
  /** The open question to a person. */
  readonly decision: string | null;
  readonly pipeline: AgentRecord["pipeline"];
}

export function viewOf(snapshot: AgentSnapshot): AgentView {
  const { agent, decision, seen } = snapshot;
  const ended = agent.phase !== "active";
  return {
    id: agent.id,
    name: agent.definition.name,
    engine: agent.definition.engine,
    runId: agent.runId,
    cwd: agent.definition.cwd,
    phase: agent.phase,
    state: agent.phase === "active" ? stateOf(seen, agent.definition.mode) : agent.phase,
    sinceMs: ended && agent.endedAt !== null ? Date.parse(agent.endedAt) : sinceOf(seen),
    attempts: snapshot.run?.attempts ?? 0,
    why: ended ? (agent.reason ?? "") : decision.why,
    next: ended ? null : nextOf(decision),
    decision: ended ? null : snapshot.openDecision,
    pipeline: agent.pipeline,
  };
}

/** A UI that ended was closed, whatever its exit code. */
function stateOf(
  seen: ProcessState,
  mode: AgentMode,
): Exclude<AgentView["state"], Exclude<AgentPhase, "active">> {
  if (seen.is === "live") return seen.observed.activity.state;
  if (seen.is === "unresponsive") return "unresponsive";
  if (seen.is === "missing") return "dead";
  if (seen.outcome.result === "completed") return mode === "headless" ? "idle" : "dead";
  return seen.outcome.trouble === undefined ? "dead" : "error";
}

function sinceOf(seen: ProcessState): number {
  if (seen.is === "live") return seen.observed.sinceMs;
  return seen.is === "ended" ? seen.endedAtMs : seen.sinceMs;
}

function nextOf(decision: NextAction): AgentView["next"] {
  if (decision.do === "wait") return { action: decision.next ?? "snapshot", atMs: decision.untilMs };
  return null;
}
