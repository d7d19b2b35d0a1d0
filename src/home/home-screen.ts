/** Opens the home screen on the user's terminal, and keeps it up to date. */
import { runUi, type RunningUi } from "../terminal/widgets.ts";
import type { HomeCommand } from "./actions.ts";
import type { HomeRow } from "./home-row.ts";
import { firstHome, home, type HomeEffect, type HomeMessage, type HomeState } from "./home-state.ts";
import { viewOfHome } from "./home-view.ts";
import type { Exchange } from "./pick-state.ts";

export interface HomeOptions {
  readonly colours: boolean;
  readonly narrowed: HomeState["narrowed"];
  readonly cwd: string;
  readonly engines: readonly string[];
  readonly now: () => number;
  /** Null: nothing changed since the last call. */
  readonly read: () => Promise<{ readonly rows: readonly HomeRow[]; readonly note: string } | null>;
  /** The latest output. Null: nothing changed since the last call for this row. */
  readonly exchange: (row: HomeRow) => Promise<Exchange | null>;
  /** Has the terminal until it settles, with true if the command succeeded. */
  readonly run: (command: HomeCommand) => Promise<boolean>;
}

const EVERY_MS = 1_000;

/** Resolves with the exit code. */
export async function openHome(options: HomeOptions): Promise<number> {
  const { colours, narrowed, cwd, engines, now } = options;
  const watch = new Watch(options);
  try {
    return await runUi<HomeState, HomeMessage, HomeEffect | Begin, number>(
      {
        first: (size) => ({
          state: firstHome({ size, colours, narrowed, cwd, engines, nowMs: now() }),
          effects: [{ do: "begin" }],
        }),
        update: home,
        view: viewOfHome,
        ended: (code) => code,
        perform: (effect, ui) => {
          if (effect.do === "close") ui.close(0);
          else if (effect.do === "redraw") ui.redraw();
          else if (effect.do === "suspend") ui.suspend();
          else if (effect.do === "begin") watch.begin(ui);
          else if (effect.do === "look") watch.look(effect.row);
          else void watch.away(effect.command);
        },
      },
      { input: process.stdin, output: process.stdout, colours },
    );
  } finally {
    watch.end();
  }
}

interface Begin {
  readonly do: "begin";
}

type HomeUi = RunningUi<HomeMessage, number>;

/** Reads once a second, one read at a time, and not while another program has the terminal. */
class Watch {
  readonly #options: HomeOptions;
  #ui: HomeUi | null = null;
  #row: HomeRow | null = null;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;

  constructor(options: HomeOptions) {
    this.#options = options;
  }

  begin(ui: HomeUi): void {
    this.#ui = ui;
    void this.#tick();
    this.#timer = setInterval(() => void this.#tick(), EVERY_MS);
  }

  look(row: HomeRow): void {
    this.#row = row;
    void this.#show();
  }

  async away(command: HomeCommand): Promise<void> {
    this.#busy = true;
    let ok = false;
    await this.#ui?.away(async () => {
      ok = await this.#options.run(command);
    });
    this.#busy = false;
    this.#ui?.post({ type: "ran", command, ok });
    await this.#tick();
  }

  end(): void {
    clearInterval(this.#timer);
    this.#ui = null;
  }

  async #tick(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      const read = await this.#options.read();
      if (read !== null) this.#ui?.post({ type: "rows", ...read });
      this.#ui?.post({ type: "tick", nowMs: this.#options.now() });
      await this.#show();
    } catch (error) {
      this.#ui?.fail(error);
    } finally {
      this.#busy = false;
    }
  }

  async #show(): Promise<void> {
    const row = this.#row;
    if (row === null) return;
    try {
      const exchange = await this.#options.exchange(row);
      if (exchange !== null) this.#ui?.post({ type: "exchange", key: row.key, exchange });
    } catch (error) {
      this.#ui?.fail(error);
    }
  }
}
