/** The picker: which runs it offers, what was typed and marked, and what a key does. Pure. */
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
import type { Key, Line, Size } from "../terminal/terminal.ts";

/** A run as the picker shows and searches it. */
export interface PickRow {
  readonly runId: string;
  readonly handle: string;
  readonly title: string;
  readonly engine: string;
  readonly status: string;
  /** Of a limited run: the time until its limit ends. */
  readonly left?: string;
  readonly updatedAt: string;
  /** Its folder, with `~` for the home directory. */
  readonly place: string;
  /** Belongs to the present folder. */
  readonly here: boolean;
  /** Lower case: everything that the filter searches. */
  readonly text: string;
}

/** The last exchange of a run. */
export interface Exchange {
  readonly asked: string | null;
  readonly answer: string;
  /** Why the run is offered, harmless. Absent: nothing to say. */
  readonly line?: Line;
}

/** What the picker is for. */
export interface PickWish {
  /** `Resume which run?` */
  readonly question: string;
  /** Tab marks several. */
  readonly many: boolean;
  /** The runs were found before: they keep their order, and those of all folders are shown. */
  readonly isOrdered?: boolean;
  /** Asks before the runs are taken: `Remove`. Absent: nothing is lost. */
  readonly asks?: string;
  /** Asks for a message afterwards; the words say what an empty one does. Null: no message. */
  readonly message: string | null;
}

export interface PickState {
  readonly wish: PickWish;
  readonly size: Size;
  readonly nowMs: number;
  readonly colours: boolean;
  readonly query: Edited;
  /** Here first, then by last activity. */
  readonly rows: readonly PickRow[];
  /** Those in scope that fit the query, the best first. */
  readonly found: readonly PickRow[];
  /** Fitting runs of other folders, if they are not shown. */
  readonly elsewhere: number;
  readonly loading: boolean;
  /** Shows the runs of all folders. */
  readonly all: boolean;
  readonly choice: ListCursor;
  readonly marked: ReadonlySet<string>;
  readonly exchanges: ReadonlyMap<string, Exchange>;
  /** The message to the picked runs. Null: still picking. */
  readonly message: Edited | null;
  /** The message that the user left for the list. */
  readonly unsent: Edited;
  /** The runs that a `y` takes. Null: nothing is asked. */
  readonly asked: readonly PickRow[] | null;
}

export type PickMessage =
  | { readonly type: "rows"; readonly rows: readonly PickRow[]; readonly done: boolean }
  | { readonly type: "exchange"; readonly runId: string; readonly exchange: Exchange };

/** Null: the user left. */
export type Picked = { readonly handles: readonly string[]; readonly message: string | null } | null;

export type PickEffect =
  | { readonly do: "close"; readonly picked: Picked }
  | { readonly do: "look"; readonly row: PickRow }
  | { readonly do: "redraw" }
  | { readonly do: "suspend" };

export function firstPick(wish: PickWish, at: Pick<PickState, "size" | "nowMs" | "colours">): PickState {
  return {
    ...{ wish, ...at, query: EMPTY, rows: [], found: [], elsewhere: 0, loading: true },
    all: wish.isOrdered === true,
    ...{ choice: FIRST, marked: new Set(), exchanges: new Map(), message: null, unsent: EMPTY },
    asked: null,
  };
}

export function pick(state: PickState, message: PickMessage | UiMessage): Updated<PickState, PickEffect> {
  switch (message.type) {
    case "resized":
      return looked(fitted({ ...state, size: message.size }), state);
    case "rows":
      return looked(loaded(state, message.rows, message.done), state);
    case "exchange":
      return {
        state: {
          ...state,
          exchanges: new Map(state.exchanges).set(message.runId, message.exchange),
        },
      };
    case "key":
      if (state.asked !== null) return answered(state, state.asked, message.key);
      return state.message === null ? pressed(state, message.key) : typed(state, state.message, message.key);
  }
}

function answered(state: PickState, asked: readonly PickRow[], key: Key): Updated<PickState, PickEffect> {
  if (key === "ctrl-c") return { state, effects: [{ do: "close", picked: null }] };
  if (key !== "y") return { state: { ...state, asked: null } };
  const handles = asked.map(({ handle }) => handle);
  return { state, effects: [{ do: "close", picked: { handles, message: null } }] };
}

/** Rows for the list; the others hold the question, the filter and the last exchange. */
export function listRows({ size }: Pick<PickState, "size">): number {
  return Math.max(1, size.rows - 4 - previewRows({ size }));
}

/** The preview gets the lower part, or none of a small screen. */
export function previewRows({ size }: Pick<PickState, "size">): number {
  return size.rows < 14 ? 0 : Math.floor((size.rows - 4) * 0.42);
}

