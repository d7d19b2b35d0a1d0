/** The next step of a scheduled resume. Pure. */
import type { AttemptRecord } from "../core/records.ts";
import type { ScheduledResume } from "../core/supervision.ts";

export interface ScheduleFacts {
  readonly nowMs: number;
  /** Null: the run was removed. */
  readonly run: { readonly attempts: number; readonly isLive: boolean } | null;
  /** The attempt that the record names. Null: it names none, or the attempt does not exist. */
  readonly attempt: Pick<AttemptRecord, "scheduled" | "state" | "agent" | "outcome"> | null;
  /** That attempt had begun to start its agent, so an agent may have existed. */
  readonly mayHaveStarted: boolean;
}

export type ScheduleStep =
  | { readonly do: "nothing" }
  | { readonly do: "wait"; readonly reason: string }
  /** Store the number, then start the attempt with it. */
  | { readonly do: "start"; readonly attempt: number }
  | { readonly do: "started" }
  | { readonly do: "failed" | "unsure"; readonly reason: string }
  | { readonly do: "forget" };

/**
 * The attempt's number is stored before the attempt is started, and an attempt of that number exists at most once. So a
 * daemon that finds `starting` knows whether its predecessor started it.
 */
export function nextStep(record: ScheduledResume, facts: ScheduleFacts): ScheduleStep {
  const { run, nowMs } = facts;
  if (run === null) return { do: "forget" };
  if (record.state !== "waiting" && record.state !== "starting") return { do: "nothing" };
  if (record.state === "starting") {
    const past = stepAfterStart(record, facts);
    if (past !== null) return past;
  } else if (Date.parse(record.dueAt) > nowMs) return { do: "nothing" };
  if (run.isLive) return { do: "wait", reason: "the run is live; the message follows when its attempt ends" };
  return { do: "start", attempt: run.attempts + 1 };
}

/** Null: the attempt was not started, or belongs to another process. */
function stepAfterStart(record: ScheduledResume, facts: ScheduleFacts): ScheduleStep | null {
  const { attempt } = facts;
  if (attempt === null || attempt.scheduled !== record.id) return null;
  if (attempt.agent !== null) return { do: "started" };
  // Its owner is starting the agent. The end of a dead owner's attempt is recorded before this decision.
  if (attempt.state !== "ended") return { do: "nothing" };
  if (attempt.outcome?.result === "failed") return { do: "failed", reason: attempt.outcome.reason };
  if (!facts.mayHaveStarted) return null;
  const reason = `Reprise ended while attempt ${record.attempt ?? 0} was starting, and nothing shows whether the agent got the message`;
  return { do: "unsure", reason };
}
