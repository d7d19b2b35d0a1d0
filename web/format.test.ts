import { describe, expect, test } from "vitest";
import { age, count, duration, folder, isLive, stateOf, titleOf, tokenWords } from "./format.ts";
import type { RunRow } from "./types.ts";

const NOW = Date.parse("2026-01-02T00:00:00Z");
const row: RunRow = {
  ...{ handle: "1a2b3c4d", runId: "x", agentName: "demo", status: "running", attempts: 1, cwd: "/" },
  ...{ createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" },
};

test.each([
  [200, "0.2s"],
  [9_900, "9s"],
  [65_000, "1m 5s"],
  [3_600_000, "1h"],
  [90_000_000, "1d 1h"],
  [-5, "0.0s"],
])("%i ms are %s", (ms, words) => expect(duration(ms)).toBe(words));

test.each([
  ["2026-01-01T23:59:55Z", "now"],
  ["2026-01-01T23:30:00Z", "30m"],
  ["2025-12-25T00:00:00Z", "8d"],
  ["2025-01-01T00:00:00Z", "2025-01-01"],
  ["nonsense", ""],
])("the age of %s is %j", (at, words) => expect(age(at, NOW)).toBe(words));

test.each([
  [940, "940"],
  [12_345, "12.3k"],
  [4_500_000, "4.5M"],
])("%i is %s", (n, words) => expect(count(n)).toBe(words));

test("tokens without a count say nothing", () => {
  expect(tokenWords(null)).toBe("");
  expect(tokenWords({ input: 1_200, output: 30, cached: 0, costUsd: 0.25 })).toBe(
    "1.2k in · 30 out · $0.250",
  );
});

describe("a run", () => {
  test("without words has a title all the same", () => {
    expect(titleOf(row)).toBe("Untitled conversation");
    expect(titleOf({ ...row, title: "a\u202eb\n<b>" })).toBe("a\\u{202e}b <b>");
  });

  test("is live by its row or its record", () => {
    expect(
      [true, false, null, undefined, { pid: 1 }].map((live) => isLive({ ...row, live: live ?? null })),
    ).toEqual([true, false, false, false, true]);
    expect(isLive({ ...row, status: "completed", live: { pid: 1 } })).toBe(false);
    expect([stateOf(row), stateOf({ ...row, live: { state: "waiting" } })]).toEqual(["running", "waiting"]);
  });

  test("shows the end of its folder", () => {
    expect(folder("/home/ann/api")).toBe("api");
    expect(folder("/x/reprise/runs/20261118T142039Z-demo-7455109c/worktree")).toBe("worktree");
  });
});
