import { expect, test } from "vitest";
import type { CaseStep } from "./case.ts";
import { check, type CheckFacts, isMeantToResume, isSeen, type Shown } from "./checks.ts";
import type { Lab, LabPlace } from "./lab.ts";
import { type EngineLab, LABS } from "./labs.ts";
import { FORGED } from "./model-server/directives.ts";
import type { RequestRecord } from "./model-server/server.ts";

const lab: Lab = { ...(LABS[0] as EngineLab), program: "/bin/codex" };
const place: LabPlace = {
  root: "/r",
  home: "/r/home",
  state: "/r/state",
  project: "/r/project",
  extra: "/r/extra",
  more: "/r/more",
  tmp: "/r/tmp",
};

const turn = (more: Partial<RequestRecord> = {}): RequestRecord => ({
  api: "responses",
  model: "m",
  stream: true,
  users: ["one", "two"],
  context: [],
  assistants: 1,
  toolResults: 0,
  toolOutputs: [],
  system: "",
  tools: ["shell"],
  n: 1,
  atMs: 0,
  method: "POST",
  path: "/v1/responses",
  kind: "turn",
  systemSha256: "",
  headers: {},
  body: "",
  act: "answer",
  resetsAtMs: null,
  state: "ended",
  ...more,
});

/** A good attempt, except for one more id that it took for its session. */
function reporting(id: string): Shown {
  const sound = shown("s1", "completed");
  const history = sound.history.map((one) => ({
    ...one,
    reported: [...one.reported, { value: id, source: "stdout" }],
  }));
  return { ...sound, history };
}

interface Trouble {
  readonly kind: string;
  readonly resetsAt?: string;
}

const shown = (session: string, status: string, trouble?: Trouble): Shown => ({
  handle: "1a2b3c4d",
  status,
  attempts: 2,
  runDirectory: "/r/state/runs/x",
  session: { value: session },
  history: [
    {
      n: 2,
      kind: "resume",
      mode: "pipe",
      interactive: false,
      outcome: { result: status, ...(trouble === undefined ? {} : { trouble }) },
      reported: [],
      receipt: { verified: "engine_reported", asked: "s1", restoredFromEscrow: false },
    },
  ],
});

const good: CheckFacts = {
  ended: { code: 0, signal: null, stdout: "", stderr: "" },
  shown: shown("s1", "completed"),
  fault: null,
  sessionBefore: "s1",
  turns: [turn()],
  persisted: ["one"],
  messages: ["one", "two"],
  pages: {},
  stdoutLog: "",
  turnLog: "",
  screen: null,
  rightsBefore: { sandbox: ["read-only"] },
  rights: { sandbox: ["read-only"], tools: ["shell"] },
  conversations: 1,
  decoy: null,
};
const resume: CaseStep = { resume: { message: "two" } };
const limited: CaseStep = { ...resume, expect: { exit: 75, status: "failed", trouble: "rate_limited" } };
const ended = (code: number, stdout = "") => ({ code, signal: null, stdout, stderr: "" });
const AT = "2026-11-15T03:30:00.000Z";
const limit = (resetsAt?: string) => ({
  ended: ended(75),
  shown: shown("s1", "failed", { kind: "rate_limited", ...(resetsAt === undefined ? {} : { resetsAt }) }),
});
const announced = [turn({ resetsAtMs: Date.parse(AT) })];

