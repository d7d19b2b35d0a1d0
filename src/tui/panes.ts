/** Panes, question and overlays as lines. Pure; caches wrapped text for the next frame. */
import type { QuestionAnswer, Question } from "../core/events.ts";
import type { Style } from "../lib/palette.ts";
import { plural } from "../lib/plural.ts";
import { widthOf } from "../lib/width.ts";
import type { ReviewComment } from "../reviews/reviews.ts";
import { fit, lineOf, linesOf, remembered, styled, wrap, type Line } from "../terminal/terminal.ts";
import { ageOf, nameOf, stateWord } from "./list.ts";
import type { LogEntry, LogPane } from "./log.ts";
import { commentAtCursor, openQuestion, type State } from "./state.ts";
import { sameFilter } from "./threads.ts";

/** Lines before and after the commented line. */
export const CODE_AROUND = 20;

const HELP: readonly (readonly [keys: string, meaning: string])[] = [
  ["j k ↓ ↑", "next, previous comment; scrolls a pane that was entered, or a long question"],
  ["PgDn PgUp", "a screen on, back"],
  ["g G", "first, last"],
  ["space", "select the comment for Codex; u unselects all"],
  ["f", "filter: all, unresolved, unknown, one file, one author"],
  ["enter", "read the comment; Esc goes back"],
  ["c", "the code around the comment, as the folder has it"],
  ["tab", "comment, code, Codex"],
  ["x", "let Codex work on the selection, else on the trusted comments shown"],
  ["i", "interrupt Codex; the session is offered again"],
  [
    "y a n c",
    "Codex asks: once, for this session, decline, cancel the turn; file changes come with their diff",
  ],
  ["r", "ask for the comments again"],
  ["ctrl-l", "draw the screen again"],
  ["q", "quit"],
];

/** The keys, and below them everything that does not fit into the header. */
export function helpLines({ loaded, size: { columns } }: State): Line[] {
  const keys = HELP.flatMap(([names, meaning]) =>
    linesOf(meaning, columns - 14).map((text, at): Line => [
      { text: fit(at === 0 ? names : "", 12), style: "accent" },
      { text },
    ]),
  );
  const warnings = loaded?.warnings ?? [];
  if (warnings.length === 0) return keys;
  const said = warnings.flatMap((warning) => styled(linesOf(warning, columns), "warn"));
  return [...keys, [], [{ text: "About these comments", style: "accent" }], ...said];
}

export function filterLines(state: State, columns: number, rows: number): Line[] {
  if (state.overlay?.kind !== "filters") return [];
  const { choices, cursor, top } = state.overlay;
  return choices.slice(top, top + rows).map(({ filter, count }, at): Line => {
    const isCursor = top + at === cursor;
    const current = sameFilter(filter, state.filter) ? "*" : " ";
    const end = ` (${count})`;
    const text = `${isCursor ? ">" : " "} ${current} ${lineOf(nameOf(filter), columns - 5 - end.length)}${end}`;
    return [isCursor ? { text: fit(text, columns), style: "bar" } : { text }];
  });
}

export function paneLines(state: State, columns: number): readonly Line[] {
  if (state.pane === "log") return logLines(state.log, columns);
  const comment = commentAtCursor(state);
  if (comment === null) return [];
  return state.pane === "comment"
    ? commentLines(comment, state.now, columns)
    : codeLines(state, comment, columns);
}

const commentText = remembered((comment: ReviewComment, columns) => {
  const body = comment.body.trim() === "" ? "(no text)" : comment.body.trimEnd();
  // The commented line is the last line of a hunk, so a long hunk keeps its end.
  const hunk =
    comment.diffHunk === ""
      ? []
      : [[], ...diffLines(linesOf(comment.diffHunk, Number.POSITIVE_INFINITY, "end"), columns)];
  return [[], ...styled(linesOf(body, columns)), ...hunk];
});

function commentLines(comment: ReviewComment, now: number, columns: number): readonly Line[] {
  const line = comment.line ?? comment.originalLine;
  const outdated = comment.line === null && comment.originalLine !== null ? " (outdated)" : "";
  const place = `${comment.filePath}${line === null ? "" : `:${line}`}${outdated} · ${stateWord(comment)}`;
  const association = comment.association?.toLowerCase().replaceAll("_", " ") ?? "association unknown";
  const commit = comment.commit === null ? "" : ` · ${comment.commit.slice(0, 7)}`;
  const who = `${comment.author} (${association}) · ${ageOf(comment, now)} · ${comment.createdAt}${commit}`;
  return [
    ...styled([lineOf(place, columns)], "bold"),
    ...styled([lineOf(who, columns)], "dim"),
    ...commentText(comment, columns),
  ];
}

/** Takes harmless lines of any width. */
function diffLines(lines: readonly string[], columns: number, indent = ""): Line[] {
  // A wrapped row must not look like a separate line.
  const second = indent === "" ? "" : CONTINUED;
  return lines.flatMap((line) =>
    styled(
      wrap(line, columns - indent.length).map((row, at) => `${at === 0 ? indent : second}${row}`),
      diffStyle(line),
    ),
  );
}

function diffStyle(line: string): Style | undefined {
  if (line.startsWith("@@")) return "accent";
  if (line.startsWith("+")) return "good";
  return line.startsWith("-") ? "bad" : undefined;
}

