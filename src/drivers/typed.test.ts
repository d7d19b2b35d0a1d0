import { expect, test } from "vitest";
import { Typed } from "./typed.ts";

test.each([
  ["nothing", "", "hello", false],
  ["two Ctrl-C", "\u0003\u0003", "hello", false],
  ["Enter alone, as a question about trust takes it", "\r", "hello", false],
  ["words that were never sent", "hello", "hello", false],
  ["the words", "hello\r", "hello", true],
  ["other words", "good morning\r", "hello", false],
  ["words with a mistake that was deleted", "helo\u007flo\r", "hello", true],
  ["pasted words", "\u001b[200~hello\nyou\u001b[201~\r", "hello\nyou", true],
  ["answers of the terminal only", "\u001b[?62;c\u001b[12;1R\u001b]11;rgb:0/0/0\u0007\r", "c", false],
  ["words of another script", "grüße\r", "grüße", true],
  ["a message of the history", "x\u001b[A\r", "hello", true],
  ["a command", "/init\r", "Generate a file", true],
  ["something, where the beginning is not known", "hello\r", null, true],
])("%s", (_name, keys, opening, expected) => {
  const typed = new Typed();
  for (const byte of Buffer.from(keys)) typed.take(Buffer.from([byte]));
  expect(typed.mayHaveSaid(opening)).toBe(expected);
});

test.each([
  ["nothing", "", false],
  ["words that were never sent", "hello", false],
  ["Enter alone, as a question about trust takes it", "\r", false],
  ["a command", "/quit\r", false],
  ["answers of the terminal and a command", "\u001b[?62;c\u001b]11;rgb:0/0/0\u0007\r/quit\r", false],
  ["words", "hello\r/quit\r", true],
  ["words after a command", "/model\rhello\u001b[13u", true],
  ["pasted words", "\u001b[200~hello\u001b[201~\r", true],
  ["a message of the history", "\u001b[A\r", true],
  ["more than is kept", `/${"x".repeat(300_000)}`, true],
])("typing %s counts as a message in a UI: %s", (_name, keys, expected) => {
  const typed = new Typed();
  typed.take(keys);
  expect(typed.spoke).toBe(expected);
});
