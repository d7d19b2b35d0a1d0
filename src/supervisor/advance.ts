/**
 * One step with one agent: records progress, finishes open decisions, then decides, stores and carries out the next
 * action (I8). The process that stores a decision carries it out; other processes find it in the log.
 */
import type { ActionName } from "../core/runbook.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import { carryOut, type ActResult, type ActContext } from "./act.ts";
import type { NextAction } from "./decide.ts";
import { plausibleTime } from "./delay.ts";
import { getDecision, restoreAnswerEvents, markOvertaken } from "./decisions.ts";
import { type NewSupervisionEvent, toStored } from "./history.ts";
import type { AgentSnapshot } from "./snapshot.ts";
import { isOver, occurrenceOf } from "./occurrence.ts";
import type { Decided } from "./counts.ts";

/** again: the step changed something, so the caller must take a new snapshot. */
export interface NextCheck {
  readonly again: boolean;
  /** Wall clock. Null: no deadline; the next event triggers the next check. */
  readonly dueMs: number | null;
}

const AGAIN: NextCheck = { again: true, dueMs: null };

export async function advance(context: ActContext, snapshot: AgentSnapshot): Promise<NextCheck> {
  if ((await noteProgress(context, snapshot)) || (await closeOvertaken(context, snapshot))) return AGAIN;
  if (await restoreAnswerEvents(context.deps, snapshot)) return AGAIN;
  const open = unfinished(snapshot);
  if (open !== null) {
    await finishUnreported(context, snapshot, open);
    return AGAIN;
  }
  const answer = await pendingAnswer(context, snapshot);
  if (answer !== null) {
    await carryOutAnswer(context, snapshot, answer);
    return AGAIN;
  }
  const { decision } = snapshot;
  if (decision.do === "nothing") return { again: false, dueMs: null };
  if (decision.do === "wait") return { again: false, dueMs: decision.untilMs };
  await act(context, snapshot, decision);
  return AGAIN;
}

/** A person's request. */
export interface UserRequest {
  readonly action: ActionName;
  readonly message: string | null;
  readonly how?: "kill" | "fresh";
  readonly strict?: true;
  /** A unique key. Absent: the next free one. */
  readonly key?: string;
}

export async function actForUser(
  context: ActContext,
  snapshot: AgentSnapshot,
  wish: UserRequest,
): Promise<ActResult> {
  const { agent, attempt, history } = snapshot;
  const count = history.filter((event) => event.kind === "decided" && event.trigger === "user").length + 1;
  const { key = `${agent.runId}/${attempt}/user/0/${count}`, ...rest } = wish;
  const decided = await storeDecision(context, snapshot, { key, trigger: "user", position: 0, ...rest });
  if (decided === null) return { result: "refused", detail: "another process acted first" };
  return carryOutAndReport(context, snapshot, decided, "a person asked for it");
}

type Due = Extract<NextAction, { do: "act" | "exhausted" }>;

async function act(context: ActContext, snapshot: AgentSnapshot, decision: Due): Promise<void> {
  const { key, trigger, position, why } = decision;
  const { action, message } =
    decision.do === "act" ? decision.entry : { action: "escalate" as const, message: null };
  const decided = await storeDecision(context, snapshot, { key, trigger, position, action, message });
  if (decided !== null) await carryOutAndReport(context, snapshot, decided, why);
}

/** Null: another process stored this decision and carries it out. */
async function storeDecision(
  context: ActContext,
  snapshot: AgentSnapshot,
  what: Omit<Decided, "seq" | "at" | "attempt" | "kind" | "newAttempt">,
): Promise<Decided | null> {
  const starts =
    what.action === "resume" || (what.action === "nudge" && snapshot.agent.definition.mode === "headless");
  const newAttempt = starts ? snapshot.latest + 1 : null;
  const at = context.deps.clock.now();
  const event = { kind: "decided", at, attempt: snapshot.attempt, ...what, newAttempt } as const;
  const seq = await append(context, snapshot, event);
  return seq === null ? null : { seq, ...event };
}

