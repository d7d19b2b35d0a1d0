/**
 * Plays something with its timing on the user's terminal, which `Screen` restores however the replay ends. The keys are
 * in `playback.ts`.
 */
import { fit, type Key, Screen, type Size, sizeOf } from "../terminal/terminal.ts";
import { beginning, clockText, passed, type Playback, pressed } from "./playback.ts";

/** Something that changes in steps and can be shown after each of them. */
export interface Playable {
  readonly durationMs: number;
  /** From the beginning. */
  begin(): AsyncIterable<PlayStep>;
  /** Harmless rows that fit. `note`: one phrase for the status line. */
  rows(size: Size): { readonly rows: readonly string[]; readonly note: string | null };
}

export interface PlayStep {
  readonly atMs: number;
  apply(): Promise<void> | void;
}

export interface PlayOptions {
  readonly speed: number;
  /** Longer pauses are shortened to this. Null: as recorded. */
  readonly idleMs: number | null;
  readonly colours: boolean;
}

/** A gap that the key for the next pause looks for, and how far it goes without finding one. */
const PAUSE_MS = 1_000;
const SKIP_MS = 60_000;
/** While it catches up, it draws this often. */
const DRAW_MS = 100;
/** Where a recording fills the terminal, the status line stays this long after a key. */
const STATUS_MS = 2_500;

export async function play(playable: Playable, options: PlayOptions): Promise<"left" | "interrupted"> {
  const player = new Player(playable, options);
  const { stdin, stdout } = process;
  const stop = () => player.leave();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, stop);
  try {
    using screen = new Screen({
      input: stdin,
      output: stdout,
      colours: options.colours,
      onKeys: (keys) => player.keys(keys),
      onResize: () => player.draw(),
      onGone: stop,
    });
    return await player.run((rows) => screen.paintRows(rows));
  } finally {
    for (const signal of signals) process.off(signal, stop);
  }
}

class Player {
  readonly #playable: Playable;
  readonly #options: PlayOptions;
  #state: Playback;
  #paint: (rows: readonly string[]) => void = () => {};
  #wake: () => void = () => {};
  /** On the clock of the viewer. */
  #looked = performance.now();
  #drawn = 0;
  #keyed = performance.now();
  /** In the recording. */
  #atMs = 0;
  #ended = false;

  constructor(playable: Playable, options: PlayOptions) {
    this.#playable = playable;
    this.#options = options;
    this.#state = beginning(options.speed);
  }

  keys(keys: readonly Key[]): void {
    this.#advance();
    for (const key of keys) {
      this.#state =
        this.#ended && (key === "enter" || key === "right")
          ? { ...this.#state, leaving: "left" }
          : pressed(this.#state, key === "ctrl-z" ? "space" : key);
    }
    this.#keyed = performance.now();
    this.draw();
    this.#wake();
  }

  leave(): void {
    this.#state = { ...this.#state, leaving: "interrupted" };
    this.#wake();
  }

  async run(paint: (rows: readonly string[]) => void): Promise<"left" | "interrupted"> {
    this.#paint = paint;
    for (;;) {
      await this.#once();
      if (this.#state.leaving !== null) return this.#state.leaving;
      this.#ended = true;
      // The space bar plays it again.
      this.#state = { ...this.#state, paused: true, skipping: false };
      this.draw();
      while (this.#state.paused && this.#state.leaving === null) await this.#wait(null);
      if (this.#state.leaving !== null) return this.#state.leaving;
      this.#ended = false;
      this.#state = beginning(this.#state.speed);
      this.#atMs = 0;
    }
  }

  async #once(): Promise<void> {
    const idle = this.#options.idleMs ?? Number.POSITIVE_INFINITY;
    let due = 0;
    let skipFrom: number | null = null;
    for await (const step of this.#playable.begin()) {
      const gap = step.atMs - this.#atMs;
      due += Math.min(gap, idle);
      if (!this.#state.skipping) skipFrom = null;
      else if (skipFrom === null) skipFrom = this.#atMs;
      else if (gap >= PAUSE_MS || step.atMs - skipFrom > SKIP_MS) {
        skipFrom = null;
        this.#state = { ...this.#state, skipping: false, positionMs: due - Math.min(gap, idle) };
      }
      if (!(await this.#until(due))) return;
      if (this.#state.skipping) skipFrom ??= this.#atMs;
      this.#atMs = step.atMs;
      await step.apply();
      if (performance.now() - this.#drawn > DRAW_MS) this.draw();
    }
  }

  /** False: the user leaves. */
  async #until(due: number): Promise<boolean> {
    for (;;) {
      this.#advance();
      if (this.#state.leaving !== null) return false;
      if (this.#state.skipping) this.#state = { ...this.#state, positionMs: due };
      const missing = due - this.#state.positionMs;
      if (missing <= 0 && !this.#state.paused) return true;
      this.draw();
      await this.#wait(this.#state.paused ? null : missing / this.#state.speed);
    }
  }

  /** Waits for a key, for the given milliseconds at most, or until the status line disappears. */
  async #wait(ms: number | null): Promise<void> {
    const most = Math.max(20, STATUS_MS - (performance.now() - this.#keyed));
    const isStatusLate = performance.now() - this.#keyed > STATUS_MS;
    const until = Math.min(ms ?? 1_000, isStatusLate ? 1_000 : most);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, until);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #advance(): void {
    const now = performance.now();
    this.#state = passed(this.#state, now - this.#looked);
    this.#looked = now;
  }

  draw(): void {
    this.#drawn = performance.now();
    const size = sizeOf(process.stdout);
    const { rows, note } = this.#playable.rows(size);
    const isShown = rows.length < size.rows || this.#state.paused || this.#drawn - this.#keyed < STATUS_MS;
    if (!isShown) {
      this.#paint(rows);
      return;
    }
    const content = Array.from({ length: size.rows - 1 }, (_none, at) => rows[at] ?? "");
    const text = fit(this.#status(note), size.columns);
    this.#paint([...content, this.#options.colours ? `\x1b[7m${text}\x1b[27m` : text]);
  }

  #status(note: string | null): string {
    const { paused, speed } = this.#state;
    const state = this.#ended ? "end" : paused ? "paused" : "playing";
    const keys = this.#ended
      ? "space plays again, q leaves"
      : `space ${paused ? "plays" : "pauses"}, → next pause, +/- speed, q leaves`;
    const at = `${clockText(this.#atMs)}/${clockText(this.#playable.durationMs)}`;
    return [` ${state} ${at} ${speed}x`, ...(note === null ? [] : [note]), keys].join(" · ");
  }
}
