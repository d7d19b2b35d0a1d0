/** The limit that ended the last attempt of a run, and the words for it. Pure. */
import type { AttemptRecord, UsedAttempt } from "./records.ts";

/** `resetsAt`: ISO 8601, UTC. Null: the engine named no time. */
export type RunLimit = NonNullable<UsedAttempt["limit"]>;

/** Null: something else ended the attempt, or it has not ended. */
export function limitOf(attempt: Pick<AttemptRecord, "outcome"> | undefined): RunLimit | null {
  const trouble = attempt?.outcome?.trouble;
  if (trouble?.kind !== "rate_limited" && trouble?.kind !== "quota") return null;
  return { kind: trouble.kind, resetsAt: trouble.resetsAt ?? null };
}

/** How a state is shown: in its column, and with what else fits. */
interface LimitWords {
  readonly state: "limited" | "limit ended";
  /** Time until the end: `6 h`. Empty: over, or unknown. */
  readonly left: string;
  /** `resets in 6 h`, `ended 2 h ago, can go on`. Empty: the end is unknown. */
  readonly next: string;
  /** The whole state: `limited, resets in 6 h`, `limit ended 2 h ago`. */
  readonly text: string;
}

export function limitWords({ resetsAt }: RunLimit, nowMs: number): LimitWords {
  const ms = Date.parse(resetsAt ?? "") - nowMs;
  if (Number.isNaN(ms)) return { state: "limited", left: "", next: "", text: "limited" };
  const span = roughly(Math.abs(ms));
  if (ms > 0)
    return { state: "limited", left: span, next: `resets in ${span}`, text: `limited, resets in ${span}` };
  return {
    state: "limit ended",
    left: "",
    next: `limit ended ${span} ago, can go on`,
    text: `limit ended ${span} ago`,
  };
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The nearest number of the unit that people would use. */
function roughly(ms: number): string {
  if (ms < MINUTE) return `${Math.ceil(ms / SECOND)} s`;
  if (ms < 59.5 * MINUTE) return `${Math.round(ms / MINUTE)} m`;
  if (ms < 2 * DAY) return `${Math.round(ms / HOUR)} h`;
  return `${Math.round(ms / DAY)} d`;
}
