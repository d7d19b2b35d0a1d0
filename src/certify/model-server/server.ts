/**
 * A scripted model on loopback that records its requests: OpenAI Responses, Anthropic Messages, Gemini and OpenAI chat
 * completions on one port. `GET /requests` returns all requests, `POST /control` scripts it.
 */
import { isObject, type JsonObject } from "../../lib/json.ts";
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { chat } from "./chat.ts";
import { type ModelAct, actFor, sawText } from "./directives.ts";
import { gemini } from "./gemini.ts";
import { messages } from "./messages.ts";
import { responses } from "./responses.ts";
import { type Dialect, EVENT_STREAM, isCompaction, type SeenRequest } from "./dialect.ts";

const DIALECTS: readonly Dialect[] = [responses, messages, gemini, chat];

/** One request, as `GET /requests` returns it. */
export interface RequestRecord extends SeenRequest {
  readonly n: number;
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  /** turn: tools were offered. side: a title, a routing question, a summary. */
  readonly kind: "turn" | "side";
  readonly systemSha256: string;
  /** Without keys. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as sent, for values without a field: sandbox text, effort, directories. */
  readonly body: string;
  /** The model's act. */
  readonly act: ModelAct["do"];
  /** When the wait ends according to the refusal. Null: it named no time. */
  readonly resetsAtMs: number | null;
  /** How far the answer got. held: nothing more will follow. */
  state: "received" | "headers" | "streaming" | "held" | "ended" | "cut";
}

/** A request to none of the APIs: a sign that a program calls home. */
export interface StrayRequest {
  readonly method: string;
  readonly path: string;
}

export interface ModelServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly RequestRecord[];
  readonly strays: readonly StrayRequest[];
  /** The next turns follow these directives, whatever their messages. */
  script(directives: readonly string[]): void;
}

export async function startModelServer(port = 0): Promise<ModelServer> {
  const log: RequestRecord[] = [];
  const strays: StrayRequest[] = [];
  const queue: string[] = [];
  const server = createServer((request, response) => {
    void handle({ log, strays, queue }, request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    });
  });
  await new Promise<void>((ready, failed) => {
    server.once("error", failed);
    server.listen(port, "127.0.0.1", ready);
  });
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    requests: log,
    strays,
    script: (directives) => void queue.push(...directives),
    [Symbol.asyncDispose]: () => close(server),
  };
}

function close(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
    server.closeAllConnections();
  });
}

interface Memory {
  readonly log: RequestRecord[];
  readonly strays: StrayRequest[];
  readonly queue: string[];
}

async function handle(memory: Memory, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const method = request.method ?? "GET";
  const path = request.url ?? "/";
  const text = await bodyOf(request);
  const dialect = DIALECTS.find((one) => one.matches(method, path));
  if (dialect === undefined) return other(memory, { method, path, text }, response);
  const body = parse(text);
  const seen = dialect.read(path, body);
  const kind = seen.tools.length > 0 && !isCompaction(seen) ? "turn" : "side";
  // A conversation that is too long cannot be summarized either.
  const aside = text.includes("@@context") ? "@@context" : "";
  const directive = kind === "turn" ? (memory.queue.shift() ?? seen.users.at(-1) ?? "") : aside;
  const act = actFor(seen, directive);
  const record: RequestRecord = {
    ...seen,
    n: memory.log.length + 1,
    atMs: Date.now(),
    method,
    path,
    kind,
    systemSha256: createHash("sha256").update(seen.system).digest("hex"),
    headers: harmlessHeaders(request),
    body: text,
    act: act.do,
    resetsAtMs: resetTime(act),
    state: "received",
  };
  memory.log.push(record);
  await perform(dialect, { seen, act, record }, response);
}

function resetTime(act: ModelAct): number | null {
  const seconds = act.do === "refuse" && "resetSeconds" in act.failure ? act.failure.resetSeconds : null;
  return seconds === null ? null : Date.now() + seconds * 1000;
}

