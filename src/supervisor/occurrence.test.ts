/** When a question about an agent has lost its reason, whatever the clocks say. */
import { expect, test } from "vitest";
import type { Activity } from "../core/events.ts";
import type { Trigger } from "../core/runbook.ts";
import { isOver } from "./occurrence.ts";

const live = (activity: Activity, certain = true) => ({
  is: "live" as const,
  observed: { activity, sinceMs: 0, grewAtMs: 0, turns: 0, certain },
});
const waiting: Activity = { state: "waiting", what: "permission" };

test.each<[Trigger, Parameters<typeof isOver>[1], boolean]>([
  ["prompt", live(waiting), false],
  ["prompt", live({ state: "starting" }), false],
  ["prompt", live({ state: "idle" }), true],
  ["prompt", live({ state: "working" }), true],
  ["prompt", live({ state: "working" }, false), false],
  ["idle", live({ state: "idle" }), false],
  ["idle", live(waiting), true],
  ["error", live({ state: "error", trouble: { kind: "network", message: "" } }), false],
  ["dead", live({ state: "working" }), true],
  ["dead", { is: "unresponsive", sinceMs: 0 }, false],
])("%s, seen %j: over is %j", (trigger, seen, over) => {
  expect(isOver(trigger, seen)).toBe(over);
});
