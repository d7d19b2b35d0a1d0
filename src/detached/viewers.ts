/**
 * The viewers of an agent's raw output. Each gets the tape from its offset on, then live output, without gaps or
 * repeats. A slow viewer reads from the tape, so that neither the agent nor our memory waits for it.
 */
import { readStream } from "../state/logs.ts";
import { Fault } from "../core/faults.ts";
import type { Peer } from "../ipc/ipc.ts";

/** The most to send ahead of the viewer's reading. */
const AHEAD_BYTES = 256 * 1024;

export class Viewers {
  readonly #directory: () => string;
  readonly #viewers = new Set<Viewer>();
  #total = 0;

  /** `directory`: the attempt's directory, once it exists. */
  constructor(directory: () => string) {
    this.#directory = directory;
  }

  get total(): number {
    return this.#total;
  }

  /** The chunk is on the tape already (I7). */
  grew(chunk: Buffer): void {
    const at = this.#total;
    this.#total += chunk.length;
    for (const viewer of this.#viewers) viewer.grew(at, chunk);
  }

  add(peer: Peer, from: number): Viewer {
    const viewer = new Viewer(peer, from, { directory: this.#directory, total: () => this.#total });
    this.#viewers.add(viewer);
    peer.onClosed(() => this.remove(viewer));
    viewer.grew(this.#total, Buffer.alloc(0));
    return viewer;
  }

  remove(viewer: Viewer): void {
    viewer.stop();
    this.#viewers.delete(viewer);
  }

  /** Resolves when every viewer that reads has everything. */
  async settled(): Promise<void> {
    await Promise.all([...this.#viewers].map((viewer) => viewer.settled()));
  }
}

interface Source {
  readonly directory: () => string;
  readonly total: () => number;
}

export class Viewer {
  readonly #peer: Peer;
  readonly #source: Source;
  #sent: number;
  #pumping: Promise<void> | null = null;
  #stopped = false;

  constructor(peer: Peer, from: number, source: Source) {
    this.#peer = peer;
    this.#sent = from;
    this.#source = source;
  }

  grew(at: number, chunk: Buffer): void {
    if (this.#pumping !== null || this.#stopped) return;
    if (this.#sent === at && this.#peer.unread < AHEAD_BYTES) this.#send(chunk);
    else {
      this.#pumping = this.#pump().finally(() => {
        this.#pumping = null;
      });
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  async settled(): Promise<void> {
    await this.#pumping;
  }

  async #pump(): Promise<void> {
    while (this.#sent < this.#source.total() && !this.#stopped) {
      const before = this.#sent;
      try {
        await this.#readOn();
      } catch (error) {
        // The tape is unreadable: the viewer gets no more output, and the agent keeps working.
        if (!(error instanceof Fault)) throw error;
        return;
      }
      // The disk failed to deliver the rest; the next growth tries again.
      if (this.#sent === before) return;
    }
  }

  async #readOn(): Promise<void> {
    for await (const chunk of readStream(this.#source.directory(), "pty-output", { fromByte: this.#sent })) {
      // Not beyond the counted length: later writes announce themselves.
      const rest = this.#source.total() - this.#sent;
      if (this.#stopped || rest <= 0) return;
      this.#send(chunk.subarray(0, rest));
      if (this.#peer.unread >= AHEAD_BYTES) await this.#peer.drained();
    }
  }

  #send(chunk: Buffer): void {
    if (chunk.length === 0) return;
    const at = this.#sent;
    this.#sent += chunk.length;
    this.#peer.notify("output", { at, data: chunk.toString("base64") });
  }
}
