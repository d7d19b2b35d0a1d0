import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import { BUILT_IN_ENGINES } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import { demo } from "./demo.ts";
import type { AttemptRequest } from "./engine.ts";
import { ENGINES } from "./engines.ts";
import { keepNative } from "./attempt-options.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const NEW = "22222222-2222-4222-8222-222222222222";

const split = (line: string): string[] => line.split(" ").filter(Boolean);

const ask = (part: Partial<AttemptRequest>): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: ID,
  forkTo: null,
  given: [],
  givenHasNoPrompt: true,
  native: [],
  cwd: "/home/user/work",
  tag: "1a2b3c4d-1",
  trustCwd: false,
  ...part,
});

describe("start with a message", () => {
  const cases: Record<string, string> = {
    "": `--format jsonl --session-id ${ID} -`,
    "--model x": `--model x --format jsonl --session-id ${ID} -`,
    "-m x": `-m x --format jsonl --session-id ${ID} -`,
    "-mx": `-mx --format jsonl --session-id ${ID} -`,
    "--model=x": `--model=x --format jsonl --session-id ${ID} -`,
    "--model x --model y": `--model y --format jsonl --session-id ${ID} -`,
    "--allow a --allow b": `--allow a --allow b --format jsonl --session-id ${ID} -`,
    "--format text": `--format text --session-id ${ID} -`,
    "--format=jsonl --mood grumpy": `--format=jsonl --mood grumpy --session-id ${ID} -`,
    [`--session-id ${NEW}`]: `--session-id ${NEW} --format jsonl -`,
    [`--resume ${NEW}`]: `--resume ${NEW} --format jsonl -`,
    "--unknown --model x": `--unknown --model x --format jsonl --session-id ${ID} -`,
    "--unknown value": `--unknown value --format jsonl --session-id ${ID} -`,
    "--script f.jsonl": `--script f.jsonl --format jsonl --session-id ${ID} -`,
  };
  test.each(Object.entries(cases))("%j", (line, args) => {
    const command = demo.command(ask({ given: split(line) }));
    expect([command.args, command.stdin, command.headless]).toEqual([split(args), "go", true]);
  });

  test("derives expectation and output format from the options", () => {
    const of = (line: string) => {
      const { expects, structured } = demo.command(ask({ given: split(line) }));
      return { expects, structured };
    };
    expect(of("")).toEqual({ expects: ID, structured: true });
    expect(of("--format text")).toEqual({ expects: ID, structured: false });
    expect(of(`--session-id ${NEW}`)).toEqual({ expects: NEW, structured: true });
    expect(of(`--resume ${NEW} --fork`)).toEqual({ expects: null, structured: true });
  });

  test("leaves the choice of an id to the agent without one", () => {
    const { args, expects } = demo.command(ask({ session: null }));
    expect({ args, expects }).toEqual({ args: ["--format", "jsonl", "-"], expects: null });
  });

  test("never makes an argument of a message", () => {
    for (const message of ["-", "-x", "--", "--help", "a\nb", "🙂"]) {
      const { args, stdin } = demo.command(ask({ message }));
      expect([args, stdin]).toEqual([["--format", "jsonl", "--session-id", ID, "-"], message]);
    }
  });

  test.each(["word", "--model", "-- -x"])("refuses %j beside a message", (line) => {
    expect(() => demo.command(ask({ given: split(line) }))).toThrow(Fault);
  });
});

