import { describe, expect, test } from "vitest";
import { Fault, type FaultCode } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { type Decision, type KnownSession, type Plan, planResume, type ResumeFacts } from "./plan.ts";

const run = { handle: "1a2b3c4d", cwd: "/work/shop", engineHome: "/home/u/.codex" } as RunRecord;
const known = (id: string, state: KnownSession["state"], damaged = false): KnownSession => ({
  id,
  state,
  note: "a note",
  damaged,
});

const cases: Record<string, [given: Partial<ResumeFacts>, then: Plan | FaultCode]> = {
  "a session that is there": [
    { known: [known("a", "present")] },
    { do: "continue", session: "a", restore: false, passedOver: [] },
  ],
  "a store that cannot be read: the engine will say": [
    { known: [known("a", "unknown")] },
    { do: "continue", session: "a", restore: false, passedOver: [] },
  ],
  "lost, with a copy": [
    { known: [known("a", "absent")], escrow: "a" },
    { do: "continue", session: "a", restore: true, passedOver: [] },
  ],
  "lost, and the copy is of another": [{ known: [known("a", "absent")], escrow: "b" }, "session_lost"],
  "lost, no copy": [{ known: [known("a", "absent")] }, "session_lost"],
  "the newest was never written: back to the one before": [
    { known: [known("b", "absent"), known("a", "present")] },
    { do: "continue", session: "a", restore: false, passedOver: ["b"] },
  ],
  "the newest has a copy: not back": [
    { known: [known("b", "absent"), known("a", "present")], escrow: "b" },
    { do: "continue", session: "b", restore: true, passedOver: [] },
  ],
  "damaged in the engine's store": [{ known: [known("a", "unusable", true)] }, "session_damaged"],
  "damaged, with a copy, and the user says so": [
    { known: [known("a", "unusable", true)], escrow: "a", damage: "restore" },
    { do: "continue", session: "a", restore: true, passedOver: [] },
  ],
  "shorter than the copy: nothing is sent before the user decides": [
    { known: [known("a", "torn"), known("b", "present")], escrow: "a" },
    "session_damaged",
  ],
  "shorter than the copy: the copy goes back": [
    { known: [known("a", "torn")], escrow: "a", damage: "restore" },
    { do: "continue", session: "a", restore: true, passedOver: [] },
  ],
  "shorter than the copy: gone on with": [
    { known: [known("a", "torn")], escrow: "a", damage: "ignore" },
    { do: "continue", session: "a", restore: false, passedOver: [] },
  ],
  "there, but the engine will not continue it": [{ known: [known("a", "unusable")] }, "session_lost"],
  "no id at all": [{ known: [] }, "session_unknown"],
  "the directory is gone": [{ cwdExists: false }, "cwd_missing"],
  "the directory is gone, fresh or not": [{ cwdExists: false, want: "fresh" }, "cwd_missing"],
  "another engine home": [{ home: "/elsewhere" }, "engine_home_missing"],
  "no engine home, now that HOME is unset": [{ home: null }, "engine_home_missing"],
  "fresh needs no session": [{ known: [], want: "fresh" }, { do: "fresh" }],
  "a fork": [
    { known: [known("a", "present")], want: "fork" },
    { do: "continue", session: "a", restore: false, passedOver: [] },
  ],
  "a fork where the engine cannot": [
    { known: [known("a", "present")], want: "fork", engine: { title: "E", canFork: false } },
    "engine_cannot",
  ],
};

describe("planResume", () => {
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => {
    const facts: ResumeFacts = {
      run,
      engine: { title: "Codex", canFork: true },
      cwdExists: true,
      home: "/home/u/.codex",
      known: [known("a", "present")],
      escrow: null,
      want: "resume",
      damage: "refuse",
      ...given,
    };
    expect(outcomeOf(() => planResume(facts))).toEqual(then);
  });
});

function outcomeOf(plan: () => Decision): Plan | FaultCode {
  try {
    const decision = plan();
    return decision.do === "refuse" ? decision.code : decision;
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}
