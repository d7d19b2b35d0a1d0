/** The header and the comment list as lines. Pure. */
import { plural } from "../lib/plural.ts";
import { cutStart, widthOf } from "../lib/width.ts";
import type { ReviewComment } from "../reviews/reviews.ts";
import type { Style } from "../lib/palette.ts";
import { cutLine, fit, lineOf, type Line, type Piece, type Size } from "../terminal/terminal.ts";
import type { Filter, CommentRow, State } from "./state.ts";
import { countsOf } from "./threads.ts";

export function headerLines(state: State, rows: number): Line[] {
  const { columns } = state.size;
  const { host, owner, repository, number } = state.pullRequest;
  const where = host === "github.com" ? "" : `${host}/`;
  const name = lineOf(`${where}${owner}/${repository}#${number}`, columns);
  const title = lineOf(state.loaded?.title ?? "", Math.max(0, columns - widthOf(name) - 2));
  const first: Line = [{ text: name, style: "bold" }, ...(title === "" ? [] : [{ text: `  ${title}` }])];
  if (rows === 1) return [first];
  const heads = headsOf(state);
  const said = state.loaded?.warnings ?? [];
  const warning = said.length < 2 ? said[0] : `(${said.length}) ${said[0]}`;
  return [
    first,
    cutLine(
      [
        ...(heads === null ? [] : [{ text: `${heads} · `, style: "warn" } as const]),
        { text: summaryOf(state), style: "dim" },
        ...(warning === undefined
          ? []
          : [{ text: ` · ${lineOf(warning, columns)}`, style: "warn" } as const]),
      ],
      columns,
    ),
  ];
}

function summaryOf(state: State): string {
  if (state.loaded === null) return state.loading === null ? "no comments loaded" : "loading …";
  const total = state.rows.length;
  const parts = state.selected.size > 0 ? [`${state.selected.size} selected`] : [];
  parts.push(plural(total, "comment"));
  const { by } = state.filter;
  if (by !== "all") parts.push(`${state.visible.length} shown: ${lineOf(nameOf(state.filter), 30)}`);
  if (by === "file" || by === "author") return parts.join(" · ");
  const { unresolved, unknown } = countsOf(state.rows);
  if (by === "all") {
    // A number would be wrong if no state is known.
    if (unknown > 0 && unknown === total) return [...parts, "unresolved: unknown"].join(" · ");
    parts.push(`${unresolved} unresolved`);
  }
  if (by !== "unknown" && unknown > 0) parts.push(`${unknown} unknown`);
  return parts.join(" · ");
}

/** Null: the folder is at the pull request's head, or one of the two is unknown. */
function headsOf(state: State): string | null {
  const { pullRequest = null, folder = null } = state.loaded?.head ?? {};
  if (pullRequest === null || folder === null || pullRequest === folder) return null;
  return lineOf(`folder at ${folder.slice(0, 7)}, PR at ${pullRequest.slice(0, 7)}`, 60);
}

/** Untrusted text. */
export function nameOf(filter: Filter): string {
  return "value" in filter ? `${filter.by} ${filter.value}` : filter.by;
}

export function listLines(state: State, list: Size): Line[] {
  if (state.visible.length === 0) {
    const text =
      state.loaded === null
        ? ""
        : state.rows.length === 0
          ? "This pull request has no review comments."
          : "No comments match the filter. Press f to change it.";
    return [[{ text: lineOf(text, list.columns), style: "dim" }]];
  }
  const columns = columnsOf(list.columns);
  return state.visible
    .slice(state.top, state.top + list.rows)
    .map((row, at) => rowLine(state, row, state.top + at === state.cursor, columns));
}

interface Columns {
  readonly place: number;
  readonly author: number;
  /** Columns left for the beginning of the body. 0: no room. */
  readonly body: number;
}

function columnsOf(width: number): Columns {
  const fixed = "> * open ".length + 1 + " MEM".length + 1 + "365d".length + 1;
  const free = Math.max(0, width - fixed);
  const author = Math.max(4, Math.min(14, Math.floor(free * 0.24)));
  // Without room for more than a word or two of the body, the place gets the columns.
  if (free < 45) return { place: Math.max(4, free - author), author, body: 0 };
  const place = Math.min(34, Math.floor(free * 0.48));
  return { place, author, body: free - place - author - 1 };
}

function rowLine(state: State, row: CommentRow, isCursor: boolean, columns: Columns): Line {
  const { comment, depth } = row;
  const indent = depth === 0 ? "" : `${"  ".repeat(depth - 1)}└ `;
  const trusted = state.trusted.has(comment);
  const selected = state.selected.has(comment);
  const pieces: Piece[] = [
    { text: isCursor ? "> " : "  ", style: "bold" },
    { text: selected ? "* " : "  ", style: "accent" },
    { text: `${fit(stateWord(comment), 4)} `, style: stateStyle(comment) },
    { text: `${fit(indent + placeOf(comment, columns.place - indent.length), columns.place)} ` },
    { text: `${fit(lineOf(comment.author, columns.author), columns.author)} ` },
    { text: fit(MARKS[comment.association ?? ""] ?? "?", 3), style: trusted ? "good" : "warn" },
    { text: ` ${ageOf(comment, state.now).padStart(4)}`, style: "dim" },
  ];
  if (columns.body > 0)
    pieces.push({ text: ` ${fit(lineOf(comment.body.trim(), columns.body), columns.body)}` });
  if (!isCursor || state.focus !== "list") return pieces;
  return [{ text: pieces.map((piece) => piece.text).join(""), style: "bar" }];
}

/** File and line; of a long path the end, which is more specific. */
function placeOf(comment: ReviewComment, columns: number): string {
  const line = comment.line ?? comment.originalLine;
  const number = line === null ? "" : `:${line}`;
  return cutStart(lineOf(comment.filePath, 400), Math.max(1, columns - number.length)) + number;
}

export function stateWord(comment: ReviewComment): string {
  return comment.resolved === null ? "?" : comment.resolved ? "done" : "open";
}

function stateStyle(comment: ReviewComment): Style {
  return comment.resolved === null ? "dim" : comment.resolved ? "good" : "accent";
}

const MARKS: Readonly<Record<string, string>> = {
  OWNER: "OWN",
  MEMBER: "MEM",
  COLLABORATOR: "COL",
  CONTRIBUTOR: "con",
  FIRST_TIME_CONTRIBUTOR: "1st",
  FIRST_TIMER: "1st",
  NONE: "-",
};

export function ageOf(comment: ReviewComment, now: number): string {
  const minutes = Math.floor((now - Date.parse(comment.createdAt)) / 60_000);
  if (Number.isNaN(minutes)) return "?";
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h`;
  const days = Math.floor(minutes / (24 * 60));
  return days < 1000 ? `${days}d` : `${Math.min(999, Math.floor(days / 365))}y`;
}
