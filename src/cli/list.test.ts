import { expect, test } from "vitest";
import type { RunRecord } from "../core/records.ts";
import { widthOf } from "../lib/width.ts";
import { runTable } from "./list.ts";

const now = { nowMs: Date.parse("2026-11-15T12:00:00Z"), home: "/home/ada" };

function run(change: Partial<RunRecord> & { message?: string }): RunRecord {
  const { message = "fix the flaky test", ...rest } = change;
  return {
    handle: "1a2b3c4d",
    agentName: "codex",
    status: "interrupted",
    attempts: 2,
    name: null,
    subject: null,
    launch: { message } as RunRecord["launch"],
    cwd: "/home/ada/work/project",
    updatedAt: "2026-11-15T09:00:00Z",
    ...rest,
  } as RunRecord;
}

test("a pipe gets whole lines", () => {
  expect(
    runTable([run({}), run({ name: "a name", agentName: "opencode" })], { stdout: false, columns: 80 }, now),
  ).toEqual([
    "HANDLE    ENGINE    STATUS       ATT  UPDATED  WHAT                WHERE",
    "1a2b3c4d  codex     interrupted  2    3 h      fix the flaky test  ~/work/project",
    "1a2b3c4d  opencode  interrupted  2    3 h      a name              ~/work/project",
  ]);
});

test("the purpose of a run comes before its message", () => {
  const pulls = ["pr:acme/shop#42", "pr:acme/shop#43"].map((subject) => run({ subject }));
  const lines = runTable(pulls, { stdout: false, columns: 80 }, now);
  expect(lines[1]).toContain("  pr:acme/shop#42: fix the flaky test  ");
  expect(lines[2]).toContain("  pr:acme/shop#43: fix the flaky test  ");
});

test("the id of an issue has room where its repository has none", () => {
  const issues = ["a-12", "b-12"].map((id) => run({ subject: `issue:my-project-e3150508#${id}` }));
  const lines = runTable(issues, { stdout: true, columns: 80 }, now);
  expect(lines[1]).toContain("  …#a-12: fix the");
  expect(lines[2]).toContain("  …#b-12: fix the");
});

test.each([
  [80, "HANDLE    ENGINE  STATUS       ATT  UPDATED  WHAT                WHERE"],
  [60, "HANDLE    ENGINE  STATUS       ATT  UPDATED  WHAT"],
  [45, "HANDLE    STATUS       UPDATED  WHAT"],
  [40, "HANDLE    STATUS       WHAT"],
  [21, "HANDLE    STATUS"],
  [20, "HANDLE"],
])("at %d columns, columns without room disappear", (columns, header) => {
  expect(runTable([run({})], { stdout: true, columns }, now)[0]).toBe(header);
});

test.each([1, 8, 20, 21, 30, 40, 50, 60, 80, 100, 200])(
  "the list fits a terminal of %d columns",
  (columns) => {
    const long = run({ message: "文".repeat(300), cwd: `/srv/${"deep/".repeat(60)}end` });
    const lines = runTable([long, run({})], { stdout: true, columns }, now);
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    if (columns >= 80) expect(lines[1]).toMatch(/end$/);
  },
);

test("text written by others becomes one harmless line", () => {
  const [, line] = runTable([run({ message: "a\n\u001b]0;x\u0007b" })], { stdout: false, columns: 80 }, now);
  expect(line).toContain("a \\x1b]0;x\\x07b");
});
