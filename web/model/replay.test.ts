import { expect, test } from "vitest";
import { advance, framesAt, recordingOf } from "./replay.ts";

const LINES = [
  { t: 0, s: "r", cols: 80, rows: 24 },
  { t: 100, s: "o", n: 5 },
  { t: 10_100, s: "o", n: 3 },
  { t: 10_200, s: "r", cols: 100, rows: 30 },
];

test("frames have their bytes, sizes and times", () => {
  expect(recordingOf(LINES, 8, false)).toEqual({
    length: 10_200,
    frames: [
      { t: 0, at: 0, cols: 80, rows: 24 },
      { t: 100, at: 0, n: 5 },
      { t: 10_100, at: 5, n: 3 },
      { t: 10_200, at: 8, cols: 100, rows: 30 },
    ],
  });
});

test("a skipped silence takes two seconds", () => {
  expect(recordingOf(LINES, 8, true).frames.map(({ t }) => t)).toEqual([0, 100, 2_100, 2_200]);
});

test("bytes without a time come at the end, and times without bytes are left out", () => {
  expect(recordingOf(LINES, 10, false).frames.at(-1)).toEqual({ t: 10_200, at: 8, n: 2 });
  expect(recordingOf(LINES, 5, false).frames).toHaveLength(3);
  expect(recordingOf([], 0, false)).toEqual({ frames: [], length: 0 });
});

test.each([
  [0, 1],
  [99, 1],
  [100, 2],
  [10_150, 3],
  [99_999, 4],
])("at %i ms %i frames were shown", (ms, shown) => {
  expect(framesAt(recordingOf(LINES, 8, false), ms)).toBe(shown);
});

test("the clock runs with its speed and stops at the end", () => {
  expect(advance(100, 50, 2, 1_000)).toBe(200);
  expect(advance(990, 50, 2, 1_000)).toBe(1_000);
  expect(advance(100, -50, 2, 1_000)).toBe(100);
});
