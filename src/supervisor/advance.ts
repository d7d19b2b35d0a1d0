/**
 * One step with one agent: what happened is noted, what was begun is finished, what is due is decided, stored and then
 * carried out (I8). Whoever stores a decision first carries it out; everybody else finds it in the log.
 */
import type { ActionName } from "../core/runbook.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import { carryOut, type ActResult, type ActContext } from "./act.ts";
import type { NextAction } from "./decide.ts";
import { believed } from "./delay.ts";
import { getDecision, mendAnswers, overtake } from "./decisions.ts";
import { type NewSupervisionEvent, toStored } from "./history.ts";
import type { Look } from "./snapshot.ts";
import { isOver, occurrenceOf } from "./occurrence.ts";
import type { Decided } from "./counts.ts";

/** again: something was done, so everything is to be looked at anew. */
export interface NextLook {
  readonly again: boolean;
  /** Wall clock; null: when something happens. */
  readonly dueMs: number | null;
}

const AGAIN: NextLook = { again: true, dueMs: null };

export async function advance(hand: ActContext, look: Look): Promise<NextLook> {
  if ((await noteProgress(hand, look)) || (await isOvertaken(hand, look))) return AGAIN;
  if (await mendAnswers(hand.deps, look)) return AGAIN;
  const open = unfinished(look);
  if (open !== null) {
    await finishAgain(hand, look, open);
    return AGAIN;
  }
  const answer = await answerIn(hand, look);
  if (answer !== null) {
    await actUpon(hand, look, answer);
    return AGAIN;
  }
  const { decision } = look;
  if (decision.do === "nothing") return { again: false, dueMs: null };
  if (decision.do === "wait") return { again: false, dueMs: decision.untilMs };
  await act(hand, look, decision);
  return AGAIN;
}

/** What a person wants done. */
export interface UserRequest {
  readonly action: ActionName;
  readonly message: string | null;
  readonly how?: "kill" | "fresh";
  readonly strict?: true;
  /** Makes it the only one of its kind; absent: the next one. */
  readonly key?: string;
}

export async function actForUser(hand: ActContext, look: Look, wish: UserRequest): Promise<ActResult> {
  const { agent, attempt, history } = look;
  const count = history.filter((event) => event.kind === "decided" && event.trigger === "user").length + 1;
  const { key = `${agent.runId}/${attempt}/user/0/${count}`, ...rest } = wish;
  const decided = await decideUpon(hand, look, { key, trigger: "user", position: 0, ...rest });
  if (decided === null) return { result: "refused", detail: "somebody else was faster" };
  return finish(hand, look, decided, "a person decided so");
}

type Due = Extract<NextAction, { do: "act" | "exhausted" }>;

async function act(hand: ActContext, look: Look, decision: Due): Promise<void> {
  const { key, trigger, position, why } = decision;
  const { action, message } =
    decision.do === "act" ? decision.entry : { action: "escalate" as const, message: null };
  const decided = await decideUpon(hand, look, { key, trigger, position, action, message });
  if (decided !== null) await finish(hand, look, decided, why);
}

/** Null: that was decided already, and whoever did is at it. */
async function decideUpon(
  hand: ActContext,
  look: Look,
  what: Omit<Decided, "seq" | "at" | "attempt" | "kind" | "newAttempt">,
): Promise<Decided | null> {
  const starts =
    what.action === "resume" || (what.action === "nudge" && look.agent.definition.mode === "headless");
  const newAttempt = starts ? look.latest + 1 : null;
  const at = hand.deps.clock.now();
  const event = { kind: "decided", at, attempt: look.attempt, ...what, newAttempt } as const;
  const seq = await append(hand, look, event);
  return seq === null ? null : { seq, ...event };
}

async function finish(hand: ActContext, look: Look, decided: Decided, why: string): Promise<ActResult> {
  const { key, trigger, action, attempt } = decided;
  const agent = look.agent.id;
  hand.note("decided", { agent, attempt, trigger, action, why });
  const done = await settled(hand, look, decided, why);
  hand.note("carried out", { agent, attempt, action, ...done });
  const { result, detail } = done;
  await append(hand, look, { kind: "carried_out", at: hand.deps.clock.now(), attempt, key, result, detail });
  return done;
}

/** A gate may end the supervisor itself. One that keeps doing so must not keep everybody else from being looked after. */
const MOST_GATE_RUNS = 5;

async function finishAgain(hand: ActContext, look: Look, open: Decided): Promise<void> {
  const { key, attempt, action } = open;
  const before = look.history.filter((event) => event.kind === "begun_again" && event.key === key).length;
  const at = hand.deps.clock.now();
  if (action === "gate" && before + 1 >= MOST_GATE_RUNS) {
    const detail = `the supervisor ended ${MOST_GATE_RUNS} times while it ran`;
    await append(hand, look, { kind: "carried_out", at, attempt, key, result: "failed", detail });
    return;
  }
  if (action === "gate")
    await append(hand, look, { kind: "begun_again", at, attempt, key, time: before + 1 });
  await finish(hand, look, open, reasonOf(look));
}

/** Why something was decided is not stored: what is the matter now is told instead. */
function reasonOf({ agent, seen }: Look): string {
  const { mode, policy } = agent.definition;
  const found = occurrenceOf(seen, mode, policy.idleAfterMs);
  return "what" in found ? found.what : found.why;
}