const cases: Record<string, [step: CaseStep, facts: Partial<CheckFacts>, wrong: readonly RegExp[]]> = {
  "a resume as it should be": [resume, {}, []],
  "a new conversation": [
    resume,
    { turns: [turn({ users: ["two"] })] },
    [/unnoticed new conversation/, /request 1 held \["two"\]/],
  ],
  "a message twice": [
    resume,
    { turns: [turn({ users: ["one", "two", "two"] })] },
    [/delivered twice: "two"/, /request 1 held/],
  ],
  "two turns that begin with the same message": [
    resume,
    { turns: [turn(), turn({ n: 2 })] },
    [/delivered twice: 2 × a turn of this step began with "two"/],
  ],
  "a turn that begins with an earlier message": [
    { ...resume, expect: { exit: 0, status: "completed" } },
    { turns: [turn({ users: ["one"] }), turn({ n: 2 })] },
    [/delivered twice: 1 × a turn of this step began with "one"/],
  ],
  "a message that was changed on the way": [
    resume,
    { turns: [turn({ users: ["one", "two "] })] },
    [/began with a message that was never sent: "two "/, /request 1 held/],
  ],
  "a round of tools": [resume, { turns: [turn({ act: "tool" }), turn({ n: 2, toolOutputs: ["done"] })] }, []],
  "a retry after a failure": [resume, { turns: [turn({ act: "refuse" }), turn({ n: 2 })] }, []],
  "wider rights": [
    resume,
    { rights: { sandbox: ["danger-full-access"] } },
    [/rights changed: sandbox: gained danger-full-access; lost read-only/],
  ],
  "rights that this resume was given": [
    { resume: { message: "two", native: ["-s", "read-only"] } },
    { rights: { sandbox: ["none"] } },
    [],
  ],
  "a conversation too many": [resume, { conversations: 2 }, [/keeps 2 conversations instead of 1/]],
  "another session": [resume, { shown: shown("s2", "completed") }, [/the session was s1 and is s2/]],
  "an id from text": [
    resume,
    { shown: shown(FORGED.uuid, "completed") },
    [/taken from text/, /the session was s1/],
  ],
  "an id from text that the engine's store did not confirm": [
    resume,
    { shown: reporting(FORGED.uuid) },
    [/taken from text/],
  ],
  "the id of another conversation, from text": [
    resume,
    { shown: reporting("s9"), decoy: "s9", conversations: 2 },
    [/taken from text: s9/],
  ],
  "another conversation beside the run's": [resume, { decoy: "s9", conversations: 2 }, []],
  "an id from text, where any session will do": [
    { ...resume, expect: { exit: 0, session: "any" } },
    { shown: shown(FORGED.uuid, "completed") },
    [/taken from text/],
  ],
  "a reset time as announced": [limited, { ...limit(AT), turns: announced }, []],
  "a reset time of another hour": [
    limited,
    { ...limit("2026-11-15T04:30:00.000Z"), turns: announced },
    [/reset time: 2026-11-15T04:30/],
  ],
  "a reset time that got lost": [limited, { ...limit(), turns: announced }, [/reset time: null/]],
  "a reset time out of nowhere": [limited, limit(AT), [/reset time: 2026.* instead of null/]],
  "trouble that passes, without exit 75": [
    { ...resume, expect: { exit: 1, status: "failed" } },
    { ...limit(), ended: ended(1) },
    [/exit 1 with the trouble rate_limited/],
  ],
  "exit 75 without such trouble": [
    { ...resume, expect: { exit: 75, status: "failed" } },
    { ended: ended(75), shown: shown("s1", "failed", { kind: "auth" }) },
    [/exit 75 with the trouble auth/],
  ],
  "an agent on another kind of connection": [
    { ...resume, expect: { mode: "pty" } },
    {},
    [/connected by: pipe instead of pty/],
  ],
  "a tool that never ran": [
    { ...resume, expect: { toolSays: "in {project}" } },
    {},
    [/the tool returned \[\], without "in \/r\/project"/],
  ],
  "a tool that ran": [
    { ...resume, expect: { toolSays: "in {project}" } },
    { turns: [turn({ toolOutputs: ["in /r/project\n"] })] },
    [],
  ],
  "a control sequence on a page": [
    { ...resume, expect: { harmless: true } },
    { ended: ended(0, "EVIL"), pages: { show: "\u001b[6n" } },
    [/stands in show/],
  ],
  "an interrupted conversation that goes on": [{ ...resume, expect: { continues: true } }, {}, []],
  "an interrupted conversation that is refused, as nothing of it was kept": [
    { ...resume, expect: { continues: true } },
    { ended: ended(3), fault: "session_lost", persisted: [], turns: [], conversations: 0 },
    [],
  ],
  "an interrupted conversation that goes on without its only message": [
    { ...resume, expect: { continues: true } },
    { persisted: [], turns: [turn({ users: ["two"] })] },
    [/held nothing that was said before/],
  ],
  "a refusal after the model was asked": [
    { ...resume, expect: { exit: 3, fault: "session_lost", sent: "nothing" } },
    { ended: ended(3), fault: "session_lost" },
    [/1 request reached the model/],
  ],
};

test.each(Object.entries(cases))("%s", (_name, [step, facts, wrong]) => {
  const found = check(step, { ...good, ...facts }, lab, place);
  expect(found).toHaveLength(wrong.length);
  for (const [n, pattern] of wrong.entries()) expect(found[n]).toMatch(pattern);
});

test("each piece of evidence is missing when nothing was sent", () => {
  for (const { options } of LABS) {
    const bare = {
      turn: turn({ tools: ["Edit", "Workflow", "Write", "web_search"] }),
      stdout: "",
      log: "",
      screen: null,
    };
    expect(options.evidence.filter((one) => isSeen(one, bare, place))).toEqual([]);
  }
});

test("only an undisturbed resume is expected to succeed", () => {
  const cut = { who: "tree", signal: "SIGKILL", at: "spawn" } as const;
  expect(isMeantToResume(resume, lab)).toBe(true);
  expect(isMeantToResume({ ...resume, expect: { continues: true } }, lab)).toBe(true);
  expect(isMeantToResume({ start: { message: "x" } }, lab)).toBe(false);
  expect(isMeantToResume({ ...resume, interrupt: cut }, lab)).toBe(false);
  expect(isMeantToResume({ ...resume, expect: { exit: 3, fault: "session_lost" } }, lab)).toBe(false);
});
