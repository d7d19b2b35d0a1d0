import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cpuMs } from "../../test/cpu.ts";
import { harmless, harmlessJson, harmlessLine, plain, wholeSentences } from "./harmless.ts";

describe("harmless", () => {
  test.each([
    ["ordinary text\n\twith ümlauts, 日本 and 👍🏽", "ordinary text\n\twith ümlauts, 日本 and 👍🏽"],
    ["a\x1b]52;c;ZXZpbA==\x07b", "a\\x1b]52;c;ZXZpbA==\\x07b"],
    ["\x00\x7f\x9b\x85\r", "\\x00\\x7f\\x9b\\x85\\x0d"],
    ["user\u202etxt.exe", "user\\u{202e}txt.exe"],
    ["a\u200bb\u2066c\ufeff\u2028", "a\\u{200b}b\\u{2066}c\\u{feff}\\u{2028}"],
    ["\ud800 \udc00 \u{e0041}", "\\u{d800} \\u{dc00} \\u{e0041}"],
    ["", ""],
  ])("%j", (given, then) => expect(harmless(given)).toBe(then));

  test("leaves nothing harmful in any text, and changes nothing the second time", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const shown = harmless(text);
        expect(shown).not.toMatch(
          /[^\P{Cc}\n\t]|[\p{Cs}\p{Zl}\p{Zp}]|[\u200b-\u200f\u202a-\u202e\u2060-\u206f\u{e0000}-\u{e007f}]/u,
        );
        expect(harmless(shown)).toBe(shown);
      }),
    );
  });
});

describe("wholeSentences", () => {
  test.each([
    ["It is short: reprise show 1", 40, "It is short: reprise show 1"],
    ["It broke. Type this: reprise resume 1a2b3c4d", 40, "It broke. …"],
    ["It broke. It did\ntwice. Type this: reprise resume 1a2b3c4d", 40, "It broke. It did twice. …"],
    ["It broke, so type: `reprise resume 1a2b3c4d --force-fresh`", 40, "It broke, so type …"],
    ["a word and another word and another word and more", 20, "a word and another …"],
    ["It ends like this …", 40, "It ends like this …"],
  ])("%j in %d columns", (text, max, then) => expect(wholeSentences(text, max)).toBe(then));
});

describe("harmlessJson", () => {
  test("keeps the value, and escapes everything that a terminal obeys", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
        const text = harmlessJson(value, 2);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(harmless(text)).toBe(text);
      }),
    );
    expect(harmlessJson(["\u009b31m\u202e\u{e0041}é"])).toBe('["\\u009b31m\\u202e\\udb40\\udc41é"]');
  });
});

describe("harmlessLine", () => {
  const cases: [given: string, max: number | undefined, then: string][] = [
    ["a\nb\tc\r\nd\re", undefined, "a b c d e"],
    ["abcdef", 6, "abcdef"],
    ["abcdefg", 6, "abcde…"],
    ["日本語", 6, "日本語"],
    ["日本語", 5, "日本…"],
    ["日本語", 4, "日…"],
    ["👍👍👍", 5, "👍👍…"],
    ["ab\x1bcd", 4, "ab\\…"],
    ["abc", 1, "…"],
    ["abc", 0, ""],
    ["a".repeat(100_000), 3, "aa…"],
    ["e" + "\u0301".repeat(100_000), 3, "e" + "\u0301".repeat(87) + "…"],
  ];
  test.each(cases)("%j in %j columns", (given, max, then) => expect(harmlessLine(given, max)).toBe(then));
});

describe("plain", () => {
  test.each([
    ["colours", "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m", "red x"],
    ["titles and links", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"],
    ["a string that never ends hides its line only", "a\x1b]52;c;evil\nb", "a\nb"],
    ["device control strings", "a\x1bPq#0;1\x1b\\b\x1b_x\x1b\\c\x1b^y\x9cd", "abcd"],
    ["8-bit forms", "a\x9b31mb\x9d0;t\x07c\x85d", "abcd"],
    ["single escapes", "\x1b7a\x1b(Bb\x1b#8c\x1b=\x1b>d\x1bce", "abcde"],
    ["cut off in the middle", "a\x1b[12;", "a"],
    ["a lone escape", "a\x1b", "a"],
    ["escape in a sequence starts a new one", "\x1b[3\x1b[31mx", "x"],
    ["a line feed breaks a sequence", "\x1b[3\nx", "\nx"],
    ["a progress bar", "10%\r20%\r100%\r\ndone", "100%\ndone"],
    ["a short text over a long one", "abcdef\rxy", "xycdef"],
    ["erased to the end", "abcdef\r\x1b[Kxy", "xy"],
    ["erased behind the cursor", "abcdef\rxy\x1b[K", "xy"],
    ["erased as a whole", "abcdef\x1b[2K\rxy", "xy"],
    ["line ends of terminals", "a\r\nb\r\r\nc", "a\nb\nc"],
    ["gaps", "a\x1b[Cb\x1b[3Cc\x1b[9999999Cd", "a b   cd"],
    ["half a surrogate pair is not shown", "😀😀\rabc", "abc"],
    ["bells are made visible", "a\x07b", "a\\x07b"],
  ])("%s", (_name, given, then) => expect(plain(given)).toBe(then));

  test("leaves no escape in any text", () => {
    const unit = fc.constantFrom(
      "\x1b",
      "[",
      "]",
      "K",
      "2",
      ";",
      "\r",
      "\n",
      "a",
      "\x9b",
      "\x07",
      "\\",
      "P",
      "日",
    );
    fc.assert(
      fc.property(fc.string({ unit }), (text) => {
        expect(plain(text)).not.toMatch(/[^\P{Cc}\n]/u);
      }),
    );
  });
});

const MB = 1_000_000;
const hostile: Record<string, string> = {
  spaces: " ".repeat(MB),
  escapes: "\x1b[".repeat(MB / 2),
  strings: "\x1b]".repeat(MB / 2),
  parameters: `\x1b[${"1;".repeat(MB / 2)}`,
  braces: "{".repeat(MB),
  "carriage returns": `${"a".repeat(MB / 2)}${"\rb".repeat(MB / 4)}`,
  "controls between letters": "a\x07".repeat(MB / 2),
  surrogates: "\ud800".repeat(MB),
};

test.each(Object.entries(hostile))("1 MB of %s takes linear time", (_name, text) => {
  for (const make of [harmless, harmlessLine, plain, (given: string) => harmlessLine(given, 80)]) {
    make(text.slice(0, 10_000));
    // Quadratic work on a megabyte would take minutes.
    expect(cpuMs(() => make(text))).toBeLessThan(3_000);
  }
});
