/** What a release does to versions and to the changelog. */
import { expect, test } from "vitest";
import { datedChangelog, isNewer } from "../scripts/release-notes.ts";

test.each([
  ["0.2.0", "0.1.9", true],
  ["1.0.0", "0.9.9", true],
  ["0.10.0", "0.9.0", true],
  ["0.1.0", "0.1.0", false],
  ["0.1.9", "0.2.0", false],
  ["v0.3.0", "0.2.0", false],
  ["0.3", "0.2.0", false],
  ["0.3.0-rc.1", "0.2.0", false],
])("%s follows %s in a release: %s", (next, before, expected) => {
  expect(isNewer(next, before)).toBe(expected);
});

const DAY = new Date("2026-05-02T23:59:59Z");

test("a release dates the entries and leaves a place for the next ones", () => {
  expect(
    datedChangelog(
      "# Changelog\n\n## Unreleased\n\n- One.\n\n## 0.1.0 - 2026-01-01\n\n- Zero.\n",
      "0.2.0",
      DAY,
    ),
  ).toBe(
    "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-05-02\n\n- One.\n\n## 0.1.0 - 2026-01-01\n\n- Zero.\n",
  );
});

test.each([
  ["# Changelog\n\n## 0.1.0 - 2026-01-01\n\n- Zero.\n"],
  ["# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-01\n\n- Zero.\n"],
])("a changelog without new entries is not released (%j)", (text) => {
  expect(datedChangelog(text, "0.2.0", DAY)).toBeNull();
});
