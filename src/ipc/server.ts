/**
 * A Unix socket of a holder or the daemon that answers calls. Independent of the methods.
 *
 * The directory (0700) protects it, and a token as second defence. A connected client is still limited in what it sends
 * and leaves unread, and its disconnect is never an error.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { chmodSync, lstatSync, unlinkSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { isErrno } from "../core/errno.ts";
import { storageFault } from "../state/files.ts";
import { Fault } from "../core/faults.ts";
import { fieldIn, type JsonObject, numberIn, stringIn } from "../lib/json.ts";
import { encode, encodeFault, FrameReader, paramsOf } from "./wire.ts";

/** A Fault that it throws becomes the caller's answer. `undefined` is sent as null. */
export type Method = (params: JsonObject, peer: Peer) => unknown;

/** One client that has sent the right token. */
export interface Peer {
  /** Sends an event without a request. Does nothing if the client is gone. */
  notify(event: string, data: JsonObject): void;
  /** Bytes that the client has not read. A client with more than 4 MiB is disconnected. */
  readonly unread: number;
  /** Resolves when the client reads on, or is gone. */
  drained(): Promise<void>;
  onClosed(listener: () => void): void;
}

export interface ListenOptions {
  /** Sent to each client after its token. */
  readonly hello?: () => JsonObject;
  /** An error that is not a Fault: a bug in the method. The client gets an error. */
  readonly onBug?: (error: unknown) => void;
  /** How long a client may take to send its token. */
  readonly helloMs?: number;
}

export interface Channel extends AsyncDisposable {
  /** Listens again if the socket was removed. Existing connections continue. */
  renew(): Promise<void>;
  /** Ends all connections after their pending output; removes the socket. */
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 64;
const MAX_UNREAD_BYTES = 4 * 1024 * 1024;
const MAX_CALLS = 256;
const HELLO_MS = 5_000;
const PROBE_MS = 2_000;
/** How long a client may take to read the last output. */
const LAST_WORDS_MS = 1_000;

/**
 * The caller holds a lock that allows one listener: a socket without an answer belongs to a dead owner and is replaced.
 * Throws a Fault if the socket answers.
 */
export async function listen(
  path: string,
  token: string,
  methods: Readonly<Record<string, Method>>,
  options: ListenOptions = {},
): Promise<Channel> {
  await removeStale(path);
  const clients = new Set<Client>();
  const context: ServerContext = { token, methods, options };
  let server = await serverAt(path, context, clients);
  let closing: Promise<void> | null = null;
  const close = () => (closing ??= closeAll(server, clients));
  const renew = async () => {
    if (closing !== null || lstatSync(path, { throwIfNoEntry: false }) !== undefined) return;
    // In this order: a closing server removes the file at its path.
    server.close();
    server = await serverAt(path, context, clients);
  };
  return { renew, close, [Symbol.asyncDispose]: close };
}

async function serverAt(path: string, context: ServerContext, clients: Set<Client>): Promise<Server> {
  const server = createServer({ allowHalfOpen: false });
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", (socket) => {
    const client = new Client(socket, context);
    clients.add(client);
    socket.once("close", () => clients.delete(client));
  });
  await bind(server, path);
  // A connection that fails to open is the client's problem.
  server.on("error", () => {});
  return server;
}

function bind(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(storageFault(error, "listen at", path)));
    server.listen(path, () => {
      server.removeAllListeners("error");
      try {
        chmodSync(path, 0o600);
        resolve();
      } catch (error) {
        server.close();
        reject(storageFault(error, "protect", path));
      }
    });
  });
}

async function closeAll(server: Server, clients: ReadonlySet<Client>): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const gone = [...clients].map((client) => new Promise<void>((resolve) => client.onClosed(resolve)));
  for (const client of clients) client.end();
  await Promise.all([closed, ...gone]);
}

async function removeStale(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket()) {
    throw new Fault("denied", `${path} exists and is not a socket. Look at it, then remove it.`, {
      facts: { path },
    });
  }
  if (await answers(path)) {
    throw new Fault("run_busy", `Another process already listens at ${path}.`, { facts: { path } });
  }
  try {
    unlinkSync(path);
  } catch (error) {
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) throw storageFault(error, "remove", path);
  }
}

