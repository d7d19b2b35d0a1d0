import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../core/config.ts";
import { customEngine } from "./custom.ts";
import type { AttemptRequest, Engine } from "./engine.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const NOW = Date.parse("2026-11-15T02:30:00Z");

const STDIN = `
[engines.mine]
program = "mine"
title = "My agent"
start = ["run", "--json", "--id={session}"]
resume = ["run", "--json", "{options}", "--continue", "{session}"]
interactive = { start = ["ui", "{session}"], resume = ["ui", "--continue", "{session}"] }
session = { field = "session_id", format = "uuid", choose = true }
[engines.mine.events]
session = "type=init"
text = "type=message role=assistant : content.text"
delta = "type=delta : text"
tool_started = "type=tool state=start : name"
tool_ended = "type=tool state=end : name"
done = "type=result"
failed = "type=result ok=false : error.message"
`;

const ARGUMENT = `
[engines.mine]
program = "mine"
message = "argument"
start = ["-p", "--", "{message}"]
resume = ["-r", "{session}", "-p", "{message}"]
session = { field = "id", format = "s-[0-9]{1,8}" }
events = { session = "type=init", done = "type=result" }
`;

function engineOf(text: string): Engine {
  const engine = customEngine("mine", parseConfig(text, "c.toml", "user").engines?.["mine"] ?? {});
  if (engine === null) throw new Error("no engine");
  return engine;
}

const ask = (part: Partial<AttemptRequest>): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: ID,
  forkTo: null,
  given: [],
  givenHasNoPrompt: true,
  native: [],
  cwd: "/w",
  tag: "1a2b3c4d-1",
  trustCwd: false,
  ...part,
});

describe("commands", () => {
  const cases: Record<
    string,
    [text: string, given: Partial<AttemptRequest>, args: string[], stdin: string | null]
  > = {
    "a start with a chosen id": [STDIN, {}, ["run", "--json", `--id=${ID}`], "go"],
    "options go last without a mark": [
      STDIN,
      { given: ["--model", "x"] },
      ["run", "--json", `--id=${ID}`, "--model", "x"],
      "go",
    ],
    "options go where the mark is": [
      STDIN,
      { kind: "resume", given: ["--model", "x", "--fast"] },
      ["run", "--json", "--model", "x", "--fast", "--continue", ID],
      "go",
    ],
    "the UI": [STDIN, { interactive: true, message: null }, ["ui", ID], null],
    "the UI again": [
      STDIN,
      { interactive: true, message: null, kind: "resume" },
      ["ui", "--continue", ID],
      null,
    ],
    "a message as an argument, options before its dashes": [
      ARGUMENT,
      { session: null, given: ["--fast"] },
      ["-p", "--fast", "--", "go"],
      null,
    ],
    "a message like an option, behind dashes": [
      ARGUMENT,
      { session: null, message: "--yolo" },
      ["-p", "--", "--yolo"],
      null,
    ],
    "a message like a placeholder stays what it is": [
      ARGUMENT,
      { session: null, message: "{session} $(id) {options}" },
      ["-p", "--", "{session} $(id) {options}"],
      null,
    ],
    "a resume": [ARGUMENT, { kind: "resume", session: "s-1" }, ["-r", "s-1", "-p", "go"], null],
    "native arguments alone": [STDIN, { message: null, given: ["login", "--now"] }, ["login", "--now"], null],
  };
  test.each(Object.entries(cases))("%s", (_name, [text, given, args, stdin]) => {
    const command = engineOf(text).command(ask(given));
    expect([command.args, command.stdin]).toEqual([args, stdin]);
  });

  test("expect the session id that the engine must report", () => {
    const expects = (text: string, part: Partial<AttemptRequest>) =>
      engineOf(text).command(ask(part)).expects;
    expect(expects(STDIN, {})).toBe(ID);
    expect(expects(ARGUMENT, { session: null })).toBeNull();
    expect(expects(ARGUMENT, { kind: "resume", session: "s-1" })).toBe("s-1");
  });

  const OTHER = "22222222-2222-4222-8222-222222222222";
  const POSITION = ARGUMENT.replace('["-r", "{session}"', '["continue", "{session}"');
  test.each<[string, string, Partial<AttemptRequest>, string | null]>([
    ["an option of the template for a resume", STDIN, { given: ["--continue", OTHER] }, OTHER],
    ["the same with an equals sign", STDIN, { given: [`--continue=${OTHER}`] }, OTHER],
    ["the option of the template for a start", STDIN, { given: [`--id=${OTHER}`] }, OTHER],
    ["a short option", ARGUMENT, { session: null, given: ["-r", "s-7"] }, "s-7"],
    [
      "arguments that are passed through",
      ARGUMENT,
      { message: null, given: ["-r", "s-7", "-p", "x"] },
      "s-7",
    ],
    ["a word after the template's own", POSITION, { message: null, given: ["continue", "s-7"] }, "s-7"],
    ["a word that is not an id", ARGUMENT, { session: null, given: ["-r", "last"] }, null],
    ["an option of another name", ARGUMENT, { session: null, given: ["--project", "s-7"] }, null],
    ["a new conversation in that run", STDIN, { kind: "fresh", given: ["--continue", OTHER] }, ID],
    ["a resume of that run", STDIN, { kind: "resume", given: ["--continue", OTHER] }, ID],
  ])("a session that the user names by %s is known before the start", (_name, text, part, session) => {
    expect(engineOf(text).command(ask(part)).expects).toBe(session);
  });

  test("the user's own session reaches the agent once, and no later attempt", () => {
    const args = (part: Partial<AttemptRequest>) => engineOf(STDIN).command(ask(part)).args;
    expect(args({ given: [`--id=${OTHER}`] })).toEqual(["run", "--json", `--id=${OTHER}`]);
    const given = ["--continue", OTHER, "--fast"];
    expect(args({ kind: "resume", given })).toEqual(["run", "--json", "--fast", "--continue", ID]);
    expect(args({ kind: "fresh", given })).toEqual(["run", "--json", `--id=${ID}`, "--fast"]);
  });

  test.each<[string, string, Partial<AttemptRequest>, string]>([
    ["another session by --native", STDIN, { kind: "resume", native: ["--continue", OTHER] }, "usage"],
    ["a fork", STDIN, { kind: "fork" }, "engine_cannot"],
    ["a UI it has not", ARGUMENT, { interactive: true }, "engine_cannot"],
    ["a UI that takes no message", STDIN, { interactive: true }, "engine_cannot"],
    ["a resume of nothing", STDIN, { kind: "resume", session: null }, "session_unknown"],
    ["two messages", STDIN, { given: ["word"] }, "usage"],
    ["an option over recorded ones", STDIN, { kind: "resume", native: ["--yolo"] }, "would_widen"],
    [
      "a bare message like an option",
      ARGUMENT,
      { kind: "resume", session: "s-1", message: "-x" },
      "message_invalid",
    ],
  ])("refuses %s", (_name, text, part, code) => {
    expect(() => engineOf(text).command(ask(part))).toThrow(expect.objectContaining({ code }) as Error);
  });
});

