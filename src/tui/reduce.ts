/**
 * How each message changes the UI's state. Pure: returns actions on the outside as effects.
 *
 * Messages may come late: the answer to an earlier request, or a key for a question that is gone.
 */
import { plural } from "../lib/plural.ts";
import { clamp, scrolledTo } from "../terminal/terminal.ts";
import { layoutOf } from "./layout.ts";
import { helpLines, paneLines, questionLines } from "./panes.ts";
import {
  commentAtCursor,
  openQuestion,
  PANES,
  type Filter,
  type KeyMessage,
  type Message,
  type Pane,
  type State,
  type Reduced,
} from "./state.ts";
import { choicesOf, passes, rowsOf, sameComments, sameFilter } from "./threads.ts";
import {
  answer,
  askCodex,
  consent,
  ended,
  found,
  interrupt,
  leave,
  meant,
  quit,
  refuse,
  updated,
} from "./turn.ts";

export function reduce(state: State, message: Message): Reduced {
  switch (message.type) {
    case "loaded":
      return message.ticket === state.loading ? tidy(loaded(state, message)) : still(state);
    case "load_failed": {
      if (message.ticket !== state.loading) return still(state);
      const failed = { ...state, loading: null, loadFailed: message.reason };
      return still(state.loaded === null ? failed : { ...failed, loadFailed: null, note: message.reason });
    }
    case "found":
      return found(state, message.ticket, message.session);
    case "find_failed":
      return refuse(state, message.ticket, message.reason);
    case "updates":
      return tidy(updated(state, message.ticket, message.updates));
    case "ended":
      return tidy(ended(state, message.ticket, message.result));
    case "code_found":
      return codeFound(state, message);
    case "trouble":
      return still({ ...state, note: message.reason });
    case "resized":
      return tidy(still({ ...state, size: message.size }));
    case "tick":
      return still({ ...state, now: message.now });
    case "terminated":
      return {
        state: { ...state, leaving: "waiting" },
        effects: [
          ...(state.codex.phase === "running" ? [{ do: "interrupt" } as const] : []),
          { do: "quit", code: message.code, waitMs: 5_000 },
        ],
      };
    case "pressed":
      return tidy(pressed({ ...state, note: null }, message.key));
  }
}

function pressed(state: State, message: KeyMessage): Reduced {
  switch (message.type) {
    case "move":
      return scrolled(state, message.by);
    case "page":
      return paged(state, message.by);
    case "edge":
      return scrolled(state, message.to === "first" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY);
    case "select":
      return selected(state);
    case "unselect":
      return still({ ...state, selected: new Set() });
    case "filter":
      return filtering(state);
    case "enter":
      return entered(state);
    case "back":
      if (state.overlay !== null) return still({ ...state, overlay: null });
      return still({ ...state, focus: "list" });
    case "code":
      return show(state, state.pane === "code" ? "comment" : "code");
    case "next_pane":
      return show(state, PANES[(PANES.indexOf(state.pane) + 1) % PANES.length] ?? "comment");
    case "help":
      return still({ ...state, overlay: state.overlay?.kind === "help" ? null : { kind: "help", top: 0 } });
    case "refresh":
      return refreshed(state);
    case "suspend":
    case "redraw":
      return { state, effects: [{ do: message.type }] };
    case "codex":
      return askCodex(state);
    case "interrupt":
      return interrupt(state);
    case "answer":
      return answer(state, message.decision);
    case "consent":
      return consent(state, message.yes);
    case "leave":
      return leave(state, message.how);
    case "quit":
      return quit(state, message.atOnce);
  }
}

function still(state: State): Reduced {
  return { state, effects: [] };
}

function loaded(state: State, message: Extract<Message, { type: "loaded" }>): Reduced {
  const { comments } = message.loaded;
  const rows = rowsOf(comments);
  const same = sameComments(state.selected, comments);
  const lost = state.selected.size - same.size;
  const gone = lost === 0 ? "" : `; ${lost} of the selection changed or went`;
  const next: State = {
    ...state,
    loading: null,
    loadFailed: null,
    loaded: message.loaded,
    trusted: message.trusted,
    rows,
    selected: same,
    code: null,
    note: state.loaded === null ? state.note : `${plural(comments.length, "comment")} loaded${gone}.`,
  };
  const shown = meant(filtered(next, state.filter, commentAtCursor(state)?.id));
  return state.pane === "code" ? wantCode(shown) : still(shown);
}

/** Applies another filter; the cursor stays on its comment if possible. */
function filtered(state: State, filter: Filter, at = commentAtCursor(state)?.id): State {
  const visible = state.rows.filter(({ comment }) => passes(filter, comment));
  const cursor = Math.max(
    0,
    visible.findIndex(({ comment }) => comment.id === at),
  );
  return { ...state, filter, visible, cursor, paneTop: 0 };
}

function refreshed(state: State): Reduced {
  if (state.loading !== null) return still({ ...state, note: "Comments are being loaded." });
  const ticket = state.ticket + 1;
  return {
    state: { ...state, ticket, loading: ticket, loadFailed: null },
    effects: [{ do: "load", ticket, fresh: true }],
  };
}

function selected(state: State): Reduced {
  const comment = commentAtCursor(state);
  if (comment === null || state.overlay !== null) return still(state);
  const next = new Set(state.selected);
  if (!next.delete(comment)) next.add(comment);
  return moved({ ...state, selected: next }, state.focus === "list" ? 1 : 0);
}

