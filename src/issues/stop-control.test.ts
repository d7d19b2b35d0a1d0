import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { batchHolds, forgetBatchOwner, requestStop, watchStopRequests } from "./live-batch.ts";
import { StopControl } from "./stop-control.ts";

test("the stop control of one issue stops that issue alone, and follows that of the batch", async () => {
  const whole = new StopControl();
  using one = new StopControl(whole);
  using other = new StopControl(whole);
  const told: string[] = [];
  one.onStop((request) => told.push(`one ${request}`));
  other.onStop((request) => told.push(`other ${request}`));
  one.stopAlone();
  expect([one.level, one.isAlone, other.level, whole.level]).toEqual([2, true, 0, 0]);
  expect(await one.waitUntil(Number.POSITIVE_INFINITY, () => 0)).toBe(false);
  whole.raise("SIGTERM");
  expect([one.isAlone, other.level, other.isAlone]).toEqual([false, 2, false]);
  one.stopAlone();
  expect(told).toEqual(["one interrupt", "other SIGTERM", "one end"]);
});

test("a request by file stops the named run once, and a withdrawn request stops nothing", async () => {
  const directory = mkdtempSync(join(tmpdir(), "reprise-stop-"));
  try {
    const whole = new StopControl();
    using mine = new StopControl(whole);
    using theirs = new StopControl(whole);
    const at = (handle: string) => ({ directory, batch: "b1", handle: () => handle });
    using _mine = watchStopRequests(mine, at("11111111"));
    using _theirs = watchStopRequests(theirs, at("22222222"));
    requestStop(directory, "b0", "22222222")();
    requestStop(directory, "b1", "11111111");
    await vi.waitUntil(() => mine.level === 2, { timeout: 10_000 });
    expect(readdirSync(directory)).toEqual([]);
    expect([theirs.level, whole.level]).toEqual([0, 0]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

describe("a live batch holds the runs of issues that it has not finished", () => {
  const other = { pid: 4711, start: "1", boot: "b", space: "s" };
  const run = (handle: string, slug = "project-1") => ({ handle, subject: `issue:${slug}#a` });
  let root: string;
  let deps: TestDeps;
  let owner: string;

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), "reprise-holds-"));
    deps = await testDeps(root);
    const directory = join(deps.state.root, "issues", "project-1");
    owner = join(directory, "runner.owner");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeFileSync(owner, JSON.stringify({ ...other, run_id: "b1" }), { mode: 0o600 });
    const states = ["running", "waiting", "checking", "passed", "completed", "failed", "interrupted", "left"];
    const issues = Object.fromEntries(
      states.map((status, at) => [`i${at}`, { status, handle: `0000000${at}` }]),
    );
    writeFileSync(join(directory, "b1.json"), JSON.stringify({ run_id: "b1", issues }), { mode: 0o600 });
  });
  afterEach(() => rmSync(root, { recursive: true }));

  const judged = (verdict: "lives" | "gone" | "doubt", self = deps.processes.self()) => ({
    ...deps,
    processes: {
      ...deps.processes,
      self: () => self,
      examine: () => verdict,
      isAlive: () => verdict !== "gone",
    },
  });

  test("in a turn, waiting, at the gate and while it closes; not after the end of an issue, and of no other repository", () => {
    const held = batchHolds(judged("lives"), [run("00000002"), { handle: "00000009", subject: null }]);
    expect([...held.values()].map(({ state }) => state)).toEqual([
      "running",
      "waiting",
      "checking",
      "passed",
    ]);
    expect(held.get("00000002")).toEqual({
      batch: "b1",
      pid: 4711,
      issue: "i2",
      state: "checking",
      certain: true,
    });
    expect(batchHolds(judged("lives"), [run("00000002", "project-2")]).size).toBe(0);
  });

  test("not from itself, and not when it has died", () => {
    expect(batchHolds(judged("lives", other), [run("00000002")]).size).toBe(0);
    expect(batchHolds(judged("gone"), [run("00000002")]).size).toBe(0);
  });

  test("even when nothing shows whether it lives, until a person says that it is gone", () => {
    const doubted = judged("doubt");
    expect(batchHolds(doubted, [run("00000002")]).get("00000002")?.certain).toBe(false);
    forgetBatchOwner(judged("lives"), run("00000002"));
    expect(existsSync(owner)).toBe(true);
    forgetBatchOwner(doubted, run("00000002"));
    expect(batchHolds(doubted, [run("00000002")]).size).toBe(0);
  });
});
