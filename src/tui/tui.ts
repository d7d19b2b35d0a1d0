/** The terminal UI of a review. The door of this folder; loaded only when a UI opens. */
import { Fault } from "../core/faults.ts";
import type { ReviewService } from "../reviews/reviews.ts";
import { Screen, sizeOf, type Key } from "../terminal/terminal.ts";
import { EffectRunner } from "./effects.ts";
import { meaningOf } from "./keys.ts";
import { reduce } from "./reduce.ts";
import { firstState, type Effect, type Message, type State } from "./state.ts";
import { view } from "./view.ts";

export interface UiOptions {
  readonly service: ReviewService;
  /** The caller's terminal. */
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  readonly colours: boolean;
  readonly now: () => number;
}

/**
 * Resolves with the exit code when the user leaves, or 128 plus the number of the signal that ended it. A turn that did
 * not stop in time may still be running: the caller ends the process.
 */
export async function openReview(options: UiOptions): Promise<number> {
  if (!options.input.isTTY || !options.output.isTTY) {
    throw new Fault("platform_unsupported", "The review UI needs a terminal for both input and output.");
  }
  return new Promise((resolve, reject) => new Ui(options, resolve, reject));
}

/** Outside events are drawn at most this often; keys are drawn at once. */
const FRAME_MS = 33;
const TICK_MS = 1_000;
const STOP_MS = 5_000;
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const;

/** State, screen and service of one UI, until it closes. */
class Ui {
  readonly #options: UiOptions;
  readonly #resolve: (code: number) => void;
  readonly #reject: (error: unknown) => void;
  readonly #screen: Screen;
  readonly #doer: EffectRunner;
  readonly #clock: NodeJS.Timeout;
  readonly #signals: readonly (readonly [signal: string, listener: () => void])[];
  #state: State;
  #open = true;
  #lastFrame = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: UiOptions, resolve: (code: number) => void, reject: (error: unknown) => void) {
    const { service, output, now } = options;
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#state = firstState(service.pullRequest, sizeOf(output), now());
    this.#doer = new EffectRunner(service, (message) =>
      this.#guard(() => {
        this.#post({ type: "tick", now: now() });
        this.#post(message);
      }),
    );
    this.#signals = Object.entries(SIGNALS).map(([signal, code]) => [signal, () => this.#terminated(code)]);
    for (const [signal, listener] of this.#signals) process.on(signal, listener);
    this.#screen = new Screen({
      ...options,
      onKeys: (keys) => this.#guard(() => this.#pressed(keys)),
      onResize: (size) =>
        this.#guard(() => {
          this.#post({ type: "resized", size });
          this.#draw();
        }),
      onGone: () => this.#terminated(SIGNALS.SIGHUP),
    });
    this.#clock = setInterval(() => this.#guard(() => this.#post({ type: "tick", now: now() })), TICK_MS);
    this.#doer.perform({ do: "load", ticket: this.#state.ticket, fresh: false });
    this.#guard(() => this.#draw());
  }

  #pressed(keys: readonly Key[]): void {
    this.#post({ type: "tick", now: this.#options.now() });
    for (const key of keys) {
      const meaning = meaningOf(this.#state, key);
      if (meaning !== null) this.#post({ type: "pressed", key: meaning });
    }
    this.#draw();
  }

  #post(message: Message): void {
    if (!this.#open) return;
    const { state, effects } = reduce(this.#state, message);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    if (this.#open) {
      const wait = Math.max(0, this.#lastFrame + FRAME_MS - performance.now());
      this.#timer ??= setTimeout(() => this.#guard(() => this.#draw()), wait);
    }
  }

  #perform(effect: Effect): void {
    if (effect.do === "quit") this.#close(effect.waitMs, () => this.#resolve(effect.code));
    else if (effect.do === "suspend") this.#screen.suspend();
    else if (effect.do === "redraw") this.#screen.forget();
    else this.#doer.perform(effect);
  }

  #draw(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#open) return;
    this.#lastFrame = performance.now();
    this.#screen.paint(view(this.#state, this.#options.colours));
  }

  #terminated(code: number): void {
    this.#guard(() => this.#post({ type: "terminated", code }));
  }

  /** After a bug, restores the terminal before reporting it. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#doer.perform({ do: "interrupt" });
    this.#close(STOP_MS, () => this.#reject(error));
  }

  #close(waitMs: number, then: () => void): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#timer);
    clearInterval(this.#clock);
    this.#screen[Symbol.dispose]();
    void this.#doer.turnEnded(waitMs).then(() => {
      for (const [signal, listener] of this.#signals) process.off(signal, listener);
      then();
    });
  }
}
