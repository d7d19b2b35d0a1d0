/** A line that is edited key by key: `|` stands for the cursor. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { widthOf } from "../lib/width.ts";
import { edited, inputLine, type Input } from "./terminal.ts";

function after(line: string, ...keys: string[]): string {
  const at = line.indexOf("|");
  let input: Input = { text: line.replace("|", ""), at };
  for (const key of keys) input = edited(input, key) ?? input;
  return `${input.text.slice(0, input.at)}|${input.text.slice(input.at)}`;
}

test.each<[name: string, before: string, keys: string[], then: string]>([
  ["characters go in at the cursor", "a|d", ["b", "space", "c"], "ab c|d"],
  ["left and right step over whole characters", "ae\u0301|", ["left", "x", "right", "y"], "axe\u0301y|"],
  ["at the ends, left and right stay", "|", ["left", "right"], "|"],
  ["home and end", "ab|c", ["home", "1", "end", "2"], "1abc2|"],
  ["as in a shell", "ab|c", ["ctrl-a", "1", "ctrl-e", "2"], "1abc2|"],
  ["backspace takes the character before the cursor", "a日e\u0301|b", ["backspace", "backspace"], "a|b"],
  ["delete takes the character after the cursor", "a|😀b", ["delete"], "a|b"],
  ["ctrl-w takes the last word", "fix the  test |now", ["ctrl-w"], "fix the  |now"],
  [
    "ctrl-u takes what is before the cursor, ctrl-k what is after",
    "ab|cd",
    ["ctrl-u", "right", "ctrl-k"],
    "c|",
  ],
  ["characters that control a terminal are left out", "|", ["\u009b", "\u202e", "\ufe0f", "a"], "a|"],
])("%s", (_name, before, keys, then) => {
  expect(after(before, ...keys)).toBe(then);
});

test.each(["up", "enter", "escape", "tab", "ctrl-c", "unknown"])("%s does not edit", (key) => {
  expect(edited({ text: "a", at: 1 }, key)).toBeNull();
});

test("the cursor is always shown, in no more than the columns there are", () => {
  const key = fc.constantFrom("a", "日", "\u0301", "space", "left", "right", "backspace", "delete", "ctrl-w");
  fc.assert(
    fc.property(fc.array(key, { maxLength: 60 }), fc.integer({ min: 1, max: 20 }), (keys, columns) => {
      let input: Input = { text: "", at: 0 };
      for (const one of keys) input = edited(input, one) ?? input;
      const line = inputLine(input, columns)
        .map(({ text }) => text)
        .join("");
      expect(line).toContain("▏");
      expect(widthOf(line)).toBeLessThanOrEqual(columns);
    }),
  );
  expect(inputLine({ text: "abcdefgh", at: 5 }, 5).map(({ text }) => text)).toEqual(["…cde", "▏", ""]);
  expect(inputLine({ text: "abcdefgh", at: 1 }, 5).map(({ text }) => text)).toEqual(["a", "▏", "bc…"]);
});
