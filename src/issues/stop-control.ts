/** How people stop a batch or one issue of it, in three levels. A level never falls. */
import type { StopRequest } from "../run/run.ts";

/** 1: nothing new begins. 2: agents are asked to stop. 3: they are ended. */
export type StopLevel = 0 | 1 | 2 | 3;

/** What a timer can hold. */
const MAX_TIMER = 2 ** 31 - 1;

export class StopControl implements Disposable {
  #level: StopLevel = 0;
  #signal: "SIGTERM" | "SIGHUP" | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #batch: StopControl | null;
  readonly #forget: () => void;

  /** `batch`: the batch's control, for one issue of it, which stops with the batch or alone. */
  constructor(batch: StopControl | null = null) {
    this.#batch = batch;
    this.#forget = batch === null ? () => {} : batch.on(() => this.#tell());
  }

  get level(): StopLevel {
    return Math.max(this.#level, this.#batch?.level ?? 0) as StopLevel;
  }

  get signal(): "SIGTERM" | "SIGHUP" | null {
    return this.#batch?.signal ?? this.#signal;
  }

  /** The issue stops, and the batch does not. */
  get isAlone(): boolean {
    return this.#level >= 2 && (this.#batch?.level ?? 0) < 2;
  }

  /** The agent of this issue is interrupted; a second time it is ended. */
  stopAlone(): void {
    this.#level = this.#level < 2 ? 2 : 3;
    this.#tell();
  }

  [Symbol.dispose](): void {
    this.#forget();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Harder than before; `by`: the system wants it, and at once. */
  raise(by: "SIGTERM" | "SIGHUP" | null = null): StopLevel {
    this.#level =
      by === null ? (Math.min(3, this.#level + 1) as StopLevel) : (Math.max(2, this.#level) as StopLevel);
    this.#signal ??= by;
    this.#tell();
    return this.#level;
  }

  /** Tells a live attempt, now and later; the result forgets it again. */
  onStop(listener: (request: StopRequest) => void): () => void {
    let told: StopLevel = 1;
    const tell = () => {
      if (this.level <= told) return;
      told = this.level;
      listener(told === 3 ? "end" : (this.signal ?? "interrupt"));
    };
    tell();
    return this.on(tell);
  }

  on(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** False: the control was pressed before that time. */
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
