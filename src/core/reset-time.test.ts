import { assert, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { cpuMs } from "../../test/cpu.ts";
import { believable, moment, resetTime, retryAfter } from "./reset-time.ts";

const NOW = Date.parse("2026-11-15T02:30:00Z");

/** Local time is UTC unless the third item gives the minutes east. */
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
  "gemini, in words and as RetryInfo": [
    "Please retry in 34.074824224s.\nSuggested retry after 34s.",
    "2026-11-15T02:30:34.074Z",
  ],
  "two waits that differ": ["Please retry in 34.07s.\nSuggested retry after 36s.", null],
  "gemini, days": ["Quota reached. Refreshes in 6 days and 18 hours", "2026-11-21T20:30:00.000Z"],
  "refresh in": ["it will fully refresh in 3 hours, 46 minutes.", "2026-11-15T06:16:00.000Z"],
  "an interval is not a moment": ["the limit refreshes every 5 hours", null],
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
  "a time without a subject": ["Meeting at 3:36 AM", null],
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
  "a number that is not a date": ["limit 1234567890 exceeded", null],
  zero: ["retry-after: 0", null],
  "retry-after in words": ["Please retry after 30 minutes.", "2026-11-15T03:00:00.000Z"],
  "retry-after in words, of a header": ["retry-after: 2 hours", "2026-11-15T04:30:00.000Z"],
  "retry-after written together": ["retry-after: 1h30m", "2026-11-15T04:00:00.000Z"],
  "the expiry of something else beside it": [
    '"resetsAt":"2026-11-16T00:00:00Z","expires":"2026-11-17T00:00:00Z"',
    "2026-11-16T00:00:00.000Z",
  ],
  "explicit local time": ["resets 3pm local time", "2026-11-15T15:00:00.000Z"],
};

/** Texts with a time that is ambiguous or about something else. */
const misleading = [
  "retry after 2 attempts",
  "retry after 1,800 seconds",
  "retry-after: 1 hour 30",
  "rate limit of 100 requests in 1 hour exceeded",
  "Request timed out after 60s: rate limit",
  "retry limit: failed after 300s",
  "Your token expires in 5 minutes. Rate limit reached",
  "Maximum wait 30s exceeded, limit reached",
  "try again in 5 minutes or 2 hours",
  "try again in 1 hour(s) 5 minute(s)",
  "try again in 5 min 30",
  "try again in 2 hours, 1 week",
  "resets 3pm on Friday",
  "resets at 3pm tomorrow",
  "resets 5pm Nov 18",
  "resets at 15:00 16 Nov",
  "resets 15:00Z",
  "resets 3pm, Europe/Berlin",
  "resets 3pm [Europe/Berlin]",
  "resets 3pm\n(Europe/Berlin)",
  "resets 3pm  CET",
  "resets 3pm et",
  "resets 3pm Pacific time",
  "resets 3pm UTC +2",
  "resets sunset 3pm",
  "try again at 3pm or 5pm",
  "the limit was reset at 3pm",
  "Your limit reset at 3:36 PM yesterday",
  "your trial is available until 5pm, limit reached",
  "access token valid until 2026-11-16T00:00:00Z; rate limit reached",
  "limit exceeded for request 1794720600",
  "retry request_id=1794720600",
];
test.each(misleading)("%j names no time", (text) => expect(resetTime(text, NOW, 0)).toBeNull());

/**
 * By engine: [source, text, local time then, UTC of the reset]. The source is a recorded transcript of this repository
 * or a report (`repository#issue`). Null: ambiguous.
 */
