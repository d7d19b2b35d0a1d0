/** The keys for a message: no part acts as a key, and one Enter sends all of it. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { keysFor, MAX_MESSAGE_BYTES, typeable } from "./paste.ts";

const cases: Record<string, [given: string, then: ReturnType<typeof typeable>]> = {
  "plain text": ["go on", { text: "go on" }],
  "the ends are trimmed": ["  go on \n", { text: "go on" }],
  "lines and tabs stay": ["a\n\tb", { text: "a\n\tb" }],
  "all line breaks are one kind": ["a\r\nb\rc", { text: "a\nb\nc" }],
  "words that tmux would obey": [
    "C-c Enter #{pane} #(touch x) ;",
    { text: "C-c Enter #{pane} #(touch x) ;" },
  ],
  "only a semicolon": [";", { text: ";" }],
  "a dash": ["-p --settings={}", { text: "-p --settings={}" }],
  "the end of a paste": ["a\x1b[201~rm -rf\rb", { text: "a[201~rm -rf\nb" }],
  keys: ["a\x03b\x04c\x15d\x7fe\x08f", { text: "abcdef" }],
  "8-bit control sequences": ["a\x9b201~b\x85c", { text: "a201~bc" }],
  "a clipboard command": ["\x1b]52;c;aGk=\x07x", { text: "]52;c;aGk=x" }],
  "other scripts": ["żółć 日本 👩‍💻", { text: "żółć 日本 👩‍💻" }],
  nothing: ["", { refused: "the message is empty" }],
  "only space": [" \n\t ", { refused: "the message is empty" }],
  "only keys": ["\x1b\x03", { refused: "the message is empty" }],
  "a zero byte": ["a\0b", { refused: "the message contains a zero byte" }],
  "half a character": ["a\ud800", { refused: "the message is not valid Unicode text" }],
  "just short enough": ["x".repeat(MAX_MESSAGE_BYTES), { text: "x".repeat(MAX_MESSAGE_BYTES) }],
  "too long in bytes": [
    "é".repeat(MAX_MESSAGE_BYTES / 2 + 1),
    { refused: "the message is longer than 64 KiB; put it into a file and name the file" },
  ],
};

test.each(Object.entries(cases))("%s", (_name, [given, then]) => {
  expect(typeable(given)).toEqual(then);
});

test("a requested paste keeps lines together; without paste they become one line", () => {
  expect(keysFor("a\n\tb;", true)).toBe("\x1b[200~a\r\tb;\x1b[201~");
  expect(keysFor("a\n\n\tb;", false)).toBe("a b;");
});

test("any message becomes one paste, with nothing outside it and no key inside", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (message) => {
      const given = typeable(message);
      if ("refused" in given) return;
      const keys = keysFor(given.text, true);
      expect(keys.startsWith("\x1b[200~") && keys.endsWith("\x1b[201~")).toBe(true);
      expect(keys.slice(6, -6)).not.toMatch(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\n]/);
      expect(keysFor(given.text, false)).not.toMatch(/[\0-\x1f\x7f-\x9f]/);
    }),
  );
});
