import { describe, expect, test } from "vitest";
import type { Tokens } from "../core/events.ts";
import type { IssueRecord } from "../issues/issues.ts";
import { progressText, sumOf, totalsOf, totalsText } from "./issues-totals.ts";

const MINUTE = 60_000;

describe("the live line of a batch", () => {
  test.each([
    ["nothing is estimated before an issue is done", 0, 5, MINUTE, ""],
    ["the pace so far gives the rest", 3, 5, 18 * MINUTE, "3 of 5 done, about 12 m left"],
    ["only the largest unit is named", 1, 3, 3_700_000, "1 of 3 done, about 2 h left"],
    ["nothing is left after the last issue", 5, 5, MINUTE, ""],
  ])("%s", (_name, done, planned, elapsedMs, then) => {
    expect(progressText({ done, planned, elapsedMs }, null)).toBe(then);
  });

  test("tokens are named even if nothing can be estimated", () => {
    const pace = { done: 0, planned: 5, elapsedMs: MINUTE };
    expect(progressText(pace, { input: 100, output: 12, costUsd: 0.5 })).toBe("tokens 100 in, 12 out, $0.50");
    expect(progressText({ ...pace, done: 1 }, { input: 100, output: 12 })).toBe(
      "1 of 5 done, about 4 m left · tokens 100 in, 12 out",
    );
  });
});

describe("the totals of a batch", () => {
  const startedAt = "2026-11-18T12:00:00.000Z";
  const nowMs = Date.parse(startedAt) + 18 * MINUTE;
  const issues = (...all: [IssueRecord["status"], Tokens | null][]) =>
    new Map(all.map(([status, tokens], at) => [`i-${at}`, { status, tokens }]));
  const of = (found: ReturnType<typeof issues>, live: boolean, planned?: readonly string[], left = 0) =>
    totalsOf({ left, started_at: startedAt, ...(planned === undefined ? {} : { planned }) }, found, {
      live,
      nowMs,
      prices: {},
    });
  const used = { input: 100, output: 10 };

  test("a live batch says how many are done, about how long the rest takes, and what was used", () => {
    const found = issues(["completed", used], ["failed", null], ["no_change", used], ["waiting", null]);
    const totals = of(found, true, ["i-0", "i-1", "i-2", "i-3", "i-4"]);
    expect(totals).toEqual({
      ...{ planned: 5, done: 3, completed: 1, aboutLeftMs: 12 * MINUTE },
      tokens: { input: 200, output: 20 },
    });
    expect(totalsText(totals, true)).toBe("3 of 5 done, about 12 m left · tokens 200 in, 20 out");
  });

  test("nothing is estimated before the first end, nor of a batch that is over", () => {
    const begun = of(issues(["running", null]), true, ["i-0", "i-1"]);
    expect([begun.aboutLeftMs, totalsText(begun, true)]).toEqual([null, "0 of 2 done"]);
    const over = of(issues(["completed", used], ["interrupted", used]), false, ["i-0", "i-1", "i-2"]);
    expect([over.aboutLeftMs, totalsText(over, false)]).toEqual([
      null,
      "1 of 3 completed · tokens 200 in, 20 out",
    ]);
  });

  test("a record of an earlier version and a batch with nothing to do have totals as well", () => {
    expect(of(issues(["completed", null]), false, undefined, 2)).toMatchObject({ planned: 3, done: 1 });
    expect(totalsText(of(new Map(), false), false)).toBe("");
  });
});

test("each part has its own cost: the engine's, or that of its model", () => {
  const prices = { small: { input: 1, output: 10 } };
  const parts = [
    { input: 1_000_000, output: 100_000, model: "small" },
    { input: 5, output: 5, costUsd: 0.5, model: "large" },
    null,
    { input: 1, output: 1 },
  ];
  expect(sumOf(parts, prices)).toEqual({ input: 1_000_006, output: 100_006, costUsd: 2.5 });
  expect(sumOf([null], prices)).toBeNull();
});
