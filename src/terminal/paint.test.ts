/** Bytes for a terminal: colours, and only the changed rows. */
import { expect, test } from "vitest";
import { changesOf, painted } from "./paint.ts";

const frame = (changes: string) => `\x1b[?2026h${changes}\x1b[?2026l`;

test.each<[name: string, before: string[] | null, rows: string[], written: string]>([
  [
    "an unknown screen is written as a whole",
    null,
    ["a", "b"],
    frame("\x1b[2J\x1b[1;1H\x1b[Ka\x1b[2;1H\x1b[Kb"),
  ],
  ["the same frame again writes nothing", ["a", "b"], ["a", "b"], ""],
  ["only a row that changed is written", ["a", "b", "c"], ["a", "B", "c"], frame("\x1b[2;1H\x1b[KB")],
  ["rows that a lower frame no longer has are erased", ["a", "b"], ["a"], frame("\x1b[2;1H\x1b[K")],
])("%s", (_name, before, rows, written) => {
  expect(changesOf(before, rows)).toBe(written);
});

test("styles end where their piece ends, and are left out without colours", () => {
  const line = [{ text: "a", style: "bad" }, { text: "", style: "bar" }, { text: "b" }] as const;
  expect(painted(line, true)).toBe("\x1b[31ma\x1b[39mb");
  expect(painted(line, false)).toBe("ab");
});
