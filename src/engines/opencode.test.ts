import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRequest } from "./engine.ts";
import type { DatabaseRow, SessionFiles } from "./session-store.ts";
import { opencode } from "./opencode.ts";

const ID = "ses_e22d9232bffeeGCHNmGWFLaPTI";
const CWD = "/home/user/work";
const TAG = "reprise-1a2b3c4d-1";

function ask(given: readonly string[], more: Partial<AttemptRequest> = {}): AttemptRequest {
  const kind = more.kind ?? "start";
  return {
    kind,
    interactive: false,
    message: "hello",
    session: kind === "resume" || kind === "fork" ? ID : null,
    forkTo: null,
    given,
    givenHasNoPrompt: kind === "start",
    native: [],
    cwd: CWD,
    tag: TAG,
    trustCwd: false,
    ...more,
  };
}

function outcome(asked: AttemptRequest): readonly string[] | string {
  try {
    return opencode.command(asked).args;
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

const START = ["run", "--format", "json", "--dir", CWD, "--title", TAG, "--print-logs"];
const RESUME = ["run", "--format", "json", `--session=${ID}`, "--dir", CWD, "--print-logs"];

describe("start with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], START],
    "the sub-command alone": [["run"], START],
    "an option with a value": [
      ["-m", "p/x"],
      [...START, "-m", "p/x"],
    ],
    "options before and after the sub-command": [
      ["--pure", "run", "--model=p/x", "--auto"],
      [...START, "--pure", "--model=p/x", "--auto"],
    ],
    "unknown options keep their order and values": [
      ["--new", "v", "--auto", "--other=1"],
      [...START, "--new", "v", "--auto", "--other=1"],
    ],
    "a title of the user's stands": [
      ["--title", "mine"],
      ["run", "--format", "json", "--dir", CWD, "--print-logs", "--title", "mine"],
    ],
    "a directory of the user's stands": [
      ["--dir", "sub", "--auto"],
      ["run", "--format", "json", "--dir", "sub", "--title", TAG, "--print-logs", "--auto"],
    ],
    "a format of the user's stands": [
      ["--format", "default"],
      ["run", "--dir", CWD, "--title", TAG, "--print-logs", "--format", "default"],
    ],
    "logs are asked for once": [
      ["--print-logs", "--log-level", "DEBUG"],
      ["run", "--format", "json", "--dir", CWD, "--title", TAG, "--print-logs", "--log-level", "DEBUG"],
    ],
    "files take every word": [
      ["-f", "a.txt", "b.txt"],
      [...START, "-f", "a.txt", "b.txt"],
    ],
    "a command takes the message": [
      ["--command", "review"],
      [...START, "--command", "review"],
    ],
    "words are a second message": [["run", "fix", "it"], "usage"],
    "words after -- are a second message": [["--auto", "--", "-x"], "usage"],
    "a prompt is a second message": [["--prompt=hi"], "usage"],
    "another sub-command": [["serve"], "usage"],
    "a value is missing": [["--auto", "--model"], "usage"],
    "a dash is no value": [["--title", "--auto"], "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given))).toEqual(args);
  });
});

