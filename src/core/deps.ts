/** What the outside world gives to code that must be testable: made in `main.ts` and in one test helper. */

export interface Clock {
  /** Wall clock, milliseconds since 1970, UTC. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin, for durations and deadlines within one process. */
  mono(): number;
}

export interface Env {
  readonly [name: string]: string | undefined;
}

/** Tells the user what happened besides the result: one line each, already free of control characters. */
export interface Log {
  warn(message: string): void;
  info(message: string): void;
}
