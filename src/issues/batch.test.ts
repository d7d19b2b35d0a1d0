import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { exitCodeOf, Fault } from "../core/faults.ts";
import { runBatch } from "./batch.ts";
import type { BatchView } from "./batch-context.ts";
import type { BatchOptions } from "./batch-plan.ts";
import { invalid, type Issue, type IssueStatus, type IssueSource } from "./sources/source.ts";
import { StopControl } from "./stop-control.ts";

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
  begun: [],
  mayLack: false,
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
  mergeInto: null,
  onLimit: "wait",
  trustCwd: false,
  gate: null,
  watch: true,
  again: { words: [], source: [], byHand: [], note: "reprise issues run --resume" },
  engineGiven: true,
  accessFrom: "default",
  version: "0",
};

const PLAIN = { title: "T", body: "", priority: 2, dependencies: [], parent: null, epic: false };

/** What happens at each look; the last is repeated. */
async function watched(
  issues: readonly Partial<Issue>[],
  looks: (() => void)[],
  more: Partial<BatchOptions>,
  other: Partial<IssueSource> = {},
) {
  const statuses = new Map<string, IssueStatus>();
  let look = 0;
  const seen = () =>
    issues.map((one) => {
      const id = one.id ?? "";
      return { ...PLAIN, ...one, id, status: statuses.get(id) ?? "open" };
    });
  const source: IssueSource = {
    name: "memory",
    restMs: 50,
    async list() {
      look += 1;
      looks[Math.min(look, looks.length) - 1]?.();
      return { warnings: [], issues: seen() };
    },
    async one(id) {
      const found = seen().find((issue) => issue.id === id);
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
    ...other,
  };
  const started: string[] = [];
  const view: BatchView = {
    planned: () => {},
    started: ({ id }) => void started.push(id),
    ended: () => {},
    progress: () => {},
    verbose: () => {},
  };
  const end = await runBatch(deps, { root, source }, { ...OPTIONS, ...more }, { stopControl, view });
  const ends = end.issues.map(({ id, state }) => `${id} ${state}`);
  return { started, ends, exitCode: end.exitCode, last: end.issues.at(-1), path: end.path };
}

let stopControl: StopControl;
beforeEach(() => {
  stopControl = new StopControl();
});

test("--watch never begins an issue that depends on a failed one, and reads an unreadable source again", async () => {
  const unreadable = () => {
    throw invalid("issues/c.md, line 1", "its front matter has no end");
  };
  const looks = [() => {}, unreadable, unreadable, () => {}, () => void stopControl.raise()];
  expect(await watched([{ id: "a" }, { id: "b", dependencies: ["a"] }], looks, {})).toMatchObject({
    started: ["a"],
    ends: ["a interrupted", "b left"],
    exitCode: 130,
  });
  expect(deps.warnings.filter((text) => text.startsWith("Reprise cannot read"))).toEqual([
    "Reprise cannot read the issues at the moment: issues/c.md, line 1: its front matter has no end.",
  ]);
});

test("--watch with --max-issues ends when it has begun that many", async () => {
  const never = () => void stopControl.raise();
  const looks = [() => {}, () => {}, () => {}, never];
  expect(await watched([{ id: "a" }, { id: "b" }, { id: "c" }], looks, { maxIssues: 2 })).toMatchObject({
    started: ["a", "b"],
    ends: ["a interrupted", "b interrupted"],
    exitCode: 10,
  });
});

describe("an issue whose agent dies", () => {
  const once: Partial<BatchOptions> = { watch: false };

  test("is not retried, and keeps its status, when a person has deferred it", async () => {
    const one = async () => ({ ...PLAIN, id: "a", status: "blocked", statusWord: "deferred" }) as const;
    const { last, exitCode, path } = await watched([{ id: "a" }], [() => {}], once, { one });
    expect(exitCode).toBe(10);
    expect(last).toMatchObject({ state: "left", status: "blocked" });
    expect(last?.why).toMatch(
      /^its status was set to deferred while its agent worked, and Reprise keeps that; /,
    );
    expect(readFileSync(path, "utf8")).toContain('"status":"left"');
    expect(await deps.store.listRuns({})).toMatchObject([{ attempts: 1 }]);
  });

  test("has no known status when it cannot be read any more", async () => {
    const one = () => Promise.reject(invalid("issues/a.md, line 3", "status is one of open"));
    const { last } = await watched([{ id: "a" }], [() => {}], once, { one });
    expect(last).toMatchObject({ state: "interrupted", status: null });
    expect(deps.warnings).toContain(
      "Reprise cannot read a, so its status is unknown: issues/a.md, line 3: status is one of open.",
    );
  });
});

test("an issue in progress that a person blocks during the batch is not begun", async () => {
  const blocked = new Set<string>();
  const claim = async () => true;
  const one = async (id: string) =>
    ({ ...PLAIN, id, status: blocked.has(id) ? "blocked" : "in_progress" }) as const;
  const list = async () => {
    blocked.add("b");
    return {
      warnings: [],
      issues: ["a", "b"].map((id) => ({ ...PLAIN, id, status: "in_progress" as const })),
    };
  };
  const { ends, last } = await watched([], [], { watch: false }, { claim, one, list });
  expect(ends).toEqual(["a interrupted", "b left"]);
  expect(last?.why).toBe("its status was set to blocked before its agent began, and Reprise keeps that");
  expect(await deps.store.listRuns({})).toHaveLength(1);
});

test("an issue that cannot be claimed is left, not failed, and nothing is started for it", async () => {
  const claim = () => Promise.reject(new Fault("storage_failed", "bd update failed: database is locked"));
  const { ends, last, exitCode } = await watched(
    [{ id: "a" }, { id: "b" }],
    [() => {}],
    { watch: false },
    { claim },
  );
  expect(exitCode).toBe(exitCodeOf(new Fault("storage_failed", "")));
  expect(ends).toEqual(["a left", "b left"]);
  expect(last).toMatchObject({ status: "open" });
  expect(await deps.store.listRuns({})).toEqual([]);
});

describe("a secret in an option", () => {
  const secret = `sk-ant-api03-${"x9Y8".repeat(6)}`;
  const claim = async () => {
    throw new Error("an issue was claimed");
  };

  test("is refused before an issue is claimed, since no run of the batch could have a second turn", async () => {
    const native = ["--model", "m", "--allow", secret];
    const refused = watched([{ id: "a" }], [], { native, watch: false }, { claim });
    await expect(refused).rejects.toThrow(
      /^The value of --allow is a secret, .* \(NAME=value reprise issues run/,
    );
    await expect(refused).rejects.not.toThrow(secret);
    expect(await deps.store.listRuns({})).toEqual([]);
  });

  test("is also refused when the config gives the option", async () => {
    deps = { ...deps, config: { ...deps.config, engines: { demo: { args: ["--allow", secret] } } } };
    const refused = watched([{ id: "a" }], [], { watch: false }, { claim });
    await expect(refused).rejects.toThrow("The value of --allow is a secret");
  });
});
