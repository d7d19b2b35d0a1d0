import { describe, expect, test } from "vitest";
import type { Outcome, TroubleKind } from "../core/events.ts";
import {
  decide,
  decideAfter,
  deniedWords,
  type IssueDecision,
  type TurnDecision,
  type Past,
  type BatchPolicy,
  type TurnFacts,
  type TurnPolicy,
  RESUMPTION_FAILED,
  decidedWords,
  isReversed,
  unfinishedOf,
  type WorkState,
  type WorkFacts,
  workStateOf,
} from "./decide.ts";
import type { IssueStatus } from "./sources/source.ts";
import type { IssueEnd } from "./batch-types.ts";

const NONE: Past = {
  session: null,
  state: "none",
  why: "it has no earlier session",
  handle: null,
  isolate: "none",
  next: "agent",
  checked: false,
};
const ALIVE: Past = {
  session: "s1",
  state: "alive",
  why: "",
  handle: "11111111",
  isolate: "worktree",
  next: "agent",
  checked: false,
};
const STALE: Past = { ...ALIVE, state: "stale", why: "the engine does not have session s1" };
const DAMAGED: Past = { ...ALIVE, state: "damaged", why: "session s1 lacks a part" };
const RESUME: BatchPolicy = { resume: true, strict: false, fresh: false, isolate: "worktree", gate: null };
const STRICT: BatchPolicy = { ...RESUME, strict: true };

