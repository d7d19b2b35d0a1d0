/** How Claude Code 2.1.325 speaks in print mode: text, one JSON object, or stream-json. */
import { randomUUID } from "node:crypto";
import type { JsonObject } from "../../src/lib/json.ts";
import type { Output } from "../../src/demo/output.ts";
import {
  type DemoConversation,
  type DemoTrouble,
  FORGED_UUID,
  type Request,
  type DemoVoice,
} from "../../src/demo/persona.ts";
import { textVoice } from "../../src/demo/text-voice.ts";

export const CLAUDE_VERSION = "2.1.325";

const forgery = JSON.stringify({
  type: "system",
  subtype: "init",
  session_id: FORGED_UUID,
  cwd: "/",
  tools: [],
});

/** API errors are answers here: on stdout, with exit code 1. */
export function plainVoice(out: Output): DemoVoice {
  return {
    ...textVoice(out, forgery, (trouble) => wordsFor(trouble).text),
    failed(trouble) {
      out.line(wordsFor(trouble).text);
      return 1;
    },
    interrupted: () => 0,
  };
}

/** stream-json prints every event, json only the last. Text comes whole. */
export function jsonVoice(request: Request, talk: DemoConversation, out: Output): DemoVoice {
  const session_id = talk.id;
  let said = "";
  let pending = "";
  const emit = (line: JsonObject): void => {
    if (request.format === "jsonl") out.json({ ...line, session_id, uuid: randomUUID() });
  };
  const flush = (): void => {
    if (pending !== "") emit(assistant(request, { type: "text", text: pending }));
    pending = "";
  };
  return {
    forgery,
    session: () => emit(init(request)),
    turnStarted: () => undefined,
    text(piece) {
      said += piece;
      pending += piece;
    },
    toolStarted(id, shown, command) {
      flush();
      const name = shown === "shell" ? "Bash" : shown;
      emit(assistant(request, { type: "tool_use", id: `toolu_${id}`, name, input: { command } }));
    },
    toolEnded({ id, output }) {
      emit(user({ tool_use_id: `toolu_${id}`, type: "tool_result", content: output, is_error: false }));
    },
    retry(trouble, attempt, delayMs) {
      const wait = { attempt, max_retries: 10, retry_delay_ms: delayMs };
      const why = { error_status: trouble.status, error: wordsFor(trouble).error };
      emit({ type: "system", subtype: "api_retry", ...wait, ...why });
    },
    completed() {
      flush();
      const end = { is_error: false, api_error_status: null, terminal_reason: "completed" };
      out.json(result(session_id, { ...end, stop_reason: "end_turn", result: said }));
      return 0;
    },
    failed(trouble) {
      const { text, error } = wordsFor(trouble);
      const status = { api_error_status: trouble.status };
      emit({ ...synthetic(text), error, is_api_error_message: true, ...status });
      const terminal_reason = trouble.kind === "context_full" ? "prompt_too_long" : "api_error";
      const end = { is_error: true, ...status, terminal_reason, stop_reason: "stop_sequence" };
      out.json(result(session_id, { ...end, result: text }));
      return 1;
    },
    interrupted() {
      emit(user({ type: "text", text: "[Request interrupted by user]" }));
      return 0;
    },
  };
}

function init(request: Request): JsonObject {
  return {
    type: "system",
    subtype: "init",
    cwd: request.cwd,
    tools: ["Bash", "Read"],
    mcp_servers: [],
    model: request.facts["model"],
    permissionMode: request.facts["permission-mode"],
    apiKeySource: "ANTHROPIC_API_KEY",
    claude_code_version: CLAUDE_VERSION,
  };
}

function assistant(request: Request, content: JsonObject): JsonObject {
  const role = { id: "msg_demo", type: "message", role: "assistant", model: request.facts["model"] };
  return {
    type: "assistant",
    message: { ...role, content: [content], stop_reason: null },
    parent_tool_use_id: null,
  };
}

function synthetic(text: string): JsonObject {
  const role = { model: "<synthetic>", role: "assistant", type: "message" };
  return {
    type: "assistant",
    message: { ...role, content: [{ type: "text", text }] },
    parent_tool_use_id: null,
  };
}

function user(content: JsonObject): JsonObject {
  return { type: "user", message: { role: "user", content: [content] }, parent_tool_use_id: null };
}

/** `type` is not the first key, as with the real one. */
function result(session_id: string, fields: JsonObject): JsonObject {
  const usage = { input_tokens: 10, cache_read_input_tokens: 0, output_tokens: 12 };
  return {
    duration_api_ms: 1,
    session_id,
    total_cost_usd: 0,
    usage,
    permission_denials: [],
    subtype: "success",
    num_turns: 1,
    ...fields,
    type: "result",
    uuid: randomUUID(),
  };
}

const WORDS: Readonly<Record<DemoTrouble["kind"], { readonly text: string; readonly error: string }>> = {
  rate_limited: { text: "API Error: Request rejected (429) · demo: rate limited", error: "rate_limit" },
  quota: { text: "Credit balance is too low", error: "billing_error" },
  auth: { text: "Invalid API key · Fix external API key", error: "authentication_failed" },
  overloaded: { text: "API Error: 500 demo: internal error", error: "server_error" },
  network: { text: "API Error: Connection refused (ECONNREFUSED)", error: "server_error" },
  context_full: { text: "Prompt is too long", error: "invalid_request" },
  busy: { text: "API Error: demo: busy", error: "unknown" },
};

export function wordsFor({ kind, resetsAt }: DemoTrouble): { readonly text: string; readonly error: string } {
  if (kind !== "rate_limited" || resetsAt === null) return WORDS[kind];
  return { text: `Claude AI usage limit reached|${Date.parse(resetsAt) / 1000}`, error: "rate_limit" };
}
