import * as fc from "fast-check";
import { expect, test } from "vitest";
import { LineSplitter } from "./lines.ts";

function split(chunks: readonly (string | Buffer)[], maxBytes = 1000): string[] {
  const splitter = new LineSplitter(maxBytes);
  const lines = chunks.flatMap((chunk) => splitter.push(Buffer.from(chunk)));
  return [...lines, ...splitter.end()];
}

const cases: Record<
  string,
  [given: readonly (string | Buffer)[], then: readonly string[], maxBytes?: number]
> = {
  nothing: [[], []],
  "one line": [["a\n"], ["a"]],
  "no line feed at the end": [["a\nb"], ["a", "b"]],
  "empty lines count": [["\n\na\n"], ["", "", "a"]],
  "carriage returns go with the line feed": [
    ["a\r\nb\r", "\nc\rd\r"],
    ["a", "b", "c\rd"],
  ],
  "a line over several chunks": [
    ["ab", "", "c", "d\ne"],
    ["abcd", "e"],
  ],
  "a character over several chunks": [[Buffer.from([0xf0, 0x9f]), Buffer.from([0x98, 0x80, 10])], ["😀"]],
  "broken UTF-8": [[Buffer.from([0xff, 0xfe, 10, 0xe2, 0x82, 10])], ["\ufffd\ufffd", "\ufffd"]],
  "zero bytes": [["a\0b\n"], ["a\0b"]],
  "exactly the limit": [["abcd\n"], ["abcd"], 4],
  "one more than the limit": [["abcde\nf\n"], ["", "f"], 4],
  "over the limit in small pieces": [["ab", "cd", "e", "fgh", "i\nj"], ["", "j"], 4],
  "over the limit without an end": [["ab", "cde"], [""], 4],
};

test.each(Object.entries(cases))("%s", (_name, [given, then, maxBytes]) => {
  expect(split(given, maxBytes)).toEqual(then);
});

test("lines do not depend on where the chunks are cut", () => {
  const bytes = fc.array(fc.oneof(fc.constantFrom(10, 13, 0xe2, 0x82, 0xac), fc.nat(255)), { maxLength: 60 });
  fc.assert(
    fc.property(
      bytes,
      fc.array(fc.nat(60), { maxLength: 8 }),
      fc.integer({ min: 1, max: 40 }),
      (given, cuts, max) => {
        const whole = Buffer.from(given);
        const at = [0, ...cuts.filter((cut) => cut < whole.length).toSorted((a, b) => a - b), whole.length];
        const chunks = at.slice(1).map((to, index) => whole.subarray(at[index], to));
        expect(split(chunks, max)).toEqual(split([whole], max));
      },
    ),
  );
});

test("a chunk may be reused by the caller", () => {
  const splitter = new LineSplitter(100);
  const chunk = Buffer.from("abc");
  splitter.push(chunk);
  chunk.fill("x");
  expect(splitter.push(Buffer.from("\n"))).toEqual(["abc"]);
});

test("an endless line takes no memory", () => {
  const splitter = new LineSplitter(1024 * 1024);
  const chunk = Buffer.alloc(64 * 1024, "a");
  const before = process.memoryUsage();
  for (let pushed = 0; pushed < 1024 ** 3; pushed += chunk.length) splitter.push(chunk);
  const after = process.memoryUsage();
  expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8 * 1024 * 1024);
  expect(splitter.end()).toEqual([""]);
});
