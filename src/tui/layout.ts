/** The sizes of the parts of the screen. Pure. */
import { wrap, type Size } from "../terminal/terminal.ts";
import { questionLines } from "./panes.ts";
import { openQuestion, type State } from "./state.ts";
import { MAX_STATUS, statusOf } from "./status.ts";

const SMALLEST = { columns: 40, rows: 10 };
/** From this width on, list and pane are side by side. */
const WIDE = 120;
/** A lower body shows the list or the pane, not both. */
const LEAST_SPLIT = 9;

export interface Layout {
  readonly tiny: boolean;
  readonly wide: boolean;
  readonly header: number;
  /** Everything between the header and the question or status bar. */
  readonly body: number;
  /** A height of 0: not shown. The pane's title takes one more row. */
  readonly list: { readonly columns: number; readonly rows: number };
  readonly pane: { readonly columns: number; readonly rows: number };
  /** Rows of the open question without its title. 0: no open question. */
  readonly question: number;
  readonly status: readonly string[];
}

/** Too small for anything but a message that says so. */
export function isTiny({ columns, rows }: Size): boolean {
  return columns < SMALLEST.columns || rows < SMALLEST.rows;
}

export function layoutOf(state: State): Layout {
  const { columns, rows } = state.size;
  const header = rows < 14 ? 1 : 2;
  const status = wrap(statusOf(state).text, columns).slice(0, MAX_STATUS);
  const free = Math.max(0, rows - header - status.length);
  const open = openQuestion(state);
  const asked = open === null ? 0 : questionLines(state, columns).length;
  // A diff is readable only here, so it gets more of the screen than a command.
  const most = open?.changes === undefined ? Math.floor(free / 2) - 1 : Math.floor(free * 0.7);
  const question = Math.min(asked, Math.max(3, most));
  const body = Math.max(0, free - (question === 0 ? 0 : question + 1));
  const common = {
    tiny: isTiny(state.size),
    header,
    body,
    question,
    status,
  };
  if (columns >= WIDE) {
    const left = Math.floor(columns * 0.45);
    return {
      ...common,
      wide: true,
      list: { columns: left, rows: body },
      pane: { columns: columns - left - 3, rows: body - 1 },
    };
  }
  const inList = state.focus === "list";
  const both = inList && body >= LEAST_SPLIT;
  const above = both ? Math.max(3, Math.floor(body * 0.45)) : inList ? body : 0;
  return {
    ...common,
    wide: false,
    list: { columns, rows: above },
    pane: { columns, rows: Math.max(0, body - above - 1) },
  };
}