const seen: Record<string, readonly [string, string, string, string | null][]> = {
  codex: [
    [
      "recorded",
      "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 3:36 AM.",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T03:36:00Z",
    ],
    [
      "recorded, other day",
      "You’ve hit your usage limit. Try again at Nov 18th, 2026 5:08 AM.",
      "2026-11-15T02:30:00+00:00",
      "2026-11-18T05:08:00Z",
    ],
    [
      "openai/codex#3899, wrapped",
      "■ You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11\nminutes.",
      "2025-09-19T10:00:00+02:00",
      "2025-09-25T06:11:00Z",
    ],
    [
      "openai/codex#3124",
      "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 2 days 17 hours 14 minutes.",
      "2025-09-03T10:00:00+00:00",
      "2025-09-06T03:14:00Z",
    ],
    [
      "openai/codex#3031",
      "🖐  You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 3 hours 2 minutes.",
      "2025-09-01T10:00:00+00:00",
      "2025-09-01T13:02:00Z",
    ],
    [
      "openai/codex#4104",
      "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 8 hours 30 minutes.",
      "2025-09-23T10:00:00+00:00",
      "2025-09-23T18:30:00Z",
    ],
    [
      "openai/codex#21047",
      "You've hit your usage limit. Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or try again at May 11th, 2026 1:36 PM.",
      "2026-05-04T12:00:00-06:00",
      "2026-05-11T19:36:00Z",
    ],
    [
      "openai/codex#26668",
      "or try again at Jul 5th, 2026 8:19 PM.",
      "2026-06-05T20:20:00+02:00",
      "2026-07-05T18:19:00Z",
    ],
    [
      "openai/codex#28089, another language",
      "You've hit your usage limit. Upgrade your plan to continue, or try again at 10 de jul. de 2026, 11:52.",
      "2026-06-13T12:07:00-03:00",
      null,
    ],
    [
      "openai/codex#41689, no half of the day",
      "or try again after September 6, 2026, 11:15.",
      "2026-08-30T03:00:00+08:00",
      null,
    ],
    [
      "openai/codex#2669",
      "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing), or wait for limits to reset (every 5h and every week.).",
      "2025-08-25T10:00:00+00:00",
      null,
    ],
    [
      "openai/codex#23304",
      "exceeded retry limit, last status: 429 Too Many Requests",
      "2026-05-18T10:00:00+00:00",
      null,
    ],
    [
      "body of the API, both fields",
      '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1777959948,"eligible_promo":null,"resets_in_seconds":61511}}',
      "2026-05-04T12:40:37+00:00",
      "2026-05-05T05:45:48Z",
    ],
    [
      "body of the API, seconds alone",
      '{"error":{"type":"usage_limit_reached","resets_in_seconds":602639}}',
      "2026-04-01T00:00:00+00:00",
      "2026-04-07T23:23:59Z",
    ],
  ],
  claude: [
    [
      "anthropics/claude-code#8835",
      "Claude AI usage limit reached|1760004000",
      "2025-10-03T10:00:00+00:00",
      "2025-10-09T10:00:00Z",
    ],
    [
      "anthropics/claude-code#10333",
      "Opus weekly limit reached ∙ resets Oct 31, 9am",
      "2025-10-25T10:00:00-07:00",
      "2025-10-31T16:00:00Z",
    ],
    [
      "anthropics/claude-code#10333, a day alone",
      "Opus weekly limit reached ∙ resets Oct 24",
      "2025-10-20T10:00:00+00:00",
      null,
    ],
    [
      "anthropics/claude-code#11577",
      "Session limit reached ∙ resets 8pm",
      "2025-11-13T18:00:00-05:00",
      "2025-11-14T01:00:00Z",
    ],
    [
      "anthropics/claude-code#11577, in words",
      "Session limit reached – resets in 2 hours",
      "2025-11-13T18:00:00+00:00",
      "2025-11-13T20:00:00Z",
    ],
    [
      "anthropics/claude-code#72691",
      "You've hit your session limit · resets 1:40pm (Europe/Paris)",
      "2026-07-01T10:00:00+02:00",
      "2026-07-01T11:40:00Z",
    ],
    [
      "anthropics/claude-code#52334",
      "You've hit your limit · resets 10pm (Europe/Berlin)",
      "2026-04-23T23:00:00+02:00",
      "2026-04-24T20:00:00Z",
    ],
    [
      "anthropics/claude-code#49036",
      "You've hit your limit · resets Apr 17, 7pm (Asia/Riyadh)",
      "2026-04-16T05:29:09+00:00",
      "2026-04-17T16:00:00Z",
    ],
    [
      "anthropics/claude-code#19472",
      "You've hit your limit · resets 11pm (America/Anchorage)",
      "2026-01-20T10:00:00-09:00",
      "2026-01-21T08:00:00Z",
    ],
    [
      "anthropics/claude-code#2087",
      "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).",
      "2025-06-14T10:00:00-05:00",
      "2025-06-14T18:00:00Z",
    ],
    [
      "anthropics/claude-code#1450",
      "Claude Max usage limit reached. Your limit will reset at 12am.",
      "2025-05-30T20:00:00-04:00",
      "2025-05-31T04:00:00Z",
    ],
    [
      "older versions",
      "5-hour limit reached ∙ resets 3am",
      "2025-10-01T23:00:00+02:00",
      "2025-10-02T01:00:00Z",
    ],
    [
      "older versions, weekly",
      "Weekly limit reached ∙ resets Oct 9, 5pm",
      "2025-10-03T10:00:00+00:00",
      "2025-10-09T17:00:00Z",
    ],
    [
      "anthropics/claude-code#16618, two windows",
      "Resets 12:59pm (America/New_York)\nResets Jan 12, 10:59am (America/New_York)",
      "2026-01-07T09:12:38-05:00",
      null,
    ],
    [
      "recorded",
      "You have reached your specified API usage limits. You will regain access at 2026-11-15T03:30:00.000Z; resets at 2026-11-15T03:30:00.000Z.",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T03:30:00Z",
    ],
    [
      "the API's spend limit",
      "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
      "2026-11-15T02:30:00+01:00",
      "2026-12-01T00:00:00Z",
    ],
    [
      "headers of the API",
      "anthropic-ratelimit-unified-status: rejected\nanthropic-ratelimit-unified-reset: 1770685200",
      "2026-02-09T23:00:00+00:00",
      "2026-02-10T01:00:00Z",
    ],
  ],
  gemini: [
    [
      "earendil-works/pi#2851",
      "Cloud Code Assist API error (429): You have exhausted your capacity on this model. Your quota will reset after 12h34m16s.",
      "2026-04-05T10:00:00+00:00",
      "2026-04-05T22:34:16Z",
    ],
    [
      "google-gemini/gemini-cli#22643",
      "Usage limit reached for gemini-3-flash-preview. Access resets at 10:57 PM GMT-3.",
      "2026-03-16T12:00:00-03:00",
      "2026-03-17T01:57:00Z",
    ],
    [
      "google-gemini/gemini-cli#15880",
      "Usage limit reached for gemini-2.5-flash-lite.\nAccess resets at 2:55 PM PST.",
      "2026-01-04T10:00:00-08:00",
      "2026-01-04T22:55:00Z",
    ],
    [
      "the dialog, two ways",
      "Your quota will reset after 12h22m44s.]\nUsage limit reached for all Pro models.\nAccess resets at 11:00 AM GMT+2.",
      "2026-06-01T22:37:16+02:00",
      "2026-06-02T09:00:00Z",
    ],
    [
      "the dialog, half hours",
      "Access resets at 2:09 PM GMT+5:30.",
      "2026-06-01T10:00:00+05:30",
      "2026-06-01T08:39:00Z",
    ],
    [
      "google-gemini/gemini-cli#22107, two delays",
      "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 5s.. Retrying after 6173ms...",
      "2026-03-12T10:00:00+00:00",
      null,
    ],
    [
      "browserbase/mcp-server-browserbase#129",
      "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 47.434392449s.",
      "2025-11-07T10:00:00+00:00",
      "2025-11-07T10:00:47.434Z",
    ],
    [
      "RetryInfo of the API",
      '{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"51820.6s"}',
      "2026-03-12T10:00:00+00:00",
      "2026-03-13T00:23:40.600Z",
    ],
    [
      "router-for-me/CLIProxyAPI#449",
      '"metadata":{"quotaResetDelay":"373.801628ms"}',
      "2025-12-08T10:00:00+00:00",
      "2025-12-08T10:00:00.373Z",
    ],
    [
      "recorded, dumped error",
      "TerminalQuotaError {\n  retryDelayMs: 3600000,\n}",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T03:30:00Z",
    ],
    [
      "google-gemini/gemini-cli#17006",
      "gemini-3-flash-preview 18 59.8% (Resets in 8h 6m)",
      "2026-01-19T10:00:00+00:00",
      "2026-01-19T18:06:00Z",
    ],
    [
      "google-gemini/gemini-cli#10925",
      "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user per tier'",
      "2025-10-10T10:00:00+00:00",
      null,
    ],
  ],
  opencode: [
    [
      "anomalyco/opencode#1712",
      "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 14582, Requested 21045. Please try again in 11.254s. Visit https://platform.openai.com/account/rate-limits to learn more.",
      "2025-08-09T10:00:00+00:00",
      "2025-08-09T10:00:11.254Z",
    ],
    [
      "anomalyco/opencode#1712, milliseconds",
      "Limit 200000, Used 124035, Requested 79017. Please try again in 915ms.",
      "2025-08-08T10:00:00+00:00",
      "2025-08-08T10:00:00.915Z",
    ],
    [
      "anomalyco/opencode#22015, whose clock?",
      "Usage limit reached for 5 hour. Your limit will reset at 2026-04-11 20:30:24 [retrying in 2m 22s #8]",
      "2026-04-11T10:00:00+02:00",
      null,
    ],
    [
      "anomalyco/opencode#8170",
      "Too Many Requests [retrying in 447.231667 hours]",
      "2026-01-13T10:00:00+00:00",
      "2026-02-01T01:13:54.001Z",
    ],
    [
      "recorded",
      '"statusCode":429,"responseHeaders":{"date":"Sun, 15 Nov 2026 02:30:00 GMT","retry-after-ms":"20"}',
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T02:30:00.020Z",
    ],
    [
      "anomalyco/opencode#16994",
      "You have exceeded the request rate limit. Please wait a short period before retrying your request",
      "2026-03-11T10:00:00+00:00",
      null,
    ],
  ],
  iflow: [
    ["recorded", "Error when talking to iFlow API: 429 Too many requests", "2026-11-15T02:30:00+00:00", null],
    [
      "recorded, with a reset",
      "429 rate limit exceeded, resets at 2026-11-15T03:30:00.000Z",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T03:30:00Z",
    ],
  ],
  github: [
    [
      "secondary limit",
      "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
      "2026-11-15T02:30:00+00:00",
      null,
    ],
    [
      "headers",
      "retry-after: 60\nx-ratelimit-remaining: 0",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T02:31:00Z",
    ],
    [
      "headers of the hourly limit",
      "x-ratelimit-remaining: 0\nx-ratelimit-reset: 1794720600",
      "2026-11-15T02:30:00+00:00",
      "2026-11-15T05:30:00Z",
    ],
  ],
};

