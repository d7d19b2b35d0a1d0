import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Activity, EngineEvent, Observed, Trouble } from "../../core/events.ts";
import type { UiState } from "../../engines/engine.ts";
import { firstSight, sawEvents, sawNothing, sawOutput, sawUi, statusIn } from "./activity.ts";

const LIMIT: Trouble = { kind: "rate_limited", message: "429" };
const ui = (activity: Activity, changedAtMs: number | null = null, turns = 0): UiState => ({
  activity,
  changedAtMs,
  turns,
});
const IDLE: Activity = { state: "idle" };
const WORKING: Activity = { state: "working" };
const ERROR: Activity = { state: "error", trouble: LIMIT };
const WAITING: Activity = { state: "waiting", what: "permission prompt" };

describe("a UI whose engine reports its state", () => {
  /** [time, the engine's report] → the state believed then, and since when. */
  test.each<[string, readonly (readonly [number, UiState | null])[], Partial<Observed>]>([
    ["nothing yet", [[500, null]], { activity: { state: "starting" }, sinceMs: 0 }],
    ["idle for a moment is not believed", [[500, ui(IDLE, 400)]], { activity: { state: "starting" } }],
    [
      "idle that lasts",
      [
        [500, ui(IDLE, 400)],
        [1200, ui(IDLE, 400)],
      ],
      { activity: IDLE, sinceMs: 400 },
    ],
    ["idle without a time", [[500, ui(IDLE)]], { activity: IDLE, sinceMs: 500 }],
    ["idle from a clock that was set back", [[500, ui(IDLE, 9000)]], { activity: IDLE, sinceMs: 500 }],
    ["an error at once", [[500, ui(ERROR, 499)]], { activity: ERROR, sinceMs: 499, grewAtMs: 500 }],
    ["a question at once", [[500, ui(WAITING, 499)]], { activity: WAITING, sinceMs: 499 }],
    [
      "a question that was answered is gone at once",
      [
        [500, ui(WAITING, 499)],
        [1000, ui(IDLE, 900, 1)],
      ],
      { activity: WORKING, sinceMs: 1000, turns: 1 },
    ],
    [
      "it was idle, worked and is idle again between two looks",
      [
        [1500, ui(IDLE, 100)],
        [3000, ui(IDLE, 2000, 1)],
      ],
      { activity: IDLE, sinceMs: 2000, turns: 1, grewAtMs: 3000 },
    ],
    [
      "the same error after a nudge is another one",
      [
        [500, ui(ERROR, 400)],
        [3000, ui(ERROR, 2900)],
      ],
      { activity: ERROR, sinceMs: 2900, grewAtMs: 3000 },
    ],
    [
      "a missing report keeps the last known state",
      [
        [500, ui(WORKING, 400)],
        [1000, null],
      ],
      { activity: WORKING, sinceMs: 400 },
    ],
    [
      "turns never become fewer",
      [
        [500, ui(WORKING, 400, 2)],
        [1000, ui(WORKING, 400, 1)],
      ],
      { activity: WORKING, turns: 2 },
    ],
  ])("%s", (_what, looks, then) => {
    let observed = firstSight(0, true);
    for (const [at, state] of looks) observed = sawUi(observed, state, at);
    expect(observed).toMatchObject(then);
  });

  test("grows with its output, which is no state", () => {
    const idle = sawUi(firstSight(0, true), ui(IDLE), 100);
    expect(sawOutput(idle, 500)).toEqual({ ...idle, grewAtMs: 500 });
    expect(sawNothing({ ...idle, activity: WORKING }, 60_000)).toEqual({ ...idle, activity: WORKING });
  });

  test("never runs back in time, whatever the engine says", () => {
    const state = fc.constantFrom<Activity>(IDLE, WORKING, ERROR, WAITING, { state: "starting" });
    const look = fc.record({
      state,
      after: fc.nat(3000),
      ago: fc.option(fc.integer({ min: -50, max: 5000 })),
    });
    fc.assert(
      fc.property(fc.array(look), (looks) => {
        let [now, observed] = [0, firstSight(0, true)];
        for (const { state: activity, after, ago } of looks) {
          now += after;
          const next = sawUi(observed, ui(activity, ago === null ? null : now - ago), now);
          expect(next.sinceMs).toBeGreaterThanOrEqual(observed.sinceMs);
          expect(next.sinceMs).toBeLessThanOrEqual(now);
          expect(next.grewAtMs).toBeGreaterThanOrEqual(observed.grewAtMs);
          observed = next;
        }
      }),
    );
  });
});

