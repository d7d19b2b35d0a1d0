/**
 * The direct client: connects our terminal to the agent until Ctrl-] or the agent's end. The agent keeps working
 * whatever happens to the client.
 */
import type { HolderLink } from "./link.ts";
import { QueryFilter } from "./modes.ts";
import { detachAt } from "../lib/sequences.ts";
import { TerminalState, type TerminalSize } from "../lib/terminal-state.ts";

/** detached: the user left. ended: the agent ended. lost: the holder is gone. */
export type AttachEnd = "detached" | "ended" | "lost";

/** Without a terminal at stdin it only watches. */
export async function attachTerminal(link: HolderLink): Promise<AttachEnd> {
  const { stdin, stdout } = process;
  const isTerminal = stdin.isTTY && stdout.isTTY;
  let finish: (end: AttachEnd) => void = () => {};
  const over = new Promise<AttachEnd>((resolve) => (finish = resolve));
  void link.closed.then(() => finish("lost"));
  const terminal = new TerminalState(sizeOf());
  const screen = new ReplayScreen(terminal);
  const attached = await link.attach(isTerminal ? sizeOf() : null, {
    output: (chunk) => screen.output(chunk),
    ended: () => finish("ended"),
  });
  // A terminal that sees all output from the start needs no preamble.
  const preamble = isTerminal && attached.from > 0 ? attached.preamble : "";
  screen.begin(isTerminal ? attached.total - attached.from : 0, preamble);
  const type = (data: Buffer) => {
    const at = detachAt(data);
    if (at !== 0) attached.write(at === -1 ? data : data.subarray(0, at));
    if (at !== -1) finish("detached");
  };
  const resize = () => {
    attached.resize(sizeOf().cols, sizeOf().rows);
    terminal.resize(sizeOf());
  };
  const leave = () => finish("detached");
  const gone = () => finish("detached");
  for (const signal of ["SIGHUP", "SIGTERM", "SIGINT"] as const) process.on(signal, leave);
  stdout.on("error", gone);
  if (isTerminal) {
    stdin.setRawMode(true);
    stdin.on("data", type);
    stdin.resume();
    stdout.on("resize", resize);
    redraw(attached, sizeOf());
  }
  try {
    return await over;
  } finally {
    attached.detach();
    for (const signal of ["SIGHUP", "SIGTERM", "SIGINT"] as const) process.off(signal, leave);
    stdout.off("error", gone);
    if (isTerminal) {
      stdin.off("data", type);
      stdout.off("resize", resize);
      stdin.setRawMode(false);
      stdin.pause();
      stdout.write(terminal.leave());
    }
  }
}

/** A UI redraws itself only when its terminal changes size. */
function redraw(attached: { resize(cols: number, rows: number): void }, { cols, rows }: TerminalSize): void {
  if (rows > 1) attached.resize(cols, rows - 1);
  attached.resize(cols, rows);
}

function sizeOf(): TerminalSize {
  const { columns, rows } = process.stdout;
  const within = (value: number | undefined, otherwise: number) =>
    value === undefined || value < 1 ? otherwise : Math.min(value, 1_000);
  return { cols: within(columns, 80), rows: within(rows, 24) };
}

/** Shows earlier output without its terminal queries, because our terminal would type the answers. */
class ReplayScreen {
  readonly #terminal: TerminalState;
  readonly #filter = new QueryFilter();
  #early: Buffer[] | null = [];
  #left = 0;

  constructor(terminal: TerminalState) {
    this.#terminal = terminal;
  }

  begin(replayed: number, preamble: string): void {
    const early = this.#early ?? [];
    this.#early = null;
    this.#left = replayed;
    if (preamble !== "") this.#write(Buffer.from(preamble, "latin1"));
    for (const chunk of early) this.output(chunk);
  }

  output(chunk: Buffer): void {
    if (this.#early !== null) {
      this.#early.push(chunk);
      return;
    }
    const old = chunk.subarray(0, this.#left);
    const live = chunk.subarray(old.length);
    if (old.length > 0) {
      this.#left -= old.length;
      this.#write(this.#filter.read(old));
      if (this.#left === 0) this.#write(this.#filter.rest());
    }
    if (live.length > 0) this.#write(live);
  }

  #write(bytes: Buffer): void {
    this.#terminal.read(bytes);
    process.stdout.write(bytes);
  }
}
