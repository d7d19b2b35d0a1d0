/** Draws a state. Decides nothing: what stands where comes from `layout.ts`, what it says from the panes. */
import { Box, render, Text, Transform, type Instance } from "ink";
import { createContext, useContext } from "react";
import { widthOf } from "../lib/width.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { headerLines, listLines } from "./list.ts";
import { filterLines, helpLines, paneLines, questionLines, questionTitle } from "./panes.ts";
import { openQuestion, PANES, type State } from "./state.ts";
import { statusOf } from "./status.ts";
import { fit, type Line, type Style } from "./text.ts";

export interface Frames extends Disposable {
  draw(state: State): void;
}

interface FramesOptions {
  onFrame(frame: string): void;
  /** A component threw. */
  onError(error: unknown): void;
}

/** Ink lays out and hands over whole frames; it never sees the terminal, whose modes are not its to keep. */
export function framesOf(colours: boolean, options: FramesOptions): Frames {
  const sink = {
    columns: MARKS_A_ROW * MARK_WIDTH,
    rows: 24,
    write(frame: string) {
      options.onFrame(marks.fill(frame));
      return true;
    },
    on() {},
    off() {},
  };
  const marks = new FrameLines();
  let ink: Instance | null = null;
  return {
    draw: (state) => {
      sink.rows = state.size.rows;
      const screen = (
        <Marks value={marks}>
          <Screen state={state} colours={colours} />
        </Marks>
      );
      if (ink !== null) return ink.rerender(screen);
      const stdout = sink as unknown as NodeJS.WriteStream;
      // With `debug` each frame is written whole and at once.
      ink = render(screen, { stdout, debug: true, exitOnCtrlC: false, patchConsole: false });
      ink.waitUntilExit().catch((error: unknown) => options.onError(error));
    },
    [Symbol.dispose]: () => ink?.unmount(),
  };
}

interface Props {
  readonly state: State;
  readonly colours: boolean;
}

function Screen({ state, colours }: Props) {
  const layout = layoutOf(state);
  const { columns, rows } = state.size;
  if (layout.tiny) {
    const text = state.leaving === "no" ? "Too small: 40×10 at least" : "Ctrl-C quits at once";
    return <Rows lines={[[{ text: fit(text, columns) }]]} rows={1} colours={colours} />;
  }
  const { style } = statusOf(state);
  // Only a bar that is painted has an end to be seen.
  const whole = colours && style === "bar";
  const bar = layout.status.map((text): Line => [{ text: whole ? fit(text, columns) : text, style }]);
  return (
    <Box flexDirection="column" height={rows}>
      <Rows lines={headerLines(state, layout.header)} rows={layout.header} colours={colours} />
      <Box height={layout.body} flexDirection={layout.wide ? "row" : "column"}>
        <Body state={state} colours={colours} layout={layout} />
      </Box>
      <Asked state={state} colours={colours} layout={layout} />
      <Rows lines={bar} rows={bar.length} colours={colours} />
    </Box>
  );
}

type PartProps = Props & { readonly layout: Layout };

function Body({ state, colours, layout }: PartProps) {
  const { columns } = state.size;
  if (state.overlay !== null) {
    const rows = layout.body - 1;
    const help = state.overlay.kind === "help";
    const lines = help
      ? helpLines(state).slice(state.overlay.top, state.overlay.top + rows)
      : filterLines(state, columns, rows);
    const title = help ? " Keys" : " Filter";
    return (
      <Box flexDirection="column">
        <Rows lines={[ruled(title, columns)]} rows={1} colours={colours} />
        <Rows lines={lines} rows={rows} colours={colours} />
      </Box>
    );
  }
  return (
    <>
      <Rows
        lines={layout.list.rows === 0 ? [] : listLines(state, layout)}
        rows={layout.list.rows}
        colours={colours}
      />
      {layout.wide && <Rule rows={layout.body} left={layout.list.columns} colours={colours} />}
      <PaneView state={state} colours={colours} layout={layout} />
    </>
  );
}

function PaneView({ state, colours, layout }: PartProps) {
  const { columns, rows } = layout.pane;
  if (rows < 1) return null;
  const all = paneLines(state, columns);
  const end = Math.max(0, all.length - rows);
  const top = state.pane === "codex" ? (state.logTop ?? end) : state.paneTop;
  const names = PANES.map((pane) => (pane === state.pane ? `[${TITLES[pane]}]` : ` ${TITLES[pane]} `));
  const position = end === 0 ? "" : ` ${top + 1}–${Math.min(all.length, top + rows)}/${all.length}`;
  const title = ruled(names.join("") + position, columns, state.focus === "pane" ? "accent" : "dim");
  const left = state.size.columns - columns;
  return (
    <Box flexDirection="column">
      <Rows lines={[title]} rows={1} left={left} colours={colours} />
      <Rows lines={all.slice(top, top + rows)} rows={rows} left={left} colours={colours} />
    </Box>
  );
}