async function settled(hand: ActContext, look: Look, decided: Decided, why: string): Promise<ActResult> {
  const { attempt, newAttempt } = decided;
  if (newAttempt !== null && newAttempt <= look.latest)
    return { result: "ok", detail: `attempt ${newAttempt} was started` };
  if (attempt < look.attempt)
    return { result: "refused", detail: `attempt ${attempt} was followed by ${look.attempt}` };
  return carryOut(hand, look, decided, why);
}

/** A decision that nobody has reported on: whoever made it died. */
function unfinished({ history }: Look): Decided | null {
  const reported = new Set(history.flatMap((event) => (event.kind === "carried_out" ? [event.key] : [])));
  return (
    history.find((event): event is Decided => event.kind === "decided" && !reported.has(event.key)) ?? null
  );
}

/** Turns that were completed since it was last looked at. */
async function noteProgress(hand: ActContext, look: Look): Promise<boolean> {
  const { seen, attempt } = look;
  const turn =
    seen.is === "live"
      ? seen.observed.turns
      : seen.is === "ended" &&
          seen.outcome.result === "completed" &&
          look.agent.definition.mode === "headless"
        ? 1
        : 0;
  // Of those between two looks two are enough to tell: the one that a nudge brought about, and another one.
  const unknown = [turn - 1, turn].filter((one) => one > 0 && !look.progress.has(`${attempt}/${one}`));
  if (!unknown.includes(turn)) return false;
  let noted = false;
  for (const one of unknown) {
    const event = { kind: "progress", at: hand.deps.clock.now(), attempt, turn: one } as const;
    noted = (await append(hand, look, event)) !== null || noted;
  }
  return noted;
}

/** The question to a person, when the agent goes on without an answer. */
async function isOvertaken(hand: ActContext, look: Look): Promise<boolean> {
  const { openDecision, outdated, seen } = look;
  if (outdated !== null) await overtake(hand.deps, outdated);
  if (openDecision === null) return outdated !== null;
  const decision = await getDecision(hand.deps, openDecision);
  const asked = askedOf(look, openDecision);
  if (decision === null || asked === undefined) return false;
  const isPast =
    hasGoneOn(look, decision) ||
    believed(sinceOf(seen), hand.deps.clock.now()) > asked.at ||
    isOver(decision.trigger, seen);
  if (isPast) await overtake(hand.deps, openDecision);
  return isPast;
}

function askedOf({ history }: Look, decision: string): Look["history"][number] | undefined {
  return history.find((event) => event.kind === "escalated" && event.decision === decision);
}

/** Since the question was asked there is another attempt, or a turn was completed: the answer was meant for what was before. */
function hasGoneOn(look: Look, { id, attempt }: DecisionRecord): boolean {
  const asked = askedOf(look, id)?.seq ?? Number.POSITIVE_INFINITY;
  return look.latest > attempt || look.history.some(({ kind, seq }) => kind === "progress" && seq > asked);
}

/** When what is the matter now began, where that is certain; a guess moves with every output. */
function sinceOf(seen: Look["seen"]): number {
  if (seen.is === "ended") return seen.endedAtMs;
  return seen.is === "live" && seen.observed.certain ? seen.observed.sinceMs : Number.NEGATIVE_INFINITY;
}

interface Answer {
  readonly decision: DecisionRecord;
  readonly wish: UserRequest & { readonly key: string };
}

/** What a person answered and nobody has acted upon yet. */
async function answerIn({ deps }: ActContext, { agent, history }: Look): Promise<Answer | null> {
  for (const event of history) {
    if (event.kind !== "answered" || event.choice === "dismiss") continue;
    const key = `${agent.runId}/answer/${event.decision}`;
    if (history.some((other) => isKnown(other, key))) continue;
    const decision = await getDecision(deps, event.decision);
    if (decision === null) continue;
    const message = decision.choice?.message ?? null;
    if (event.choice === "fresh") return { decision, wish: { action: "resume", how: "fresh", message, key } };
    // Continuing a conversation never begins a new one.
    if (event.choice === "resume" || event.choice === "nudge")
      return { decision, wish: { action: event.choice, message, strict: true, key } };
    if (event.choice === "done" || event.choice === "fail")
      return { decision, wish: { action: event.choice, message, key } };
  }
  return null;
}

/** It was decided, or came too late for that. */
function isKnown(event: Look["history"][number], key: string): boolean {
  return (event.kind === "decided" || event.kind === "carried_out") && event.key === key;
}

/** An answer to what was before changes nothing. */
async function actUpon(hand: ActContext, look: Look, { decision, wish }: Answer): Promise<void> {
  const { deps } = hand;
  if (decision.state === "overtaken" || hasGoneOn(look, decision)) {
    await overtake(deps, decision.id);
    const at = deps.clock.now();
    const report = { result: "refused", detail: TOO_LATE } as const;
    await append(hand, look, { kind: "carried_out", at, attempt: look.attempt, key: wish.key, ...report });
    return;
  }
  const { result } = await actForUser(hand, look, wish);
  const latest = (await deps.store.getRun(look.agent.runId))?.attempts ?? 0;
  if (result === "refused" && latest > look.latest) await overtake(deps, decision.id);
}

const TOO_LATE = "the agent has gone on since it was asked, so nothing was done";

function append({ deps }: ActContext, { agent }: Look, event: NewSupervisionEvent): Promise<number | null> {
  return deps.store.appendEvent(toStored(agent.runId, event));
}
