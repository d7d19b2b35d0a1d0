import { expect, test } from "vitest";
import type { CaseResult } from "../src/certify/interpret.ts";
import {
  closingLine,
  countResults,
  json,
  MARKS,
  markdown,
  readmeWith,
  type Report,
  scrubbed,
  table,
  unaccounted,
} from "./report.ts";

const result = (more: Partial<CaseResult>): CaseResult => ({
  id: "a@codex",
  name: "a",
  group: "resume",
  lab: "codex",
  verdict: "passed",
  notes: [],
  ms: 1200,
  log: "long",
  requests: 2,
  resumes: { meant: 2, worked: 2 },
  ...more,
});

const results = [
  result({}),
  result({
    id: "b@codex",
    verdict: "failed",
    notes: ["step 2: an unnoticed new conversation: /tmp/rc-1/x"],
    resumes: { meant: 1, worked: 0 },
  }),
  result({
    id: "c@codex",
    name: "c",
    verdict: "skipped",
    notes: ["it cannot"],
    resumes: { meant: 0, worked: 0 },
  }),
];

const report: Report = {
  reprise: "0.1.0",
  engines: [{ id: "codex", version: "1.0.0", problem: null, lacking: { model: "there is one only" } }],
  isolation: { network: "refusing proxy", files: "shared temporary and home folders" },
  seconds: 3,
  requests: 4,
  traces: [],
  refused: ["example.org:443 (2 ×)"],
  counts: countResults(results),
  results,
  recorded: [result({ id: "r@iflow", lab: "iflow", group: "hostile" })],
};

test("the report counts results per engine", () => {
  expect(report.counts).toEqual({
    passed: 1,
    failed: 1,
    skipped: 1,
    newConversations: 1,
    duplicates: 0,
    resumesMeant: 3,
    resumesWorked: 2,
  });
});

test("the report names a case that has no result or two results", () => {
  const ids = (...all: string[]) => all.map((id) => ({ id }));
  expect(unaccounted(ids("a", "b", "c"), ids("c", "a", "c"))).toEqual(["b", "c"]);
  expect(unaccounted(ids("a", "b"), ids("b", "a"))).toEqual([]);
});

test("the table has one row per group and one column per engine, and labels recorded engines", () => {
  const [head, , resume, , , , hostile] = table(report).split("\n");
  expect([head, resume, hostile]).toEqual([
    "|  | codex 1.0.0 | iflow (recorded output and a scripted agent, not the real program) |",
    "| start, resume ×3, options | **1 failed**, 1 passed, 1 n/a | – |",
    "| hostile text | – | 1 passed |",
  ]);
});

test("the page lists failed, inapplicable and refused cases with their reasons", () => {
  const page = markdown(report);
  expect(page).toContain("2 cases with the real programs: 1 passed, 1 failed");
  expect(page).toContain("Expected resumes that worked: 2 of 3.");
  expect(page).toContain("- codex: it cannot (c)");
  expect(page).toContain("- codex: there is one only (option in force: model)");
  expect(page).toContain("- refused: example.org:443 (2 ×)");
});

test("the last line counts recorded cases separately", () => {
  expect(closingLine(report)).toBe("1 passed, 1 failed, 1 skipped; recorded: 1 passed, 0 failed");
  expect(closingLine({ ...report, recorded: [] })).toBe("1 passed, 1 failed, 1 skipped");
});

test("the report keeps logs of failed cases only", () => {
  const kept = (JSON.parse(json(report)) as Report).results.map(({ log }) => log);
  expect(kept).toEqual([undefined, "long", undefined]);
});

test("the report leaves out paths and names of the machine", () => {
  const names = { suite: "/tmp/rc-1", home: "/", host: "builder7" };
  expect(scrubbed("/tmp/rc-1/x on builder7 in /", names)).toBe("<suite>/x on <host> in /");
});

test("the README shows the table of the report, and no table without a report", () => {
  const [begin, end] = MARKS;
  const page = (inside: string) => `a\n${begin}\n${inside}${end}\nb`;
  expect(readmeWith(page("old\n"), `x ${page("| new $& |\n")} y`)).toBe(page("| new $& |\n"));
  expect(readmeWith(page(""), null)).toBe(page(""));
  expect(() => readmeWith(page("old\n"), null)).toThrow("conformance/report.md is missing");
  expect(() => readmeWith("a", null)).toThrow("README.md lacks the marks");
  expect(() => readmeWith(page(""), "x")).toThrow("report.md lacks the marks");
});
