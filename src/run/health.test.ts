import { expect, test } from "vitest";
import { fitOf } from "./health.ts";

test.each([
  ["1.2.3", ["1.0.0", "1.3.0"], "tested"],
  ["1.0.0", ["1.0.0", "1.3.0"], "tested"],
  ["1.3.0", ["1.0.0", "1.3.0"], "tested"],
  ["1.10.0", ["1.0.0", "1.9.0"], "newer"],
  ["2.0", ["1.0.0", "1.9.0"], "newer"],
  ["0.99.9", ["1.0.0", "1.9.0"], "older"],
  ["0.146.0-alpha.2", ["0.98.0", "0.146.0"], "tested"],
  ["v1.2", ["1.2.0", "1.2.0"], "tested"],
  ["nonsense", ["1.0.0", "1.9.0"], "unknown"],
  [null, ["1.0.0", "1.9.0"], "unknown"],
  ["1.0.0", null, "unknown"],
] as const)("version %s, tested %j → %s", (version, tested, fit) => {
  expect(fitOf(version, tested)).toBe(fit);
});