function other(
  memory: Memory,
  request: StrayRequest & { readonly text: string },
  response: ServerResponse,
): void {
  const { method, path } = request;
  const json = (value: unknown) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  if (method === "GET" && path === "/requests") return json(memory.log);
  if (method === "POST" && path === "/control") {
    const { queue, reset } = parse(request.text);
    if (reset === true) memory.log.length = 0;
    if (Array.isArray(queue)) memory.queue.push(...queue.map(String));
    return json({ ok: true });
  }
  // Counting tokens is part of the APIs; the number does not matter.
  if (/count_?tokens/i.test(path)) return json({ input_tokens: 100, totalTokens: 100 });
  memory.strays.push({ method, path });
  response.writeHead(404, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: { message: `no such thing here: ${method} ${path}` } }));
}

interface Turn {
  readonly seen: SeenRequest;
  readonly act: ModelAct;
  readonly record: RequestRecord;
}

async function perform(dialect: Dialect, turn: Turn, response: ServerResponse): Promise<void> {
  const { seen, act, record } = turn;
  response.on("close", () => {
    if (record.state !== "ended") record.state = "cut";
  });
  switch (act.do) {
    case "refuse":
      return refuse(dialect, turn, response);
    case "silent":
      return;
    case "puzzled":
      response.writeHead(500, { "content-type": "application/json" });
      record.state = "ended";
      response.end(JSON.stringify({ error: { message: `the model knows no directive @@${act.directive}` } }));
      return;
    case "stall":
      response.writeHead(200, EVENT_STREAM).flushHeaders();
      record.state = "held";
      return;
    case "drop":
      return drop(dialect, turn, response);
    case "tool":
      return seen.stream
        ? callTool(dialect, turn, response)
        : whole(record, response, dialect.wholeTool(seen, act.command));
    case "pause":
    case "answer":
      return seen.stream
        ? say(dialect, turn, response)
        : whole(record, response, dialect.whole(seen, sawText(seen)));
  }
}

function whole(record: RequestRecord, response: ServerResponse, body: unknown): void {
  response.writeHead(200, { "content-type": "application/json" });
  record.state = "ended";
  response.end(JSON.stringify(body));
}

function refuse(dialect: Dialect, { act, record }: Turn, response: ServerResponse): void {
  if (act.do !== "refuse") return;
  const refusal = dialect.refuse(act.failure, Date.now());
  const type = refusal.sse === undefined ? { "content-type": "application/json" } : EVENT_STREAM;
  response.writeHead(refusal.status, { ...type, ...refusal.headers });
  record.state = "ended";
  response.end(refusal.sse ?? JSON.stringify(refusal.body));
}

async function drop(dialect: Dialect, { seen, record }: Turn, response: ServerResponse): Promise<void> {
  if (seen.stream) {
    const voice = dialect.voice(seen);
    voice.open(response);
    voice.text(response, "Half of an answer");
    record.state = "streaming";
    await pause(100);
  }
  response.destroy();
}

function callTool(dialect: Dialect, { seen, act, record }: Turn, response: ServerResponse): void {
  if (act.do !== "tool") return;
  const voice = dialect.voice(seen);
  voice.open(response);
  voice.tool(response, act.command, act.escalate === true);
  record.state = "ended";
  voice.close(response);
}

async function say(dialect: Dialect, { seen, act, record }: Turn, response: ServerResponse): Promise<void> {
  if (act.do !== "answer" && act.do !== "pause") return;
  if (act.do === "answer" && act.beforeMs > 0) await pause(act.beforeMs);
  const voice = dialect.voice(seen);
  voice.open(response);
  record.state = "headers";
  const gap = act.do === "pause" ? act.ms : act.gapMs;
  for (const [index, piece] of act.pieces.entries()) {
    if (response.destroyed) return;
    voice.text(response, piece);
    record.state = "streaming";
    if (gap > 0 && index < act.pieces.length - 1) await pause(gap);
  }
  if (response.destroyed) return;
  record.state = "ended";
  voice.close(response);
}

/** Does not keep the program alive: a held answer ends with its process. */
function pause(ms: number): Promise<void> {
  return new Promise((done) => void setTimeout(done, ms).unref());
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function parse(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function harmlessHeaders(request: IncomingMessage): Record<string, string> {
  const kept = Object.entries(request.headers).filter(([name]) => !/auth|key|token|cookie/i.test(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, String(value)]));
}