function codeLines(state: State, comment: ReviewComment, columns: number): Line[] {
  if (state.code?.comment !== comment || state.code.lines === "loading") return styled(["…"], "dim");
  const { lines } = state.code;
  if (lines === null) {
    return styled(linesOf(`The folder has no ${comment.filePath} with this line.`, columns), "dim");
  }
  const at = comment.line ?? comment.originalLine;
  const first = at === null ? 1 : Math.max(1, at - CODE_AROUND);
  const width = String(first + lines.length).length;
  return lines.flatMap((line, index) => {
    const here = first + index === at;
    return linesOf(line, columns - width - 3).map((text, part): Line => {
      const number = part === 0 ? String(first + index).padStart(width) : " ".repeat(width);
      return [
        { text: `${here ? ">" : " "}${number} `, style: here ? "warn" : "dim" },
        here ? { text, style: "bold" } : { text },
      ];
    });
  });
}

const logLines = remembered((log: LogPane, columns) => {
  const lines = log.entries.flatMap((entry) => entryLines(entry, columns));
  if (log.dropped > 0) lines.unshift([{ text: "… what came before is in the transcript", style: "dim" }]);
  return lines.length > 0 ? lines : [[{ text: "Nothing yet; x lets Codex work.", style: "dim" }]];
});

const DECIDED: Readonly<Record<QuestionAnswer, string>> = {
  accept: "allowed once",
  accept_for_session: "allowed for this session",
  decline: "declined",
  cancel: "turn cancelled",
};

const entryLines = remembered((entry: LogEntry, columns): Line[] => {
  switch (entry.kind) {
    case "text":
      return styled(linesOf(entry.text, columns));
    case "tool": {
      const mark = { running: "…", ok: "+", failed: "!" }[entry.state];
      const style = { running: "accent", ok: "good", failed: "bad" } as const;
      return [[{ text: `${mark} ${lineOf(entry.what, columns - 2)}`, style: style[entry.state] }]];
    }
    case "question": {
      const { decision, question } = entry;
      const answer = decision === "open" ? "asks" : decision === null ? "not answered" : DECIDED[decision];
      return [[{ text: lineOf(`? ${answer}: ${question.what}`, columns), style: "warn" }]];
    }
    case "notice":
      return styled(linesOf(entry.text, columns), "dim");
    case "trouble":
      return styled(linesOf(entry.text, columns), "bad");
    case "turn": {
      const text = lineOf(entry.text, columns - 8);
      return [[{ text: `── ${text} ${"─".repeat(Math.max(2, columns - widthOf(text) - 4))}`, style: "dim" }]];
    }
  }
});

/** The complete action that Codex asks for: users must not allow anything unseen. */
export function questionLines(state: State, columns: number): readonly Line[] {
  const question = openQuestion(state);
  return question === null ? [] : linesOfQuestion(question, columns);
}

const linesOfQuestion = remembered((question: Question, columns) => {
  // Only the action is indented, so that no part of it looks like something else.
  const about = (label: string, text: string | null): Line[] =>
    text === null ? [] : styled(linesOf(`${label} ${lineOf(text, 1_000)}`, columns), "dim");
  return [
    ...styled(
      linesOf(question.what, columns - 2).map((line) => `  ${line}`),
      "bold",
    ),
    ...about("in", question.cwd),
    ...about("because", question.reason),
    ...changesOf(question, columns),
  ];
});

/** The rest of a longer diff is only in the transcript, and the screen says so. */
const MAX_DIFF = 400_000;
const DIFF_INDENT = "    ";
/** As wide as the indent, and different from every possible start of a line. */
const CONTINUED = "  | ";

/** The change of each file, below its name if there are several. */
function changesOf({ changes = [] }: Question, columns: number): Line[] {
  return changes.flatMap(({ what, diff }) => {
    const name = changes.length === 1 ? [] : styled([`  ${lineOf(what, columns - 2)}`], "bold");
    if (diff === "")
      return changes.length === 1 ? [] : [...name, [{ text: `${DIFF_INDENT}(no lines)`, style: "dim" }]];
    const lines = linesOf(diff.slice(0, MAX_DIFF), Number.POSITIVE_INFINITY, "start", MAX_DIFF);
    const left = Math.max(0, diff.length - MAX_DIFF).toLocaleString("en");
    const cut = `${DIFF_INDENT}… ${left} more characters are not shown; the transcript has them all`;
    return [
      ...name,
      ...diffLines(lines, columns, DIFF_INDENT),
      ...(left === "0" ? [] : styled(wrap(cut, columns), "warn")),
    ];
  });
}

/** `top` is the first visible of `length` lines, `rows` the number of visible ones. */
export function questionTitle({ about, changes }: Question, shown: QuestionRows): string {
  const { top, rows, length } = shown;
  const files = changes === undefined ? "files" : plural(changes.length, "file");
  const what = about === "command" ? "Codex wants to run" : `Codex wants to change ${files}`;
  if (length <= rows) return what;
  const hidden = Math.max(0, length - top - rows);
  return `j/k PgUp PgDn: ${hidden === 0 ? "the end" : plural(hidden, "more line")} · ${what}`;
}

export interface QuestionRows {
  readonly top: number;
  readonly rows: number;
  readonly length: number;
}
