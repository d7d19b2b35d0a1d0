import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import { Fault } from "../core/faults.ts";
import { claude } from "./claude.ts";
import type { AttemptRequest } from "./engine.ts";
import { keepNative } from "./attempt-options.ts";

const ID = "f788f144-79be-49f4-8d89-a0df704c4501";
const OTHER = "3991e4ef-458b-4331-8b9e-8348dd14668a";

const ask = (part: Partial<AttemptRequest> & { line?: string }): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: ID,
  forkTo: null,
  given: split(part.line),
  givenHasNoPrompt: true,
  native: [],
  cwd: "/home/user/lab",
  tag: "1a2b3c4d-1",
  trustCwd: false,
  ...part,
});

const OUT = "-p --output-format stream-json --verbose";

describe("start with a message", () => {
  const cases: Record<string, string> = {
    "": `${OUT} --session-id ${ID}`,
    "--model opus": `${OUT} --session-id ${ID} --model opus`,
    "--model=opus": `${OUT} --session-id ${ID} --model=opus`,
    "-p": `--output-format stream-json --verbose --session-id ${ID} -p`,
    "--print --verbose": `--output-format stream-json --session-id ${ID} --print --verbose`,
    "--output-format stream-json": `-p --verbose --session-id ${ID} --output-format stream-json`,
    "--output-format json": `-p --session-id ${ID} --output-format json`,
    "--output-format=text -p": `--session-id ${ID} --output-format=text -p`,
    "--allowedTools Bash Edit": `${OUT} --session-id ${ID} --allowedTools Bash Edit`,
    "--allowed-tools Bash --model opus --add-dir a b": `${OUT} --session-id ${ID} --allowed-tools Bash --model opus --add-dir a b`,
    "--allowedTools Bash --allowedTools Edit": `${OUT} --session-id ${ID} --allowedTools Bash --allowedTools Edit`,
    "--model a --model b": `${OUT} --session-id ${ID} --model b`,
    "--permission-mode plan --dangerously-skip-permissions": `${OUT} --session-id ${ID} --permission-mode plan --dangerously-skip-permissions`,
    [`--session-id ${OTHER}`]: `${OUT} --session-id ${OTHER}`,
    [`--session-id=${OTHER}`]: `${OUT} --session-id=${OTHER}`,
    "--session-id nope": "usage",
    "--session-id": "usage",
    [`--resume ${OTHER}`]: `${OUT} --resume ${OTHER}`,
    "-c": `${OUT} -c`,
    "-cp": `--output-format stream-json --verbose -c -p`,
    "-d --model opus": `${OUT} --session-id ${ID} -d --model opus`,
    "--new v": `${OUT} --session-id ${ID} --new v`,
    "--new=1 --newer": `${OUT} --session-id ${ID} --new=1 --newer`,
    "--no-session-persistence": `${OUT} --session-id ${ID} --no-session-persistence`,
    "fix it": "usage",
    "-p fix": "usage",
    "-- -x": "usage",
    "mcp list": "usage",
    "--model": "usage",
    "--input-format stream-json": "usage",
  };
  test.each(Object.entries(cases))("%s", (line, then) => {
    expect(argsOf(ask({ line }))).toBe(then);
  });

  test("gives the message on stdin and knows what to expect", () => {
    expect(claude.command(ask({ line: "--model opus", message: "- item" }))).toEqual({
      args: split(`${OUT} --session-id ${ID} --model opus`),
      stdin: "- item",
      env: {},
      headless: true,
      structured: true,
      expects: ID,
      options: { kept: ["--model opus"], dropped: [], rewritten: [] },
    });
  });

  const expectations: Record<string, [expects: string | null, structured: boolean]> = {
    [`--session-id ${OTHER}`]: [OTHER, true],
    [`--resume ${OTHER}`]: [OTHER, true],
    [`--resume ${OTHER} --fork-session`]: [null, true],
    "--resume title": [null, true],
    "--continue": [null, true],
    "--output-format json": [ID, true],
    "--output-format text": [ID, false],
  };
  test.each(Object.entries(expectations))("%s: expects", (line, then) => {
    const { expects, structured } = claude.command(ask({ line }));
    expect([expects, structured]).toEqual(then);
  });

  test("says when nothing will be saved", () => {
    expect(claude.command(ask({ line: "--no-session-persistence" })).ephemeral).toMatch(
      /--no-session-persistence/,
    );
  });

  test("passes the message as a separate word in the UI", () => {
    expect(argsOf(ask({ interactive: true, line: "--allowedTools Bash", message: "-go" }))).toBe(
      `--session-id ${ID} --allowedTools Bash -- -go`,
    );
  });

  test("leaves out another conversation's id and prompt on a fresh start", () => {
    const line = `-p --resume ${OTHER} --model opus old prompt`;
    expect(argsOf(ask({ kind: "fresh", line, givenHasNoPrompt: false }))).toBe(
      `${OUT} --session-id ${ID} --model opus`,
    );
  });
});

