import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRequest } from "./engine.ts";
import { gemini } from "./gemini.ts";

const UUID = "1a2b3c4d-5e6f-4a1b-8c2d-3e4f5a6b7c8d";
const CHOSEN = "1a2b3c4_-5e6f-4a1b-8c2d-3e4f5a6b7c8d";

function ask(given: readonly string[], more: Partial<AttemptRequest> = {}): AttemptRequest {
  return {
    kind: "start",
    interactive: false,
    message: "hello",
    session: more.kind === "resume" ? CHOSEN : UUID,
    forkTo: null,
    given,
    givenHasNoPrompt: more.message !== null && (more.kind ?? "start") === "start",
    native: [],
    cwd: "/home/user/work",
    tag: "reprise-1a2b3c4d-1",
    trustCwd: false,
    ...more,
  };
}

function outcome(asked: AttemptRequest): readonly string[] | string {
  try {
    return gemini.command(asked).args;
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

const START = ["--session-id", CHOSEN, "-o", "stream-json"];
const RESUME = [`--resume=${CHOSEN}`, "-o", "stream-json"];

describe("start with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], START],
    "an option with a value": [
      ["-m", "x"],
      [...START, "-m", "x"],
    ],
    "an option with = ": [["--model=x"], [...START, "--model=x"]],
    "options keep their order": [
      ["-y", "--debug", "--include-directories", "/a", "--include-directories=/b"],
      [...START, "-y", "--debug", "--include-directories", "/a", "--include-directories=/b"],
    ],
    "unknown options keep their order and values": [
      ["--new", "v", "-d", "--other=1", "-Z"],
      [...START, "--new", "v", "-d", "--other=1", "-Z"],
    ],
    "an output format of the user's stands": [
      ["-o", "json"],
      ["--session-id", CHOSEN, "-o", "json"],
    ],
    "a session of the user's stands": [
      ["--session-id", "mine-00001"],
      ["-o", "stream-json", "--session-id", "mine-00001"],
    ],
    "a resume of the user's stands": [
      ["-r", "latest"],
      ["-o", "stream-json", "-r", "latest"],
    ],
    "a prompt option is a second message": [["-p", "hi"], "usage"],
    "a prompt option with = is a second message": [["-p=hi"], "usage"],
    "an interactive prompt is a second message": [["-i", "hi"], "usage"],
    "words are a second message": [["fix", "the", "test"], "usage"],
    "words after -- are a second message": [["-m", "x", "--", "-fix"], "usage"],
    "a value is missing at the end": [["-d", "--model"], "usage"],
    "a value is missing before an option": [["--model", "-d"], "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given))).toEqual(args);
  });
});