describe("the UI", () => {
  const WITH_ARGS = STDIN.replace('program = "mine"', 'program = "mine"\nargs = ["--model", "x"]');

  test("opens where the config describes one and no native arguments are given", () => {
    const opens = (text: string, ...given: string[]) => engineOf(text).opensUi(given);
    expect([opens(STDIN), opens(STDIN, "login"), opens(ARGUMENT)]).toEqual([true, false, false]);
    expect([opens(WITH_ARGS, "--model", "x"), opens(WITH_ARGS, "--model", "x", "login")]).toEqual([
      true,
      false,
    ]);
  });

  test("serves a start, a resume and a headless resume", () => {
    const engine = engineOf(WITH_ARGS);
    const given = ["--model", "x"];
    const run = { given, givenHasNoPrompt: false };
    const ui = { ...run, interactive: true, message: null };
    expect(engine.command(ask(ui))).toEqual({
      args: ["ui", ID, "--model", "x"],
      stdin: null,
      env: {},
      headless: false,
      structured: false,
      expects: ID,
      options: { kept: ["--model x"], dropped: [], rewritten: [] },
    });
    expect(engine.command(ask({ ...ui, kind: "resume" }))).toMatchObject({
      args: ["ui", "--continue", ID, "--model", "x"],
      headless: false,
      expects: ID,
    });
    expect(engine.command(ask({ ...run, kind: "resume", message: "go on" }))).toMatchObject({
      args: ["run", "--json", "--model", "x", "--continue", ID],
      stdin: "go on",
      headless: true,
      options: { kept: ["--model x"], dropped: [], rewritten: [] },
    });
  });
});

test("a message that is an argument is not stored", () => {
  const command = engineOf(ARGUMENT).command(ask({ session: null, message: "-p is secret" }));
  expect(command).toMatchObject({
    args: ["-p", "--", "-p is secret"],
    storedArgs: ["-p", "--", "[message]"],
  });
  expect(engineOf(STDIN).command(ask({})).storedArgs).toBeUndefined();
});

