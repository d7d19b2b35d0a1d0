/**
 * How a batch is asked to stop: drain, then interrupt, then end. Once pressed it is never let go. One issue of it has a
 * brake of its own, which others press by a file beside the batch's metadata.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { removeQuietly, writeAtomic } from "../audit/audit.ts";
import type { StopRequest } from "../run/run.ts";

/** 1: nothing new begins. 2: agents are asked to stop. 3: they are ended. */
export type Force = 0 | 1 | 2 | 3;

/** What a timer can hold. */
const MAX_TIMER = 2 ** 31 - 1;

export class Brake implements Disposable {
  #force: Force = 0;
  #signal: "SIGTERM" | "SIGHUP" | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #whole: Brake | null;
  readonly #forget: () => void;

  /** `whole`: the batch's brake, for one issue of it, which stops with the batch or alone. */
  constructor(whole: Brake | null = null) {
    this.#whole = whole;
    this.#forget = whole === null ? () => {} : whole.on(() => this.#tell());
  }

  get force(): Force {
    return Math.max(this.#force, this.#whole?.force ?? 0) as Force;
  }

  get signal(): "SIGTERM" | "SIGHUP" | null {
    return this.#whole?.signal ?? this.#signal;
  }

  /** The issue stops, and the batch does not. */
  get isAlone(): boolean {
    return this.#force >= 2 && (this.#whole?.force ?? 0) < 2;
  }

  /** The agent of this issue is interrupted; a second time it is ended. */
  pressAlone(): void {
    this.#force = this.#force < 2 ? 2 : 3;
    this.#tell();
  }

  [Symbol.dispose](): void {
    this.#forget();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Harder than before; `by`: the system wants it, and at once. */
  press(by: "SIGTERM" | "SIGHUP" | null = null): Force {
    this.#force = by === null ? (Math.min(3, this.#force + 1) as Force) : (Math.max(2, this.#force) as Force);
    this.#signal ??= by;
    this.#tell();
    return this.#force;
  }

  /** Tells a live attempt, now and later; the result forgets it again. */
  onStop(listener: (request: StopRequest) => void): () => void {
    let told: Force = 1;
    const tell = () => {
      if (this.force <= told) return;
      told = this.force;
      listener(told === 3 ? "end" : (this.signal ?? "interrupt"));
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
    while (this.force === 0 && now() < atMs) {
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
    return this.force === 0;
  }
}

const LOOK_MS = 200;
/** An agent that was interrupted and is still there is ended. */
const PATIENCE_MS = 10_000;

/** Where a request to stop one run of a batch lies. The batch's id makes it nobody else's. */
function requestFile(directory: string, batch: string, handle: string): string {
  return join(directory, `${batch}.stop-${handle}`);
}

/** Asks the batch to stop this run and no other; the result takes the request back. */
export function requestStop(directory: string, batch: string, handle: string): () => void {
  const file = requestFile(directory, batch, handle);
  writeAtomic(file, "");
  return () => removeQuietly(file);
}

/** Presses the brake when its run is asked to stop. */
export function obeyRequests(
  brake: Brake,
  { directory, batch, handle }: { directory: string; batch: string; handle: () => string | null },
): Disposable {
  let askedMs: number | null = null;
  const look = () => {
    const now = handle();
    const file = now === null ? null : requestFile(directory, batch, now);
    if (file !== null && existsSync(file)) {
      removeQuietly(file);
      askedMs ??= performance.now();
      if (brake.force < 2) brake.pressAlone();
    }
    if (askedMs !== null && performance.now() - askedMs > PATIENCE_MS && brake.force < 3) brake.pressAlone();
  };
  const timer = setInterval(look, LOOK_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