describe("resume with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], RESUME],
    "options before the prompt": [
      ["run", "-m", "p/x", "fix it"],
      [...RESUME, "-m", "p/x"],
    ],
    "options after the prompt": [
      ["run", "fix", "it", "-m", "p/x"],
      [...RESUME, "-m", "p/x"],
    ],
    "options around the prompt": [
      ["run", "--auto", "fix", "--variant=high", "it", "--thinking"],
      [...RESUME, "--auto", "--variant=high", "--thinking"],
    ],
    "options before the sub-command": [
      ["--pure", "run", "hi", "--auto"],
      [...RESUME, "--pure", "--auto"],
    ],
    "a prompt after --": [
      ["run", "--auto", "--", "-fix", "it"],
      [...RESUME, "--auto"],
    ],
    "-s old": [
      ["run", "-s", "old", "hi", "--auto"],
      [...RESUME, "--auto"],
    ],
    "--session=old": [["run", "--session=ses_old", "hi"], RESUME],
    "--continue": [
      ["run", "--continue", "-m", "p/x", "hi"],
      [...RESUME, "-m", "p/x"],
    ],
    "-c --fork": [
      ["run", "-c", "--fork", "hi", "--auto"],
      [...RESUME, "--auto"],
    ],
    "flags written together": [
      ["run", "-cm", "p/x", "hi"],
      [...RESUME, "-m", "p/x"],
    ],
    "a format": [
      ["run", "--format", "default", "hi", "--auto"],
      [...RESUME, "--auto"],
    ],
    "--format=json": [["run", "--format=json", "hi"], RESUME],
    "logs are asked for once": [["run", "--print-logs", "hi"], RESUME],
    "a title is for the first turn": [
      ["run", "--title", "mine", "--auto", "hi"],
      [...RESUME, "--auto"],
    ],
    "files are for the first turn": [
      ["run", "hi", "-f", "a", "b", "--auto"],
      [...RESUME, "--auto"],
    ],
    "a command is for the first turn": [["run", "--command", "review", "hi"], RESUME],
    "the first start's directory": [
      ["run", "--dir", "/home/user/sub", "hi", "--auto"],
      ["run", "--format", "json", `--session=${ID}`, "--dir", "/home/user/sub", "--print-logs", "--auto"],
    ],
    "rights are given again": [
      ["run", "--agent", "plan", "--auto", "--share", "hi"],
      [...RESUME, "--agent", "plan", "--auto", "--share"],
    ],
    "unknown options in order": [
      ["run", "--new", "v", "--other=1", "hi", "--flag"],
      [...RESUME, "--new", "v", "--other=1", "--flag"],
    ],
    "the UI's own options are left out": [
      ["--mini", "--prompt", "hi", "--hostname=h", "-m", "p/x"],
      [...RESUME, "-m", "p/x"],
    ],
    "a project directory of the UI is left out": [
      ["/home/user/work", "-m", "p/x"],
      [...RESUME, "-m", "p/x"],
    ],
    "of a repeated option the last counts": [
      ["run", "-m", "p/x", "--model=p/y", "hi"],
      [...RESUME, "--model=p/y"],
    ],
    "a value is missing at the end": [["run", "hi", "--model"], "option_unkept"],
    "another server cannot be resumed": [["run", "--attach", "http://h:1", "hi"], "option_unkept"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given, { kind: "resume" }))).toEqual(args);
  });

  test.each(["", "x", "ses_", "ses_../../x", "--auto", null])("refuses the id %j", (session) => {
    expect(outcome(ask([], { kind: "resume", session }))).toBe("session_unknown");
  });
});

describe("native options of one attempt", () => {
  const cases: Record<string, [given: string[], native: string[], args: readonly string[] | string]> = {
    "a model replaces the model": [
      ["-m", "p/x", "--auto"],
      ["-m", "p/y"],
      [...RESUME, "--auto", "-m", "p/y"],
    ],
    "a file for this turn": [["run", "-f", "a", "--auto"], ["--file=b"], [...RESUME, "--auto", "--file=b"]],
    "--auto is wider": [[], ["--auto"], "would_widen"],
    "--auto again": [["--auto"], ["--auto"], [...RESUME, "--auto"]],
    "another agent": [["--agent=plan"], ["--agent=build"], "would_widen"],
    "an agent where none was given": [[], ["--agent=plan"], "would_widen"],
    "the same agent": [["--agent=plan"], ["--agent", "plan"], [...RESUME, "--agent=plan"]],
    "another directory": [[], ["--dir", "/"], "would_widen"],
    sharing: [[], ["--share"], "would_widen"],
    "without plugins": [[], ["--pure"], [...RESUME, "--pure"]],
    "a command": [[], ["--command=deploy"], "would_widen"],
    "a server's port": [[], ["--port=4096"], "would_widen"],
    "the same port": [["--port=4096"], ["--port", "4096"], [...RESUME, "--port=4096"]],
    "an address": [[], ["--hostname=0.0.0.0"], "would_widen"],
    "a name on the network": [[], ["--mdns"], "would_widen"],
    "a domain": [[], ["--mdns-domain=x"], "would_widen"],
    "another origin": [["--cors", "a"], ["--cors=b"], "would_widen"],
    "a UI's server is left out without the UI": [["--hostname=::", "--mdns", "--cors=a"], [], RESUME],
    "an option nobody knows": [[], ["--new"], "would_widen"],
    "a session": [[], ["-s", "ses_x"], "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, args]) => {
    expect(outcome(ask(given, { kind: "resume", native }))).toEqual(args);
  });
});