describe("resume", () => {
  const cases: Record<string, [given: string, native: string, args: string]> = {
    nothing: ["", "", ""],
    "every option stays, in order": [
      "--model x --allow a --mood grumpy --allow b --access write",
      "",
      "--model x --allow a --mood grumpy --allow b --access write",
    ],
    "attached values stay attached": ["--model=x -my --access=all", "", "-my --access=all"],
    "session and format are ours": [`--session-id ${NEW} --format text --model x`, "", "--model x"],
    "an earlier resume is left out": [`--resume ${NEW} --fork --model x`, "", "--model x"],
    "options of one turn are left out": ["--script f --model x", "", "--model x"],
    "unknown options stay, in order": ["--what 1 --model x --ever", "", "--what 1 --model x --ever"],
    "an option of this attempt replaces the recorded one": [
      "--model x --mood plain",
      "--model y",
      "--mood plain --model y",
    ],
    "the UI's flag is left out": ["--chat --model x", "", "--model x"],
    "a narrower access is allowed": ["--access all", "--access read", "--access read"],
    "the same right again adds no right": ["--allow a", "--allow a", "--allow a"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, args]) => {
    const command = demo.command(ask({ kind: "resume", given: split(given), native: split(native) }));
    expect(command.args).toEqual([...split(args), "--format", "jsonl", "--resume", ID, "-"]);
    expect([command.stdin, command.expects, command.structured]).toEqual(["go", ID, true]);
  });

  test("renders the second and third time what it rendered first", () => {
    const given = split("--model x --allow a --format text --what");
    const [first, second, third] = [1, 2, 3].map(() => demo.command(ask({ kind: "resume", given })));
    expect(second).toEqual(first);
    expect(third).toEqual(first);
  });

  test("keeps a kept option as the run's own", () => {
    const given = keepNative(demo, split("--model x --allow a"), ["--model", "y"], true);
    expect(demo.command(ask({ kind: "resume", given })).args.slice(0, 4)).toEqual([
      "--allow",
      "a",
      "--model",
      "y",
    ]);
  });

  test("does not send the prompt of a start without Reprise again", () => {
    const given = ["--model", "x", "fix", "it"];
    const command = demo.command(ask({ kind: "resume", given, givenHasNoPrompt: false }));
    expect(command.args).toEqual(["--model", "x", "--format", "jsonl", "--resume", ID, "-"]);
    expect(command.options).toEqual({ kept: ["--model x"], dropped: ['"fix"', '"it"'], rewritten: [] });
  });

  test.each<[native: string, given: string]>([
    ["--access all", "--access write"],
    ["--access write", ""],
    ["--allow b", "--allow a"],
    ["--nobody-knows", ""],
  ])("refuses %j over %j, which would widen the rights", (native, given) => {
    const over = ask({ kind: "resume", given: split(given), native: split(native) });
    expect(() => demo.command(over)).toThrow(expect.objectContaining({ code: "would_widen" }) as Error);
  });

  test("refuses a run without a conversation", () => {
    expect(() => demo.command(ask({ kind: "resume", session: null }))).toThrow(
      expect.objectContaining({ code: "session_unknown" }) as Error,
    );
  });
});

test("a fork gets a new id", () => {
  const { args, expects } = demo.command(ask({ kind: "fork", forkTo: NEW, given: ["-m", "x"] }));
  expect({ args, expects }).toEqual({
    args: ["-m", "x", "--format", "jsonl", "--resume", ID, "--fork", "--session-id", NEW, "-"],
    expects: NEW,
  });
});

test("a fresh start in an old run leaves the old session behind", () => {
  const given = split(`--session-id ${NEW} -m x`);
  const { args, expects } = demo.command(ask({ kind: "fresh", given }));
  expect({ args, expects }).toEqual({
    args: ["-m", "x", "--format", "jsonl", "--session-id", ID, "-"],
    expects: ID,
  });
});

describe("the UI", () => {
  test.each<[Partial<AttemptRequest>, string[]]>([
    [{ message: null }, ["-m", "x", "--session-id", ID]],
    [{ message: "-go" }, ["-m", "x", "--session-id", ID, "--chat", "--", "-go"]],
    [{ message: null, kind: "resume" }, ["-m", "x", "--resume", ID]],
    [{ message: "go on", kind: "resume" }, ["-m", "x", "--resume", ID, "--chat", "--", "go on"]],
  ])("%j", (part, args) => {
    const command = demo.command(ask({ interactive: true, given: ["-m", "x"], ...part }));
    expect([command.args, command.stdin, command.headless]).toEqual([args, null, false]);
  });

  test.each<[string, boolean]>([
    ["", true],
    ["--model x", true],
    [`--resume ${ID}`, true],
    ["--chat hello", true],
    ["hello", false],
    ["-", false],
    ["--version", false],
    ["--help", false],
    ["--script f", false],
  ])("decides whether %j opens it: %s", (line, opens) => {
    expect(demo.opensUi(split(line))).toBe(opens);
  });
});

