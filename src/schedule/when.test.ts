import { expect, test } from "vitest";
import { parseMoment } from "./when.ts";

const NOW = new Date(2026, 10, 18, 12, 0, 0).getTime();
const local = (...parts: [number, number, number, number, number]) =>
  new Date(parts[0], parts[1] - 1, parts[2], parts[3], parts[4]).getTime();

test.each<[string, number | null]>([
  ["12:01", local(2026, 11, 18, 12, 1)],
  ["12:00", local(2026, 11, 19, 12, 0)],
  ["7:30", local(2026, 11, 19, 7, 30)],
  ["07:30", local(2026, 11, 19, 7, 30)],
  ["2026-12-01 07:30", local(2026, 12, 1, 7, 30)],
  ["2026-12-01T07:30", local(2026, 12, 1, 7, 30)],
  ["2026-02-30 07:30", null],
  ["2026-02-30T07:30:00Z", null],
  ["2026-12-01T07:30:00Z", Date.parse("2026-12-01T07:30:00Z")],
  ["2026-12-01T07:30+02:00", Date.parse("2026-12-01T05:30:00Z")],
  ["+2h", NOW + 7_200_000],
  ["+1h30m", NOW + 5_400_000],
  ["24:00", null],
  ["tomorrow", null],
  ["", null],
  ["+", null],
  ["1", null],
])("the moment %j is read as a person means it", (text, expected) => {
  expect(parseMoment(text, NOW)).toBe(expected);
});
