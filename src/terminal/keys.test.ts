/** A terminal's bytes, whole and in parts. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { decode } from "./keys.ts";

test.each<[name: string, text: string, keys: string[], rest: string]>([
  ["letters", "jk?", ["j", "k", "?"], ""],
  ["named", " \r\n\t\x03\x0c\x1a", ["space", "enter", "enter", "tab", "ctrl-c", "ctrl-l", "ctrl-z"], ""],
  ["arrows, both dialects", "\x1b[A\x1bOB\x1b[H\x1b[4~", ["up", "down", "home", "end"], ""],
  [
    "keys that edit a line",
    "\x1b[D\x1bOC\x1b[3~\x7f\b",
    ["left", "right", "delete", "backspace", "backspace"],
    "",
  ],
  ["control characters have a name", "\x01\x15\x00", ["ctrl-a", "ctrl-u", "ctrl-@"], ""],
  ["pages", "\x1b[5~\x1b[6~", ["pageup", "pagedown"], ""],
  ["a key with modifiers means nothing", "\x1b[1;5A", ["unknown"], ""],
  ["an answer of the terminal means nothing", "\x1b[24;80R\x1b[?62;c", ["unknown", "unknown"], ""],
  ["a lone escape character waits", "j\x1b", ["j"], "\x1b"],
  ["a broken sequence waits", "\x1b[1;", [], "\x1b[1;"],
  ["escape, then a letter", "\x1bj", ["escape", "j"], ""],
  ["escape twice", "\x1b\x1b", ["escape"], "\x1b"],
  [
    "a sequence without end is dropped",
    `\x1b[${"1".repeat(40)}`,
    ["escape", "[", ...Array.from("1".repeat(40))],
    "",
  ],
  ["pasted text is not keys", "a\x1b[200~xyq\x03\x1b[201~b", ["a", "b"], ""],
  ["a paste that continues", "\x1b[200~xy", [], "\x1b[200~xy"],
  ["beyond the basic plane", "😀", ["😀"], ""],
])("%s", (_name, text, keys, rest) => {
  expect(decode(text)).toEqual({ keys, rest });
});

test("a paste of any size in any parts is never a key", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 20 }), { maxLength: 20 }), (parts) => {
      const keys: string[] = [];
      let rest = "";
      for (const part of [
        "\x1b[200~",
        ...parts.map((one) => one.replaceAll("\x1b", "")),
        "\x1b[20",
        "1~",
        "z",
      ]) {
        const decoded = decode(rest + part);
        keys.push(...decoded.keys);
        ({ rest } = decoded);
        expect(rest.length).toBeLessThan(40);
      }
      expect(keys).toEqual(["z"]);
    }),
  );
});

test("a paste is one key for a UI that takes pastes, however its bytes arrive", () => {
  expect(decode("a\x1b[200~two\nlines\x1b[201~b", true)).toEqual({
    keys: ["a", "paste:two\nlines", "b"],
    rest: "",
  });
  const begun = decode("\x1b[200~two\x1b[20", true);
  expect(begun.keys).toEqual([]);
  expect(decode(`${begun.rest}1~`, true).keys).toEqual(["paste:two"]);
});
