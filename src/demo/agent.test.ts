/** The demo agent as a program: bundled once, run for real. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AgentProgram, type Ended, eventsOf, idsOf, textOf } from "../../test/actors/agent-program.ts";
import type { EngineEvent, Exit } from "../core/events.ts";
import { demo } from "../engines/demo.ts";
import { planOf } from "./steps.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const GONE = "99999999-9999-4999-8999-999999999999";

let program: AgentProgram;
let work = "";
let env: Record<string, string> = {};

beforeAll(() => {
  program = new AgentProgram("demo");
});
afterAll(() => program[Symbol.dispose]());
beforeEach(() => {
  ({ work, env } = program.nextCase());
});

const start = (args: readonly string[], stdin: string | null) => program.start(args, stdin);
const run = async (args: readonly string[], stdin = ""): Promise<Ended> => await start(args, stdin).ended;
const json = async (message: string, ...args: string[]): Promise<Ended> =>
  await run([...args, "--format", "jsonl", "-"], message);

function journal(): readonly Record<string, unknown>[] {
  const text = readFileSync(env["REPRISE_DEMO_LOG"] ?? "", "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Polls until `found` is defined; the test's deadline ends it. */
async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((again) => setTimeout(again, 10));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("memory", () => {
  test("carries a conversation from process to process", async () => {
    await json("fix the flaky test", "--session-id", ID);
    await json("and add one", "--resume", ID, "--model", "big");
    const third = await json("thanks", "--resume", ID, "--allow", "net", "--allow", "disk");
    expect(textOf(eventsOf(demo, third))).toBe(
      `You said "thanks". I remember 2 earlier messages: "fix the flaky test", "and add one". model=demo-1 mood=plain access=read allow=net,disk cwd=${work}`,
    );
  });

  test("keeps messages from before a death", async () => {
    expect((await json("fix it @@die", "--session-id", ID)).exit).toEqual({ code: null, signal: "SIGKILL" });
    expect(textOf(eventsOf(demo, await json("go on", "--resume", ID)))).toContain(
      'I remember 1 earlier message: "fix it".',
    );
  });

  test("survives a torn last line", async () => {
    await json("one", "--session-id", ID);
    const file = join(work, "demo", "sessions", `${ID}.jsonl`);
    writeFileSync(file, `${readFileSync(file, "utf8")}{"type":"user","te`);
    expect(textOf(eventsOf(demo, await json("two", "--resume", ID)))).toContain('1 earlier message: "one".');
    expect(textOf(eventsOf(demo, await json("three", "--resume", ID)))).toContain('"one", "two".');
  });

  test("leaves the original of a fork alone", async () => {
    await json("one", "--session-id", ID);
    const fork = eventsOf(demo, await json("two", "--resume", ID, "--fork", "--session-id", GONE));
    expect([idsOf(fork), textOf(fork).includes('1 earlier message: "one"')]).toEqual([[GONE], true]);
    expect(textOf(eventsOf(demo, await json("three", "--resume", ID)))).toContain(
      '1 earlier message: "one".',
    );
  });
});

