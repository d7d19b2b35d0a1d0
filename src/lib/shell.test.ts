import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { harmlessLine } from "./harmless.ts";
import { shellLine, shellWord } from "./shell.ts";

test.each([
  ["plain-word", "plain-word"],
  ["", "''"],
  ["it's $(so)", "'it'\\''s $(so)'"],
  ["two\nlines", "$'two\\nlines'"],
  ["a\tb\r\\ it's\x1b1", "$'a\\tb\\r\\\\ it\\'s\\0331'"],
  ["right\u202eto left", "$'right\\342\\200\\256to left'"],
])("%j is typed as %s", (word, typed) => expect(shellWord(word)).toBe(typed));

test("bash reads every character back, and showing the line alters nothing", () => {
  const characters = Array.from({ length: 0x7f }, (_, at) => String.fromCharCode(at + 1));
  const more = ["\u0085", "\u200b7", "\u2028", "\u{e0041}", "grün 🙂", "\\n", "'"];
  const words = [...characters, characters.join(""), ...more, more.join("'")];
  const line = shellLine(words);
  expect(harmlessLine(line)).toBe(line);
  const read = execFileSync("bash", ["-c", `printf '%s\\0' ${line}`], { encoding: "utf8" });
  expect(read.split("\0").slice(0, -1)).toEqual(words);
});
