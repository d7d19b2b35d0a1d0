/**
 * What a live agent is doing, put together from what its engine tells, what it prints and what it reports. Pure: the
 * holder looks, listens and passes on; nothing here knows where a fact comes from.
 */
import type { Activity, EngineEvent, Observed } from "../../core/events.ts";
import type { UiState } from "../../engines/engine.ts";

/**
 * A state of rest is believed only when it has lasted: a UI that was given a message is idle for a moment before it
 * begins, and says idle a moment before it writes down that its turn failed.
 */
const SETTLED_MS = 750;
/** An engine that never says what it does is taken to rest when it has printed nothing for so long. */
const QUIET_MS = 5_000;

/** `certain`: the engine tells, in its own words. */
export function firstSight(nowMs: number, certain: boolean): Observed {
  return { activity: { state: "starting" }, sinceMs: nowMs, grewAtMs: nowMs, turns: 0, certain };
}

/** What the engine itself says of its UI; null: it cannot be told right now, and what was known stands. */
export function sawUi(before: Observed, ui: UiState | null, nowMs: number): Observed {
  if (ui === null) return before;
  const { activity, changedAtMs } = ui;
  const turns = Math.max(before.turns, ui.turns);
  const grewAtMs = turns > before.turns ? nowMs : before.grewAtMs;
  const rests = changedAtMs === null || nowMs < changedAtMs || nowMs - changedAtMs >= SETTLED_MS;
  if (activity.state === "idle" && !rests) {
    const known = { ...before, turns, grewAtMs };
    // A question that was answered is not open any more, whatever comes of it.
    return before.activity.state === "waiting" ? turnTo({ state: "working" }, known, nowMs) : known;
  }
  // The same state again, from a later time: what lay in between was missed.
  const again = changedAtMs !== null && changedAtMs > before.sinceMs && changedAtMs <= nowMs;
  if (isSame(activity, before.activity) && !again) return { ...before, turns, grewAtMs };
  const sinceMs = changedAtMs === null || changedAtMs > nowMs ? nowMs : Math.max(changedAtMs, before.sinceMs);
  return { ...before, activity, turns, sinceMs, grewAtMs: nowMs };
}

/** The agent printed something. In a UI that tells nothing of itself, that is all there is. */
export function sawOutput(before: Observed, nowMs: number): Observed {
  const grown = { ...before, grewAtMs: nowMs };
  return before.certain ? grown : turnTo({ state: "working" }, grown, nowMs);
}

/** For an agent that tells nothing: it prints nothing for a while, so it may be at rest, or waiting for an answer. */
export function sawNothing(before: Observed, nowMs: number): Observed {
  const isQuiet = before.activity.state === "working" && nowMs - before.grewAtMs >= QUIET_MS;
  return before.certain || !isQuiet ? before : { ...before, activity: { state: "idle" }, sinceMs: nowMs };
}

/** What an agent without a UI reports. */
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
    // The engine goes on by itself.
    case "retry":
      return { state: "working" };
    case "turn_ended":
      return event.trouble === undefined ? { state: "idle" } : { state: "error", trouble: event.trouble };
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

/** The status that a UI gives its terminal: `OSC 7501 ; state=… ST`. Only its end may be in another chunk. */
// oxlint-disable-next-line no-control-regex
const STATUS = /\u001b\]7501;([\w=:.,-]{1,200})(?:\u0007|\u001b\\)/g;
const OPENING = "\u001b]7501;";

/** The last status in what was printed, and the beginning of one that is not complete. */
export function statusIn(
  text: string,
  before: string | undefined,
): { readonly status: string | undefined; readonly rest: string } {
  const last = [...text.matchAll(STATUS)].at(-1);
  const open = text.lastIndexOf(OPENING);
  const rest = open > (last?.index ?? -1) ? text.slice(open, open + 256) : text.slice(-OPENING.length);
  return { status: last?.[1] ?? before, rest };
}
