/** The Anthropic Messages API, as Claude Code uses it. */
import type { JsonObject } from "../../lib/json.ts";
import type { ServerResponse } from "node:http";
import {
  type Dialect,
  EVENT_STREAM,
  type ModelFailure,
  objectsIn,
  outputOf,
  type ModelRefusal,
  retryAfter,
  type SeenRequest,
  split,
  sseOfType,
  textOf,
  textsIn,
} from "./dialect.ts";

let counter = 0;

export const messages: Dialect = {
  api: "messages",
  matches: (method, path) => method === "POST" && /\/v1\/messages(\?|$)/.test(path),

  read(_path, body) {
    const all = objectsIn(body["messages"]);
    const said = all.map((_one, at) => saidByUser(all, at));
    const lastUser = said.findLastIndex((texts) => split(texts).users.length > 0);
    return {
      api: "messages",
      model: textOf(body["model"]),
      stream: body["stream"] === true,
      ...split(said.flat()),
      assistants: all.filter((one) => one["role"] === "assistant").length,
      toolResults: results(all).length,
      toolOutputs: results(all.slice(lastUser + 1)).map((one) => outputOf(one["content"])),
      system: textsIn(body["system"]).join("\n"),
      tools: objectsIn(body["tools"]).map((tool) => textOf(tool["name"])),
    };
  },

  voice(seen) {
    const id = `msg_${String(++counter).padStart(8, "0")}`;
    let reason = "end_turn";
    let isOpen = false;
    return {
      open(response) {
        response.writeHead(200, { ...EVENT_STREAM, "request-id": `req_${id}` });
        const head = {
          id,
          type: "message",
          role: "assistant",
          model: seen.model,
          content: [],
          stop_reason: null,
          stop_sequence: null,
        };
        sseOfType(response, "message_start", {
          message: { ...head, usage: { input_tokens: 100, output_tokens: 1 } },
        });
      },
      text(response, text) {
        if (!isOpen) {
          sseOfType(response, "content_block_start", { index: 0, content_block: { type: "text", text: "" } });
          isOpen = true;
        }
        sseOfType(response, "content_block_delta", { index: 0, delta: { type: "text_delta", text } });
      },
      tool(response, command) {
        reason = "tool_use";
        const block = { ...toolUse(command), input: {} };
        sseOfType(response, "content_block_start", { index: 0, content_block: block });
        const delta = { type: "input_json_delta", partial_json: JSON.stringify(toolUse(command).input) };
        sseOfType(response, "content_block_delta", { index: 0, delta });
        isOpen = true;
      },
      close: (response) => close(response, reason, isOpen),
    };
  },

  refuse,
  whole: (seen, text) => whole(seen, [{ type: "text", text }], "end_turn"),
  wholeTool: (seen, command) => whole(seen, [toolUse(command)], "tool_use"),
};

/** What Claude Code 2.1.197 adds after an interrupted turn, and its own answer. A person may type the same. */
const [BROKEN_OFF, ITS_ANSWER] = ["Continue from where you left off.", "No response requested."];

function saidByUser(all: readonly JsonObject[], at: number): readonly string[] {
  const texts = all[at]?.["role"] === "user" ? textsIn(all[at]["content"]) : [];
  const next = all.slice(at + 1).find((one) => one["role"] !== "system");
  const isNote = textsIn(next?.["content"]).includes(ITS_ANSWER) && texts.at(-1) === BROKEN_OFF;
  return isNote ? texts.slice(0, -1) : texts;
}

function results(all: readonly JsonObject[]): readonly JsonObject[] {
  return all.flatMap((one) => objectsIn(one["content"])).filter((part) => part["type"] === "tool_result");
}

function close(response: ServerResponse, reason: string, isOpen: boolean): void {
  if (isOpen) sseOfType(response, "content_block_stop", { index: 0 });
  const delta = { stop_reason: reason, stop_sequence: null };
  sseOfType(response, "message_delta", { delta, usage: { output_tokens: 10 } });
  sseOfType(response, "message_stop");
  response.end();
}

function toolUse(command: string) {
  const input = { command, description: "scripted", timeout: 120_000 };
  return { type: "tool_use", id: `toolu_${String(++counter).padStart(8, "0")}`, name: "Bash", input };
}

function whole(seen: SeenRequest, content: readonly object[], reason: string) {
  const head = { id: `msg_${++counter}`, type: "message", role: "assistant", model: seen.model, content };
  return {
    ...head,
    stop_reason: reason,
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 10 },
  };
}

function refuse(failure: ModelFailure, nowMs: number): ModelRefusal {
  const error = (status: number, type: string, message: string) => ({
    status,
    body: { type: "error", error: { type, message } },
  });
  switch (failure.kind) {
    case "rate_limit":
      return {
        ...error(429, "rate_limit_error", "This request would exceed your organization's rate limit."),
        ...retryAfter(failure.resetSeconds),
      };
    case "usage_limit": {
      const at = new Date(nowMs + failure.resetSeconds * 1000).toISOString();
      const text = `You have reached your specified API usage limits. You will regain access at ${at}; resets at ${at}.`;
      const headers = { "retry-after": String(failure.resetSeconds), "x-should-retry": "false" };
      return { ...error(429, "rate_limit_error", text), headers };
    }
    case "quota":
      return error(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API.",
      );
    case "unauthorized":
      return error(401, "authentication_error", "invalid x-api-key");
    case "forbidden":
      return error(
        403,
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
      );
    case "server_error":
      return error(500, "api_error", "Internal server error");
    case "overloaded":
      return error(529, "overloaded_error", "Overloaded");
    case "context":
      return error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum");
  }
}
