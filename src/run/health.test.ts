import { expect, test } from "vitest";
import { fitOf, stateFindings, withoutChange } from "./health.ts";

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

test.each([
  ["700", true, false, []],
  ["755", true, false, [["has mode 755", "chmod 700 '/s'"]]],
  ["500", false, false, [["cannot be written to", "chmod 700 '/s'"]]],
  ["700", false, false, [["cannot be written to", null]]],
  ["700", false, true, [["read-only file system", null]]],
  [
    "755",
    false,
    true,
    [
      ["read-only file system", null],
      ["has mode 755", null],
    ],
  ],
] as const)(
  "a state directory of mode %s, writable %s, read-only %s has its findings",
  (mode, writable, readOnly, then) => {
    const found = stateFindings({ path: "/s", mode, writable, freeBytes: null }, readOnly);
    expect(found).toEqual(
      then.map(([what, todo]) => ({
        level: "attention",
        about: "state",
        what: expect.stringContaining(what),
        todo,
      })),
    );
  },
);

test.for<[string | null, string | null]>([
  ["reprise rm 1a2b3c4d", null],
  ["reprise prune --older-than 30d", null],
  ["reprise doctor --rebuild-index", null],
  ["mv '/s/run.json' '/s/run.json.damaged'", null],
  ["reprise show 1a2b3c4d", "reprise show 1a2b3c4d"],
  ["reprise doctor --certify codex", "reprise doctor --certify codex"],
  [null, null],
])("on a read-only file system %j is offered as %j", ([todo, then]) => {
  expect(withoutChange({ level: "attention", about: "runs", what: "x", todo }).todo).toBe(then);
});
