/**
 * How an attempt ended: facts in, one outcome out.
 *
 * The engine's own terminal event decides. Exit code 0 is not success: several engines exit 0 after a signal,
 * an empty answer or a rejected permission. Without a terminal event the attempt is interrupted.
 */
import type { Exit, Outcome, OutcomeResult, Trouble } from "../../core/events.ts";

/** Why Reprise itself ended the agent. */
export type StopReason =
  | { readonly by: "user" }
  | { readonly by: "signal"; readonly signal: "SIGTERM" | "SIGHUP" }
  | { readonly by: "deadline"; readonly what: string }
  | { readonly by: "storage"; readonly what: string }
  /** The engine opened a session that another live attempt is in. */
  | { readonly by: "busy"; readonly what: string };

export interface AttemptFacts {
  /** stdout was machine-readable, so a finished turn would have shown its terminal event. */
  readonly structured: boolean;
  readonly interactive: boolean;
  readonly exit: Exit;
  readonly turnEnd: {
    readonly result: "completed" | "failed" | "interrupted";
    readonly trouble?: Trouble;
  } | null;
  readonly stop: StopReason | null;
  /** What the engine's last words explain, when there was no terminal event. */
  readonly explained: Trouble | null;
  /** The id that the resume asked for and the different id that the engine answered with. Null: the same id (I4). */
  readonly diverged: { readonly asked: string; readonly reported: string } | null;
}

export function judge(facts: AttemptFacts): Outcome {
  if (facts.diverged !== null) return diverged(facts.diverged);
  // A second writer in a conversation is a failure, however its turn ended.
  if (facts.stop?.by === "busy") return stopped(facts.stop, null);
  if (facts.turnEnd?.result === "completed") return { result: "completed", reason: "the turn was completed" };
  if (facts.stop !== null) return stopped(facts.stop, facts.turnEnd?.trouble ?? facts.explained);
  if (facts.turnEnd !== null) return ended(facts.turnEnd.result, facts.turnEnd.trouble ?? facts.explained);
  if (facts.exit.signal !== null) {
    return withTrouble("interrupted", `the agent was killed by ${facts.exit.signal}`, facts.explained);
  }
  if (facts.structured && !facts.interactive) return unfinished(facts);
  if (facts.exit.code === 0) return { result: "completed", reason: "the agent ended with exit code 0" };
  return withTrouble(
    "failed",
    `the agent ended with exit code ${facts.exit.code ?? "unknown"}`,
    facts.explained,
  );
}

/** Reprise's exit code for an outcome. The attempt's record has the native one. */
export function exitCodeFor(outcome: Outcome, stop: StopReason | null): number {
  switch (outcome.result) {
    case "completed":
      return 0;
    case "cancelled":
      return 130;
    case "diverged":
      return 1;
    case "interrupted":
    case "failed":
      if (stop?.by === "signal") return stop.signal === "SIGTERM" ? 143 : 129;
      if (stop?.by === "storage") return 7;
      return exitCodeOfTrouble(outcome.trouble);
  }
}

function exitCodeOfTrouble(trouble: Trouble | undefined): number {
  switch (trouble?.kind) {
    case "rate_limited":
    case "overloaded":
    case "network":
      return 75;
    case "auth":
      return 8;
    case "session_lost":
      return 3;
    case "session_busy":
      return 4;
    case "quota":
    case "context_full":
    case "usage":
    case "other":
    case undefined:
      return 1;
  }
}

function diverged(ids: { readonly asked: string; readonly reported: string }): Outcome {
  return {
    result: "diverged",
    reason: `the engine answered in another conversation: asked for ${ids.asked}, got ${ids.reported}`,
  };
}

function stopped(stop: StopReason, trouble: Trouble | null): Outcome {
  switch (stop.by) {
    case "user":
      return { result: "cancelled", reason: "stopped by the user" };
    case "signal":
      return { result: "interrupted", reason: `Reprise was ended by ${stop.signal}` };
    case "deadline":
      return withTrouble("interrupted", stop.what, trouble);
    case "storage":
      return { result: "interrupted", reason: stop.what };
    case "busy":
      return { result: "failed", reason: stop.what, trouble: { kind: "session_busy", message: stop.what } };
  }
}

function ended(result: "completed" | "failed" | "interrupted", trouble: Trouble | null): Outcome {
  const reason =
    result === "failed" ? "the engine reported a failed turn" : "the engine reported an interrupted turn";
  return withTrouble(result, reason, trouble);
}

function unfinished(facts: AttemptFacts): Outcome {
  const code = `exit code ${facts.exit.code ?? "unknown"}`;
  return facts.explained === null
    ? { result: "interrupted", reason: `the agent ended (${code}) without finishing its turn` }
    : withTrouble("failed", `the agent ended (${code}) before its turn was finished`, facts.explained);
}

function withTrouble(result: OutcomeResult, reason: string, trouble: Trouble | null): Outcome {
  return trouble === null ? { result, reason } : { result, reason, trouble };
}
