import { describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { parseScope, plan, type PlanOptions } from "./plan.ts";
import type { Issue } from "./sources/source.ts";

const issue = (id: string, more: Partial<Issue> = {}): Issue => ({
  id,
  title: id,
  body: "",
  status: "open",
  priority: 2,
  dependencies: [],
  parent: null,
  epic: false,
  ...more,
});
const ISSUES = [
  issue("low", { priority: 4 }),
  issue("high", { priority: 0 }),
  issue("begun", { status: "in_progress", priority: 3 }),
  issue("big", { epic: true }),
  issue("part", { parent: "big" }),
  issue("deep", { parent: "part", dependencies: ["part"], priority: 1 }),
  issue("over", { status: "closed" }),
  issue("after-over", { dependencies: ["over", "nowhere"], parent: "big" }),
  issue("held", { status: "blocked" }),
  issue("after-held", { dependencies: ["held"] }),
  issue("theirs", { stranger: true }),
];
const OPTIONS: PlanOptions = {
  scope: { of: "all" },
  order: "priority",
  resume: false,
  maxIssues: null,
  begun: [],
  mayLack: false,
  includeStrangers: false,
};
const IN_PROGRESS = { id: "begun", why: "it is in progress; --resume continues it" };
const HELD = { id: "held", why: "it is blocked" };
const AFTER_HELD = { id: "after-held", why: "it waits for held" };
const THEIRS = {
  id: "theirs",
  why: "its author is not an owner, member or collaborator; --include-all includes it",
};

const cases: Record<string, [given: Partial<PlanOptions>, take: string[], skip: object[]]> = {
  "by priority, then as listed; an issue comes after its dependencies": [
    {},
    ["high", "part", "deep", "after-over", "low"],
    [IN_PROGRESS, HELD, THEIRS, AFTER_HELD],
  ],
  "--resume takes issues in progress, first": [
    { resume: true },
    ["begun", "high", "part", "deep", "after-over", "low"],
    [HELD, THEIRS, AFTER_HELD],
  ],
  "as listed": [
    { order: "input", resume: true },
    ["begun", "low", "high", "part", "deep", "after-over"],
    [HELD, THEIRS, AFTER_HELD],
  ],
  "at most so many": [
    { maxIssues: 2 },
    ["high", "part"],
    [
      IN_PROGRESS,
      HELD,
      THEIRS,
      { id: "deep", why: "the batch is full" },
      { id: "after-over", why: "the batch is full" },
      AFTER_HELD,
      { id: "low", why: "the batch is full" },
    ],
  ],
  "at most so many, including issues that an earlier part of the batch began": [
    { maxIssues: 3, resume: true, begun: ["begun", "over"] },
    ["begun", "high"],
    [
      HELD,
      THEIRS,
      { id: "deep", why: "it waits for part" },
      { id: "part", why: "the batch is full" },
      { id: "after-over", why: "the batch is full" },
      AFTER_HELD,
      { id: "low", why: "the batch is full" },
    ],
  ],
  "a begun issue continues although the batch is full": [
    { maxIssues: 1, resume: true, begun: ["begun", "over"], scope: { of: "ids", ids: ["low", "begun"] } },
    ["begun"],
    [{ id: "low", why: "the batch is full" }],
  ],
  "by id, in a continued batch: issues that the source has lost are left out": [
    { mayLack: true, scope: { of: "ids", ids: ["low", "x"] } },
    ["low"],
    [{ id: "x", why: "the source no longer has it" }],
  ],
  "by id; a dependency outside of the scope is waited for": [
    { scope: { of: "ids", ids: ["deep", "low"] } },
    ["low"],
    [{ id: "deep", why: "it waits for part" }],
  ],
  "of an epic, however deep": [{ scope: { of: "epic", id: "big" } }, ["part", "deep", "after-over"], []],
  "strangers' issues on request": [
    { includeStrangers: true, scope: { of: "ids", ids: ["theirs"] } },
    ["theirs"],
    [],
  ],
};

describe("plan", () => {
  test.each(Object.entries(cases))("%s", (_name, [given, take, skip]) => {
    const made = plan(ISSUES, { ...OPTIONS, ...given });
    expect({ take: made.take.map(({ id }) => id), skip: made.skip }).toEqual({ take, skip });
  });

  test("an unknown id is a fault", () => {
    expect(() => plan(ISSUES, { ...OPTIONS, scope: { of: "ids", ids: ["x"] } })).toThrow(Fault);
    const epic = { scope: { of: "epic", id: "x" }, mayLack: true } as const;
    expect(() => plan(ISSUES, { ...OPTIONS, ...epic })).toThrow(Fault);
  });
});

test.each([
  ["all", { of: "all" }],
  ["ids:a, b,a", { of: "ids", ids: ["a", "b"] }],
  ["epic:X", { of: "epic", id: "X" }],
])("--scope %s", (text, scope) => expect(parseScope(text)).toEqual(scope));

test.each(["", "ids:", "epic:", "epic:a,b", "some", "ids:,"])("--scope %j is refused", (text) => {
  expect(() => parseScope(text)).toThrow("--scope takes all, ids:a,b or epic:X.");
});
