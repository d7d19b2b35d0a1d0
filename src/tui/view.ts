/** Draws a state as lines. Decides nothing: sizes come from `layout.ts`, texts from the panes. Pure. */
import { beside, fit, page, ruled, stacked, type Line, type Size } from "../terminal/terminal.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { headerLines, listLines } from "./list.ts";
import { filterLines, helpLines, paneLines, questionLines, questionTitle } from "./panes.ts";
import { openQuestion, PANES, type State } from "./state.ts";
import { statusOf } from "./status.ts";

export function view(state: State, colours: boolean): Line[] {
  const layout = layoutOf(state);
  const { columns } = state.size;
  if (layout.tiny) {
    const text = state.leaving === "no" ? "Too small: 40×10 at least" : "Ctrl-C quits at once";
    return [[{ text: fit(text, columns) }]];
  }
  const { style } = statusOf(state);
  // Only a painted bar has a visible end.
  const whole = colours && style === "bar";
  const bar = layout.status.map((text): Line => [{ text: whole ? fit(text, columns) : text, style }]);
  return stacked(state.size, [
    [layout.header, () => headerLines(state, layout.header)],
    ["rest", (size) => (state.overlay === null ? body(state, layout, size) : overlay(state, size))],
    [layout.question === 0 ? 0 : layout.question + 1, () => question(state, layout)],
    [bar.length, () => bar],
  ]);
}

function body(state: State, layout: Layout, size: Size): Line[] {
  const list = () => listLines(state, layout.list);
  const pane = () => paneWithTitle(state, layout);
  if (!layout.wide)
    return stacked(size, [
      [layout.list.rows, list],
      ["rest", pane],
    ]);
  const rule = page([], size.rows).map((): Line => [{ text: " │ ", style: "dim" }]);
  return beside(size, [
    [layout.list.columns, list],
    [3, () => rule],
    ["rest", pane],
  ]);
}

function overlay(state: State, { columns, rows }: Size): Line[] {
  return state.overlay?.kind === "help"
    ? [ruled(" Keys", columns), ...page(helpLines(state), rows - 1, state.overlay.top)]
    : [ruled(" Filter", columns), ...filterLines(state, columns, rows - 1)];
}

const TITLES = { comment: "Comment", code: "Code", log: "Codex" } as const;

function paneWithTitle(state: State, layout: Layout): Line[] {
  const { columns, rows } = layout.pane;
  if (rows < 1) return [];
  const all = paneLines(state, columns);
  const end = Math.max(0, all.length - rows);
  const top = state.pane === "log" ? (state.logTop ?? end) : state.paneTop;
  const names = PANES.map((pane) => (pane === state.pane ? `[${TITLES[pane]}]` : ` ${TITLES[pane]} `));
  const position = end === 0 ? "" : ` ${top + 1}–${Math.min(all.length, top + rows)}/${all.length}`;
  const title = ruled(names.join("") + position, columns, state.focus === "pane" ? "accent" : "dim");
  return [title, ...page(all, rows, top)];
}

function question(state: State, layout: Layout): Line[] {
  const open = openQuestion(state);
  if (open === null) return [];
  const { columns } = state.size;
  const all = questionLines(state, columns);
  const rows = layout.question;
  const title = questionTitle(open, { top: state.questionTop, rows, length: all.length });
  return [ruled(` ${title}`, columns, "warn"), ...page(all, rows, state.questionTop)];
}