test("the second and the third resume carry the options of the first start", () => {
  const given = ["--model", "p/x", "--new", "v", "--auto", "--agent=build", "--variant", "high"];
  const resumes = [1, 2, 3].map(() =>
    opencode.command(ask(given, { kind: "resume", givenHasNoPrompt: true })),
  );
  expect(opencode.command(ask(given)).args).toEqual([...START, ...given]);
  expect(resumes.map(({ args }) => args)).toEqual([1, 2, 3].map(() => [...RESUME, ...given]));
});

test("a headless resume has every part", () => {
  const given = ["run", "--dir", "sub", "-m", "p/x", "--title", "t", "fix", "it"];
  expect(opencode.command(ask(given, { kind: "resume", message: '-x "y"\n' }))).toEqual({
    args: ["run", "--format", "json", `--session=${ID}`, "--dir", "sub", "--print-logs", "-m", "p/x"],
    stdin: '-x "y"\n',
    env: {},
    headless: true,
    structured: true,
    expects: ID,
    options: { kept: ["-m p/x"], dropped: ["--title t", '"fix it"'], rewritten: ["--dir sub"] },
  });
});

test("a fork expects no particular session", () => {
  const command = opencode.command(ask(["--auto"], { kind: "fork" }));
  expect(command.expects).toBeNull();
  expect(command.args).toEqual([
    "run",
    "--format",
    "json",
    `--session=${ID}`,
    "--fork",
    "--dir",
    CWD,
    "--print-logs",
    "--auto",
  ]);
});

test("a fresh start leaves the old prompt and session out", () => {
  const given = ["run", "-s", ID, "--title", "t", "-m", "p/x", "hi"];
  expect(outcome(ask(given, { kind: "fresh" }))).toEqual([...START, "-m", "p/x"]);
});

test.each([
  [["run", "--format", "json", "hi"], true, true, null],
  [["run", `--session=${ID}`, "hi"], true, false, ID],
  [["run", "--session=", "hi"], true, false, null],
  [["-s", ID], false, false, ID],
  [["--continue"], false, false, null],
  [["run", "-s", ID, "--fork", "hi"], true, false, null],
  [["session", "list"], true, false, null],
  [["-m", "p/x"], false, false, null],
])("native arguments without a message stay unchanged: %j", (given, headless, structured, expects) => {
  expect(opencode.command(ask(given, { message: null }))).toEqual({
    args: given,
    stdin: null,
    env: {},
    headless,
    structured,
    expects,
    options: { kept: given, dropped: [], rewritten: [] },
  });
});

describe("the UI", () => {
  const cases: Record<string, [asked: AttemptRequest, args: readonly string[]]> = {
    "a start": [ask([], { message: null, interactive: true }), []],
    "a start with a message": [
      ask(["-m", "p/x"], { message: "-go", interactive: true }),
      ["-m", "p/x", "--prompt=-go"],
    ],
    "a resume": [
      ask(["--mini", "-c", "-m", "p/x"], { kind: "resume", message: null, interactive: true }),
      [`--session=${ID}`, "--mini", "-m", "p/x"],
    ],
    "a resume of a headless run": [
      ask(["run", "--thinking", "--dir", "/d", "-m", "p/x", "hi"], {
        kind: "resume",
        message: null,
        interactive: true,
      }),
      ["/d", `--session=${ID}`, "-m", "p/x"],
    ],
    "a fork": [ask([], { kind: "fork", message: null, interactive: true }), [`--session=${ID}`, "--fork"]],
  };
  test.each(Object.entries(cases))("%s", (_name, [asked, args]) => {
    const command = opencode.command(asked);
    expect([command.args, command.headless, command.stdin]).toEqual([args, false, null]);
  });

  test("refuses a message for an existing conversation, which OpenCode would lose", () => {
    expect(outcome(ask([], { kind: "resume", message: "go on", interactive: true }))).toBe("engine_cannot");
  });

  test.each([
    [[], true],
    [["/home/user/work"], true],
    [["-s", ID], true],
    [["--mini"], true],
    [["run", "-i", "hi"], true],
    [["run", "hi"], false],
    [["session", "list"], false],
    [["--version"], false],
  ])("is opened by %j: %s", (args, opens) => {
    expect(opencode.opensUi(args)).toBe(opens);
  });
});

