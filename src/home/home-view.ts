/** The home screen as lines: title, table, latest output, keys. Pure. */
import { formatDuration } from "../lib/duration.ts";
import { styleOfState } from "../lib/palette.ts";
import { plural, shortCount } from "../lib/plural.ts";
import { drawn } from "../terminal/widgets.ts";
import { fit, lineOf, type Line, type Piece, ruled, stacked } from "../terminal/terminal.ts";
import type { HomeRow } from "./home-row.ts";
import { type HomeState, previewHeight, selected } from "./home-state.ts";
import { exchangeLines, stateText } from "./pick-view.ts";

export function viewOfHome(state: HomeState): Line[] {
  const columns = Math.max(20, state.size.columns);
  const size = { ...state.size, columns };
  return stacked(size, [
    [1, () => [title(state, columns)]],
    [1, () => [heads(state, columns)]],
    ["rest", ({ rows }) => (state.mode.is === "help" ? help(columns) : table(state, columns, rows))],
    [previewHeight(state) === 0 ? 0 : 1, () => [ruled(` ${previewTitle(state, columns)}`, columns, "dim")]],
    [previewHeight(state), ({ rows }) => below(state, columns, rows)],
    [1, () => [bottom(state, columns)]],
  ]);
}

function title({ rows, seen, sort, narrowed, note, filter }: HomeState, columns: number): Line {
  const live = rows.filter((row) => row.live && row.kind !== "decision").length;
  const questions = rows.filter(({ kind }) => kind === "decision").length;
  const counts = [
    `${live} live`,
    ...(questions > 0 ? [plural(questions, "question")] : []),
    `${seen.length} of ${rows.length}`,
    `by ${sort}`,
  ].join(", ");
  const name = narrowed === "agents" ? "reprise status" : "reprise";
  const active = filter.text.trim() === "" ? "" : `/${filter.text.trim()}`;
  const left = [name, active, note].filter((text) => text !== "").join("  ");
  const width = Math.max(0, columns - counts.length - 2);
  return [
    { text: fit(lineOf(left, width), width + 2), style: note === "" ? "bold" : "warn" },
    { text: counts, style: "dim" },
  ];
}

interface Widths {
  readonly id: number;
  readonly title: number;
  readonly engine: number;
  readonly state: number;
  readonly since: number;
  readonly tokens: number;
  readonly next: number;
}

/** Two columns for the cursor and between cells. A narrow screen drops what happens next, then tokens, then the engine. */
function widthsFor(columns: number): Widths {
  const [id, state, since] = [11, 12, 7];
  const engine = columns < 60 ? 0 : 9;
  const tokens = columns < 76 ? 0 : 7;
  const fixed = [id, state, since, engine, tokens].filter((width) => width > 0);
  const left = columns - 2 - fixed.reduce((sum, width) => sum + width + 2, 0);
  const next = columns < 100 ? 0 : Math.floor(left * 0.45);
  return { id, state, since, engine, tokens, next, title: Math.max(1, left - (next === 0 ? 0 : next + 2)) };
}

function cells(widths: Widths, row: Readonly<Record<keyof Widths, Piece>>): Piece[] {
  const order = ["id", "title", "engine", "state", "since", "tokens", "next"] as const;
  return order.flatMap((name) => {
    const width = widths[name];
    if (width === 0) return [];
    const { text, style } = row[name];
    const shown = `${fit(lineOf(text, width), width)}  `;
    return [style === undefined ? { text: shown } : { text: shown, style }];
  });
}

function line(pieces: readonly Piece[], columns: number): Line {
  const last = pieces.at(-1);
  const whole = pieces.map(({ text }) => text).join("");
  if (last === undefined || whole.length <= columns) return pieces;
  return [...pieces.slice(0, -1), { ...last, text: last.text.trimEnd() }];
}

function heads(_state: HomeState, columns: number): Line {
  const head = (text: string): Piece => ({ text, style: "dim" });
  const row = {
    ...{ id: head("HANDLE"), title: head("WHAT"), engine: head("ENGINE"), state: head("STATE") },
    ...{ since: head("FOR"), tokens: head("TOKENS"), next: head("NEXT") },
  };
  return line([{ text: "  " }, ...cells(widthsFor(columns), row)], columns);
}

function table(state: HomeState, columns: number, rows: number): Line[] {
  const { seen, choice } = state;
  if (seen.length === 0) {
    const filtered = state.filter.text.trim() !== "";
    return [
      [],
      [{ text: filtered ? "  Nothing fits. Esc clears the filter." : "  Nothing yet. n starts a run." }],
    ];
  }
  const widths = widthsFor(columns);
  return seen.slice(choice.top, choice.top + rows).map((row, at) => {
    const isCurrent = choice.top + at === choice.cursor;
    const pieces = [
      { text: isCurrent ? "❯ " : "  ", style: "accent" as const },
      ...rowCells(row, widths, state.nowMs),
    ];
    if (!isCurrent) return line(pieces, columns);
    const text = pieces.map((piece) => piece.text).join("");
    return [{ text: fit(text.trimEnd(), columns), style: "bar" }];
  });
}