test("arguments without a message from Reprise pass unchanged", () => {
  const given = split(`--format jsonl --resume ${ID} hello -- --world`);
  expect(demo.command(ask({ message: null, given }))).toEqual({
    args: given,
    stdin: null,
    env: {},
    headless: true,
    structured: true,
    expects: ID,
    options: { kept: ["--format jsonl", `--resume ${ID}`], dropped: [], rewritten: [] },
  });
});

test("the version comes from the agent's output", () => {
  expect(["demo 1.0.0\n", "x", ""].map((text) => demo.version(text))).toEqual(["1.0.0", null, null]);
});

describe("its store", () => {
  const head = (cwd: string) =>
    `${JSON.stringify({ type: "session", session_id: ID, cwd, at: "2026-11-15T02:30:00.000Z" })}\n`;
  const files = fakeFiles({
    [`/h/sessions/${ID}.jsonl`]: `${head("/w")}{"type":"user","text":"fix it\\n"}\n{"type":"us`,
    [`/h/sessions/${NEW}.jsonl`]: head("/other"),
    "/h/sessions/33333333-3333-4333-8333-333333333333.jsonl": "garbage",
    "/h/sessions/notes.txt": "",
  });
  const where = { home: "/h", cwd: "/w" };

  test("finds an existing session", async () => {
    expect(await demo.locate(ID, where, files)).toEqual({
      state: "present",
      files: [{ path: `/h/sessions/${ID}.jsonl`, restoreTo: `sessions/${ID}.jsonl` }],
      cwd: "/w",
      updatedAtMs: 1000,
    });
  });

  test.each(["44444444-4444-4444-8444-444444444444", "../../etc/passwd", ""])(
    "reports %j as absent",
    async (id) => {
      expect(await demo.locate(id, where, files)).toEqual({ state: "absent", searched: "/h/sessions" });
    },
  );

  test("reports a damaged session", async () => {
    const id = "33333333-3333-4333-8333-333333333333";
    expect(await demo.locate(id, where, files)).toMatchObject({ state: "unusable", damaged: true });
  });

  test("lists sessions of one directory or of all, newest first", async () => {
    const mine = {
      id: ID,
      cwd: "/w",
      path: `/h/sessions/${ID}.jsonl`,
      createdAtMs: 1794709800000,
      updatedAtMs: 1000,
      title: "fix it",
      opening: "fix it\n",
    };
    const other = {
      ...mine,
      id: NEW,
      cwd: "/other",
      path: `/h/sessions/${NEW}.jsonl`,
      updatedAtMs: 2000,
      title: null,
      opening: null,
    };
    expect(await demo.sessions({ home: "/h", cwd: "/w" }, files)).toEqual([mine]);
    expect(await demo.sessions({ home: "/h", cwd: null }, files)).toEqual([other, mine]);
    expect(await demo.sessions({ home: "/nowhere", cwd: null }, files)).toEqual([]);
  });

  test.each<[Record<string, string>, string | null]>([
    [{ REPRISE_DEMO_HOME: "/a", REPRISE_HOME: "/b", HOME: "/c" }, "/a"],
    [{ REPRISE_HOME: "/b", XDG_STATE_HOME: "/x", HOME: "/c" }, "/b/demo"],
    [{ XDG_STATE_HOME: "/x", HOME: "/c" }, "/x/reprise/demo"],
    [{ XDG_STATE_HOME: "relative", HOME: "/c" }, "/c/.local/state/reprise/demo"],
    [{ HOME: "" }, null],
    [{}, null],
  ])("its home with %j is %j", (env, home) => {
    expect(demo.home(env)).toBe(home);
  });

  test("its home can be chosen", () => expect(demo.home(demo.homeEnv("/a"))).toBe("/a"));
});

test("the config knows every engine that comes with Reprise", () => {
  expect(ENGINES.map(({ id }) => id).toSorted()).toEqual(BUILT_IN_ENGINES);
});
