import { expect, test } from "vitest";
import { widthOf } from "./width.ts";
import { wrap, wrapPath } from "./wrap.ts";

test.each([
  ["one two three", 8, 2, ["one two", "  three"]],
  ["one two three", 80, 2, ["one two three"]],
  ["日本 語語 abc", 9, 4, ["日本 語語", "    abc"]],
  ["a reprise-resume-1a2b3c4d b", 10, 2, ["a", "  reprise-resume-1a2b3c4d", "  b"]],
  ["", 10, 2, [""]],
  ["\u001b[2mone two\u001b[0m three", 8, 2, ["\u001b[2mone two\u001b[0m", "  three"]],
])("%j in %d columns", (text, width, indent, then) => expect(wrap(text, { width, indent })).toEqual(then));

test("only a line of one long word is wider than the limit, and no word is lost", () => {
  const text = "The agent of run 1a2b3c4d 文字文字 stopped because 語語語語語語語語語語語語 was said";
  for (let width = 1; width < 60; width += 1) {
    const lines = wrap(text, { width, indent: 3 });
    expect(lines.map((line) => line.trim()).join(" ")).toBe(text);
    for (const line of lines) {
      if (line.trim().includes(" ")) expect(widthOf(line)).toBeLessThanOrEqual(width);
    }
  }
});

test.each([
  ["beside the label", "/home/ann/shop", 40, ["/home/ann/shop"]],
  ["whole on a line below", "/home/ann/projects/shop", 26, ["", "  /home/ann/projects/shop"]],
  [
    "in parts",
    "/home/ann/projects/shop/src",
    20,
    ["/home/ann/", "          projects/", "          shop/src"],
  ],
  [
    "a name that fits nowhere",
    `/${"x".repeat(30)}/y`,
    20,
    ["/", `          ${"x".repeat(30)}/`, "          y"],
  ],
])("a path after a label of ten columns wraps: %s", (_what, path, width, then) =>
  expect(wrapPath(path, { width, indent: 10 })).toEqual(then),
);
