import { expect, test } from "vitest";
import { ranked } from "./fuzzy.ts";

const TEXTS = ["rename the cart module", "fix the flaky cart test", "write the changelog", "art of naming"];
const found = (query: string) =>
  ranked(
    query,
    TEXTS.map((text) => ({ text })),
  ).map(({ text }) => text);

test.each([
  ["", TEXTS],
  ["  ", TEXTS],
  ["zzz", []],
  ["flaky", ["fix the flaky cart test"]],
  ["CART test", ["fix the flaky cart test"]],
  ["test cart", ["fix the flaky cart test"]],
  ["cart", ["rename the cart module", "fix the flaky cart test"]],
  // A word that begins with the query comes before a word that contains it.
  ["art", ["art of naming", "rename the cart module", "fix the flaky cart test"]],
  ["chlog", ["write the changelog"]],
  ["rtcm", ["rename the cart module"]],
  // Scattered, two letters would find three of these texts.
  ["rm", []],
  ["th ca", ["rename the cart module", "fix the flaky cart test"]],
])("%j finds %j", (query, texts) => {
  expect(found(query)).toEqual(texts);
});

test("equal texts keep their order", () => {
  const rows = ["xa", "xa", "a", "xa"].map((text, at) => ({ text, at }));
  expect(ranked("a", rows).map(({ at }) => at)).toEqual([2, 0, 1, 3]);
});