type Case = [status: IssueStatus, past: Past, policy: BatchPolicy, then: IssueDecision];
const cases: Record<string, Case> = {
  "an open issue starts fresh": [
    "open",
    NONE,
    { ...RESUME, resume: false },
    { do: "fresh", handle: null, why: "it is ready", warn: false },
  ],
  "strict concerns issues in progress alone": [
    "open",
    NONE,
    STRICT,
    { do: "fresh", handle: null, why: "it is ready", warn: false },
  ],
  "an issue in progress is not touched without --resume": [
    "in_progress",
    ALIVE,
    { ...RESUME, resume: false },
    { do: "leave", why: "it is in progress; --resume continues it", with: [] },
  ],
  "a reopened issue continues in its conversation, even without --resume": [
    "open",
    { ...ALIVE, reopened: true },
    { ...RESUME, resume: false },
    {
      do: "resume",
      session: "s1",
      handle: "11111111",
      why: "it was opened again, and its conversation continues",
      reopened: true,
    },
  ],
  "an issue that a person stopped and reopened continues in its conversation, even without --resume": [
    "open",
    { ...ALIVE, left: true },
    { ...RESUME, resume: false },
    {
      do: "resume",
      session: "s1",
      handle: "11111111",
      why: "it was opened again, and its conversation continues",
    },
  ],
  "an issue that a person stopped and reopened, and whose run is gone, starts over with a warning": [
    "open",
    { ...STALE, handle: null, left: true, why: "its run 11111111 is gone" },
    { ...RESUME, resume: false },
    { do: "fresh", handle: null, why: "its run 11111111 is gone", warn: true },
  ],
  "an issue that a person set back from in progress to open starts over, and the earlier run is named": [
    "open",
    { ...NONE, earlier: "it is open; its earlier run 11111111 is kept" },
    RESUME,
    { do: "fresh", handle: null, why: "it is open; its earlier run 11111111 is kept", warn: true },
  ],
  "an issue that was completed and is in progress again waits for --resume": [
    "in_progress",
    { ...ALIVE, reopened: true },
    { ...RESUME, resume: false },
    { do: "leave", why: "it is in progress; --resume continues it", with: [] },
  ],
  "an issue that was reopened and whose conversation is gone starts over where its work is": [
    "open",
    { ...STALE, reopened: true },
    { ...RESUME, resume: false },
    { do: "fresh", handle: "11111111", why: "the engine does not have session s1", warn: true },
  ],
  "options that would widen a run are refused, even for a new conversation in it": [
    "in_progress",
    { ...ALIVE, state: "trouble", why: "--x would add a right" },
    { ...RESUME, fresh: true },
    { do: "leave", why: "--x would add a right" },
  ],
  "an existing session continues": [
    "in_progress",
    ALIVE,
    STRICT,
    { do: "resume", session: "s1", handle: "11111111", why: "its conversation continues" },
  ],
  "work in the checkout is not taken for a worktree": [
    "in_progress",
    { ...ALIVE, isolate: "none" },
    { ...RESUME, fresh: true },
    {
      do: "leave",
      why: "its work is in the checkout; --isolate none resumes it",
      with: ["--isolate", "none"],
    },
  ],
  "work in a worktree is not taken for the checkout's": [
    "in_progress",
    { ...ALIVE, next: "gate" },
    { ...STRICT, isolate: "none" },
    {
      do: "leave",
      why: "its work is in a worktree; to resume it, omit --isolate none",
      with: ["--isolate", "worktree"],
    },
  ],
  "a damaged session that can be restored is left, even when its work waits for the gate": [
    "in_progress",
    { ...DAMAGED, next: "gate" },
    RESUME,
    { do: "leave", why: "session s1 lacks a part", with: [] },
  ],
  "a damaged session of an issue that was opened again is left": [
    "open",
    { ...DAMAGED, reopened: true },
    { ...RESUME, resume: false },
    { do: "leave", why: "session s1 lacks a part", with: [] },
  ],
  "a damaged session, strict: that issue fails": [
    "in_progress",
    DAMAGED,
    STRICT,
    { do: "fail", why: "Session resumption failed: session s1 lacks a part", with: [] },
  ],
  "no session, lenient: fresh, with a warning": [
    "in_progress",
    NONE,
    RESUME,
    { do: "fresh", handle: null, why: "it has no earlier session", warn: true },
  ],
  "no session, strict: that issue fails": [
    "in_progress",
    NONE,
    STRICT,
    { do: "fail", why: "Session resumption failed: it has no earlier session" },
  ],
  "a stale session, lenient: fresh where the work is": [
    "in_progress",
    STALE,
    RESUME,
    { do: "fresh", handle: "11111111", why: "the engine does not have session s1", warn: true },
  ],
  "a stale session, strict: that issue fails": [
    "in_progress",
    STALE,
    STRICT,
    { do: "fail", why: "Session resumption failed: the engine does not have session s1" },
  ],
  "trouble that passes is neither, strict or not": [
    "in_progress",
    { ...ALIVE, state: "trouble", why: "session s1 is open elsewhere" },
    STRICT,
    { do: "leave", why: "session s1 is open elsewhere" },
  ],
  "--fresh keeps the work and drops the conversation": [
    "in_progress",
    ALIVE,
    { ...RESUME, fresh: true },
    { do: "fresh", handle: "11111111", why: "you asked for a new conversation", warn: false },
  ],
  "a turn that was completed before the crash is checked, not repeated": [
    "in_progress",
    { ...ALIVE, next: "gate" },
    { ...STRICT, gate: { commands: [], attempts: 1 } },
    {
      do: "gate",
      handle: "11111111",
      session: "s1",
      why: "its last turn was completed, and the gate has not run since",
    },
  ],
  "a turn that was completed before the crash does not wait for a missing gate": [
    "in_progress",
    { ...ALIVE, next: "gate" },
    STRICT,
    {
      do: "gate",
      handle: "11111111",
      session: "s1",
      why: "its last turn was completed; without a gate, Reprise looks for changed files",
    },
  ],
  "an issue that has passed needs no conversation to be closed": [
    "in_progress",
    { ...STALE, next: "close", checked: true },
    STRICT,
    { do: "close", handle: "11111111", session: "s1", why: "its work has passed the gate" },
  ],
  "work without a gate is not reported as having passed one": [
    "in_progress",
    { ...STALE, next: "close" },
    STRICT,
    {
      do: "close",
      handle: "11111111",
      session: "s1",
      why: "its last turn was completed and changed files; there was no gate",
    },
  ],
  "a session without its run has no place to continue": [
    "in_progress",
    { ...ALIVE, state: "stale", handle: null, why: "run 11111111 is gone" },
    RESUME,
    { do: "fresh", handle: null, why: "run 11111111 is gone", warn: true },
  ],
};

