/** A future moment in words, in local time. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `until 16:40 (in 23 min)`, with the date if it is another day: `until 2026-11-17 09:05 (in 16 h 25 min)`. */
export function untilText(atMs: number, nowMs: number): string {
  const [at, now] = [new Date(atMs), new Date(nowMs)];
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  const today = at.toDateString() === now.toDateString();
  return `until ${today ? "" : date}${clock} (${distance(atMs - nowMs)})`;
}

function distance(ms: number): string {
  if (ms <= 0) return "now";
  if (ms < MINUTE) return `in ${Math.ceil(ms / 1000)} s`;
  // Rounds up, so that the wait is over at the named time.
  const minutes = Math.ceil(ms / MINUTE);
  if (minutes < 60) return `in ${minutes} min`;
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  if (ms < 2 * DAY) return `in ${hours} h${rest === 0 ? "" : ` ${rest} min`}`;
  const [days, left] = [Math.floor(hours / 24), hours % 24];
  return `in ${days} d${left === 0 ? "" : ` ${left} h`}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
