/** What the status bar says, the most pressing first. Pure. */
import { localTime } from "../lib/duration.ts";
import { formatDuration } from "../lib/duration.ts";
import { latest } from "./log.ts";
import { openQuestion, type State } from "./state.ts";
import { lineOf, type Style } from "./text.ts";

export interface Status {
  readonly text: string;
  readonly style: Style;
}

/** Cut here because it may be untrusted; the bar has at most three rows of it. */
const MAX_NOTE = 240;
const HINTS = "j/k move · space select · f filter · enter read · c code · x Codex · ? help";
const FEW_HINTS = "x Codex · ? help · q quit";
const PANE_HINTS = "j/k scroll · Esc list · tab next pane";
const OVERLAY_HINTS = { help: "Esc closes", filters: "j/k move · enter chooses · Esc closes" } as const;

export function statusOf(state: State): Status {
  if (state.leaving === "asked") {
    if (state.codex.phase !== "running") {
      const ended = sentence(lineOf(state.note ?? "Codex has ended", MAX_NOTE));
      return { text: `${ended} Quit? [y/n]`, style: "warn" };
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

function promptOf(state: State): Status | null {
  switch (state.codex.phase) {
    case "offered": {
      const from = lineOf(localTime(state.codex.session.startedAt, state.now), 40);
      return { text: `Interrupted session from ${from}. Resume? [y/n]`, style: "warn" };
    }
    case "refused":
      return {
        text: `${sentence(lineOf(state.codex.reason, MAX_NOTE))} Start fresh? [y/n]`,
        style: "warn",
      };
    case "idle":
    case "looking":
    case "running":
      return null;
  }
}

function restOf(state: State): Status {
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
      text: `${sentence(lineOf(state.loadFailed, MAX_NOTE))} [r] tries again · [q] quits`,
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
