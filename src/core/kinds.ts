/** The words that records and runbooks use for troubles, triggers and actions. Imports nothing, so that all may import it. */

/** Why an attempt went wrong. `rate_limited` has a known or near reset, `quota` has none. */
export const TROUBLE_KINDS = [
  "rate_limited",
  "overloaded",
  "auth",
  "quota",
  "network",
  "context_full",
  "session_lost",
  "session_busy",
  "usage",
  "other",
] as const;
export type TroubleKind = (typeof TROUBLE_KINDS)[number];

export const TRIGGERS = ["idle", "dead", "error", "prompt"] as const;
export type Trigger = (typeof TRIGGERS)[number];

export const ACTIONS = ["nudge", "done", "fail", "resume", "escalate", "gate"] as const;
export type ActionName = (typeof ACTIONS)[number];

/** The events that `[notify] events` may name. */
export const NOTICE_EVENTS = ["decision", "ended", "limit", "scheduled"] as const;

export const ERROR_MATCHES = [
  "rate_limited",
  "overloaded",
  "auth",
  "quota",
  "network",
  "context_full",
  "any",
] as const satisfies readonly (TroubleKind | "any")[];
export type ErrorMatch = (typeof ERROR_MATCHES)[number];
