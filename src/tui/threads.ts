/** The comments in list order: threads, filters, and the comments that go to Codex. Pure. */
import type { ReviewComment } from "../reviews/reviews.ts";
import type { Choice, Filter, CommentRow, State } from "./state.ts";

const MAX_DEPTH = 3;

/** Replies are below their parents. Ids are untrusted: they may repeat or form cycles. */
export function rowsOf(comments: readonly ReviewComment[]): CommentRow[] {
  const ids = new Set(comments.map((comment) => comment.id));
  const replies = new Map<string, ReviewComment[]>();
  const first: ReviewComment[] = [];
  for (const comment of comments) {
    const parent = comment.inReplyTo;
    if (parent === null || parent === comment.id || !ids.has(parent)) first.push(comment);
    else if (!replies.get(parent)?.push(comment)) replies.set(parent, [comment]);
  }
  const rows: CommentRow[] = [];
  const placed = new Set<ReviewComment>();
  // Comments in a cycle have no first one: they come last, each where it is reached.
  for (const begin of [...first, ...comments]) {
    const waiting: CommentRow[] = [{ comment: begin, depth: 0 }];
    for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
      if (placed.has(row.comment)) continue;
      placed.add(row.comment);
      rows.push(row);
      const depth = Math.min(MAX_DEPTH, row.depth + 1);
      for (const comment of (replies.get(row.comment.id) ?? []).toReversed())
        waiting.push({ comment, depth });
    }
  }
  return rows;
}

/** A comment with an unknown state is neither resolved nor unresolved. */
export function passes(filter: Filter, comment: ReviewComment): boolean {
  switch (filter.by) {
    case "all":
      return true;
    case "unresolved":
      return comment.resolved === false;
    case "unknown":
      return comment.resolved === null;
    case "file":
      return comment.filePath === filter.value;
    case "author":
      return comment.author === filter.value;
  }
}

/** All, unresolved, unknown if any, then each file and each author, by name. */
export function choicesOf(rows: readonly CommentRow[]): Choice[] {
  const files = new Map<string, number>();
  const authors = new Map<string, number>();
  const states = countsOf(rows);
  for (const { comment } of rows) {
    files.set(comment.filePath, (files.get(comment.filePath) ?? 0) + 1);
    authors.set(comment.author, (authors.get(comment.author) ?? 0) + 1);
  }
  const named = (by: "file" | "author", counts: ReadonlyMap<string, number>): Choice[] =>
    [...counts]
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([value, count]) => ({ filter: { by, value }, count }));
  return [
    { filter: { by: "all" }, count: rows.length },
    { filter: { by: "unresolved" }, count: states.unresolved },
    ...(states.unknown === 0 ? [] : [{ filter: { by: "unknown" }, count: states.unknown } as const]),
    ...named("file", files),
    ...named("author", authors),
  ];
}

export function countsOf(rows: readonly CommentRow[]): {
  readonly unresolved: number;
  readonly unknown: number;
} {
  let [unresolved, unknown] = [0, 0];
  for (const { comment } of rows) {
    if (passes({ by: "unresolved" }, comment)) unresolved += 1;
    else if (passes({ by: "unknown" }, comment)) unknown += 1;
  }
  return { unresolved, unknown };
}

export function sameFilter(one: Filter, other: Filter): boolean {
  return one.by === other.by && ("value" in one ? one.value : "") === ("value" in other ? other.value : "");
}

/** What `x` sends: the selection, otherwise the visible trusted comments. */
export function chosen(state: State): ReviewComment[] {
  const all = state.rows.map((row) => row.comment).filter((comment) => state.selected.has(comment));
  if (all.length > 0) return all;
  return state.visible.map((row) => row.comment).filter((comment) => state.trusted.has(comment));
}

/** The same comments after a refresh, if their text is unchanged: the user has read the text of a selected comment. */
export function sameComments(
  old: ReadonlySet<ReviewComment>,
  comments: readonly ReviewComment[],
): ReadonlySet<ReviewComment> {
  if (old.size === 0) return old;
  const name = (comment: ReviewComment) => JSON.stringify([comment.id, comment.author]);
  const bodies = new Map([...old].map((comment) => [name(comment), comment.body]));
  return new Set(comments.filter((comment) => bodies.get(name(comment)) === comment.body));
}
