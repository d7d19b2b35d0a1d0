import { expect, test } from "vitest";
import { widthOf } from "./width.ts";
import { wrap } from "./wrap.ts";

test.each([
  ["one two three", 8, 2, ["one two", "  three"]],
  ["one two three", 80, 2, ["one two three"]],
  ["日本 語語 abc", 9, 4, ["日本 語語", "    abc"]],
  ["a reprise-resume-1a2b3c4d b", 10, 2, ["a", "  reprise-resume-1a2b3c4d", "  b"]],
  ["", 10, 2, [""]],
])("%j in %d columns", (text, width, indent, then) => expect(wrap(text, { width, indent })).toEqual(then));

test("no line but that of one long word is wider than it may be, and no word is lost", () => {
  const text = "The agent of run 1a2b3c4d 文字文字 stopped because 語語語語語語語語語語語語 was said";
  for (let width = 1; width < 60; width += 1) {
    const lines = wrap(text, { width, indent: 3 });
    expect(lines.map((line) => line.trim()).join(" ")).toBe(text);
    for (const line of lines) {
      if (line.trim().includes(" ")) expect(widthOf(line)).toBeLessThanOrEqual(width);
    }
  }
});