describe("resume with a message", () => {
  const cases: Record<string, [given: string[], args: readonly string[] | string]> = {
    "nothing given": [[], RESUME],
    "options before the prompt": [
      ["-m", "x", "-p", "hi"],
      [...RESUME, "-m", "x"],
    ],
    "options after the prompt": [
      ["-p", "hi", "-m", "x"],
      [...RESUME, "-m", "x"],
    ],
    "options around the prompt": [
      ["-d", "-p", "hi", "--model=x"],
      [...RESUME, "-d", "--model=x"],
    ],
    "a prompt with = ": [
      ["-m", "x", "-p=hi", "-y"],
      [...RESUME, "-m", "x", "-y"],
    ],
    "a long prompt option": [
      ["--prompt=hi you", "-y"],
      [...RESUME, "-y"],
    ],
    "an interactive prompt": [
      ["-i", "hi", "-y"],
      [...RESUME, "-y"],
    ],
    "a prompt of several words": [
      ["-y", "fix", "the", "test", "-m", "x"],
      [...RESUME, "-y", "-m", "x"],
    ],
    "a prompt after --": [
      ["-y", "--", "-fix", "it"],
      [...RESUME, "-y"],
    ],
    "an old session": [
      ["--resume", "old-session", "-m", "x"],
      [...RESUME, "-m", "x"],
    ],
    "-r latest": [["-r", "latest", "-p", "hi"], RESUME],
    "a bare --resume": [
      ["-m", "x", "--resume"],
      [...RESUME, "-m", "x"],
    ],
    "--resume=5": [
      ["--resume=5", "-d"],
      [...RESUME, "-d"],
    ],
    "an id chosen by the user": [
      ["--session-id", "mine-00001", "-d"],
      [...RESUME, "-d"],
    ],
    "a session file": [
      ["--session-file=/a.jsonl", "-d"],
      [...RESUME, "-d"],
    ],
    "camel case": [
      ["--sessionId=mine-00001", "--outputFormat", "json", "-d"],
      [...RESUME, "-d"],
    ],
    "an output format": [["-o", "text", "-p", "hi"], RESUME],
    "an output format with = ": [
      ["--output-format=json", "-m", "x"],
      [...RESUME, "-m", "x"],
    ],
    "repeated options stay repeated": [
      ["--allowed-tools", "a", "--policy=p", "--allowed-tools=b"],
      [...RESUME, "--allowed-tools", "a", "--policy=p", "--allowed-tools=b"],
    ],
    "of a repeated single option the last counts": [
      ["-m", "x", "--model", "y"],
      [...RESUME, "--model", "y"],
    ],
    "rights are given again": [
      ["--approval-mode", "auto_edit", "-s", "--skip-trust", "-e", "none"],
      [...RESUME, "--approval-mode", "auto_edit", "-s", "--skip-trust", "-e", "none"],
    ],
    "flags written together": [
      ["-dy", "-p", "hi"],
      [...RESUME, "-d", "-y"],
    ],
    "unknown options in order": [
      ["--new", "v", "-p", "hi", "--other=1", "--flag"],
      [...RESUME, "--new", "v", "--other=1", "--flag"],
    ],
    "the word after an unknown option is its value when the prompt is elsewhere": [
      ["hi", "--new", "v"],
      [...RESUME, "--new", "v"],
    ],
    "the only word is the prompt": [
      ["--new", "hi"],
      [...RESUME, "--new"],
    ],
    "a value is missing at the end": [["-p", "hi", "--model"], "option_unkept"],
    "a worktree cannot be made again": [["-w", "x"], "option_unkept"],
    "ACP cannot be resumed": [["--acp"], "option_unkept"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, args]) => {
    expect(outcome(ask(given, { kind: "resume" }))).toEqual(args);
  });
});

