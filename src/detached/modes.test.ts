/** A UI's modes and queries, however its output is cut into chunks. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Modes, QueryFilter } from "./modes.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");

function after(...chunks: string[]): Modes {
  const modes = new Modes();
  for (const chunk of chunks) modes.read(bytes(chunk));
  return modes;
}

describe("modes", () => {
  const cases: Record<string, [given: string, paste: boolean, preamble: string]> = {
    nothing: ["hello", false, ""],
    paste: ["\x1b[?2004h", true, "\x1b[?2004h"],
    "paste switched off": ["\x1b[?2004hx\x1b[?2004l", false, ""],
    "several at once": ["\x1b[?1049;2004h", true, "\x1b[?1049h\x1b[?2004h"],
    "a hidden cursor": ["\x1b[?25l", false, "\x1b[?25l"],
    "a cursor shown again": ["\x1b[?25l\x1b[?25h", false, ""],
    "modes that end by themselves": ["\x1b[?2026h\x1b[?12h", false, ""],
    "a number that is not private": ["\x1b[2004h", false, ""],
    "keyboard protocols, one left again": ["\x1b[>1u\x1b[>5u\x1b[<u", false, "\x1b[>1u"],
    "in text of the agent": ["\\x1b[?2004h [?2004h", false, ""],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, paste, preamble]) => {
    const modes = after(given);
    expect([modes.bracketedPaste, modes.preamble()]).toEqual([paste, preamble]);
  });
});

describe("questions", () => {
  const cases: Record<string, [given: string, answer: string, shownLater: string]> = {
    "a request for the device attributes": ["a\x1b[cb", "\x1b[?62;22c", "ab"],
    "a request for the secondary device attributes": ["\x1b[>0c", "\x1b[>0;10;0c", ""],
    "a request for the cursor's position": ["\x1b[6n", "\x1b[1;1R", ""],
    "a request for the status": ["\x1b[5n", "\x1b[0n", ""],
    colours: [
      "\x1b]10;?\x07\x1b]11;?\x1b\\",
      "\x1b]10;rgb:ffff/ffff/ffff\x1b\\\x1b]11;rgb:0000/0000/0000\x1b\\",
      "",
    ],
    "which keyboard, which version, which mode: no answer": ["\x1b[?u\x1b[>q\x1b[?2026$px", "", "x"],
    "the clipboard": ["\x1b]52;c;?\x07", "", ""],
    "a title is not a question": ["\x1b]0;what?\x07", "", "\x1b]0;what?\x07"],
    "colours that are set": ["\x1b]11;#000\x07", "", "\x1b]11;#000\x07"],
    movement: ["\x1b[2J\x1b[1;1Hé", "", "\x1b[2J\x1b[1;1Hé"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, answer, shownLater]) => {
    expect(new Modes().read(bytes(given))).toBe(answer);
    expect(shown([bytes(given)])).toBe(shownLater);
  });

  test("are the same wherever the output is cut", () => {
    const all = bytes("x\x1b[?2004hé\x1b[6n\x1b]11;?\x1b\\y\x1b[c\x1b[?1049hz");
    for (let at = 0; at <= all.length; at += 1) {
      const modes = new Modes();
      const parts = [all.subarray(0, at), all.subarray(at)];
      const answers = parts.map((part) => modes.read(part)).join("");
      expect(answers).toBe("\x1b[1;1R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?62;22c");
      expect(modes.bracketedPaste).toBe(true);
      expect(shown(parts)).toBe("x\x1b[?2004héy\x1b[?1049hz");
    }
  });

  test("are removed alone, and no other output is lost or held back", () => {
    const piece = fc.oneof(
      fc.constantFrom("\x1b", "\x1b[", "\x1b]", "\x1b]0;", "[31m", "\x07", "é", "\x1b[?25l", "c", ";"),
      fc.string({ maxLength: 20 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const whole = shown([bytes(pieces.join(""))]);
        expect(shown(pieces.map(bytes))).toBe(whole);
      }),
    );
    const long = `\x1b]0;${"x".repeat(5_000)}`;
    expect(shown([bytes(long)])).toBe(long);
  });

  test("are found in linear time", () => {
    const modes = new Modes();
    const begin = performance.now();
    modes.read(bytes("\x1b[".repeat(500_000)));
    modes.read(bytes("\x1b]1;".repeat(200_000)));
    expect(performance.now() - begin).toBeLessThan(5_000);
  });
});

function shown(chunks: readonly Buffer[]): string {
  const filter = new QueryFilter();
  return Buffer.concat([...chunks.map((chunk) => filter.read(chunk)), filter.rest()]).toString("utf8");
}
