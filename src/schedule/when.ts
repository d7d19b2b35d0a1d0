/** The moments that people name: `07:30`, `2026-11-19 07:30`, `+2h`. Pure. */
import { beginsWithDay, parseDuration } from "../lib/duration.ts";

const CLOCK = /^([01]?\d|2[0-3]):([0-5]\d)$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)[ T]([01]?\d|2[0-3]):([0-5]\d)$/;

/** In local time; a clock time is the next one. Null: not a moment. */
export function parseMoment(text: string, nowMs: number): number | null {
  const given = text.trim();
  if (given.startsWith("+")) {
    const ms = parseDuration(given.slice(1));
    return ms === null ? null : nowMs + ms;
  }
  const clock = CLOCK.exec(given);
  if (clock !== null) {
    const at = new Date(nowMs);
    at.setHours(Number(clock[1]), Number(clock[2]), 0, 0);
    // Not 24 hours: a day may have 23 or 25.
    if (at.getTime() <= nowMs) at.setDate(at.getDate() + 1);
    return at.getTime();
  }
  const date = DATE.exec(given);
  if (date !== null) {
    const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = date.slice(1).map(Number);
    return beginsWithDay(given) ? new Date(year, month - 1, day, hour, minute).getTime() : null;
  }
  const exact = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/.test(given);
  const ms = exact && beginsWithDay(given) ? Date.parse(given) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}
