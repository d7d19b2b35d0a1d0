/** The picker as lines: question, filter, list, last exchange, keys. Pure. */
import { age } from "../lib/duration.ts";
import { styleOfState } from "../lib/palette.ts";
import { plural } from "../lib/plural.ts";
import { cutStart } from "../lib/width.ts";
import { drawn } from "../terminal/widgets.ts";
import {
  cutLine,
  fit,
  lineOf,
  linesOf,
  type Line,
  page,
  type Piece,
  ruled,
  stacked,
  styled,
} from "../terminal/terminal.ts";
import { chosen, current, type Exchange, type PickRow, type PickState, previewRows } from "./pick-state.ts";

export function viewOfPick(state: PickState): Line[] {
  const { size } = state;
  const columns = Math.max(20, size.columns);
  return stacked({ ...size, columns }, [
    [1, () => [header(state, columns)]],
    [1, () => [filterLine(state, columns)]],
    [
      "rest",
      ({ rows }) => (state.message === null ? list(state, columns, rows) : letter(state, columns, rows)),
    ],
    [previewRows(state) === 0 ? 0 : 1, () => [ruled(` ${previewTitle(state, columns)}`, columns, "dim")]],
    [previewRows(state), ({ rows }) => preview(state, columns, rows)],
    [1, () => [keyLine(state, columns)]],
  ]);
}

function header({ wish, loading, rows, all, found }: PickState, columns: number): Line {
  const scope = all ? "all folders" : "this folder";
  const right = `${loading ? "reading… " : ""}${found.length} of ${rows.length}, ${scope}`;
  const left = lineOf(wish.question, columns - right.length - 2);
  return [
    { text: fit(left, columns - right.length), style: "bold" },
    { text: right, style: "dim" },
  ];
}

function filterLine({ query, message, colours }: PickState, columns: number): Line {
  const text = message === null ? (drawn(query, columns - 2, 1, colours)[0] ?? []) : [{ text: query.text }];
  return [{ text: "> ", style: "accent" }, ...text];
}

function list(state: PickState, columns: number, rows: number): Line[] {
  const { found, choice } = state;
  if (found.length === 0) return [[], [{ text: nothing(state), style: "dim" }]];
  const seen = found.slice(choice.top, choice.top + rows);
  const widths = widthsFor(seen, columns, state.nowMs);
  return seen.map((row, at) => rowLine(state, row, choice.top + at === choice.cursor, widths));
}

function nothing({ loading, query, elsewhere, rows }: PickState): string {
  if (loading) return "  Reading the runs…";
  if (elsewhere > 0)
    return `  No run of this folder fits. Ctrl-A shows ${plural(elsewhere, "run")} of other folders.`;
  if (query.text.trim() !== "") return "  No run fits. Ctrl-U clears the filter.";
  return rows.length === 0 ? "  There is no such run." : "  No run in this folder. Ctrl-A shows all folders.";
}

interface Widths {
  readonly title: number;
  readonly engine: number;
  readonly status: number;
  readonly age: number;
  readonly place: number;
}

/** Mark and gaps take 2 columns each. On a narrow screen the folder goes first, then the engine. */
function widthsFor(rows: readonly PickRow[], columns: number, nowMs: number): Widths {
  const widest = (of: (row: PickRow) => string, most: number) =>
    Math.min(most, Math.max(...rows.map((row) => of(row).length)));
  const status = widest(({ status: word, left: until }) => stateText(word, until), 12);
  const since = widest(({ updatedAt }) => age(updatedAt, nowMs), 6);
  const engine = columns < 60 ? 0 : widest(({ engine: word }) => word, 12);
  const left = columns - 2 - (status + 2) - (since + 2) - (engine === 0 ? 0 : engine + 2);
  const place = columns < 76 ? 0 : Math.min(44, Math.floor(left * 0.35));
  return { title: left - 2 - place, engine, status, age: since, place };
}

