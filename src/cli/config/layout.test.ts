import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { splitWords } from "./edit.ts";
import { keyPath } from "./keys.ts";
import { placeOfKey, quoted, withKeySet } from "./layout.ts";

const cases: Record<string, [text: string, key: string, literal: string, then: string]> = {
  "an empty file gets the key": ["", "timeout", '"1h"', 'timeout = "1h"\n'],
  "a value is replaced, and its comment stays": [
    "# mine\nescrow = 1 # MB\n\n[engines.codex]\n",
    "escrow",
    "2",
    "# mine\nescrow = 2 # MB\n\n[engines.codex]\n",
  ],
  "a key of no table follows the last such key": [
    'escrow = 1\n\n# codex\n[engines.codex]\nargs = ["a"]\n',
    "timeout",
    '"1h"',
    'escrow = 1\ntimeout = "1h"\n\n# codex\n[engines.codex]\nargs = ["a"]\n',
  ],
  "a key of no table precedes the first table and its comment": [
    "# about\n\n# codex\n[engines.codex]\n",
    "escrow",
    "1",
    "# about\n\nescrow = 1\n\n# codex\n[engines.codex]\n",
  ],
  "a key of a table goes into that table": [
    '[engines.codex]\nhome = "/x" # there\n\n[issues]\naccess = "read"\n',
    "engines.codex.program",
    '"y"',
    '[engines.codex]\nhome = "/x" # there\nprogram = "y"\n\n[issues]\naccess = "read"\n',
  ],
  "a missing table is appended": [
    "escrow = 1",
    "issues.access",
    '"read"',
    'escrow = 1\n\n[issues]\naccess = "read"\n',
  ],
  "an inline table grows": [
    '[engines.codex]\nenv = { A = "1" } # vars\n',
    "engines.codex.env.B",
    '"2"',
    '[engines.codex]\nenv = { A = "1", B = "2" } # vars\n',
  ],
  "a key of an inline table is replaced": [
    'notify = { webhook = "https://a.example" }\n',
    "notify.webhook",
    '"https://b.example"',
    'notify = { webhook = "https://b.example" }\n',
  ],
  "lines that end with CRLF keep their ends": [
    "escrow = 1\r\n[issues]\r\n",
    "timeout",
    '"1h"',
    'escrow = 1\r\ntimeout = "1h"\r\n[issues]\r\n',
  ],
};

test.each(Object.entries(cases))("%s", async (_name, [text, key, literal, then]) => {
  const changed = await withKeySet(text, keyPath(key), literal);
  expect(changed).toBe(then);
  let value: any = parse(changed);
  for (const part of keyPath(key)) value = value[part];
  expect(value).toEqual(parse(`value = ${literal}`)["value"]);
});

test.each([
  ["escrow = 1\ntimeout = 2\n", "timeout", [2, 1]],
  ["[engines.codex]\nargs = 1\n", "engines.codex.args", [2, 1]],
  ['[engines.codex]\nenv = { A = "1" }\n', "engines.codex.env.A", [2, 9]],
  ["[engines.codex]\n", "engines.codex.program", [1, 2]],
  ["[engines.codex.env]\n", "engines.codex", [1, 2]],
  ["not toml", "x", [1, 1]],
])("in %j, the place of %s is %j", async (text, key, [line, column]) => {
  expect(await placeOfKey(text, keyPath(key))).toEqual({ line, column });
});

test.each(["plain", 'a "b" \\ c', "new\nline", "\u007F\u001B[2J", "日本"])(
  "%j in quotes is that text",
  (text) => {
    expect(parse(`value = ${quoted(text)}`)["value"]).toBe(text);
  },
);

test.each([
  ["engines.codex.args", ["engines", "codex", "args"]],
  ['a."b.c".d', ["a", "b.c", "d"]],
])("the key %s has these parts", (key, parts) => {
  expect(keyPath(key)).toEqual(parts);
});

test.each(["", ".", "a..b", "a.", '"a', "__proto__.x"])("%j is not a config key", (key) => {
  expect(() => keyPath(key)).toThrow("is not a config key");
});

test.each([
  ["code --wait", ["code", "--wait"]],
  ["'/a b/ed' -n", ["/a b/ed", "-n"]],
  ['ed --name="x y" $(z)', ["ed", "--name=x y", "$(z)"]],
  ["  ", []],
])("%j is split into words without a shell", (text, words) => {
  expect(splitWords(text)).toEqual(words);
});
