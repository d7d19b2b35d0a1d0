/** State, messages and effects of the UI as data. Pure, and knows no terminal. */
import type { QuestionAnswer, Question } from "../core/events.ts";
import type {
  ReviewComment,
  InterruptedSession,
  LoadedComments,
  PullRequest,
  TurnOrder,
  TurnResult,
  TurnUpdate,
} from "../reviews/reviews.ts";
import type { Size } from "../terminal/terminal.ts";
import { EMPTY_LOG, type LogPane } from "./log.ts";

export type Filter =
  | { readonly by: "all" | "unresolved" | "unknown" }
  | { readonly by: "file" | "author"; readonly value: string };

/** A comment with its place in the list. */
export interface CommentRow {
  readonly comment: ReviewComment;
  /** 0: begins a thread. */
  readonly depth: number;
}

export const PANES = ["comment", "code", "log"] as const;
export type Pane = (typeof PANES)[number];

/** Shown in place of list and pane. */
export type Overlay =
  | { readonly kind: "help"; readonly top: number }
  | {
      readonly kind: "filters";
      readonly choices: readonly Choice[];
      readonly cursor: number;
      readonly top: number;
    };
export interface Choice {
  readonly filter: Filter;
  readonly count: number;
}

/** Lines of the file around a comment. */
export interface Code {
  readonly comment: ReviewComment;
  /** `loading`: requested. Null: the folder has no such file. */
  readonly lines: readonly string[] | "loading" | null;
}

export type Codex =
  | { readonly phase: "idle" }
  | { readonly phase: "looking"; readonly ticket: number; readonly comments: readonly ReviewComment[] }
  | {
      readonly phase: "offered";
      readonly session: InterruptedSession;
      readonly comments: readonly ReviewComment[];
    }
  /** Reprise could not continue or find the session. */
  | { readonly phase: "refused"; readonly reason: string; readonly comments: readonly ReviewComment[] }
  | {
      readonly phase: "running";
      readonly ticket: number;
      readonly comments: readonly ReviewComment[];
      readonly since: number;
      readonly stopping: boolean;
      /** Codex reported the end of the turn; the record is still to write. */
      readonly over: boolean;
      /** Unanswered, oldest first. The first is shown. */
      readonly questions: readonly Question[];
    };

export interface State {
  readonly pullRequest: PullRequest;
  readonly size: Size;
  /** Milliseconds; ticks update it. */
  readonly now: number;
  /** The number of the newest request; answers with a lower number are stale. */
  readonly ticket: number;
  /** Null: nothing is loading. */
  readonly loading: number | null;
  readonly loadFailed: string | null;
  readonly loaded: LoadedComments | null;
  readonly trusted: ReadonlySet<ReviewComment>;
  /** All comments, replies below their parents. */
  readonly rows: readonly CommentRow[];
  /** Rows that pass the filter. */
  readonly visible: readonly CommentRow[];
  readonly filter: Filter;
  readonly selected: ReadonlySet<ReviewComment>;
  /** Index into `visible`, and the index of the first row on the screen. */
  readonly cursor: number;
  readonly top: number;
  readonly pane: Pane;
  readonly focus: "list" | "pane";
  /** First visible line of the comment or the code. */
  readonly paneTop: number;
  /** First visible line of the log. Null: follows the end. */
  readonly logTop: number | null;
  readonly questionTop: number;
  /** When the shown question appeared, as `now`. */
  readonly questionSince: number;
  readonly overlay: Overlay | null;
  readonly code: Code | null;
  readonly codex: Codex;
  readonly log: LogPane;
  /**
   * `asked`: the UI asks what to do with the turn, or whether to leave if it has ended meanwhile. `waiting`: for its
   * end.
   */
  readonly leaving: "no" | "asked" | "waiting";
  /** Shown until the next key. May contain untrusted text. */
  readonly note: string | null;
}

export type Message =
  | {
      readonly type: "loaded";
      readonly ticket: number;
      readonly loaded: LoadedComments;
      readonly trusted: ReadonlySet<ReviewComment>;
    }
  | { readonly type: "load_failed"; readonly ticket: number; readonly reason: string }
  | { readonly type: "found"; readonly ticket: number; readonly session: InterruptedSession | null }
  | { readonly type: "find_failed"; readonly ticket: number; readonly reason: string }
  | { readonly type: "updates"; readonly ticket: number; readonly updates: readonly TurnUpdate[] }
  | { readonly type: "ended"; readonly ticket: number; readonly result: TurnResult }
  | { readonly type: "code_found"; readonly comment: ReviewComment; readonly lines: readonly string[] | null }
  | { readonly type: "trouble"; readonly reason: string }
  | { readonly type: "resized"; readonly size: Size }
  | { readonly type: "tick"; readonly now: number }
  /** A signal, or the terminal was closed. */
  | { readonly type: "terminated"; readonly code: number }
  | { readonly type: "pressed"; readonly key: KeyMessage };

export type KeyMessage =
  | { readonly type: "move"; readonly by: 1 | -1 }
  | { readonly type: "page"; readonly by: 1 | -1 }
  | { readonly type: "edge"; readonly to: "first" | "last" }
  | { readonly type: "answer"; readonly decision: QuestionAnswer }
  /** Yes or no to the question in the status bar. */
  | { readonly type: "consent"; readonly yes: boolean }
  | { readonly type: "leave"; readonly how: "interrupt" | "discard" | "stay" }
  | { readonly type: "quit"; readonly atOnce: boolean }
  | {
      readonly type:
        | "select"
        | "unselect"
        | "filter"
        | "enter"
        | "back"
        | "code"
        | "next_pane"
        | "codex"
        | "interrupt"
        | "refresh"
        | "help"
        | "suspend"
        | "redraw";
    };

export type Effect = ServiceEffect | ScreenEffect;

export type ServiceEffect =
  | { readonly do: "load"; readonly ticket: number; readonly fresh: boolean }
  | { readonly do: "findInterrupted"; readonly ticket: number }
  | { readonly do: "decline"; readonly session: InterruptedSession }
  | { readonly do: "begin"; readonly ticket: number; readonly order: TurnOrder }
  | { readonly do: "answer"; readonly id: string; readonly decision: QuestionAnswer }
  | { readonly do: "interrupt" | "discard" }
  | { readonly do: "codeAround"; readonly comment: ReviewComment };

export type ScreenEffect =
  | { readonly do: "suspend" }
  | { readonly do: "redraw" }
  /** How long a turn may take to stop. */
  | { readonly do: "quit"; readonly code: number; readonly waitMs: number };

export interface Reduced {
  readonly state: State;
  readonly effects: readonly Effect[];
}

export function firstState(pullRequest: PullRequest, size: Size, now: number): State {
  return {
    pullRequest,
    size,
    now,
    ticket: 1,
    loading: 1,
    loadFailed: null,
    loaded: null,
    trusted: new Set(),
    rows: [],
    visible: [],
    filter: { by: "all" },
    selected: new Set(),
    cursor: 0,
    top: 0,
    pane: "comment",
    focus: "list",
    paneTop: 0,
    logTop: null,
    questionTop: 0,
    questionSince: now,
    overlay: null,
    code: null,
    codex: { phase: "idle" },
    log: EMPTY_LOG,
    leaving: "no",
    note: null,
  };
}

export function commentAtCursor(state: State): ReviewComment | null {
  return state.visible[state.cursor]?.comment ?? null;
}

export function openQuestion(state: State): Question | null {
  return state.codex.phase === "running" ? (state.codex.questions[0] ?? null) : null;
}
