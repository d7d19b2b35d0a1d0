import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evenWindow, Heights } from "./virtual.ts";

describe("rows of one height", () => {
  test("draws the seen rows and a few around them", () => {
    expect(evenWindow(10_000, 40, { top: 4_000, height: 400 }, 8)).toEqual({
      ...{ from: 92, to: 118 },
      ...{ before: 92 * 40, after: (10_000 - 118) * 40 },
    });
  });

  test("stays inside a short list and an empty one", () => {
    expect(evenWindow(3, 40, { top: 0, height: 800 })).toEqual({ from: 0, to: 3, before: 0, after: 0 });
    expect(evenWindow(0, 40, { top: 0, height: 800 })).toEqual({ from: 0, to: 0, before: 0, after: 0 });
  });

  test("a list that became shorter than the scroll position draws its end", () => {
    const shown = evenWindow(5, 40, { top: 4_000, height: 400 });
    expect(shown.to).toBe(5);
    expect(shown.before + (shown.to - shown.from) * 40 + shown.after).toBe(200);
  });
});

describe("measured rows", () => {
  test("offsets follow what was measured, and guesses elsewhere", () => {
    const heights = new Heights(() => 10);
    heights.resize(5);
    expect(heights.total).toBe(50);
    expect(heights.measured(1, 25)).toBe(15);
    expect([heights.offset(1), heights.offset(2), heights.total]).toEqual([10, 35, 65]);
    heights.resize(8);
    expect(heights.total).toBe(95);
  });

  test("the window holds every visible row, and its spaces add up", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 80 }),
        fc.nat(20_000),
        fc.integer({ min: 1, max: 900 }),
        (rows, top, height) => {
          const heights = new Heights(() => 50);
          heights.resize(rows.length);
          for (const [row, value] of rows.entries()) heights.measured(row, value);
          const total = rows.reduce((sum, value) => sum + value, 0);
          const shown = heights.window({ top, height }, 0);
          const drawn = rows.slice(shown.from, shown.to).reduce((sum, value) => sum + value, 0);
          expect(shown.before + drawn + shown.after).toBe(total);
          let at = 0;
          for (const [row, value] of rows.entries()) {
            const isSeen = at < Math.min(total, top + height) && at + value > top;
            if (isSeen) expect(row >= shown.from && row < shown.to).toBe(true);
            at += value;
          }
        },
      ),
    );
  });
});
