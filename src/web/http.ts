/** Reads requests and writes replies. Every reply has the same headers, errors included. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault } from "../core/faults.ts";
import { isObject, type JsonObject, parseJson } from "../lib/json.ts";
import { HEADERS, type Refusal, type WebCode } from "./guard.ts";
import type { BytesReply } from "./reply.ts";

const MAX_BODY = 1024 * 1024;

/** A request that no command saw. */
export class BadRequest extends Error {
  readonly refusal: Refusal;

  constructor(status: number, code: WebCode, message: string) {
    super(message);
    this.refusal = { status, code, message };
  }
}

export function headerOf(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name];
  return typeof value === "string" ? value : null;
}

export const bearerOf = (request: IncomingMessage) =>
  /^Bearer ([\w-]{20,200})$/.exec(headerOf(request, "authorization") ?? "")?.[1] ?? null;

export function cookieOf(request: IncomingMessage, name: string): string | null {
  const pairs = (headerOf(request, "cookie") ?? "").split("; ").map((pair) => pair.split("="));
  return pairs.find(([key]) => key === name)?.[1] ?? null;
}

/** Without the query. */
export const pathOf = (request: IncomingMessage) => (request.url ?? "").split("?", 1)[0] ?? "";

export function queryOf(request: IncomingMessage): JsonObject {
  const [, text = ""] = (request.url ?? "").split(/\?(.*)/s);
  const pairs = [...new URLSearchParams(text)];
  if (new Set(pairs.map(([name]) => name)).size !== pairs.length)
    throw new BadRequest(400, "not_found", "A parameter of the query occurs twice.");
  return Object.fromEntries(pairs);
}

export async function readBody(request: IncomingMessage): Promise<JsonObject> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_BODY) throw new BadRequest(413, "too_large", "The body is larger than 1 MiB.");
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof BadRequest) throw error;
    throw new BadRequest(400, "not_found", "The request ended before its body.");
  }
  const body = size === 0 ? {} : parseJson(Buffer.concat(chunks).toString("utf8"));
  if (isObject(body)) return body;
  throw new Fault("usage", "The body must be a JSON object.");
}

export function sendError(response: ServerResponse, { status, code, message }: Refusal): void {
  sendJson(response, status, { ok: false, error: { code, message, facts: {} } });
}

export function sendJson(response: ServerResponse, status: number, body: JsonObject): void {
  send(response, status, JSON.stringify(body), {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
  });
}

export function sendBytes(response: ServerResponse, { bytes, headers }: BytesReply): void {
  send(response, 200, bytes, {
    "Content-Type": "application/octet-stream",
    "Cache-Control": "no-store",
    ...headers,
  });
}

export function send(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  headers: Readonly<Record<string, string>>,
): void {
  // The client is gone, or the request was not read to its end.
  if (response.headersSent) return void response.destroy();
  if (!response.req.complete) response.setHeader("Connection", "close");
  response.writeHead(status, { ...HEADERS, ...headers, "Content-Length": Buffer.byteLength(body) });
  response.end(response.req.method === "HEAD" ? undefined : body);
}
