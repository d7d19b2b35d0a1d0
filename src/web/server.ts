/**
 * The HTTP server: guard, authentication, rights, route, in this order and in one place, for requests and upgrades alike.
 *
 * Logs name the method, the route's pattern and the status; never an address, a header or a body.
 */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { Fault, FAULTS, wantOf } from "../core/faults.ts";
import type { JsonObject } from "../lib/json.ts";
import { redactor, redactValue } from "../lib/secrets.ts";
import { type WebAccess, type WebSession, SESSION_MS } from "./access.ts";
import type { Core } from "./core.ts";
import { type PageFile, pageFile } from "./files.ts";
import { isApi, type Names, refuse, type Refusal, type RequestFacts } from "./guard.ts";
import {
  BadRequest,
  bearerOf,
  cookieOf,
  headerOf,
  pathOf,
  queryOf,
  readBody,
  send,
  sendBytes,
  sendError,
  sendJson,
} from "./http.ts";
import { Live } from "./live.ts";
import type { OnceBook } from "./once.ts";
import { openApi } from "./openapi.ts";
import { foldersOf } from "./reading.ts";
import type { Reply } from "./reply.ts";
import { type WebCall, type Route, ROUTES } from "./routes.ts";
import { serveEvents } from "./event-stream.ts";

export interface ServerOptions {
  readonly core: Core;
  readonly access: WebAccess;
  readonly book: OnceBook;
  readonly page: ReadonlyMap<string, PageFile>;
  readonly names: Names;
  /** The cookie's name has the port: browsers send it to other servers of this machine as well. */
  cookie(): string;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | null;
  /** Refuses every write, whatever the rights of the session. */
  readonly readOnly: boolean;
  log(line: string): void;
}

export const API = "/api/v1";

