/**
 * When an entry may be tried at the earliest. Pure: every time is reckoned from something that was recorded, never from
 * now, so a delay ends.
 */
import type { Trouble } from "../core/events.ts";
import type { PolicyEntry } from "../core/runbook.ts";
import type { Occurrence } from "./occurrence.ts";
import type { Decided } from "./counts.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** A reset that is further away than this is not waited for. */
export const LONGEST_WAIT_MS = 8 * 24 * HOUR;
/** What an engine that names no reset is given: after the first failure, the second, … */
const BACKOFF_MS = [15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR];
const RESTART_MS = 5 * SECOND;
const LONGEST_RESTART_MS = 15 * MINUTE;
/** What was recorded and lies further ahead than this was recorded by another clock than today's. */
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

/** A time of a clock that has been set back since counts as long past: nobody waits for it. */
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

/** An idle agent is due ahead of time by `idle_after`, so its beginning is what is believed or not. */
export function dueAt({ sinceMs, dueMs }: Occurrence, now: number): number {
  return plausibleTime(sinceMs, now) === sinceMs ? dueMs : Number.NEGATIVE_INFINITY;
}

type Recorded = Omit<DelayFacts, "now">;

/** Null: none is named, or one that had passed already when it was named. */
export function resetOf(trouble: Trouble | null, sinceMs: number): number | null {
  const reset = trouble?.resetsAt === undefined ? Number.NaN : Date.parse(trouble.resetsAt);
  return Number.isFinite(reset) && reset > sinceMs ? reset : null;
}

function afterReset({ occurrence, jitter }: Recorded): number {
  const reset = resetOf(occurrence.trouble, occurrence.sinceMs);
  return reset === null ? Number.NEGATIVE_INFINITY : reset + MINUTE + jitter * 2 * MINUTE;
}

/** The backoff, unless the engine or the runbook says how long. */
function limitDelay({ occurrence, entry, tries, jitter }: Recorded): number {
  if (entry.cooldownMs > 0 || resetOf(occurrence.trouble, occurrence.sinceMs) !== null) return 0;
  const step = BACKOFF_MS[Math.min(tries.length, BACKOFF_MS.length - 1)] ?? 0;
  return step * (1 + 0.2 * jitter);
}

/** The first restart comes at once, the others ever later. */
function restartDelay({ restarts, jitter }: Recorded): number {
  if (restarts.length === 0) return 0;
  const delay = Math.min(RESTART_MS * 2 ** (restarts.length - 1), LONGEST_RESTART_MS);
  return delay * (0.8 + 0.4 * jitter);
}

/** A number in [0, 1) that is the same each time it is asked for: a wait must not move while it lasts. */
export function jitterOf(runId: string, attempt: number): number {
  let hash = 0x81_1c_9d_c5;
  for (const letter of `${runId}/${attempt}`) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01_00_01_93) >>> 0;
  }
  return hash / 2 ** 32;
}
