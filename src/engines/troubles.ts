/**
 * Classifies troubles by an engine's message and HTTP status, with wording that several engines share.
 *
 * Most CLIs have no error codes in the output that Reprise reads, so the wording must do. Each pattern has a fixture.
 * An engine may put its own patterns first.
 */
import type { EngineEvent, Trouble, TroubleKind } from "../core/events.ts";
import { resetTime } from "../core/reset-time.ts";

export type TroublePattern = readonly [kind: TroubleKind, pattern: RegExp];

const MAX_MESSAGE = 500;

/** More specific than a status. */
const SPECIFIC: readonly TroublePattern[] = [
  ["context_full", /context[ _](?:window|length)|prompt is too long|ran out of room/i],
  [
    "rate_limited",
    /usage limit|(?:hit|reached) your [\w -]{0,24}limit|limit reached|\brefresh(?:es)? in \d/i,
  ],
  ["quota", /insufficient[_ ]quota|quota exceeded|credit balance|billing|payment required/i],
];

const GENERAL: readonly TroublePattern[] = [
  ["auth", /unauthorized|forbidden|(?:invalid|incorrect) api key|not logged in|authentication|run \/login/i],
  ["rate_limited", /rate[ _-]?limit|too many requests/i],
  ["overloaded", /overloaded|high demand|at capacity|service unavailable|internal server error/i],
  [
    "network",
    /\bE(?:CONN[A-Z]+|NOTFOUND|TIMEDOUT|PIPE|AI_AGAIN)\b|connection (?:dropped|refused|failed|reset|error)|stream disconnected|transport error|network error|waiting for network|idle timeout/i,
  ],
];

/** `status`: the HTTP status that the engine reported; otherwise a status in its message. */
export function troubleOf(
  message: string,
  nowMs: number,
  known: { readonly status?: number; readonly patterns?: readonly TroublePattern[] } = {},
): Trouble {
  const status = known.status ?? statusIn(message);
  const kind =
    kindIn(message, [...(known.patterns ?? []), ...SPECIFIC]) ??
    (status === undefined ? null : kindOfStatus(status)) ??
    kindIn(message, GENERAL) ??
    "other";
  const resetsAt = kind === "rate_limited" || kind === "quota" ? resetTime(message, nowMs) : null;
  return {
    // With a known reset it is a limit that ends on its own.
    kind: kind === "quota" && resetsAt !== null ? "rate_limited" : kind,
    message: message.slice(0, MAX_MESSAGE),
    ...(resetsAt === null ? {} : { resetsAt }),
    ...(status === undefined ? {} : { status }),
  };
}

export function kindIn(text: string, patterns: readonly TroublePattern[]): TroubleKind | null {
  return patterns.find(([, pattern]) => pattern.test(text))?.[0] ?? null;
}

function kindOfStatus(status: number): TroubleKind | null {
  if (status === 401 || status === 403) return "auth";
  if (status === 402) return "quota";
  if (status === 429) return "rate_limited";
  return status >= 500 && status <= 599 ? "overloaded" : null;
}

function statusIn(message: string): number | undefined {
  const match = /\b(?:status:? |API Error: |HTTP |rejected \()([45]\d{2})\b/i.exec(message);
  return match === null ? undefined : Number(match[1]);
}

/** A tool call that the engine refused to run, in the same words for every engine. */
export function notPermitted(name: string, detail?: string): EngineEvent {
  return {
    type: "notice",
    message: `Not permitted: ${[name, detail].filter(Boolean).join(" ")}`,
    denied: { name, ...(detail === undefined ? {} : { detail }) },
  };
}
