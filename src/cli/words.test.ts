import { describe, expect, test } from "vitest";
import { EventText } from "./events-text.ts";
import { age, shortPath } from "./words.ts";

describe("age", () => {
  const now = Date.parse("2026-11-15T12:00:00Z");
  test.each([
    ["2026-11-15T12:00:00.500Z", "now"],
    ["2026-11-15T11:59:58.600Z", "1 s"],
    ["2026-11-15T11:59:15Z", "45 s"],
    ["2026-11-15T09:49:00Z", "2 h"],
    ["2026-11-03T11:00:00Z", "12 d"],
    ["2026-11-16T12:00:00Z", "now"],
    ["nonsense", "?"],
  ])("%s → %s", (iso, then) => {
    expect(age(iso, now)).toBe(then);
  });
});

describe("shortPath", () => {
  test.each([
    ["/home/ada/work", "/home/ada", undefined, "~/work"],
    ["/home/ada", "/home/ada", undefined, "~"],
    ["/home/adam/work", "/home/ada", undefined, "/home/adam/work"],
    ["/home/ada/work", undefined, undefined, "/home/ada/work"],
    ["/home/ada/work", "", undefined, "/home/ada/work"],
    ["/srv/projects/reprise", undefined, 10, "…s/reprise"],
    ["/srv/\u001b]0;x\u0007y", undefined, undefined, "/srv/\\x1b]0;x\\x07y"],
    ["/srv/文文文", undefined, 6, "…文文"],
    ["/srv", undefined, 0, ""],
  ])("%s in %s at %s columns → %s", (path, home, columns, then) => {
    expect(shortPath(path, home, columns)).toBe(then);
  });
});

test.each(["interrupted", "failed"] as const)(
  "a turn that ended as %s without a reason says so",
  (result) => {
    const plain = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };
    expect(new EventText(plain).show({ type: "turn_ended", result })).toBe(`✗ turn ${result}\n`);
  },
);
