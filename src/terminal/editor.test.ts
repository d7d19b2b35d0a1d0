import { expect, test } from "vitest";
import { painted } from "./paint.ts";
import { drawn, edited, EMPTY, type Edited } from "./editor.ts";

/** `|` is the cursor. */
const at = (text: string): Edited => ({ text: text.replace("|", ""), at: text.indexOf("|") });
const shown = ({ text, at: cursor }: Edited) => `${text.slice(0, cursor)}|${text.slice(cursor)}`;

const cases: readonly (readonly [before: string, key: string, after: string])[] = [
  ["|", "a", "a|"],
  ["a|c", "b", "ab|c"],
  ["a|", "space", "a |"],
  ["日|", "backspace", "|"],
  ["e\u0301👍🏽|", "backspace", "e\u0301|"],
  ["a|👍🏽b", "delete", "a|b"],
  ["ab|", "left", "a|b"],
  ["|ab", "right", "a|b"],
  ["one two|", "ctrl-w", "one |"],
  ["one  |", "ctrl-w", "|"],
  ["one t|wo", "ctrl-u", "|wo"],
  ["one t|wo", "ctrl-k", "one t|"],
  ["first\nsec|ond", "ctrl-a", "first\n|second"],
  ["fi|rst\nsecond", "ctrl-e", "first|\nsecond"],
  ["first\nsec|ond", "ctrl-u", "first\n|ond"],
  ["|", "backspace", "|"],
  ["a|", "delete", "a|"],
  ["|", "left", "|"],
  ["a|", "right", "a|"],
  ["a|d", "paste:b\r\nc", "ab\nc|d"],
  ["|", "paste:\u001b[31mred\u0007\u009b", "[31mred|"],
];

test.each(cases)("%j and the key %j give %j", (before, key, after) => {
  expect(shown(edited(at(before), key, true) ?? at("?|"))).toBe(after);
});

test("an editor of one line joins the lines of a paste", () => {
  expect(edited(EMPTY, "paste:a\nb\t\nc")?.text).toBe("a b c");
});

test.each(["up", "enter", "escape", "ctrl-n", "unknown", "constructor"])(
  "the key %s is not for an editor",
  (key) => {
    expect(edited(EMPTY, key)).toBeNull();
  },
);

const rowsOf = (text: string, columns: number, rows: number) =>
  drawn(at(text), columns, rows, false).map((line) => painted(line, false));

test("a long text breaks at the last column, and the rows with the cursor are shown", () => {
  expect(rowsOf("abcdef|", 3, 9)).toEqual(["abc", "def", "▏"]);
  expect(rowsOf("abcdef|", 3, 2)).toEqual(["def", "▏"]);
  expect(rowsOf("|abcdef", 3, 1)).toEqual(["abc"]);
  expect(rowsOf("日本|語", 4, 9)).toEqual(["日本", "語"]);
  expect(rowsOf("a|\nb", 4, 9)).toEqual(["a▏", "b"]);
});

test("hidden characters of a paste are visible", () => {
  expect(rowsOf("a\u202eb|", 20, 1)[0]).not.toContain("\u202e");
});
