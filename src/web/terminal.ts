/**
 * Terminals of live runs in pages: the holder's output as binary frames, keys and sizes back.
 *
 * A page only watches until it takes control, and never changes the size unless its user asks. The holder keeps
 * answering the terminal queries of the UI: no page does, so nothing is answered twice.
 */
import type { WebSocket } from "ws";
import { Fault } from "../core/faults.ts";
import { fieldIn, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { type HolderLink, openHolder } from "../detached/detached.ts";
import { selectRun } from "../run/select.ts";
import type { Core } from "./core.ts";
import { heardIn, say } from "./socket.ts";

interface Rights {
  /** The session still exists, and its token was not revoked. */
  readonly isValid: () => boolean;
  readonly control: boolean;
  readonly raw: boolean;
}

const CLOSED = 4404;
/** The most that a page may leave unread before the holder keeps the rest for it. */
const AHEAD_BYTES = 1024 * 1024;
const LOOK_AGAIN_MS = 50;
/** Answers of a terminal to queries, which the holder gives itself. */
const ANSWER =
  /^(?:\x1b\[[?>]?[\d;]*[cnR]|\x1b\[\??[\d;]+\$y|\x1bP[^\x1b]*\x1b\\|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\))+$/;

export class TerminalBridges {
  readonly #core: Core;
  /** By handle: the page that types. */
  readonly #controllers = new Map<string, WebSocket>();

  constructor(core: Core) {
    this.#core = core;
  }

  async open(ws: WebSocket, handle: string, rights: Rights): Promise<void> {
    try {
      if (!rights.raw)
        throw new Fault("denied", "This session may not read raw output, which may hold secrets.");
      const run = await selectRun(this.#core.deps, handle);
      const link = await openHolder(this.#core.deps, run);
      if (ws.readyState !== ws.OPEN) {
        // The page left meanwhile.
        await link?.[Symbol.asyncDispose]();
        return;
      }
      if (link === null)
        throw new Fault(
          "run_busy",
          `Run ${handle} has no live terminal in the background. Replay its recording instead.`,
          {
            facts: { handle },
          },
        );
      await this.#bridge(ws, handle, link, rights);
    } catch (error) {
      const { code, message } =
        error instanceof Fault ? error : { code: "bug", message: "It cannot be shown." };
      say(ws, { error: { code, message } });
      ws.close(CLOSED, "no terminal");
    }
  }

  async #bridge(
    ws: WebSocket,
    handle: string,
    link: HolderLink,
    { control, isValid }: Rights,
  ): Promise<void> {
    const viewer = new TerminalViewer(ws, link);
    ws.on("close", () => {
      this.#giveUp(ws, handle);
      viewer.close();
    });
    ws.on("message", (data, isBinary) => {
      const message = isValid() ? heardIn(data, isBinary) : undefined;
      if (fieldIn(message, "control") === true) this.#take(ws, handle, control);
      else if (fieldIn(message, "control") === false) this.#giveUp(ws, handle);
      else if (this.#controllers.get(handle) === ws) viewer.obey(message);
    });
    await viewer.begin();
  }

  #giveUp(ws: WebSocket, handle: string): void {
    if (this.#controllers.get(handle) === ws) this.#controllers.delete(handle);
  }

  #take(ws: WebSocket, handle: string, may: boolean): void {
    if (!may) return say(ws, { control: false, why: "This session may only watch." });
    const before = this.#controllers.get(handle);
    this.#controllers.set(handle, ws);
    if (before !== undefined && before !== ws)
      say(before, { control: false, why: "Another page took control." });
    say(ws, { control: true });
  }
}

class TerminalViewer {
  readonly #ws: WebSocket;
  readonly #link: HolderLink;
  #attached: Awaited<ReturnType<HolderLink["attach"]>> | null = null;
  /** Offset of the next byte for the page. */
  #at = 0;
  #isWaiting = false;

  constructor(ws: WebSocket, link: HolderLink) {
    this.#ws = ws;
    this.#link = link;
    void link.closed.then(() => this.#end());
  }

  async begin(): Promise<void> {
    const early: Buffer[] = [];
    let isReady = false;
    const attached = await this.#link.attach(null, {
      output: (chunk) => void (isReady ? this.#output(chunk) : early.push(chunk)),
      ended: () => this.#end(),
      resized: (size) => say(this.#ws, { size: { ...size } }),
    });
    this.#attached = attached;
    const { from, total, preamble, size } = attached;
    this.#at = from;
    say(this.#ws, { ready: true, from, total, preamble, size, control: false });
    isReady = true;
    for (const chunk of early) this.#output(chunk);
  }

  obey(message: JsonObject | undefined): void {
    const keys = stringIn(message, "keys");
    if (keys !== undefined && !ANSWER.test(keys)) this.#attached?.write(Buffer.from(keys, "utf8"));
    const size = objectIn(message, "resize");
    const [cols, rows] = [numberIn(size, "cols"), numberIn(size, "rows")];
    if (cols !== undefined && rows !== undefined && isSize(cols) && isSize(rows))
      this.#attached?.resize(cols, rows);
  }

  close(): void {
    void this.#link[Symbol.asyncDispose]();
  }

  #output(chunk: Buffer): void {
    if (this.#isWaiting || this.#ws.readyState !== this.#ws.OPEN) return;
    this.#at += chunk.length;
    this.#ws.send(chunk);
    if (this.#ws.bufferedAmount > AHEAD_BYTES) void this.#waitForReader();
  }

  /** Reads no further from the holder, which keeps the tape, until the page has read. */
  async #waitForReader(): Promise<void> {
    this.#isWaiting = true;
    this.#attached?.detach();
    while (this.#ws.readyState === this.#ws.OPEN && this.#ws.bufferedAmount > AHEAD_BYTES / 4)
      await new Promise((wake) => setTimeout(wake, LOOK_AGAIN_MS));
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#isWaiting = false;
    try {
      this.#attached = await this.#link.attach(
        null,
        {
          output: (chunk) => this.#output(chunk),
          ended: () => this.#end(),
          resized: (size) => say(this.#ws, { size: { ...size } }),
        },
        { from: this.#at },
      );
    } catch {
      // The holder is gone.
      this.#end();
    }
  }

  #end(): void {
    if (this.#isWaiting) return;
    say(this.#ws, { ended: true });
    this.#ws.close(1000, "ended");
  }
}

const isSize = (value: number) => Number.isSafeInteger(value) && value >= 1 && value <= 1_000;