describe("decide", () => {
  test.each(Object.entries(cases))("%s", (_name, [status, past, policy, then]) => {
    expect(decide({ status }, past, policy)).toEqual(then);
  });
});

const NOW = Date.parse("2026-01-01T00:00:00Z");
const TURN: TurnFacts = {
  outcome: { result: "completed", reason: "" },
  resumed: false,
  unverified: false,
  toolCalls: 0,
  stopping: false,
  troubles: 0,
  crashes: 0,
  nowMs: NOW,
};
const WAIT: TurnPolicy = { strict: false, onLimit: "wait" };
const bad = (kind: TroubleKind, resetsAt?: string): { outcome: Outcome } => ({
  outcome: {
    result: "failed",
    reason: "r",
    trouble: { kind, message: "m", ...(resetsAt === undefined ? {} : { resetsAt }) },
  },
});
const dead: { outcome: Outcome } = { outcome: { result: "interrupted", reason: "it died" } };

const after: Record<string, [given: Partial<TurnFacts>, policy: TurnPolicy, then: TurnDecision]> = {
  "a completed turn goes to the gate, even while stopping": [{ stopping: true }, WAIT, { do: "gate" }],
  "the user's stop": [
    { outcome: { result: "cancelled", reason: "stopped" } },
    WAIT,
    { do: "interrupt", why: "stopped" },
  ],
  "a turn that ends while stopping is kept": [
    { ...bad("rate_limited"), stopping: true },
    WAIT,
    { do: "interrupt", why: "rate_limited: m" },
  ],
  "a limit with a reset is waited for": [
    bad("rate_limited", "2026-01-01T01:00:00Z"),
    WAIT,
    {
      do: "again",
      notBeforeMs: NOW + 3_601_000,
      why: "rate_limited: m (until 2026-01-01T01:00:00Z)",
      limit: true,
    },
  ],
  "a reset that has passed is not waited for": [
    bad("rate_limited", "2025-01-01T01:00:00Z"),
    WAIT,
    {
      do: "again",
      notBeforeMs: NOW + 1_000,
      why: "rate_limited: m (until 2025-01-01T01:00:00Z)",
      limit: true,
    },
  ],
  "a reset that has passed is believed once": [
    { ...bad("rate_limited", "2025-01-01T01:00:00Z"), troubles: 1 },
    WAIT,
    {
      do: "again",
      notBeforeMs: NOW + 120_000,
      why: "rate_limited: m (until 2025-01-01T01:00:00Z)",
      limit: true,
    },
  ],
  "an overload without a reset is tried again, later each time": [
    { ...bad("overloaded"), troubles: 2 },
    WAIT,
    { do: "again", notBeforeMs: NOW + 300_000, why: "overloaded: m", limit: true },
  ],
  "--on-limit stop ends the batch with 75": [
    bad("rate_limited"),
    { ...WAIT, onLimit: "stop" },
    { do: "stop", why: "rate_limited: m", exitCode: 75 },
  ],
  "no network is tried again": [
    bad("network"),
    WAIT,
    { do: "again", notBeforeMs: NOW + 60_000, why: "network: m", limit: true },
  ],
  "no network for long ends the batch": [
    { ...bad("network"), troubles: 5 },
    WAIT,
    { do: "stop", why: "network: m", exitCode: 75 },
  ],
  "a login ends the batch with 8": [
    { ...bad("auth"), resumed: true },
    WAIT,
    { do: "stop", why: "auth: m", exitCode: 8 },
  ],
  "a quota ends the batch": [bad("quota"), WAIT, { do: "stop", why: "quota: m", exitCode: 10 }],
  "a stale session found mid-start, nothing done: fresh": [
    { ...bad("session_lost"), resumed: true },
    WAIT,
    { do: "fresh", why: "session_lost: m" },
  ],
  "a stale session after a tool call fails the issue": [
    { ...bad("session_lost"), resumed: true, toolCalls: 2 },
    WAIT,
    { do: "fail", why: "session_lost: m, after 2 tool calls of this turn" },
  ],
  "a stale session in strict mode fails the issue": [
    { ...bad("session_lost"), resumed: true },
    { ...WAIT, strict: true },
    { do: "fail", why: "Session resumption failed: session_lost: m" },
  ],
  "a dead agent's conversation continues at once": [
    dead,
    WAIT,
    { do: "again", notBeforeMs: NOW, why: "it died", limit: false },
  ],
  "an agent that dies again and again is left": [
    { ...dead, crashes: 2 },
    WAIT,
    { do: "interrupt", why: "it died" },
  ],
  "a conversation other than the requested one is a failure": [
    { outcome: { result: "diverged", reason: "other id" }, resumed: true },
    WAIT,
    { do: "fail", why: "other id" },
  ],
  "a failed turn is a failure": [
    { outcome: { result: "failed", reason: "no" } },
    WAIT,
    { do: "fail", why: "no" },
  ],
  "a full context is a failure": [bad("context_full"), WAIT, { do: "fail", why: "context_full: m" }],
};