describe("forms that were seen", () => {
  const all = Object.entries(seen).flatMap(([engine, forms]) =>
    forms.map(([where, text, at, reset]) => ({ engine, where, text, at, reset })),
  );
  test.each(all)("$engine: $where", ({ text, at, reset }) => {
    const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)$/.exec(at) ?? [];
    const offset = (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
    const found = resetTime(text, Date.parse(at), offset);
    expect(found).toBe(reset === null ? null : new Date(reset).toISOString());
  });
  test("are numerous", () => expect(all.length).toBeGreaterThanOrEqual(40));
});

/** [text, UTC now, UTC of the reset]; local time is UTC. */
const calendar: Record<string, [string, string, string | null]> = {
  "a day of the week": [
    "Weekly limit reached, resets Thursday at 2pm",
    "2026-11-15T02:30:00Z",
    "2026-11-19T14:00:00Z",
  ],
  "a short day of the week, zone": [
    "resets Mon 9am (Europe/Berlin)",
    "2026-11-15T02:30:00Z",
    "2026-11-16T08:00:00Z",
  ],
  "today by its name": ["resets Sunday at 2pm", "2026-11-15T02:30:00Z", "2026-11-15T14:00:00Z"],
  "today by its name, passed": ["resets Sun, 1:00 AM", "2026-11-15T02:30:00Z", "2026-11-22T01:00:00Z"],
  "a day alone": ["resets Thursday", "2026-11-15T02:30:00Z", null],
  tomorrow: ["try again tomorrow at 3:00 PM", "2026-11-15T02:30:00Z", "2026-11-16T15:00:00Z"],
  "tomorrow in another zone": [
    "resets tomorrow at 3pm (Asia/Tokyo)",
    "2026-11-15T20:00:00Z",
    "2026-11-17T06:00:00Z",
  ],
  "across midnight of the zone": ["resets 1am (Asia/Tokyo)", "2026-11-15T15:30:00Z", "2026-11-15T16:00:00Z"],
  "across the end of the year": ["resets Jan 2, 9am", "2026-12-30T10:00:00Z", "2027-01-02T09:00:00Z"],
  "across the end of a month": ["resets 1am", "2026-11-30T02:30:00Z", "2026-12-01T01:00:00Z"],
  "into winter time": ["resets 5am (Europe/Berlin)", "2026-10-24T20:00:00Z", "2026-10-25T04:00:00Z"],
  "into summer time": ["resets 5am (America/New_York)", "2026-03-08T03:00:00Z", "2026-03-08T09:00:00Z"],
  "an hour that comes twice": ["resets 2:30am (Europe/Berlin)", "2026-10-24T20:00:00Z", null],
  "an hour that never comes": ["resets 2:30am (America/New_York)", "2026-03-08T03:00:00Z", null],
  "a day that never comes": ["resets Feb 30, 9am", "2026-02-27T10:00:00Z", null],
  "29 February of a common year": ["resets Feb 29, 2027 9am", "2027-02-27T10:00:00Z", null],
  "an offset that is not a zone": ["resets at 3:00 PM +0530", "2026-11-15T02:30:00Z", null],
  "a zone of two letters": ["resets at 3:00 PM PT", "2026-11-15T02:30:00Z", null],
};

