/**
 * When a limit ends, from the words of a CLI that are meant for people.
 *
 * A wrong time is worse than none: what can be read in two ways gives null. Every pattern is bounded, so that
 * hostile text costs linear time.
 */

/** Longer texts are cut: no CLI hides a time that deep. */
const MAX_TEXT = 4_000;
const MAX_AHEAD_MS = 35 * 86_400_000;
/** A clock time that has just passed may mean this minute or tomorrow. */
const JUST_PASSED_MS = 5 * 60_000;

/**
 * ISO 8601 in UTC, later than `nowMs` and at most 35 days ahead; null when the text names no such time for certain.
 * Clock times without a zone are local: of the machine, or of `utcOffsetMinutes` (east is positive).
 */
export function resetTime(text: string, nowMs: number, utcOffsetMinutes?: number): string | null {
  const cut = text.slice(0, MAX_TEXT);
  const local: Zone = utcOffsetMinutes === undefined ? { machine: true } : { offset: utcOffsetMinutes };
  if (!/reset|again|retry|until|limit|available|wait/i.test(cut)) return null;
  const all = [
    retryAfter(cut, nowMs),
    isoTime(cut, nowMs),
    epoch(cut, nowMs),
    duration(cut, nowMs),
    clockTime(cut, nowMs, local),
  ].filter((time) => time !== null);
  const [found] = all;
  // Several ways of saying it must agree; a clock time is rounded to its minute.
  if (found === undefined || !all.every((time) => Math.abs(time - found) < 60_000)) return null;
  if (found <= nowMs || found > nowMs + MAX_AHEAD_MS) return null;
  return new Date(found).toISOString();
}

type Zone = { readonly machine: true } | { readonly offset: number } | { readonly name: string };

