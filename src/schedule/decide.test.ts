import { expect, test } from "vitest";
import type { ScheduledResume } from "../core/supervision.ts";
import { nextStep, type ScheduleFacts } from "./decide.ts";

const DUE = "2026-04-01T07:30:00.000Z";

const record = (more: Partial<ScheduledResume> = {}): ScheduledResume => ({
  v: 1,
  id: "1a2b3c4d-1",
  runId: "20260401T060000Z-demo-1a2b3c4d",
  handle: "1a2b3c4d",
  engine: "demo",
  message: "go on",
  native: [],
  keep: false,
  mode: "auto",
  limits: { idleMs: null, toolMs: null, totalMs: null },
  dueAt: DUE,
  by: "time",
  state: "waiting",
  attempt: null,
  reason: null,
  lateMs: null,
  createdAt: "2026-04-01T06:00:00.000Z",
  updatedAt: "2026-04-01T06:00:00.000Z",
  ...more,
});

const facts = (more: Partial<ScheduleFacts> = {}): ScheduleFacts => ({
  nowMs: Date.parse(DUE),
  run: { attempts: 2, isLive: false },
  attempt: null,
  mayHaveStarted: false,
  ...more,
});

const starting = record({ state: "starting", attempt: 3 });
const AGENT = { pid: 7, start: "1", boot: "b", space: "s" };
const ours = (more: object = {}): ScheduleFacts["attempt"] => ({
  scheduled: "1a2b3c4d-1",
  state: "ended",
  agent: null,
  outcome: { result: "interrupted", reason: "it died" },
  ...more,
});

test.each<[string, ScheduledResume, Partial<ScheduleFacts>, unknown]>([
  ["does nothing before its time", record(), { nowMs: Date.parse(DUE) - 1 }, { do: "nothing" }],
  ["starts the next attempt when due", record(), {}, { do: "start", attempt: 3 }],
  ["starts late, after a reboot", record(), { nowMs: Date.parse(DUE) + 9e6 }, { do: "start", attempt: 3 }],
  [
    "waits for a live run",
    record(),
    { run: { attempts: 3, isLive: true } },
    { do: "wait", reason: "the run is live; the message follows when its attempt ends" },
  ],
  ["is forgotten with its run", record(), { run: null }, { do: "forget" }],
  ["starts again if its predecessor died before the attempt", starting, {}, { do: "start", attempt: 3 }],
  [
    "takes the next number if another process used this one",
    starting,
    { run: { attempts: 3, isLive: false }, attempt: { ...ours(), scheduled: undefined } as never },
    { do: "start", attempt: 4 },
  ],
  [
    "has started if the attempt has an agent",
    starting,
    { run: { attempts: 3, isLive: true }, attempt: ours({ state: "running", agent: AGENT }) },
    { do: "started" },
  ],
  [
    "lets the owner of an intended attempt work",
    starting,
    { run: { attempts: 3, isLive: true }, attempt: ours({ state: "intended", outcome: null }) },
    { do: "nothing" },
  ],
  [
    "starts again if the attempt ended before any agent could start",
    starting,
    { run: { attempts: 3, isLive: false }, attempt: ours() },
    { do: "start", attempt: 4 },
  ],
  [
    "is unsure if an agent may have started without a record",
    starting,
    { run: { attempts: 3, isLive: false }, attempt: ours(), mayHaveStarted: true },
    {
      do: "unsure",
      reason:
        "Reprise ended while attempt 3 was starting, and nothing shows whether the agent got the message",
    },
  ],
  [
    "fails if the system refused to start the agent",
    starting,
    {
      run: { attempts: 3, isLive: false },
      attempt: ours({ outcome: { result: "failed", reason: "no such program" } }),
    },
    { do: "failed", reason: "no such program" },
  ],
  ...(["started", "unsure", "failed", "cancelled"] as const).map(
    (state) => [`does nothing once it is ${state}`, record({ state }), {}, { do: "nothing" }] as never,
  ),
])("a scheduled resume %s", (_name, one, more, expected) => {
  expect(nextStep(one, facts(more))).toEqual(expected);
});
