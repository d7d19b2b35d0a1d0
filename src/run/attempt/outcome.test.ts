import { describe, expect, test } from "vitest";
import type { Outcome, Trouble } from "../../core/events.ts";
import { type AttemptFacts, exitCodeFor, judge, type StopReason } from "./outcome.ts";

const limited: Trouble = { kind: "rate_limited", message: "slow down", resetsAt: "2026-11-16T09:00:00.000Z" };
const lost: Trouble = { kind: "session_lost", message: "no rollout found" };

const cases: Record<string, [given: Partial<AttemptFacts>, then: Outcome]> = {
  "a completed turn is completed": [
    { turnEnd: { result: "completed" } },
    { result: "completed", reason: "the turn was completed" },
  ],
  "a completed turn stays completed when the agent is killed afterwards": [
    { turnEnd: { result: "completed" }, exit: { code: null, signal: "SIGKILL" }, stop: { by: "user" } },
    { result: "completed", reason: "the turn was completed" },
  ],
  "exit 0 without a terminal event is not success": [
    { exit: { code: 0, signal: null } },
    { result: "interrupted", reason: "the agent ended (exit code 0) without finishing its turn" },
  ],
  "a failed turn keeps its trouble": [
    { turnEnd: { result: "failed", trouble: limited }, exit: { code: 1, signal: null } },
    { result: "failed", reason: "the engine reported a failed turn", trouble: limited },
  ],
  "last words explain an exit without events": [
    { exit: { code: 1, signal: null }, explained: lost },
    { result: "failed", reason: "the agent ended (exit code 1) before its turn was finished", trouble: lost },
  ],
  "a signal interrupts": [
    { exit: { code: null, signal: "SIGKILL" } },
    { result: "interrupted", reason: "the agent was killed by SIGKILL" },
  ],
  "the user's stop is cancelled": [
    { stop: { by: "user" } },
    { result: "cancelled", reason: "stopped by the user" },
  ],
  "our own SIGTERM is an interruption": [
    { stop: { by: "signal", signal: "SIGTERM" } },
    { result: "interrupted", reason: "Reprise was ended by SIGTERM" },
  ],
  "a deadline keeps what the engine last complained of": [
    {
      stop: { by: "deadline", what: "no sign of life for 15 m" },
      explained: { kind: "network", message: "down" },
    },
    {
      result: "interrupted",
      reason: "no sign of life for 15 m",
      trouble: { kind: "network", message: "down" },
    },
  ],
  "another id is diverged, even when the turn was completed": [
    { turnEnd: { result: "completed" }, diverged: { asked: "a", reported: "b" } },
    { result: "diverged", reason: "the engine answered in another conversation: asked for a, got b" },
  ],
  "a second writer in a session has failed, even when its turn was completed": [
    { turnEnd: { result: "completed" }, stop: { by: "busy", what: "another one is in it" } },
    {
      result: "failed",
      reason: "another one is in it",
      trouble: { kind: "session_busy", message: "another one is in it" },
    },
  ],
  "text mode goes by the exit code": [
    { structured: false, exit: { code: 0, signal: null } },
    { result: "completed", reason: "the agent ended with exit code 0" },
  ],
  "text mode fails with another exit code": [
    { structured: false, exit: { code: 3, signal: null } },
    { result: "failed", reason: "the agent ended with exit code 3" },
  ],
  "a UI that is left is completed": [
    { interactive: true, exit: { code: 0, signal: null } },
    { result: "completed", reason: "the agent ended with exit code 0" },
  ],
};

describe("judge", () => {
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => {
    const facts: AttemptFacts = {
      structured: true,
      interactive: false,
      exit: { code: 0, signal: null },
      turnEnd: null,
      stop: null,
      explained: null,
      diverged: null,
      ...given,
    };
    expect(judge(facts)).toEqual(then);
  });
});

const trouble = (kind: Trouble["kind"]): Outcome => ({
  result: "failed",
  reason: "",
  trouble: { kind, message: "" },
});
const codes: [Outcome, StopReason | null, number][] = [
  [{ result: "completed", reason: "" }, null, 0],
  [{ result: "cancelled", reason: "" }, { by: "user" }, 130],
  [{ result: "diverged", reason: "" }, null, 1],
  [{ result: "interrupted", reason: "" }, null, 1],
  [{ result: "interrupted", reason: "" }, { by: "signal", signal: "SIGTERM" }, 143],
  [{ result: "interrupted", reason: "" }, { by: "signal", signal: "SIGHUP" }, 129],
  [{ result: "interrupted", reason: "" }, { by: "storage", what: "" }, 7],
  [trouble("rate_limited"), null, 75],
  [trouble("overloaded"), null, 75],
  [trouble("network"), null, 75],
  [trouble("auth"), null, 8],
  [trouble("session_lost"), null, 3],
  [trouble("session_busy"), null, 4],
  [trouble("quota"), null, 1],
  [trouble("context_full"), null, 1],
];

test.each(codes)("%j stopped by %j exits %d", (outcome, stop, code) => {
  expect(exitCodeFor(outcome, stop)).toBe(code);
});
