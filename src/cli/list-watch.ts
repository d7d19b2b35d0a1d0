/** `reprise list --watch`: the table full-screen, drawn again when it has changed. */
import { styleOfState } from "../lib/palette.ts";
import { cutLine, type Line, type Piece, Screen, sizeOf } from "../terminal/terminal.ts";

/** A row of the table, and the status that it shows. Absent: the header, or a note. */
export interface WatchedRow {
  readonly text: string;
  readonly status?: string;
}

const EVERY_MS = 1_000;

/** Until q, which is 0, or Ctrl-C, which is 130. A terminal that is gone ends it as well. */
export async function watchRows(
  colours: boolean,
  read: (columns: number) => Promise<readonly WatchedRow[]>,
): Promise<number> {
  const { stdin: input, stdout: output } = process;
  const stop = new Stop();
  const interrupted = () => stop.leave(130);
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, interrupted);
  try {
    using screen = new Screen({
      input,
      output,
      colours,
      onKeys: (keys) => {
        if (keys.includes("ctrl-c")) stop.leave(130);
        else if (keys.includes("q") || keys.includes("escape")) stop.leave(0);
      },
      onResize: () => stop.wake(),
      onGone: () => stop.leave(0),
    });
    while (stop.code === null) {
      const { columns, rows } = sizeOf(output);
      screen.paint(frameOf(await read(columns), columns, rows));
      await stop.orAfter(EVERY_MS);
    }
    return stop.code;
  } finally {
    for (const signal of signals) process.off(signal, interrupted);
  }
}

class Stop {
  /** Null: the user has not asked to leave. */
  code: number | null = null;
  wake = (): void => {};

  leave(code: number): void {
    this.code ??= code;
    this.wake();
  }

  async orAfter(ms: number): Promise<void> {
    if (this.code !== null) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** As many rows as fit, and a line that names the rest and the key to leave. */
export function frameOf(rows: readonly WatchedRow[], columns: number, height: number): readonly Line[] {
  const shown = rows.slice(0, Math.max(1, height - 1));
  const more = rows.length - shown.length;
  const foot = more === 0 ? "q leaves" : `${more} more below; q leaves`;
  const blank = Array.from({ length: Math.max(0, height - 1 - shown.length) }, (): Line => [{ text: "" }]);
  return [...shown.map(lineOf), ...blank, [{ text: foot, style: "dim" } as const]].map((line) =>
    cutLine(line, columns),
  );
}

function lineOf({ text, status }: WatchedRow, at: number): Line {
  if (status === undefined) return [at === 0 ? { text, style: "dim" } : { text }];
  const found = text.indexOf(` ${status}`);
  if (found === -1) return [{ text }];
  const end = found + 1 + status.length;
  const style = styleOfState(status);
  const pieces: readonly Piece[] = [
    { text: text.slice(0, found + 1) },
    style === undefined ? { text: status } : { text: status, style },
    { text: text.slice(end) },
  ];
  return pieces;
}
