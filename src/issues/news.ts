/** What an agent was told of an issue, as digests, and what of the issue is new to it since then. */
import { createHash } from "node:crypto";
import { arrayIn, objectIn, stringIn } from "../lib/json.ts";
import type { Comment, Issue } from "./source.ts";

/** Digests of what was sent. The words themselves are in the conversation. */
export interface Sent {
  readonly title: string;
  readonly body: string;
  readonly comments: readonly string[];
}

export interface News {
  /** It has another title now. */
  readonly title: boolean;
  /** Its text, acceptance criteria included, is another one now. */
  readonly body: boolean;
  readonly comments: readonly Comment[];
}

export function sentOf({ title, body, comments = [] }: Issue): Sent {
  return { title: digest(title), body: digest(body), comments: comments.map(commentDigest) };
}

/** Null: nothing, or it is unknown what was sent. */
export function newsIn(issue: Issue, sent: Sent | null): News | null {
  if (sent === null) return null;
  const { title, body } = sentOf(issue);
  const known = new Set(sent.comments);
  const comments = (issue.comments ?? []).filter((comment) => !known.has(commentDigest(comment)));
  const news = { title: title !== sent.title, body: body !== sent.body, comments };
  return news.title || news.body || comments.length > 0 ? news : null;
}

export function readSent(entry: unknown): Sent | null {
  const sent = objectIn(entry, "sent");
  const [title, body] = [stringIn(sent, "title"), stringIn(sent, "body")];
  if (title === undefined || body === undefined) return null;
  return { title, body, comments: arrayIn(sent, "comments").filter((one) => typeof one === "string") };
}

function commentDigest({ author, text }: Comment): string {
  return digest(JSON.stringify([author, text]));
}

/** Line ends and the space around are no change. */
function digest(text: string): string {
  return createHash("sha256").update(text.replaceAll("\r\n", "\n").trim()).digest("hex").slice(0, 16);
}
