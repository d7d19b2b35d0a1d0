/** How a batch is asked to stop: drain, then interrupt, then end. Once pressed it is never let go. */
import type { StopRequest } from "../run/run.ts";

/** 1: nothing new begins. 2: agents are asked to stop. 3: they are ended. */
export type Force = 0 | 1 | 2 | 3;

/** What a timer can hold. */
const MAX_TIMER = 2 ** 31 - 1;

export class Brake {
  #force: Force = 0;
  #signal: "SIGTERM" | "SIGHUP" | null = null;
  readonly #listeners = new Set<() => void>();

  get force(): Force {
    return this.#force;
  }

  get signal(): "SIGTERM" | "SIGHUP" | null {
    return this.#signal;
  }

  /** Harder than before; `by`: the system wants it, and at once. */
  press(by: "SIGTERM" | "SIGHUP" | null = null): Force {
    this.#force = by === null ? (Math.min(3, this.#force + 1) as Force) : (Math.max(2, this.#force) as Force);
    this.#signal ??= by;
    for (const listener of this.#listeners) listener();
    return this.#force;
  }

  /** Tells a live attempt, now and later; the result forgets it again. */
  onStop(listener: (request: StopRequest) => void): () => void {
    let told: Force = 1;
    const tell = () => {
      if (this.#force <= told) return;
      told = this.#force;
      listener(told === 3 ? "end" : (this.#signal ?? "interrupt"));
    };
    tell();
    return this.on(tell);
  }

  on(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** False: the brake was pressed before that time. */
  async waitUntil(atMs: number, now: () => number): Promise<boolean> {
    while (this.#force === 0 && now() < atMs) {
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
    return this.#force === 0;
  }
}
