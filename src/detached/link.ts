/** A client's connection to the holder of one run. */
import type { TerminalSize } from "../lib/terminal-state.ts";
import { join } from "node:path";
import { readRecord } from "../state/files.ts";
import { runtimeDir } from "../state/runtime.ts";
import type { Observed } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import type { Deps, StopRequest } from "../run/run.ts";
import { identityIn } from "../store/store.ts";
import { type Connection, connect } from "../ipc/ipc.ts";
import type { SendResult } from "./message-typer.ts";

export interface HolderLink extends AsyncDisposable {
  readonly hello: {
    readonly pid: number;
    readonly handle: string;
    readonly attempt: number;
    readonly interactive: boolean;
    readonly version: string;
  };
  /** The latest observation. */
  observed(): Observed;
  /** Registers a listener; does not repeat the latest observation. */
  onObserved(listener: (observed: Observed) => void): void;
  /** The connection is gone, which does not prove that the holder is. */
  readonly closed: Promise<void>;
  /**
   * Types a message into an idle UI. Messages with the same key are typed once; a repeated call gets the same result.
   */
  send(message: string, key?: string): Promise<SendResult>;
  stop(request: StopRequest): Promise<void>;
  /** With a size, the agent's terminal gets that size and this client answers its queries. Null: only watches. */
  attach(terminal: TerminalSize | null, hooks: AttachHooks, options?: AttachOptions): Promise<Attached>;
}

export interface AttachHooks {
  /** Every byte from `Attached.from` on, in order, once. */
  output(chunk: Buffer): void;
  /** The agent's terminal has this size from the offset `at` of the tape on, by anyone's request. */
  resized?(size: TerminalSize, at: number): void;
  /** The agent has ended and everything was delivered. */
  ended(): void;
}

export interface AttachOptions {
  /** Offset in the tape from which the output is sent. Absent: the last 2 MiB. */
  readonly from?: number;
  /** This client answers the queries of the UI although it gives no size. */
  readonly answers?: true;
}

export interface Attached {
  /** Offset of the output in the tape, and how much of it already existed. */
  readonly from: number;
  readonly total: number;
  /** The present size of the agent's terminal. Null: it has none, or the holder is of an older version. */
  readonly size: TerminalSize | null;
  /** Puts a fresh terminal into the modes of the UI. */
  readonly preamble: string;
  write(data: Buffer): void;
  resize(cols: number, rows: number): void;
  detach(): void;
}

/** Enough of the tape to redraw a screen. */
const REPLAY_BYTES = 2 * 1024 * 1024;
/** Each message is verified twice, for some seconds, and others may be queued before it. */
const SEND_MS = 120_000;

/** Null: this run has no live holder process: it has ended, or runs in a foreground terminal. */
export async function openHolder(deps: Deps, run: RunRecord): Promise<HolderLink | null> {
  const place = join(runtimeDir(deps.state, deps.env), `h-${run.handle}`);
  const record = readRecord(`${place}.json`);
  const identity = identityIn(objectIn(record, "identity"));
  const token = stringIn(record, "token");
  if (identity === null || token === undefined || !deps.processes.isAlive(identity)) return null;
  const connection = await reach(`${place}.sock`, token, { run, pid: identity.pid });
  if (connection === null) {
    // A holder that ends removes its record first. A live holder that lost its socket makes another.
    if (stringIn(readRecord(`${place}.json`), "token") !== token) return null;
    throw noAnswer(run, identity.pid);
  }
  const observed = await connection.call("subscribe");
  if (isObserved(observed)) return new Link(connection, observed);
  connection.close();
  throw new Fault(
    "no_answer",
    `The holder of run ${run.handle} (pid ${identity.pid}) uses an incompatible protocol version. Stop it: reprise stop ${run.handle}`,
  );
}

async function reach(
  path: string,
  token: string,
  { run, pid }: { readonly run: RunRecord; readonly pid: number },
): Promise<Connection | null> {
  try {
    return await connect(path, token);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "no_answer") throw error;
    throw noAnswer(run, pid);
  }
}

