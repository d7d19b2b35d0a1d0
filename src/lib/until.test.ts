import { expect, test } from "vitest";
import { untilText } from "./until.ts";

const NOW = new Date(2026, 10, 16, 16, 17, 30).getTime();
const at = (day: number, hours: number, minutes: number, seconds = 0) =>
  new Date(2026, 10, day, hours, minutes, seconds).getTime();

test.each([
  [at(16, 16, 40), "until 16:40 (in 23 min)"],
  [at(16, 16, 18), "until 16:18 (in 30 s)"],
  [at(16, 17, 17, 30), "until 17:17 (in 1 h)"],
  [at(16, 23, 59), "until 23:59 (in 7 h 42 min)"],
  [at(17, 0, 5), "until 2026-11-17 00:05 (in 7 h 48 min)"],
  [at(17, 16, 17, 30), "until 2026-11-17 16:17 (in 24 h)"],
  [at(20, 18, 17, 30), "until 2026-11-20 18:17 (in 4 d 2 h)"],
  [at(16, 16, 17), "until 16:17 (now)"],
])("%i", (atMs, text) => {
  expect(untilText(atMs, NOW)).toBe(text);
});
