import { expect, test } from "vitest";
import { redactor } from "../lib/secrets.ts";
import { lastWords } from "./launch.ts";

const SECRET = "correct-horse-battery";
const redact = redactor([{ name: "API_KEY", value: SECRET }]);

test.each([
  ["nothing on stderr", "", true, []],
  ["blank lines are left out", "a\n\n  \nb\n", true, ["a", "b"]],
  ["only the last five lines are kept", "1\n2\n3\n4\n5\n6\n7\n", true, ["3", "4", "5", "6", "7"]],
  ["a known secret is hidden", `key ${SECRET}\n`, true, [expect.not.stringContaining(SECRET)]],
  ["a line that was cut is left out", `horse-battery\nlast\n`, false, ["last"]],
  ["a cut tail without a line end says nothing", "horse-battery", false, []],
  [
    "control characters are made visible or removed",
    "a\x1b]0;x\x07b\n",
    true,
    [expect.not.stringMatching(/\x1b|\x07/)],
  ],
  ["a long line is shortened", `${"x".repeat(1_000)}\n`, true, [expect.stringMatching(/^x{200,299}/)]],
] as const)("%s", (_what, tail, isWhole, expected) => {
  expect(lastWords(tail, isWhole, redact)).toEqual(expected);
});

test("a secret is hidden before a long line is shortened", () => {
  const [line = ""] = lastWords(`${"x".repeat(290)}${SECRET}\n`, true, redact);
  expect(line).not.toContain("correct");
});