describe("start without a message", () => {
  test("chooses the id up front in the UI", () => {
    const command = claude.command(ask({ message: null, interactive: true }));
    expect([command.args, command.expects, command.headless]).toEqual([["--session-id", ID], ID, false]);
  });

  const cases: Record<string, [ui: boolean, structured: boolean]> = {
    "--model opus": [true, false],
    "fix it": [true, false],
    "--continue": [true, false],
    "-p hi": [false, false],
    "-cp hi": [false, false],
    "-p hi --output-format json": [false, true],
    "-p --output-format=stream-json --verbose hi": [false, true],
    "mcp list": [false, false],
    "--model opus update": [false, false],
    "--version": [false, false],
    "--allowedTools Bash swallowed prompt": [true, false],
  };
  test.each(Object.entries(cases))("%s", (line, [ui, structured]) => {
    const command = claude.command(ask({ line, message: null, givenHasNoPrompt: false, interactive: ui }));
    expect([command.args, command.headless, command.structured, command.stdin, command.expects]).toEqual([
      split(line),
      !ui,
      structured,
      null,
      null,
    ]);
    expect(claude.opensUi(split(line))).toBe(ui);
  });

  const named: Record<string, string | null> = {
    [`--resume ${OTHER}`]: OTHER,
    [`-p hi -r ${OTHER}`]: OTHER,
    [`--resume=${OTHER.toUpperCase()} -p hi`]: OTHER.toUpperCase(),
    [`--session-id ${OTHER} hi`]: OTHER,
    [`--resume ${ID} --fork-session --session-id ${OTHER}`]: OTHER,
    [`--resume ${ID} --fork-session`]: null,
    "--resume my-title": null,
    "--resume": null,
    [`mcp list --session-id ${OTHER}`]: null,
  };
  test.each(Object.entries(named))("%s: the session that is named", (line, expects) => {
    expect(claude.command(ask({ line, message: null, givenHasNoPrompt: false })).expects).toBe(expects);
  });
});

