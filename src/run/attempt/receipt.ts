/** The proof of a resume: which session was asked for, which one the engine reported, and what that is worth. */
import type { AttemptKind, Receipt } from "../../core/records.ts";
import type { Command } from "../../engines/engine.ts";
import type { AttemptEnd } from "./job.ts";

export type RestoredCopy = NonNullable<Receipt["restoredCopy"]>;

interface Continued {
  readonly kind: AttemptKind;
  readonly command: Command;
  readonly continues: { readonly session: string; readonly restored: RestoredCopy | null };
  readonly at: string;
}

/** The proof of an attempt that continued a conversation. */
export function receiptFor(end: AttemptEnd, continued: Continued): Receipt {
  const { attempt, run } = end;
  const { session, restored } = continued.continues;
  const { lacks = [] } = attempt.restored ?? {};
  return {
    v: 1,
    runId: run.runId,
    attempt: attempt.n,
    asked: session,
    reported: end.reported,
    verified: proofOf(end, continued.kind, session),
    cwd: attempt.cwd,
    engineVersion: attempt.engineVersion,
    restoredFromEscrow: restored !== null,
    ...(restored === null ? {} : { restoredCopy: restored }),
    ...(lacks.length === 0 ? {} : { lacks }),
    options: continued.command.options,
    at: continued.at,
  };
}

function proofOf(
  { attempt, reported, wrote }: AttemptEnd,
  kind: AttemptKind,
  asked: string,
): Receipt["verified"] {
  if (attempt.outcome?.result === "diverged") return "diverged";
  if (reported === null) return "not_verified";
  if (kind === "fork") return "forked";
  if (reported !== asked) return "not_verified";
  const source = attempt.reported.find((one) => one.value === reported)?.source;
  if (source !== "store") return "engine_reported";
  // A UI that opened the conversation and was closed without a message has not continued it.
  return wrote ? "store_confirmed" : "not_verified";
}