/** True also for a server too busy to answer: only a refused connection proves that it is gone. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection(path);
    const done = (alive: boolean) => {
      probe.destroy();
      resolve(alive);
    };
    probe.setTimeout(PROBE_MS, () => done(true));
    probe.once("connect", () => done(true));
    probe.once("error", (error) => done(!isErrno(error, "ECONNREFUSED", "ENOENT")));
  });
}

interface ServerContext {
  readonly token: string;
  readonly methods: Readonly<Record<string, Method>>;
  readonly options: ListenOptions;
}

class Client implements Peer {
  readonly #socket: Socket;
  readonly #context: ServerContext;
  readonly #reader = new FrameReader();
  readonly #waiting: NodeJS.Timeout;
  #known = false;
  #calls = 0;

  constructor(socket: Socket, context: ServerContext) {
    this.#socket = socket;
    this.#context = context;
    this.#waiting = setTimeout(() => socket.destroy(), context.options.helloMs ?? HELLO_MS);
    // A client may disconnect at any time; that is not an error.
    socket.on("error", () => socket.destroy());
    socket.once("close", () => clearTimeout(this.#waiting));
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  get unread(): number {
    return this.#socket.writableLength;
  }

  notify(event: string, data: JsonObject): void {
    this.#send({ event, data });
  }

  drained(): Promise<void> {
    const socket = this.#socket;
    if (socket.destroyed || !socket.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        socket.off("drain", done);
        socket.off("close", done);
        resolve();
      };
      socket.on("drain", done);
      socket.on("close", done);
    });
  }

  onClosed(listener: () => void): void {
    if (this.#socket.destroyed) listener();
    else this.#socket.once("close", listener);
  }

  end(): void {
    const socket = this.#socket;
    const impatient = setTimeout(() => socket.destroy(), LAST_WORDS_MS);
    socket.once("close", () => clearTimeout(impatient));
    socket.end();
    // Reads and drops further input; otherwise the connection would never close.
    socket.removeAllListeners("data");
    socket.resume();
  }

  #take(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.read(chunk)) {
        if (this.#socket.destroyed) return;
        if (this.#known) void this.#call(frame);
        else this.#greet(frame);
      }
    } catch {
      this.#socket.destroy();
    }
  }

  /** A client with a wrong token gets only that answer. */
  #greet(frame: JsonObject): void {
    const { token, options } = this.#context;
    if (!sameText(stringIn(frame, "token") ?? "", token)) {
      this.#send({ refused: true });
      this.#socket.end();
      this.#socket.removeAllListeners("data");
      this.#socket.resume();
      return;
    }
    clearTimeout(this.#waiting);
    this.#known = true;
    this.#send({ hello: options.hello?.() ?? {} });
  }

  async #call(frame: JsonObject): Promise<void> {
    const id = numberIn(frame, "id");
    const name = stringIn(frame, "method");
    if (id === undefined || name === undefined || this.#calls >= MAX_CALLS) {
      this.#socket.destroy();
      return;
    }
    const method = fieldIn(this.#context.methods, name);
    this.#calls += 1;
    try {
      if (typeof method !== "function") throw new Fault("usage", `Unknown method ${name.slice(0, 40)}.`);
      const result: unknown = await (method as Method)(paramsOf(frame), this);
      this.#send({ id, result: result ?? null });
    } catch (error) {
      if (!(error instanceof Fault)) this.#context.options.onBug?.(error);
      const fault =
        error instanceof Fault ? encodeFault(error) : { code: "bug", message: "A bug in Reprise." };
      this.#send({ id, error: fault });
    } finally {
      this.#calls -= 1;
    }
  }

  #send(frame: JsonObject): void {
    const socket = this.#socket;
    if (socket.destroyed || socket.writableEnded) return;
    socket.write(encode(frame));
    if (socket.writableLength > MAX_UNREAD_BYTES) socket.destroy();
  }
}

/** In constant time, even for texts of different lengths. */
function sameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
