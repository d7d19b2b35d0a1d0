import { readdirSync, readFileSync } from "node:fs";
import { assert, jsonValue, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import type { QuestionAnswer, EngineEvent, Question } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { codex } from "./codex.ts";
import type { AttemptRequest, Dialogue, DialogueMessage } from "./engine.ts";

const ID = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";
const OTHER = "01a1dd0a-1111-7000-8000-000000000001";
const CWD = "/home/user/lab/work";
const NOW = Date.parse("2026-11-15T08:00:00Z");

const ask = (part: Partial<AttemptRequest> & { line?: string; over?: string } = {}): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: null,
  forkTo: null,
  given: split(part.line),
  givenHasNoPrompt: true,
  native: split(part.over),
  cwd: CWD,
  tag: "1a2b3c4d-1",
  trustCwd: false,
  dialogue: { approval: "on-request" },
  ...part,
});

const split = (line = ""): string[] => line.split(" ").filter(Boolean);

describe("recordings of the real server", () => {
  const SETUP = ["notice", "session", "notice", "turn_started"];
  const ASKED = [...SETUP, "tool started", "asked 0"];
  const REST = ["usage", "text", "usage", "completed"];
  const cases: Record<string, readonly string[]> = {
    fresh: [...SETUP, "text", "usage", "completed"],
    tool: [...SETUP, "tool started", "tool failed", ...REST],
    killed: [...SETUP, "text"],
    resumed: [...SETUP, "text", "usage", "completed"],
    restored: ["notice", "session", "usage", "notice", "turn_started", "text", "usage", "completed"],
    unknown: ["notice", "failed session_lost"],
    archived: ["notice", "failed session_lost"],
    busy: ["notice", "failed session_busy"],
    provider: ["notice", "failed usage"],
    interrupt: [...SETUP, "text", "interrupted"],
    "interrupt-early": [...SETUP, "interrupted"],
    "interrupt-pending": [...ASKED, "usage", "interrupted", "settled 0"],
    "usage-limit": [...SETUP, "failed rate_limited until"],
    quota: [...SETUP, "failed quota"],
    "429": [...SETUP, "failed rate_limited"],
    "401": [...SETUP, "failed auth"],
    "500": [...SETUP, "failed overloaded"],
    overloaded: [...SETUP, "failed overloaded"],
    context: [...SETUP, "usage", "failed context_full"],
    drop: [...SETUP, "text", "failed network"],
    retry: [...SETUP, "text", "retry network", "text", "failed network"],
    accept: [...ASKED, "tool ended", ...REST],
    decline: [...ASKED, "tool failed", ...REST],
    cancel: [...ASKED, "tool failed", "usage", "interrupted"],
    "for-session": [...ASKED, "tool ended", ...REST],
    // The server forgot the session's approvals.
    "for-session-resumed": [
      ...["notice", "session", "usage", "notice", "turn_started"],
      ...["tool started", "asked 0", "tool ended", ...REST],
    ],
    never: [...SETUP, ...REST],
    patch: [...ASKED, "tool ended", ...REST],
    "patch-declined": [...ASKED, "tool failed", ...REST],
  };

  test("have a row each in the table", () => {
    const names = readdirSync(new URL("codex.fixtures/", import.meta.url)).flatMap(
      (file) => /^server-(.*)\.jsonl$/.exec(file)?.[1] ?? [],
    );
    expect(names.toSorted()).toEqual(Object.keys(cases).toSorted());
  });

  test.each(Object.entries(cases))("%s", (name, then) => {
    const { sent, recorded, seen } = replay(name);
    expect(sent).toEqual(recorded);
    expect(seen).toEqual(then);
  });

  test("contain a question that describes its command, the same in another process", () => {
    const [first] = replay("for-session").questions;
    const [second] = replay("for-session-resumed").questions;
    expect(first).toEqual({
      id: "0",
      about: "command",
      what: "/bin/bash -lc 'echo ok'",
      cwd: CWD,
      reason: "the sandbox is in the way",
      key: JSON.stringify(["command", "/bin/bash -lc 'echo ok'", CWD, "local", null, null]),
    });
    expect(second?.key).toBe(first?.key);
    expect(replay("accept").questions[0]?.key).not.toBe(first?.key);
  });

  test("contain a question about files that lists them", () => {
    expect(replay("patch").questions).toEqual([
      {
        id: "0",
        about: "files",
        what: "add new.txt",
        cwd: null,
        reason: null,
        changes: [{ what: "add new.txt", diff: "+patched" }],
        key: JSON.stringify(["files", [["add", `${CWD}/new.txt`, null, "patched\n"]], null]),
      },
    ]);
  });

  test("end nothing that did not end, wherever they are cut", () => {
    const lines = linesOf("fresh");
    for (let at = 1; at < lines.length; at += 1) {
      const { seen } = play(lines.slice(0, at));
      expect(seen).not.toContain("completed");
    }
  });
});

interface Line {
  readonly dir: "ask" | "in" | "out" | "interrupt" | "answer";
  readonly ask: AttemptRequest;
  readonly msg: unknown;
  readonly id: string;
  readonly decision: QuestionAnswer;
}

