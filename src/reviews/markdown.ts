/**
 * Review comments as Markdown. All of it is untrusted text in code blocks and code spans, so that nothing is rendered,
 * fetched or obeyed by a terminal.
 */
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { titleOf } from "./pull-request.ts";
import type { ReviewComment, LoadedComments, PullRequest } from "./review.ts";

export function toMarkdown(
  pullRequest: PullRequest,
  { comments, title }: Pick<LoadedComments, "comments" | "title">,
): string {
  const name = title === null ? "" : `: ${inlineCode(title)}`;
  const head = `# Review comments of ${titleOf(pullRequest)}${name}\n\n${plural(comments.length, "comment")}\n`;
  return [head, ...comments.map(section)].join("\n");
}

function section(comment: ReviewComment): string {
  const line = comment.line ?? comment.originalLine;
  const state = comment.resolved === null ? "unknown" : comment.resolved ? "resolved" : "unresolved";
  const facts = [
    `- Author: ${inlineCode(comment.author)} (${inlineCode(comment.association ?? "unknown")})`,
    `- Created: ${inlineCode(comment.createdAt)}`,
    `- State: ${state}`,
    `- Id: ${inlineCode(comment.id)}`,
    ...(comment.inReplyTo === null ? [] : [`- In reply to: ${inlineCode(comment.inReplyTo)}`]),
    ...(comment.commit === null ? [] : [`- Commit: ${inlineCode(comment.commit)}`]),
  ];
  const where = `${comment.filePath}${line === null ? "" : `:${line}`}`;
  const hunk = comment.diffHunk === "" ? "" : `\n${block(comment.diffHunk, "diff")}`;
  return `## ${inlineCode(where)}\n\n${facts.join("\n")}\n\n${block(comment.body, "text")}${hunk}`;
}

/** The fence has more backticks than any run in the text, so that no line can end it. */
function block(text: string, language: string): string {
  const shown = harmless(text.replaceAll(/\r\n?/g, "\n"));
  const fence = "`".repeat(Math.max(3, longestRun(shown) + 1));
  return `${fence}${language}\n${shown}${shown.endsWith("\n") ? "" : "\n"}${fence}\n`;
}

function inlineCode(text: string): string {
  const shown = harmlessLine(text, 300);
  if (shown.trim() === "") return "(empty)";
  const ticks = "`".repeat(longestRun(shown) + 1);
  const space = ticks.length > 1 ? " " : "";
  return `${ticks}${space}${shown}${space}${ticks}`;
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}
