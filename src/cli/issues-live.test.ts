import { expect, test } from "vitest";
import { batchProgress } from "./issues-live.ts";

test.each([
  ["nothing is estimated before an issue is done", 0, 5, 60_000, []],
  ["the pace so far gives the rest", 3, 5, 18 * 60_000, ["3 of 5 done, about 12 m left"]],
  ["only the largest unit is named", 1, 3, 3_700_000, ["1 of 3 done, about 2 h left"]],
  ["nothing is left after the last issue", 5, 5, 60_000, []],
] as const)("%s", (_name, done, planned, elapsedMs, then) => {
  expect(batchProgress({ done, planned, elapsedMs })).toEqual(then);
});
