/**
 * The types that the model server and the four API dialects share. A dialect turns a request into `Seen` and an act
 * into bytes; it decides nothing.
 */
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { ServerResponse } from "node:http";

export type Api = "responses" | "messages" | "gemini" | "chat";

/** The contents of a request, in the same terms for every API. */
export interface SeenRequest {
  readonly api: Api;
  readonly model: string;
  readonly stream: boolean;
  /** Text parts of the role user, in order, without parts that the program added. */
  readonly users: readonly string[];
  /** User parts that the program added: its environment, reminders, notes of an interruption. */
  readonly context: readonly string[];
  readonly assistants: number;
  readonly toolResults: number;
  /** Tool results after the user's last text. */
  readonly toolOutputs: readonly string[];
  readonly system: string;
  /** Names of the offered tools. A request without tools is a side request (title, routing, summary). */
  readonly tools: readonly string[];
}

export type ModelFailure =
  | { readonly kind: "rate_limit"; readonly resetSeconds: number | null }
  | { readonly kind: "usage_limit"; readonly resetSeconds: number }
  | { readonly kind: "quota" | "unauthorized" | "forbidden" | "server_error" | "overloaded" | "context" };

/** A refusal in the words of one API. `sse` is sent with status 200 as a stream. */
export interface ModelRefusal {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly sse?: string;
}

/** Writes an answer piece by piece, in the frames of its dialect. */
export interface ModelVoice {
  /** Status and headers, and the frames before any text. */
  open(response: ServerResponse): void;
  text(response: ServerResponse, text: string): void;
  tool(response: ServerResponse, command: string, escalate: boolean): void;
  /** The frames after the last piece, and the end of the response. */
  close(response: ServerResponse): void;
}

export interface Dialect {
  readonly api: Api;
  /** Null: not a request of this API. */
  readonly matches: (method: string, path: string) => boolean;
  read(path: string, body: JsonObject): SeenRequest;
  voice(seen: SeenRequest): ModelVoice;
  refuse(failure: ModelFailure, nowMs: number): ModelRefusal;
  /** The answer to a request without streaming. */
  whole(seen: SeenRequest, text: string): unknown;
  wholeTool(seen: SeenRequest, command: string): unknown;
}

export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The texts of a content that is a string or a list of parts. */
export function textsIn(content: unknown): readonly string[] {
  if (typeof content === "string") return [content];
  return objectsIn(content).flatMap((part) => (typeof part["text"] === "string" ? [part["text"]] : []));
}

/** A tool's result in any form. */
export function outputOf(value: unknown): string {
  const texts = textsIn(value);
  return texts.length > 0 ? texts.join("\n") : (JSON.stringify(value) ?? "");
}

/** Text that an engine adds in the user's name: markup around all of it, or a known note. */
export function isContext(text: string): boolean {
  return isElement(text.trim().toLowerCase()) || NOTES.some((note) => note.test(text));
}

function isElement(text: string): boolean {
  const [opening, name] = /^<([a-z][a-z0-9_-]*)/.exec(text) ?? [];
  if (opening === undefined) return false;
  const closing = `</${name}>`;
  const end = text.indexOf(">", opening.length);
  return end !== -1 && end < text.length - closing.length && text.endsWith(closing);
}

/** Replaces the conversation before a compaction. */
const SUMMARIES: readonly RegExp[] = [
  /^Another language model started to solve this problem/,
  /^\[earlier conversation truncated/,
  /^This session is being continued from a previous conversation/,
  /^What did we do so far\?$/,
];

export function isSummary(text: string): boolean {
  return SUMMARIES.some((summary) => summary.test(text));
}

const NOTES: readonly RegExp[] = [
  /^\[Request interrupted by user/,
  /^# AGENTS\.md instructions/,
  ...SUMMARIES,
  /^This is the Gemini CLI\./,
  /^\s*$/,
];

/** A request to summarize the conversation, which offers tools like any turn. */
export function isCompaction(seen: SeenRequest): boolean {
  return seen.users.some((text) => text.startsWith("CRITICAL: Respond with TEXT ONLY"));
}

export function split(texts: readonly string[]): {
  readonly users: readonly string[];
  readonly context: readonly string[];
} {
  return { users: texts.filter((text) => !isContext(text)), context: texts.filter(isContext) };
}

/** A frame whose event is the type of its data. */
export function sseOfType(response: ServerResponse, type: string, data: object = {}): void {
  sse(response, { type, ...data }, type);
}

export function sse(response: ServerResponse, data: unknown, event?: string): void {
  response.write(`${event === undefined ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`);
}

/** The header that names the end of a limit, if the failure has one. */
export function retryAfter(seconds: number | null): Pick<ModelRefusal, "headers"> {
  return seconds === null ? {} : { headers: { "retry-after": String(seconds) } };
}

/** A refusal of OpenAI's APIs. */
export function openAiRefusal(status: number, type: string, message: string): ModelRefusal {
  return { status, body: { error: { type, code: type, message } } };
}

/** The failures that OpenAI's two APIs report in the same words. */
export const OPENAI_REFUSALS = {
  rate_limit: openAiRefusal(429, "rate_limit_exceeded", "Rate limit reached for requests."),
  quota: openAiRefusal(
    429,
    "insufficient_quota",
    "You exceeded your current quota, please check your plan and billing details.",
  ),
  unauthorized: openAiRefusal(401, "invalid_api_key", "Incorrect API key provided."),
  forbidden: openAiRefusal(403, "permission_denied", "You are not allowed to use this model."),
  server_error: openAiRefusal(500, "server_error", "The server had an error."),
  overloaded: openAiRefusal(503, "server_is_overloaded", "The model is overloaded."),
};

export const EVENT_STREAM = { "content-type": "text/event-stream", "cache-control": "no-store" };
