import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Tokens } from "../core/events.ts";
import type { AttemptRecord, UsedAttempt } from "../core/records.ts";
import { usedBy } from "../core/tokens.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import { type UsageGrouping, usageReport } from "./usage-report.ts";

beforeAll(() => {
  vi.stubEnv("TZ", "America/New_York");
});

function attempt(
  n: number,
  tokens: Tokens | null,
  fields: Partial<AttemptRecord> & { readonly agentName?: string } = {},
): UsedAttempt | null {
  const { agentName = "codex", ...more } = fields;
  const run = runLike(n);
  const record = attemptLike(run, 1, { state: "ended", tokens, ...more });
  return usedBy({ ...run, agentName }, record);
}

type Prices = Parameters<typeof usageReport>[2];

/** Attempts that never began are null. */
const report = (all: readonly (UsedAttempt | null)[], by: UsageGrouping, prices?: Prices) =>
  usageReport(
    all.filter((one) => one !== null),
    by,
    prices,
  );

const used = (all: readonly (UsedAttempt | null)[], by: UsageGrouping) =>
  report(all, by).groups.map(({ key, input, output }) => [key, input, output]);

test("days are local, by the start of the attempt, oldest first", () => {
  const all = [
    attempt(1, { input: 5, output: 5 }, { startedAt: "2026-11-18T05:00:00.000Z" }),
    attempt(2, { input: 1, output: 1 }, { startedAt: "2026-11-18T04:59:59.000Z" }),
  ];
  expect(used(all, "day")).toEqual([
    ["2026-11-17", 1, 1],
    ["2026-11-18", 5, 5],
  ]);
});

test("other groups begin with the largest", () => {
  const all = [
    attempt(1, { input: 1, output: 1 }, { cwd: "/a", agentName: "demo" }),
    attempt(2, { input: 7, output: 1 }, { cwd: "/b" }),
    attempt(3, { input: 7, output: 1 }, { cwd: "/b" }),
  ];
  expect(used(all, "engine")).toEqual([
    ["codex", 14, 2],
    ["demo", 1, 1],
  ]);
  expect(used(all, "folder")).toEqual([
    ["/b", 14, 2],
    ["/a", 1, 1],
  ]);
  expect(used(all, "run").map(([key]) => key)).toEqual(["00000002", "00000003", "00000001"]);
});

describe("the model", () => {
  const cases: Record<string, [args: readonly string[], named: string | undefined, then: string | null]> = {
    "has the name that the engine reported": [["-m", "asked"], "named", "named"],
    "has the name of the option if the engine reports none": [["exec", "-m", "asked"], undefined, "asked"],
    "has the name of the last option": [["--model=a", "--model", "b"], undefined, "b"],
    "is not read from the message": [["exec", "--", "--model", "x"], undefined, null],
    "is unknown without both": [["exec"], undefined, null],
  };
  test.each(Object.entries(cases))("%s", (_name, [args, model, then]) => {
    const tokens = { input: 1, output: 1, ...(model === undefined ? {} : { model }) };
    expect(report([attempt(1, tokens, { args })], "model").groups[0]?.key).toBe(then);
  });
});

describe("the cost", () => {
  const prices = { m: { input: 2, cached: 0.5, output: 10 }, plain: { input: 2, output: 10 } };
  const cases: Record<string, [tokens: Tokens, then: number | null]> = {
    "is the engine's, whatever the price": [{ input: 1_000_000, output: 0, costUsd: 7, model: "m" }, 7],
    "counts the cached part of the input once, at its price": [
      { input: 1_000_000, cached: 400_000, output: 100_000, model: "m" },
      0.6 * 2 + 0.4 * 0.5 + 0.1 * 10,
    ],
    "is the same for cached input without a separate price": [
      { input: 1_000_000, cached: 400_000, output: 0, model: "plain" },
      2,
    ],
    "is unknown without a price": [{ input: 1, output: 1, model: "other" }, null],
    "is unknown for a model named like a method": [{ input: 1, output: 1, model: "toString" }, null],
  };
  test.each(Object.entries(cases))("%s", (_name, [tokens, then]) => {
    const { total } = report([attempt(1, tokens)], "day", prices);
    if (then === null) expect(total).toMatchObject({ costUsd: null, unpriced: 1 });
    else expect(total).toMatchObject({ costUsd: expect.closeTo(then, 9), unpriced: 0 });
  });
});

test("attempts without tokens are counted apart, and attempts that never began are left out", () => {
  const all = [
    attempt(1, null),
    attempt(2, null, { state: "intended" }),
    attempt(3, { input: 1, output: 2, cached: 1 }),
  ];
  expect(report(all, "engine").total).toEqual({
    runs: 2,
    attempts: 2,
    uncounted: 1,
    input: 1,
    output: 2,
    cached: 1,
    reasoning: null,
    costUsd: null,
    unpriced: 1,
  });
});

test("limits that ended an attempt are listed, newest first", () => {
  const hit = (n: number, kind: "rate_limited" | "quota" | "auth", endedAt: string, resetsAt?: string) =>
    attempt(n, null, {
      endedAt,
      outcome: {
        result: "failed",
        reason: "r",
        trouble: { kind, message: "m", ...(resetsAt === undefined ? {} : { resetsAt }) },
      },
    });
  const all = [
    hit(1, "rate_limited", "2026-01-01T00:00:00.000Z", "2026-01-01T05:00:00.000Z"),
    hit(2, "auth", "2026-01-02T00:00:00.000Z"),
    hit(3, "quota", "2026-01-03T00:00:00.000Z"),
  ];
  expect(report(all, "day").limits).toEqual([
    {
      handle: "00000003",
      attempt: 1,
      engine: "codex",
      kind: "quota",
      at: "2026-01-03T00:00:00.000Z",
      resetsAt: null,
    },
    {
      handle: "00000001",
      attempt: 1,
      engine: "codex",
      kind: "rate_limited",
      at: "2026-01-01T00:00:00.000Z",
      resetsAt: "2026-01-01T05:00:00.000Z",
    },
  ]);
});
