/** The home screen: what it lists, and what a key does. Pure. */
import {
  type ListCursor,
  EMPTY,
  type Edited,
  edited,
  FIRST,
  kept,
  moved,
  ranked,
  type UiMessage,
  type Updated,
} from "../terminal/widgets.ts";
import type { Key, Size } from "../terminal/terminal.ts";
import {
  type HomeCommand,
  commandFor,
  complaintAbout,
  type Form,
  filledForm,
  formFor,
  withTyped,
} from "./actions.ts";
import type { HomeRow } from "./home-row.ts";
import type { Exchange } from "./pick-state.ts";

export const SORTS = ["activity", "created", "tokens", "title"] as const;
export type HomeSort = (typeof SORTS)[number];

export interface HomeState {
  readonly size: Size;
  readonly colours: boolean;
  readonly nowMs: number;
  /** For new runs. */
  readonly cwd: string;
  /** The engines of this folder. */
  readonly engines: readonly string[];
  /** The name of the screen, and the kinds that it shows. */
  readonly narrowed: "everything" | "agents";
  readonly rows: readonly HomeRow[];
  readonly seen: readonly HomeRow[];
  readonly choice: ListCursor;
  readonly sort: HomeSort;
  readonly filter: Edited;
  readonly mode: HomeMode;
  readonly exchange: { readonly key: string; readonly exchange: Exchange } | null;
  /** A sentence about the daemon. */
  readonly note: string;
  /** A sentence about the last key, until the next one. */
  readonly said: string;
  /** Texts whose command was not run or failed. */
  readonly typed: Form | null;
  /** The command made from them. */
  readonly sent: HomeCommand | null;
}

export type HomeMode =
  | { readonly is: "table" }
  | { readonly is: "filter" }
  | { readonly is: "help" }
  | { readonly is: "confirm"; readonly question: string; readonly command: HomeCommand }
  | {
      readonly is: "form";
      readonly form: Form;
      readonly at: number;
      readonly field: Edited;
      readonly complaint: { readonly text: string; readonly refused: string } | null;
    };

export type HomeMessage =
  | { readonly type: "rows"; readonly rows: readonly HomeRow[]; readonly note: string }
  | { readonly type: "exchange"; readonly key: string; readonly exchange: Exchange }
  | { readonly type: "tick"; readonly nowMs: number }
  | { readonly type: "ran"; readonly command: HomeCommand; readonly ok: boolean };

export type HomeEffect =
  | { readonly do: "close" }
  | { readonly do: "look"; readonly row: HomeRow }
  | { readonly do: "run"; readonly command: HomeCommand }
  | { readonly do: "redraw" }
  | { readonly do: "suspend" };

const TABLE: HomeMode = { is: "table" };

export function firstHome(
  given: Pick<HomeState, "size" | "colours" | "nowMs" | "cwd" | "engines" | "narrowed">,
): HomeState {
  return {
    ...{ ...given, rows: [], seen: [], choice: FIRST, sort: "activity", filter: EMPTY },
    ...{ mode: TABLE, exchange: null, note: "", said: "", typed: null, sent: null },
  };
}

export function home(state: HomeState, message: HomeMessage | UiMessage): Updated<HomeState, HomeEffect> {
  switch (message.type) {
    case "resized":
      return looking(fitted({ ...state, size: message.size }), state);
    case "tick":
      return { state: { ...state, nowMs: message.nowMs } };
    case "rows":
      return looking(listed({ ...state, rows: message.rows, note: message.note }), state);
    case "exchange":
      return { state: { ...state, exchange: { key: message.key, exchange: message.exchange } } };
    case "ran":
      return { state: message.command === state.sent ? afterSending(state, message.ok) : state };
    case "key":
      return pressed({ ...state, said: "" }, message.key);
  }
}

export function tableRows({ size }: Pick<HomeState, "size">): number {
  return Math.max(1, size.rows - 4 - previewHeight({ size }));
}

export function previewHeight({ size }: Pick<HomeState, "size">): number {
  return size.rows < 14 ? 0 : Math.floor((size.rows - 4) * 0.4);
}

export function selected({ seen, choice }: HomeState): HomeRow | undefined {
  return seen[choice.cursor];
}

function pressed(state: HomeState, key: Key): Updated<HomeState, HomeEffect> {
  if (key === "ctrl-z") return { state, effects: [{ do: "suspend" }] };
  if (key === "ctrl-l") return { state, effects: [{ do: "redraw" }] };
  if (key === "ctrl-c") return { state, effects: [{ do: "close" }] };
  switch (state.mode.is) {
    case "table":
      return inTable(state, key);
    case "filter":
      return inFilter(state, key);
    case "help":
      return { state: { ...state, mode: TABLE } };
    case "confirm":
      return key === "y"
        ? { state: { ...state, mode: TABLE }, effects: [{ do: "run", command: state.mode.command }] }
        : { state: { ...state, mode: TABLE } };
    case "form":
      return inForm(state, state.mode, key);
  }
}

const VIM: Readonly<Record<Key, Key>> = { j: "down", k: "up" };