const TITLES = { comment: "Comment", code: "Code", codex: "Codex" } as const;

function Asked({ state, colours, layout }: PartProps) {
  const question = openQuestion(state);
  if (question === null) return null;
  const { columns } = state.size;
  const all = questionLines(state, columns);
  const shown = all.slice(state.questionTop, state.questionTop + layout.question);
  const title = questionTitle(question, {
    top: state.questionTop,
    rows: layout.question,
    length: all.length,
  });
  return (
    <Box flexDirection="column">
      <Rows lines={[ruled(` ${title}`, columns, "warn")]} rows={1} colours={colours} />
      <Rows lines={shown} rows={layout.question} colours={colours} />
    </Box>
  );
}

function ruled(title: string, columns: number, style: Style = "accent"): Line {
  return [{ text: fit(`──${title} ${"─".repeat(columns)}`, columns).replace("…", "─"), style }];
}

function Rule(props: Omit<RowsProps, "lines">) {
  const line: Line = [{ text: " │ ", style: "dim" }];
  return <Rows lines={Array.from({ length: props.rows }, () => line)} {...props} />;
}

interface RowsProps {
  readonly lines: readonly Line[];
  /** As many rows are taken, whatever there is to show. */
  readonly rows: number;
  /** The column of the screen where the lines begin. */
  readonly left?: number;
  readonly colours: boolean;
}

/** Ink is given a mark for each line; the line itself is put in after the layout. */
function Rows({ lines, rows, left = 0, colours }: RowsProps) {
  const marks = useContext(Marks);
  if (rows < 1) return null;
  return (
    <Box height={rows} width={MARK_WIDTH} flexShrink={0}>
      <Transform transform={(_, at) => marks.add(lines[at] ?? [], left, colours)}>
        <Text>{" \n".repeat(rows - 1) + " "}</Text>
      </Transform>
    </Box>
  );
}

/** A mark is a number in two digits from `!` to `~`. Of anything but ASCII, Ink would look up the width. */
const MARK_WIDTH = 2;
const ZERO = 0x21;
const BASE = 94;
/** List, rule and pane. Ink makes an object for each place of its screen in each frame, so it gets no wider one. */
const MARKS_A_ROW = 3;

/**
 * The lines of one frame. They have their width already; letting Ink take them apart and measure them costs most of
 * the time of a frame, and it keeps for ever what it measured.
 */
class FrameLines {
  #lines: { readonly painted: string; readonly left: number; readonly width: number }[] = [];

  add(line: Line, left: number, colours: boolean): string {
    const width = line.reduce((sum, piece) => sum + widthOf(piece.text), 0);
    const at = this.#lines.push({ painted: painted(line, colours), left, width }) - 1;
    return String.fromCharCode(ZERO + Math.floor(at / BASE), ZERO + (at % BASE));
  }

  /** The frame with its lines in place of their marks. */
  fill(frame: string): string {
    const filled = frame.split("\n").map((row) => {
      let text = "";
      let width = 0;
      for (let at = 0; at < row.length; at += MARK_WIDTH) {
        const line = this.#lines[(row.charCodeAt(at) - ZERO) * BASE + row.charCodeAt(at + 1) - ZERO];
        if (line === undefined) continue;
        text += " ".repeat(Math.max(0, line.left - width)) + line.painted;
        width = Math.max(line.left, width) + line.width;
      }
      return text;
    });
    this.#lines = [];
    return filled.join("\n");
  }
}

const Marks = createContext(new FrameLines());

/** Colours that each theme shows well: of the terminal's own palette, never a background. */
const CODES: Readonly<Record<Style, readonly [on: number, off: number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  bad: [31, 39],
  good: [32, 39],
  warn: [33, 39],
  accent: [36, 39],
  bar: [7, 27],
};

function painted(line: Line, colours: boolean): string {
  return line
    .map(({ text, style }) => {
      if (!colours || style === undefined || text === "") return text;
      const [on, off] = CODES[style];
      return `\x1b[${on}m${text}\x1b[${off}m`;
    })
    .join("");
}