describe("native options of one attempt", () => {
  const cases: Record<string, [given: string[], native: string[], args: readonly string[] | string]> = {
    "a model replaces the model": [["-m", "x", "-d"], ["--model=y"], [...RESUME, "-d", "--model=y"]],
    "a narrower mode replaces -y": [
      ["-y"],
      ["--approval-mode", "plan"],
      [...RESUME, "--approval-mode", "plan"],
    ],
    "the same mode": [["-y"], ["--approval-mode=yolo"], [...RESUME, "--approval-mode=yolo"]],
    "-y is wider": [["--approval-mode", "auto_edit"], ["-y"], "would_widen"],
    "a mode where none was given": [[], ["--approval-mode=default"], "would_widen"],
    "the narrowest mode where none was given": [
      [],
      ["--approval-mode=plan"],
      [...RESUME, "--approval-mode=plan"],
    ],
    "an unknown mode": [["-y"], ["--approval-mode=new"], "would_widen"],
    "the settings' sandbox may not be passed over": [[], ["--sandbox"], "would_widen"],
    "the same sandbox in other words": [["-s"], ["--sandbox=true"], [...RESUME, "-s"]],
    "a sandbox may not be left": [["-s"], ["--sandbox=false"], "would_widen"],
    "nor by another word": [["-s"], ["--sandbox=no"], "would_widen"],
    "nor by a number": [["-s"], ["--sandbox=0"], "would_widen"],
    "nor by nothing": [["-s"], ["--sandbox="], "would_widen"],
    "nor by the short name": [["--sandbox"], ["-s=off"], "would_widen"],
    "nor by a digit": [["--sandbox"], ["-s0"], "would_widen"],
    "nor by the short name with two dashes": [["--sandbox"], ["--s=no"], "would_widen"],
    "nor by its opposite": [["--sandbox"], ["--no-sandbox"], "would_widen"],
    "nor where only the last of them counted": [["-s=off", "-s"], ["-s=off"], "would_widen"],
    "yolo that was switched off in passing": [["--yolo=no"], ["--yolo"], "would_widen"],
    "yolo that was switched off afterwards": [["--yolo", "--no-yolo"], ["--yolo"], "would_widen"],
    "a default sandbox may not be left": [[], ["--sandbox=false"], "would_widen"],
    "another directory": [["--include-directories", "/a"], ["--include-directories", "/b"], "would_widen"],
    "the same directory": [
      ["--include-directories", "/a"],
      ["--include-directories", "/a"],
      [...RESUME, "--include-directories", "/a"],
    ],
    "another tool": [[], ["--allowed-tools=run_shell_command"], "would_widen"],
    "a policy": [[], ["--policy", "/p"], "would_widen"],
    "one more server": [["--allowed-mcp-server-names", "a"], ["--allowed-mcp-server-names=b"], "would_widen"],
    trust: [[], ["--skip-trust"], "would_widen"],
    "raw output": [[], ["--raw-output", "--accept-raw-output-risk"], "would_widen"],
    "a recording": [[], ["--record-responses=/x"], "would_widen"],
    "the end of a session": [[], ["--delete-session=1"], "would_widen"],
    "an option nobody knows": [[], ["--new"], "would_widen"],
    "a session": [[], ["--session-id=x1"], "usage"],
    "an output format": [[], ["-o", "text"], "usage"],
    "a word": [[], ["hi"], "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, args]) => {
    expect(outcome(ask(given, { kind: "resume", native }))).toEqual(args);
  });
});

test("the second and the third resume carry the options of the first start", () => {
  const given = ["-m", "x", "--new", "v", "-y", "--include-directories=/a", "--include-directories=/b", "-d"];
  const first = gemini.command(ask(given));
  const resumes = [1, 2, 3].map(() => gemini.command(ask(given, { kind: "resume", givenHasNoPrompt: true })));
  expect(first.args).toEqual([...START, ...given]);
  expect(resumes.map(({ args }) => args)).toEqual([1, 2, 3].map(() => [...RESUME, ...given]));
  expect(resumes[2]?.options).toEqual({
    kept: ["-m x", "--new v", "-y", "--include-directories=/a", "--include-directories=/b", "-d"],
    dropped: [],
    rewritten: [],
  });
});

