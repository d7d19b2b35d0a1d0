import { assert, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { cpuMs } from "../../test/cpu.ts";
import { resetTime } from "./reset-time.ts";

const NOW = Date.parse("2026-11-15T02:30:00Z");

/** Local time is UTC unless the third item says how many minutes east. */
const cases: Record<string, [text: string, then: string | null, offset?: number]> = {
  "codex, same day": ["You’ve hit your usage limit. … or try again at 3:36 AM.", "2026-11-15T03:36:00.000Z"],
  "codex, same day, east": ["try again at 3:36 AM.", "2026-11-15T02:36:00.000Z", 60],
  "codex, same day, west": ["try again at 10:00 PM.", "2026-11-15T03:00:00.000Z", -300],
  "codex, other day": ["Try again at Nov 18th, 2026 5:08 AM.", "2026-11-18T05:08:00.000Z"],
  "claude, zone": ["You've hit your limit · resets 9pm (Europe/Berlin)", "2026-11-15T20:00:00.000Z"],
  "claude, zone in summer time elsewhere": ["resets 9am (Australia/Sydney)", "2026-11-15T22:00:00.000Z"],
  "claude, UTC": ["resets 5am (UTC)", "2026-11-15T05:00:00.000Z", 120],
  "claude, epoch": ["Claude AI usage limit reached|1794720600", "2026-11-15T05:30:00.000Z"],
  "claude, date and zone": ["resets Dec 1 at 5:30pm (America/New_York)", "2026-12-01T22:30:00.000Z"],
  "claude, will reset at": ["Your limit will reset at 1pm (America/New_York).", "2026-11-15T18:00:00.000Z"],
  midnight: ["5-hour limit reached ∙ resets 12am", "2026-11-16T00:00:00.000Z"],
  noon: ["limit reached, resets 12pm", "2026-11-15T12:00:00.000Z"],
  "tomorrow by the clock": ["try again at 1:15 AM", "2026-11-16T01:15:00.000Z"],
  "date without a year": ["resets at Nov 16, 3:00 PM", "2026-11-16T15:00:00.000Z"],
  "24-hour clock": ["resets 15:00", "2026-11-15T15:00:00.000Z"],
  duration: ["Please try again in 2 hours 5 minutes", "2026-11-15T04:35:00.000Z"],
  "duration with and": ["try again in 1 day and 3 hours", "2026-11-16T05:30:00.000Z"],
  "duration with fractions": ["Rate limit reached. Please try again in 1.5s.", "2026-11-15T02:30:01.500Z"],
  "duration in milliseconds": ["Please try again in 820ms", "2026-11-15T02:30:00.820Z"],
  "duration written together": ["Your quota will reset after 20h18m3s.", "2026-11-15T22:48:03.000Z"],
  "retry-after in seconds": ["429 (retry-after: 120)", "2026-11-15T02:32:00.000Z"],
  "retry-after in JSON": ['{"retry_after": 30}', "2026-11-15T02:30:30.000Z"],
  "retry-after in milliseconds": ["retry-after-ms: 1500", "2026-11-15T02:30:01.500Z"],
  "retry-after as a date": ["Retry-After: Sun, 15 Nov 2026 04:00:00 GMT", "2026-11-15T04:00:00.000Z"],
  "epoch in seconds": ['"resets_at":1794720600', "2026-11-15T05:30:00.000Z"],
  "epoch in milliseconds": ['"resetsAt": 1794720600000', "2026-11-15T05:30:00.000Z"],
  ISO: ["limit resets at 2026-11-15T05:30:00Z", "2026-11-15T05:30:00.000Z"],
  "ISO with an offset": ["available again 2026-11-15 06:30:00+01:00", "2026-11-15T05:30:00.000Z"],
  "ISO after the time of a log line": [
    "2026-11-15T02:29:59.1Z ERROR rate limit, retry at 2026-11-15T05:30:00Z",
    "2026-11-15T05:30:00.000Z",
  ],
  "two ways that agree": ["try again in 60 minutes (at 3:30 AM)", "2026-11-15T03:30:00.000Z"],

  "no time": ["You’ve hit your usage limit.", null],
  "a time, but of what?": ["Meeting at 3:36 AM", null],
  "half of the day is missing": ["resets 3:00", null],
  "a bare number": ["resets 3", null],
  "a zone that is not known": ["try again at 3pm CET", null],
  "a zone that does not exist": ["resets 9pm (Europe/Nowhere)", null],
  "just passed: this minute or tomorrow?": ["try again at 2:28 AM", null],
  "two times that differ": ["resets 3pm, or try again at 5pm", null],
  "two ways that differ": ["try again in 5 minutes, limit resets at 9pm", null],
  "in the past": ["limit reset at 2026-11-15T01:30:00Z", null],
  "too far ahead": ["resets at 2027-03-01T00:00:00Z", null],
  "too long": ["try again in 99 days", null],
  "local date and time without a zone": ["resets at 2026-11-15 05:30:00", null],
  "impossible hour": ["resets 13pm", null],
  "impossible minute": ["try again at 3:75 AM", null],
  "a number that is no date": ["limit 1234567890 exceeded", null],
  zero: ["retry-after: 0", null],
};

describe("resetTime", () => {
  test.each(Object.entries(cases))("%s", (_name, [text, then, offset = 0]) => {
    expect(resetTime(text, NOW, offset)).toBe(then);
  });

  test("uses the machine's zone when none is given", () => {
    const local = new Date(NOW + 3_600_000);
    const half = local.getHours() < 12 ? "AM" : "PM";
    const clock = `${local.getHours() % 12 || 12}:${String(local.getMinutes()).padStart(2, "0")} ${half}`;
    expect(resetTime(`try again at ${clock}`, NOW)).toBe(local.toISOString());
  });

  test("never names a time outside the next 35 days", () => {
    assert(
      property(string(), string(), (before, after) => {
        const found = resetTime(`${before} try again at ${after}`, NOW, 0);
        const ms = found === null ? NOW + 1 : Date.parse(found);
        return ms > NOW && ms <= NOW + 35 * 86_400_000;
      }),
    );
  });

  test("takes linear time on hostile text", () => {
    const pieces = [
      " ",
      "again at ",
      "in 1h",
      "1 ",
      "reset ",
      "retry-after",
      "2026-11-15T",
      "resets Nov 1, ",
    ];
    for (const piece of pieces) {
      expect(cpuMs(() => resetTime(piece.repeat(200_000), NOW, 0))).toBeLessThan(3_000);
    }
  });
});