describe("resume", () => {
  const R = `${OUT} --resume ${ID}`;
  const cases: Record<string, string> = {
    "": R,
    "--model opus": `${R} --model opus`,
    "-p hello --model opus": `${R} --model opus`,
    "--model opus -p hello": `${R} --model opus`,
    "-p fix the flaky test --model=opus": `${R} --model=opus`,
    "-p=hi --model opus": `${R} --model opus`,
    [`-p hi --session-id ${ID}`]: R,
    [`--resume ${OTHER} -p hi`]: R,
    "-r latest --model opus": `${R} --model opus`,
    "--continue hi": R,
    "-cp hi": R,
    "--fork-session --resume=x": R,
    "--from-pr 12": R,
    "-p hi --output-format json --verbose": R,
    "--output-format=text --model opus -p": `${R} --model opus`,
    "--permission-mode acceptEdits --add-dir a b --allowedTools Bash(git:*) Edit --model opus": `${R} --permission-mode acceptEdits --add-dir a b --allowedTools Bash(git:*) Edit --model opus`,
    "--allowedTools Bash swallowed": `${R} --allowedTools Bash swallowed`,
    "--allowedTools Bash -- prompt": `${R} --allowedTools Bash`,
    "--disallowedTools Write --disallowedTools Bash": `${R} --disallowedTools Write --disallowedTools Bash`,
    "--mcp-config m.json --strict-mcp-config --settings s.json": `${R} --mcp-config m.json --strict-mcp-config --settings s.json`,
    "--append-system-prompt -x": `${R} --append-system-prompt -x`,
    "--include-partial-messages --max-turns 3": `${R} --include-partial-messages --max-turns 3`,
    "-n name --file a:b -w wt --model opus": `${R} --model opus`,
    "--new v prompt": `${R} --new v`,
    "--one --two=2 --model opus": `${R} --one --two=2 --model opus`,
    "--model a --model b": `${R} --model b`,
    "-d api --effort high": `${R} -d api --effort high`,
    "--dangerously-skip-permissions": `${R} --dangerously-skip-permissions`,
    "--no-session-persistence": "option_unkept",
    "--bg": "option_unkept",
    "--cloud": "option_unkept",
    "--model": "option_unkept",
  };
  const resume = (line: string) => ask({ kind: "resume", line, givenHasNoPrompt: false });
  test.each(Object.entries(cases))("%s", (line, then) => {
    expect(argsOf(resume(line))).toBe(then);
  });

  test("renders the same options every time", () => {
    const wish = resume(
      "--model opus -p hi --allowedTools Bash Edit --permission-mode plan --new=1 --add-dir a",
    );
    const attempts = [1, 2, 3].map(() => claude.command(wish));
    expect(new Set(attempts.map((command) => JSON.stringify(command))).size).toBe(1);
    expect(attempts[2]?.args).toEqual(
      split(`${R} --model opus --allowedTools Bash Edit --permission-mode plan --new=1 --add-dir a`),
    );
  });

  test("reports the fate of each option", () => {
    const { options, expects, stdin } = claude.command(resume("-p --model opus old prompt"));
    expect({ options, expects, stdin }).toEqual({
      options: { kept: ["--model opus"], dropped: ["-p", '"old"', '"prompt"'], rewritten: [] },
      expects: ID,
      stdin: "go",
    });
  });

  test("opens the UI", () => {
    const ui = { ...resume("--model opus --max-turns 3 --add-dir a"), interactive: true };
    expect(argsOf({ ...ui, message: null })).toBe(`--resume ${ID} --model opus --add-dir a`);
    expect(argsOf({ ...ui, message: "-x" })).toBe(`--resume ${ID} --model opus --add-dir a -- -x`);
    const fork = { ...ui, kind: "fork", forkTo: OTHER, message: "-x" } as const;
    expect(argsOf(fork)).toBe(
      `--resume ${ID} --fork-session --session-id ${OTHER} --model opus --add-dir a -- -x`,
    );
    const fresh = { ...ui, kind: "fresh", given: ["-p", "--model", "opus", "-c"], message: "-x" } as const;
    expect(argsOf(fresh)).toBe(`--session-id ${ID} --model opus -- -x`);
  });

  test.each<[string, Partial<AttemptRequest>, boolean]>([
    ["a start", { kind: "start" }, true],
    ["a start without a message", { kind: "start", message: null, givenHasNoPrompt: false }, true],
    ["a resume", { kind: "resume" }, true],
    ["a fork", { kind: "fork" }, true],
    ["settings of the user's own", { kind: "start", given: ["--settings", "{}"] }, false],
    ["no UI", { kind: "start", interactive: false }, false],
    ["an unwatched UI", { kind: "start", watched: undefined as never }, false],
  ])("gives a watched UI hooks that only report: %s", (_what, part, then) => {
    const { args, hooks, options } = claude.command({
      ...ask({ interactive: true, watched: true }),
      ...part,
    });
    const at = args.findIndex((arg) => arg.includes("REPRISE_HOOKS"));
    expect([hooks === "REPRISE_HOOKS", at > 0 && args[at - 1] === "--settings"]).toEqual([then, then]);
    if (!then) return;
    const settings = JSON.parse(args[at] ?? "") as { hooks: object };
    expect([Object.keys(settings), Object.keys(settings.hooks), options.kept]).toEqual([
      ["hooks"],
      ["Stop", "StopFailure", "Notification", "SessionEnd"],
      [],
    ]);
    if (part.message !== null) expect(args.slice(-2)).toEqual(["--", "go"]);
  });

  test("makes a fork", () => {
    const fork = ask({ kind: "fork", line: "--model opus", forkTo: OTHER });
    expect(argsOf(fork)).toBe(`${R} --fork-session --session-id ${OTHER} --model opus`);
    expect(claude.command(fork).expects).toBe(OTHER);
    expect(argsOf({ ...fork, forkTo: null })).toBe(`${R} --fork-session --model opus`);
    // The agent would work in the main checkout.
    for (const line of ["-w foo", "--worktree=foo", "--worktree"])
      expect(() => claude.command(ask({ kind: "fork", line }))).toThrow("would work in the main checkout");
  });

  test.each(["", "latest", "my title", `${ID}\r`, ID.slice(0, 8), "/abs/file.jsonl", `-${ID}`])(
    "refuses %j",
    (session) => {
      expect(argsOf(ask({ kind: "resume", session }))).toBe("session_unknown");
    },
  );
});

