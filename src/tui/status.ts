/** The text of the status bar, most urgent first. Pure. */
import { formatDuration, localTime } from "../lib/duration.ts";
import { plural } from "../lib/plural.ts";
import { untilText } from "../lib/until.ts";
import { widthOf } from "../lib/width.ts";
import type { InterruptedSession } from "../reviews/reviews.ts";
import type { Style } from "../lib/palette.ts";
import { lineOf, wrap } from "../terminal/terminal.ts";
import { latest } from "./log.ts";
import { openQuestion, type State } from "./state.ts";

export interface StatusLine {
  readonly text: string;
  readonly style: Style;
}

/** Cut here because it may be untrusted; the bar has at most three rows for it. */
const MAX_NOTE = 240;
const MAX_WHY = 120;
/** Rows of the bar. */
export const MAX_STATUS = 3;
const HINTS = "j/k move · space select · f filter · enter read · c code · x Codex · ? help";
const FEW_HINTS = "x Codex · ? help · q quit";
const PANE_HINTS = "j/k scroll · Esc list · tab next pane";
const OVERLAY_HINTS = { help: "Esc closes", filters: "j/k move · enter chooses · Esc closes" } as const;

export function statusOf(state: State): StatusLine {
  if (state.leaving === "asked") {
    if (state.codex.phase !== "running") {
      const ended = sentence(oneLine(state.note ?? "Codex has ended"));
      return { text: asked(ended, "Quit? [y/n]", state.size.columns), style: "warn" };
    }
    return {
      text: "Codex is at work. [i] interrupt and quit · [d] discard and quit · [Esc] stay",
      style: "warn",
    };
  }
  if (state.leaving === "waiting")
    return { text: "Waiting for Codex to stop. Ctrl-C: do not wait", style: "warn" };
  const question = openQuestion(state);
  const more = state.codex.phase === "running" ? state.codex.questions.length - 1 : 0;
  if (question !== null) {
    const waiting = more === 0 ? "" : ` · ${more} more`;
    return {
      text: `[y] once · [a] this session · [n] decline · [c] cancel the turn${waiting}`,
      style: "warn",
    };
  }
  return promptOf(state) ?? restOf(state);
}

function promptOf(state: State): StatusLine | null {
  switch (state.codex.phase) {
    case "offered": {
      const { session } = state.codex;
      const from = lineOf(localTime(session.startedAt, state.now), 40);
      const question = `Interrupted session from ${from}. Resume? [y/n]`;
      const about = [whyOf(session, state.now), approvalsOf(session)].filter((part) => part !== "");
      return { text: asked(about.join(" "), question, state.size.columns), style: "warn" };
    }
    case "refused":
      return {
        text: asked(sentence(oneLine(state.codex.reason)), "Start fresh? [y/n]", state.size.columns),
        style: "warn",
      };
    case "idle":
    case "looking":
    case "running":
      return null;
  }
}

/** If one row is not enough, the question gets a separate row: lack of room must never hide it. */
function asked(about: string, question: string, columns: number): string {
  const all = `${about} ${question}`.trimStart();
  if (about === "" || widthOf(all) <= columns) return all;
  const rows = MAX_STATUS - wrap(question, columns).length;
  const lines = wrap(about, columns);
  const whole = lines.slice(0, lines.length > rows ? rows - 1 : rows);
  const rest = lines.slice(whole.length).join(" ");
  return [...whole, ...(rest === "" ? [] : [lineOf(rest, columns)]), question].join("\n");
}

function oneLine(text: string): string {
  return lineOf(text, MAX_NOTE);
}

/** What blocked the session last time, and until when. */
function whyOf({ why, resetsAt }: InterruptedSession, now: number): string {
  if (why === undefined) return "";
  const at = resetsAt === undefined ? Number.NaN : Date.parse(resetsAt);
  if (Number.isNaN(at) || at <= now) return capital(sentence(lineOf(why, MAX_WHY)));
  return capital(`${lineOf(why.replace(/: [^]*/, ""), MAX_WHY)} ${untilText(at, now)}.`);
}

function approvalsOf({ approvals = [], keepsApprovals }: InterruptedSession): string {
  if (approvals.length === 0) return "";
  const stored = plural(approvals.length, "stored approval");
  return keepsApprovals === true
    ? `${stored}: given again (--keep-approvals).`
    : `${stored}: asked again, unless with --keep-approvals.`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function restOf(state: State): StatusLine {
  if (state.note !== null) return { text: lineOf(state.note, MAX_NOTE), style: "bar" };
  if (state.codex.phase === "looking") return { text: "Looking for an interrupted session …", style: "bar" };
  if (state.codex.phase === "running") {
    const { since, stopping } = state.codex;
    const time = formatDuration(Math.floor(Math.max(0, state.now - since) / 1_000) * 1_000);
    const doing = stopping ? "is asked to stop" : (latest(state.log) ?? "is starting");
    const progress = `Codex · ${time === "0 ms" ? "0 s" : time} · ${doing}`;
    return { text: lineOf(progress, state.size.columns), style: "bar" };
  }
  if (state.loading !== null) return { text: "Loading comments …", style: "bar" };
  if (state.loadFailed !== null) {
    return {
      text: asked(sentence(oneLine(state.loadFailed)), "[r] tries again · [q] quits", state.size.columns),
      style: "warn",
    };
  }
  return { text: hintsOf(state), style: "bar" };
}

function hintsOf(state: State): string {
  if (state.overlay !== null) return OVERLAY_HINTS[state.overlay.kind];
  if (state.focus === "pane") return PANE_HINTS;
  return state.size.columns < HINTS.length ? FEW_HINTS : HINTS;
}

function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
