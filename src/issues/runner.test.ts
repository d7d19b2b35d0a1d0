import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { Brake } from "./brake.ts";
import { type BatchOptions, type BatchView, runBatch } from "./runner.ts";
import { invalid, type Issue, type IssueStatus, type Source } from "./source.ts";

let root: string;
let deps: TestDeps;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-batch-"));
  let looks = 0;
  // Every look at the clock takes longer than a pause between two looks at the issues, so that nobody waits; the agent dies at once.
  deps = await testDeps(root, {
    clock: { now: () => Date.UTC(2026, 0, 1) + (looks += 1) * 20_000, mono: () => performance.now() },
  });
});

afterEach(() => rmSync(root, { recursive: true }));

const OPTIONS: BatchOptions = {
  scope: { of: "all" },
  order: "input",
  resume: true,
  strict: false,
  fresh: false,
  maxIssues: null,
  includeStrangers: false,
  engine: "demo",
  native: [],
  access: { level: "edit", options: [], by: null },
  over: [],
  bound: [],
  maxAgents: 1,
  limits: { idleMs: null, toolMs: null, totalMs: null },
  isolate: "none",
  merge: false,
  onLimit: "wait",
  trustCwd: false,
  gate: null,
  watch: true,
  again: { words: [], byHand: [], note: "reprise issues run --resume" },
  engineGiven: true,
  version: "0",
};

/** What happens at each look; the last is repeated. */
async function watched(
  issues: readonly Partial<Issue>[],
  looks: (() => void)[],
  more: Partial<BatchOptions>,
) {
  const statuses = new Map<string, IssueStatus>();
  let look = 0;
  const source: Source = {
    name: "memory",
    restMs: 50,
    async list() {
      look += 1;
      looks[Math.min(look, looks.length) - 1]?.();
      const plain = { title: "T", body: "", priority: 2, dependencies: [], parent: null, epic: false };
      return {
        warnings: [],
        issues: issues.map((one) => {
          const id = one.id ?? "";
          return { ...plain, ...one, id, status: statuses.get(id) ?? "open" };
        }),
      };
    },
    async one(id) {
      const found = (await this.list()).issues.find((issue) => issue.id === id);
      if (found === undefined) throw new Error(`no issue ${id}`);
      return found;
    },
    async claim(id) {
      statuses.set(id, "in_progress");
      return true;
    },
    async close(id) {
      statuses.set(id, "closed");
    },
    async note() {},
  };
  const started: string[] = [];
  const view: BatchView = {
    planned: () => {},
    started: ({ id }) => void started.push(id),
    ended: () => {},
    progress: () => {},
    verbose: () => {},
  };
  const end = await runBatch(deps, { root, source }, { ...OPTIONS, ...more }, { brake, view });
  metadata = readFileSync(end.path, "utf8");
  return { started, ends: end.issues.map(({ id, state }) => `${id} ${state}`), exitCode: end.exitCode };
}

/** What was written of the last batch. */
let metadata = "";

let brake: Brake;
beforeEach(() => {
  brake = new Brake();
});

test("--watch: what depends on a failed issue is never begun, and a source that cannot be read is looked at again", async () => {
  const unreadable = () => {
    throw invalid("issues/c.md, line 1", "its front matter has no end");
  };
  const looks = [() => {}, unreadable, unreadable, () => {}, () => void brake.press()];
  expect(await watched([{ id: "a" }, { id: "b", dependencies: ["a"] }], looks, {})).toEqual({
    started: ["a"],
    ends: ["a interrupted", "b left"],
    exitCode: 130,
  });
  expect(deps.warnings.filter((text) => text.startsWith("The issues"))).toEqual([
    "The issues cannot be read at the moment: issues/c.md, line 1: its front matter has no end.",
  ]);
});

test("--watch with --max-issues ends when it has begun so many", async () => {
  const never = () => void brake.press();
  const looks = [() => {}, () => {}, () => {}, never];
  expect(await watched([{ id: "a" }, { id: "b" }, { id: "c" }], looks, { maxIssues: 2 })).toEqual({
    started: ["a", "b"],
    ends: ["a interrupted", "b interrupted"],
    exitCode: 10,
  });
});

test("what is written of a batch holds no secret of a native option", async () => {
  const native = ["--api-key", "hunter2x"];
  await watched([{ id: "a" }], [() => {}, () => void brake.press()], { native });
  expect(metadata).toContain('"--api-key"');
  expect(metadata).not.toContain("hunter2x");
});