describe("options of one attempt", () => {
  const R = `${OUT} --resume ${ID}`;
  const cases: Record<string, [given: string, native: string, then: string]> = {
    "another model": ["--model a", "--model b", `${R} --model b`],
    "a narrower mode": [
      "--permission-mode acceptEdits",
      "--permission-mode plan",
      `${R} --permission-mode plan`,
    ],
    "a narrower mode than all": [
      "--dangerously-skip-permissions",
      "--permission-mode default",
      `${R} --permission-mode default`,
    ],
    "the same mode by its newer name": [
      "--permission-mode default",
      "--permission-mode manual",
      `${R} --permission-mode manual`,
    ],
    "a wider mode": ["--permission-mode plan", "--permission-mode acceptEdits", "would_widen"],
    "a mode where none was named": ["", "--permission-mode acceptEdits", "would_widen"],
    "the narrowest mode": ["", "--permission-mode plan", `${R} --permission-mode plan`],
    "a mode that is not known": ["--permission-mode auto", "--permission-mode odd", "would_widen"],
    "no permissions at all": ["--permission-mode auto", "--dangerously-skip-permissions", "would_widen"],
    "another tool": ["--allowedTools Edit", "--allowedTools Bash", "would_widen"],
    "the same tool": ["--allowedTools Edit", "--allowedTools Edit", `${R} --allowedTools Edit`],
    "one tool less": [
      "--disallowedTools Bash",
      "--disallowedTools Edit",
      `${R} --disallowedTools Bash --disallowedTools Edit`,
    ],
    "another directory": ["", "--add-dir /", "would_widen"],
    "another server": ["", "--mcp-config m.json", "would_widen"],
    "other settings": ["--settings a", "--settings b", "would_widen"],
    "a debug file": ["", "--debug-file /tmp/x", "would_widen"],
    "a download": ["", "--file id:x", "would_widen"],
    "another worktree": ["-w a", "-w b", "would_widen"],
    hooks: ["", "--init", "would_widen"],
    "a tool to ask": ["", "--permission-prompt-tool x", "would_widen"],
    "something unknown": ["", "--new", "would_widen"],
    "a session": ["", `--session-id ${OTHER}`, "usage"],
    "an output format": ["", "--output-format json", "usage"],
    "a word": ["", "hello", "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [line, native, then]) => {
    expect(argsOf(ask({ kind: "resume", line, native: split(native) }))).toBe(then);
  });

  test("hold for the next resume when they are kept for the run", () => {
    const given = keepNative(claude, split("-p hi --model a"), split("--model b"), false);
    expect(given).toEqual(["-p", "--model", "b", "--", "hi"]);
    expect(argsOf(ask({ kind: "resume", given, givenHasNoPrompt: false }))).toBe(`${R} --model b`);
  });
});

describe("home and version", () => {
  test("come from the environment", () => {
    expect(claude.home({ HOME: "/home/user" })).toBe("/home/user/.claude");
    expect(claude.home({ HOME: "/home/user", CLAUDE_CONFIG_DIR: "/x" })).toBe("/x");
    expect(claude.home({})).toBeNull();
    expect(claude.homeEnv("/x")).toEqual({ CLAUDE_CONFIG_DIR: "/x" });
    expect([claude.version("2.1.325 (Claude Code)\n"), claude.version("no")]).toEqual(["2.1.325", null]);
  });
});

