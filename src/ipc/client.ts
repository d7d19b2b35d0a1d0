/** The client end of a channel: sends the token, makes calls, receives events. */
import { createConnection, type Socket } from "node:net";
import { dirname } from "node:path";
import { isErrno } from "../core/errno.ts";
import { checkOwnDirectory } from "../state/files.ts";
import { Fault } from "../core/faults.ts";
import { fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { decodeFault, encode, FrameReader } from "./wire.ts";

export interface Connection extends AsyncDisposable {
  /** The server's description of itself. */
  readonly hello: JsonObject;
  /** The answer, or the Fault in the answer. Without an answer in time: a Fault `no_answer`. */
  call(method: string, params?: JsonObject, timeoutMs?: number): Promise<unknown>;
  /** Registers the only listener. Earlier events are delivered first. */
  onEvent(listener: (event: string, data: JsonObject) => void): void;
  /** The connection is gone, which does not prove that the other process is. */
  readonly closed: Promise<void>;
  close(): void;
}

const CALL_MS = 10_000;

/** Null: no process listens there. */
export async function connect(path: string, token: string, timeoutMs = 5_000): Promise<Connection | null> {
  // Sends the token only to the owner of a directory that is ours alone.
  if (!checkOwnDirectory(dirname(path))) return null;
  const socket = createConnection(path);
  const line = new SocketConnection(socket, path);
  try {
    return await line.open(token, timeoutMs);
  } catch (error) {
    socket.destroy();
    if (isNobody(error)) return null;
    throw error;
  }
}

function isNobody(error: unknown): boolean {
  return isErrno(error, "ECONNREFUSED", "ENOENT");
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  readonly timer: NodeJS.Timeout;
}

class SocketConnection implements Connection {
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #path: string;
  readonly #reader = new FrameReader();
  readonly #pending = new Map<number, Pending>();
  #hello: JsonObject | null = null;
  #greeted: { resolve(): void; reject(error: unknown): void } | null = null;
  #listener: ((event: string, data: JsonObject) => void) | null = null;
  #unheard: [string, JsonObject][] = [];
  #calls = 0;

  constructor(socket: Socket, path: string) {
    this.#socket = socket;
    this.#path = path;
    this.closed = new Promise((resolve) => socket.once("close", () => resolve()));
    socket.on("error", (error) => this.#greeted?.reject(isNobody(error) ? error : this.#noAnswer()));
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.once("close", () => this.#lost());
  }

  get hello(): JsonObject {
    return this.#hello ?? {};
  }

  async open(token: string, timeoutMs: number): Promise<Connection> {
    const late = setTimeout(() => this.#greeted?.reject(this.#noAnswer()), timeoutMs);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#greeted = { resolve, reject };
        this.#socket.write(encode({ token }));
      });
      return this;
    } finally {
      clearTimeout(late);
      this.#greeted = null;
    }
  }

  call(method: string, params: JsonObject = {}, timeoutMs = CALL_MS): Promise<unknown> {
    const id = (this.#calls += 1);
    const bytes = encode({ id, method, params });
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed || this.#socket.writableEnded) {
        reject(this.#noAnswer());
        return;
      }
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(this.#noAnswer());
      }, timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      this.#socket.write(bytes);
    });
  }

  onEvent(listener: (event: string, data: JsonObject) => void): void {
    this.#listener = listener;
    for (const [event, data] of this.#unheard.splice(0)) listener(event, data);
  }

  close(): void {
    this.#socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.closed;
  }

  #take(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.read(chunk)) this.#hear(frame);
    } catch (error) {
      this.#greeted?.reject(this.#noAnswer());
      this.#socket.destroy();
      if (error instanceof TypeError) throw error;
    }
  }

  #hear(frame: JsonObject): void {
    if (this.#hello === null) {
      this.#hello = objectIn(frame, "hello") ?? null;
      if (this.#hello !== null) this.#greeted?.resolve();
      else {
        this.#greeted?.reject(
          new Fault("denied", `The process at ${this.#path} refused our token.`, {
            facts: { path: this.#path },
          }),
        );
      }
      return;
    }
    const event = stringIn(frame, "event");
    if (event !== undefined) this.#tell(event, objectIn(frame, "data") ?? {});
    else this.#answered(frame);
  }

  #tell(event: string, data: JsonObject): void {
    if (this.#listener === null) this.#unheard.push([event, data]);
    else this.#listener(event, data);
  }

  #answered(frame: JsonObject): void {
    const id = numberIn(frame, "id") ?? -1;
    const pending = this.#pending.get(id);
    // A late answer that no caller waits for.
    if (pending === undefined) return;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    const error = fieldIn(frame, "error");
    if (!isObject(error)) pending.resolve(fieldIn(frame, "result"));
    else {
      const text = stringIn(error, "message") ?? "It failed.";
      pending.reject(decodeFault(error) ?? new Error(`the other process failed: ${text}`));
    }
  }

  #lost(): void {
    this.#greeted?.reject(this.#noAnswer());
    for (const pending of this.#pending.values()) {
      clearTimeout(pending.timer);
      pending.reject(this.#noAnswer());
    }
    this.#pending.clear();
  }

  #noAnswer(): Fault {
    return new Fault("no_answer", `The process at ${this.#path} does not answer.`, {
      facts: { path: this.#path },
    });
  }
}