describe("decideAfter", () => {
  test.each(Object.entries(after))("%s", (_name, [given, policy, then]) => {
    expect(decideAfter({ ...TURN, ...given }, policy)).toEqual(then);
  });
});

test.each([
  [[], ""],
  [[{ name: "Bash", detail: "npm test" }], "1 tool call was denied: Bash npm test"],
  [
    [
      { name: "Write", detail: "a.ts" },
      { name: "Bash", detail: "npm test" },
    ],
    "2 tool calls were denied: Write a.ts, Bash npm test",
  ],
  [
    Array.from({ length: 7 }, () => ({ name: "Edit\u001b[2J" })),
    `7 tool calls were denied: ${Array(5).fill("Edit\\x1b[2J").join(", ")}, and 2 more`,
  ],
])("%j", (denied, words) => {
  expect(deniedWords(denied)).toBe(words);
});

const UNTOUCHED: WorkFacts = { tree: "t", now: "t", tools: 2, toolCalls: 2, denied: 0, isolate: "none" };
const work: Record<string, [WorkFacts, WorkState]> = {
  "files that are as they were": [UNTOUCHED, "nothing"],
  "files that changed while the agent ran tools": [{ ...UNTOUCHED, now: "u" }, "changed"],
  "files in the checkout that changed while the agent ran no tool": [
    { ...UNTOUCHED, now: "u", tools: 0, toolCalls: 0 },
    "others",
  ],
  "files in the checkout that changed while every tool call was denied": [
    { ...UNTOUCHED, now: "u", denied: 2 },
    "others",
  ],
  "files in the checkout that changed while tool calls may be unseen": [
    { ...UNTOUCHED, now: "u", tools: null, toolCalls: 0 },
    "changed",
  ],
  "files in a worktree that changed, whatever was seen of it": [
    { ...UNTOUCHED, now: "u", tools: 0, toolCalls: 0, isolate: "worktree" },
    "changed",
  ],
  "a tool that was let work, without git": [{ ...UNTOUCHED, tree: null, now: null, denied: 1 }, "unseen"],
  "tools that were all denied, without git": [{ ...UNTOUCHED, tree: null, now: null, denied: 2 }, "nothing"],
  "a tool of this batch, where earlier ones may be unseen, without git": [
    { ...UNTOUCHED, now: null, tools: null, toolCalls: 1 },
    "unseen",
  ],
};

describe("workOf", () => {
  test.each(Object.entries(work))("%s", (_, [facts, then]) => {
    expect(workStateOf(facts)).toBe(then);
  });
});

