import { expect, test } from "vitest";
import { findEngine } from "../src/engines/engines.ts";
import { diagnose, type Failure, type Scene, unknownLines } from "./diagnose.ts";

const codex = findEngine("codex");
if (codex === undefined) throw new Error("there is no codex");

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
    `codex printed a kind of line that Reprise does not know: ${OPENED}; it named no session id`,
  ],
  "an error has another wording": [
    {
      notes: ["exit: 1 instead of 8", "trouble: other instead of auth"],
      last: { trouble: { kind: "other", message: "who are you?\u0007" } },
    },
    'Reprise took it for "other" instead of "auth"; codex said: who are you?\\x07',
  ],
  "a limit without its end": [
    { notes: ["has a reset time: false instead of true"], last: { stderr: "usage limit reached\n" } },
    "Reprise found no time at which the limit ends; codex said: usage limit reached",
  ],
  "an option is gone": [
    { notes: ["option not in force: sandbox (no workspace-write in the body)"] },
    "the option was not in force: sandbox",
  ],
  "a new conversation in silence": [
    { notes: ["an unnoticed new conversation: the model saw none of the messages", "exit: 0 instead of 3"] },
    "it began a new conversation instead of continuing the old one",
  ],
  "Reprise refused": [
    {
      notes: ["exit: 3 instead of 0", "fault: session_lost instead of null"],
      refusal: "The session is gone.",
    },
    "Reprise refused it (session_lost); Reprise said: The session is gone.",
  ],
  "the session lies elsewhere": [
    { notes: ["Error: the engine has no file of this session\n    at somewhere"] },
    "its session is not where Reprise looks for it",
  ],
  "something nobody thought of": [{ notes: ["the sky fell\nat noon"] }, "the sky fell"],
};

test.each(Object.entries(cases))("%s", (_name, [{ last, ...given }, then]) => {
  const failure: Failure = { notes: [], scenes: [{ ...scene, ...last }], refusal: null, ...given };
  expect(diagnose(codex, failure).why).toBe(then);
});

test("the evidence is the command, its end, its words and what was held against them", () => {
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

test("a line that was broken off is not a new one", () => {
  expect(unknownLines(codex, `${STARTED}\n\n${OPENED}\n{"type":"item.comp`)).toEqual([OPENED]);
});
