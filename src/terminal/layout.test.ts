/** Positions on a screen: the shares of fixed and flexible parts, and lines that do not fit. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { widthOf } from "../lib/width.ts";
import { beside, page, ruled, scrolledTo, split, stacked, type PartExtent } from "./layout.ts";
import { styled } from "./text.ts";

const textOf = (lines: readonly (readonly { text: string }[])[]) =>
  lines.map((line) => line.map(({ text }) => text).join(""));
const drawn = (...lines: string[]) => [() => styled(lines)] as const;

test.each<[name: string, total: number, extents: PartExtent[], sizes: number[]]>([
  ["a flexible part gets what the fixed ones leave", 24, [2, "rest", 1], [2, 21, 1]],
  [
    "flexible parts share evenly, and lose nothing to rounding",
    11,
    ["rest", 1, "rest", "rest"],
    [3, 1, 3, 4],
  ],
  ["fixed parts alone may leave room", 10, [3, 4], [3, 4]],
  ["where there is too little room, the last parts get less", 5, [3, "rest", 4], [3, 0, 2]],
  ["nothing can be split", 0, ["rest", 2], [0, 0]],
])("%s", (_name, total, extents, sizes) => {
  expect(split(total, ...extents)).toEqual(sizes);
});

test("stacked parts keep their height, however many lines they draw", () => {
  const parts = [
    [2, ...drawn("a")],
    ["rest", ...drawn("b", "c", "d")],
    [1, ...drawn("e")],
  ] as const;
  expect(textOf(stacked({ columns: 9, rows: 5 }, parts))).toEqual(["a", "", "b", "c", "e"]);
});

test("parts side by side keep their columns: short lines are filled, long lines are cut", () => {
  const parts = [
    [4, ...drawn("ab", "日本語", "")],
    [3, ...drawn(" │ ", " │ ")],
    ["rest", ...drawn("right", "too wide")],
  ] as const;
  expect(textOf(beside({ columns: 13, rows: 3 }, parts))).toEqual([
    "ab   │ right",
    "日…  │ too w…",
    "       ",
  ]);
});

test("a screen of any parts and size is exactly as high as the terminal, and no wider", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "日", "e\u0301", "👍"), maxLength: 30 });
  const lines = fc.array(text, { maxLength: 12 }).map((all) => () => styled(all));
  const extent = fc.oneof(fc.nat(20), fc.constant("rest" as const));
  const parts = fc.array(fc.tuple(extent, lines), { maxLength: 5 });
  fc.assert(
    fc.property(parts, parts, fc.nat(60), fc.nat(20), (above, across, columns, rows) => {
      const screen = stacked({ columns, rows }, [
        ...above.map(([height, draw]) => [height, draw] as const),
        ["rest", (size) => beside(size, across)],
      ]);
      expect(screen).toHaveLength(rows);
      expect(beside({ columns, rows }, across)).toHaveLength(rows);
      for (const line of textOf(beside({ columns, rows }, across)))
        expect(widthOf(line)).toBeLessThanOrEqual(columns);
    }),
  );
});

test("a page has exactly its rows, from any line on", () => {
  expect(textOf(page(styled(["a", "b", "c"]), 2, 1))).toEqual(["b", "c"]);
  expect(textOf(page(styled(["a"]), 2))).toEqual(["a", ""]);
  expect(page(styled(["a"]), -1)).toEqual([]);
});

test.each<[name: string, cursor: number, top: number, rows: number, length: number, to: number]>([
  ["a cursor on the page moves nothing", 5, 3, 4, 20, 3],
  ["a cursor below the page becomes its last line", 9, 3, 4, 20, 6],
  ["a cursor above the page becomes its first line", 1, 3, 4, 20, 1],
  ["the last page is full", 19, 18, 4, 20, 16],
  ["a short text begins at its first line", 1, 1, 4, 2, 0],
])("%s", (_name, cursor, top, rows, length, to) => {
  expect(scrolledTo(cursor, top, rows, length)).toBe(to);
});

test("a rule is as wide as the screen, whatever its title", () => {
  expect(textOf([ruled(" Keys", 12), ruled(" a long title", 8)])).toEqual(["── Keys ────", "── a lo─"]);
});