test.each<[string, Parameters<typeof isReversed>[1], boolean]>([
  [decidedWords(null, "before its agent began"), { status: "open" }, true],
  [decidedWords(null, "while its agent worked"), { status: "blocked" }, false],
  [decidedWords("blocked", "before its agent began"), { status: "blocked" }, false],
  [decidedWords("deferred", "before its agent began"), { status: "blocked", statusWord: "deferred" }, false],
  [decidedWords("deferred", "before its agent began"), { status: "open" }, true],
  [decidedWords("open", "while its agent worked"), { status: "open" }, false],
  [decidedWords("closed", "while its agent worked"), { status: "in_progress" }, true],
  ["somebody else has claimed it", { status: "open" }, false],
])("%j of an issue that is %j now, taken back: %s", (why, now, then) => {
  expect(isReversed(why, now)).toBe(then);
});

describe("what a batch leaves undone", () => {
  const BARRED = `${RESUMPTION_FAILED}lost`;
  const words = ["--strict", "--order", "input", "--", "--strict"];
  const again = { words, source: ["--source", "beads"], byHand: [], note: "" };
  const end = (id: string, state: IssueEnd["state"], more: Partial<IssueEnd> = {}): IssueEnd => ({
    id,
    title: "",
    status: "in_progress",
    state,
    why: "w",
    handle: null,
    branch: null,
    gate: null,
    tokens: null,
    ...more,
  });
  type Row = [ends: IssueEnd[], ways: Record<string, string[]>, goOn: readonly string[] | null];
  const rows: Record<string, Row> = {
    "nothing, when all are completed": [[end("a", "completed", { status: "closed" })], {}, null],
    "a failed issue in progress continues with the same command": [[end("a", "failed")], {}, again.words],
    "an issue that --strict keeps from beginning continues without it": [
      [end("a", "failed", { why: BARRED }), end("b", "left")],
      { b: ["--engine", "x"] },
      ["--order", "input", "--", "--strict"],
    ],
    "what --strict would not let begin goes on without it, also beside others": [
      [end("a", "failed", { why: BARRED }), end("b", "interrupted"), end("c", "left")],
      { c: [] },
      ["--order", "input", "--", "--strict"],
    ],
    "an issue that --strict lets begin after a decision keeps the option": [
      [end("a", "failed", { why: BARRED })],
      { a: [] },
      again.words,
    ],
    "an issue that failed before its claim does not continue": [
      [end("a", "failed", { status: "open" })],
      {},
      null,
    ],
    "an issue that a person decided about does not continue": [
      [end("a", "left", { status: "blocked" })],
      {},
      null,
    ],
    "an issue that was left for a passing reason continues with the same command": [
      [end("a", "left"), end("b", "completed")],
      { a: [] },
      again.words,
    ],
    "an issue that was left for good has no command of a batch": [[end("a", "left")], {}, null],
    "issues of another engine are named in one command": [
      [end("a", "left"), end("b", "left"), end("c", "left")],
      { a: ["--engine", "x"], c: ["--engine", "x"] },
      ["--source", "beads", "--engine", "x", "--scope", "ids:a,c"],
    ],
    "work in another place continues there, with the engine of this batch": [
      [end("a", "left")],
      { a: ["--isolate", "none"] },
      ["--source", "beads", "--engine", "e", "--isolate", "none", "--scope", "ids:a"],
    ],
    "the same command comes before another one": [
      [end("a", "left"), end("b", "interrupted")],
      { a: ["--engine", "x"] },
      again.words,
    ],
  };
  test.each(Object.entries(rows))("%s", (_name, [ends, ways, goOn]) => {
    const undone = unfinishedOf(ends, new Map(Object.entries(ways)), { engine: "e", again });
    expect(undone.goOn).toEqual(goOn);
    const left = ends.filter(({ state }) => state === "left").map(({ id }) => id);
    expect(undone.leaves.map(({ id }) => id)).toEqual(left);
  });
});
