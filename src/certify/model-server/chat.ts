/** OpenAI chat completions, as OpenCode uses them with a custom provider. */
import { isObject } from "../../lib/json.ts";
import type { ServerResponse } from "node:http";
import {
  type Dialect,
  EVENT_STREAM,
  type ModelFailure,
  objectsIn,
  OPENAI_REFUSALS,
  openAiRefusal,
  outputOf,
  type ModelRefusal,
  retryAfter,
  type SeenRequest,
  split,
  sse,
  textOf,
  textsIn,
} from "./dialect.ts";

const USAGE = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };

export const chat: Dialect = {
  api: "chat",
  matches: (method, path) => method === "POST" && path.endsWith("/chat/completions"),

  read(_path, body) {
    const all = objectsIn(body["messages"]);
    const of = (role: string) => all.filter((one) => one["role"] === role);
    const lastUser = all.findLastIndex(
      (one) => one["role"] === "user" && split(textsIn(one["content"])).users.length > 0,
    );
    return {
      api: "chat",
      model: textOf(body["model"]),
      stream: body["stream"] === true,
      ...split(of("user").flatMap((one) => textsIn(one["content"]))),
      assistants: of("assistant").length,
      toolResults: of("tool").length,
      toolOutputs: all
        .slice(lastUser + 1)
        .filter((one) => one["role"] === "tool")
        .map((one) => outputOf(one["content"])),
      system: of("system")
        .flatMap((one) => textsIn(one["content"]))
        .join("\n"),
      tools: objectsIn(body["tools"]).map((tool) =>
        isObject(tool["function"]) ? textOf(tool["function"]["name"]) : "",
      ),
    };
  },

  voice(seen) {
    let reason = "stop";
    return {
      open(response) {
        response.writeHead(200, EVENT_STREAM);
        chunk(response, seen, { role: "assistant", content: "" });
      },
      text: (response, text) => chunk(response, seen, { content: text }),
      tool(response, command) {
        reason = "tool_calls";
        chunk(response, seen, { tool_calls: [{ index: 0, ...call(command) }] });
      },
      close(response) {
        chunk(response, seen, {}, reason);
        response.write("data: [DONE]\n\n");
        response.end();
      },
    };
  },

  refuse,
  whole: (seen, text) => whole(seen, { role: "assistant", content: text }, "stop"),
  wholeTool: (seen, command) =>
    whole(seen, { role: "assistant", content: null, tool_calls: [call(command)] }, "tool_calls"),
};

let counter = 0;

function chunk(
  response: ServerResponse,
  seen: SeenRequest,
  delta: object,
  reason: string | null = null,
): void {
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: seen.model };
  sse(response, {
    ...head,
    choices: [{ index: 0, delta, finish_reason: reason }],
    ...(reason === null ? {} : { usage: USAGE }),
  });
}

function call(command: string) {
  const args = JSON.stringify({ command, description: "scripted" });
  return { id: `call_${++counter}`, type: "function", function: { name: "bash", arguments: args } };
}

function whole(seen: SeenRequest, message: object, reason: string) {
  const head = { id: "chatcmpl-1", object: "chat.completion", created: 1, model: seen.model };
  return { ...head, choices: [{ index: 0, message, finish_reason: reason }], usage: USAGE };
}

function refuse(failure: ModelFailure): ModelRefusal {
  // Without this header OpenCode waits longer and longer between six tries.
  const soon = { headers: { "retry-after-ms": "20" } };
  switch (failure.kind) {
    case "rate_limit":
      return {
        ...OPENAI_REFUSALS.rate_limit,
        ...(failure.resetSeconds === null ? soon : retryAfter(failure.resetSeconds)),
      };
    case "usage_limit": {
      const text = `Usage limit reached. Try again in ${failure.resetSeconds} seconds.`;
      return { ...openAiRefusal(429, "usage_limit_reached", text), ...retryAfter(failure.resetSeconds) };
    }
    case "quota":
    case "server_error":
    case "overloaded":
      return { ...OPENAI_REFUSALS[failure.kind], ...soon };
    case "unauthorized":
    case "forbidden":
      return OPENAI_REFUSALS[failure.kind];
    case "context":
      return openAiRefusal(
        400,
        "context_length_exceeded",
        "This model's maximum context length is 100000 tokens. However, your messages resulted in 120000 tokens.",
      );
  }
}
