import { expect, test } from "vitest";
import { inStyle, styleOfState } from "./palette.ts";

test("a style ends with its own code, so that another style around it stays", () => {
  expect(inStyle("bar", `a${inStyle("bad", "b")}c`)).toBe("\x1b[7ma\x1b[31mb\x1b[39mc\x1b[27m");
});

test.each([
  ["running", "accent"],
  ["completed", "good"],
  ["interrupted", "warn"],
  ["failed", "bad"],
  ["unresponsive", "bad"],
  ["constructor", undefined],
  ["", undefined],
])("the state %j has the style %s", (state, style) => {
  expect(styleOfState(state)).toBe(style);
});
