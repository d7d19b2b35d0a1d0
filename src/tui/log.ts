/** Codex's words and actions in the turns of this UI, as a list of entries of limited length. Pure. */
import type { QuestionAnswer, EngineEvent, Question } from "../core/events.ts";
import type { TurnUpdate } from "../reviews/reviews.ts";

/** All texts are untrusted and unchanged. */
export type LogEntry =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "tool";
      readonly id: string;
      readonly what: string;
      readonly state: "running" | "ok" | "failed";
    }
  | {
      readonly kind: "question";
      readonly question: Question;
      readonly decision: QuestionAnswer | null | "open";
    }
  | { readonly kind: "notice" | "trouble" | "turn"; readonly text: string };

export interface LogPane {
  readonly entries: readonly LogEntry[];
  readonly dropped: number;
}

export const EMPTY_LOG: LogPane = { entries: [], dropped: 0 };

const MAX_ENTRIES = 1_000;
/** Long texts are split into pieces, so that a streamed word costs only its piece. */
const PIECE = 4_000;
const MAX_DETAIL = 500;

export function addUpdates(log: LogPane, updates: readonly TurnUpdate[]): LogPane {
  const entries = [...log.entries];
  for (const update of updates) addUpdate(entries, update);
  return limited(entries, log.dropped);
}

export function addEntry(log: LogPane, entry: LogEntry): LogPane {
  return limited([...log.entries, entry], log.dropped);
}

/** The newest entry, as one line. Null: no entry yet. Untrusted. */
export function latest(log: LogPane): string | null {
  const running = log.entries.findLast((entry) => entry.kind === "tool" && entry.state === "running");
  const entry = running ?? log.entries.at(-1);
  switch (entry?.kind) {
    case "tool":
      return entry.what;
    case "text":
      return entry.text.trimEnd().split("\n").at(-1) ?? null;
    case "notice":
    case "trouble":
      return entry.text;
    case "question":
    case "turn":
    case undefined:
      return null;
  }
}

function limited(entries: LogEntry[], dropped: number): LogPane {
  const excess = Math.max(0, entries.length - MAX_ENTRIES);
  return { entries: excess === 0 ? entries : entries.slice(excess), dropped: dropped + excess };
}

function addUpdate(entries: LogEntry[], update: TurnUpdate): void {
  switch (update.type) {
    case "begun":
      entries.push({
        kind: "turn",
        text: update.resumed ? `session resumed, run ${update.handle}` : `new session, run ${update.handle}`,
      });
      return;
    case "event":
      return addEvent(entries, update.event);
    case "question":
      entries.push({ kind: "question", question: update.question, decision: "open" });
      return;
    case "settled": {
      const at = entries.findLastIndex(
        (entry) => entry.kind === "question" && entry.question.id === update.id,
      );
      const entry = entries[at];
      if (entry?.kind === "question") entries[at] = { ...entry, decision: update.decision };
    }
  }
}

function addEvent(entries: LogEntry[], event: EngineEvent): void {
  switch (event.type) {
    case "text":
      return addText(entries, event.text, event.delta === true);
    case "tool":
      return addTool(entries, event);
    case "retry":
      entries.push({ kind: "trouble", text: `tries again: ${event.trouble.message.slice(0, MAX_DETAIL)}` });
      return;
    case "notice":
      entries.push({ kind: "notice", text: event.message.slice(0, MAX_DETAIL) });
      return;
    case "turn_ended":
      if (event.trouble !== undefined) {
        entries.push({ kind: "trouble", text: event.trouble.message.slice(0, MAX_DETAIL) });
      }
      return;
    case "message":
    case "session":
    case "session_changed":
    case "turn_started":
    case "usage":
    case "unknown":
  }
}

function addText(entries: LogEntry[], text: string, continues: boolean): void {
  const last = entries.at(-1);
  let rest = text;
  if (continues && last?.kind === "text") {
    entries.pop();
    rest = last.text + text;
  }
  while (rest.length > PIECE) {
    const lineEnd = rest.lastIndexOf("\n", PIECE);
    const at = lineEnd > 0 ? lineEnd : /[\ud800-\udbff]/.test(rest.charAt(PIECE - 1)) ? PIECE - 1 : PIECE;
    entries.push({ kind: "text", text: rest.slice(0, at) });
    rest = rest.slice(lineEnd > 0 ? at + 1 : at);
  }
  if (rest !== "") entries.push({ kind: "text", text: rest });
}

function addTool(entries: LogEntry[], tool: Extract<EngineEvent, { type: "tool" }>): void {
  const what = [tool.name, tool.detail ?? ""].join(" ").trim().slice(0, MAX_DETAIL);
  const state = tool.state === "started" ? "running" : tool.ok === false ? "failed" : "ok";
  const at = entries.findLastIndex(
    (entry) => entry.kind === "tool" && entry.id === tool.id && entry.state === "running",
  );
  const begun = entries[at];
  if (state === "running" || begun?.kind !== "tool") {
    entries.push({ kind: "tool", id: tool.id, what, state });
  } else entries[at] = { ...begun, what: tool.detail === undefined ? begun.what : what, state };
}
