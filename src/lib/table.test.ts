import { expect, test } from "vitest";
import { table } from "./table.ts";
import { cutToColumns, widthOf } from "./width.ts";

test("columns are aligned by their width on the terminal", () => {
  expect(
    table([
      ["HANDLE", "NAME", "MESSAGE"],
      ["1a2b3c4d", "日本", "fix it"],
      ["deadbeef", "", ""],
      ["0", "e\u0301", "👍 done"],
    ]),
  ).toEqual([
    "HANDLE    NAME  MESSAGE",
    "1a2b3c4d  日本  fix it",
    "deadbeef",
    "0         e\u0301     👍 done",
  ]);
});

test("the last column is cut to the limit", () => {
  expect(
    table(
      [
        ["ab", "a long message"],
        ["c", "short"],
      ],
      12,
    ),
  ).toEqual(["ab  a long …", "c   short"]);
});

test("a table copes with no rows, uneven rows and no room", () => {
  expect(table([])).toEqual([]);
  expect(table([["a"], ["bb", "c"]])).toEqual(["a", "bb  c"]);
  expect(table([["aaaa", "bbbb"]], 3)).toEqual(["aaaa  …"]);
});

test.each([
  ["abc", 3],
  ["日本語", 6],
  ["한국어", 6],
  ["ａ", 2],
  ["👍🏽", 4],
  ["❤", 1],
  ["é", 1],
  ["e\u0301\u200d\ufe0f", 1],
  ["", 0],
])("%j is %d columns wide", (text, width) => expect(widthOf(text)).toBe(width));

test("a cut text never exceeds its columns", () => {
  for (let columns = 0; columns < 12; columns += 1) {
    expect(widthOf(cutToColumns("a日b本c👍d", columns))).toBeLessThanOrEqual(columns);
  }
  expect(cutToColumns("a日b本c👍d", 10)).toBe("a日b本c👍d");
});
