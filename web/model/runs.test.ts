import { describe, expect, test } from "vitest";
import type { RunRow } from "../types.ts";
import { addPage, applyChanges, type Filter, fits, NO_RUNS, type RunsState } from "./runs.ts";

const row = (handle: string, minute: number, change: Partial<RunRow> = {}): RunRow => {
  const time = `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z`;
  return {
    ...{ handle, runId: handle, agentName: "demo", status: "completed", attempts: 1, cwd: "/src" },
    ...{ createdAt: time, updatedAt: time, title: `Run ${handle}` },
    ...change,
  };
};
const ALL: Filter = { status: "", engine: "", tag: "", grep: "" };
const handles = ({ rows }: RunsState) => rows.map(({ handle }) => handle);
const loaded = addPage(NO_RUNS, { runs: [row("c", 3), row("b", 2)], next: "b", total: 3 });

describe("pages", () => {
  test("follow each other in the order of the server", () => {
    const state = addPage(loaded, { runs: [row("a", 1)], next: null, total: 3 });
    expect([handles(state), state.total, state.next]).toEqual([["c", "b", "a"], 3, null]);
  });

  test("without a total count one more than is loaded, until the last", () => {
    expect(addPage(NO_RUNS, { runs: [row("c", 3)], next: "c" }).total).toBe(2);
    expect(addPage(NO_RUNS, { runs: [row("c", 3)], next: null }).total).toBe(1);
  });

  test("do not bring back an older state of a row", () => {
    const live = applyChanges(loaded, { rows: [row("b", 9, { status: "running" })], gone: [] }, ALL);
    const state = addPage(live, { runs: [row("b", 2)], next: null, total: 3 });
    expect(state.rows.find(({ handle }) => handle === "b")?.status).toBe("running");
  });
});

describe("live changes", () => {
  test("change a known row in place", () => {
    const state = applyChanges(loaded, { rows: [row("b", 9, { status: "failed" })], gone: [] }, ALL);
    expect([handles(state), state.rows[1]?.status, state.total]).toEqual([["c", "b"], "failed", 3]);
  });

  test("put a new run first and count it", () => {
    const state = applyChanges(loaded, { rows: [row("d", 4)], gone: [] }, ALL);
    expect([handles(state), state.total]).toEqual([["d", "c", "b"], 4]);
  });

  test("put an old run that is used again first, without counting it twice", () => {
    const used = row("a", 1, { updatedAt: "2026-01-01T00:30:00Z" });
    const state = applyChanges(loaded, { rows: [used], gone: [] }, ALL);
    expect([handles(state), state.total]).toEqual([["a", "c", "b"], 3]);
    expect(handles(addPage(state, { runs: [row("a", 1)], next: null, total: 3 }))).toEqual(["a", "c", "b"]);
  });

  test("remove rows that are gone or no longer fit", () => {
    expect(applyChanges(loaded, { rows: [], gone: ["c"] }, ALL)).toMatchObject({ total: 2 });
    const filter = { ...ALL, status: "completed" };
    const state = applyChanges(loaded, { rows: [row("b", 9, { status: "failed" })], gone: [] }, filter);
    expect([handles(state), state.total]).toEqual([["c"], 2]);
  });
});

test.each<[Partial<Filter>, boolean]>([
  [{}, true],
  [{ status: "failed" }, false],
  [{ engine: "demo", tag: "docs" }, true],
  [{ tag: "other" }, false],
  [{ grep: "RUN A" }, true],
  [{ grep: "nothing" }, false],
])("a filter %j fits: %s", (change, expected) => {
  expect(fits(row("a", 1, { tags: ["docs"] }), { ...ALL, ...change })).toBe(expected);
});
