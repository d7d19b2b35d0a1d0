/** The result of a turn from the outcome of its attempt, and the status that its session gets. Pure. */
import type { Outcome } from "../core/events.ts";
import type { FaultCode } from "../core/faults.ts";
import type { AttemptResult } from "../run/run.ts";
import type { TurnResult } from "./review.ts";

export interface ReviewTurnFacts {
  readonly handle: string;
  readonly resumed: boolean;
  /** Codex has received the comments. */
  readonly started: boolean;
  readonly discarded: boolean;
}

/** Troubles that mean that Codex will not continue this conversation. */
const REFUSING: ReadonlySet<string> = new Set(["session_lost", "session_busy", "usage", "other"]);
export const GONE: ReadonlySet<FaultCode> = new Set(["session_lost", "session_unknown", "session_damaged"]);
export const STORAGE: ReadonlySet<FaultCode> = new Set(["storage_full", "storage_failed"]);
/** Faults that block this conversation but not a fresh one. */
export const UNCONTINUABLE: ReadonlySet<FaultCode> = new Set([
  "cwd_missing",
  "engine_home_missing",
  "handle_unknown",
  "option_unkept",
  "record_damaged",
  "run_busy",
  "run_dir_missing",
  "session_busy",
  "session_damaged",
  "session_lost",
  "session_unknown",
  "would_widen",
]);

export function resultOf({ attempt, exitCode }: AttemptResult, facts: ReviewTurnFacts): TurnResult {
  const outcome: Outcome = attempt.outcome ?? { result: "failed", reason: "the turn has no outcome" };
  const status = statusOf(outcome, facts.discarded);
  const { trouble } = outcome;
  const reason =
    status === "completed"
      ? "Codex execution completed"
      : trouble === undefined
        ? outcome.reason
        : `${outcome.reason}: ${trouble.message}`;
  // Codex did not resume the conversation, and nothing was sent.
  const refused = isUnsent(facts, outcome) && REFUSING.has(trouble?.kind ?? "other");
  const { resetsAt } = trouble ?? {};
  const as = trouble?.kind === "session_lost" || trouble?.kind === "session_busy" ? trouble.kind : null;
  return {
    status,
    reason,
    handle: facts.handle,
    exitCode,
    refused: refused ? (trouble?.message ?? reason) : null,
    ...(refused && as !== null ? { refusedAs: as } : {}),
    ...(resetsAt === undefined ? {} : { resetsAt }),
  };
}

/** If Codex received nothing, the session keeps its status, unless Codex has lost the session. */
export function sessionStatus(
  { status, refusedAs }: TurnResult,
  facts: ReviewTurnFacts,
  outcome: Outcome | null,
): TurnResult["status"] {
  if (!isUnsent(facts, outcome) || status === "cancelled") return status;
  return refusedAs === "session_lost" ? "failed" : "interrupted";
}

/** A resume failed before Codex got the comments. */
function isUnsent({ resumed, started }: ReviewTurnFacts, outcome: Outcome | null): boolean {
  return resumed && !started && outcome?.result === "failed";
}

function statusOf({ result }: Outcome, discarded: boolean): TurnResult["status"] {
  switch (result) {
    case "completed":
      return "completed";
    case "failed":
    case "diverged":
      return discarded ? "cancelled" : "failed";
    case "interrupted":
    case "cancelled":
      return discarded ? "cancelled" : "interrupted";
  }
}
