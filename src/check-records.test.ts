import { expect, test } from "vitest";
import { wrongWith } from "./check-records.ts";

const RUN = "20260102T030405Z-demo-1a2b3c4d";
const OWNER = { pid: 1, start: "1", boot: "b", space: "s" };
const META = {
  ...{ v: 1, runId: RUN, n: 1, kind: "start", state: "intended", mode: "pipe", interactive: false },
  ...{ program: "p", args: [], native: [], cwd: "/", message: null, owner: OWNER, agent: null, asked: null },
  ...{ reported: [], engineVersion: null, startedAt: "2026-01-02T03:04:05.000Z", endedAt: null, exit: null },
  ...{ outcome: null, tokens: null, bytes: { stdout: 0, stderr: 0 }, diagnostics: [] },
};
const ISSUE = {
  ...{ title: "t", status: "running", engine: "demo", session_id: null, handle: null, agent_id: null },
  ...{
    baseline_commit: null,
    branch: null,
    merge_into: null,
    attempts: 0,
    gate: null,
    findings: [],
    error: null,
    tokens: null,
    tree: null,
    tools: null,
    sent: null,
    denied: [],
  },
  ...{ started_at: "", finished_at: null },
};
const BATCH = {
  ...{ run_id: "r", started_at: "", completed_at: null, left: 0, repo_path: "/r", version: "1", config: {} },
  issues: { "1": ISSUE },
};

test.each([
  ["an attempt", "meta.json", META, null],
  [
    "an attempt whose `interactive` is undefined",
    "meta.json",
    { ...META, interactive: undefined },
    /interactive/,
  ],
  ["a run that lacks everything", "run.json", { v: 1 }, /handle/],
  ["a receipt that lacks everything", "receipt.json", { v: 1 }, /runId/],
  ["an agent that lacks everything", "agent.json", { v: 1 }, /definition/],
  ["a review session that lacks everything", "o-r-pr-1-x.session.json", {}, /status/],
  ["a batch", "20260102T030405Z_1a2b3c4d.json", BATCH, null],
  [
    "a batch with a status that its reader does not know",
    "20260102T030405Z_1a2b3c4d.json",
    { ...BATCH, issues: { "1": { ...ISSUE, status: "paused" } } },
    /issues/,
  ],
  ["a record of another kind", "trusted.json", { "/p": "sha" }, null],
  ["a value that is not an object", "versions.json", [], /object/],
  ["a file that is not a record", "reserve", "x", null],
] as const)("%s", (_what, name, value, expected) => {
  const wrong = wrongWith(name, JSON.stringify(value));
  if (expected === null) expect(wrong).toBeNull();
  else expect(wrong).toMatch(expected);
});

test("a key that occurs twice is found", () => {
  expect(wrongWith("trusted.json", '{"a":1,"a":2}')).toMatch(/twice/);
});
