import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRequest } from "./engine.ts";
import { iflow } from "./iflow.ts";

const ID = "session-9353ed2b-4655-43d8-b41a-cc7bfe1a97a6";

function ask(given: readonly string[], more: Partial<AttemptRequest> = {}): AttemptRequest {
  const kind = more.kind ?? "start";
  return {
    kind,
    interactive: false,
    message: "hello",
    session: kind === "resume" ? ID : null,
    forkTo: null,
    given,
    givenHasNoPrompt: kind === "start",
    native: [],
    cwd: "/home/user/work",
    tag: "reprise-1a2b3c4d-1",
    trustCwd: false,
    ...more,
  };
}

function outcome(asked: AttemptRequest): readonly string[] | string {
  try {
    return iflow.command(asked).args;
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

const resumed = (...options: string[]) => [`--resume=${ID}`, ...options, "-p", "hello"];

describe("start with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], ["-p", "hello"]],
    "options in order": [
      ["--yolo", "--thinking", "--model=glm-5"],
      ["--yolo", "--thinking", "--model=glm-5", "-p", "hello"],
    ],
    "unknown options in order": [
      ["--new", "v", "--other=1"],
      ["--new", "v", "--other=1", "-p", "hello"],
    ],
    "a resume of the user's stands": [
      ["-r", ID],
      ["-r", ID, "-p", "hello"],
    ],
    "a prompt is a second message": [["-p", "hi"], "usage"],
    "a prompt with = is a second message": [["-p=hi"], "usage"],
    "words are a second message": [["fix", "it"], "usage"],
    "a value is missing": [["--yolo", "--model"], "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given))).toEqual(args);
  });
});

describe("resume with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], resumed()],
    "options before the prompt": [
      ["--yolo", "--model=glm-5", "-p", "hi"],
      resumed("--yolo", "--model=glm-5"),
    ],
    "options after the prompt": [["-p", "hi", "-m", "x"], resumed("-m", "x")],
    "options around the prompt": [["--yolo", "-p", "hi", "-m", "x"], resumed("--yolo", "-m", "x")],
    "-p=hi": [["-m", "x", "-p=hi"], resumed("-m", "x")],
    "--prompt=hi": [["--prompt=hi", "--thinking"], resumed("--thinking")],
    "a prompt of several words": [["--thinking", "fix", "the", "test"], resumed("--thinking")],
    "-i hi": [["-i", "hi", "--thinking"], resumed("--thinking")],
    "a prompt after --": [["--thinking", "--", "-x"], resumed("--thinking")],
    "-r old": [["-r", "old", "-m", "x"], resumed("-m", "x")],
    "a bare --resume": [["-m", "x", "--resume"], resumed("-m", "x")],
    "--resume=old": [["--resume=old", "-d"], resumed("-d")],
    "-c": [["-c", "-p", "hi"], resumed()],
    "--continue": [["--continue", "-m", "x"], resumed("-m", "x")],
    "an output file is the first turn's": [["-o", "out.json", "-d"], resumed("-d")],
    "rights are given again": [
      ["--sandbox", "--add-dir", "/a", "--add-dir=/b", "--plan"],
      resumed("--sandbox", "--add-dir", "/a", "--add-dir=/b", "--plan"),
    ],
    "limits are given again": [
      ["--max-turns", "3", "--timeout=60"],
      resumed("--max-turns", "3", "--timeout=60"),
    ],
    "flags written together": [["-dy", "-p", "hi"], resumed("-d", "-y")],
    "of a repeated option the last counts": [["-m", "x", "--model=y"], resumed("--model=y")],
    "unknown options in order": [["--new", "v", "-p", "hi", "--flag"], resumed("--new", "v", "--flag")],
    "a value is missing at the end": [["-p", "hi", "--model"], "option_unkept"],
    "ACP cannot be resumed": [["--experimental-acp"], "option_unkept"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given, { kind: "resume" }))).toEqual(args);
  });

  test.each(["", "latest", "session-1", null])("refuses the id %j", (session) => {
    expect(outcome(ask([], { kind: "resume", session }))).toBe("session_unknown");
  });

  test("carries the options of the first start the second and third time", () => {
    const given = ["--yolo", "--thinking", "--model=glm-5", "--new", "v"];
    const args = [1, 2, 3].map(() => outcome(ask(given, { kind: "resume", givenHasNoPrompt: true })));
    expect(args).toEqual([1, 2, 3].map(() => resumed(...given)));
  });
});

