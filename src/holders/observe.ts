/**
 * What a live agent is doing, from its events and its output alone. Pure.
 *
 * A headless agent says so itself. A UI that says nothing is guessed at: certain is false, and nobody types into it.
 */
import type { Activity, EngineEvent, Observed, SeenEvent } from "../core/events.ts";

/** A UI that prints nothing for so long does not seem to work. */
const QUIET_MS = 2_000;

export function firstObserved(interactive: boolean, nowMs: number): Observed {
  return {
    activity: { state: "starting" },
    sinceMs: nowMs,
    grewAtMs: nowMs,
    turns: 0,
    certain: !interactive,
  };
}

export function sawEvents(before: Observed, seen: readonly SeenEvent[], nowMs: number): Observed {
  let observed: Observed = { ...before, grewAtMs: nowMs };
  for (const { event } of seen) {
    const activity = activityAfter(event);
    if (activity === null) continue;
    if (event.type === "turn_ended" && event.result === "completed")
      observed = { ...observed, turns: observed.turns + 1 };
    if (activity.state !== observed.activity.state || activity.state === "error")
      observed = { ...observed, activity, sinceMs: nowMs };
  }
  return observed;
}

/** Null: the event says nothing about it. */
function activityAfter(event: EngineEvent): Activity | null {
  switch (event.type) {
    case "turn_started":
    case "text":
    case "tool":
    case "retry":
      return { state: "working" };
    case "turn_ended":
      if (event.result !== "failed") return { state: "idle" };
      return {
        state: "error",
        trouble: event.trouble ?? { kind: "other", message: "the turn failed" },
      };
    case "session":
    case "session_changed":
    case "usage":
    case "notice":
    case "unknown":
      return null;
  }
}

export function sawOutput(before: Observed, nowMs: number): Observed {
  const observed = { ...before, grewAtMs: nowMs };
  if (before.certain || before.activity.state === "working") return observed;
  return { ...observed, activity: { state: "working" }, sinceMs: nowMs };
}

/** A look at the clock: the same object when nothing changes by it. */
export function sawNothing(before: Observed, nowMs: number): Observed {
  if (before.certain || before.activity.state === "idle" || nowMs - before.grewAtMs < QUIET_MS) return before;
  return { ...before, activity: { state: "idle" }, sinceMs: before.grewAtMs };
}
