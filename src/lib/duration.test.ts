import { expect, test } from "vitest";
import { formatDuration, parseDuration, typedDuration } from "./duration.ts";

test.each([
  ["15m", 900_000],
  ["90s", 90_000],
  ["1h30m", 5_400_000],
  ["250ms", 250],
  ["2d", 172_800_000],
  ["1d2h3m4s5ms", 93_784_005],
  ["365d", 31_536_000_000],
  ["0", 0],
  ["0s", 0],
  ["0h0m", 0],
  ...[
    "",
    " 5m",
    "5 m",
    "5",
    "-5m",
    "+5m",
    "1.5h",
    "5M",
    "5 parsecs",
    "m",
    "30m1h",
    "5m5m",
    "366d",
    "1e3s",
    "0x5s",
    "٥m",
  ].map((text): [string, null] => [text, null]),
  ["9".repeat(1_000_000), null],
])("parses %.20j", (given, then) => expect(parseDuration(given)).toBe(then));

test.each([
  [0, "0 ms"],
  [-5, "0 ms"],
  [999.4, "999 ms"],
  [1_200, "1.2 s"],
  [9_999, "9.9 s"],
  [10_000, "10 s"],
  [45_678, "45 s"],
  [60_000, "1 m"],
  [65_000, "1 m 5 s"],
  [7_800_000, "2 h 10 m"],
  [7_205_000, "2 h"],
  [90_000_000, "1 d 1 h"],
])("shows %d ms", (given, then) => expect(formatDuration(given)).toBe(then));

test.each([
  [0, "0"],
  [90_000, "1m30s"],
  [5_400_000, "1h30m"],
  [93_784_005, "1d2h3m4s5ms"],
])("%d ms are typed as %s, and read back unchanged", (ms, typed) => {
  expect(typedDuration(ms)).toBe(typed);
  expect(parseDuration(typed)).toBe(ms);
});