test.each([
  [{ HOME: "/h" }, "/h/.local/share/opencode"],
  [{ HOME: "/h", XDG_DATA_HOME: "/d" }, "/d/opencode"],
  [{ XDG_DATA_HOME: "" }, null],
])("the home of %j is known", (env, home) => {
  expect(opencode.home(env)).toBe(home);
  if (home !== null) expect(opencode.home(opencode.homeEnv(home))).toBe(home);
});

test("sessions move by export and import", () => {
  expect(opencode.transfer?.exportArgs(ID)).toEqual(["export", ID]);
  expect(opencode.transfer?.importArgs("/a.json")).toEqual(["import", "/a.json"]);
});

describe("output in reading order", () => {
  const line = (type: string, part: object) => JSON.stringify({ type, timestamp: 1, sessionID: ID, part });
  const log = (message: string) =>
    `timestamp=2026-11-15T05:08:47.288Z level=INFO run=ab83683f message=${message}`;
  const rule = log(
    String.raw`evaluated permission=bash pattern="echo \"a\"" action.permission=* action.action=allow action.pattern=*`,
  );
  const done = line("tool_use", {
    tool: "bash",
    callID: "c1",
    state: { status: "completed", input: { command: 'echo "a"' } },
  });
  const begun = { type: "tool", state: "started", id: "under-way", name: "bash", detail: 'echo "a"' };
  const over = { type: "tool", state: "ended", id: "under-way", name: "bash", detail: 'echo "a"', ok: true };

  const read = (lines: readonly (readonly ["stdout" | "stderr", string])[]) => {
    const reader = opencode.reader(() => 0);
    reader.line("stdout", line("step_start", {}));
    return lines.flatMap(([stream, text]) => reader.line(stream, text));
  };

  test("shows a tool once, and holds it open while it runs", () => {
    expect(
      read([
        ["stderr", rule],
        ["stderr", rule],
        ["stdout", done],
      ]),
    ).toEqual([begun, over]);
  });

  test("closes a tool with the next round, before stdout shows it", () => {
    const events = read([
      ["stderr", rule],
      ["stderr", log(`loop session.id=${ID} step=1`)],
      ["stdout", done],
    ]);
    expect(events).toEqual([begun, { type: "tool", state: "ended", id: "under-way", name: "bash" }, over]);
  });

  test("keeps a tool open during a round of a sub-agent", () => {
    const events = read([
      ["stderr", rule],
      ["stderr", log("loop session.id=ses_e2264520cffeYAmKLk341iEBcg step=1")],
    ]);
    expect(events).toEqual([begun]);
  });

  test("never runs a denied tool", () => {
    expect(read([["stderr", rule.replace("action.action=allow", "action.action=deny")]])).toEqual([]);
  });

  test.each([
    ["of a sub-agent", " parentID=ses_e226456deffeONCHf157UcA2ui title=x"],
    ["in another format", " parentID=undefined title=x"],
  ])("ignores a created session %s", (name, rest) => {
    const id = name === "of a sub-agent" ? "ses_e2264520cffeYAmKLk341iEBcg" : "ses_x";
    const text = log(`created id=${id} slug=a-b version=1.18.33 projectID=global directory=/d path=d${rest}`);
    expect(opencode.reader(() => 0).line("stderr", text)).toEqual([]);
  });

  test("ignores an id that is named twice", () => {
    const text = `{"type":"text","sessionID":"${ID}","sessionID":"ses_e2264520cffeYAmKLk341iEBcg","part":{"text":"x"}}`;
    expect(opencode.reader(() => 0).line("stdout", text)).toEqual([{ type: "unknown" }]);
  });
});