test("a UI whose engine reports nothing works while it prints, rests when it is quiet, and is never certain", () => {
  const first = firstSight(0, false);
  const busy = sawOutput(first, 100);
  expect(busy).toEqual({ activity: WORKING, sinceMs: 100, grewAtMs: 100, turns: 0, certain: false });
  expect(sawNothing(busy, 4_000)).toEqual(busy);
  const quiet = sawNothing(busy, 5_100);
  expect(quiet).toEqual({ ...busy, activity: IDLE, sinceMs: 5_100 });
  expect(sawOutput(quiet, 6_000)).toMatchObject({ activity: WORKING, sinceMs: 6_000 });
  expect(sawNothing(first, 60_000)).toEqual(first);
});

describe("without a UI", () => {
  test.each<[string, readonly EngineEvent[], Partial<Observed>]>([
    ["a session", [{ type: "session", session: "s" }], { activity: { state: "starting" }, grewAtMs: 10 }],
    ["a turn", [{ type: "turn_started" }], { activity: WORKING, sinceMs: 10 }],
    ["a retry", [{ type: "retry", trouble: LIMIT }], { activity: WORKING }],
    ["its end", [{ type: "turn_ended", result: "completed" }], { activity: IDLE, turns: 1 }],
    [
      "its failure",
      [{ type: "turn_ended", result: "failed", trouble: LIMIT }],
      { activity: ERROR, turns: 0 },
    ],
    ["its interruption", [{ type: "turn_ended", result: "interrupted" }], { activity: IDLE, turns: 0 }],
    [
      "two turns",
      [{ type: "turn_ended", result: "completed" }, { type: "turn_started" }, { type: "text", text: "x" }],
      { activity: WORKING, turns: 1 },
    ],
    ["an unknown line", [{ type: "unknown" }], { activity: { state: "starting" }, grewAtMs: 10 }],
  ])("%s", (_what, events, then) => {
    expect(sawEvents(firstSight(0, true), events, 10)).toMatchObject(then);
  });
});

describe("the status that a UI gives its terminal", () => {
  const printed = "\u001b]0;title\u0007x\u001b]7501;state=working:app=codex\u001b\\y";
  test("is the last one, however the bytes are cut", () => {
    const text = `${printed}\u001b]7501;state=blocked:app=codex:kind=permission\u0007more`;
    fc.assert(
      fc.property(fc.array(fc.nat(text.length), { maxLength: 12 }), (cuts) => {
        const at = [0, ...cuts.toSorted((one, other) => one - other), text.length];
        let [status, rest] = [undefined as string | undefined, ""];
        for (const [n, start] of at.entries()) {
          const read = statusIn(rest + text.slice(start, at[n + 1]), status);
          [status, rest] = [read.status, read.rest];
          expect(rest.length).toBeLessThanOrEqual(256);
        }
        expect(status).toBe("state=blocked:app=codex:kind=permission");
      }),
    );
  });

  test.each([
    ["nothing of the kind", "plain text", undefined],
    ["a question of the UI", "\u001b]7501;?\u0007", undefined],
    ["never ended", `\u001b]7501;state=idle${"x".repeat(400)}`, undefined],
  ])("%s", (_what, text, then) => {
    expect(statusIn(text, undefined).status).toBe(then);
  });
});
