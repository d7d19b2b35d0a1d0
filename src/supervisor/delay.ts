/**
 * The earliest time for a try of an entry. Pure. Every time derives from recorded times, never from now, so every delay
 * ends.
 */
import type { Trouble } from "../core/events.ts";
import type { PolicyEntry } from "../core/runbook.ts";
import type { Occurrence } from "./occurrence.ts";
import type { Decided } from "./counts.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Reprise does not wait for a reset that is further away. */
export const LONGEST_WAIT_MS = 8 * 24 * HOUR;
/** The waits for a limit without a reset time: after the first failure, the second, … */
const BACKOFF_MS = [15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR];
const RESTART_MS = 5 * SECOND;
const LONGEST_RESTART_MS = 15 * MINUTE;
/** A recorded time further in the future comes from a clock that was set back since. */
const SKEW_MS = MINUTE;

export interface DelayFacts {
  readonly now: number;
  readonly jitter: number;
  readonly occurrence: Occurrence;
  readonly entry: PolicyEntry;
  /** Earlier tries of this entry that still count. */
  readonly tries: readonly Decided[];
  /** Earlier restarts that still count, of any entry. */
  readonly restarts: readonly Decided[];
}

/** The time, or minus infinity if the clock was set back since it was recorded: Reprise never waits for such a time. */
export function plausibleTime(time: number, now: number): number {
  return time > now + SKEW_MS ? Number.NEGATIVE_INFINITY : time;
}

export function earliestTry({ now, ...facts }: DelayFacts): number {
  const { occurrence, entry, tries, restarts } = facts;
  const begin = dueAt(occurrence, now);
  const last = plausibleTime(tries.at(-1)?.at ?? begin, now);
  const times = [begin, Math.max(begin, last) + entry.cooldownMs];
  if (entry.action === "resume" && occurrence.trouble?.kind === "rate_limited") {
    times.push(begin + limitDelay(facts), afterReset(facts));
  } else if (entry.action === "resume") {
    const before = plausibleTime(restarts.at(-1)?.at ?? begin, now);
    times.push(Math.max(begin, before) + restartDelay(facts));
  }
  return Math.max(...times);
}

/** `dueMs` of an idle agent lies in the future by `idle_after`, so the plausibility check uses `sinceMs`. */
export function dueAt({ sinceMs, dueMs }: Occurrence, now: number): number {
  return plausibleTime(sinceMs, now) === sinceMs ? dueMs : Number.NEGATIVE_INFINITY;
}

type Recorded = Omit<DelayFacts, "now">;

/** Null: the engine named no reset, or a reset that had already passed. */
export function resetOf(trouble: Trouble | null, sinceMs: number): number | null {
  const reset = trouble?.resetsAt === undefined ? Number.NaN : Date.parse(trouble.resetsAt);
  return Number.isFinite(reset) && reset > sinceMs ? reset : null;
}

function afterReset({ occurrence, jitter }: Recorded): number {
  const reset = resetOf(occurrence.trouble, occurrence.sinceMs);
  return reset === null ? Number.NEGATIVE_INFINITY : reset + MINUTE + jitter * 2 * MINUTE;
}

/** The backoff, unless the engine or the runbook sets the time. */
function limitDelay({ occurrence, entry, tries, jitter }: Recorded): number {
  if (entry.cooldownMs > 0 || resetOf(occurrence.trouble, occurrence.sinceMs) !== null) return 0;
  const step = BACKOFF_MS[Math.min(tries.length, BACKOFF_MS.length - 1)] ?? 0;
  return step * (1 + 0.2 * jitter);
}

/** The first restart has no delay; each later one waits longer. */
function restartDelay({ restarts, jitter }: Recorded): number {
  if (restarts.length === 0) return 0;
  const delay = Math.min(RESTART_MS * 2 ** (restarts.length - 1), LONGEST_RESTART_MS);
  return delay * (0.8 + 0.4 * jitter);
}

/** A constant number in [0, 1) per attempt: a random one would move the end of a wait. */
export function jitterOf(runId: string, attempt: number): number {
  let hash = 0x81_1c_9d_c5;
  for (const letter of `${runId}/${attempt}`) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01_00_01_93) >>> 0;
  }
  return hash / 2 ** 32;
}