describe("native options of one attempt", () => {
  const cases: Record<string, [given: string[], native: string[], args: readonly string[] | string]> = {
    "a narrower mode": [["--yolo"], ["--plan"], resumed("--plan")],
    "a wider mode": [["--plan"], ["-y"], "would_widen"],
    "a mode after a start without one": [[], ["--default"], "would_widen"],
    "one more directory": [["--add-dir=/a"], ["--add-dir=/b"], "would_widen"],
    "no sandbox": [["-s"], ["--sandbox=false"], "would_widen"],
    "no sandbox, in another spelling": [["-s"], ["--sandbox=no"], "would_widen"],
    "no sandbox by nothing": [["-s"], ["-s="], "would_widen"],
    "a mode that another one replaced": [["--yolo", "--plan"], ["--yolo"], "would_widen"],
    "a file that iFlow writes": [["-o", "a"], ["-o", "b"], "would_widen"],
    "a model": [["-m", "x"], ["-m", "y"], resumed("-m", "y")],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, args]) => {
    expect(outcome(ask(given, { kind: "resume", native }))).toEqual(args);
  });
});

describe("the message is an argument", () => {
  test("even if it begins with a dash", () => {
    expect(outcome(ask([], { message: "-x y" }))).toEqual(["--prompt=-x y"]);
  });

  test("up to the longest one, in bytes", () => {
    const longest = "é".repeat((127 * 1024) / 2);
    expect(outcome(ask([], { message: longest }))).toEqual(["-p", longest]);
    expect(outcome(ask([], { message: `${longest}x` }))).toBe("message_invalid");
  });
});

test("a headless resume has every part", () => {
  expect(iflow.command(ask(["-y", "-p", "hi"], { kind: "resume" }))).toEqual({
    args: resumed("-y"),
    storedArgs: [`--resume=${ID}`, "-y", "-p", "[message]"],
    stdin: null,
    env: {},
    headless: true,
    structured: true,
    expects: ID,
    options: { kept: ["-y"], dropped: ["-p hi"], rewritten: [] },
  });
});

test("native arguments without a message stay unchanged", () => {
  const given = ["--resume", ID, "-p", "hi", "--yolo"];
  const { args, headless, structured, expects } = iflow.command(ask(given, { message: null }));
  expect({ args, headless, structured, expects }).toEqual({
    args: given,
    headless: true,
    structured: true,
    expects: ID,
  });
});

test.each([
  [[`--resume=${ID}`], ID],
  [["-r", ID, "-p", "hi"], ID],
  [["--resume", "-p", "hi"], null],
  [["-c"], null],
  [["-r", "latest"], null],
])("untouched arguments name the session: %j", (given, expects) => {
  expect(iflow.command(ask(given, { message: null })).expects).toBe(expects);
});

test("the UI gets its options", () => {
  const ui = { message: null, interactive: true };
  expect(outcome(ask([], ui))).toEqual([]);
  expect(outcome(ask(["-p", "hi", "-m", "x"], { ...ui, kind: "resume" }))).toEqual([
    `--resume=${ID}`,
    "-m",
    "x",
  ]);
  expect(outcome(ask([], { interactive: true, message: "-x" }))).toEqual(["--prompt-interactive=-x"]);
  expect(
    [[], ["-m", "x"], ["-p", "hi"], ["--version"], ["mcp", "list"]].map((args) => iflow.opensUi(args)),
  ).toEqual([true, true, false, false, false]);
});

test("a legacy engine lacks capabilities", async () => {
  expect(iflow.legacy).toContain("2026-04-17");
  expect(outcome(ask([], { kind: "fork" }))).toBe("engine_cannot");
  expect(await iflow.locate(ID, { home: "/h/.iflow", cwd: "/" }, fakeFiles({}))).toMatchObject({
    state: "unknown",
  });
  expect(await iflow.sessions({ home: "/h/.iflow", cwd: null }, fakeFiles({}))).toEqual([]);
  expect(iflow.home(iflow.homeEnv("/h/.iflow"))).toBe("/h/.iflow");
  expect(iflow.home({})).toBeNull();
  expect(iflow.version("iflow 0.5.19\n")).toBe("0.5.19");
});

test("an answer about a failed fetch is still an answer", () => {
  const reader = iflow.reader(() => 0);
  reader.line("stdout", "The fetch failed because of a typo, which I fixed.");
  for (const line of ["<Execution Info>", `{"session-id": "${ID}"}`, "</Execution Info>"])
    reader.line("stderr", line);
  expect(reader.end({ code: 0, signal: null })).toContainEqual({ type: "turn_ended", result: "completed" });
});

test("an unknown option is a refused command line", () => {
  const exit = { code: 1, signal: null };
  const stderr = "Options:\n  --model\n\nUnknown argument: modle\n";
  expect(iflow.explainExit(exit, stderr, 0)).toEqual({ kind: "usage", message: "Unknown argument: modle" });
});
