/** How people stop a batch or one issue of it, in three levels. A level never falls. */
import type { StopRequest } from "../run/run.ts";

/** 1: nothing new begins. 2: Reprise interrupts the agents. 3: Reprise ends them. */
export type StopLevel = 0 | 1 | 2 | 3;

/** The longest time of a Node timer. */
const MAX_TIMER = 2 ** 31 - 1;

export class StopControl implements Disposable {
  #level: StopLevel = 0;
  #signal: "SIGTERM" | "SIGHUP" | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #batch: StopControl | null;
  readonly #forget: () => void;

  /** `batch`: for one issue, the control of its batch. The issue stops with the batch or alone. */
  constructor(batch: StopControl | null = null) {
    this.#batch = batch;
    this.#forget = batch === null ? () => {} : batch.on(() => this.#notify());
  }

  get level(): StopLevel {
    return Math.max(this.#level, this.#batch?.level ?? 0) as StopLevel;
  }

  get signal(): "SIGTERM" | "SIGHUP" | null {
    return this.#batch?.signal ?? this.#signal;
  }

  /** The issue stops, but its batch does not. */
  get isAlone(): boolean {
    return this.#level >= 2 && (this.#batch?.level ?? 0) < 2;
  }

  /** Interrupts the agent of this issue; the second call ends it. */
  stopAlone(): void {
    this.#level = this.#level < 2 ? 2 : 3;
    this.#notify();
  }

  [Symbol.dispose](): void {
    this.#forget();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Raises the level by one. `by`: the signal that asks, which interrupts at once. */
  raise(by: "SIGTERM" | "SIGHUP" | null = null): StopLevel {
    this.#level =
      by === null ? (Math.min(3, this.#level + 1) as StopLevel) : (Math.max(2, this.#level) as StopLevel);
    this.#signal ??= by;
    this.#notify();
    return this.#level;
  }

  /** Calls the listener of a live attempt now and at each higher level. The result removes it. */
  onStop(listener: (request: StopRequest) => void): () => void {
    let reported: StopLevel = 1;
    const report = () => {
      if (this.level <= reported) return;
      reported = this.level;
      listener(reported === 3 ? "end" : (this.signal ?? "interrupt"));
    };
    report();
    return this.on(report);
  }

  on(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** False: a stop came before that time. */
  async waitUntil(atMs: number, now: () => number): Promise<boolean> {
    while (this.level === 0 && now() < atMs) {
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer);
          forget();
          resolve();
        };
        const timer = setTimeout(done, Math.min(MAX_TIMER, Math.max(0, atMs - now())));
        const forget = this.on(done);
      });
    }
    return this.level === 0;
  }
}
