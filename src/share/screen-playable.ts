/** The recording of a terminal as something to play: drawn in memory, shown as far as the present terminal has room. */
import type { TerminalSize } from "../lib/terminal-state.ts";
import { paintedRows, RecordedScreen } from "./frame.ts";
import type { Playable } from "./player.ts";
import { recordingFacts, stepsOf } from "./recording.ts";

export interface ScreenRequest {
  readonly directory: string;
  /** The size of a recording that begins without one. */
  readonly otherwise: TerminalSize;
  readonly lineFeeds: boolean;
  readonly colours: boolean;
}

export async function screenPlayable({
  directory,
  otherwise,
  lineFeeds,
  colours,
}: ScreenRequest): Promise<Playable & Disposable & { readonly size: TerminalSize; readonly timed: boolean }> {
  const facts = await recordingFacts(directory);
  const size = facts.size ?? otherwise;
  let screen = await RecordedScreen.open(size, lineFeeds);
  return {
    durationMs: facts.durationMs,
    size,
    timed: facts.timed,
    begin: async function* () {
      screen[Symbol.dispose]();
      screen = await RecordedScreen.open(size, lineFeeds);
      for await (const { atMs, size: changed, bytes } of stepsOf(directory))
        yield {
          atMs,
          apply: async () => {
            if (changed !== undefined) screen.resize(changed);
            await screen.write(bytes);
          },
        };
    },
    rows: ({ columns, rows }) => {
      const frame = screen.frame();
      // The part around the cursor, where something happens.
      const top = Math.max(0, Math.min(frame.row - rows + 2, frame.size.rows - rows));
      const shown = paintedRows(frame, columns, colours).slice(top, top + rows);
      const fits = frame.size.cols <= columns && frame.size.rows <= rows;
      return { rows: shown, note: fits ? null : `cut: recorded at ${sizeText(frame.size)}` };
    },
    [Symbol.dispose]: () => screen[Symbol.dispose](),
  };
}

export const sizeText = ({ cols, rows }: TerminalSize): string => `${cols}x${rows}`;
