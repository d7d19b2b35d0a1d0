/** The life of a Codex turn in the UI: requested, offered, running, questioned, ended, left. Pure. */
import type { QuestionAnswer } from "../core/events.ts";
import { plural } from "../lib/plural.ts";
import { untilText } from "../lib/until.ts";
import type { ReviewComment, InterruptedSession, TurnResult, TurnUpdate } from "../reviews/reviews.ts";
import { addEntry, addUpdates } from "./log.ts";
import { openQuestion, type Codex, type State, type Reduced } from "./state.ts";
import { chosen } from "./threads.ts";

const INTERRUPTED = 130;
/** More than it takes to end Codex without asking, and to record that. */
const AT_ONCE_MS = 2_000;

export function askCodex(state: State): Reduced {
  switch (state.codex.phase) {
    case "running":
      return note(state, "Codex is already at work; i interrupts it.");
    case "looking":
      return note(state, "Looking for an interrupted session already.");
    case "offered":
    case "refused":
      // The question in the status bar stays until its answer.
      return note(state, null);
    case "idle": {
      const comments = chosen(state);
      if (comments.length === 0) return note(state, nothingToSend(state));
      const ticket = state.ticket + 1;
      return {
        state: { ...state, ticket, codex: { phase: "looking", ticket, comments } },
        effects: [{ do: "findInterrupted", ticket }],
      };
    }
  }
}

/** After a refresh, a send that waits for an answer uses the refreshed comments. */
export function meant(state: State): State {
  const { codex } = state;
  if (codex.phase === "idle" || codex.phase === "running") return state;
  const comments = chosen(state);
  if (comments.length > 0) return { ...state, codex: { ...codex, comments } };
  return { ...state, codex: { phase: "idle" }, note: nothingToSend(state) };
}

function nothingToSend(state: State): string {
  if (state.loaded === null && state.loading !== null) return "The comments are being loaded.";
  if (state.visible.length === 0) return "There is no comment to send.";
  return "None of the comments shown is by a trusted author; space selects one.";
}

export function found(state: State, ticket: number, session: InterruptedSession | null): Reduced {
  const { codex } = state;
  if (codex.phase !== "looking" || codex.ticket !== ticket) return note(state, state.note);
  if (session === null) return begin(state, codex.comments, null);
  return settle(withApprovals(state, session), { phase: "offered", session, comments: codex.comments });
}

/** A user who decides whether to continue sees the session's approvals, one line each. */
function withApprovals(state: State, { approvals = [], keepsApprovals }: InterruptedSession): State {
  if (approvals.length === 0) return state;
  const then = keepsApprovals === true ? "given again (--keep-approvals)" : "asked again";
  const title = `${plural(approvals.length, "stored approval")}, ${then}`;
  const log = approvals.reduce(
    (sofar, what) => addEntry(sofar, { kind: "notice", text: `· ${oneLine(what)}` }),
    addEntry(state.log, { kind: "turn", text: title }),
  );
  return { ...state, log, logTop: null, pane: "log" };
}

function oneLine(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").join(", ");
}

/** Reprise could not look for interrupted sessions. */
export function refuse(state: State, ticket: number, reason: string): Reduced {
  const { codex } = state;
  if (codex.phase !== "looking" || codex.ticket !== ticket) return note(state, state.note);
  return settle(state, { phase: "refused", reason, comments: codex.comments });
}

export function consent(state: State, yes: boolean): Reduced {
  const { codex } = state;
  if (codex.phase === "offered") {
    if (yes) return begin(state, codex.comments, codex.session);
    const { state: next, effects } = begin(state, codex.comments, null);
    return { state: next, effects: [{ do: "decline", session: codex.session }, ...effects] };
  }
  if (codex.phase !== "refused") return note(state, state.note);
  return yes ? begin(state, codex.comments, null) : settle(state, { phase: "idle" });
}

function begin(state: State, comments: readonly ReviewComment[], resume: InterruptedSession | null): Reduced {
  const ticket = state.ticket + 1;
  const codex: Codex = {
    phase: "running",
    ticket,
    comments,
    since: state.now,
    stopping: false,
    over: false,
    questions: [],
  };
  const text = `${plural(comments.length, "comment")} to Codex`;
  const log = addEntry(state.log, { kind: "turn", text });
  return {
    state: { ...state, ticket, codex, log, logTop: null, pane: "log", overlay: null },
    effects: [{ do: "begin", ticket, order: { comments, resume } }],
  };
}