describe("the calendar", () => {
  test.each(Object.entries(calendar))("%s", (_name, [text, now, then]) => {
    expect(resetTime(text, Date.parse(now), 0)).toBe(then === null ? null : new Date(then).toISOString());
  });
});

describe("fields", () => {
  const at = Date.parse("2026-11-15T05:30:00Z");
  test.each([
    [1794720600, at],
    [1794720600000, at],
    ["1794720600", at],
    ["2026-11-15T05:30:00Z", at],
    ["2026-11-15T06:30:00+01:00", at],
    ["2026-11-15T05:30:00", null],
    ["2026-13-45T05:30:00Z", null],
    [0, null],
    [-1, null],
    [1e21, null],
    [Number.NaN, null],
    ["", null],
    ["soon", null],
    [null, null],
    [undefined, null],
    [{}, null],
  ])("moment %j", (value, then) => {
    expect(moment(value)).toBe(then);
  });
  test.each([
    ["120", NOW + 120_000],
    [" 0 ", NOW],
    ["1.5", NOW + 1500],
    ["Sun, 15 Nov 2026 05:30:00 GMT", at],
    ["-5", null],
    ["1e9", null],
    ["tomorrow", null],
    ["2026", NOW + 2_026_000],
    ["", null],
  ])("retry-after %j", (value, then) => {
    expect(retryAfter(value, NOW)).toBe(then);
  });
  test("only a time that lies ahead, and not too far, is believed", () => {
    expect(believable(at, NOW)).toBe("2026-11-15T05:30:00.000Z");
    for (const wrong of [null, Number.NaN, NOW, NOW - 1, NOW + 36 * 86_400_000]) {
      expect(believable(wrong, NOW)).toBeNull();
    }
  });
});

describe("resetTime", () => {
  test.each(Object.entries(cases))("%s", (_name, [text, then, offset = 0]) => {
    expect(resetTime(text, NOW, offset)).toBe(then);
  });

  test("uses the machine's time zone when the text names no zone", () => {
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
