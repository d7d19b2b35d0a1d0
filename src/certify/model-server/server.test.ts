/** The four dialects, asked as the engines ask. */
import { expect, test } from "vitest";
import { unknownDirectives } from "./directives.ts";
import { messages } from "./messages.ts";
import { startModelServer } from "./server.ts";

const tools = { responses: [{ type: "function", name: "shell" }], messages: [{ name: "Bash" }] };

/** Path and body of a turn with a history of one message and one answer. */
const DIALECTS: Record<string, (last: string) => [path: string, body: object]> = {
  responses: (last) => [
    "/v1/responses",
    {
      model: "m",
      stream: true,
      tools: tools.responses,
      input: [
        message("user", "first"),
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] },
        message("user", last),
      ],
    },
  ],
  messages: (last) => [
    "/v1/messages?beta=true",
    {
      model: "m",
      stream: true,
      tools: tools.messages,
      messages: [
        { role: "user", content: "first" },
        { role: "assistant", content: "a" },
        { role: "user", content: [{ type: "text", text: last }] },
      ],
    },
  ],
  gemini: (last) => [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    {
      tools: [{ functionDeclarations: [{ name: "run_shell_command" }] }],
      contents: [
        { role: "user", parts: [{ text: "first" }] },
        { role: "model", parts: [{ text: "a" }] },
        { role: "user", parts: [{ text: last }] },
      ],
    },
  ],
  chat: (last) => [
    "/v1/chat/completions",
    {
      model: "m",
      stream: true,
      tools: [{ type: "function", function: { name: "bash" } }],
      messages: [
        { role: "user", content: "first" },
        { role: "assistant", content: "a" },
        { role: "user", content: last },
      ],
    },
  ],
};

function message(role: string, text: string) {
  return { type: "message", role, content: [{ type: "input_text", text }] };
}

const names = Object.keys(DIALECTS);

async function ask(name: string, last: string) {
  await using server = await startModelServer();
  const [path, body] = DIALECTS[name]?.(last) ?? ["", {}];
  const answer = await fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
  return {
    status: answer.status,
    text: await answer.text(),
    headers: answer.headers,
    seen: server.requests[0],
  };
}

test.each(names)("%s: the server repeats the message that it received", async (name) => {
  const { status, text, seen } = await ask(name, "second");
  expect(status).toBe(200);
  expect(text).toContain("SEEN users=2 assistants=1 tools=0");
  expect(seen).toMatchObject({
    api: name,
    model: "m",
    kind: "turn",
    users: ["first", "second"],
    assistants: 1,
  });
});

test.each(names)("%s: the server calls a tool on cue", async (name) => {
  const { text, seen } = await ask(name, "run @@tool:echo hello");
  expect(seen?.act).toBe("tool");
  expect(text).toContain("echo hello");
});

test("responses: the server asks for a command that needs approval, and for a patch", async () => {
  expect((await ask("responses", "run @@escalate:echo hello")).text).toContain("require_escalated");
  expect((await ask("responses", "run @@tool:echo hello")).text).not.toContain("require_escalated");
  expect((await ask("responses", "run @@patch:new.txt")).text).toContain("*** Add File: new.txt");
});

const REFUSALS: Record<string, readonly number[]> = {
  "@@429": [429],
  "@@429:reset=60": [429],
  "@@usage-limit:60": [429],
  "@@quota": [429, 400],
  "@@401": [401],
  "@@403": [403],
  "@@500": [500],
  "@@529": [503, 529],
  "@@context": [200, 400],
};

test.each(names.flatMap((name) => Object.keys(REFUSALS).map((directive) => [name, directive] as const)))(
  "%s: the server refuses on cue: %s",
  async (name, directive) => {
    const { status, seen, text } = await ask(name, `please ${directive}`);
    expect(REFUSALS[directive]).toContain(status);
    expect(seen?.act).toBe("refuse");
    expect(text).not.toContain("SEEN");
    const inSeconds = seen?.resetsAtMs == null ? null : Math.round((seen.resetsAtMs - seen.atMs) / 1000);
    expect(inSeconds).toBe(directive.endsWith("60") ? 60 : null);
  },
);

test.each(names)("%s: the server breaks off in the middle", async (name) => {
  await expect(ask(name, "please @@drop")).rejects.toThrow();
});

test("the server notices an engine that calls home", async () => {
  await using server = await startModelServer();
  await fetch(`${server.url}/telemetry`, { method: "POST", body: "{}" });
  expect(server.strays).toEqual([{ method: "POST", path: "/telemetry" }]);
});

test.each(names)("%s: an unknown model name is an error", async (name) => {
  const { status, text } = await ask(name, "Go on. @@boguss");
  expect(status).toBe(500);
  expect(text).toContain("the model knows no directive @@boguss");
});

test.each([
  ["Go on. @@429:reset=60 {hold}", []],
  ["no directive at all", []],
  ["@@boguss, then @@silent", ["boguss"]],
  ["@@ alone", [""]],
])("the server finds the unknown directives in %j", (text, unknown) => {
  expect(unknownDirectives(text)).toEqual(unknown);
});

test("Claude's note to itself after an interrupted turn is no user message, unless a person wrote it", () => {
  const text = (words: string) => ({ type: "text", text: words });
  const note = "Continue from where you left off.";
  const { users } = messages.read("/v1/messages", {
    messages: [
      { role: "user", content: [text("first"), text(note)] },
      { role: "system", content: [text("skills")] },
      { role: "assistant", content: [text("No response requested.")] },
      { role: "user", content: [text(note)] },
    ],
  });
  expect(users).toEqual(["first", note]);
});
