/**
 * When a limit ends, from a field (`retryAfter`, `moment`) or from a CLI's prose (`resetTime`). No other file reads
 * such times.
 *
 * A wrong time is worse than no time: ambiguous text gives null. Every pattern is bounded, so hostile text costs linear
 * time.
 */

/** Longer texts are cut: no CLI prints a time that deep. */
const MAX_TEXT = 4_000;
const DAY_MS = 86_400_000;
const MAX_AHEAD_MS = 35 * DAY_MS;
/** A clock time that has just passed may mean this minute or tomorrow. */
const JUST_PASSED_MS = 5 * 60_000;
/** Durations that differ by less are the same duration, rounded. */
const SAME_MS = 1_000;

/**
 * ISO 8601 in UTC, later than `nowMs` and at most 35 days ahead; null if the text names no such time clearly. Clock
 * times without a zone are local to the machine, or to `utcOffsetMinutes` (east is positive).
 */
export function resetTime(text: string, nowMs: number, utcOffsetMinutes?: number): string | null {
  const cut = text.slice(0, MAX_TEXT);
  const local: Zone = utcOffsetMinutes === undefined ? { machine: true } : { offset: utcOffsetMinutes };
  if (!/reset|again|retry|until|limit|available|wait|refresh/i.test(cut)) return null;
  const all = [
    quotedHeader(cut, nowMs),
    waitField(cut, nowMs),
    isoTime(cut, nowMs),
    epoch(cut, nowMs),
    duration(cut, nowMs),
    clockTime(cut, nowMs, local),
  ].filter((time) => time !== null);
  const [found] = all;
  // Several phrasings in one text must agree; a clock time is rounded to its minute.
  if (found === undefined || !all.every((time) => Math.abs(time - found) < 60_000)) return null;
  // "retry in 34.07s" and "retry after 34s" in one text: the longer one is exact.
  return believable(Math.max(...all.filter((time) => time - found < SAME_MS)), nowMs);
}

/** HTTP `retry-after`: seconds from now, or a date. Returns milliseconds since 1970, possibly in the past. */
export function retryAfter(value: string, nowMs: number): number | null {
  const text = value.trim();
  if (/^\d{1,9}(?:\.\d{1,6})?$/.test(text)) return nowMs + Number(text) * 1000;
  const date = HTTP_DATE.exec(text);
  return date === null ? null : Date.parse(date[0]);
}