function inTable(state: HomeState, key: Key): Updated<HomeState, HomeEffect> {
  const choice = moved(state.choice, VIM[key] ?? key, tableRows(state), state.seen.length);
  if (choice !== null) return looking({ ...state, choice }, state);
  if (key === "q") return { state, effects: [{ do: "close" }] };
  if (key === "?") return { state: { ...state, mode: { is: "help" } } };
  if (key === "/") return { state: { ...state, mode: { is: "filter" } } };
  if (key === "escape") return looking(listed({ ...state, filter: EMPTY }), state);
  if (key === "o") {
    const sort = SORTS[(SORTS.indexOf(state.sort) + 1) % SORTS.length] ?? "activity";
    return looking(listed({ ...state, sort }), state);
  }
  const row = selected(state);
  const form = formFor(key, row, state);
  if (form !== null) return { state: { ...state, mode: fieldOf(withTyped(form, state.typed), 0) } };
  if (key === "d" && row !== undefined)
    return { state: { ...state, said: `${row.id} has no open decision.` } };
  const command = row === undefined ? null : commandFor(key, row);
  if (command === null) return { state };
  if (command.asks === undefined) return { state, effects: [{ do: "run", command }] };
  return { state: { ...state, mode: { is: "confirm", question: command.asks, command } } };
}

function inFilter(state: HomeState, key: Key): Updated<HomeState, HomeEffect> {
  if (key === "enter") return { state: { ...state, mode: TABLE } };
  if (key === "escape") return looking(listed({ ...state, filter: EMPTY, mode: TABLE }), state);
  const choice = moved(state.choice, key, tableRows(state), state.seen.length);
  if (choice !== null) return looking({ ...state, choice }, state);
  const filter = edited(state.filter, key);
  return filter === null ? { state } : looking(listed({ ...state, filter, choice: FIRST }), state);
}

function inForm(
  state: HomeState,
  mode: Extract<HomeMode, { is: "form" }>,
  key: Key,
): Updated<HomeState, HomeEffect> {
  const { form, at, field } = mode;
  const fields = form.fields.map((one, n) => (n === at ? { ...one, first: field.text } : one));
  const filled = { ...form, fields };
  if (key === "escape") return { state: { ...state, mode: TABLE, typed: filled } };
  if (key !== "enter") {
    const isLast = at === form.fields.length - 1;
    return {
      state: { ...state, mode: { ...mode, field: edited(field, key, isLast) ?? field, complaint: null } },
    };
  }
  const refused = mode.complaint?.refused ?? "";
  const complaint = complaintAbout(filled, { at, refused, engines: state.engines });
  if (complaint !== null) return { state: { ...state, mode: { ...mode, complaint } } };
  if (at + 1 < fields.length) return { state: { ...state, mode: fieldOf(filled, at + 1) } };
  const command = filledForm(filled);
  // An answer that cannot be carried out stays in the editor.
  if (command === null) return { state };
  const sent = { ...state, mode: TABLE, typed: filled, sent: command };
  return { state: sent, effects: [{ do: "run", command }] };
}

function fieldOf(form: Form, at: number): HomeMode {
  return { is: "form", form, at, field: written(form.fields[at]?.first ?? ""), complaint: null };
}

function afterSending(state: HomeState, ok: boolean): HomeState {
  return ok
    ? { ...state, typed: null, sent: null }
    : { ...state, sent: null, said: "That failed. The same key brings your text back." };
}

const written = (text: string): Edited => ({ text, at: text.length });

/** The rows that fit filter and order. The cursor stays on its row. */
function listed(state: HomeState): HomeState {
  const seen = ranked(state.filter.text, state.rows.toSorted(ORDERS[state.sort]));
  const before = selected(state)?.key;
  const at =
    before === undefined || state.choice === FIRST ? -1 : seen.findIndex(({ key }) => key === before);
  return fitted({ ...state, seen, choice: at === -1 ? state.choice : { ...state.choice, cursor: at } });
}

/** Open questions first, then live work, then the past. */
const rank = (row: HomeRow) => (row.kind === "decision" ? 0 : row.live ? 1 : 2);

const ORDERS: Readonly<Record<HomeSort, (one: HomeRow, other: HomeRow) => number>> = {
  activity: (one, other) => rank(one) - rank(other) || other.sinceMs - one.sinceMs,
  created: (one, other) => other.createdMs - one.createdMs,
  tokens: (one, other) => (other.tokens ?? -1) - (one.tokens ?? -1),
  title: (one, other) => (one.title < other.title ? -1 : one.title > other.title ? 1 : 0),
};

function fitted(state: HomeState): HomeState {
  return { ...state, choice: kept(state.choice, tableRows(state), state.seen.length) };
}

/** Asks for the output of another row at the cursor. */
function looking(state: HomeState, before: HomeState): Updated<HomeState, HomeEffect> {
  const row = selected(state);
  if (row === undefined || row.key === selected(before)?.key) return { state };
  return { state, effects: [{ do: "look", row }] };
}
