/**
 * Whether the agent still lives: a clock that runs only while the engine owes a sign of life.
 *
 * An open tool call stops it (tools have a separate limit), and so does an announced retry, until its announced
 * time. A retry without an announced end is no sign of life: an engine without network retries for ever.
 * Pure: the caller passes monotonic time.
 */
import { formatDuration } from "../../lib/duration.ts";
import type { SeenEvent } from "../../core/events.ts";

export interface Limits {
  readonly idleMs: number | null;
  readonly toolMs: number | null;
  readonly totalMs: number | null;
}

export interface LivenessState {
  readonly startedAt: number;
  readonly lastSign: number;
  readonly silentUntil: number;
  readonly tools: ReadonlyMap<string, { readonly name: string; readonly since: number }>;
}

export type Expired = {
  readonly what: "idle" | "tool" | "total";
  readonly limitMs: number;
  readonly tool?: string;
};

/** How much later than announced a retry may come before the clock runs again. */
const RETRY_GRACE_MS = 5_000;

export function firstPulse(now: number): LivenessState {
  return { startedAt: now, lastSign: now, silentUntil: now, tools: new Map() };
}

/** Output that no reader understands is a sign of life. */
export function outputSeen(pulse: LivenessState, now: number): LivenessState {
  return { ...pulse, lastSign: now };
}

/** Reprise stood still, or a person was thinking: silence in that time does not count. The total limit goes on. */
export function delayed(pulse: LivenessState, ms: number, now: number): LivenessState {
  const later = (then: number) => Math.min(now, then + ms);
  const tools = [...pulse.tools].map(([id, tool]) => [id, { ...tool, since: later(tool.since) }] as const);
  return {
    ...pulse,
    lastSign: later(pulse.lastSign),
    silentUntil: pulse.silentUntil + ms,
    tools: new Map(tools),
  };
}

export function eventsSeen(pulse: LivenessState, seen: readonly SeenEvent[], now: number): LivenessState {
  let { lastSign, silentUntil } = pulse;
  const tools = new Map(pulse.tools);
  for (const { event } of seen) {
    if (event.type === "retry") {
      if (event.delayMs !== undefined)
        silentUntil = Math.max(silentUntil, now + event.delayMs + RETRY_GRACE_MS);
      continue;
    }
    lastSign = now;
    if (event.type === "tool" && event.state === "started")
      tools.set(event.id, { name: event.name, since: now });
    else if (event.type === "tool") tools.delete(event.id);
    // A turn that ended has no open tool, whatever was announced before.
    else if (event.type === "turn_ended" || event.type === "turn_started") tools.clear();
  }
  return { ...pulse, lastSign, silentUntil, tools };
}

/** The expired limit, for people. */
export function describeExpired({ what, limitMs, tool = "" }: Expired): string {
  const limit = formatDuration(limitMs);
  switch (what) {
    case "idle":
      return `no sign of life for ${limit}`;
    case "tool":
      return `the tool ${tool} ran for more than ${limit}`;
    case "total":
      return `the time limit of ${limit} was reached`;
  }
}

export function expired(pulse: LivenessState, limits: Limits, now: number): Expired | null {
  if (limits.totalMs !== null && now - pulse.startedAt >= limits.totalMs) {
    return { what: "total", limitMs: limits.totalMs };
  }
  for (const tool of pulse.tools.values()) {
    if (limits.toolMs !== null && now - tool.since >= limits.toolMs) {
      return { what: "tool", limitMs: limits.toolMs, tool: tool.name };
    }
  }
  if (limits.idleMs === null || pulse.tools.size > 0) return null;
  const quietSince = Math.max(pulse.lastSign, pulse.silentUntil);
  return now - quietSince >= limits.idleMs ? { what: "idle", limitMs: limits.idleMs } : null;
}
