import { expect, test } from "vitest";
import type { EngineEvent } from "../../core/events.ts";
import {
  delayed,
  type Expired,
  expired,
  firstPulse,
  type Limits,
  eventsSeen,
  outputSeen,
} from "./liveness.ts";

const limits: Limits = { idleMs: 100, toolMs: null, totalMs: null };
const retry = (delayMs?: number): EngineEvent => ({
  type: "retry",
  trouble: { kind: "network", message: "down" },
  ...(delayMs === undefined ? {} : { delayMs }),
});
const tool = (state: "started" | "ended"): EngineEvent => ({ type: "tool", state, id: "t1", name: "bash" });
const text: EngineEvent = { type: "text", text: "hi" };

/** A number: so long somebody thought, or we stood still. */
type Step = [at: number, event: EngineEvent | "bytes" | number];
const cases: Record<string, [steps: Step[], at: number, limits: Limits, then: Expired | null]> = {
  "silence from the start": [[], 100, limits, { what: "idle", limitMs: 100 }],
  "not yet": [[], 99, limits, null],
  "an event is a sign of life": [[[60, text]], 159, limits, null],
  "so are unknown bytes": [[[60, "bytes"]], 159, limits, null],
  "an open tool call stops the clock": [[[10, tool("started")]], 10_000, limits, null],
  "the clock runs again after the tool": [
    [
      [10, tool("started")],
      [5_000, tool("ended")],
    ],
    5_100,
    limits,
    { what: "idle", limitMs: 100 },
  ],
  "a tool has a separate limit": [
    [[10, tool("started")]],
    1_010,
    { ...limits, toolMs: 1_000 },
    { what: "tool", limitMs: 1_000, tool: "bash" },
  ],
  "an announced retry stops the clock until its time and a grace": [
    [[10, retry(60_000)]],
    65_000,
    limits,
    null,
  ],
  "and not for ever": [[[10, retry(60_000)]], 65_110, limits, { what: "idle", limitMs: 100 }],
  "a retry without an end is no sign of life": [
    [
      [50, retry()],
      [90, retry()],
    ],
    100,
    limits,
    { what: "idle", limitMs: 100 },
  ],
  "the end of a turn closes forgotten tools": [
    [
      [10, tool("started")],
      [20, { type: "turn_ended", result: "completed" }],
    ],
    120,
    limits,
    { what: "idle", limitMs: 100 },
  ],
  "the total limit counts everything": [
    [[900, text]],
    1_000,
    { ...limits, totalMs: 1_000 },
    { what: "total", limitMs: 1_000 },
  ],
  "a person's thinking time does not count": [[[80, 80]], 179, limits, null],
  "it does not count twice": [
    [
      [80, text],
      [80, 80],
    ],
    180,
    limits,
    { what: "idle", limitMs: 100 },
  ],
  "nor for a tool that waits for it": [
    [
      [10, tool("started")],
      [900, 890],
    ],
    1_899,
    { ...limits, toolMs: 1_000 },
    null,
  ],
  "but for the total": [
    [[900, 900]],
    1_000,
    { ...limits, totalMs: 1_000 },
    { what: "total", limitMs: 1_000 },
  ],
  "no limit, no verdict": [[], 1e12, { idleMs: null, toolMs: null, totalMs: null }, null],
};

test.each(Object.entries(cases))("%s", (_name, [steps, at, given, then]) => {
  let pulse = firstPulse(0);
  for (const [now, step] of steps) {
    if (step === "bytes") pulse = outputSeen(pulse, now);
    else if (typeof step === "number") pulse = delayed(pulse, step, now);
    else pulse = eventsSeen(pulse, [{ event: step, stream: "stdout", line: 1 }], now);
  }
  expect(expired(pulse, given, at)).toEqual(then);
});
