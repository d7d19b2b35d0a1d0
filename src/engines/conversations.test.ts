/** The conversation in sessions that real engines wrote: recorded by the conformance suite, paths replaced. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Engine } from "./engine.ts";
import { builtInEngine } from "./engines.ts";
import { saidInRows } from "./opencode-conversation.ts";
import type { DatabaseRow, SaidEvent } from "./session-store.ts";

const fixture = (engine: string, name: string) =>
  readFileSync(new URL(`./${engine}.fixtures/${name}`, import.meta.url), "utf8");

function engineOf(id: string): Engine {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(`no engine ${id}`);
  return engine;
}

const said = (id: string, text: string) =>
  text.split("\n").flatMap((line) => engineOf(id).said?.(line) ?? []);

const events = (found: readonly SaidEvent[]) => found.map(({ event }) => event);

const SAID = (users: number, assistants: number, tools: number, words: string) =>
  `SEEN users=${users} assistants=${assistants} tools=${tools} last="${words.replace("@@", "@ @")}"`;
const FIRST = "Where are you? @@tool:echo in $PWD for $USER";
const SECOND = "And now? @@tool:echo in $PWD for $USER";
const CALL = { type: "tool", detail: "echo in $PWD for $USER" };

describe.each([
  ["codex", "exec_command", "tool", { ok: true, output: "in /w/project for\n" }, [0, 1, 1, 2]],
  ["claude", "Bash", "tool", { ok: true, output: "in /w/project for" }, [1, 1, 3, 2]],
] as const)("a session of %s", (id, name, ended, result, [a1, t1, a2, t2]) => {
  test("has messages, answers and tool calls with their results, once each", () => {
    const found = events(said(id, fixture(id, "conversation.jsonl"))).filter(
      ({ type }) => type !== "turn_ended",
    );
    const ids = found.flatMap((event) => (event.type === "tool" ? [event.id] : []));
    expect(found).toEqual([
      { type: "message", text: FIRST },
      { ...CALL, state: "started", id: ids[0], name },
      { type: "tool", state: "ended", id: ids[0], name: ended, ...result },
      { type: "text", text: SAID(1, a1, t1, FIRST) },
      { type: "message", text: SECOND },
      { ...CALL, state: "started", id: ids[2], name },
      { type: "tool", state: "ended", id: ids[2], name: ended, ...result },
      { type: "text", text: SAID(2, a2, t2, SECOND) },
    ]);
  });
});

test("a session of gemini has a repeated answer under one id, and no context of Gemini's own", () => {
  const found = said("gemini", fixture("gemini", "conversation.jsonl"));
  const [first] = events(found).filter((event) => event.type === "tool");
  expect(events(found).slice(0, 4)).toEqual([
    { type: "message", text: FIRST },
    { ...CALL, state: "started", id: first?.id, name: "run_shell_command" },
    {
      ...CALL,
      state: "ended",
      id: first?.id,
      name: "run_shell_command",
      ok: true,
      output: "in /w/project for",
    },
    { type: "text", text: SAID(1, 1, 1, FIRST) },
  ]);
  const messages = found.filter(({ event }) => event.type === "message");
  expect(messages.map(({ event }) => event)).toEqual([
    { type: "message", text: FIRST },
    { type: "message", text: SECOND },
  ]);
  expect(found.every(({ at }) => at !== undefined)).toBe(true);
});

test("an export of opencode and its store say the same", () => {
  const text = fixture("opencode", "conversation.jsonl");
  const found = engineOf("opencode").transfer?.said(text) ?? [];
  expect(events(found).slice(0, 4)).toEqual([
    { type: "message", text: FIRST },
    { ...CALL, state: "started", id: "call_1", name: "bash" },
    { ...CALL, state: "ended", id: "call_1", name: "bash", ok: true, output: "in /w/project for\n" },
    { type: "text", text: SAID(1, 1, 1, FIRST) },
  ]);
  const { messages } = JSON.parse(text) as {
    messages: { info: Record<string, unknown>; parts: Record<string, unknown>[] }[];
  };
  const rows = messages.flatMap(({ info: { id, sessionID: _s, ...info }, parts }): DatabaseRow[] => [
    ...parts.map(({ id: part, sessionID: _p, messageID: _m, ...data }) => ({
      id: part,
      message_id: id,
      data: JSON.stringify(data),
    })),
    { id, message_id: null, data: JSON.stringify(info) },
  ]);
  expect(saidInRows(rows.toReversed())).toEqual(found);
});

test("a UI of claude: interruptions and errors are notices, and summaries are not messages", () => {
  const live = (name: string) =>
    fixture("claude", `${name}.jsonl`)
      .split("\n")
      .flatMap((line) =>
        line === "" ? [] : [JSON.stringify((JSON.parse(line) as { line?: object }).line ?? {})],
      )
      .join("\n");
  const limited = events(said("claude", live("live-limit")));
  expect(limited.filter(({ type }) => type === "message").length).toBe(7);
  expect(limited).toContainEqual({ type: "notice", message: "Credit balance is too low" });
  const rejected = events(said("claude", live("live-ask")));
  expect(rejected.map(({ type }) => type)).toEqual([
    ...["message", "tool", "tool", "notice"],
    ...["message", "tool", "tool", "text"],
  ]);
  expect(rejected[2]).toMatchObject({ ok: false, output: expect.stringContaining("rejected") });
});

test("a UI of codex: failed turns are notices, interrupted ones end", () => {
  const live = (name: string) =>
    fixture("codex", `${name}.jsonl`)
      .split("\n")
      .flatMap((line) =>
        line === "" ? [] : [JSON.stringify((JSON.parse(line) as { line?: object }).line ?? {})],
      )
      .join("\n");
  expect(events(said("codex", live("live-limit")))).toContainEqual({
    type: "notice",
    message: "exceeded retry limit, last status: 429 Too Many Requests",
  });
  expect(events(said("codex", live("live-basic")))).toContainEqual({
    type: "turn_ended",
    result: "interrupted",
  });
});

test.each(["claude", "codex", "gemini", "opencode", "demo"])(
  "torn and hostile lines of a session of %s are left out, never fatal",
  (id) => {
    const engine = engineOf(id);
    const read = (line: string) => engine.said?.(line) ?? engine.transfer?.said(line) ?? [];
    const lines = fixture(id === "demo" ? "codex" : id, "conversation.jsonl").split("\n");
    for (const line of lines)
      for (let at = 0; at < line.length; at += 97) expect(read(line.slice(0, at))).toEqual([]);
    const values = [
      null,
      7,
      "x",
      [],
      {},
      [null],
      { content: 7 },
      { content: [null, 7, "x", {}] },
      "\u0000\ud800",
    ];
    const types = [
      "user",
      "assistant",
      "system",
      "gemini",
      "response_item",
      "event_msg",
      "message",
      "tool",
      "text",
    ];
    for (const type of types)
      for (const value of values)
        for (const name of ["message", "payload", "content", "toolCalls", "messages", "parts", "info", "id"])
          expect(() => read(JSON.stringify({ type, role: "user", id: "1", [name]: value }))).not.toThrow();
    const nested = `${'{"message":'.repeat(20_000)}1${"}".repeat(20_000)}`;
    expect(() => read(nested)).not.toThrow();
  },
);

test("a very long result of a tool keeps its beginning and its end", () => {
  const content = `begin ${"x".repeat(200_000)} end`;
  const part = { type: "tool_result", tool_use_id: "t", content };
  const [found] = said("claude", JSON.stringify({ type: "user", message: { content: [part] } }));
  expect(found?.event).toMatchObject({ cut: content.length - 65_536 });
  const output = found?.event.type === "tool" ? (found.event.output ?? "") : "";
  expect([output.startsWith("begin"), output.endsWith("end"), output.length]).toEqual([true, true, 65_539]);
});
