/**
 * Counts tries in the event log: how often, since when, and which are still under way. Pure.
 *
 * Reprise stores events, never counts, so a restart of the daemon cannot reset them. Events are in order of `seq`.
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

/** The last decision about this state of this attempt. */
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

/** A person's request that was refused and changed nothing. An answer does not count: it has closed its question. */
function isRefusedRequest(events: Events, { trigger, key }: Decided): boolean {
  if (trigger !== "user" || key.includes("/answer/")) return false;
  return reportOf(events, key)?.result === "refused";
}

/** Decisions for this entry since the last reset of its count, oldest first. */
export function triesOf(events: Events, { trigger, position, action }: Entry): readonly Decided[] {
  const tries = action === "nudge" ? sinceUnprovoked(events) : sinceReset(events);
  return tries.filter(
    (event) => event.kind === "decided" && event.trigger === trigger && event.position === position,
  ) as readonly Decided[];
}

/** Decisions to restart the agent since its last progress. */
export function restartsOf(events: Events): readonly Decided[] {
  return sinceReset(events).filter(
    (event) => event.kind === "decided" && event.action === "resume" && event.trigger !== "user",
  ) as readonly Decided[];
}

/** Failed decisions to start the next attempt, which never got a process. */
export function unstartedOf(events: Events, latest: number): readonly Decided[] {
  return sinceReset(events).filter(
    (event) =>
      event.kind === "decided" &&
      (event.newAttempt ?? 0) > latest &&
      reportOf(events, event.key)?.result === "failed",
  ) as readonly Decided[];
}

/** The number in the key of the next decision. It only grows, even after progress. */
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

/** The decision about this attempt without a report. A resume whose attempt exists (`latest`) counts as carried out. */
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
 * Failed attempts since the last progress or the last decision of a person. An attempt that ended by a rate limit is not
 * a failure.
 */
export function failuresOf(events: Events, ended: readonly EndedAttempt[], mode: AgentMode): number {
  const reset = countedEvents(events).findLast(isReset);
  return ended.filter(
    ({ attempt, outcome }) =>
      // A UI that closes is a failure, whatever its exit code.
      (outcome.result !== "completed" || mode === "interactive") &&
      outcome.result !== "cancelled" &&
      outcome.trouble?.kind !== "rate_limited" &&
      (reset === undefined ||
        attempt > reset.attempt ||
        (attempt === reset.attempt && reset.kind === "progress")),
  ).length;
}

/** A completed turn or a person's decision resets the counts. */
function isReset(event: SupervisionEvent): boolean {
  return event.kind === "progress" || event.kind === "answered" || isUserDecision(event);
}

const isUserDecision = (event: SupervisionEvent) => event.kind === "decided" && event.trigger === "user";

function sinceReset(events: Events): Events {
  const kept = countedEvents(events);
  return kept.slice(kept.findLastIndex(isReset) + 1);
}

/** Without refused requests, and without progress of an attempt that was reported after a newer attempt began. */
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
 * Events since the last reset for nudges. The first completed turn after a nudge answers it and does not reset the count:
 * otherwise Reprise would nudge an agent that answers "I am done" for ever. A nudge that did not arrive causes no turn.
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
