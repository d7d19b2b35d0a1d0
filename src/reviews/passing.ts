/** Which ends of a turn are no end of its session: the cause passes, and the same conversation can go on. Pure. */
import type { Outcome, TroubleKind } from "../core/events.ts";
import type { Sidecar } from "./sidecar.ts";

const PASSING: ReadonlySet<TroubleKind> = new Set(["rate_limited", "quota", "overloaded", "network"]);

const WORDS: Readonly<Partial<Record<TroubleKind, string>>> = {
  rate_limited: "Codex was rate limited",
  quota: "the quota of Codex was used up",
  overloaded: "the model was overloaded",
  network: "the connection to the model failed",
  auth: "Codex was not logged in",
  context_full: "the conversation was too long for the model",
};

export function isPassing(outcome: Outcome | null | undefined): boolean {
  return outcome?.result === "failed" && PASSING.has(outcome.trouble?.kind ?? "other");
}

/** What a session is after a turn that ended like this. */
export function statusAfter(outcome: Outcome): Exclude<Sidecar["status"], "running"> {
  switch (outcome.result) {
    case "completed":
      return "completed";
    case "failed":
      return isPassing(outcome) ? "interrupted" : "failed";
    case "diverged":
      return "failed";
    case "interrupted":
    case "cancelled":
      return "interrupted";
  }
}

/** One sentence without its full stop. Untrusted. */
export function whyOf({ reason, trouble }: Outcome): string {
  if (trouble === undefined) return reason;
  return `${WORDS[trouble.kind] ?? reason}: ${trouble.message}`;
}
