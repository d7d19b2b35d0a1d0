import { describe, expect, test } from "vitest";
import { limitOf, limitWords } from "./limit.ts";

const NOW = Date.parse("2026-11-18T12:00:00.000Z");
const at = (ms: number) => new Date(NOW + ms).toISOString();
const [S, M, H] = [1_000, 60_000, 3_600_000];

describe("the words for a limit", () => {
  test.each([
    [40 * S, "limited, resets in 40 s"],
    [23 * M, "limited, resets in 23 m"],
    [59 * M + 40 * S, "limited, resets in 1 h"],
    [5 * H + 59 * M, "limited, resets in 6 h"],
    [80 * H, "limited, resets in 3 d"],
    [0, "limit ended 0 s ago"],
    [-2 * H, "limit ended 2 h ago"],
  ])("%i ms from now: %s", (ms, text) => {
    expect(limitWords({ kind: "rate_limited", resetsAt: at(ms) }, NOW).text).toBe(text);
  });

  test("name the way on once the limit is over, and nothing that nobody knows", () => {
    expect(limitWords({ kind: "rate_limited", resetsAt: at(-2 * H) }, NOW)).toEqual({
      state: "limit ended",
      left: "",
      next: "limit ended 2 h ago, can go on",
      text: "limit ended 2 h ago",
    });
    for (const resetsAt of [null, "soon"])
      expect(limitWords({ kind: "quota", resetsAt }, NOW)).toEqual({
        state: "limited",
        left: "",
        next: "",
        text: "limited",
      });
  });
});

test("only a rate limit or a quota is a limit", () => {
  const ended = (kind: "rate_limited" | "quota" | "auth") => ({
    outcome: { result: "failed", reason: "x", trouble: { kind, message: "x" } } as const,
  });
  expect(limitOf(ended("rate_limited"))).toEqual({ kind: "rate_limited", resetsAt: null });
  expect(limitOf(ended("quota"))?.kind).toBe("quota");
  expect(limitOf(ended("auth"))).toBeNull();
  expect(limitOf({ outcome: null })).toBeNull();
  expect(limitOf(undefined)).toBeNull();
});