describe("the session store", () => {
  const HOME = "/home/user/.claude";
  const CWD = "/home/user/lab.1/cwd";
  const at = (project: string, id = ID) => `${HOME}/projects/${project}/${id}.jsonl`;
  const SLUG = "-home-user-lab-1-cwd";
  const line = (type: string, text: string, cwd = CWD) =>
    `${JSON.stringify({ type, cwd, timestamp: "2026-11-15T02:30:55.000Z", message: { content: [{ type: "text", text }] } })}\n`;
  const other = `${JSON.stringify({ type: "queue-operation" })}\n`;
  const locate = (files: Record<string, string>, cwd = CWD) =>
    claude.locate(ID, { home: HOME, cwd }, fakeFiles(files));
  const present = (project: string, cwd = CWD) => ({
    state: "present",
    files: [{ path: at(project), restoreTo: `projects/${project}/${ID}.jsonl` }],
    cwd,
    updatedAtMs: expect.any(Number),
  });

  test("finds a session by its directory", async () => {
    expect(await locate({ [at(SLUG)]: other + line("user", "hi") })).toEqual(present(SLUG));
  });

  test("prefers the directory of the cwd to another copy", async () => {
    expect(await locate({ [at("-a")]: line("user", "hi"), [at(SLUG)]: line("user", "hi") })).toEqual(
      present(SLUG),
    );
  });

  test("finds a session of another directory", async () => {
    expect(await locate({ [at("-else")]: line("user", "hi", "/else") })).toEqual(present("-else", "/else"));
  });

  test("names the worktree that Claude made for a session", async () => {
    const worktree = `${CWD}/.claude/worktrees/foo`;
    expect(await locate({ [at("-else")]: line("user", "hi", worktree) })).toEqual({
      ...present("-else", worktree),
      worktree,
    });
  });

  test("knows how long names are cut", async () => {
    // The last part is the slug of 2.1.325 for this directory.
    const long = `/tmp/${"deep-directory/".repeat(16)}end`;
    const slug = `${long.replace(/[^a-zA-Z0-9]/g, "-").slice(0, 200)}-zhf9d8`;
    const files = { [at("-a")]: line("user", "hi"), [at(slug)]: line("user", "hi", long) };
    expect(await locate(files, long)).toEqual(present(slug, long));
  });

  test("survives a truncated last line and looks past a long beginning", async () => {
    const long = `${JSON.stringify({ type: "attachment", text: "x".repeat(600_000) })}\n`;
    expect(await locate({ [at(SLUG)]: `${long}${line("user", "hi")}{"type":"us` })).toEqual(present(SLUG));
  });

  test.each([
    ["", {}],
    [other, { blank: true }],
    [`${other}{"type":"user"`, { blank: true }],
    [`garbage\n${other}`, {}],
    ["garbage", {}],
    [`{"type":"user"`, {}],
  ])(
    "a transcript without a message is unusable, and a transcript with only its first lines is blank: %j",
    async (text, blank) => {
      expect(await locate({ [at(SLUG)]: text })).toEqual({
        state: "unusable",
        path: at(SLUG),
        why: expect.stringContaining("no message"),
        damaged: true,
        ...blank,
      });
    },
  );

  test("reports a missing session as absent", async () => {
    expect(await locate({ [at(SLUG, OTHER)]: line("user", "hi") })).toEqual({
      state: "absent",
      searched: `${HOME}/projects`,
    });
  });

  test("lists sessions of one directory or of all, newest first", async () => {
    const files = fakeFiles({
      [at(SLUG, OTHER)]: line("user", "<system-reminder>x") + line("user", "older"),
      [at("-else")]: line("assistant", "hello", "/else"),
      [at("-else", "00000000-0000-4000-8000-000000000000")]: other,
      [`${HOME}/projects/-else/notes.jsonl`]: line("user", "hi"),
    });
    const all = await claude.sessions({ home: HOME, cwd: null }, files);
    expect(all.map(({ id, cwd, title }) => [id, cwd, title])).toEqual([
      [ID, "/else", null],
      [OTHER, CWD, "older"],
    ]);
    expect(all[0]?.createdAtMs).toBe(Date.parse("2026-11-15T02:30:55.000Z"));
    expect((await claude.sessions({ home: HOME, cwd: CWD }, files)).map(({ id }) => id)).toEqual([OTHER]);
    // Another directory with the same slug.
    expect(await claude.sessions({ home: HOME, cwd: "/home/user/lab-1/cwd" }, files)).toEqual([]);
  });

  test("names every process that has the session open, even if it may be dead", async () => {
    const files = fakeFiles({
      [`${HOME}/sessions/7.json`]: JSON.stringify({ pid: 7, sessionId: OTHER, procStart: "1" }),
      [`${HOME}/sessions/8.json`]: JSON.stringify({ pid: 8, sessionId: ID, procStart: "12345" }),
      [`${HOME}/sessions/8.secret.key`]: JSON.stringify({ pid: 9, sessionId: ID }),
      [`${HOME}/sessions/9.json`]: "{",
      [`${HOME}/sessions/11.json`]: JSON.stringify({ pid: 11, sessionId: ID }),
    });
    const where = { home: HOME, cwd: CWD };
    expect(await claude.holders?.(ID, where, files)).toEqual([
      { pid: 8, start: "12345" },
      { pid: 11, start: null },
    ]);
    expect(await claude.holders?.("00000000-0000-4000-8000-000000000000", where, files)).toEqual([]);
    const live = (pid: number, start: string) => claude.liveSession?.({ pid, start }, where, files);
    expect(await live(8, "12345")).toBe(ID);
    expect(await live(8, "99999")).toBeNull();
    expect(await live(9, "1")).toBeNull();
    expect(await live(10, "1")).toBeNull();
  });
});