describe("the store", () => {
  const row = { id: ID, directory: CWD, title: "t", time_created: 1n, time_updated: 2 };
  const database = (
    rows: readonly DatabaseRow[] | null,
    exists = true,
  ): SessionFiles & { asked: unknown[] } => {
    const asked: unknown[] = [];
    return {
      ...fakeFiles(exists ? { "/h/opencode/opencode.db": "" } : {}),
      asked,
      rows: (...query) => {
        asked.push([query[0], query[2]]);
        return Promise.resolve(rows);
      },
    };
  };

  test.each([
    ["has it", [{ ...row, said: 1n }], { state: "present", files: [], cwd: CWD, updatedAtMs: 2 }],
    [
      "has it without a word of any message",
      [{ ...row, said: 0n }],
      {
        state: "unusable",
        path: "/h/opencode/opencode.db",
        why: "it holds no message: OpenCode was ended before it wrote down the first one",
        damaged: false,
        blank: true,
      },
    ],
    ["does not have it", [], { state: "absent", searched: "/h/opencode/opencode.db" }],
    ["cannot be read", null, { state: "unknown", why: "/h/opencode/opencode.db cannot be read" }],
  ])("%s", async (_name, rows, then) => {
    const files = database(rows);
    expect(await opencode.locate(ID, { home: "/h/opencode", cwd: CWD }, files)).toEqual(then);
    expect(files.asked).toEqual([["/h/opencode/opencode.db", [ID]]]);
  });

  test("names everything it has of a session, with its text", async () => {
    const where = { home: "/h/opencode", cwd: CWD };
    const parts = [{ type: "text", text: "one" }, { state: { output: "42" } }].map((part, at) => ({
      id: `prt_${at}`,
      data: JSON.stringify(part),
    }));
    const rows = [{ id: "msg_1", data: "" }, ...parts, { id: "prt_2", data: "no JSON" }];
    expect(await opencode.transfer?.wordsIn(ID, where, database(rows))).toEqual(
      new Map([
        ["msg_1", ""],
        ["prt_0", "one"],
        ["prt_1", "42"],
        ["prt_2", ""],
      ]),
    );
    expect(await opencode.transfer?.wordsIn(ID, where, database(null))).toBeNull();
  });

  test("may be missing entirely", async () => {
    const where = { home: "/h/opencode", cwd: CWD };
    const then = { state: "absent", searched: "/h/opencode/opencode.db" };
    expect(await opencode.locate(ID, where, database(null, false))).toEqual(then);
  });

  test("lists sessions of one directory and of all", async () => {
    const files = database([row, { id: 7 }, { id: "msg_1" }]);
    const times = { createdAtMs: 1, updatedAtMs: 2 };
    const found = [{ id: ID, cwd: CWD, path: null, ...times, title: "t", opening: null }];
    expect(await opencode.sessions({ home: "/h/opencode", cwd: CWD }, files)).toEqual(found);
    expect(await opencode.sessions({ home: "/h/opencode", cwd: null }, files)).toEqual(found);
    expect(files.asked).toEqual([
      ["/h/opencode/opencode.db", [CWD]],
      // First messages, only of that directory.
      ["/h/opencode/opencode.db", [CWD]],
      ["/h/opencode/opencode.db", []],
    ]);
    expect(await opencode.sessions({ home: "/h/opencode", cwd: null }, database(null))).toEqual([]);
  });
});

describe("without --format json", () => {
  const OTHER = "ses_0badc0de0badFORGEDforged00";
  const created = (id: string) =>
    `timestamp=2026-11-15T03:29:27.950Z level=INFO run=7858d410 message=created id=${id} slug=a-b version=1.18.33 projectID=global directory=/w path="" workspaceID=undefined parentID=undefined title=t`;
  const log = "timestamp=2026-11-15T03:29:27.950Z level=INFO run=7858d410 message=init";
  const cases: Record<string, [lines: readonly string[], ids: readonly string[]]> = {
    "the log above all else": [[log, created(ID), log, "> build"], [ID]],
    "a tool that prints a log": [[log, created(ID), "> build", created(OTHER)], [ID]],
    "a continued conversation": [[log, "> build · m1", created(OTHER)], []],
    "no log": [["> build · m1", created(OTHER)], []],
  };
  test.each(Object.entries(cases))("%s", (_name, [lines, ids]) => {
    for (const [stream, then] of [
      ["stderr", ids],
      ["stdout", []],
    ] as const) {
      const reader = opencode.reader(() => 0, "text");
      const events = lines.flatMap((line) => reader.line(stream, line));
      expect(events).toEqual(then.map((session) => ({ type: "session", session })));
    }
  });

  test.each([
    [["run", "hello"], "hello"],
    [["run", 'say "hi" now', "-m", "a/b"], String.raw`"say \"hi\" now"`],
    [["run", "two", "words"], "two words"],
    [["run", "--command", "review", "x"], null],
    [["--prompt=go"], "go"],
    [["run"], null],
  ])("takes the first message from %j", (args, message) => {
    expect(opencode.opening?.(args)).toBe(message);
  });
});