async function carryOutAndReport(
  context: ActContext,
  snapshot: AgentSnapshot,
  decided: Decided,
  why: string,
): Promise<ActResult> {
  const { key, trigger, action, attempt } = decided;
  const agent = snapshot.agent.id;
  context.note("decided", { agent, attempt, trigger, action, why });
  const done = await resultOf(context, snapshot, decided, why);
  context.note("carried out", { agent, attempt, action, ...done });
  const { result, detail } = done;
  await append(context, snapshot, {
    kind: "carried_out",
    at: context.deps.clock.now(),
    attempt,
    key,
    result,
    detail,
  });
  return done;
}

/** A gate may end the daemon itself. If it does so repeatedly, it must not stop the supervision of other agents. */
const MOST_GATE_RUNS = 5;

async function finishUnreported(context: ActContext, snapshot: AgentSnapshot, open: Decided): Promise<void> {
  const { key, attempt, action } = open;
  const before = snapshot.history.filter((event) => event.kind === "begun_again" && event.key === key).length;
  const at = context.deps.clock.now();
  if (action === "gate" && before + 1 >= MOST_GATE_RUNS) {
    const detail = `the daemon ended ${MOST_GATE_RUNS} times while the gate ran`;
    await append(context, snapshot, { kind: "carried_out", at, attempt, key, result: "failed", detail });
    return;
  }
  if (action === "gate")
    await append(context, snapshot, { kind: "begun_again", at, attempt, key, time: before + 1 });
  await carryOutAndReport(context, snapshot, open, reasonOf(snapshot));
}

/** The reason of a decision is not stored, so this gives the present situation instead. */
function reasonOf({ agent, seen }: AgentSnapshot): string {
  const { mode, policy } = agent.definition;
  const found = occurrenceOf(seen, mode, policy.idleAfterMs);
  return "what" in found ? found.what : found.why;
}

async function resultOf(
  context: ActContext,
  snapshot: AgentSnapshot,
  decided: Decided,
  why: string,
): Promise<ActResult> {
  const { attempt, newAttempt } = decided;
  if (newAttempt !== null && newAttempt <= snapshot.latest)
    return { result: "ok", detail: `attempt ${newAttempt} was started` };
  if (attempt < snapshot.attempt)
    return { result: "refused", detail: `attempt ${attempt} was followed by ${snapshot.attempt}` };
  return carryOut(context, snapshot, decided, why);
}

/** A decision without a report: the process that stored it died. */
function unfinished({ history }: AgentSnapshot): Decided | null {
  const reported = new Set(history.flatMap((event) => (event.kind === "carried_out" ? [event.key] : [])));
  return (
    history.find((event): event is Decided => event.kind === "decided" && !reported.has(event.key)) ?? null
  );
}

/** Records turns that were completed since the last check. */
async function noteProgress(context: ActContext, snapshot: AgentSnapshot): Promise<boolean> {
  const { seen, attempt } = snapshot;
  const turn =
    seen.is === "live"
      ? seen.observed.turns
      : seen.is === "ended" &&
          seen.outcome.result === "completed" &&
          snapshot.agent.definition.mode === "headless"
        ? 1
        : 0;
  // Two turns between checks are enough: the turn that answers a nudge, and one more.
  const unknown = [turn - 1, turn].filter((one) => one > 0 && !snapshot.progress.has(`${attempt}/${one}`));
  if (!unknown.includes(turn)) return false;
  let noted = false;
  for (const one of unknown) {
    const event = { kind: "progress", at: context.deps.clock.now(), attempt, turn: one } as const;
    noted = (await append(context, snapshot, event)) !== null || noted;
  }
  return noted;
}

