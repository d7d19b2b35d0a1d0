import { expect, test } from "vitest";
import { alteredArguments, alteredVariables } from "./raw.ts";

const bytes = (...texts: readonly string[]) => texts.map((text) => Buffer.from(text, "latin1"));
const decoded = (...raw: readonly Buffer[]) => raw.map((part) => part.toString("utf8"));

test.for([
  ["nothing is suspect", bytes("start", "demo", "hello"), []],
  ["a byte of Latin-1", bytes("start", "caf\xe9"), [{ what: "2", bad: { at: 4, byte: "0xe9" } }]],
  ["a sequence that ends too soon", bytes("caf\xc3"), [{ what: "1", bad: { at: 4, byte: "0xc3" } }]],
  ["a surrogate", bytes("\xed\xa0\x80"), [{ what: "1", bad: { at: 1, byte: "0xed" } }]],
  ["the replacement character itself", bytes("\xef\xbf\xbd"), []],
  [
    "the replacement character, then a bad byte",
    bytes("\xef\xbf\xbd\xff"),
    [{ what: "1", bad: { at: 4, byte: "0xff" } }],
  ],
] as const)("arguments: %s", ([, raw, found]) => {
  // Node and its options come first.
  expect(alteredArguments(decoded(...raw), () => [...bytes("node", "x.js"), ...raw])).toEqual(found);
});

test("variables that are not UTF-8 are found by name, even if the name is not UTF-8", () => {
  const raw = bytes("A=caf\xe9", "B=good", "\xe9=x", "C=\xef\xbf\xbd");
  const env = Object.fromEntries(decoded(...raw).map((entry) => entry.split("=", 2) as [string, string]));
  expect(alteredVariables(env, () => raw)).toEqual([
    { what: "A", bad: { at: 6, byte: "0xe9" } },
    { what: "\\xe9", bad: { at: 1, byte: "0xe9" } },
  ]);
});

test("a name that is not UTF-8 is found where Node hides it, even beside a name with the same spelling", () => {
  const raw = bytes("BAD\xffNAME=1", "BAD\xef\xbf\xbdNAME=2");
  const env = Object.defineProperty({}, "BAD\uFFFDNAME", { enumerable: false, value: undefined });
  expect(alteredVariables(env, () => raw)).toEqual([{ what: "BAD\\xffNAME", bad: { at: 4, byte: "0xff" } }]);
});

test("where the system keeps no bytes, a suspect name is reported as suspect", () => {
  expect(alteredArguments(["caf\uFFFD"], () => null)).toEqual([{ what: "1", bad: null }]);
  expect(alteredVariables({ A: "\uFFFD", B: "b" }, () => null)).toEqual([{ what: "A", bad: null }]);
});
