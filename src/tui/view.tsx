/** Draws a state. Decides nothing: what stands where comes from `layout.ts`, what it says from the panes. */
import { Box, render, Text, Transform, type Instance } from "ink";
import { createContext, useContext } from "react";
import { widthOf } from "../lib/width.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { headerLines, listLines } from "./list.ts";
import { filterLines, helpLines, paneLines, questionLines, questionTitle } from "./panes.ts";
import { openQuestion, PANES, type Size, type State } from "./state.ts";
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
  let size: Size = { columns: 80, rows: 24 };
  const sink = {
    get columns() {
      return size.columns;
    },
    get rows() {
      return size.rows;
    },
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
      size = state.size;
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
    return (
      <Rows lines={[[{ text: fit("Too small: 40×10 at least", columns) }]]} rows={1} colours={colours} />
    );
  }
  const { style } = statusOf(state);
  // Only a bar that is painted has an end to be seen.
  const whole = colours && style === "bar";
  const bar = layout.status.map((text): Line => [{ text: whole ? fit(text, columns) : text, style }]);
  return (
    <Box flexDirection="column" width={columns} height={rows}>
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
      ? helpLines(columns).slice(state.overlay.top, state.overlay.top + rows)
      : filterLines(state, columns, rows);
    const title = help ? " Keys" : " Filter";
    return (
      <Box flexDirection="column" width={columns}>
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
        columns={layout.list.columns}
        colours={colours}
      />
      {layout.wide && <Rule rows={layout.body} colours={colours} />}
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
  return (
    <Box flexDirection="column" width={columns}>
      <Rows lines={[title]} rows={1} colours={colours} />
      <Rows lines={all.slice(top, top + rows)} rows={rows} colours={colours} />
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
  const title = questionTitle(question, all.length - state.questionTop - shown.length);
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

function Rule({ rows, colours }: { readonly rows: number; readonly colours: boolean }) {
  const line: Line = [{ text: " │ ", style: "dim" }];
  return <Rows lines={Array.from({ length: rows }, () => line)} rows={rows} columns={3} colours={colours} />;
}

interface RowsProps {
  readonly lines: readonly Line[];
  /** As many rows are taken, whatever there is to show. */
  readonly rows: number;
  readonly columns?: number;
  readonly colours: boolean;
}

/** Ink is given a mark for each line, which is one column wide; the line itself is put in after the layout. */
function Rows({ lines, rows, columns, colours }: RowsProps) {
  const marks = useContext(Marks);
  if (rows < 1) return null;
  const size = columns === undefined ? {} : { width: columns };
  return (
    <Box height={rows} flexShrink={0} {...size}>
      <Transform transform={(_, at) => marks.add(lines[at] ?? [], colours)}>
        <Text>{" \n".repeat(rows - 1) + " "}</Text>
      </Transform>
    </Box>
  );
}

/** Of the private use area: they come from nowhere but here, as Ink sees no other text. */
const FIRST_MARK = 0xe000;

/**
 * The lines of one frame. They have their width already; letting Ink take them apart and measure them costs most of
 * the time of a frame, and it keeps for ever what it measured.
 */
class FrameLines {
  #lines: { readonly painted: string; readonly width: number }[] = [];

  add(line: Line, colours: boolean): string {
    const width = line.reduce((sum, piece) => sum + widthOf(piece.text), 0);
    return String.fromCharCode(FIRST_MARK + this.#lines.push({ painted: painted(line, colours), width }) - 1);
  }

  /** The frame with its lines in place of their marks. */
  fill(frame: string): string {
    const filled = frame.split("\n").map((row) => {
      let text = "";
      let width = 0;
      for (let column = 0; column < row.length; column += 1) {
        const line = this.#lines[row.charCodeAt(column) - FIRST_MARK];
        if (line === undefined) continue;
        text += " ".repeat(Math.max(0, column - width)) + line.painted;
        width = Math.max(column, width) + line.width;
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