describe("the end of a limit", () => {
  const NOW = Date.parse("2026-11-15T02:30:00Z");
  const WORDS = "You've hit your session limit · resets 4am (UTC)";
  const said = "2026-11-15T04:00:00.000Z";
  const cases: [name: string, info: Record<string, unknown>, then: string][] = [
    [
      "its field goes before its words",
      { status: "rejected", resetsAt: 1794720600 },
      "2026-11-15T05:30:00.000Z",
    ],
    ["not of a request that was answered", { status: "allowed_warning", resetsAt: 1794720600 }, said],
    [
      "not while extra usage goes on",
      { status: "rejected", isUsingOverage: true, resetsAt: 1794720600 },
      said,
    ],
    ["not when it has passed", { status: "rejected", resetsAt: 1 }, said],
    ["not when it is no time", { status: "rejected", resetsAt: "soon" }, said],
  ];
  test.each(cases)("%s", (_name, info, resetsAt) => {
    const reader = claude.reader(() => NOW);
    const line = (value: object) => reader.line("stdout", JSON.stringify(value));
    expect(line({ type: "rate_limit_event", rate_limit_info: info, session_id: ID })).toEqual([]);
    const events = line({
      type: "result",
      subtype: "success",
      is_error: true,
      result: WORDS,
      session_id: ID,
    });
    const trouble = { kind: "rate_limited", message: WORDS, resetsAt };
    expect(events.at(-1)).toEqual({ type: "turn_ended", result: "failed", trouble });
  });
});

describe("a failed turn whose output is text", () => {
  const LIMIT = "You've hit your limit · resets 4:50am (Europe/Rome)";
  const REJECTED = "API Error: Request rejected (429) · lab: limited";
  const cases: [name: string, stdout: string, kind: string | undefined][] = [
    ["Claude's words alone", `${LIMIT}\n`, "rate_limited"],
    ["as a terminal has them", `\r\n${LIMIT}\r\n`, "rate_limited"],
    // Recorded with 2.1.197 and 2.1.325: earlier text of the model is not printed, and a reply may have paragraphs.
    ["a reply of several paragraphs", `${REJECTED}\nsecond line\n\nthird paragraph\n`, "rate_limited"],
    ["at the end of a text", `I looked at the log.\n${LIMIT}\n`, undefined],
    ["near the end of a text", `I looked.\n${LIMIT}\nSo I stopped.\nBye.\n`, undefined],
    ["in a text that begins like an error", `Error: I read this:\n\n${LIMIT}\n`, "other"],
    ["at the end of a text whose beginning is lost", `${REJECTED}\n`.repeat(200), undefined],
  ];
  test.each(cases)("%s", (_name, stdout, kind) => {
    expect(claude.explainExit({ code: 1, signal: null }, "", 0, stdout)?.kind).toBe(kind);
  });
});

function split(line = ""): string[] {
  return line.split(" ").filter(Boolean);
}

function argsOf(wish: AttemptRequest): string {
  try {
    return claude.command(wish).args.join(" ");
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}