export function updated(state: State, ticket: number, updates: readonly TurnUpdate[]): Reduced {
  const { codex } = state;
  if (codex.phase !== "running" || codex.ticket !== ticket) return note(state, state.note);
  let { questions } = codex;
  for (const update of updates) {
    if (update.type === "question") {
      questions = [...questions.filter((open) => open.id !== update.question.id), update.question];
    } else if (update.type === "settled") questions = questions.filter((open) => open.id !== update.id);
  }
  const log = addUpdates(state.log, updates);
  const over = codex.over || updates.some((one) => one.type === "event" && one.event.type === "turn_ended");
  const next: State = { ...state, log, codex: { ...codex, questions, over } };
  return note(asking(next, openQuestion(state)?.id), state.note);
}

/** Shows another question from its beginning. */
function asking(state: State, before: string | undefined): State {
  if (openQuestion(state)?.id === before) return state;
  return { ...state, questionTop: 0, questionSince: state.now };
}

/** A key pressed this soon after a question appeared, in milliseconds, was meant for the previous screen. */
const TOO_SOON_MS = 400;

/** The question disappears at once; its `settled` may come much later. */
export function answer(state: State, decision: QuestionAnswer): Reduced {
  const question = openQuestion(state);
  if (state.codex.phase !== "running" || question === null) return note(state, null);
  const shownFor = state.now - state.questionSince;
  // The clock was set back, so the time is unknown.
  if (shownFor >= 0 && shownFor < TOO_SOON_MS) return note(state, null);
  const codex = { ...state.codex, questions: state.codex.questions.slice(1) };
  return {
    state: asking({ ...state, codex }, question.id),
    effects: [{ do: "answer", id: question.id, decision }],
  };
}

const ENDS = {
  completed: "Codex execution completed",
  interrupted: "Codex execution interrupted",
  failed: "Codex execution failed",
  cancelled: "Codex execution cancelled",
} as const satisfies Record<TurnResult["status"], string>;

export function ended(state: State, ticket: number, result: TurnResult): Reduced {
  const { codex } = state;
  if (codex.phase !== "running" || codex.ticket !== ticket) return note(state, state.note);
  const text = endOf(result, state.now);
  // The bar may not have room for everything.
  const told = [
    ...(result.lastWords ?? []).map((line) => `stderr: ${line}`),
    ...(result.refused === null ? [] : [result.refused]),
  ];
  const words = told.map((line) => ({ kind: "trouble", text: line }) as const);
  const log = [...words, { kind: "turn", text } as const].reduce(addEntry, state.log);
  const next: State = { ...state, log, codex: { phase: "idle" }, note: text };
  if (state.leaving === "waiting") return { state: next, effects: [{ do: "quit", code: 0, waitMs: 0 }] };
  if (result.refused === null) return { state: next, effects: [] };
  return settle(
    { ...next, note: null },
    {
      phase: "refused",
      reason: result.refused,
      comments: codex.comments,
    },
  );
}

/** The possible next steps come before Codex's text, which may be long. */
function endOf({ status, reason, resetsAt, open, refused }: TurnResult, now: number): string {
  if (refused !== null) return `Session not resumed: ${refused}`;
  if (status === "completed") return ENDS.completed;
  const at = Date.parse(resetsAt ?? "");
  const until = Number.isNaN(at) || at <= now ? "" : ` ${untilText(at, now)}`;
  const again = open === true && status === "failed" ? ` (x resumes it)` : "";
  return `${ENDS[status]}${until}${again}: ${reason}`;
}

export function interrupt(state: State): Reduced {
  const { codex } = state;
  if (codex.phase !== "running") return note(state, "Codex is not at work.");
  if (codex.stopping) return note(state, "Codex is already stopping.");
  return { state: { ...state, codex: { ...codex, stopping: true } }, effects: [{ do: "interrupt" }] };
}

export function quit(state: State, atOnce: boolean): Reduced {
  const { codex } = state;
  if (codex.phase !== "running") return { state, effects: [{ do: "quit", code: 0, waitMs: 0 }] };
  if (atOnce) {
    // A second interrupt does not wait: it ends Codex with its commands.
    const ends = [{ do: "interrupt" }, { do: "interrupt" }] as const;
    return { state, effects: [...ends, { do: "quit", code: INTERRUPTED, waitMs: AT_ONCE_MS }] };
  }
  // Nothing is left to decide.
  if (codex.over) return settle({ ...state, leaving: "waiting" }, codex);
  return settle({ ...state, leaving: state.leaving === "no" ? "asked" : state.leaving }, state.codex);
}

export function leave(state: State, how: "interrupt" | "discard" | "stay"): Reduced {
  if (state.leaving !== "asked") return note(state, null);
  if (how === "stay") return settle({ ...state, leaving: "no" }, state.codex);
  if (state.codex.phase !== "running") return quit(state, false);
  return { state: { ...state, leaving: "waiting" }, effects: [{ do: how }] };
}

function settle(state: State, codex: Codex): Reduced {
  return { state: { ...state, codex }, effects: [] };
}

function note(state: State, text: string | null): Reduced {
  return { state: { ...state, note: text }, effects: [] };
}
