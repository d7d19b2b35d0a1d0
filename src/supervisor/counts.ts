/**
 * What the event log says about tries: how often, since when, and what is still under way.
 *
 * Pure. Counters are never stored, so a restart of the daemon cannot reset them; events are in order of `seq`.
 */
import type { ActionName, AgentMode, Trigger } from "../core/runbook.ts";
import type { SupervisionEvent } from "../core/supervision.ts";
import type { EndedAttempt } from "./occurrence.ts";

type Events = readonly SupervisionEvent[];
export type Decided = Extract<SupervisionEvent, { readonly kind: "decided" }>;
export type CarriedOut = Extract<SupervisionEvent, { readonly kind: "carried_out" }>;

interface Entry {
  readonly trigger: Trigger;
  readonly position: number;
  readonly action: ActionName;
}

/** The last thing that was decided about this state of this attempt. */
export function lastDecided(events: Events, attempt: number, sinceMs: number): Decided | null {
  const last = events.findLast(
    (event): event is Decided =>
      event.kind === "decided" &&
      event.attempt === attempt &&
      event.at >= sinceMs &&
      !isRefusedRequest(events, event),
  );
  return last ?? null;
}

/** What a person wanted and was refused: they were told, and everything is as it was. An answer has closed its question. */
function isRefusedRequest(events: Events, { trigger, key }: Decided): boolean {
  if (trigger !== "user" || key.includes("/answer/")) return false;
  return reportOf(events, key)?.result === "refused";
}

/** Decisions for this entry since its count began, oldest first. */
export function triesOf(events: Events, { trigger, position, action }: Entry): readonly Decided[] {
  const tries = action === "nudge" ? sinceUnprovoked(events) : sinceReset(events);
  return tries.filter(
    (event) => event.kind === "decided" && event.trigger === trigger && event.position === position,
  ) as readonly Decided[];
}

/** Decisions to start the agent again since it last got anywhere. */
export function restartsOf(events: Events): readonly Decided[] {
  return sinceReset(events).filter(
    (event) => event.kind === "decided" && event.action === "resume" && event.trigger !== "user",
  ) as readonly Decided[];
}

/** Decisions to start the next attempt that came to nothing: not even a process was there. */
export function unstartedOf(events: Events, latest: number): readonly Decided[] {
  return sinceReset(events).filter(
    (event) =>
      event.kind === "decided" &&
      (event.newAttempt ?? 0) > latest &&
      reportOf(events, event.key)?.result === "failed",
  ) as readonly Decided[];
}

/** The number that makes the key of the next decision: it never goes back, not even by progress. */
export function ordinalOf(events: Events, attempt: number, trigger: Trigger, position: number): number {
  const earlier = events.filter(
    (event) =>
      event.kind === "decided" &&
      event.attempt === attempt &&
      event.trigger === trigger &&
      event.position === position,
  );
  return earlier.length + 1;
}

/** The decision about this attempt that nobody has reported on. `latest`: a resume that made its attempt is carried out. */
export function inFlight(events: Events, attempt: number, latest: number): Decided | null {
  const reported = new Set(events.flatMap((event) => (event.kind === "carried_out" ? [event.key] : [])));
  const open = events.findLast(
    (event): event is Decided =>
      event.kind === "decided" &&
      event.attempt === attempt &&
      !reported.has(event.key) &&
      !(event.newAttempt !== null && event.newAttempt <= latest),
  );
  return open ?? null;
}

export function reportOf(events: Events, key: string): CarriedOut | null {
  const found = events.find(
    (event): event is CarriedOut => event.kind === "carried_out" && event.key === key,
  );
  return found ?? null;
}

/**
 * Attempts that failed since the last progress. One that the engine's own limits ended is not the agent's failure,
 * and one after which a person decided is forgiven.
 */
export function failuresOf(events: Events, ended: readonly EndedAttempt[], mode: AgentMode): number {
  const reset = countedEvents(events).findLast(isReset);
  return ended.filter(
    ({ attempt, outcome }) =>
      // A UI that closes is a failure, whatever its exit code says.
      (outcome.result !== "completed" || mode === "interactive") &&
      outcome.result !== "cancelled" &&
      outcome.trouble?.kind !== "rate_limited" &&
      (reset === undefined ||
        attempt > reset.attempt ||
        (attempt === reset.attempt && reset.kind === "progress")),
  ).length;
}

/** A completed turn, or a person who decided: what was tried before does not count any more. */
function isReset(event: SupervisionEvent): boolean {
  return event.kind === "progress" || event.kind === "answered" || isUserDecision(event);
}

const isUserDecision = (event: SupervisionEvent) => event.kind === "decided" && event.trigger === "user";

function sinceReset(events: Events): Events {
  const kept = countedEvents(events);
  return kept.slice(kept.findLastIndex(isReset) + 1);
}

/** Without what came to nothing, and the progress of attempts that others had followed already when it was heard of. */
function countedEvents(events: Events): Events {
  let latest = 0;
  return events.filter((event) => {
    if (event.kind === "decided" && isRefusedRequest(events, event)) return false;
    const late = event.kind === "progress" && event.attempt < latest;
    latest = Math.max(latest, event.attempt);
    return !late;
  });
}

/**
 * The turn that a nudge brought about is no reason to nudge as often again, or an agent that answers "I am done" would be
 * nudged for ever: the first completed turn after a nudge does not begin the count anew. A nudge that did not arrive
 * brings about no turn.
 */
function sinceUnprovoked(events: Events): Events {
  let from = 0;
  let provoked = false;
  const kept = countedEvents(events);
  for (const [at, event] of kept.entries()) {
    if (event.kind === "decided" && event.action === "nudge" && event.trigger !== "user")
      provoked = (reportOf(events, event.key)?.result ?? "ok") === "ok";
    else if (event.kind === "progress" && provoked) provoked = false;
    else if (isReset(event)) from = at + 1;
  }
  return kept.slice(from);
}