test("a headless resume has every part", () => {
  const given = ["-p", "hi", "-o", "json", "-m", "x", "two", "words"];
  expect(gemini.command(ask(given, { kind: "resume", message: "-x\ny", trustCwd: true }))).toEqual({
    args: [...RESUME, "-m", "x"],
    settings: [expect.objectContaining({ variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH" })],
    stdin: "-x\ny",
    env: { GEMINI_CLI_NO_RELAUNCH: "1", GEMINI_CLI_TRUST_WORKSPACE: "true" },
    headless: true,
    structured: true,
    expects: CHOSEN,
    options: { kept: ["-m x"], dropped: ["-p hi", "-o json", '"two words"'], rewritten: [] },
  });
});

test("native arguments without a message stay unchanged", () => {
  const given = ["-p", "hi", "--resume", UUID, "-m", "x", "-o", "json"];
  expect(gemini.command(ask(given, { message: null }))).toEqual({
    args: given,
    settings: [expect.objectContaining({ variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH" })],
    stdin: null,
    env: { GEMINI_CLI_NO_RELAUNCH: "1" },
    headless: true,
    structured: true,
    expects: UUID,
    options: { kept: given, dropped: [], rewritten: [] },
  });
});

test.each([
  [["--resume", UUID], UUID],
  [["-r", UUID, "-p", "hi"], UUID],
  [[`--session-id=${UUID}`], UUID],
  [["--resume", "latest"], null],
  [["--resume=3"], null],
  [["-r"], null],
  [["mcp", "list"], null],
])("untouched arguments name the session: %j", (given, expects) => {
  expect(gemini.command(ask(given, { message: null })).expects).toBe(expects);
});

describe("the UI", () => {
  const cases: Record<string, [asked: AttemptRequest, args: readonly string[]]> = {
    "a start": [ask([], { message: null, interactive: true }), ["--session-id", CHOSEN]],
    "a start with a message": [
      ask(["-m", "x"], { message: "-go", interactive: true }),
      ["--session-id", CHOSEN, "-m", "x", "--prompt-interactive=-go"],
    ],
    "a resume": [
      ask(["-m", "x", "-o", "json"], { kind: "resume", message: null, interactive: true }),
      [`--resume=${CHOSEN}`, "-m", "x"],
    ],
    "a resume with a message": [
      ask(["-i", "old"], { kind: "resume", message: "go on", interactive: true }),
      [`--resume=${CHOSEN}`, "--prompt-interactive=go on"],
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [asked, args]) => {
    const command = gemini.command(asked);
    expect([command.args, command.headless, command.structured, command.stdin]).toEqual([
      args,
      false,
      false,
      null,
    ]);
  });

  test.each([
    [[], true],
    [["-m", "x"], true],
    [["fix it"], true],
    [["-i", "fix it"], true],
    [["-r", "latest"], true],
    [["-p", "hi"], false],
    [["-p=hi"], false],
    [["--version"], false],
    [["--list-sessions"], false],
    [["--acp"], false],
    [["-d", "mcp", "list"], false],
  ])("is opened by %j: %s", (args, opens) => {
    expect(gemini.opensUi(args)).toBe(opens);
  });
});

describe("session ids", () => {
  test("that Reprise chooses cannot be swept away with an empty twin", () => {
    expect(gemini.command(ask([])).expects).toBe(CHOSEN);
    expect(CHOSEN).toMatch(gemini.session.format);
    expect(gemini.command(ask([], { session: CHOSEN })).expects).toBe(CHOSEN);
  });

  test("are safe from the clean-up in every attempt, by a default of the lowest rank", () => {
    const asks = [
      ask([]),
      ask([], { interactive: true, message: null }),
      ask(["-p", "hello"], { message: null }),
      ask([], { kind: "resume" }),
      ask([], { kind: "fresh" }),
    ];
    for (const one of asks) {
      const [setting, ...more] = gemini.command(one).settings ?? [];
      expect(more).toEqual([]);
      expect(setting).toMatchObject({ variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", rootOnly: true });
      expect(JSON.parse(setting?.content ?? "")).toEqual({
        general: { sessionRetention: { enabled: false } },
      });
      expect(setting?.hides?.({})).toContain("/etc/gemini-cli/system-defaults.json");
      const own = { GEMINI_CLI_SYSTEM_SETTINGS_PATH: "/opt/x/settings.json" };
      expect(setting?.hides?.(own)).toEqual(["/opt/x/system-defaults.json"]);
    }
  });

  test("are recognized in the names of session files", () => {
    const is = (name: string) => gemini.namesFile?.(CHOSEN, name);
    expect(is(`session-2026-01-02T03-04-${CHOSEN.slice(0, 8)}.jsonl`)).toBe(true);
    expect(is("session-2026-01-02T03-04-aaaaaaa_.jsonl")).toBe(false);
    expect(is(`${CHOSEN.slice(0, 8)}.jsonl`)).toBe(false);
  });

  test("cause a warning on resume when Gemini may sweep them away", () => {
    expect(gemini.command(ask([], { kind: "resume", session: UUID })).warnings?.[0]).toContain(
      "sessionRetention",
    );
    expect(gemini.command(ask([], { kind: "resume" })).warnings).toBeUndefined();
  });

  test.each(["", "latest", "7", "a b", "--x"])("such as %j are refused", (session) => {
    expect(outcome(ask([], { kind: "resume", session }))).toBe("session_unknown");
  });

  test("are refused for a fork", () => {
    expect(outcome(ask([], { kind: "fork" }))).toBe("engine_cannot");
  });

  test("and the old prompt are left out of a fresh start", () => {
    expect(outcome(ask(["-r", "old-one", "-m", "x", "-p", "hi"], { kind: "fresh" }))).toEqual([
      ...START,
      "-m",
      "x",
    ]);
  });
});

test.each([
  [{ HOME: "/h" }, "/h/.gemini"],
  [{ HOME: "/h", GEMINI_CLI_HOME: "/g" }, "/g/.gemini"],
  [{ HOME: "/h", GEMINI_CLI_HOME: "" }, "/h/.gemini"],
  [{}, null],
])("the home of %j is known", (env, home) => {
  expect(gemini.home(env)).toBe(home);
  if (home !== null) expect(gemini.home(gemini.homeEnv(home))).toBe(home);
});

test("the version comes from the output", () => {
  expect(["0.61.0\n", "noise\nv0.62.0-preview.1\n", "none"].map((text) => gemini.version(text))).toEqual([
    "0.61.0",
    "0.62.0-preview.1",
    null,
  ]);
});

describe("output", () => {
  const read = (lines: readonly string[]) => {
    const reader = gemini.reader(() => 0);
    return [
      ...lines.flatMap((line) => reader.line("stdout", line)),
      ...reader.end({ code: 0, signal: null }),
    ];
  };

  const INIT = `{"type":"init","timestamp":"2026-11-15T02:35:48.997Z","session_id":"${UUID}","model":"m"}`;

  test("continues with the events after an unfinished object", () => {
    expect(read(["{", '  "x": 1,', INIT])).toEqual([{ type: "session", session: UUID }]);
  });

  test("keeps the turn closed when a retry is read after its end", () => {
    const reader = gemini.reader(() => 0);
    reader.line("stdout", '{"type":"result","status":"success"}');
    reader.line("stderr", "Attempt 1 failed: x. Retrying after 10ms...");
    expect(reader.end({ code: 0, signal: null })).toEqual([]);
  });

  test("gives up an object that is too long", () => {
    const long = '  "x": "'.padEnd(70_000, "x");
    const end = ['  "session_id": "aaaaaaaa-1",', '  "response": "x"', "}"];
    expect(read(["{", ...Array.from({ length: 16 }, () => long), ...end])).toEqual(
      Array.from({ length: 4 }, () => ({ type: "unknown" })),
    );
  });

  test.each([
    ["an id named twice", `{"type":"init","session_id":"${UUID}","session_id":"other-id"}`],
    ["an id in another format", '{"type":"init","session_id":"../x"}'],
    ["an id below the top", `{"type":"new","init":{"session_id":"${UUID}"}}`],
  ])("ignores %s", (_name, line) => {
    expect(read([line])).toEqual([{ type: "unknown" }]);
  });
});

describe("the store", () => {
  const HOME = "/h/.gemini";
  const chats = `${HOME}/tmp/work/chats`;
  const first = (id: string) =>
    `{"sessionId":"${id}","projectHash":"p","startTime":"2026-11-15T05:05:41.821Z","kind":"main"}`;
  const context =
    '{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>\\nx"}]}]}}';
  const user = '{"id":"u","type":"user","content":[{"text":"fix  the\\ntest"}]}';
  const tree = {
    [`${HOME}/projects.json`]: '{"projects":{"/home/user/work":"work","/home/user/gone":"taken"}}',
    [`${HOME}/tmp/work/.project_root`]: "/home/user/work",
    [`${HOME}/tmp/taken/.project_root`]: "/home/user/other",
    [`${HOME}/tmp/taken-1/.project_root`]: "/home/user/gone\n",
    [`${HOME}/tmp/taken-1/chats/session-2026-11-15T05-05-gggggggg.jsonl`]: `${first("gggggggg-1")}\n${user}\n`,
    [`${chats}/session-2026-11-15T05-05-aaaaaaaa.jsonl`]: [first("aaaaaaaa-1"), context, user].join("\n"),
    [`${chats}/session-2026-11-15T05-06-aaaaaaaa.jsonl`]: first("aaaaaaaa-1"),
    [`${chats}/session-2026-11-15T05-05-bbbbbbbb.jsonl`]: [first("bbbbbbbb-1"), context, user, context].join(
      "\n",
    ),
    [`${chats}/session-2026-11-15T05-05-cccccccc.jsonl`]: '{"sessionId":"cccc',
    [`${chats}/session-2026-11-15T05-05-dddddddd.jsonl`]: [
      first("dddddddd-1"),
      user,
      '{"$rewindTo":"u"}',
    ].join("\n"),
  };
  const where = { home: HOME, cwd: "/home/user/work" };

  const cases: Record<string, [session: string, cwd: string, then: unknown]> = {
    "a session beside its empty twin": [
      "aaaaaaaa-1",
      where.cwd,
      {
        state: "present",
        files: [
          {
            path: `${chats}/session-2026-11-15T05-05-aaaaaaaa.jsonl`,
            restoreTo: "tmp/work/chats/session-2026-11-15T05-05-aaaaaaaa.jsonl",
          },
        ],
        cwd: where.cwd,
        updatedAtMs: 6000,
      },
    ],
    "another id with the same eight characters": [
      "aaaaaaaa-2",
      where.cwd,
      { state: "absent", searched: chats },
    ],
    "a first turn that failed": [
      "bbbbbbbb-1",
      where.cwd,
      {
        state: "unusable",
        path: `${chats}/session-2026-11-15T05-05-bbbbbbbb.jsonl`,
        why: "it holds no message: none was sent, or Gemini removed the message of a failed first turn",
        damaged: false,
      },
    ],
    "a damaged file": [
      "cccccccc-1",
      where.cwd,
      {
        state: "unusable",
        path: `${chats}/session-2026-11-15T05-05-cccccccc.jsonl`,
        why: "its first line cannot be read",
        damaged: true,
      },
    ],
    "another directory": [
      "aaaaaaaa-1",
      "/home/user/other",
      { state: "absent", searched: `${HOME}/tmp/taken/chats` },
    ],
    "an unknown directory": ["aaaaaaaa-1", "/usr", { state: "absent", searched: `${HOME}/tmp` }],
  };
  test.each(Object.entries(cases))("%s", async (_name, [session, cwd, then]) => {
    expect(await gemini.locate(session, { home: HOME, cwd }, fakeFiles(tree))).toEqual(then);
  });

  test("treats a rewound conversation as never begun", async () => {
    expect(await gemini.locate("dddddddd-1", where, fakeFiles(tree))).toMatchObject({ state: "unusable" });
  });

  test("does not believe a registry that a marker contradicts", async () => {
    const found = await gemini.locate("gggggggg-1", { home: HOME, cwd: "/home/user/gone" }, fakeFiles(tree));
    expect(found).toMatchObject({ state: "present", cwd: "/home/user/gone" });
  });

  test("lists sessions of one directory and of all", async () => {
    const here = await gemini.sessions(where, fakeFiles(tree));
    expect(here).toEqual([
      {
        id: "aaaaaaaa-1",
        cwd: where.cwd,
        path: `${chats}/session-2026-11-15T05-05-aaaaaaaa.jsonl`,
        createdAtMs: Date.parse("2026-11-15T05:05:41.821Z"),
        updatedAtMs: 6000,
        title: "fix the test",
        opening: "fix  the\ntest",
      },
    ]);
    const all = await gemini.sessions({ home: HOME, cwd: null }, fakeFiles(tree));
    expect(all.map(({ id, cwd }) => [id, cwd])).toEqual([
      ["aaaaaaaa-1", "/home/user/work"],
      ["gggggggg-1", "/home/user/gone"],
    ]);
  });
});

test("exit code 199 asks for a restart, and is no answer of the model", () => {
  const trouble = gemini.explainExit({ code: 199, signal: null }, "", 0);
  expect(trouble).toMatchObject({ kind: "other", message: expect.stringContaining("started again") });
});
