import { expect, test } from "vitest";
import { bestLine, excerpt, markLine } from "./mark.ts";
import { parseQuery } from "./query.ts";
import { identifierParts, readable, wordsIn } from "./text.ts";

/** The line with brackets around its hits. */
function bracketed(line: string, query: string): string {
  const { ranges } = markLine(line, parseQuery(query));
  return ranges.reduceRight(
    (text, [from, to]) => `${text.slice(0, from)}[${text.slice(from, to)}]${text.slice(to)}`,
    line,
  );
}

test.each([
  ["every occurrence", "cart", "a cart, the Cart", "a [cart], the [Cart]"],
  ["a phrase as a whole", '"cart test"', "test cart test", "test [cart test]"],
  ["a file name", "cart.test.ts", "edit src/cart.test.ts now", "edit src/[cart.test.ts] now"],
  ["the typed beginning", "migr*", "a migration", "a [migr]ation"],
  ["a part of an identifier", "cart", "call renameCart()", "call rename[Cart]()"],
  ["a word with an accent", "cafe", "Café", "[Café]"],
  ["no part of a longer word", "cart", "carton", "carton"],
])("marks %s", (_, query, line, expected) => {
  expect(bracketed(line, query)).toBe(expected);
});

test("the best line has the most words, and keeps its kind", () => {
  const section = { text: "the cart\nthe flaky cart test\nflaky", kinds: "mat" };
  expect(bestLine(section, parseQuery("flaky cart"))).toMatchObject({
    line: "the flaky cart test",
    kind: "answer",
    terms: 2,
  });
});

test("the best line may have accents, and words in parts of its names", () => {
  const text = "no word\nthe cart alone\nein Café mit renameCart\ncafeteria carton";
  expect(bestLine({ text, kinds: "" }, parseQuery("cafe cart")).line).toBe("ein Café mit renameCart");
});

test("an excerpt of a huge line shows the hit within its length", () => {
  const line = `${"x ".repeat(50_000)}needle${" y".repeat(50_000)}`;
  const { ranges } = markLine(line, parseQuery("needle"));
  const shown = excerpt({ line, ranges }, 70);
  expect(shown.line.length).toBeLessThanOrEqual(70);
  expect(shown.line).toMatch(/^….*needle.*…$/);
  const [[from, to] = [0, 0]] = shown.ranges;
  expect(shown.line.slice(from, to)).toBe("needle");
});

test("an excerpt never cuts a character in half", () => {
  const line = `${"😀".repeat(100)} needle`;
  for (let characters = 4; characters < 60; characters += 1) {
    const shown = excerpt({ line, ranges: markLine(line, parseQuery("needle")).ranges }, characters);
    expect(Buffer.from(shown.line).toString()).toBe(shown.line);
  }
});

test.each([
  ["renameCart", "rename Cart"],
  ["an HTTPServer with useB2C", "HTTP Server use B2 C"],
  ["plain words and snake_case", ""],
])("the parts of identifiers in %j are %j", (text, parts) => {
  expect(identifierParts(text)).toBe(parts);
});

test("words are folded and keep their places", () => {
  expect(wordsIn("Ein Café_1")).toEqual([
    { word: "ein", from: 0, to: 3 },
    { word: "cafe", from: 4, to: 8 },
    { word: "1", from: 9, to: 10 },
  ]);
});

test("readable text has no control sequences", () => {
  expect(readable("a \u001b[31mred\u001b[0m \u001b]0;title\u0007\u202e b\nc")).toBe("a red \\u{202e} b\nc");
});