function noAnswer({ handle }: RunRecord, pid: number): Fault {
  return new Fault(
    "no_answer",
    `The holder of run ${handle} (pid ${pid}) does not answer. Its agent may be alive. End both: reprise stop ${handle}`,
    { facts: { handle, pid } },
  );
}

class Link implements HolderLink {
  readonly hello: HolderLink["hello"];
  readonly closed: Promise<void>;
  readonly #connection: Connection;
  readonly #listeners: ((observed: Observed) => void)[] = [];
  #observed: Observed;
  #hooks: AttachHooks | null = null;

  constructor(connection: Connection, observed: Observed) {
    const { hello } = connection;
    this.#connection = connection;
    this.#observed = observed;
    this.closed = connection.closed;
    this.hello = {
      pid: numberIn(hello, "pid") ?? 0,
      handle: stringIn(hello, "handle") ?? "",
      attempt: numberIn(hello, "attempt") ?? 0,
      interactive: fieldIn(hello, "interactive") === true,
      version: stringIn(hello, "version") ?? "",
    };
    connection.onEvent((event, data) => this.#hear(event, data));
  }

  observed(): Observed {
    return this.#observed;
  }

  onObserved(listener: (observed: Observed) => void): void {
    this.#listeners.push(listener);
  }

  async send(message: string, key?: string): Promise<SendResult> {
    const answer = await this.#connection.call("send", { message, key }, SEND_MS);
    const sent = stringIn(answer, "sent");
    if (sent === "ok" || sent === "unverified") return { sent };
    return { sent: "refused", why: stringIn(answer, "why") ?? "the holder cannot type" };
  }

  async stop(request: StopRequest): Promise<void> {
    await this.#connection.call("stop", { request });
  }

  async attach(
    terminal: TerminalSize | null,
    hooks: AttachHooks,
    { from, answers }: AttachOptions = {},
  ): Promise<Attached> {
    this.#hooks = hooks;
    const where = from === undefined ? { tail: REPLAY_BYTES } : { from };
    const answer = await this.#connection.call("attach", { ...terminal, ...where, answers });
    // Typed input needs no answer; `closed` reports a lost connection.
    const say = (method: string, params: JsonObject) =>
      void this.#connection.call(method, params).catch(() => {});
    return {
      from: numberIn(answer, "from") ?? 0,
      total: numberIn(answer, "total") ?? 0,
      size: sizeIn(answer),
      preamble: stringIn(answer, "preamble") ?? "",
      write: (data) => say("write", { data: data.toString("base64") }),
      resize: (cols, rows) => say("resize", { cols, rows }),
      detach: () => {
        this.#hooks = null;
        say("detach", {});
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection[Symbol.asyncDispose]();
  }

  #hear(event: string, data: JsonObject): void {
    if (event === "output") this.#hooks?.output(Buffer.from(stringIn(data, "data") ?? "", "base64"));
    else if (event === "ended") this.#hooks?.ended();
    else if (event === "resized") this.#resized(data);
    else if (event === "observed") this.#see(fieldIn(data, "observed"));
  }

  #resized(data: JsonObject): void {
    const size = sizeIn(data);
    if (size !== null) this.#hooks?.resized?.(size, numberIn(data, "at") ?? 0);
  }

  #see(observed: unknown): void {
    if (!isObserved(observed)) return;
    this.#observed = observed;
    for (const listener of this.#listeners) listener(observed);
  }
}

function sizeIn(found: unknown): TerminalSize | null {
  const [cols, rows] = [numberIn(found, "cols"), numberIn(found, "rows")];
  return cols === undefined || rows === undefined ? null : { cols, rows };
}

function isObserved(value: unknown): value is Observed {
  return (
    isObject(value) &&
    stringIn(objectIn(value, "activity"), "state") !== undefined &&
    numberIn(value, "sinceMs") !== undefined &&
    numberIn(value, "grewAtMs") !== undefined &&
    numberIn(value, "turns") !== undefined &&
    typeof fieldIn(value, "certain") === "boolean"
  );
}