/** Closes the question to a person when the agent has continued without an answer. */
async function closeOvertaken(context: ActContext, snapshot: AgentSnapshot): Promise<boolean> {
  const { openDecision, outdated, seen } = snapshot;
  if (outdated !== null) await markOvertaken(context.deps, outdated);
  if (openDecision === null) return outdated !== null;
  const decision = await getDecision(context.deps, openDecision);
  const asked = escalationOf(snapshot, openDecision);
  if (decision === null || asked === undefined) return false;
  const isPast =
    hasContinued(snapshot, decision) ||
    plausibleTime(sinceOf(seen), context.deps.clock.now()) > asked.at ||
    isOver(decision.trigger, seen);
  if (isPast) await markOvertaken(context.deps, openDecision);
  return isPast;
}

function escalationOf(
  { history }: AgentSnapshot,
  decision: string,
): AgentSnapshot["history"][number] | undefined {
  return history.find((event) => event.kind === "escalated" && event.decision === decision);
}

/** The agent has a new attempt or a completed turn since the question, so an answer no longer fits. */
function hasContinued(snapshot: AgentSnapshot, { id, attempt }: DecisionRecord): boolean {
  const asked = escalationOf(snapshot, id)?.seq ?? Number.POSITIVE_INFINITY;
  return (
    snapshot.latest > attempt || snapshot.history.some(({ kind, seq }) => kind === "progress" && seq > asked)
  );
}

/** When the current state began, if that is certain: the time of a guess moves with every output. */
function sinceOf(seen: AgentSnapshot["seen"]): number {
  if (seen.is === "ended") return seen.endedAtMs;
  return seen.is === "live" && seen.observed.certain ? seen.observed.sinceMs : Number.NEGATIVE_INFINITY;
}

interface PendingAnswer {
  readonly decision: DecisionRecord;
  readonly request: UserRequest & { readonly key: string };
}

/** A person's answer that is not carried out yet. */
async function pendingAnswer(
  { deps }: ActContext,
  { agent, history }: AgentSnapshot,
): Promise<PendingAnswer | null> {
  for (const event of history) {
    if (event.kind !== "answered" || event.choice === "dismiss") continue;
    const key = `${agent.runId}/answer/${event.decision}`;
    if (history.some((other) => isKnown(other, key))) continue;
    const decision = await getDecision(deps, event.decision);
    if (decision === null) continue;
    const message = decision.choice?.message ?? null;
    if (event.choice === "fresh")
      return { decision, request: { action: "resume", how: "fresh", message, key } };
    // An answer to continue never starts a new conversation.
    if (event.choice === "resume" || event.choice === "nudge")
      return { decision, request: { action: event.choice, message, strict: true, key } };
    if (event.choice === "done" || event.choice === "fail")
      return { decision, request: { action: event.choice, message, key } };
  }
  return null;
}

/** The answer became a decision, or came too late. */
function isKnown(event: AgentSnapshot["history"][number], key: string): boolean {
  return (event.kind === "decided" || event.kind === "carried_out") && event.key === key;
}

/** An outdated answer changes nothing. */
async function carryOutAnswer(
  context: ActContext,
  snapshot: AgentSnapshot,
  { decision, request }: PendingAnswer,
): Promise<void> {
  const { deps } = context;
  if (decision.state === "overtaken" || hasContinued(snapshot, decision)) {
    await markOvertaken(deps, decision.id);
    const at = deps.clock.now();
    const report = { result: "refused", detail: TOO_LATE } as const;
    await append(context, snapshot, {
      kind: "carried_out",
      at,
      attempt: snapshot.attempt,
      key: request.key,
      ...report,
    });
    return;
  }
  const { result } = await actForUser(context, snapshot, request);
  const latest = (await deps.store.getRun(snapshot.agent.runId))?.attempts ?? 0;
  if (result === "refused" && latest > snapshot.latest) await markOvertaken(deps, decision.id);
}

const TOO_LATE = "the agent has continued since the question, so nothing was done";

function append(
  { deps }: ActContext,
  { agent }: AgentSnapshot,
  event: NewSupervisionEvent,
): Promise<number | null> {
  return deps.store.appendEvent(toStored(agent.runId, event));
}
