/**
 * Classifies the state of one agent: observation in, a trigger or the reason for no trigger out. Pure.
 *
 * Knows the observation and the policy's `idle_after`, but no entries, counts or delays.
 */
import type { Exit, Observed, Outcome, Trouble } from "../core/events.ts";
import type { AttemptRecord } from "../core/records.ts";
import type { AgentMode, Trigger } from "../core/runbook.ts";

/** Times are milliseconds since 1970. */
export interface EndedAttempt {
  readonly attempt: number;
  readonly outcome: Outcome;
  readonly exit: Exit | null;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** The observed state of the agent's process. */
export type ProcessState =
  | { readonly is: "live"; readonly observed: Observed }
  | ({ readonly is: "ended" } & EndedAttempt)
  /** Its holder is alive but does not answer. */
  | { readonly is: "unresponsive"; readonly sinceMs: number }
  /** No holder, and no recorded end yet. */
  | { readonly is: "missing"; readonly sinceMs: number };

/** Null: not ended. The start time replaces a missing end time. */
export function endedAttempt(record: AttemptRecord): EndedAttempt | null {
  if (record.state !== "ended" || record.outcome === null) return null;
  const startedAtMs = Date.parse(record.startedAt);
  const endedAtMs = Date.parse(record.endedAt ?? record.startedAt);
  return { attempt: record.n, outcome: record.outcome, exit: record.exit, startedAtMs, endedAtMs };
}

export interface Occurrence {
  readonly trigger: Trigger;
  /** When the state began. Distinguishes this occurrence from the next one. */
  readonly sinceMs: number;
  /** When it becomes a reason to act; may be in the future. Cooldowns count from here. */
  readonly dueMs: number;
  readonly what: string;
  readonly trouble: Trouble | null;
  /** False: guessed from silence, so Reprise must neither type into it nor end it. */
  readonly certain: boolean;
  /** A headless turn is complete: without an entry the agent is done. */
  readonly completed: boolean;
  /** Why only a person may start a process for it. Null: a runbook may. */
  readonly noRestart: string | null;
  /** The question to a person, who alone can answer, so no entry is tried. Null: the runbook answers. */
  readonly asks: string | null;
}

export type NoActionReason =
  | "ended"
  | "stale"
  | "in_flight"
  | "asked"
  | "starting"
  | "working"
  | "cancelled"
  | "uncertain"
  | "settled";

export interface NoAction {
  readonly because: NoActionReason;
  readonly why: string;
}

/** How long a holder may be missing before its agent counts as dead. */
const MISSING_MS = 10_000;
/** A UI that starts for longer probably asks something that its engine does not report. */
const STARTING_MS = 120_000;
/** A silent holder may be suspended or short of CPU; after this time Reprise asks a person. */
const UNRESPONSIVE_MS = 120_000;

export function occurrenceOf(
  seen: ProcessState,
  mode: AgentMode,
  idleAfterMs: number,
): Occurrence | NoAction {
  switch (seen.is) {
    case "live":
      return ofLive(seen.observed, mode, idleAfterMs);
    case "ended":
      return ofEnded(seen, mode);
    case "missing":
      return occurrence("dead", seen.sinceMs, {
        dueMs: seen.sinceMs + MISSING_MS,
        what: "its holder disappeared without recording an end",
      });
    case "unresponsive":
      return occurrence("dead", seen.sinceMs, {
        dueMs: seen.sinceMs + UNRESPONSIVE_MS,
        what: "its holder is alive but does not answer",
        asks: "its holder is alive but does not answer",
      });
  }
}

function ofLive(observed: Observed, mode: AgentMode, idleAfterMs: number): Occurrence | NoAction {
  const { activity, sinceMs, grewAtMs, certain } = observed;
  switch (activity.state) {
    case "starting":
      if (mode === "headless" || !certain) return { because: "starting", why: "it is starting" };
      return occurrence("prompt", sinceMs, {
        dueMs: sinceMs + STARTING_MS,
        what: "it is starting",
        asks: "it is stuck at its start: its UI may ask for a login, or whether to trust the folder",
      });
    case "working":
      return { because: "working", why: "it is working" };
    case "waiting":
      return occurrence("prompt", sinceMs, { what: "it asks for permission", certain });
    case "error":
      if (mode === "headless") return ENDING;
      return occurrence("error", sinceMs, {
        what: `its turn failed (${activity.trouble.kind})`,
        trouble: activity.trouble,
        certain,
      });
    case "idle":
      if (mode === "headless") return ENDING;
      return occurrence("idle", sinceMs, {
        dueMs: Math.max(sinceMs, grewAtMs) + idleAfterMs,
        what: "it is idle",
        certain,
      });
  }
}

/** A live agent in another state has left the trigger's state, even while a question about it is open. */
export function isOver(trigger: Trigger, seen: ProcessState): boolean {
  if (seen.is !== "live" || !seen.observed.certain) return false;
  const { state } = seen.observed.activity;
  return trigger !== (state === "waiting" || state === "starting" ? "prompt" : state);
}

/** A headless turn ends with its process, and the end of the process has more facts. */
const ENDING: NoAction = { because: "working", why: "its turn is over and its process is ending" };

/** A UI that ended was closed or killed, whatever its exit code. */
function ofEnded({ outcome, endedAtMs }: EndedAttempt, mode: AgentMode): Occurrence | NoAction {
  if (outcome.result === "cancelled")
    return { because: "cancelled", why: "a person stopped it; `reprise agent resume` continues it" };
  if (outcome.result === "completed" && mode === "headless") {
    return occurrence("idle", endedAtMs, { what: "its turn is complete", completed: true });
  }
  if (outcome.trouble !== undefined) {
    const { trouble } = outcome;
    return occurrence("error", endedAtMs, { what: `it failed (${trouble.kind})`, trouble });
  }
  const noRestart =
    outcome.result === "diverged"
      ? "the engine answered in another conversation than the requested one"
      : null;
  return occurrence("dead", endedAtMs, { what: outcome.reason, noRestart });
}

function occurrence(trigger: Trigger, sinceMs: number, rest: Partial<Occurrence>): Occurrence {
  return {
    trigger,
    sinceMs,
    dueMs: sinceMs,
    what: "",
    trouble: null,
    certain: true,
    completed: false,
    noRestart: null,
    asks: null,
    ...rest,
  };
}