function rowCells(row: HomeRow, widths: Widths, nowMs: number): Piece[] {
  const style = styleOfState(row.state);
  const state = widths.next === 0 ? stateText(row.state, row.left) : row.state;
  return cells(widths, {
    id: { text: row.id },
    title: { text: row.kind === "run" ? row.title : `${row.kind} ${row.title}` },
    engine: { text: row.engine, style: "engine" },
    state: style === undefined ? { text: state } : { text: state, style },
    since: { text: sinceText(nowMs - row.sinceMs), style: "dim" },
    tokens: { text: row.tokens === null ? "" : shortCount(row.tokens), style: "dim" },
    next: { text: row.next },
  });
}

function sinceText(ms: number): string {
  return ms < 1_000 ? "now" : formatDuration(ms).split(" ").slice(0, 2).join(" ").replace(/\.\d/, "");
}

function previewTitle(state: HomeState, columns: number): string {
  const row = selected(state);
  return row === undefined ? "" : lineOf(`${row.id}  ${row.title}`, Math.max(8, columns - 4));
}

/** A form or a question takes the place of the output. */
function below(state: HomeState, columns: number, rows: number): Line[] {
  const { mode, exchange, colours } = state;
  if (mode.is === "form") {
    const { form, at, field, complaint } = mode;
    const choices = (form.choices ?? []).slice(0, Math.max(0, rows - 3));
    const left = Math.max(1, rows - at - 2 - choices.length - (complaint === null ? 0 : 1));
    return [
      [{ text: lineOf(form.title, columns), style: "bold" }],
      ...choices.map((text): Line => [{ text: lineOf(text, columns) }]),
      ...form.fields
        .slice(0, at)
        .map((one): Line => [
          { text: `${one.label}: `, style: "dim" },
          { text: lineOf(one.first, Math.max(1, columns - one.label.length - 2)) },
        ]),
      [{ text: lineOf(form.fields[at]?.label ?? "", columns), style: "dim" }],
      ...drawn(field, columns - 2, left, colours).map((typed, n): Line => [
        { text: n === 0 ? "> " : "  ", style: "accent" },
        ...typed,
      ]),
      ...(complaint === null ? [] : [[{ text: lineOf(complaint.text, columns), style: "warn" as const }]]),
    ];
  }
  if (exchange === null || exchange.key !== selected(state)?.key) return [];
  return exchangeLines(exchange.exchange, columns, rows);
}

function bottom(state: HomeState, columns: number): Line {
  const { mode, filter, colours } = state;
  if (mode.is === "confirm") return [{ text: lineOf(`${mode.question} [y/n]`, columns), style: "warn" }];
  if (state.said !== "") return [{ text: lineOf(state.said, columns), style: "warn" }];
  if (mode.is === "filter")
    return [{ text: "/", style: "accent" }, ...(drawn(filter, columns - 1, 1, colours)[0] ?? [])];
  const keys =
    mode.is === "form"
      ? "Enter go on  Esc cancel"
      : mode.is === "help"
        ? "any key: back"
        : columns < ALL_KEYS.length
          ? FEWER_KEYS
          : ALL_KEYS;
  return [{ text: lineOf(keys, columns), style: "dim" }];
}

const ALL_KEYS = "Enter open  r resume  s stop  d decide  n new  l logs  / filter  o sort  ? help  q quit";
/** Fits 80 columns: a user must see how to leave. `? help` names the rest. */
const FEWER_KEYS = "Enter open  r resume  s stop  d decide  n new  l logs  / filter  ? help  q quit";

const HELP: readonly (readonly [keys: string, meaning: string])[] = [
  ["↑ ↓ j k PgUp PgDn", "move"],
  ["Enter", "attach to a live UI; show the log of a run, a pipeline or a decision"],
  ["r", "resume a run with a message, or send a message to an agent"],
  ["s", "stop a live run or agent, cancel a pipeline; asks first"],
  ["d", "answer the open decision of an agent"],
  ["n", "start a run in the background: engine, folder, prompt"],
  ["l", "show the log"],
  ["/", "filter; Esc clears it"],
  ["o", "sort by activity, creation, tokens or title"],
  ["q Ctrl-C", "quit; background runs continue"],
];

function help(columns: number): Line[] {
  return HELP.map(([keys, meaning]) => [
    { text: `  ${fit(keys, 20)}`, style: "accent" },
    { text: lineOf(meaning, Math.max(1, columns - 22)) },
  ]);
}
