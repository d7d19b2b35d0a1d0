/** The OpenAI Responses API, as Codex uses it. */
import type { JsonObject } from "../../lib/json.ts";
import {
  type Dialect,
  EVENT_STREAM,
  type ModelFailure,
  objectsIn,
  OPENAI_REFUSALS,
  outputOf,
  type ModelRefusal,
  retryAfter,
  type SeenRequest,
  split,
  sseOfType,
  textOf,
  textsIn,
} from "./dialect.ts";

const USAGE = {
  input_tokens: 100,
  input_tokens_details: null,
  output_tokens: 10,
  output_tokens_details: null,
  total_tokens: 110,
};
let counter = 0;

export const responses: Dialect = {
  api: "responses",
  matches: (method, path) => method === "POST" && path.endsWith("/responses"),

  read(_path, body) {
    const input = objectsIn(body["input"]);
    const of = (role: string) => input.filter((item) => item["type"] === "message" && item["role"] === role);
    const results = input.filter(isResult);
    const lastUser = input.findLastIndex(
      (item) => item["role"] === "user" && split(textsIn(item["content"])).users.length > 0,
    );
    return {
      api: "responses",
      model: textOf(body["model"]),
      stream: body["stream"] === true,
      ...split(of("user").flatMap((item) => textsIn(item["content"]))),
      assistants: of("assistant").length,
      toolResults: results.length,
      toolOutputs: input
        .slice(lastUser + 1)
        .filter(isResult)
        .map((item) => outputOf(item["output"])),
      system: [
        textOf(body["instructions"]),
        ...of("developer").flatMap((item) => textsIn(item["content"])),
      ].join("\n"),
      tools: objectsIn(body["tools"]).map((tool) => textOf(tool["name"]) || textOf(tool["type"])),
    };
  },

  voice(seen) {
    const id = `resp_${++counter}`;
    const said: string[] = [];
    return {
      open(response) {
        response.writeHead(200, EVENT_STREAM);
        sseOfType(response, "response.created", { response: { id } });
      },
      text(response, text) {
        if (said.length === 0) {
          const item = { type: "message", role: "assistant", id: `msg_${id}`, content: [] };
          sseOfType(response, "response.output_item.added", { output_index: 0, item });
        }
        said.push(text);
        const at = { output_index: 0, content_index: 0, item_id: `msg_${id}` };
        sseOfType(response, "response.output_text.delta", { ...at, delta: text });
      },
      tool(response, command, escalate) {
        const item = call(seen, command, `call_${id}`, escalate);
        sseOfType(response, "response.output_item.done", { output_index: 0, item });
      },
      close(response) {
        if (said.length > 0) {
          const content = [{ type: "output_text", text: said.join("") }];
          const item = { type: "message", role: "assistant", id: `msg_${id}`, content };
          sseOfType(response, "response.output_item.done", { output_index: 0, item });
        }
        sseOfType(response, "response.completed", { response: { id, usage: USAGE } });
        response.end();
      },
    };
  },

  refuse,
  whole: (_seen, text) => ({ id: "resp", output: [message(text)], usage: USAGE }),
  wholeTool: (seen, command) => ({ id: "resp", output: [call(seen, command, "call_1")], usage: USAGE }),
};

const ESCALATED = { sandbox_permissions: "require_escalated", justification: "the sandbox is in the way" };

function isResult(item: JsonObject): boolean {
  return textOf(item["type"]).endsWith("_call_output");
}

function message(text: string) {
  return { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
}

/** The shell tool has several names; the request lists the offered one. */
function call(seen: SeenRequest, command: string, id: string, escalate = false) {
  const name =
    ["exec_command", "shell_command", "shell", "local_shell"].find((one) => seen.tools.includes(one)) ??
    "exec_command";
  const args =
    name === "exec_command"
      ? { cmd: command, yield_time_ms: 30_000 }
      : name === "shell_command"
        ? { command }
        : { command: ["bash", "-lc", command] };
  return {
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name,
    arguments: JSON.stringify({ ...args, ...(escalate ? ESCALATED : {}) }),
  };
}

function refuse(failure: ModelFailure, nowMs: number): ModelRefusal {
  switch (failure.kind) {
    case "rate_limit":
      return { ...OPENAI_REFUSALS.rate_limit, ...retryAfter(failure.resetSeconds) };
    case "usage_limit": {
      const at = Math.floor(nowMs / 1000) + failure.resetSeconds;
      const more = { plan_type: "plus", resets_at: at, resets_in_seconds: failure.resetSeconds };
      const error = { type: "usage_limit_reached", message: "The usage limit has been reached", ...more };
      return { status: 429, body: { error } };
    }
    case "quota":
    case "unauthorized":
    case "forbidden":
    case "server_error":
    case "overloaded":
      return OPENAI_REFUSALS[failure.kind];
    case "context": {
      const data = {
        code: "context_length_exceeded",
        message: "Your input exceeds the context window of this model.",
      };
      const frame = {
        type: "response.failed",
        response: { id: "resp_context", status: "failed", error: data },
      };
      return { status: 200, body: null, sse: `event: response.failed\ndata: ${JSON.stringify(frame)}\n\n` };
    }
  }
}
