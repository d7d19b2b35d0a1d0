/**
 * Runs a UI: keys and messages go through its pure `update`, its state is drawn, and its effects are carried out. Signals
 * and a closed terminal end it, a bug restores the terminal first.
 */
import type { Key } from "./keys.ts";
import type { Size } from "./layout.ts";
import { Screen, sizeOf } from "./screen.ts";
import type { Line } from "./text.ts";

export type UiMessage =
  | { readonly type: "key"; readonly key: Key }
  | { readonly type: "resized"; readonly size: Size };

export interface Updated<State, Effect> {
  readonly state: State;
  readonly effects?: readonly Effect[];
}

/** What effects may do to the UI. */
export interface RunningUi<Message, Result> {
  post(message: Message): void;
  close(result: Result): void;
  /** Restores the terminal, and fails with this error. */
  fail(error: unknown): void;
  /** Gives the terminal away until the work is done, then takes it back. */
  away(work: () => Promise<void>): Promise<void>;
  redraw(): void;
  suspend(): void;
}

export interface UiProgram<State, Message, Effect, Result> {
  readonly first: (size: Size) => Updated<State, Effect>;
  readonly update: (state: State, message: Message | UiMessage) => Updated<State, Effect>;
  readonly view: (state: State) => readonly Line[];
  readonly perform: (effect: Effect, ui: RunningUi<Message, Result>) => void;
  /** The result for a signal's exit code. */
  readonly ended: (code: number) => Result;
}

export interface UiTerminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  readonly colours: boolean;
}

const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const;
/** Messages are drawn at most this often; keys are drawn at once. */
const FRAME_MS = 33;

export function runUi<State, Message, Effect, Result>(
  program: UiProgram<State, Message, Effect, Result>,
  terminal: UiTerminal,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    void new Ui(program, terminal, resolve, reject);
  });
}

class Ui<State, Message, Effect, Result> implements RunningUi<Message, Result> {
  readonly #program: UiProgram<State, Message, Effect, Result>;
  readonly #terminal: UiTerminal;
  readonly #resolve: (result: Result) => void;
  readonly #reject: (error: unknown) => void;
  readonly #signals: readonly (readonly [signal: string, listener: () => void])[];
  #screen: Screen | null = null;
  #state: State;
  #open = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    program: UiProgram<State, Message, Effect, Result>,
    terminal: UiTerminal,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ) {
    this.#program = program;
    this.#terminal = terminal;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#signals = Object.entries(SIGNALS).map(([signal, code]) => [signal, () => this.#end(code)]);
    for (const [signal, listener] of this.#signals) process.on(signal, listener);
    const { state, effects = [] } = program.first(sizeOf(terminal.output));
    this.#state = state;
    this.#enter();
    this.#guarded(() => {
      this.#draw();
      for (const effect of effects) program.perform(effect, this);
    });
  }

  post(message: Message | UiMessage): void {
    this.#guarded(() => this.#update(message));
    this.#timer ??= setTimeout(() => this.#guarded(() => this.#draw()), FRAME_MS);
  }

  close(result: Result): void {
    if (!this.#open) return;
    this.#stop();
    this.#resolve(result);
  }

  async away(work: () => Promise<void>): Promise<void> {
    this.#screen?.[Symbol.dispose]();
    this.#screen = null;
    // The program that has the terminal gets its signals.
    const idle = () => {};
    for (const [signal, listener] of this.#signals) process.off(signal, listener).on(signal, idle);
    try {
      await work();
    } catch (error) {
      this.fail(error);
    } finally {
      for (const [signal] of this.#signals) process.off(signal, idle);
    }
    if (!this.#open) return;
    for (const [signal, listener] of this.#signals) process.on(signal, listener);
    this.#enter();
    this.post({ type: "resized", size: sizeOf(this.#terminal.output) });
  }

  redraw(): void {
    this.#screen?.forget();
  }

  suspend(): void {
    this.#screen?.suspend();
  }

  #enter(): void {
    this.#screen = new Screen({
      ...this.#terminal,
      pastes: true,
      onKeys: (keys) =>
        this.#guarded(() => {
          for (const key of keys) this.#update({ type: "key", key });
          this.#draw();
        }),
      onResize: (size) =>
        this.#guarded(() => {
          this.#update({ type: "resized", size });
          this.#draw();
        }),
      onGone: () => this.#end(SIGNALS.SIGHUP),
    });
  }

  #update(message: Message | UiMessage): void {
    if (!this.#open) return;
    const { state, effects = [] } = this.#program.update(this.#state, message);
    this.#state = state;
    for (const effect of effects) this.#program.perform(effect, this);
  }

  #draw(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#open) this.#screen?.paint(this.#program.view(this.#state));
  }

  #end(code: number): void {
    this.close(this.#program.ended(code));
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    if (!this.#open) return;
    this.#stop();
    this.#reject(error);
  }

  #stop(): void {
    this.#open = false;
    clearTimeout(this.#timer);
    this.#screen?.[Symbol.dispose]();
    for (const [signal, listener] of this.#signals) process.off(signal, listener);
  }
}
