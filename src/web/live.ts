/** The WebSockets of pages: sign-in by key, subscriptions, terminals. A page that does not read is dropped. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { type JsonObject, stringIn } from "../lib/json.ts";
import type { WebAccess, WebSession } from "./access.ts";
import type { Core } from "./core.ts";
import { Feed } from "./feed.ts";
import { heardIn, say } from "./socket.ts";
import { Subscriptions } from "./subscriptions.ts";
import { TerminalBridges } from "./terminal.ts";

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Below `/api/v1`. */
  readonly path: string;
  /** Null: the page sends its key as first message. */
  readonly session: WebSession | null;
  readonly cookie: string | null;
}

export interface LiveOptions {
  readonly core: Core;
  readonly access: WebAccess;
  readonly readOnly: boolean;
}

const MOST_SOCKETS = 64;
const MOST_PER_SESSION = 16;
const KEY_MS = 5_000;
const PING_MS = 30_000;
const CHECK_MS = 500;
const MAX_MESSAGE = 64 * 1024;
/** Close codes of ours. */
const UNAUTHORIZED = 4401;
const TOO_MANY = 4429;

export class Live {
  readonly #options: LiveOptions;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE,
    perMessageDeflate: false,
  });
  readonly #bySession = new Map<WebSocket, string>();
  readonly #bridges: TerminalBridges;
  readonly feed: Feed;
  readonly #undo: (() => void)[];

  constructor(options: LiveOptions) {
    this.#options = options;
    this.feed = new Feed(options.core);
    this.#bridges = new TerminalBridges(options.core);
    const pings = setInterval(() => this.#ping(), PING_MS);
    // A revoked token ends its sockets at once.
    const checks = setInterval(() => this.#endInvalid(), CHECK_MS);
    this.#undo = [
      () => clearInterval(pings),
      () => clearInterval(checks),
      options.access.onEnded((id) => this.#closeSession(id)),
    ];
  }

  /** False: there is nothing at this path. */
  accept({ request, socket, head, path, session, cookie }: Upgrade): boolean {
    const terminal = /^\/runs\/([0-9a-f]{8})\/terminal$/.exec(path)?.[1];
    if (path !== "/live" && terminal === undefined) return false;
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      ws.on("error", () => ws.terminate());
      if (this.#server.clients.size > MOST_SOCKETS) return ws.close(TOO_MANY, "too many connections");
      void this.#greet(ws, session, cookie).then((known) => {
        if (known === null) return ws.close(UNAUTHORIZED, "not signed in");
        const own = [...this.#bySession.values()].filter((id) => id === known.id).length;
        if (own >= MOST_PER_SESSION) return ws.close(TOO_MANY, "too many connections");
        this.#bySession.set(ws, known.id);
        ws.on("close", () => this.#bySession.delete(ws));
        const isValid = () => this.#options.access.isValid(known);
        const rights = {
          isValid,
          control: known.rights === "full" && !this.#options.readOnly,
          raw: known.rights !== "read",
        };
        if (terminal === undefined) this.#page(ws);
        else void this.#bridges.open(ws, terminal, rights);
      });
    });
    return true;
  }

  close(): void {
    for (const undo of this.#undo) undo();
    for (const ws of this.#server.clients) ws.terminate();
  }

  /** The session of the page, after its first message. */
  async #greet(ws: WebSocket, session: WebSession | null, cookie: string | null): Promise<WebSession | null> {
    if (session !== null) return session;
    const first = await new Promise<JsonObject | undefined>((resolve) => {
      const timer = setTimeout(() => resolve(undefined), KEY_MS);
      ws.once("close", () => resolve(undefined));
      ws.once("message", (data, isBinary) => {
        clearTimeout(timer);
        resolve(heardIn(data, isBinary));
      });
    });
    const key = stringIn(first, "key");
    return this.#options.access.session(cookie, key ?? null);
  }

  #page(ws: WebSocket): void {
    const page = new Subscriptions(ws, this.#options.core, this.feed);
    ws.on("message", (data, isBinary) => page.heard(heardIn(data, isBinary)));
    ws.on("close", () => page.close());
    say(ws, { ready: true });
  }

  #closeSession(id: string): void {
    for (const [ws, owner] of this.#bySession) if (owner === id) ws.close(UNAUTHORIZED, "signed out");
  }

  #ping(): void {
    for (const ws of this.#bySession.keys()) ws.ping();
  }

  #endInvalid(): void {
    for (const [ws, id] of this.#bySession)
      if (!this.#options.access.isValid({ id })) ws.close(UNAUTHORIZED, "signed out");
  }
}
