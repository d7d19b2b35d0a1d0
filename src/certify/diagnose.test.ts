import { expect, test } from "vitest";
import { builtInEngine } from "../engines/engines.ts";
import { diagnose, type Failure, NOTHING_SEEN, type Scene, surveyOf, unknownText } from "./diagnose.ts";

const codex = builtInEngine("codex");
const claude = builtInEngine("claude");
if (codex === undefined || claude === undefined) throw new Error("there is no codex, or no claude");

const scene: Scene = {
  args: ["exec", "resume", "--json", "an-id", "-"],
  exit: { code: 1, signal: null },
  trouble: null,
  stdout: "",
  stderr: "",
};
const OPENED = '{"type":"thread.opened","thread_id":"01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0"}';
const STARTED = '{"type":"thread.started","thread_id":"01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0"}';

const cases: Record<string, [given: Partial<Failure> & { readonly last?: Partial<Scene> }, then: string]> = {
  "a word of the command line is refused": [
    {
      notes: ["exit: 1 instead of 0", "nothing was sent to the model"],
      last: {
        exit: { code: 2, signal: null },
        stderr: "error: unrecognized subcommand 'resume'\n\nUsage: codex",
      },
    },
    "codex refused its command line: error: unrecognized subcommand 'resume'; nothing was sent to the model",
  ],
  "an option is refused, in colours": [
    { last: { stderr: "\u001b[31mUnknown option:\u001b[0m --json\n" } },
    "codex refused its command line: Unknown option: --json; it failed",
  ],
  "a line has another name": [
    { notes: ["the session was none and is none"], last: { stdout: `${OPENED}\n` } },
    `codex printed a kind of line that Reprise does not know (thread.opened): ${OPENED}; it named no session id`,
  ],
  "an error has another wording": [
    {
      notes: ["exit: 1 instead of 8", "trouble: other instead of auth"],
      last: { trouble: { kind: "other", message: "who are you?\u0007" } },
    },
    'Reprise took it for "other" instead of "auth"; codex ended with exit code 1; codex said: who are you?\\x07',
  ],
  "a limit whose end was not found": [
    {
      notes: ["reset time: null instead of 2026-11-15T10:00:00.000Z"],
      last: { stdout: `${STARTED}\n`, trouble: { kind: "rate_limited", message: "come back at ten" } },
    },
    "Reprise did not find the time at which the limit ends in: come back at ten",
  ],
  "a limit whose end was not found in a long text": [
    {
      notes: ["reset time: null instead of 2026-11-15T10:00:00.000Z"],
      last: { stdout: `${STARTED}\n`, trouble: { kind: "rate_limited", message: "w".repeat(300) } },
    },
    `Reprise did not find the time at which the limit ends in: ${"w".repeat(239)}…`,
  ],
  "a limit whose end was misread": [
    {
      notes: ["reset time: 2026-11-15T22:00:00.000Z instead of 2026-11-15T10:00:00.000Z"],
      last: { exit: { code: 0, signal: null } },
    },
    "Reprise took 2026-11-15T22:00:00.000Z for the time at which it ends instead of 2026-11-15T10:00:00.000Z",
  ],
  "it fails at once without output": [
    {
      notes: ["exit: 1 instead of 0", "nothing was sent to the model"],
      last: { exit: { code: 3, signal: null } },
    },
    "nothing was sent to the model; codex ended with exit code 3",
  ],
  "it is ended at once": [
    {
      notes: ["nothing was sent to the model"],
      last: { exit: { code: null, signal: "SIGSEGV" }, stderr: "oh\n" },
    },
    "nothing was sent to the model; codex was killed by SIGSEGV; codex said: oh",
  ],
  "an option is gone": [
    { notes: ["option not in force: sandbox (no workspace-write in the body)"] },
    "the option was not in force: sandbox; codex ended with exit code 1",
  ],
  "a new conversation in silence": [
    { notes: ["an unnoticed new conversation: the model saw none of the messages", "exit: 0 instead of 3"] },
    "it began a new conversation instead of continuing the old one; codex ended with exit code 1",
  ],
  "Reprise refused": [
    {
      notes: ["exit: 3 instead of 0", "fault: session_lost instead of null"],
      refusal: "The session is gone.",
    },
    "Reprise refused it (session_lost); codex ended with exit code 1; Reprise said: The session is gone.",
  ],
  "the session lies elsewhere": [
    { notes: ["Error: the engine has no file of this session\n    at somewhere"] },
    "its session is not where Reprise looks for it; codex ended with exit code 1",
  ],
  "an unexpected failure": [
    { notes: ["the sky fell\nat noon"] },
    "the sky fell; codex ended with exit code 1",
  ],
};

test.each(Object.entries(cases))("%s", (_name, [{ last, ...given }, then]) => {
  const failure: Failure = { notes: [], scenes: [{ ...scene, ...last }], refusal: null, ...given };
  expect(diagnose(codex, failure).why).toBe(then);
});

test("the evidence consists of the command, its end, its output and the expectation it failed", () => {
  const last = { ...scene, stdout: `${OPENED}\n`, stderr: "one\ntwo\n" };
  expect(diagnose(codex, { notes: ["it is wrong"], scenes: [last], refusal: null }).evidence).toEqual([
    "codex exec resume --json an-id -",
    "codex ended with exit code 1",
    `stdout: ${OPENED}`,
    "stderr: one",
    "stderr: two",
    "it is wrong",
  ]);
});

test("a line that was cut off does not count as a new kind of line", () => {
  const stdout = `${STARTED}\n\n${OPENED}\n{"type":"item.comp`;
  expect(surveyOf(codex, [{ stdout }], NOTHING_SEEN)).toEqual({
    lines: 2,
    unknown: [{ kind: "thread.opened", line: OPENED }],
  });
});

test("the kinds of unknown lines come first, however far back they stand in their line", () => {
  const line = `{"filler":"${"x".repeat(400)}","type":"outcome","subtype":"suc\\u001bcess"}`;
  const survey = surveyOf(
    claude,
    [{ stdout: `${line}\n{"type":"a"}\n{"type":"b"}\n{"type":"c"}\n` }],
    NOTHING_SEEN,
  );
  expect(unknownText(claude, survey)).toMatch(
    /^claude printed a kind of line that Reprise does not know \(outcome\/suc\\x1bcess, a, b, 1 more\): \{"filler":"x+…$/,
  );
});

test("a flood of unknown lines is counted, and the first line of each of 20 kinds is kept", () => {
  const same = '{"type":"zzz"}\n'.repeat(300_000);
  const others = Array.from(
    { length: 100 },
    (_, n) => `{"type":"z${n}","text":"${"x".repeat(5_000)}"}\n`,
  ).join("");
  const first = surveyOf(codex, [{ stdout: same }], NOTHING_SEEN);
  expect(first).toEqual({ lines: 300_000, unknown: [{ kind: "zzz", line: '{"type":"zzz"}' }] });
  const both = surveyOf(codex, [{ stdout: same }, { stdout: others }], first);
  expect(both.lines).toBe(600_100);
  expect(both.unknown.map(({ kind }) => kind)).toEqual([
    "zzz",
    ...Array.from({ length: 19 }, (_, n) => `z${n}`),
  ]);
  expect(Math.max(...both.unknown.map(({ line }) => line.length))).toBe(2_000);
});