export function current({ found, choice }: PickState): PickRow | undefined {
  return found[choice.cursor];
}

/** The marked runs in the order of the list, or the one at the cursor. */
export function chosen(state: PickState): readonly PickRow[] {
  const marked = state.rows.filter(({ runId }) => state.marked.has(runId));
  const row = current(state);
  return marked.length > 0 ? marked : row === undefined ? [] : [row];
}

function pressed(state: PickState, key: Key): Updated<PickState, PickEffect> {
  if (key === "escape" || key === "ctrl-c") return { state, effects: [{ do: "close", picked: null }] };
  if (key === "enter") return taken(state);
  if (key === "ctrl-z") return { state, effects: [{ do: "suspend" }] };
  if (key === "ctrl-l") return { state, effects: [{ do: "redraw" }] };
  if (key === "ctrl-a") return looked(filtered({ ...state, all: !state.all, choice: FIRST }), state);
  if (key === "tab") return looked(state.wish.many ? marking(state) : state, state);
  const choice = moved(state.choice, key, listRows(state), state.found.length);
  if (choice !== null) return looked({ ...state, choice }, state);
  const query = edited(state.query, key);
  if (query === null) return { state };
  if (query.text === state.query.text) return { state: { ...state, query } };
  return looked(filtered({ ...state, query, choice: FIRST }), state);
}

function typed(state: PickState, before: Edited, key: Key): Updated<PickState, PickEffect> {
  if (key === "ctrl-c") return { state, effects: [{ do: "close", picked: null }] };
  if (key === "escape") return { state: { ...state, message: null, unsent: before } };
  if (key === "enter") {
    const message = before.text.trim() === "" ? null : before.text;
    return { state, effects: [{ do: "close", picked: { handles: handlesIn(state), message } }] };
  }
  return { state: { ...state, message: edited(before, key, true) ?? before } };
}

function taken(state: PickState): Updated<PickState, PickEffect> {
  const handles = handlesIn(state);
  if (handles.length === 0) return { state };
  if (state.wish.message !== null) return { state: { ...state, message: state.unsent } };
  if (state.wish.asks !== undefined) return { state: { ...state, asked: chosen(state) } };
  return { state, effects: [{ do: "close", picked: { handles, message: null } }] };
}

const handlesIn = (state: PickState) => chosen(state).map(({ handle }) => handle);

function marking(state: PickState): PickState {
  const row = current(state);
  if (row === undefined) return state;
  const marked = new Set(state.marked);
  if (!marked.delete(row.runId)) marked.add(row.runId);
  const choice = moved(state.choice, "down", listRows(state), state.found.length) ?? state.choice;
  return { ...state, marked, choice };
}

/** Rows come in parts. The cursor stays on its run. */
function loaded(state: PickState, rows: readonly PickRow[], done: boolean): PickState {
  const known = new Set(state.rows.map(({ runId }) => runId));
  const more = rows.filter(({ runId }) => !known.has(runId));
  const all = [...state.rows, ...more];
  const sorted =
    more.length === 0 ? state.rows : state.wish.isOrdered === true ? all : all.toSorted(byActivity);
  const now = { ...state, rows: sorted, loading: !done };
  // The runs of this folder come first: if others arrive, this folder has none.
  const isEmptyHere = sorted.length > 0 && !sorted.some(({ here }) => here);
  return filtered(isEmptyHere ? { ...now, all: true } : now);
}

function byActivity(one: PickRow, other: PickRow): number {
  if (one.here !== other.here) return one.here ? -1 : 1;
  return one.updatedAt < other.updatedAt ? 1 : one.updatedAt > other.updatedAt ? -1 : 0;
}

function filtered(state: PickState): PickState {
  const inScope = state.all ? state.rows : state.rows.filter(({ here }) => here);
  const others = state.all ? [] : state.rows.filter(({ here }) => !here);
  const before = current(state);
  const found = ranked(state.query.text, inScope);
  const at = before === undefined || state.choice === FIRST ? -1 : found.indexOf(before);
  const choice = at === -1 ? state.choice : { ...state.choice, cursor: at };
  return fitted({ ...state, found, elsewhere: ranked(state.query.text, others).length, choice });
}

function fitted(state: PickState): PickState {
  return { ...state, choice: kept(state.choice, listRows(state), state.found.length) };
}

/** Asks for the last exchange of another run at the cursor. */
function looked(state: PickState, before: PickState): Updated<PickState, PickEffect> {
  const row = current(state);
  if (row === undefined || row === current(before) || state.exchanges.has(row.runId)) return { state };
  return { state, effects: [{ do: "look", row }] };
}
