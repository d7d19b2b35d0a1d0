/**
 * The connection to one live terminal. Bytes of before are replayed first: until the terminal has parsed them, whatever
 * it answers to queries in them is dropped, since the program got its answers long ago.
 */

export interface TerminalEvents {
  readonly onBegin: () => void;
  readonly onSize: (size: { readonly cols: number; readonly rows: number }) => void;
  readonly onBytes: (data: Uint8Array, parsed: () => void) => void;
  readonly onControl: (control: boolean, why?: string) => void;
  /** False: the connection is lost, and the agent may still run. */
  readonly onEnd: (ended: boolean, why?: string) => void;
}

interface Told {
  readonly ready?: boolean;
  readonly size?: { readonly cols: number; readonly rows: number } | null;
  readonly from?: number;
  readonly total?: number;
  readonly preamble?: string;
  readonly control?: boolean;
  readonly why?: string;
  readonly ended?: boolean;
  readonly error?: { readonly message: string };
}

export class TerminalLink {
  readonly #socket: WebSocket;
  readonly #events: TerminalEvents;
  #hasControl = false;
  /** Replayed bytes that the terminal has not parsed yet. */
  #old = Number.POSITIVE_INFINITY;
  #isOver = false;
  #isReady = false;
  /** The user asked for control before the connection was ready. */
  #isWanted = false;

  constructor(handle: string, events: TerminalEvents) {
    this.#events = events;
    this.#socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/runs/${handle}/terminal`);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("open", () => this.#send({ key: localStorage.getItem("reprise-key") }));
    this.#socket.addEventListener("message", ({ data }) => {
      if (data instanceof ArrayBuffer) this.#bytes(new Uint8Array(data));
      else this.#told(JSON.parse(String(data)) as Told);
    });
    this.#socket.addEventListener("close", () => {
      if (!this.#isOver) events.onEnd(false);
    });
  }

  get hasControl(): boolean {
    return this.#hasControl;
  }

  control(wanted: boolean): void {
    this.#isWanted = wanted;
    if (this.#isReady) this.#send({ control: wanted });
    if (!wanted) this.#control(false);
  }

  keys(text: string): void {
    if (this.#hasControl && this.#old <= 0) this.#send({ keys: text });
  }

  resize(size: { readonly cols: number; readonly rows: number }): void {
    this.#send({ resize: size });
  }

  close(): void {
    this.#isOver = true;
    this.#socket.close();
  }

  #told(message: Told): void {
    if (message.ready === true) {
      this.#events.onBegin();
      this.#old = Math.max(0, (message.total ?? 0) - (message.from ?? 0));
      if (message.size !== null && message.size !== undefined) this.#events.onSize(message.size);
      const preamble = Uint8Array.from(message.preamble ?? "", (letter) => letter.charCodeAt(0));
      if (preamble.length > 0) this.#events.onBytes(preamble, () => undefined);
      this.#isReady = true;
      if (this.#isWanted) this.#send({ control: true });
      return;
    }
    if (message.size !== null && message.size !== undefined) this.#events.onSize(message.size);
    if (message.control !== undefined) this.#control(message.control, message.why);
    if (message.error !== undefined) {
      this.#isOver = true;
      this.#events.onEnd(false, message.error.message);
    }
    if (message.ended === true) {
      this.#isOver = true;
      this.#hasControl = false;
      this.#events.onEnd(true);
    }
  }

  #bytes(data: Uint8Array): void {
    this.#events.onBytes(data, () => {
      this.#old -= data.length;
    });
  }

  #control(control: boolean, why?: string): void {
    this.#hasControl = control;
    this.#events.onControl(control, why);
  }

  #send(message: object): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}