function linesOf(name: string): Line[] {
  const text = readFileSync(new URL(`codex.fixtures/server-${name}.jsonl`, import.meta.url), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

const replay = (name: string) => play(linesOf(name));

/** Replays the server's lines and the user's actions; returns what was sent and the events. */
function play(lines: readonly Line[]) {
  const [first] = lines;
  const dialogue = dialogueOf(first?.ask ?? ask());
  const sent: unknown[] = [];
  const seen: string[] = [];
  const questions: Question[] = [];
  const take = (said: DialogueMessage) => {
    sent.push(...said.send.map((line) => JSON.parse(line) as unknown));
    // Another test covers signs of life.
    seen.push(...said.events.map(short).filter((event) => event !== "unknown"));
    seen.push(...said.questions.map(({ id }) => `asked ${id}`), ...said.settled.map((id) => `settled ${id}`));
    questions.push(...said.questions);
  };
  take(dialogue.open());
  for (const line of lines) {
    if (line.dir === "in") take(dialogue.heard(JSON.stringify(line.msg)));
    if (line.dir === "interrupt") take(dialogue.interrupt());
    if (line.dir === "answer") take(dialogue.answer(line.id, line.decision));
  }
  const recorded = lines.filter(({ dir }) => dir === "out").map(({ msg }) => msg);
  return { sent, recorded, seen, questions };
}

function short(event: EngineEvent): string {
  if (event.type === "retry") return `retry ${event.trouble.kind}`;
  if (event.type === "tool") return `tool ${event.ok === false ? "failed" : event.state}`;
  if (event.type !== "turn_ended") return event.type;
  const { result, trouble } = event;
  if (trouble === undefined) return result;
  return `${result} ${trouble.kind}${trouble.resetsAt === undefined ? "" : " until"}`;
}

function dialogueOf(asked: AttemptRequest): Dialogue {
  const dialogue = codex.command(asked).dialogue?.(() => NOW);
  if (dialogue === undefined) throw new Error("there is no dialogue");
  return dialogue;
}

const opened = { cwd: CWD, approvalPolicy: "on-request", sandbox: { type: "readOnly" } };

/** The conversation up to the named point. */
function upTo(point: "open" | "thread" | "turn" | "running", asked = ask()): Dialogue {
  const dialogue = dialogueOf(asked);
  dialogue.open();
  if (point === "open") return dialogue;
  hear(dialogue, { id: 1, result: {} });
  if (point === "thread") return dialogue;
  hear(dialogue, { id: 2, result: { thread: { id: ID }, ...opened } });
  if (point === "turn") return dialogue;
  hear(dialogue, { id: 3, result: { turn: { id: "t1" } } });
  hear(dialogue, { method: "turn/started", params: { threadId: ID, turn: { id: "t1" } } });
  return dialogue;
}

const hear = (dialogue: Dialogue, message: unknown): DialogueMessage =>
  dialogue.heard(JSON.stringify(message));
const nothing: DialogueMessage = { send: [], events: [], questions: [], settled: [], over: false };
const unknown: DialogueMessage = { ...nothing, events: [{ type: "unknown" }] };
const parsed = ({ send }: DialogueMessage) => send.map((line) => JSON.parse(line) as unknown);

describe("messages are distinguished", () => {
  const cases: Record<string, string> = {
    "no JSON": "Failed to deserialize",
    "half a line": '{"id":1,"result":{',
    "an array": '[{"id":1,"result":{}}]',
    "a number": "7",
    empty: "",
    "no fields": "{}",
    "an answer to nothing": '{"id":9,"result":{}}',
    "an answer to our id as text": '{"id":"1","result":{}}',
    "a float": '{"id":1.5,"result":{}}',
    "an id of null": '{"id":null,"error":{"code":-32700,"message":"x"}}',
    "an id that is an object": '{"id":{},"method":"x"}',
    "an answer that says nothing": '{"id":1}',
    "an answer with a key twice": '{"id":1,"result":{},"result":{"a":1}}',
    "a method that is not text": '{"method":7}',
    "an unknown method": '{"method":"thread/bogus","params":{}}',
    "params that are not an object": '{"method":"item/completed","params":[1]}',
    "a delta without text": '{"method":"item/agentMessage/delta","params":{}}',
    "a turn before ours": `{"method":"turn/started","params":{"turn":{"id":"t0"}}}`,
    "a turn's end before ours": `{"method":"turn/completed","params":{"turn":{"id":"t0","status":"completed"}}}`,
    "a resolved request without an id": '{"method":"serverRequest/resolved","params":{}}',
  };
  test.each(Object.entries(cases))("%s is unknown and changes nothing", (_name, line) => {
    const dialogue = upTo("open");
    expect(dialogue.heard(line)).toEqual(unknown);
    expect(dialogue.waitsFor()).toEqual(["initialize"]);
    expect(hear(dialogue, { id: 1, result: {} }).send).toHaveLength(2);
  });

  test("nothing throws, whatever comes at any point", () => {
    for (const point of ["open", "thread", "turn", "running"] as const) {
      const dialogue = upTo(point);
      assert(property(jsonValue(), (value) => dialogue.heard(JSON.stringify(value)).send.length < 3));
      assert(property(string(), (text) => dialogue.heard(text).send.length < 3));
    }
  });

  test("nothing throws for endlessly nested input", () => {
    const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
    const method = "item/commandExecution/requestApproval";
    const asks = `{"id":0,"method":"${method}","params":{"command":"ls","additionalPermissions":${deep}}}`;
    expect(upTo("running").heard(asks)).toEqual(unknown);
    const thread = `{"id":2,"result":{"thread":{"id":"${ID}"},"cwd":"${CWD}","approvalPolicy":${deep}}}`;
    expect(upTo("thread").heard(thread)).toEqual(unknown);
  });

  test("an answer that comes twice counts once", () => {
    const dialogue = upTo("thread");
    expect(hear(dialogue, { id: 1, result: {} })).toEqual(unknown);
  });
});

describe("entering a thread", () => {
  const resume = ask({ kind: "resume", session: ID, line: "-s workspace-write" });

  test("a resume names the thread and the rights, and begins the turn", () => {
    const dialogue = dialogueOf(resume);
    expect(parsed(dialogue.open())).toMatchObject([{ id: 1, method: "initialize" }]);
    expect(parsed(hear(dialogue, { id: 1, result: {} }))).toEqual([
      { method: "initialized" },
      {
        id: 2,
        method: "thread/resume",
        params: {
          threadId: ID,
          excludeTurns: true,
          cwd: CWD,
          sandbox: "workspace-write",
          approvalPolicy: "on-request",
          approvalsReviewer: "user",
        },
      },
    ]);
    const said = hear(dialogue, { id: 2, result: { thread: { id: ID }, ...opened } });
    expect(said.events).toEqual([{ type: "session", session: ID }]);
    expect(parsed(said)).toEqual([
      {
        id: 3,
        method: "turn/start",
        params: { threadId: ID, input: [{ type: "text", text: "go" }] },
      },
    ]);
    expect(dialogue.waitsFor()).toEqual(["turn/start"]);
  });

  test("a thread other than the requested one is named and gets no message", () => {
    const dialogue = upTo("thread", resume);
    expect(hear(dialogue, { id: 2, result: { thread: { id: OTHER }, ...opened } })).toEqual({
      ...nothing,
      events: [{ type: "session", session: OTHER }],
      over: true,
    });
  });

  const wider: Record<string, object> = {
    "-s danger-full-access": { sandbox: { type: "dangerFullAccess" } },
    "-s externalSandbox": { sandbox: { type: "externalSandbox" } },
    "-s none": { sandbox: null },
    "-C /elsewhere": { cwd: "/elsewhere" },
    'approval policy {"granular":{}}': { approvalPolicy: { granular: {} } },
    "approvals reviewer auto_review": { approvalsReviewer: "auto_review" },
  };
  test.each(Object.entries(wider))("%s is more than requested: no message", (words, more) => {
    const said = hear(upTo("thread", resume), { id: 2, result: { thread: { id: ID }, ...opened, ...more } });
    expect(said).toMatchObject({ send: [], over: true });
    expect(said.events.map(short)).toEqual(["session", "failed usage"]);
    expect(JSON.stringify(said.events)).toContain(JSON.stringify(words).slice(1, -1));
  });

  const limits: [words: string, sandbox: object, then: string][] = [
    ["a network that was closed", { networkAccess: true }, "the network open"],
    ["a folder that was not there", { writableRoots: ["/a", "/"] }, 'writable folders [\\"/\\"]'],
    ["the conversation's first sandbox", { networkAccess: false, writableRoots: ["/a"] }, "session"],
  ];
  test.each(limits)("the server may not widen a sandbox that writes: %s", (_name, sandbox, then) => {
    const began = ["network_access=false", 'writable_roots=["/a"]'];
    const rights = began.flatMap((text) => ["-c", `sandbox_workspace_write.${text}`]);
    const dialogue = upTo("thread", { ...resume, rights });
    const result = { thread: { id: ID }, ...opened, sandbox: { type: "workspaceWrite", ...sandbox } };
    const said = hear(dialogue, { id: 2, result });
    expect(said.over).toBe(then !== "session");
    expect(JSON.stringify(said.events)).toContain(then);
  });

  test("a server that opens with on-request is refused where never was requested", () => {
    const never = ask({ kind: "resume", session: ID, line: "-s read-only", dialogue: { approval: "never" } });
    const said = hear(upTo("thread", never), { id: 2, result: { thread: { id: ID }, ...opened } });
    expect(said.events.map(short)).toEqual(["session", "failed usage"]);
  });

  const strange: Record<string, unknown> = {
    "no thread": {},
    "no id": { thread: {} },
    "an id of another kind": { thread: { id: "--settings=x" } },
    "an id that is a number": { thread: { id: 7 } },
  };
  test.each(Object.entries(strange))("%s: the attempt fails without sending a message", (_name, result) => {
    const said = hear(upTo("thread"), { id: 2, result });
    expect([said.events.map(short), said.send, said.over]).toEqual([["unknown", "failed other"], [], true]);
  });

  const refused: Record<string, string> = {
    "no rollout found for thread id X": "session_lost",
    "session X is archived. Run `codex unarchive X`": "session_lost",
    "thread X already has an active writer": "session_busy",
    "failed to read thread: thread-store internal error: failed to read session metadata": "session_lost",
    "Invalid request: missing field `threadId`": "usage",
    "invalid session id: x": "usage",
    "something else": "other",
  };
  test("a refusal in one word fails the attempt", () =>
    expect(JSON.stringify(hear(upTo("thread"), { id: 2, error: "no way" }))).toContain("no way"));
  test.each(Object.entries(refused))("a refusal fails the attempt: %s", (message, kind) => {
    for (const point of ["open", "thread", "turn"] as const) {
      const id = { open: 1, thread: 2, turn: 3 }[point];
      const said = hear(upTo(point), { id, error: { code: -32_600, message } });
      expect([said.events.map(short), said.send, said.over]).toEqual([[`failed ${kind}`], [], true]);
    }
  });
});

describe("a turn", () => {
  const ends = (id: string, status = "completed") => ({
    method: "turn/completed",
    params: { threadId: ID, turn: { id, status, error: null } },
  });

  test.each(["turn/completed", "turn/started"])("ignores %s of another turn", (method) => {
    const dialogue = upTo("turn");
    expect(hear(dialogue, { ...ends("t0", "interrupted"), method }).over).toBe(false);
    expect(hear(dialogue, { id: 3, result: { turn: { id: "t1" } } }).over).toBe(false);
    expect([hear(dialogue, ends("t0")).over, hear(dialogue, ends("t1")).over]).toEqual([false, true]);
  });

  test("may end before the answer that names it", () => {
    const dialogue = upTo("turn");
    for (let n = 0; n < 100; n += 1) hear(dialogue, ends("t0"));
    expect(hear(dialogue, ends("t1")).over).toBe(false);
    const said = hear(dialogue, { id: 3, result: { turn: { id: "t1" } } });
    expect(said).toMatchObject({ events: [{ type: "turn_ended", result: "completed" }], over: true });
  });

  test("reports text once, and a second message begins a new line", () => {
    const dialogue = upTo("running");
    const delta = (itemId: string, piece: string) =>
      hear(dialogue, { method: "item/agentMessage/delta", params: { threadId: ID, itemId, delta: piece } });
    const done = (id: string, text: string) =>
      hear(dialogue, {
        method: "item/completed",
        params: { threadId: ID, item: { type: "agentMessage", id, text } },
      });
    const all = [
      delta("a", "one "),
      delta("a", "two"),
      done("a", "one two"),
      delta("b", "x"),
      done("b", "xy"),
      done("c", "whole"),
    ];
    expect(all.flatMap(({ events }) => events)).toEqual([
      { type: "text", text: "one " },
      { type: "text", text: "two", delta: true },
      { type: "unknown" },
      { type: "text", text: "x" },
      { type: "text", text: "y", delta: true },
      { type: "text", text: "whole" },
    ]);
  });

  const items: Record<string, [object, string]> = {
    "a web search": [{ type: "webSearch", query: "cats" }, "web_search: cats"],
    "a tool of a server": [
      { type: "mcpToolCall", tool: "find", status: "failed" },
      "mcp_tool_call: find failed",
    ],
    "a moved file": [
      {
        type: "fileChange",
        status: "completed",
        changes: [{ path: `${CWD}/a`, kind: { type: "update", move_path: "/b" }, diff: "" }],
      },
      "file_change: update a → /b ok",
    ],
  };
  test.each(Object.entries(items))("%s", (_name, [item, then]) => {
    const [event] = hear(upTo("running"), {
      method: "item/completed",
      params: { threadId: ID, item },
    }).events;
    if (event?.type !== "tool") throw new Error("no tool");
    const ok = event.ok === undefined ? "" : event.ok ? " ok" : " failed";
    expect(`${event.name}: ${event.detail}${ok}`).toBe(then);
  });

  test("ignores reports about other threads and other turns", () => {
    const dialogue = upTo("running");
    const turn = { id: "t1", status: "completed" };
    for (const params of [
      { threadId: OTHER, turn },
      { threadId: ID, turn: { ...turn, id: "t0" } },
    ])
      expect(hear(dialogue, { method: "turn/completed", params })).toEqual(unknown);
    expect(hear(dialogue, { method: "turn/completed", params: { threadId: ID, turn } }).over).toBe(true);
    expect(hear(dialogue, { method: "turn/completed", params: { threadId: ID, turn } })).toEqual(nothing);
  });

  const work: Record<string, object> = {
    "item/reasoning/textDelta": { itemId: "r", delta: "hm" },
    "item/reasoning/summaryTextDelta": { itemId: "r", delta: "hm" },
    "item/commandExecution/outputDelta": { itemId: "c", delta: "ok" },
    "item/fileChange/patchUpdated": { itemId: "f", changes: [] },
    "item/started": { item: { type: "reasoning", id: "r" } },
    "item/mcpToolCall/progress": { itemId: "m", message: "half" },
    "turn/plan/updated": { plan: [] },
    "thread/compacted": {},
    "serverRequest/resolved": { requestId: 7 },
    "item/agentMessage/delta": { threadId: OTHER, itemId: "a", delta: "of another agent" },
  };
  test.each(Object.entries(work))("takes %s only as a sign of life", (method, params) => {
    expect(hear(upTo("running"), { method, params: { threadId: ID, ...params } })).toEqual(unknown);
  });

  test.each(["thread/status/changed", "account/rateLimits/updated", "mcpServer/startupStatus/updated"])(
    "takes %s for no sign of life",
    (method) => {
      for (const threadId of [ID, OTHER])
        expect(hear(upTo("running"), { method, params: { threadId } })).toEqual(nothing);
    },
  );

  test("takes an unknown end for no result", () => {
    const params = { threadId: ID, turn: { id: "t1", status: "evaporated" } };
    expect(hear(upTo("running"), { method: "turn/completed", params })).toEqual({ ...unknown, over: true });
  });

  const causes: Record<string, [unknown, string]> = {
    "x 1": ["usageLimitExceeded", "rate_limited"],
    "x 2": ["contextWindowExceeded", "context_full"],
    "x 3": ["serverOverloaded", "overloaded"],
    "x 4": ["unauthorized", "auth"],
    "x 5": [{ httpConnectionFailed: { httpStatusCode: null } }, "network"],
    "x 6": [{ httpConnectionFailed: { httpStatusCode: 401 } }, "auth"],
    "x 7": [{ responseTooManyFailedAttempts: { httpStatusCode: 429 } }, "rate_limited"],
    "x 8": ["constructor", "other"],
    "x 9": [null, "other"],
    "Quota exceeded. Check your plan and billing details.": ["usageLimitExceeded", "quota"],
  };
  test.each(Object.entries(causes))("%s", (message, [codexErrorInfo, kind]) => {
    const error = { message, codexErrorInfo, additionalDetails: null };
    const turn = { id: "t1", status: "failed", error };
    const said = hear(upTo("running"), { method: "turn/completed", params: { threadId: ID, turn } });
    expect(said.events.map(short)).toEqual([`failed ${kind}`]);
  });

  test("takes the end of a limit from the limits, whatever the text says", () => {
    const dialogue = upTo("running");
    const resetsAt = NOW / 1000 + 3600;
    const primary = { usedPercent: 100, resetsAt };
    const secondary = { usedPercent: 20, resetsAt: resetsAt + 86_400 };
    hear(dialogue, { method: "account/rateLimits/updated", params: { rateLimits: { primary, secondary } } });
    const message = "You’ve hit your usage limit. Try again at 11:00 PM.";
    const error = { message, codexErrorInfo: "usageLimitExceeded" };
    hear(dialogue, { method: "error", params: { threadId: ID, willRetry: false, error } });
    const turn = { id: "t1", status: "failed", error: null };
    const [event] = hear(dialogue, { method: "turn/completed", params: { threadId: ID, turn } }).events;
    expect(event).toEqual({
      type: "turn_ended",
      result: "failed",
      trouble: { kind: "rate_limited", message, resetsAt: "2026-11-15T09:00:00.000Z" },
    });
  });
});

describe("stopping", () => {
  const stop = { id: 4, method: "turn/interrupt", params: { threadId: ID, turnId: "t1" } };

  test("a running turn gets one request to stop", () => {
    const dialogue = upTo("running");
    expect(parsed(dialogue.interrupt())).toEqual([stop]);
    expect(dialogue.interrupt()).toEqual(nothing);
    // Refused: it may be requested again.
    hear(dialogue, { id: 4, error: { code: -32_600, message: "no active turn to interrupt" } });
    expect(parsed(dialogue.interrupt())).toEqual([{ ...stop, id: 5 }]);
  });

  test("a turn that does not run yet gets the request as soon as it runs", () => {
    const dialogue = upTo("turn");
    expect(dialogue.interrupt()).toEqual(nothing);
    expect(hear(dialogue, { id: 3, result: { turn: { id: "t1" } } })).toEqual(nothing);
    const said = hear(dialogue, { method: "turn/started", params: { threadId: ID, turn: { id: "t1" } } });
    expect(parsed(said)).toEqual([stop]);
  });

  test("a stop before the message keeps the message from being sent", () => {
    const dialogue = upTo("thread");
    expect(dialogue.interrupt()).toEqual(nothing);
    const said = hear(dialogue, { id: 2, result: { thread: { id: ID }, ...opened } });
    expect([said.events.map(short), said.send, said.over]).toEqual([["session", "interrupted"], [], true]);
  });
});

describe("questions", () => {
  const command = (more: object = {}, id: unknown = 0) => ({
    id,
    method: "item/commandExecution/requestApproval",
    params: { kind: "command", threadId: ID, turnId: "t1", itemId: "i1", command: "ls", cwd: CWD, ...more },
  });

  test.each([
    ["accept", "accept"],
    ["accept_for_session", "acceptForSession"],
    ["decline", "decline"],
    ["cancel", "cancel"],
  ] as const)("%s", (decision, word) => {
    const dialogue = upTo("running");
    hear(dialogue, command());
    expect(parsed(dialogue.answer("0", decision))).toEqual([{ id: 0, result: { decision: word } }]);
    expect(dialogue.answer("0", "accept")).toEqual(nothing);
  });

  test("a repeated request is not asked again and gets the same answer", () => {
    const dialogue = upTo("running");
    expect(hear(dialogue, command()).questions).toHaveLength(1);
    expect(hear(dialogue, command())).toEqual(nothing);
    const { send } = dialogue.answer("0", "accept");
    expect(hear(dialogue, command())).toEqual({ ...nothing, send });
  });

  test("one item under two ids is asked once, and both requests get the one answer", () => {
    const dialogue = upTo("running");
    expect(hear(dialogue, command({ startedAtMs: 1 })).questions).toHaveLength(1);
    expect(hear(dialogue, command({ startedAtMs: 2 }, 1))).toEqual(nothing);
    expect(parsed(dialogue.answer("0", "decline"))).toEqual([
      { id: 0, result: { decision: "decline" } },
      { id: 1, result: { decision: "decline" } },
    ]);
    expect(dialogue.answer("1", "accept")).toEqual(nothing);
    expect(parsed(hear(dialogue, command({}, 2)))).toEqual([{ id: 2, result: { decision: "decline" } }]);
  });

  test("the second of two requests for an item still waits when the first is resolved", () => {
    const dialogue = upTo("running");
    hear(dialogue, command());
    hear(dialogue, command({}, 1));
    const resolve = (requestId: number) =>
      hear(dialogue, { method: "serverRequest/resolved", params: { threadId: ID, requestId } }).settled;
    expect(resolve(0)).toEqual([]);
    expect(parsed(dialogue.answer("0", "accept"))).toMatchObject([{ id: 1 }]);
    expect(hear(dialogue, command({}, 5)).send).toHaveLength(1);
    const other = upTo("running");
    hear(other, command());
    hear(other, command({}, 1));
    const params = { threadId: ID, turn: { id: "t1", status: "completed" } };
    expect(hear(other, { method: "turn/completed", params }).settled).toEqual(["0"]);
  });

  test("a flood of requests drops the oldest answered request, and none that waits", () => {
    const dialogue = upTo("running");
    const many = (from: number, count: number) =>
      Array.from({ length: count }, (_, at) => {
        const id = from + at;
        return hear(dialogue, command({ itemId: `i${id}` }, id));
      });
    expect(many(0, 256).every(({ questions }) => questions.length === 1)).toBe(true);
    for (const said of many(256, 3))
      expect([parsed(said), said.questions]).toMatchObject([[{ error: { code: -32_000 } }], []]);
    dialogue.answer("7", "accept");
    expect(many(300, 1)[0]?.questions).toHaveLength(1);
    expect(many(301, 1)[0]?.questions).toEqual([]);
    expect(parsed(dialogue.answer("0", "accept"))).toMatchObject([{ id: 0 }]);
    // Forgotten, so it is asked again.
    expect(many(7, 1)[0]?.questions).toHaveLength(1);
  });

  test("a flood of items that never end keeps the newest", () => {
    const dialogue = upTo("running");
    for (let at = 0; at < 1_000; at += 1) {
      const changes = [{ path: `${CWD}/f${at}`, kind: { type: "add" }, diff: "x" }];
      const item = { type: "fileChange", id: `i${at}`, changes };
      hear(dialogue, { method: "item/started", params: { threadId: ID, item } });
    }
    const whatOf = (at: number) =>
      hear(dialogue, {
        id: at,
        method: "item/fileChange/requestApproval",
        params: { threadId: ID, itemId: `i${at}` },
      }).questions[0]?.what;
    expect([whatOf(999), whatOf(0)]).toEqual(["add f999", "changes to files that Codex did not name"]);
  });

  const others: Record<string, object> = {
    "another command": { command: "rm -r ." },
    "another part of the command": { approvalId: "a2" },
    "another reason": { reason: "it failed inside the sandbox" },
    "another item": { itemId: "i2" },
    "no item": { itemId: null },
    "a wider network": { networkApprovalContext: { host: "a.org", protocol: "https" } },
    "another machine": { environmentId: "remote" },
    "input for it": { kind: "writeStdin" },
  };
  test.each(Object.entries(others))("%s makes another question", (_name, more) => {
    const dialogue = upTo("running");
    hear(dialogue, command());
    dialogue.answer("0", "accept");
    expect(hear(dialogue, command(more, 1)).questions).toMatchObject([{ id: "1" }]);
  });

  test("an id that is reused for something else does not get the first answer", () => {
    const dialogue = upTo("running");
    hear(dialogue, command());
    dialogue.answer("0", "accept");
    const said = hear(dialogue, command({ command: "rm -r ." }));
    expect(parsed(said)).toMatchObject([{ id: 0, error: { code: -32_600 } }]);
    expect(said.questions).toEqual([]);
  });

  test("the ids 0 and 1 and their texts are four requests, none of them ours", () => {
    const dialogue = upTo("turn");
    const ids = [0, 3, "0", "3"].map(
      (id) => hear(dialogue, command({ itemId: JSON.stringify(id) }, id)).questions[0]?.id,
    );
    expect(ids).toEqual(["0", "3", '"0"', '"3"']);
    expect(dialogue.waitsFor()).toEqual(["turn/start"]);
    expect(parsed(dialogue.answer('"3"', "accept"))).toMatchObject([{ id: "3" }]);
  });

  test("a request that the server resolved needs no answer any more", () => {
    const dialogue = upTo("running");
    hear(dialogue, command());
    const params = { threadId: ID, requestId: 0 };
    expect(hear(dialogue, { method: "serverRequest/resolved", params }).settled).toEqual(["0"]);
    expect(dialogue.answer("0", "accept")).toEqual(nothing);
  });

  const kinds: Record<string, [message: object, what: string, told: boolean]> = {
    "a command": [command(), "ls", true],
    "no command": [command({ command: null }), "a command that Codex did not name", false],
    "a host": [
      command({ networkApprovalContext: { host: "a.org", protocol: "https" } }),
      "ls\nnetwork: https a.org",
      true,
    ],
    "input for a command": [command({ kind: "writeStdin" }), "input for ls", false],
    "unnamed files": [
      { id: 0, method: "item/fileChange/requestApproval", params: { itemId: "x", grantRoot: "/r" } },
      "changes to files that Codex did not name\nand anything under /r for the rest of the session",
      false,
    ],
    "a command, as older servers ask": [
      { id: 0, method: "execCommandApproval", params: { command: ["ls", "-l"], cwd: CWD, callId: "c" } },
      "ls -l",
      true,
    ],
    "a patch, as older servers ask": [
      {
        id: 0,
        method: "applyPatchApproval",
        params: { fileChanges: { [`${CWD}/a`]: { type: "add", content: "x" } } },
      },
      "add a",
      true,
    ],
  };
  test.each(Object.entries(kinds))("%s", (_name, [message, what, told]) => {
    const [question] = hear(upTo("running"), message).questions;
    expect(question?.what).toBe(what);
    // Only complete requests can be equal in another process.
    const later = JSON.parse(JSON.stringify(message)) as { params: Record<string, unknown> };
    later.params["itemId"] = "another";
    expect(hear(upTo("running"), later).questions[0]?.key === question?.key).toBe(told);
  });

  test("older servers get answers in their own words", () => {
    const dialogue = upTo("running");
    const params = { command: ["ls"], cwd: CWD };
    const words = (["accept", "accept_for_session", "decline", "cancel"] as const).map((decision, id) => {
      hear(dialogue, { id, method: "execCommandApproval", params: { ...params, callId: `c${id}` } });
      return parsed(dialogue.answer(String(id), decision))[0];
    });
    expect(words.map((word) => (word as { result: { decision: unknown } }).result.decision)).toEqual([
      "approved",
      "approved_for_session",
      { denied: { rejection: "declined" } },
      "abort",
    ]);
  });

  test("a request that nobody can answer is refused and reported", () => {
    const said = hear(upTo("running"), { id: 0, method: "item/tool/requestUserInput", params: {} });
    expect(parsed(said)).toMatchObject([{ id: 0, error: { code: -32_601 } }]);
    expect(said.events.map(short)).toEqual(["notice"]);
  });
});

describe("reading the tape again", () => {
  const line = (more: object) => JSON.stringify({ id: 2, result: { thread: { id: ID } }, ...more });
  const printed = (args: readonly string[]) => codex.printed({ args, interactive: false, message: null });
  const dialogues = [["app-server"], ["app-server", "-c", "a=1"], ["codex.js", "app-server"]];
  test.each(dialogues)("%s: finds the session in the answer about the thread", (...args) => {
    const reader = codex.reader(() => NOW, printed(args));
    expect(reader.line("stdout", line({}))).toEqual([{ type: "session", session: ID }]);
    expect(reader.line("stderr", line({}))).toEqual([]);
  });

  const strange: Record<string, string> = {
    "another answer": line({ id: 3 }),
    "our id as text": line({ id: "2" }),
    "a request": line({ method: "thread/start" }),
    "a report": `{"method":"thread/started","params":{"thread":{"id":"${ID}"}}}`,
    "a key twice": `{"id":2,"result":{},"result":{"thread":{"id":"${ID}"}}}`,
    "no id": line({ result: { thread: { id: "latest" } } }),
    "text of an item": JSON.stringify({ method: "item/completed", params: { item: { text: line({}) } } }),
    "output of exec": `{"type":"thread.started","thread_id":"${ID}"}`,
    "no JSON": "{",
  };
  test.each(Object.entries(strange))("finds no session in %s", (_name, text) => {
    expect(codex.reader(() => NOW, "dialogue").line("stdout", text)).toEqual([{ type: "unknown" }]);
  });

  const others = [[], ["exec", "--json"], ["exec", "-m", "app-server"], ["-m", "app-server", "exec"]];
  test.each(others.map((args) => [args]))("takes %j for no dialogue, whatever is printed", (args) => {
    expect(printed(args)).toBe(args.includes("--json") ? "events" : "text");
  });
});

describe("the command", () => {
  const start: Record<string, string> = {
    "": "app-server | read-only",
    "-m x": "app-server | read-only x",
    "exec -m x -s workspace-write": "app-server | workspace-write x",
    "-c a=1 --enable f --strict-config": "app-server -c a=1 --enable f --strict-config | read-only",
    "-c sandbox_mode=workspace-write": "app-server -c sandbox_mode=workspace-write | workspace-write",
    "-c model=y": "app-server -c model=y | read-only y",
    "--yolo": "app-server | danger-full-access",
    "-C sub": `app-server | read-only in ${CWD}/sub`,
    "-a on-request": "app-server | read-only",
    "--json --color never --skip-git-repo-check": "app-server | read-only",
    "-a never": "option_unkept",
    "--add-dir d": "option_unkept",
    "-p work": "option_unkept",
    "-c default_permissions=p": "option_unkept",
    "--search": "option_unkept",
    "--oss": "option_unkept",
    "--approve-for-me": "option_unkept",
    "--output-schema s": "option_unkept",
    "-o f": "option_unkept",
    "-i a.png": "option_unkept",
    "--ephemeral": "option_unkept",
    "--new": "option_unkept",
    "-s bogus": "usage",
    "-m": "usage",
    "exec fix": "usage",
    "exec resume": "usage",
    review: "usage",
  };
  test.each(Object.entries(start))("starts %s", (line, then) => {
    expect(told(ask({ line }))).toBe(then);
  });

  const again: [line: string, part: Partial<AttemptRequest> & { over?: string }, then: string][] = [
    ["", { rights: ["-s", "workspace-write"] }, "app-server | workspace-write"],
    [
      "-s workspace-write",
      { rights: ["-s", "workspace-write", "-c", "sandbox_workspace_write.network_access=false"] },
      "app-server -c sandbox_workspace_write.network_access=false | workspace-write",
    ],
    ["", {}, "app-server | read-only"],
    ["", { rights: ["-c", "default_permissions=p"] }, "option_unkept"],
    ["", { rightsUnknown: "it is gone" }, "option_unkept"],
    ["-s read-only", { rightsUnknown: "it is gone" }, "app-server | read-only"],
    ["-s read-only", { over: "-s workspace-write" }, "would_widen"],
    ["-s workspace-write", { over: "-s read-only -m y" }, "app-server | read-only y"],
    ["-m x -i a.png --thread-source y", {}, "app-server | read-only x"],
    [
      "-c model_reasoning_effort=high",
      {},
      'app-server -c model_reasoning_effort=high | read-only {"model_reasoning_effort":"high"}',
    ],
    ["", { session: "latest" }, "session_unknown"],
    ["", { kind: "fork" }, "engine_cannot"],
    ["", { interactive: true }, "engine_cannot"],
    ["", { message: null }, "message_invalid"],
    ["exec resume --last", { kind: "fresh", session: null }, "app-server | read-only"],
  ];
  test.each(again)("resumes %s %j", (line, part, then) => {
    expect(told(ask({ kind: "resume", session: ID, line, ...part }))).toBe(then);
  });

  test("reports the fate of each option", () => {
    const { dialogue, ...command } = codex.command(
      ask({
        kind: "resume",
        session: ID,
        line: "-m x --color never -c a=1",
        rights: ["-s", "workspace-write"],
      }),
    );
    expect(dialogue).toBeDefined();
    expect(command).toEqual({
      args: ["app-server", "-c", "a=1"],
      stdin: null,
      env: {},
      headless: true,
      structured: true,
      expects: ID,
      options: {
        kept: ["-c a=1", "-m x"],
        dropped: ["--color never"],
        rewritten: ["no sandbox option → -s workspace-write, as the conversation began"],
      },
      warnings: [expect.stringContaining("--trust-cwd")],
    });
  });

  /** The arguments, and the fields of the request for a thread. */
  function told(asked: AttemptRequest): string {
    try {
      const { args } = codex.command(asked);
      const dialogue = dialogueOf(asked);
      dialogue.open();
      const [, request] = parsed(hear(dialogue, { id: 1, result: {} })) as {
        params: Record<string, string>;
      }[];
      const { sandbox, model, cwd, config } = request?.params ?? {};
      const place = cwd === CWD ? undefined : `in ${cwd}`;
      const fields = [sandbox, model, place, config && JSON.stringify(config)];
      return `${args.join(" ")} | ${fields.filter((field) => field !== undefined).join(" ")}`;
    } catch (error) {
      return error instanceof Fault ? error.code : String(error);
    }
  }
});
