import { describe, expect, test } from "vitest";
import { Fault, type FaultCode } from "../../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../../core/records.ts";
import {
  type ResumeDecision,
  type KnownSession,
  oneOfThese,
  optionsOf,
  type ResumePlan,
  planResume,
  resumeCommand,
  type ResumeFacts,
} from "./plan.ts";
import { goingBack, notesFor } from "./plan-notes.ts";
import { refusedStart } from "./never-began.ts";

const NO_SESSION = { field: null, value: null, source: null, verifiedAt: null };
const run = {
  handle: "1a2b3c4d",
  cwd: "/work/shop",
  engineHome: "/home/u/.codex",
  attempts: 1,
  session: NO_SESSION,
} as unknown as RunRecord;
const known = (id: string, state: KnownSession["state"], damaged = false): KnownSession => ({
  id,
  state,
  note: "a note",
  damaged,
});

const silent = (id: string, state: KnownSession["state"]): KnownSession => ({
  ...known(id, state),
  silent: true,
});

const FACTS: ResumeFacts = {
  run,
  engine: { title: "Codex", canFork: true },
  cwdExists: true,
  home: "/home/u/.codex",
  known: [known("a", "present")],
  escrow: null,
  want: "resume",
  damage: "refuse",
};

const cases: Record<string, [given: Partial<ResumeFacts>, then: ResumePlan | FaultCode]> = {
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
  "the newest has no message: back to the one before": [
    { known: [silent("b", "absent"), known("a", "present")] },
    { do: "continue", session: "a", restore: false, passedOver: ["b"] },
  ],
  "the newest has no message, and the one before has a copy": [
    { known: [silent("c", "unusable"), silent("b", "absent"), known("a", "absent")], escrow: "a" },
    { do: "continue", session: "a", restore: true, passedOver: ["c", "b"] },
  ],
  "the newest was spoken in and is gone: not back": [
    { known: [known("b", "absent"), known("a", "present")] },
    "session_lost",
  ],
  "the newest was spoken in and is gone: no fork of the one before": [
    { known: [known("b", "absent"), known("a", "present")], want: "fork" },
    "session_lost",
  ],
  "the engine will not continue the newest: not back": [
    { known: [known("b", "unusable"), known("a", "present")] },
    "session_lost",
  ],
  "back over the newest, which has no message, to a missing one: no further": [
    { known: [silent("c", "absent"), known("b", "absent"), known("a", "present")] },
    "session_lost",
  ],
  "none of them has a message": [{ known: [silent("b", "absent"), silent("a", "absent")] }, "session_lost"],
  "the newest has a copy: not back": [
    { known: [known("b", "absent"), known("a", "present")], escrow: "b" },
    { do: "continue", session: "b", restore: true, passedOver: [] },
  ],
  "damaged in the engine's store": [{ known: [known("a", "unusable", true)] }, "session_damaged"],
  "without a message, and no copy has one: nothing is left to decide about": [
    { known: [{ ...known("a", "unusable", true), blank: true }] },
    "session_lost",
  ],
  "without a message, while a copy has some": [
    { known: [{ ...known("a", "unusable", true), blank: true }], escrow: "a" },
    "session_damaged",
  ],
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
  "lost, with an earlier copy, while the newest is of another session": [
    { known: [known("a", "absent")], escrow: "b", kept: ["a"] },
    { do: "continue", session: "a", restore: true, kept: true, passedOver: [] },
  ],
  "there, and an earlier copy has more: only on request": [
    { known: [known("a", "present")], escrow: "a", kept: ["a"] },
    { do: "continue", session: "a", restore: false, passedOver: [] },
  ],
  "there, and an earlier copy has more: it goes back": [
    { known: [known("a", "present")], escrow: "a", kept: ["a"], damage: "restore" },
    { do: "continue", session: "a", restore: true, kept: true, passedOver: [] },
  ],
  "there, and a fork is to continue the earlier copy": [
    { known: [known("a", "present")], escrow: "a", kept: ["a"], damage: "restore", want: "fork" },
    { do: "continue", session: "a", restore: true, kept: true, passedOver: [] },
  ],
  "there, and no copy has more": [
    { known: [known("a", "present")], escrow: "a", kept: ["b"], damage: "restore" },
    "copy_missing",
  ],
  "shorter than an earlier copy: the newest is of another session": [
    { known: [known("a", "torn")], escrow: "b", kept: ["a"], damage: "restore" },
    { do: "continue", session: "a", restore: true, kept: true, passedOver: [] },
  ],
  "shorter than both copies: the newest goes back first": [
    { known: [known("a", "torn")], escrow: "a", kept: ["a"], damage: "restore" },
    { do: "continue", session: "a", restore: true, passedOver: [] },
  ],
  "damaged, with a copy: nothing can be continued": [
    { known: [known("a", "unusable", true)], escrow: "a", damage: "ignore" },
    "session_damaged",
  ],
  "shorter than the copy: continued": [
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

const reasons: Record<string, [given: Partial<ResumeFacts>, why: RegExp, ways: readonly string[]]> = {
  "no copy": [{ known: [known("a", "absent")] }, /session a \(a note\), and there is no copy/, []],
  "gone, and an earlier one is there": [
    { known: [known("b", "absent"), known("z", "absent"), known("a", "present")] },
    /does not have session b \(a note\)/,
    ["--session a"],
  ],
  "gone, and an earlier one has a copy": [
    { known: [known("b", "absent"), known("a", "absent")], escrow: "a" },
    /session b .*, and the copy is of another session, a$/,
    ["--session a"],
  ],
  "gone, and an earlier one lacks a part": [
    { known: [known("b", "absent"), known("a", "torn")], escrow: "a" },
    /session b/,
    [],
  ],
  "gone, and newer ones without a message": [
    { known: [silent("c", "absent"), known("b", "absent"), known("a", "present")] },
    /does not have session b/,
    ["--session a"],
  ],
  "there, but the engine will not continue it": [
    { known: [known("a", "unusable")] },
    /^Codex cannot continue session a \(a note\)/,
    [],
  ],
  "a copy that cannot be used": [
    { known: [known("a", "absent")], copyDamage: "c: its checksum is wrong" },
    /and the run's copy of the session cannot be used: c: its checksum is wrong$/,
    [],
  ],
  "damaged, and so is the copy": [
    { known: [known("a", "unusable", true)], copyDamage: "c: it is gone" },
    /cannot read session a: a note; the run's copy of the session cannot be used: c: it is gone$/,
    [],
  ],
  "damaged, with a copy": [
    { known: [known("a", "unusable", true)], escrow: "a" },
    /cannot read session a: a note$/,
    ["--restore-copy"],
  ],
  "cut short": [
    { known: [known("a", "torn")], escrow: "a" },
    /lacks a part that the run's copy has/,
    ["--restore-copy", "--ignore-copy"],
  ],
  "cut short, and the copy is of another": [
    { known: [known("a", "torn")], escrow: "b" },
    /lacks a part/,
    ["--ignore-copy"],
  ],
  "other words, which the copy cannot restore": [
    { known: [{ ...known("a", "torn"), stuck: "an import leaves them" }], escrow: "a", damage: "restore" },
    /lacks a part that the run's copy has \(a note\); an import leaves them$/,
    ["--ignore-copy"],
  ],
  "other words, and an earlier copy has more": [
    { known: [{ ...known("a", "torn"), stuck: "an import leaves them" }], escrow: "a", kept: ["a"] },
    /an import leaves them$/,
    ["--restore-copy", "--ignore-copy"],
  ],
  "no id": [{ known: [] }, /^no session id is known$/, []],
  "an id that does not fit its format": [
    { known: [], misfit: "a" },
    /^its session id a does not fit engines\.\w+\.session\.format of the config/,
    [],
  ],
  "a newest conversation without an id": [
    { known: [known("a", "present")], unnamed: true },
    /^the id of its newest conversation is unknown/,
    ["--session a"],
  ],
  "no attempt": [
    { known: [], run: { ...run, attempts: 0, session: NO_SESSION } },
    /^its agent was never started$/,
    [],
  ],
};

test.each(Object.entries(reasons))(
  "a refusal says why, and which options help: %s",
  (_name, [given, why, ways]) => {
    const decision = planResume({ ...FACTS, ...given });
    expect(decision).toMatchObject({ do: "refuse", why: expect.stringMatching(why) });
    expect(decision.do === "refuse" && decision.ways.map(({ option }) => option)).toEqual(ways);
  },
);

describe("planResume", () => {
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => {
    expect(outcomeOf(() => planResume({ ...FACTS, ...given }))).toEqual(then);
  });
});

test("content that no copy can restore is not called nothing", () => {
  const stuck = [{ session: "a", why: "in copy 1a2b3c4d, 1 of 4 messages and parts has other words" }];
  const given = { known: [known("a", "present")], damage: "restore", stuck } as const;
  expect(() => planResume({ ...FACTS, ...given })).toThrow(
    /nothing that --restore-copy can restore: in copy 1a2b3c4d, 1 of 4 messages and parts has other words\./,
  );
});

const notes: Record<string, [given: Partial<ResumeFacts>, note: RegExp]> = {
  "the engine has it": [
    { known: [known("a", "present")] },
    /`reprise resume 1a2b3c4d --session a "…"` returns/,
  ],
  "the newest copy has it": [{ known: [known("a", "absent")], escrow: "a" }, /--session a "…"` returns/],
  "an earlier copy has it": [
    { known: [known("a", "absent")], escrow: "b", kept: ["a"] },
    /--session a "…"` returns/,
  ],
  "a copy has more of it": [
    { known: [known("a", "torn")], escrow: "a" },
    /--session a --restore-copy "…"` returns/,
  ],
  "a copy has words that it cannot restore": [
    { known: [{ ...known("a", "torn"), stuck: "an import leaves them" }], escrow: "a" },
    /--session a --ignore-copy "…"` returns/,
  ],
  "neither the engine nor the run has it": [
    { known: [known("a", "absent")] },
    /neither Codex nor the run has the earlier one, a$/,
  ],
};

test.each(Object.entries(notes))("a new conversation says how to return: %s", (_name, [given, note]) => {
  const session = { ...NO_SESSION, value: "a" };
  const facts = { ...FACTS, ...given, run: { ...run, session, launch: {} } as unknown as RunRecord };
  expect(notesFor(facts, { do: "fresh" }, "fresh")).toEqual([expect.stringMatching(note)]);
});

test("a resume that goes back names the conversations that never began", () => {
  const plan = { do: "continue", session: "a", restore: false } as const;
  expect(goingBack({ ...plan, passedOver: [] })).toEqual([]);
  expect(goingBack({ ...plan, passedOver: ["b"] })).toEqual(["session b never began; going back to a"]);
  expect(goingBack({ ...plan, passedOver: ["c", "b"] })).toEqual([
    "sessions c, b never began; going back to a",
  ]);
});

test("a note on a restored copy calls neither a shorter session lost nor a fork's parent unchanged", () => {
  const plan = { do: "continue", session: "a", restore: true, passedOver: [] } as const;
  const said = notesFor({ ...FACTS, known: [known("a", "torn")], escrow: "a" }, plan, "fork").join("\n");
  expect(said).toContain("lacks a part");
  expect(said).not.toMatch(/has lost|stays as it is/);
});

test.each([
  [{ want: "resume" }, 'reprise resume 1a2b3c4d --restore-copy "…"'],
  [{ want: "fork" }, 'reprise resume 1a2b3c4d --fork --restore-copy "…"'],
  [{ want: "fork", session: "s-1" }, 'reprise resume 1a2b3c4d --session s-1 --fork --restore-copy "…"'],
] as const)("a printed resume names the session and the fork of %j", (asked, typed) => {
  expect(resumeCommand("1a2b3c4d", asked, "--restore-copy")).toBe(typed);
});

test.each([
  [{ want: "resume", damage: "refuse" }, []],
  [{ want: "fresh", damage: "refuse" }, ["--force-fresh"]],
  [{ want: "fork", damage: "restore" }, ["--restore-copy"]],
  [{ want: "resume", damage: "ignore" }, ["--ignore-copy"]],
  [{ want: "resume", damage: "restore", copy: "1a2b3c4d" }, ["--copy", "1a2b3c4d"]],
] as const)("a resume that is typed again keeps the options of %j", (wish, options) => {
  expect(optionsOf(wish)).toEqual(options);
});

test.each([
  ["11111111-a", "11111111-a"],
  ["22222222", "22222222-b"],
  ["2222222", /its first 8 or more characters: 2222222 is too short\. It has 11111111-a/],
  ["11111111", /has 2 sessions that begin with 11111111\. It has 11111111-a, 11111111-c/],
  ["33333333", /has no session 33333333\. It has/],
])("--session %s selects a session", (given, then) => {
  const ids = ["11111111-a", "11111111-c", "22222222-b"];
  if (typeof then === "string") expect(oneOfThese(run, ids, given)).toBe(then);
  else expect(() => oneOfThese(run, ids, given)).toThrow(then);
});

function outcomeOf(plan: () => ResumeDecision): ResumePlan | FaultCode {
  try {
    const decision = plan();
    return decision.do === "refuse" ? decision.code : decision;
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

describe("whether a conversation ever began", () => {
  const USAGE = {
    result: "failed",
    reason: "",
    trouble: { kind: "usage", message: "unknown option" },
  } as const;
  const refused = { outcome: USAGE, reported: [], tokens: null } as unknown as AttemptRecord;
  const failed = { ...refused, outcome: { result: "failed", reason: "" } } as AttemptRecord;
  const unbegun = { ...run, escrow: null, sessions: [] } as unknown as RunRecord;
  const chosen = (source: string) => [{ value: "a", source }] as unknown as RunRecord["sessions"];
  const table: Record<string, [run: Partial<RunRecord>, attempts: AttemptRecord[], said: string | null]> = {
    "refused once": [{}, [refused], "unknown option"],
    "refused twice, with an id of ours": [
      { attempts: 2, sessions: chosen("chosen") },
      [refused, refused],
      "unknown option",
    ],
    "an id that was there before": [{ sessions: chosen("given") }, [refused], null],
    "a copy of its session": [{ escrow: {} as RunRecord["escrow"] }, [refused], null],
    "a proved session": [{ session: { ...NO_SESSION, verifiedAt: "now" } }, [refused], null],
    "a fork": [{ parent: {} as NonNullable<RunRecord["parent"]> }, [refused], null],
    "another trouble": [{}, [failed], null],
    "refused after an attempt that was not": [{ attempts: 2 }, [failed, refused], null],
    "a reported session": [{}, [{ ...refused, reported: [{}] } as unknown as AttemptRecord], null],
    "an attempt that cannot be read": [{ attempts: 2 }, [refused], null],
  };
  test.each(Object.entries(table))("%s", (_name, [more, attempts, said]) => {
    expect(refusedStart({ ...unbegun, ...more }, attempts)).toBe(said);
  });
});
