/** Cutting a text to columns, at either end. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { cutStart, cutToColumns, widthOf } from "./width.ts";

test.each<[text: string, columns: number, end: string]>([
  ["src/cart.ts", 11, "src/cart.ts"],
  ["src/cart.ts", 8, "…cart.ts"],
  ["日本語", 4, "…語"],
  ["ab", 1, "…"],
  ["ab", 0, ""],
])("the end of %j in %i columns is %j", (text, columns, end) => {
  expect(cutStart(text, columns)).toBe(end);
});

test("a text cut at either end is no wider than requested, and whole if it fits", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "日", "👍", "\u0301"), maxLength: 20 });
  fc.assert(
    fc.property(text, fc.nat(30), (all, columns) => {
      for (const cut of [cutStart, cutToColumns]) {
        const part = cut(all, columns);
        expect(widthOf(part)).toBeLessThanOrEqual(columns);
        expect(part === all).toBe(widthOf(all) <= columns);
      }
    }),
  );
});