function filtering(state: State): Reduced {
  if (state.overlay?.kind === "filters") return moved(state, 1);
  const choices = choicesOf(state.rows);
  const cursor = choices.findIndex((choice) => sameFilter(choice.filter, state.filter));
  return still({ ...state, overlay: { kind: "filters", choices, cursor: Math.max(0, cursor), top: 0 } });
}

function entered(state: State): Reduced {
  if (state.overlay?.kind === "help") return still({ ...state, overlay: null });
  if (state.overlay?.kind === "filters") {
    const choice = state.overlay.choices[state.overlay.cursor];
    const closed: State = { ...state, overlay: null };
    return choice === undefined ? still(closed) : follow(filtered(closed, choice.filter));
  }
  return still({ ...state, focus: state.focus === "list" ? "pane" : "list" });
}

function show(state: State, pane: Pane): Reduced {
  const next: State = { ...state, pane, overlay: null, paneTop: 0 };
  return pane === "code" ? wantCode(next) : still(next);
}

/** Loads one file at a time: while the cursor moves through the list, only the file where it stops. */
function wantCode(state: State): Reduced {
  const comment = commentAtCursor(state);
  if (comment === null || state.code?.comment === comment || state.code?.lines === "loading")
    return still(state);
  return {
    state: { ...state, code: { comment, lines: "loading" } },
    effects: [{ do: "codeAround", comment }],
  };
}

function codeFound(state: State, message: Extract<Message, { type: "code_found" }>): Reduced {
  if (state.code?.comment !== message.comment) return still(state);
  const next: State = { ...state, code: { comment: message.comment, lines: message.lines } };
  if (state.pane !== "code") return still(next);
  if (commentAtCursor(state) !== message.comment) return wantCode(next);
  const { columns, rows } = layoutOf(next).pane;
  const line = paneLines(next, columns).findIndex(([first]) => first?.text.startsWith(">"));
  return tidy(still({ ...next, paneTop: line - Math.floor(rows / 2) }));
}

/** After the cursor moved to another comment. */
function follow(state: State): Reduced {
  return state.pane === "code" ? wantCode(state) : still(state);
}

/** A long question scrolls first, so that users can read all of it. */
function scrolled(state: State, by: number): Reduced {
  if (state.overlay !== null || !isLong(state)) return moved(state, by);
  return still({ ...state, questionTop: state.questionTop + by });
}

function moved(state: State, by: number): Reduced {
  const { overlay } = state;
  if (overlay?.kind === "help") return still({ ...state, overlay: { ...overlay, top: overlay.top + by } });
  if (overlay?.kind === "filters") {
    return still({ ...state, overlay: { ...overlay, cursor: overlay.cursor + by } });
  }
  if (state.focus === "list") {
    const cursor = clamp(state.cursor + by, state.visible.length - 1);
    return cursor === state.cursor ? still(state) : follow({ ...state, cursor, paneTop: 0 });
  }
  if (state.pane !== "log") return still({ ...state, paneTop: state.paneTop + by });
  return still({ ...state, logTop: (state.logTop ?? lastTop(state)) + by });
}

function paged(state: State, by: 1 | -1): Reduced {
  const layout = layoutOf(state);
  const page = (rows: number) => by * Math.max(1, rows - 1);
  if (isLong(state)) {
    return still({ ...state, questionTop: state.questionTop + page(layout.question) });
  }
  if (state.overlay !== null) return moved(state, page(layout.body - 1));
  return moved(state, page(state.focus === "list" ? layout.list.rows : layout.pane.rows));
}

/** The open question has more lines than its part of the screen. */
function isLong(state: State): boolean {
  const { question } = layoutOf(state);
  return question > 0 && questionLines(state, state.size.columns).length > question;
}

/** Brings all scroll positions back into the bounds of the screen. */
function tidy({ state, effects }: Reduced): Reduced {
  const layout = layoutOf(state);
  const last = lastTop(state);
  const cursor = clamp(state.cursor, state.visible.length - 1);
  const asked = openQuestion(state) === null ? 0 : questionLines(state, state.size.columns).length;
  const next: State = {
    ...state,
    cursor,
    top: scrolledTo(cursor, state.top, layout.list.rows, state.visible.length),
    paneTop: state.pane === "log" ? state.paneTop : clamp(state.paneTop, last),
    logTop: state.pane === "log" ? tidyLogTop(state.logTop, last) : state.logTop,
    questionTop: clamp(state.questionTop, asked - layout.question),
    overlay: tidyOverlay(state, layout.body - 1),
  };
  return { state: next, effects };
}

/** At its end, the log follows new entries again. */
function tidyLogTop(top: number | null, last: number): number | null {
  return top === null || top >= last ? null : Math.max(0, top);
}

function tidyOverlay(state: State, rows: number): State["overlay"] {
  const { overlay } = state;
  if (overlay === null) return null;
  if (overlay.kind === "help") {
    return { ...overlay, top: clamp(overlay.top, helpLines(state).length - rows) };
  }
  const cursor = clamp(overlay.cursor, overlay.choices.length - 1);
  return { ...overlay, cursor, top: scrolledTo(cursor, overlay.top, rows, overlay.choices.length) };
}

/** The first visible line of the pane when it is scrolled to its end. */
function lastTop(state: State): number {
  const { pane } = layoutOf(state);
  return Math.max(0, paneLines(state, pane.columns).length - pane.rows);
}