/** Seconds or milliseconds since 1970, or ISO 8601 with a zone. Returns milliseconds, possibly in the past. */
export function moment(value: unknown): number | null {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : "";
  if (/^\d{9,10}(?:\.\d{1,9})?$/.test(text)) return Number(text) * 1000;
  if (/^\d{12,13}$/.test(text)) return Number(text);
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

/** ISO 8601 if the moment is ahead and believable, as in `resetTime`; otherwise null. */
export function believable(atMs: number | null, nowMs: number): string | null {
  return atMs === null || !(atMs > nowMs && atMs <= nowMs + MAX_AHEAD_MS)
    ? null
    : new Date(atMs).toISOString();
}

const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT/;

type Zone = { readonly machine: true } | { readonly offset: number } | { readonly name: string };

/** `retry-after` as CLIs quote it in prose. */
function quotedHeader(text: string, nowMs: number): number | null {
  const match =
    /\bretry[-_ ]after(?:[-_ ](ms|seconds|secs?))?["']?\s{0,4}[:=]?\s{0,4}["']?([^\n]{1,40})/i.exec(text);
  const value = match?.[2] ?? "";
  const number = /^\d{1,9}(?:\.\d{1,6})?(?![\d:/-]|[.,]\d)/.exec(value);
  if (number === null) return retryAfter(HTTP_DATE.exec(value)?.[0] ?? "", nowMs);
  const spaced = value.replace(WRITTEN_TOGETHER, "$1 ");
  const length = LENGTH.exec(spaced)?.[0];
  if (length !== undefined) return nowMs + lengthOf(length, spaced.slice(length.length));
  // "retry after 2 attempts" counts something else.
  if (/^\s{0,2}[a-z]/i.test(value.slice(number[0].length))) return null;
  return nowMs + Number(number[0]) * (match?.[1]?.toLowerCase() === "ms" ? 1 : 1000);
}

/** `"resets_in_seconds": 61511`, `"retryDelay": "47s"`, `retryDelayMs: 3600000`, `"quotaResetDelay": "373.8ms"`. */
function waitField(text: string, nowMs: number): number | null {
  const fields =
    /\b(?:resets?_in|reset_after|retry_in|retry_?delay|quota_?reset_?delay)(_?ms|_?seconds)?["']?\s{0,4}[:=]\s{0,4}["']?(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h)?(?![\w:])/gi;
  const times = [...text.matchAll(fields)].flatMap(([, suffix = "", count = "", written]) => {
    const named = /ms/i.test(suffix) ? "ms" : /seconds/i.test(suffix) ? "s" : undefined;
    const unit = written?.toLowerCase() ?? named;
    // A number without a unit could be either.
    return unit === undefined ? [] : [nowMs + Number(count) * (UNIT_MS[unit] ?? Number.NaN)];
  });
  return onlyOne(times);
}

/** Precedes the time of something else: a token, a build, a file. */
const OF_SOMETHING_ELSE = /\b(?:expir|valid|start|creat|issued|began|begins)[^\n;]{0,24}$/i;

/** A full date and time with a zone. A log line begins with such a time, which is not a reset time. */
function isoTime(text: string, nowMs: number): number | null {
  // A time without a zone is ambiguous, and then the rest of the text is about something else.
  if (
    /\b(?:resets?|again|until|available|access)(?: (?:at|on|after))? \d{4}-\d{2}-\d{2}(?:T| at | )\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?! ?(?:Z|UTC|GMT|[+-]\d{2}|[\d:.]))/.test(
      text,
    )
  )
    return Number.NaN;
  const dates =
    /\b(\d{4}-\d{2}-\d{2})(?:T| at | )(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?) ?(Z|UTC|GMT|[+-]\d{2}:?\d{2})/g;
  const times = [...text.matchAll(dates)].flatMap(({ index, 1: day = "", 2: clock = "", 3: zone = "" }) =>
    OF_SOMETHING_ELSE.test(text.slice(Math.max(0, index - 24), index))
      ? []
      : [Date.parse(`${day}T${clock}${/^[+-]/.test(zone) ? zone : "Z"}`)],
  );
  return onlyOne(times.filter((time) => time > nowMs));
}

/** Between the word and the number: the number is a count or an id. */
const OF_AN_ID =
  /(?:\b|_)(?:ids?|requests?|org|organization|account|user|project|trace|session|bytes|tokens?|of)(?:\b|_)/i;

/** Seconds or milliseconds since 1970, only next to a word that marks the number as a time. */
function epoch(text: string, nowMs: number): number | null {
  const named = /(?:reset|resets|retry|limit|again|until|available)([^\d\n]{0,40}?)\b(\d{10}|\d{13})\b/gi;
  const times = [...text.matchAll(named)].flatMap(([, between = "", digits = ""]) =>
    OF_AN_ID.test(between) ? [] : [digits.length === 10 ? Number(digits) * 1000 : Number(digits)],
  );
  // A number in the past or far ahead is an id or a size.
  return onlyOne(times.filter((time) => time > nowMs - MAX_AHEAD_MS && time < nowMs + 2 * MAX_AHEAD_MS));
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const AMOUNT = String.raw`\d{1,6}(?:\.\d{1,9})?\s{0,2}(?:milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b`;
const AMOUNTS = String.raw`${AMOUNT}(?:(?:,? and |, |\s)?${AMOUNT}){0,3}`;
const LENGTH = new RegExp(`^${AMOUNTS}`, "i");
/**
 * "100 requests in 1 hour" and "timed out after 60s" are not waits: a wait needs a word for the coming event before it.
 */
const DURATION = new RegExp(
  String.raw`\b(?:(?:again|resets?|refresh(?:es)?|retry|retrying|available|access|allowed)(?: (?:again|your|the|this|request|it|access|only|automatically)){0,3} (?:in|after)|(?<!max |maximum )wait(?: for)?|for another)(?: about| approximately| around)?\s{1,2}(${AMOUNTS})`,
  "gi",
);
/** Units written together ("20h18m") have no word boundary between them; a space makes one. */
const WRITTEN_TOGETHER = /(\d[hmsd])(?=\d)/gi;
/** After a duration: more of it, another one, or the past. */
const MORE = /^(?:,? ?(?:and |or |to )?\d| ?[-–(] ?[\ds]|,? (?:or|to|ago)\b)/i;

/** "in 2 hours 5 minutes", "after 20h18m3s". */
function duration(text: string, nowMs: number): number | null {
  const spaced = text.replace(WRITTEN_TOGETHER, "$1 ");
  const times = [...spaced.matchAll(DURATION)].map(
    (match) => nowMs + lengthOf(match[1] ?? "", spaced.slice(match.index + match[0].length)),
  );
  const latest = Math.max(...times);
  return onlyOne(times.map((time) => (latest - time < SAME_MS ? latest : time)));
}

/** In milliseconds. NaN: the following text shows that the duration continues. */
function lengthOf(amounts: string, behind: string): number {
  if (MORE.test(behind)) return Number.NaN;
  let total = 0;
  for (const [, count = "", unit = ""] of amounts.matchAll(/(\d{1,6}(?:\.\d{1,9})?)\s{0,2}([a-z]{1,12})/gi)) {
    const short = /^(ms|milli)/i.test(unit) ? "ms" : unit.charAt(0).toLowerCase();
    total += Number(count) * (UNIT_MS[short] ?? Number.NaN);
  }
  return total;
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DAY = String.raw`(?:(tomorrow|(?:mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?)\.?,?(?: at)?\s{1,2})?(?:(${MONTHS.join("|")})[a-z]{0,6}\.?\s{1,2}(\d{1,2})(?:st|nd|rd|th)?(?:,?\s{1,2}(\d{4}))?(?:,? at|,)?\s{1,2})?`;
const CLOCK = String.raw`(\d{1,2})(?::(\d{2}))?(?: ?([ap])\.?m\b\.?)?`;
const ZONE = String.raw`(?: {0,2}\(?((?:UTC|GMT)(?:[+-]\d{1,2}(?::?\d{2})?)?\b|P[SD]T\b|[A-Z][A-Za-z_]{2,20}/[A-Za-z_+\-/0-9]{2,40})\)?)?`;
const AT = new RegExp(
  String.raw`\b(?:again|reset|resets|available|until|retry)(?: (?:again|at|on|after|until|by)){0,2}:?\s{1,2}${DAY}${CLOCK}${ZONE}`,
  "gi",
);
/** After a clock time: the end of the text or the next sentence. Anything else may be its day or zone. */
const COMPLETE =
  /^(?:\s*$|[.!;…"'`*)}\]\\]|\s{0,3}[·∙•|—–]|,?\s{1,3}(?:or (?!\d)|and (?!\d)|to |if |when |with |(?:your )?(?:local )?time\b|[Pp]lease |[Uu]pgrade |[Vv]isit |[Ss]ee |[Uu]se )|\s{0,3}\n\s{0,9}(?![([]|[A-Z]{2,5}\b|[A-Z][A-Za-z_]{1,20}\/|on |tomorrow))/;
/** Before a clock time: an event of the past, or something that ends then. */
const NOT_AHEAD = /\b(?:was|were|been|got|just|last|valid|active|good|cached)\s{1,2}$/i;

function isReset(text: string, { index, 0: matched }: RegExpExecArray): boolean {
  const before = text.slice(Math.max(0, index - 24), index);
  if (/^available until/i.test(matched) && !/(?:not|n't)(?: be)? $/i.test(before)) return false;
  return !NOT_AHEAD.test(before) && COMPLETE.test(text.slice(index + matched.length));
}

/** "try again at 3:36 AM", "resets 9pm (Europe/Berlin)", "resets at Nov 16, 3:00 PM", "resets Thursday at 2pm". */
function clockTime(text: string, nowMs: number, local: Zone): number | null {
  return onlyOne(
    [...text.matchAll(AT)].flatMap((match) => {
      const [, name, month, day, year, hours = "", minutes, half, zoneName] = match;
      // A bare number is not a clock time: "resets 3", "reset after 20h".
      if (minutes === undefined && half === undefined) return [];
      const zone = zoneName === undefined ? local : zoneCalled(zoneName);
      const hour = hourOf(Number(hours), half?.toLowerCase(), minutes !== undefined);
      if (hour === null || Number(minutes ?? 0) > 59 || !isReset(text, match)) return Number.NaN;
      const clock = { hour, minute: Number(minutes ?? 0) };
      if (month === undefined || day === undefined) return nextClock(clock, name, { nowMs, zone });
      const date = {
        month: MONTHS.indexOf(month.slice(0, 3).toLowerCase()),
        day: Number(day),
        year: year === undefined ? null : Number(year),
        ...clock,
      };
      return onDate(date, nowMs, zone);
    }),
  );
}

/** `PST` and `GMT+5:30` are offsets; every other name may change its offset with the season. */
function zoneCalled(name: string): Zone {
  const upper = name.toUpperCase();
  if (upper === "PST" || upper === "PDT") return { offset: upper === "PST" ? -480 : -420 };
  const [, sign, hours = "0", minutes = "0"] = /^(?:UTC|GMT)([+-])(\d{1,2}):?(\d{2})?$/.exec(upper) ?? [];
  if (sign === undefined) return { name };
  return { offset: (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) };
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

/** `name`: tomorrow, or a day of the week including today. Undefined: the next time that a clock shows it. */
function nextClock(
  clock: { readonly hour: number; readonly minute: number },
  name: string | undefined,
  { nowMs, zone }: { readonly nowMs: number; readonly zone: Zone },
): number {
  const offset = offsetAt(nowMs, zone);
  if (offset === null) return Number.NaN;
  const here = new Date(nowMs + offset * 60_000);
  const day = (ahead: number) =>
    fromWall(
      { year: here.getUTCFullYear(), month: here.getUTCMonth(), day: here.getUTCDate() + ahead, ...clock },
      zone,
    );
  if (name?.toLowerCase() === "tomorrow") return day(1);
  const weekday = WEEKDAYS.indexOf(name?.slice(0, 3).toLowerCase() ?? "");
  const ahead = weekday === -1 ? 0 : (weekday - here.getUTCDay() + 7) % 7;
  const first = day(ahead);
  if (first > nowMs || Number.isNaN(first)) return first;
  return nowMs - first < JUST_PASSED_MS ? Number.NaN : day(weekday === -1 ? 1 : 7);
}

function onDate(
  date: Omit<Wall, "year"> & { readonly year: number | null },
  nowMs: number,
  zone: Zone,
): number {
  const inYear = (year: number) =>
    new Date(Date.UTC(year, date.month, date.day)).getUTCDate() === date.day
      ? fromWall({ ...date, year }, zone)
      : Number.NaN;
  if (date.year !== null) return inYear(date.year);
  // Without a year: the year that puts the date ahead of now, but not far.
  const thisYear = new Date(nowMs).getUTCFullYear();
  const times = [thisYear - 1, thisYear, thisYear + 1].map(inYear);
  return times.find((time) => time > nowMs && time <= nowMs + MAX_AHEAD_MS) ?? Number.NaN;
}

/** The one moment when a wall clock in that zone shows this. NaN: never, twice, or an unknown zone. */
function fromWall({ year, month, day, hour, minute }: Wall, zone: Zone): number {
  const asUtc = Date.UTC(year, month, day, hour, minute);
  const around = [asUtc - DAY_MS, asUtc + DAY_MS].map((at) => offsetAt(at, zone));
  const times = [...new Set(around)].flatMap((offset) => {
    if (offset === null) return [];
    const at = asUtc - offset * 60_000;
    return offsetAt(at, zone) === offset ? [at] : [];
  });
  const [only] = times;
  return only === undefined || times.length > 1 ? Number.NaN : only;
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

/** Texts often repeat the time; two different times are ambiguous. */
function onlyOne(times: readonly number[]): number | null {
  const [first] = times;
  if (first === undefined) return null;
  return times.every((time) => time === first) ? first : Number.NaN;
}