describe("lines", () => {
  const cases: Record<string, [line: unknown, then: unknown[]]> = {
    "a session": [{ type: "init", session_id: ID }, [{ type: "session", session: ID }]],
    "an id in another format": [{ type: "init", session_id: "x" }, [{ type: "unknown" }]],
    "an id in another line": [{ type: "message", session_id: ID }, [{ type: "unknown" }]],
    "an id below the top": [{ type: "init", data: { session_id: ID } }, [{ type: "unknown" }]],
    text: [{ type: "message", role: "assistant", content: { text: "hi" } }, [{ type: "text", text: "hi" }]],
    "the user's own text": [
      { type: "message", role: "user", content: { text: "hi" } },
      [{ type: "unknown" }],
    ],
    "a piece of text": [{ type: "delta", text: "h" }, [{ type: "text", text: "h", delta: true }]],
    "a tool": [
      { type: "tool", state: "start", name: "sh" },
      [{ type: "tool", state: "started", id: "sh", name: "sh" }],
    ],
    "the end of a tool": [
      { type: "tool", state: "end", name: "sh" },
      [{ type: "tool", state: "ended", id: "sh", name: "sh" }],
    ],
    "a good end": [{ type: "result", ok: true }, [{ type: "turn_ended", result: "completed" }]],
    "a bad end wins over a good one": [
      { type: "result", ok: false, error: { message: "HTTP 429: slow down" } },
      [
        {
          type: "turn_ended",
          result: "failed",
          trouble: { kind: "rate_limited", message: "HTTP 429: slow down", status: 429 },
        },
      ],
    ],
    "something else": [{ type: "novelty" }, [{ type: "unknown" }]],
    "a list": [[1], [{ type: "unknown" }]],
  };
  test.each(Object.entries(cases))("%s", (_name, [line, then]) => {
    const reader = engineOf(STDIN).reader(() => NOW);
    expect(reader.line("stdout", JSON.stringify(line))).toEqual(then);
    expect(reader.line("stderr", JSON.stringify(line))).toEqual([]);
  });

  test("a line that names an id twice counts for nothing", () => {
    const line = `{"type":"init","session_id":"${ID}","session_id":"${ID}"}`;
    expect(
      engineOf(STDIN)
        .reader(() => NOW)
        .line("stdout", line),
    ).toEqual([{ type: "unknown" }]);
  });
});

test("the capabilities follow from the description", () => {
  expect(engineOf(STDIN)).toMatchObject({
    id: "mine",
    title: "My agent",
    program: "mine",
    can: { chooseSession: true, fork: false, interactive: true, readStore: false, boundToCwd: false },
  });
  expect(engineOf(ARGUMENT).can).toMatchObject({ chooseSession: false, interactive: false });
  expect(customEngine("codex", { args: ["-m", "x"] })).toBeNull();
});

test("the last words on stderr explain a failure", () => {
  const engine = engineOf(STDIN);
  expect(engine.explainExit({ code: 1, signal: null }, "noise\nError: invalid api key\n", NOW)).toEqual({
    kind: "auth",
    message: "Error: invalid api key",
  });
  expect(engine.explainExit({ code: 1, signal: null }, "", NOW)).toBeNull();
  expect(engine.explainExit({ code: 0, signal: null }, "noise", NOW)).toBeNull();
  expect(engine.explainExit({ code: null, signal: "SIGKILL" }, "403 Forbidden\n", NOW)).toBeNull();
});

test("the examples of docs/config.md do what the page says", () => {
  const docs = readFileSync("docs/config.md", "utf8");
  const examples = [...docs.matchAll(/```toml\n(.*?)```/gs)].map(([, text = ""]) => text);
  const [general = ""] = examples;
  const parrot = examples.find((text) => text.includes("[engines.parrot]")) ?? "";
  expect(parseConfig(general, "c.toml", "user")).toMatchObject({
    idleTimeoutMs: 900_000,
    engines: { codex: {} },
  });
  const engine = customEngine("parrot", parseConfig(parrot, "c.toml", "user").engines?.["parrot"] ?? {});
  const reader = engine?.reader(() => NOW);
  const printed = docs.split("\n").filter((line) => line.startsWith('{"type":'));
  expect(printed.flatMap((line) => reader?.line("stdout", line) ?? [])).toEqual([
    { type: "session", session: "s-4711" },
    { type: "text", text: "hello?" },
    { type: "turn_ended", result: "completed" },
  ]);
  expect(engine?.command(ask({ kind: "resume", session: "s-4711", message: "and now" }))).toMatchObject({
    args: ["ask", "--json", "--continue", "s-4711"],
    stdin: "and now",
  });
});
