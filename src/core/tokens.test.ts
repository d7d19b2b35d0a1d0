import { describe, expect, test } from "vitest";
import type { Tokens } from "./events.ts";
import { dollars, NO_TOKENS, ownTokens, type ReportedUsage, sumTokens, tokensText } from "./tokens.ts";

describe("ownTokens", () => {
  const total = (input: number, output: number, more: Partial<Tokens> = {}): Tokens => ({
    input,
    output,
    ...more,
  });
  const cases: Record<string, [usage: ReportedUsage, before: Tokens | null, then: Tokens | null]> = {
    "counts of the attempt stay": [{ tokens: total(10, 5) }, NO_TOKENS, total(10, 5)],
    "totals of a new conversation are the attempt's": [
      { tokens: null, session: total(100, 10, { cached: 60, model: "m" }) },
      NO_TOKENS,
      total(100, 10, { cached: 60, model: "m" }),
    ],
    "a resume used the difference of the totals": [
      { tokens: null, session: total(300, 30, { cached: 90, reasoning: 4 }) },
      total(100, 10, { cached: 60, reasoning: 1 }),
      total(200, 20, { cached: 30, reasoning: 3 }),
    ],
    "totals without a known beginning cannot be divided": [
      { tokens: null, session: total(300, 30) },
      null,
      null,
    ],
    "totals that shrank are not of the same conversation": [
      { tokens: null, session: total(50, 30) },
      total(100, 10),
      null,
    ],
    "only the cost comes from totals where the counts are known": [
      { tokens: total(10, 12), session: total(20, 24, { costUsd: 0.00056 }) },
      total(10, 12, { costUsd: 0.00028 }),
      total(10, 12, { costUsd: 0.00028 }),
    ],
    "a cost of the turn is not replaced": [
      { tokens: total(10, 12, { costUsd: 3 }), session: total(10, 12, { costUsd: 3 }) },
      total(100, 120, { costUsd: 2 }),
      total(10, 12, { costUsd: 3 }),
    ],
    "totals that grew by less than the turn give no cost": [
      { tokens: total(10, 12), session: total(105, 125, { costUsd: 3 }) },
      total(100, 120, { costUsd: 2 }),
      total(10, 12),
    ],
    "an unknown total before gives no cost": [
      { tokens: total(10, 12), session: total(20, 24, { costUsd: 1 }) },
      null,
      total(10, 12),
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [usage, before, then]) => {
    expect(ownTokens(usage, before)).toEqual(then);
  });
});

test("sums keep parts that one side reports, and a model only if both have it", () => {
  const a: Tokens = { input: 1, output: 2, cached: 1, model: "m" };
  expect(sumTokens(a, { input: 10, output: 20, model: "m" })).toEqual({
    input: 11,
    output: 22,
    cached: 1,
    model: "m",
  });
  expect(sumTokens(a, { input: 10, output: 20, costUsd: 1, model: "n" })).toEqual({
    input: 11,
    output: 22,
    cached: 1,
    costUsd: 1,
  });
});

test("text names only parts that are not zero", () => {
  expect(tokensText({ input: 10, output: 5, cached: 0, reasoning: 0 })).toBe("10 in, 5 out");
  expect(tokensText({ input: 10, output: 5, cached: 4, reasoning: 2, costUsd: 0.00028 })).toBe(
    "10 in (4 cached), 5 out (2 reasoning), $0.00028",
  );
});

test.each([
  [0, "$0.00"],
  [0.1, "$0.10"],
  [12.345, "$12.35"],
  [0.0123, "$0.012"],
  [0.000_000_5, "$0.0000005"],
])("%d is %s", (usd, text) => expect(dollars(usd)).toBe(text));