function rowLine(state: PickState, row: PickRow, isCurrent: boolean, widths: Widths): Line {
  const { nowMs, marked } = state;
  const cell = (text: string, width: number, style?: Piece["style"]): Piece[] => {
    if (width === 0) return [];
    const shown = `${fit(lineOf(text, width), width)}  `;
    return [style === undefined ? { text: shown } : { text: shown, style }];
  };
  const pieces: Piece[] = [
    { text: `${isCurrent ? "❯" : " "}${marked.has(row.runId) ? "●" : " "}`, style: "accent" },
    ...cell(row.title, widths.title),
    ...cell(row.engine, widths.engine, "engine"),
    ...cell(stateText(row.status, row.left), widths.status, styleOfState(row.status)),
    ...cell(age(row.updatedAt, nowMs), widths.age, "dim"),
    ...cell(cutStart(row.place, widths.place), widths.place, "dim"),
  ];
  if (!isCurrent) return untrailed(pieces);
  return [
    {
      text: fit(
        pieces
          .map(({ text }) => text)
          .join("")
          .trimEnd(),
        state.size.columns,
      ),
      style: "bar",
    },
  ];
}

/** `limited 6 h` */
export function stateText(state: string, left: string | undefined): string {
  return left === undefined || left === "" ? state : `${state} ${left}`;
}

/** The gap after the last cell would not fit. */
function untrailed(pieces: readonly Piece[]): Line {
  const last = pieces.at(-1);
  return last === undefined ? [] : [...pieces.slice(0, -1), { ...last, text: last.text.trimEnd() }];
}

function previewTitle(state: PickState, columns: number): string {
  const row = current(state);
  return row === undefined ? "" : `${row.handle}  ${lineOf(row.title, Math.max(8, columns - 16))}`;
}

function preview(state: PickState, columns: number, rows: number): Line[] {
  const row = current(state);
  const exchange = row === undefined ? undefined : state.exchanges.get(row.runId);
  if (exchange === undefined) return [];
  return exchangeLines(exchange, columns, rows);
}

/** The end of the answer below the message, which gets at most a third. */
export function exchangeLines({ line, ...exchange }: Exchange, columns: number, rows: number): Line[] {
  if (line !== undefined) return [cutLine(line, columns), [], ...exchangeLines(exchange, columns, rows - 2)];
  const { asked, answer } = exchange;
  const asking = asked === null ? [] : linesOf(asked, columns - 2, "start", 2_000);
  const most = Math.max(1, Math.floor(rows / 3));
  const shown = asking.length <= most ? asking : [...asking.slice(0, most - 1), "…"];
  const said = linesOf(answer.trimEnd(), columns, "end", 8_000);
  const left = rows - shown.length;
  return [
    ...shown.map((text): Line => [{ text: `> ${text}`, style: "dim" }]),
    ...page(styled(said.slice(-Math.max(0, left))), left),
  ];
}

/** The message to the picked runs, in place of the list. */
function letter(state: PickState, columns: number, rows: number): Line[] {
  const { message, wish, colours } = state;
  if (message === null) return [];
  const to = chosen(state).map(({ handle, title }) => `${handle}  ${title}`);
  return [
    [],
    [{ text: "Message to " }, { text: lineOf(to.join(", "), columns - 12), style: "bold" }],
    [{ text: lineOf(wish.message ?? "", columns), style: "dim" }],
    [],
    ...drawn(message, columns - 2, Math.max(1, rows - 4), colours).map((line, at): Line => [
      { text: at === 0 ? "> " : "  ", style: "accent" },
      ...line,
    ]),
  ];
}

/** `Remove 1a2b3c4d (rename the cart module)? [y/n]`, `Remove 3 runs: …? [y/n]` */
function askedText(verb: string, asked: readonly PickRow[], columns: number): string {
  const [first] = asked;
  const isOne = asked.length === 1 && first !== undefined;
  const what = isOne
    ? `${verb} ${first.handle} (${first.title}`
    : `${verb} ${plural(asked.length, "run")}: ${asked.map(({ handle }) => handle).join(", ")}`;
  const end = isOne ? ")? [y/n]" : "? [y/n]";
  return `${lineOf(what, Math.max(8, columns - end.length))}${end}`;
}

function keyLine({ wish, message, marked, all, asked }: PickState, columns: number): Line {
  if (asked !== null) return [{ text: askedText(wish.asks ?? "Take", asked, columns), style: "warn" }];
  const keys =
    message !== null
      ? "Enter send  Esc back to the list  Ctrl-C leave  a paste keeps its lines"
      : [
          wish.message === null ? "Enter take" : "Enter choose",
          ...(wish.many ? [`Tab mark${marked.size > 0 ? ` (${marked.size})` : ""}`] : []),
          all ? "Ctrl-A this folder" : "Ctrl-A all folders",
          "↑↓ PgUp PgDn move",
          "Esc leave",
        ].join("  ");
  return [{ text: lineOf(keys, columns), style: "dim" }];
}
