/** A terminal without a screen that notices everything that was done to it. */
import headless from "@xterm/headless";

/** Our own sequences: colours, and the status line that is wiped. */
const OWN = /\u001b\[(?:0|1|2|3[1-6])m|\u001b\[[02]?K/g;

const COMMANDS = [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 50, 52, 104, 110, 133, 633, 777, 1337, 21_337];

export class Emulator {
  readonly #terminal = new headless.Terminal({
    cols: 100,
    rows: 40,
    allowProposedApi: true,
    scrollback: 0,
    logLevel: "off",
  });
  #done: string[] = [];
  readonly #modes: string;

  constructor() {
    const note = (what: string) => {
      this.#done.push(what);
      return false;
    };
    this.#terminal.onTitleChange((title) => note(`the title became ${JSON.stringify(title)}`));
    this.#terminal.onBell(() => note("it rang"));
    this.#terminal.onData((data) => note(`${JSON.stringify(data)} was typed back`));
    this.#terminal.onBinary((data) => note(`${JSON.stringify(data)} was typed back`));
    const { parser } = this.#terminal;
    for (const id of COMMANDS)
      parser.registerOscHandler(id, (data) => note(`OSC ${id};${data.slice(0, 40)}`));
    for (const final of ["q", "p", "|", "m", "t"]) {
      parser.registerDcsHandler({ final }, () => note(`DCS ${final}`));
      parser.registerDcsHandler({ intermediates: "$", final }, () => note(`DCS $${final}`));
      parser.registerDcsHandler({ intermediates: "+", final }, () => note(`DCS +${final}`));
    }
    parser.registerCsiHandler({ intermediates: " ", final: "q" }, () => note("the cursor changed its shape"));
    parser.registerEscHandler({ final: "c" }, () => note("it was reset"));
    this.#modes = this.#state();
  }

  /** What was done to it by this output. `terminal`: written to a terminal, where our own colours are allowed. */
  async complaints(output: string, terminal: boolean): Promise<readonly string[]> {
    this.#done = [];
    await new Promise<void>((resolve) => {
      this.#terminal.write(output.replaceAll(/\r?\n/g, "\r\n"), resolve);
    });
    const state = this.#state();
    if (state !== this.#modes) {
      this.#done.push(`its state is ${state} instead of ${this.#modes}`);
      this.#terminal.reset();
    }
    const rest = terminal ? output.replaceAll(OWN, "").replaceAll("\r", "") : output;
    const raw = rawIn(rest);
    return raw === null ? this.#done : [...this.#done, raw];
  }

  #state(): string {
    const { modes, buffer } = this.#terminal;
    return JSON.stringify({ ...modes, buffer: buffer.active.type });
  }
}

/**
 * C0 but tab and line feed, DEL, C1, bidirectional and other invisible controls, lone surrogates. Written apart from the
 * product, so that both would have to be wrong.
 */
export const RAW =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/u;

function rawIn(text: string): string | null {
  const found = RAW.exec(text);
  if (found === null) return null;
  const around = text.slice(Math.max(0, found.index - 30), found.index + 30);
  return `raw in its output: ${JSON.stringify(around)}`;
}