describe("directives", () => {
  const half = ["session", "turn_started", "text", "text", "text", "text", "text"];
  const kinds = (events: readonly EngineEvent[]): string[] => events.map(({ type }) => type);

  test.each<[string, Exit, string[]]>([
    ["@@die", { code: null, signal: "SIGKILL" }, half],
    ["@@die:before-session", { code: null, signal: "SIGKILL" }, []],
    ["@@die:after-session", { code: null, signal: "SIGKILL" }, ["session"]],
    ["@@die:after-user", { code: null, signal: "SIGKILL" }, ["session"]],
    ["@@die:in-tool", { code: null, signal: "SIGKILL" }, ["session", "turn_started", "tool"]],
    ["@@exit:3", { code: 3, signal: null }, half],
    ["@@exit:0:after-session", { code: 0, signal: null }, ["session"]],
    ["@@signal:HUP:after-user", { code: null, signal: "SIGHUP" }, ["session"]],
    ["@@429", { code: 1, signal: null }, ["session", "turn_started", "usage", "turn_ended"]],
    ["@@busy", { code: 1, signal: null }, ["usage", "turn_ended"]],
    ["@@silent", { code: 0, signal: null }, []],
  ])("%s", async (directive, exit, types) => {
    const ended = await json(directive, "--session-id", ID);
    const seen = eventsOf(demo, { ...ended, out: ended.out.trimEnd() }).filter(
      ({ type }) => type !== "unknown",
    );
    expect([ended.exit, kinds(seen).slice(0, half.length)]).toEqual([exit, types]);
  });

  test("@@lost reports a resumed session as lost, and a new one as nothing", async () => {
    const first = await json("one @@lost:before-session", "--session-id", ID);
    expect(first.exit).toEqual({ code: 0, signal: null });
    const again = await json("two @@lost:in-tool", "--resume", ID);
    expect([again.exit, kinds(eventsOf(demo, again)).includes("tool")]).toEqual([
      { code: 1, signal: null },
      true,
    ]);
    expect(demo.explainExit(again.exit, again.stderr, 0)).toMatchObject({ kind: "session_lost" });
  });

  test("a death between the id and the user's line leaves no session", async () => {
    await json("@@die:after-session", "--session-id", ID);
    expect(await json("go on", "--resume", ID)).toMatchObject({
      exit: { code: 1 },
      stderr: `demo: no session ${ID} in ${join(work, "demo", "sessions")}\n`,
    });
  });

  test("@@hang hangs until SIGINT, which ends the turn politely", async () => {
    const { child, ended } = start(["--format", "jsonl", "--session-id", ID, "-"], "x @@hang");
    await until(() => (safeJournal().some(({ event }) => event === "hang") ? true : undefined));
    child.kill("SIGINT");
    const { exit, out } = await ended;
    expect([exit.code, out.trimEnd().split("\n").at(-1)]).toEqual([
      130,
      '{"type":"turn.ended","result":"interrupted"}',
    ]);
  });

  test("@@ignore-sigterm needs SIGKILL", async () => {
    const { child, ended } = start(["--format", "jsonl", "-"], "x @@ignore-sigterm @@hang");
    await until(() => (safeJournal().some(({ event }) => event === "hang") ? true : undefined));
    child.kill("SIGTERM");
    child.kill("SIGINT");
    await until(() =>
      safeJournal().filter(({ event }) => event === "ignored").length === 2 ? true : undefined,
    );
    child.kill("SIGKILL");
    expect((await ended).exit).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("@@fork-child leaves a grandchild that ignores SIGTERM", async () => {
    await json("x @@fork-child", "--session-id", ID);
    const pid = Number(journal().find(({ event }) => event === "child")?.["child"]);
    process.kill(pid, "SIGTERM");
    await until(() => journal().find((line) => line["event"] === "ignored" && line["pid"] === pid));
    process.kill(pid, "SIGKILL");
    await until(() => (isAlive(pid) ? undefined : true));
  });

  test("@@fork-child:hold keeps stdout open after the agent's end", async () => {
    const { child, ended } = start(["--format", "jsonl", "-"], "x @@fork-child:hold");
    await new Promise((exited) => child.once("exit", exited));
    const pid = Number(journal().find(({ event }) => event === "child")?.["child"]);
    expect([isAlive(pid), child.stdout?.readableEnded]).toEqual([true, false]);
    process.kill(pid, "SIGKILL");
    expect((await ended).exit.code).toBe(0);
  });

  test("@@other-session answers in another conversation", async () => {
    await json("one", "--session-id", ID);
    const events = eventsOf(demo, await json("two @@other-session", "--resume", ID));
    expect([idsOf(events).includes(ID), textOf(events).includes("first exchange")]).toEqual([false, true]);
  });

  test("@@forge prints a false id in text and tool output, never as a separate event", async () => {
    const ended = await json("x @@forge", "--session-id", ID);
    expect(ended.out.match(/deadbeef-dead-4ead-8ead-deadbeefdead/g)).toHaveLength(2);
    expect(idsOf(eventsOf(demo, ended))).toEqual([ID]);
  });

  test("@@split writes the id in two pieces", async () => {
    const { child, ended } = start(["--format", "jsonl", "--session-id", ID, "-"], "x @@split");
    const first = await new Promise<string>((seen) =>
      child.stdout?.once("data", (chunk: Buffer) => seen(chunk.toString())),
    );
    expect(first).toMatch(/^\{"type":"session".*[^\n]$/);
    expect(idsOf(eventsOf(demo, await ended))).toEqual([ID]);
  });

  test("@@crlf, @@badutf8, @@osc, @@line, @@flood and @@burst do what their names say", async () => {
    expect((await json("x @@crlf", "--session-id", ID)).out.replaceAll("\r\n", "")).not.toContain("\n");
    expect((await json("x @@badutf8")).stdout.includes(Buffer.from([0xff, 0xfe, 0xc3, 0x28]))).toBe(true);
    const osc = await json("x @@osc");
    expect([osc.stderr.includes("\u001b]52;c;"), textOf(eventsOf(demo, osc)).includes("\u001b]0;")]).toEqual([
      true,
      true,
    ]);
    expect((await json("x @@line:300000")).out.split("\n").map(({ length }) => length)).toContain(300_000);
    expect((await json("x @@flood:300000")).stdout.length).toBeGreaterThan(300_000);
    expect((await json("x @@burst:500")).out.match(/burst \d+/g)).toHaveLength(500);
  });

  test("@@close-stdout continues without a reader", async () => {
    const ended = await json("x @@close-stdout", "--session-id", ID);
    expect([ended.exit.code, ended.out.includes("turn.ended")]).toEqual([0, false]);
    expect(textOf(eventsOf(demo, await json("y", "--resume", ID)))).toContain('"x"');
  });

  test("@@write writes into the working directory, @@env prints a variable", async () => {
    env["COLOUR"] = "teal";
    const events = eventsOf(demo, await json("note this @@write:note.txt @@env:COLOUR"));
    expect(readFileSync(join(work, "note.txt"), "utf8")).toBe("note this\n");
    expect(textOf(events)).toContain("COLOUR=teal");
  });

  test("the agent knows every directive of the docs", () => {
    const docs = ["docs/engines/demo.md", "test/actors/README.md"]
      .map((file) => readFileSync(file, "utf8"))
      .join();
    const named = [...new Set(docs.match(/@@[a-z0-9-]+/g))];
    expect(named.length).toBeGreaterThan(30);
    const unknown = named.filter((name) =>
      planOf(name).some(({ text }) => text?.startsWith("demo: unknown") === true),
    );
    expect(unknown).toEqual([]);
  });

  test("the agent names an unknown directive on stderr", async () => {
    expect((await json("x @@dei")).stderr).toBe("demo: unknown directive @@dei\n");
  });
});

test("in a chat, /clear begins a new conversation and /exit leaves", async () => {
  const lines = ["hello", "again", "/clear", "and now", "/exit", ""].join("\n");
  const { out, exit } = await run(["--chat", "--session-id", ID], lines);
  expect(exit.code).toBe(0);
  expect(out.match(/You said .*? model/g)).toEqual([
    'You said "hello". This is our first exchange. model',
    'You said "again". I remember 1 earlier message: "hello". model',
    'You said "and now". This is our first exchange. model',
  ]);
  const ids = journal().flatMap(({ event, session }) => (event === "session" ? [session] : []));
  expect(ids[0]).toBe(ID);
  expect(out.trimEnd().split("\n").at(-1)).toBe(`demo --resume ${String(ids[1])}`);
});

describe("scripts", () => {
  const script = (...steps: unknown[]): string => {
    const file = join(work, "script.jsonl");
    writeFileSync(file, ["# a script", ...steps.map((step) => JSON.stringify(step)), ""].join("\n"));
    return file;
  };

  test("replace the turn and talk over stdin", async () => {
    env["REPRISE_DEMO_SCRIPT"] = script(
      { step: "expect-stdin", text: "initialize" },
      { step: "print", text: '{"id":1,"result":{}}' },
      { step: "expect-stdin", text: "turn" },
      { step: "stderr", text: "working" },
      { step: "exit", code: 4 },
    );
    const ended = await run([], '{"id":1,"method":"initialize"}\n{"method":"turn/start"}\n');
    expect([ended.out, ended.stderr, ended.exit.code]).toEqual(['{"id":1,"result":{}}\n', "working\n", 4]);
  });

  test("may use the steps of an ordinary turn", async () => {
    const file = script({ step: "session" }, { step: "user" }, { step: "text", text: "hi" }, { step: "end" });
    const events = eventsOf(
      demo,
      await run(["--script", file, "--format", "jsonl", "--session-id", ID, "hello"]),
    );
    expect([idsOf(events), textOf(events)]).toEqual([[ID], "hi"]);
    delete env["REPRISE_DEMO_SCRIPT"];
    expect(textOf(eventsOf(demo, await json("more", "--resume", ID)))).toContain('"hello"');
  });

  test.each<[unknown[], RegExp]>([
    [[{ step: "dance" }], /script line 2: unknown step "dance"/],
    [[{ step: "wait", ms: "1" }], /script line 2: wait has no field ms of this kind/],
    [[7], /script line 2: a step is a JSON object/],
  ])("with %j are refused", async (steps, words) => {
    expect(await run(["--script", script(...steps), "x"])).toMatchObject({
      exit: { code: 2 },
      stderr: expect.stringMatching(words) as string,
    });
  });

  test("end with 97 after an unexpected answer", async () => {
    const file = script({ step: "expect-stdin", text: "yes" });
    expect((await run(["--script", file], "no\n")).exit.code).toBe(97);
  });
});

describe("the command line", () => {
  test.each<[string[], string, number]>([
    [["--nonsense", "x"], "demo: unknown option or missing value: --nonsense", 2],
    // Other engines' roles are in test/actors.
    [["--as", "codex", "--", "x"], "demo: unknown option or missing value: --as", 2],
    [["--model"], "demo: unknown option or missing value: --model", 2],
    [["--resume", "nope", "x"], "demo: not a session id: nope", 2],
    [
      ["--resume", ID, "--session-id", GONE, "x"],
      "demo: --session-id goes with --resume only when --fork is given",
      2,
    ],
    [["--fork", "x"], "demo: --fork needs --resume", 2],
    [["--mood", "blue", "x"], "demo: --mood is one of plain, cheerful, grumpy", 2],
    [["--resume", ID, "x"], `demo: no session ${ID} in`, 1],
    [["-"], "demo: there is no message", 2],
  ])("%j is refused", async (args, words, code) => {
    const ended = await run(args);
    expect([ended.out, ended.exit.code]).toEqual(["", code]);
    expect(ended.stderr).toContain(words);
  });

  test("an id cannot be chosen twice", async () => {
    await json("one", "--session-id", ID);
    expect((await json("two", "--session-id", ID)).stderr).toBe(
      `demo: session ${ID} already exists; use --resume\n`,
    );
  });

  test("a message of 1 MB arrives whole", async () => {
    const message = "0123456789".repeat(100_000);
    await json(message, "--session-id", ID);
    expect(journal().find(({ event }) => event === "message")).toMatchObject({
      bytes: 1_000_000,
      session: ID,
    });
  });

  test("the journal lists start, session, message, its storage, and end of every life", async () => {
    env["REPRISE_MARK"] = "m1";
    await json("hello", "--session-id", ID);
    const lines = journal();
    expect(lines.map(({ event }) => event)).toEqual(["start", "session", "message", "kept", "end"]);
    expect(lines[0]).toMatchObject({ as: "demo", cwd: work, terminals: [], env: { REPRISE_MARK: "m1" } });
    expect(lines.at(-1)).toMatchObject({ code: 0 });
  });
});

/** Empty until the first line exists. */
function safeJournal(): readonly Record<string, unknown>[] {
  try {
    return journal();
  } catch {
    return [];
  }
}