export class WebRequests {
  readonly #options: ServerOptions;
  readonly #live: Live;
  readonly #redact = redactor([]);

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#live = new Live(options);
  }

  /** A server that does not listen yet. */
  create() {
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      void this.#answer(request, response);
    const limits = { headersTimeout: 10_000, requestTimeout: 30_000, maxHeaderSize: 16 * 1024 };
    const { tls } = this.#options;
    const server =
      tls === null ? createServer(limits, listener) : createTlsServer({ ...limits, ...tls }, listener);
    server.maxConnections = 512;
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    server.on("clientError", (_error, socket) => socket.destroy());
    return server;
  }

  close(): void {
    this.#live.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = performance.now();
    let pattern = "-";
    try {
      const refused = refuse(factsOf(request), this.#options.names);
      if (refused !== null) sendError(response, refused);
      else {
        const path = pathOf(request);
        pattern = isApi(path)
          ? await this.#api(request, response, path)
          : this.#file(request, response, path);
      }
    } catch (error) {
      this.#fail(response, error);
    }
    const ms = Math.round(performance.now() - startedAt);
    this.#options.log(`${request.method ?? "-"} ${pattern} ${response.statusCode} ${ms} ms`);
  }

  #file(request: IncomingMessage, response: ServerResponse, path: string): string {
    const found =
      request.method === "GET" || request.method === "HEAD" ? pageFile(this.#options.page, path) : undefined;
    if (found === undefined) {
      sendError(response, notFound());
      return "(no page)";
    }
    send(response, 200, request.method === "HEAD" ? "" : found.bytes, {
      "Content-Type": found.type,
      "Cache-Control": found.immutable ? "public, max-age=31536000, immutable" : "no-store",
    });
    return "(page)";
  }

  /** Returns the pattern of the route, for the log. */
  async #api(request: IncomingMessage, response: ServerResponse, path: string): Promise<string> {
    const own = path.startsWith(`${API}/`) ? path.slice(API.length) : "";
    if (own === "/session" && request.method === "POST") {
      await this.#signIn(request, response);
      return "/session";
    }
    // Before routing: an unknown route looks like a known one to strangers.
    const session = this.#sessionOf(request);
    if (session === null) {
      sendError(response, { status: 401, code: "unauthorized", message: SIGNED_OUT });
      return "(unauthorized)";
    }
    if (own === "/session") return await this.#ownSession(request, response, session);
    if (own === "/openapi.json" && request.method === "GET") {
      sendJson(response, 200, openApi(this.#options.core.version));
      return own;
    }
    if (own === "/events" && request.method === "GET") {
      serveEvents(response, this.#live, session, this.#options.access);
      return own;
    }
    const found = routeOf(request.method ?? "", own);
    if (found === null) {
      sendError(response, notFound());
      return "(no route)";
    }
    await this.#route(request, response, found, session);
    return found.route.path;
  }

  async #route(
    request: IncomingMessage,
    response: ServerResponse,
    { route, path }: Found,
    session: WebSession,
  ): Promise<void> {
    const lacking = lacks(session, route.right, this.#options.readOnly);
    if (lacking !== null) {
      request.resume();
      sendError(response, lacking);
      return;
    }
    const { core, book } = this.#options;
    const query = checked(route.query, queryOf(request), "query") as WebCall["query"];
    const body = route.method === "POST" ? checked(route.body, await readBody(request), "body") : {};
    const key = headerOf(request, "idempotency-key");
    if (key !== null && !/^[\w.:-]{8,200}$/.test(key))
      throw new Fault("usage", "An Idempotency-Key has 8 to 200 letters, digits and . : - _ characters.");
    const result = await route.run({ core, book, path, query, body, key: key ?? randomUUID() });
    if ("bytes" in result) sendBytes(response, result);
    else sendJson(response, route.method === "GET" ? result.status : statusOf(result), result.body);
  }

  async #signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const given = await readBody(request);
    const [token, password] = [given["token"], given["password"]];
    const signed = this.#options.access.signIn({
      ...(typeof token === "string" ? { token } : {}),
      ...(typeof password === "string" ? { password } : {}),
    });
    if (signed === "limited")
      return sendError(response, {
        status: 429,
        code: "too_many",
        message: "Too many failed sign-ins. Wait a minute.",
      });
    if (signed === null)
      return sendError(response, { status: 401, code: "unauthorized", message: LINK_USED });
    const { cookie, key, session } = signed;
    const flags = `Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=${SESSION_MS / 1000}`;
    response.setHeader("Set-Cookie", `${this.#options.cookie()}=${cookie}; ${flags}`);
    sendJson(response, 200, {
      ok: true,
      key,
      rights: this.#rights(session),
      version: this.#options.core.version,
    });
  }

  async #ownSession(
    request: IncomingMessage,
    response: ServerResponse,
    session: WebSession,
  ): Promise<string> {
    if (request.method === "DELETE") {
      this.#options.access.signOut(session);
      response.setHeader(
        "Set-Cookie",
        `${this.#options.cookie()}=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0`,
      );
      response.setHeader("Clear-Site-Data", '"cache", "storage"');
      sendJson(response, 200, { ok: true });
    } else if (request.method === "GET") {
      const { core } = this.#options;
      const folders = await foldersOf(core);
      const { version } = core;
      sendJson(response, 200, {
        ok: true,
        rights: this.#rights(session),
        version,
        state: core.deps.state.root,
        folders,
      });
    } else sendError(response, notFound());
    return "/session";
  }

  #rights(session: WebSession): WebSession["rights"] {
    return this.#options.readOnly && session.rights === "full" ? "read-raw" : session.rights;
  }

  #sessionOf(request: IncomingMessage): WebSession | null {
    const { access } = this.#options;
    const bearer = bearerOf(request);
    if (bearer !== null) return access.bearer(bearer);
    return access.session(cookieOf(request, this.#options.cookie()), headerOf(request, "x-reprise-key"));
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    try {
      const refused =
        refuse({ ...factsOf(request), upgrade: true }, this.#options.names) ?? this.#upgradeRefusal(request);
      if (refused === null) {
        const bearer = bearerOf(request);
        const session = bearer === null ? null : this.#options.access.bearer(bearer);
        const cookie = cookieOf(request, this.#options.cookie());
        const path = pathOf(request).slice(API.length);
        if (this.#live.accept({ request, socket, head, path, session, cookie })) return;
      }
      this.#refuseUpgrade(socket, (refused ?? notFound()).status);
    } catch (error) {
      this.#options.log(`bug: ${this.#redact(String(error)).slice(0, 1_000)}`);
      this.#refuseUpgrade(socket, 500);
    }
  }

  #refuseUpgrade(socket: Duplex, status: number): void {
    this.#options.log(`UPGRADE - ${status}`);
    socket.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  }

  #upgradeRefusal(request: IncomingMessage): Refusal | null {
    const bearer = bearerOf(request);
    const isKnown =
      bearer === null
        ? this.#options.access.hasCookie(cookieOf(request, this.#options.cookie()))
        : this.#options.access.bearer(bearer) !== null;
    if (!isKnown) return { status: 401, code: "unauthorized", message: SIGNED_OUT };
    return pathOf(request).startsWith(`${API}/`) ? null : notFound();
  }

  #fail(response: ServerResponse, error: unknown): void {
    if (error instanceof BadRequest) return sendError(response, error.refusal);
    const fault = error instanceof Fault ? error : wantOf(error);
    if (fault === null) {
      const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.#options.log(`bug: ${this.#redact(detail).slice(0, 4_000)}`);
      return sendJson(response, 500, {
        ok: false,
        error: { code: "bug", message: "This is a bug in Reprise.", facts: {} },
      });
    }
    const facts = { ...redactValue(fault.facts, this.#redact), retryable: FAULTS[fault.code].retryable };
    const message = this.#redact(fault.message);
    sendJson(response, httpStatus(fault), { ok: false, error: { code: fault.code, message, facts } });
  }
}

const SIGNED_OUT = "Not signed in. Run `reprise web link` for a link.";
const LINK_USED = "This link was used already or is older than a minute. Run `reprise web link` for another.";

const notFound = (): Refusal => ({
  status: 404,
  code: "not_found",
  message: "There is nothing at this address.",
});

const HTTP_STATUS: Readonly<Record<number, number>> = {
  2: 400,
  3: 404,
  4: 409,
  5: 500,
  6: 501,
  7: 507,
  8: 403,
  75: 503,
};

const httpStatus = ({ code }: Fault): number => HTTP_STATUS[FAULTS[code].exit] ?? 500;

/** A command may report without a fault that it did not do what was asked. */
const statusOf = ({ status, body }: Reply): number => (body["ok"] === false && status < 300 ? 409 : status);

function lacks(session: WebSession, right: Route["right"], readOnly: boolean): Refusal | null {
  const isRefused =
    (right === "write" && (readOnly || session.rights !== "full")) ||
    (right === "raw" && session.rights === "read");
  if (!isRefused) return null;
  const why =
    right === "raw"
      ? "This session may not read raw output, which may hold secrets."
      : "This session may only read.";
  return { status: 403, code: "forbidden", message: why };
}

interface Found {
  readonly route: Route;
  readonly path: Readonly<Record<string, string>>;
}

/** Handles, numbers and ids: never a slash, a dot or an encoded character. */
const PARAMETERS: Readonly<Record<string, RegExp>> = {
  handle: /^[0-9a-f]{8}$/,
  n: /^[1-9]\d{0,8}$/,
  id: /^[0-9a-f]{8}-\d{1,9}$/,
};

export function routeOf(method: string, path: string): Found | null {
  const parts = path.split("/");
  for (const route of ROUTES) {
    const pattern = route.path.split("/");
    if (route.method !== method || pattern.length !== parts.length) continue;
    const values: Record<string, string> = {};
    const fits = pattern.every((name, at) => {
      const part = parts[at] ?? "";
      if (!name.startsWith(":")) return name === part;
      values[name.slice(1)] = part;
      return PARAMETERS[name.slice(1)]?.test(part) === true;
    });
    if (fits) return { route, path: values };
  }
  return null;
}

function factsOf(request: IncomingMessage): RequestFacts {
  const header = (name: string) => headerOf(request, name);
  const names = Object.keys(request.headers);
  return {
    ...{
      method: request.method ?? "",
      target: request.url ?? "",
      host: header("host"),
      origin: header("origin"),
    },
    ...{
      site: header("sec-fetch-site"),
      mode: header("sec-fetch-mode"),
      contentType: header("content-type"),
    },
    forwarded: names.some((name) => name === "forwarded" || name.startsWith("x-forwarded-")),
    upgrade: false,
    bearer: bearerOf(request) !== null,
  };
}

function checked(schema: Route["body"], value: JsonObject, where: string): JsonObject {
  if (schema === undefined) {
    if (Object.keys(value).length > 0) throw new Fault("usage", `This route takes no ${where}.`);
    return value;
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const at = issue?.path.join(".") ?? "";
  throw new Fault(
    "usage",
    `The ${where} is wrong${at === "" ? "" : ` at ${at.slice(0, 80)}`}: ${issue?.message ?? "invalid"}.`,
  );
}