/** The header, as CLIs quote it: seconds, or an HTTP date. */
function retryAfter(text: string, nowMs: number): number | null {
  const match =
    /\bretry[-_ ]after(?:[-_ ](ms|seconds|secs?))?["']?\s{0,4}[:=]?\s{0,4}["']?([^\n]{1,40})/i.exec(text);
  const value = match?.[2] ?? "";
  const seconds = /^(\d{1,9}(?:\.\d{1,6})?)(?![\d:/-])\s{0,2}(ms|m|h)?\b/i.exec(value);
  if (seconds !== null) {
    const unit = seconds[2]?.toLowerCase() ?? (match?.[1]?.toLowerCase() === "ms" ? "ms" : "s");
    return nowMs + Number(seconds[1]) * (UNIT_MS[unit] ?? 1000);
  }
  const date = /^(?:[A-Z][a-z]{2}, )(\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT/.exec(value);
  return date === null ? null : Date.parse(date[0]);
}

/** A full date and time with a zone; without one it is not certain whose time it is. Log lines name the past. */
function isoTime(text: string, nowMs: number): number | null {
  const dates =
    /\b(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?) ?(Z|UTC|GMT|[+-]\d{2}:?\d{2})/g;
  const times = [...text.matchAll(dates)].map(([, day = "", clock = "", zone = ""]) =>
    Date.parse(`${day}T${clock}${/^[+-]/.test(zone) ? zone : "Z"}`),
  );
  return onlyOne(times.filter((time) => time > nowMs));
}

/** Seconds or milliseconds since 1970, only beside a word that says what the number is. */
function epoch(text: string, nowMs: number): number | null {
  const named = /(?:reset|resets|retry|limit|again|until|available)[^\d\n]{0,40}?\b(\d{10}|\d{13})\b/gi;
  const times = [...text.matchAll(named)].map(([, digits = ""]) =>
    digits.length === 10 ? Number(digits) * 1000 : Number(digits),
  );
  // A number that lies in the past or far ahead is something else: an id, a size.
  return onlyOne(times.filter((time) => time > nowMs - MAX_AHEAD_MS && time < nowMs + 2 * MAX_AHEAD_MS));
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const AMOUNT = String.raw`\d{1,6}(?:\.\d{1,3})?\s{0,2}(?:milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b`;
const DURATION = new RegExp(
  String.raw`\b(?:in|after|wait|for another)(?: about| approximately| around)? {1,2}(${AMOUNT}(?:(?:,? and |, | )?${AMOUNT}){0,3})`,
  "gi",
);

/** "in 2 hours 5 minutes", "after 20h18m3s". */
function duration(text: string, nowMs: number): number | null {
  // Units written together ("20h18m") have no word boundary between them; a space makes one.
  const spaced = text.replace(/(\d[hmsd])(?=\d)/gi, "$1 ");
  if (!/reset|retry|again|limit|quota|wait|available/i.test(spaced)) return null;
  const lengths = [...spaced.matchAll(DURATION)].map(([, amounts = ""]) => {
    let total = 0;
    for (const [, count = "", unit = ""] of amounts.matchAll(
      /(\d{1,6}(?:\.\d{1,3})?)\s{0,2}([a-z]{1,12})/gi,
    )) {
      const short = /^(ms|milli)/i.test(unit) ? "ms" : unit.charAt(0).toLowerCase();
      total += Number(count) * (UNIT_MS[short] ?? Number.NaN);
    }
    return nowMs + total;
  });
  return onlyOne(lengths);
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAY = String.raw`(?:(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.? {1,2}(\d{1,2})(?:st|nd|rd|th)?(?:,? {1,2}(\d{4}))?(?:,| at|,? )? {0,2})?`;
const CLOCK = String.raw`(\d{1,2})(?::(\d{2}))?(?: ?([ap])\.?m\b\.?)?`;
const ZONE = String.raw`(?: {0,2}\(?(UTC|GMT|[A-Z][A-Za-z_]{2,20}/[A-Za-z_+\-/0-9]{2,40})\)?)?`;
const AT = new RegExp(
  String.raw`\b(?:again|reset|resets|available|until|retry)(?: (?:again|at|on|after|until|by|tomorrow at)){0,2}:? {1,2}(tomorrow,? (?:at )?)?${DAY}${CLOCK}${ZONE}`,
  "gi",
);

/** "try again at 3:36 AM", "resets 9pm (Europe/Berlin)", "resets at Nov 16, 3:00 PM". */
function clockTime(text: string, nowMs: number, local: Zone): number | null {
  return onlyOne(
    [...text.matchAll(AT)].flatMap((match) => {
      const [, tomorrow, month, day, year, hours = "", minutes, half, zoneName] = match;
      // A bare number is no clock time: "resets 3", "reset after 20h".
      if (minutes === undefined && half === undefined) return [];
      const zone: Zone = zoneName === undefined ? local : { name: zoneName };
      const hour = hourOf(Number(hours), half?.toLowerCase(), minutes !== undefined);
      if (hour === null || Number(minutes ?? 0) > 59 || tomorrow !== undefined) return Number.NaN;
      if (zoneName === undefined && /^ ?(?:\(|[A-Z]{3,5}\b)/.test(text.slice(match.index + match[0].length)))
        return Number.NaN;
      const clock = { hour, minute: Number(minutes ?? 0) };
      if (month === undefined || day === undefined) return nextClock(clock, nowMs, zone);
      return onDate(
        {
          month: MONTHS.indexOf(month.slice(0, 3).toLowerCase()),
          day: Number(day),
          year: year === undefined ? null : Number(year),
          ...clock,
        },
        nowMs,
        zone,
      );
    }),
  );
}

/** 24-hour clocks need minutes ("15:00"), 12-hour clocks need am or pm. */
function hourOf(hour: number, half: string | undefined, hasMinutes: boolean): number | null {
  if (half === undefined) return hasMinutes && hour <= 23 && (hour > 12 || hour === 0) ? hour : null;
  if (hour < 1 || hour > 12) return null;
  return (hour % 12) + (half === "p" ? 12 : 0);
}

interface Wall {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
}

function nextClock(clock: { hour: number; minute: number }, nowMs: number, zone: Zone): number {
  const offset = offsetAt(nowMs, zone);
  if (offset === null) return Number.NaN;
  const here = new Date(nowMs + offset * 60_000);
  const day = (ahead: number) =>
    fromWall(
      { year: here.getUTCFullYear(), month: here.getUTCMonth(), day: here.getUTCDate() + ahead, ...clock },
      zone,
    );
  const today = day(0);
  if (today > nowMs) return today;
  return nowMs - today < JUST_PASSED_MS ? Number.NaN : day(1);
}

function onDate(
  date: Omit<Wall, "year"> & { readonly year: number | null },
  nowMs: number,
  zone: Zone,
): number {
  if (date.month < 0 || date.day < 1 || date.day > 31) return Number.NaN;
  if (date.year !== null) return fromWall({ ...date, year: date.year }, zone);
  // Without a year: the one that puts it ahead of now, and not far.
  const thisYear = new Date(nowMs).getUTCFullYear();
  const times = [thisYear - 1, thisYear, thisYear + 1].map((year) => fromWall({ ...date, year }, zone));
  return times.find((time) => time > nowMs && time <= nowMs + MAX_AHEAD_MS) ?? Number.NaN;
}

/** The moment when a wall clock in that zone shows this. NaN: a day that does not exist, a zone that is unknown. */
function fromWall({ year, month, day, hour, minute }: Wall, zone: Zone): number {
  const asUtc = Date.UTC(year, month, day, hour, minute);
  const first = offsetAt(asUtc, zone);
  if (first === null) return Number.NaN;
  const second = offsetAt(asUtc - first * 60_000, zone);
  return second === null ? Number.NaN : asUtc - second * 60_000;
}

function offsetAt(atMs: number, zone: Zone): number | null {
  if ("offset" in zone) return zone.offset;
  if ("machine" in zone) return -new Date(atMs).getTimezoneOffset();
  try {
    const text = new Intl.DateTimeFormat("en-US", { timeZone: zone.name, timeZoneName: "longOffset" }).format(
      atMs,
    );
    const match = /GMT(?:([+-])(\d{2}):(\d{2}))?/.exec(text);
    if (match === null) return null;
    const [, sign, hours = "0", minutes = "0"] = match;
    return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  } catch {
    // Intl throws for a zone it does not know.
    return null;
  }
}

/** Texts often repeat the time; two different ones are ambiguous. */
function onlyOne(times: readonly number[]): number | null {
  const [first] = times;
  if (first === undefined) return null;
  return times.every((time) => time === first) ? first : Number.NaN;
}
