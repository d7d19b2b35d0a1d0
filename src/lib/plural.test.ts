import { expect, test } from "vitest";
import { plural, shortCount } from "./plural.ts";

test("plural adds an s unless the number is one", () => {
  expect([plural(1, "run"), plural(2, "run"), plural(0, "directory", "directories")]).toEqual([
    "1 run",
    "2 runs",
    "0 directories",
  ]);
});

test.each([
  [950, "950"],
  [12_345, "12k"],
  [999_499, "999k"],
  [999_500, "1.0M"],
  [3_440_000, "3.4M"],
])("%s tokens are shown as %j", (count, text) => {
  expect(shortCount(count)).toBe(text);
});
