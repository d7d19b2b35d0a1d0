/** A terminal of the page: drawn in the agent's size, inert until a screen connects it. */
import { Terminal } from "@xterm/xterm";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { withoutStyleElements } from "./xterm-styles.ts";

withoutStyleElements();

const FONT_PX = 13;
/** Smaller letters are unreadable: the box scrolls instead. */
const SMALLEST_FONT_PX = 8;
export const UNKNOWN_SIZE = { cols: 120, rows: 40 };

export interface Size {
  readonly cols: number;
  readonly rows: number;
}

/** `lineFeeds`: the output of a pipe, where a line feed begins a new line. */
function makeTerminal(size: Size, lineFeeds: boolean): Terminal {
  return new Terminal({
    ...size,
    scrollback: 5_000,
    fontSize: FONT_PX,
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    cursorBlink: false,
    convertEol: lineFeeds,
    disableStdin: true,
    screenReaderMode: false,
    allowProposedApi: false,
    // Links of the program's own making (OSC 8) are text.
    linkHandler: { activate: () => undefined },
    theme: {
      background: "#101214",
      foreground: "#dcdad5",
      cursor: "#58c4cf",
      selectionBackground: "#3a4a4d",
    },
  });
}

/** Draws the agent's size in the space there is: a smaller letter instead of another size for everybody. */
function fit(terminal: Terminal, box: HTMLElement): void {
  const cell = terminal.element?.querySelector<HTMLElement>(".xterm-screen")?.clientWidth ?? 0;
  if (cell === 0 || box.clientWidth === 0) return;
  const now = terminal.options.fontSize ?? FONT_PX;
  const wanted = Math.floor(((box.clientWidth - 16) / cell) * now * 10) / 10;
  const size = Math.max(SMALLEST_FONT_PX, Math.min(FONT_PX, wanted));
  if (Math.abs(size - now) >= 0.2) terminal.options.fontSize = size;
}

/** One terminal per screen, drawn into a box. */
export function useTerminal(
  size: Size,
  lineFeeds = false,
): { box: RefObject<HTMLDivElement>; terminal: Terminal } {
  const box = useRef<HTMLDivElement>(null);
  const terminal = useMemo(() => makeTerminal(size, lineFeeds), []);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    terminal.open(element);
    const observer = new ResizeObserver(() => fit(terminal, element));
    observer.observe(element);
    return () => {
      observer.disconnect();
      terminal.dispose();
    };
  }, [terminal]);
  return { box, terminal };
}

export function resize(terminal: Terminal, size: Size, box: HTMLElement | null): void {
  if (size.cols < 1 || size.rows < 1 || size.cols > 1_000 || size.rows > 1_000) return;
  terminal.resize(size.cols, size.rows);
  if (box !== null) requestAnimationFrame(() => fit(terminal, box));
}

/** The size that fits the box at the normal letter size. */
export function sizeOf(terminal: Terminal, box: HTMLElement): Size {
  const screen = terminal.element?.querySelector<HTMLElement>(".xterm-screen");
  const scale = FONT_PX / (terminal.options.fontSize ?? FONT_PX);
  const width = ((screen?.clientWidth ?? 800) / terminal.cols) * scale;
  const height = ((screen?.clientHeight ?? 480) / terminal.rows) * scale;
  return {
    cols: Math.max(20, Math.min(300, Math.floor((box.clientWidth - 16) / width))),
    rows: Math.max(8, Math.min(100, Math.floor((box.clientHeight - 8) / height))),
  };
}
