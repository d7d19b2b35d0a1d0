/**
 * What a live agent is doing, from its engine's reports, its output and its events. Pure: the observer collects the
 * facts, and nothing here knows where a fact comes from.
 */
import type { Activity, EngineEvent, Observed } from "../../core/events.ts";
import type { UiState } from "../../engines/engine.ts";

/**
 * Idle counts only after it has lasted: a UI that has just received a message is idle for a moment before it begins,
 * and reports idle a moment before it records that its turn failed.
 */
const SETTLED_MS = 750;
/** An engine that reports no state counts as idle after it has printed nothing for this long. */
const QUIET_MS = 5_000;

/** `certain`: the engine itself reports the state. */
export function firstSight(nowMs: number, certain: boolean): Observed {
  return { activity: { state: "starting" }, sinceMs: nowMs, grewAtMs: nowMs, turns: 0, certain };
}

/** The state that the engine reports for its UI. Null: unknown at the moment, so the last known state stands. */
export function sawUi(before: Observed, ui: UiState | null, nowMs: number): Observed {
  if (ui === null) return before;
  const { activity, changedAtMs } = ui;
  const turns = Math.max(before.turns, ui.turns);
  const grewAtMs = turns > before.turns ? nowMs : before.grewAtMs;
  const rests = changedAtMs === null || nowMs < changedAtMs || nowMs - changedAtMs >= SETTLED_MS;
  if (activity.state === "idle" && !rests) {
    const known = { ...before, turns, grewAtMs };
    // An answered question is closed, whatever follows.
    return before.activity.state === "waiting" ? turnTo({ state: "working" }, known, nowMs) : known;
  }
  // The same state with a later time: a state in between was missed.
  const again = changedAtMs !== null && changedAtMs > before.sinceMs && changedAtMs <= nowMs;
  if (isSame(activity, before.activity) && !again) return { ...before, turns, grewAtMs };
  const sinceMs = changedAtMs === null || changedAtMs > nowMs ? nowMs : Math.max(changedAtMs, before.sinceMs);
  return { ...before, activity, turns, sinceMs, grewAtMs: nowMs };
}

/** The agent printed something. For a UI that reports no state, output is the only sign. */
export function sawOutput(before: Observed, nowMs: number): Observed {
  const grown = { ...before, grewAtMs: nowMs };
  return before.certain ? grown : turnTo({ state: "working" }, grown, nowMs);
}

/** An agent that reports no state has printed nothing for a while: it may be idle, or waiting for an answer. */
export function sawNothing(before: Observed, nowMs: number): Observed {
  const isQuiet = before.activity.state === "working" && nowMs - before.grewAtMs >= QUIET_MS;
  return before.certain || !isQuiet ? before : { ...before, activity: { state: "idle" }, sinceMs: nowMs };
}

/** Events of an agent without a UI. */
export function sawEvents(before: Observed, events: readonly EngineEvent[], nowMs: number): Observed {
  let now = before;
  for (const event of events) {
    const activity = activityIn(event);
    if (activity !== null) now = turnTo(activity, now, nowMs);
    const isDone = event.type === "turn_ended" && event.result === "completed";
    now = { ...now, grewAtMs: nowMs, turns: now.turns + (isDone ? 1 : 0) };
  }
  return now;
}

function activityIn(event: EngineEvent): Activity | null {
  switch (event.type) {
    case "turn_started":
    case "text":
    case "tool":
    // The engine continues without help.
    case "retry":
      return { state: "working" };
    case "turn_ended":
      return event.trouble === undefined ? { state: "idle" } : { state: "error", trouble: event.trouble };
    case "message":
    case "session":
    case "session_changed":
    case "notice":
    case "usage":
    case "unknown":
      return null;
  }
}

function turnTo(activity: Activity, before: Observed, nowMs: number): Observed {
  return isSame(activity, before.activity) ? before : { ...before, activity, sinceMs: nowMs };
}

export function isSame(one: Activity, other: Activity): boolean {
  if (one.state === "waiting" && other.state === "waiting") return one.what === other.what;
  if (one.state === "error" && other.state === "error") {
    const [here, there] = [one.trouble, other.trouble];
    return here.kind === there.kind && here.message === there.message && here.resetsAt === there.resetsAt;
  }
  return one.state === other.state;
}

/** The status that a UI sends to its terminal: `OSC 7501 ; state=… ST`. Only its end may be in another chunk. */
// oxlint-disable-next-line no-control-regex
const STATUS = /\u001b\]7501;([\w=:.,-]{1,200})(?:\u0007|\u001b\\)/g;
const OPENING = "\u001b]7501;";

/** The last complete status in the output, and the beginning of an incomplete one. */
export function statusIn(
  text: string,
  before: string | undefined,
): { readonly status: string | undefined; readonly rest: string } {
  const last = [...text.matchAll(STATUS)].at(-1);
  const open = text.lastIndexOf(OPENING);
  const rest = open > (last?.index ?? -1) ? text.slice(open, open + 256) : text.slice(-OPENING.length);
  return { status: last?.[1] ?? before, rest };
}
