/** The header and the comment list as lines. Pure. */
import { widthOf } from "../lib/width.ts";
import type { Comment } from "../reviews/reviews.ts";
import type { Layout } from "./layout.ts";
import type { Filter, Row, State } from "./state.ts";
import { fit, lineOf, type Line, type Piece, type Style } from "./text.ts";

export function headerLines(state: State, rows: number): Line[] {
  const { columns } = state.size;
  const { host, owner, repository, number } = state.pullRequest;
  const where = host === "github.com" ? "" : `${host}/`;
  const name = lineOf(`${where}${owner}/${repository}#${number}`, columns);
  const title = lineOf(state.loaded?.title ?? "", Math.max(0, columns - widthOf(name) - 2));
  const first: Line = [{ text: name, style: "bold" }, ...(title === "" ? [] : [{ text: `  ${title}` }])];
  if (rows === 1) return [first];
  const counts = countsOf(state);
  const warning = warningOf(state);
  const room = columns - widthOf(counts) - 3;
  if (warning === null || room < 12) return [first, [{ text: lineOf(counts, columns), style: "dim" }]];
  return [
    first,
    [
      { text: counts, style: "dim" },
      { text: " · ", style: "dim" },
      { text: lineOf(warning, room), style: "warn" },
    ],
  ];
}

function countsOf(state: State): string {
  if (state.loaded === null) return state.loading === null ? "no comments loaded" : "loading …";
  const total = state.rows.length;
  const parts = [`${total} ${total === 1 ? "comment" : "comments"}`];
  if (state.filter.by !== "all") {
    parts.push(`${state.visible.length} shown: ${lineOf(nameOf(state.filter), 30)}`);
  } else {
    const unresolved = state.rows.filter((row) => row.comment.resolved === false).length;
    const unknown = state.rows.filter((row) => row.comment.resolved === null).length;
    parts.push(`${unresolved} unresolved`);
    if (unknown > 0) parts.push(`${unknown} unknown`);
  }
  if (state.selected.size > 0) parts.push(`${state.selected.size} selected`);
  return parts.join(" · ");
}

/** The folder is on another commit than the pull request, or what was said while loading. */
function warningOf(state: State): string | null {
  if (state.loaded === null) return null;
  const { pullRequest, folder } = state.loaded.head;
  if (pullRequest !== null && folder !== null && pullRequest !== folder) {
    return `folder is at ${folder.slice(0, 7)}, pull request at ${pullRequest.slice(0, 7)}`;
  }
  const [first, ...more] = state.loaded.warnings;
  if (first === undefined) return null;
  return more.length === 0 ? first : `(${more.length + 1}) ${first}`;
}

/** Untrusted text. */
export function nameOf(filter: Filter): string {
  return "value" in filter ? `${filter.by} ${filter.value}` : filter.by;
}

export function listLines(state: State, { list }: Layout): Line[] {
  if (state.visible.length === 0) {
    const text =
      state.loaded === null
        ? ""
        : state.rows.length === 0
          ? "This pull request has no review comments."
          : "No comment passes the filter; f changes it.";
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
  /** What is left for the beginning of the body; 0: none. */
  readonly body: number;
}

function columnsOf(width: number): Columns {
  const fixed = "> * open ".length + 1 + " MEM".length + 1 + "365d".length + 1;
  const free = Math.max(0, width - fixed);
  const place = Math.max(8, Math.min(34, Math.floor(free * 0.48)));
  const author = Math.max(4, Math.min(14, Math.floor(free * 0.22)));
  const body = free - place - author - 1;
  return { place, author, body: body < 6 ? 0 : body };
}

function rowLine(state: State, row: Row, isCursor: boolean, columns: Columns): Line {
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
    { text: fit(markOf(comment), 3), style: trusted ? "good" : "warn" },
    { text: ` ${ageOf(comment, state.now).padStart(4)}`, style: "dim" },
  ];
  if (columns.body > 0)
    pieces.push({ text: ` ${fit(lineOf(comment.body.trim(), columns.body), columns.body)}` });
  if (!isCursor || state.focus !== "list") return pieces;
  return [{ text: pieces.map((piece) => piece.text).join(""), style: "bar" }];
}

/** File and line; of a long path the end, which says more. */
function placeOf(comment: Comment, columns: number): string {
  const line = comment.line ?? comment.originalLine;
  const number = line === null ? "" : `:${line}`;
  const room = Math.max(1, columns - number.length);
  const whole = lineOf(comment.filePath, 400);
  if (widthOf(whole) <= room) return whole + number;
  const characters = Array.from(whole);
  let width = widthOf(whole);
  while (width > room - 1) width -= widthOf(characters.shift() ?? "");
  return `…${characters.join("")}${number}`;
}

export function stateWord(comment: Comment): string {
  return comment.resolved === null ? "?" : comment.resolved ? "done" : "open";
}

function stateStyle(comment: Comment): Style {
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

function markOf(comment: Comment): string {
  return (comment.association === null ? undefined : MARKS[comment.association]) ?? "?";
}

export function ageOf(comment: Comment, now: number): string {
  const minutes = Math.floor((now - Date.parse(comment.createdAt)) / 60_000);
  if (Number.isNaN(minutes)) return "?";
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h`;
  const days = Math.floor(minutes / (24 * 60));
  return days < 1000 ? `${days}d` : `${Math.floor(days / 365)}y`;
}
