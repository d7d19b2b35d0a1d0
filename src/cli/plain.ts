/** A recording as harmless text (I11), in bounded memory. */
import { once } from "node:events";
import { harmless, plain } from "../lib/harmless.ts";

/** Longer lines are passed on in pieces. */
const MAX_LINE = 64 * 1024;
/** Lines above the screen to keep of a UI. */
const SCROLLBACK = 10_000;

/** Line by line: removes control sequences, applies carriage returns as overwriting. */
export async function* plainText(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of chunks) {
    pending += decoder.decode(chunk, { stream: true });
    const end = pending.lastIndexOf("\n") + 1;
    if (end > 0) yield plain(pending.slice(0, end));
    pending = pending.slice(end);
    if (pending.length <= MAX_LINE) continue;
    yield plain(pending);
    pending = "";
  }
  pending += decoder.decode();
  if (pending !== "") yield plain(pending);
}

/** A UI's screen and scrollback at the end of the recording. */
export async function* renderScreen(
  chunks: AsyncIterable<Buffer>,
  size: { readonly columns: number; readonly rows: number },
): AsyncGenerator<string> {
  const { default: xterm } = await import("@xterm/headless");
  const terminal = new xterm.Terminal({
    cols: size.columns,
    rows: size.rows,
    scrollback: SCROLLBACK,
    allowProposedApi: true,
  });
  try {
    for await (const chunk of chunks) await new Promise<void>((resolve) => terminal.write(chunk, resolve));
    const { normal, active, alternate } = terminal.buffer;
    yield* linesOf(normal);
    // A UI that did not leave the alternate screen shows its content there.
    if (active.type === "alternate") yield* linesOf(alternate);
  } finally {
    terminal.dispose();
  }
}

interface ScreenBuffer {
  readonly length: number;
  getLine(
    y: number,
  ): { readonly isWrapped: boolean; translateToString(trimRight: boolean): string } | undefined;
}

/** Joins wrapped rows into one line again; leaves out trailing empty lines. */
function* linesOf(buffer: ScreenBuffer): Generator<string> {
  let blank = 0;
  let line: string | null = null;
  for (let y = 0; y <= buffer.length; y += 1) {
    const row = buffer.getLine(y);
    if (row?.isWrapped === true && line !== null) {
      line += row.translateToString(true);
      continue;
    }
    if (line === "") blank += 1;
    else if (line !== null) {
      yield `${"\n".repeat(blank)}${harmless(line)}\n`;
      blank = 0;
    }
    line = row?.translateToString(true) ?? null;
  }
}

/** To stdout, no faster than it is read. False: the reader is gone. */
export async function writeOut(part: string | Buffer): Promise<boolean> {
  const { stdout } = process;
  if (stdout.destroyed || stdout.errored !== null) return false;
  if (stdout.write(part)) return true;
  const waiting = new AbortController();
  const { signal } = waiting;
  await Promise.race([once(stdout, "drain", { signal }), once(stdout, "close", { signal })]).catch(() => {});
  // Also removes the listener that did not fire.
  waiting.abort();
  return !stdout.destroyed;
}
