import { expect, test } from "vitest";
import { matchText, parseQuery } from "./query.ts";

test.each([
  ["words must all occur", "flaky cart", '"flaky" AND "cart"'],
  ["a phrase stays together", 'say "flaky cart test" now', '"say" AND "flaky cart test" AND "now"'],
  ["a final star means a beginning", "migr*", '"migr" *'],
  ["a file name is a phrase of its parts", "src/cart.test.ts", '"src cart test ts"'],
  ["accents and capitals do not matter", "Größe CAFÉ", '"große" AND "cafe"'],
  ["operators are words", "a AND NOT b OR c", '"a" AND "and" AND "not" AND "b" AND "or" AND "c"'],
  ["a function of the database is a word", "NEAR(cart, 5)", '"near cart" AND "5"'],
  ["a column filter is a phrase", "text:cart -x ^y", '"text cart" AND "x" AND "y"'],
  ["an open quote is ignored", '"cart', '"cart"'],
  ["a star alone is no word", "cart * **", '"cart"'],
])("%s", (_, given, expected) => {
  expect(matchText(parseQuery(given))).toBe(expected);
});

test.each(["", "  ", '"', '""', "*", "( ) ; --", "\u0000\u001b"])("%j has no word", (given) => {
  expect(parseQuery(given)).toEqual([]);
});

test("a huge query is cut", () => {
  expect(parseQuery("a ".repeat(10_000)).length).toBeLessThanOrEqual(32);
});
