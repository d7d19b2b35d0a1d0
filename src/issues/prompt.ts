/**
 * Prompts about an issue, and the news in it since the last prompt. The issue's text is untrusted: cut to a limit and
 * without invisible characters.
 */
import { createHash } from "node:crypto";
import { formatDuration } from "../lib/duration.ts";
import { arrayIn, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { shellLine } from "../lib/shell.ts";
import type { GateCommand } from "../core/config-issues.ts";
import type { IssueComment, Issue } from "./sources/source.ts";

const MAX_BODY = 64 * 1024;
const MAX_TITLE = 300;
/** Invisible characters. A single variation selector belongs to an emoji. */
const INVISIBLE =
  /(?:(?!\p{Variation_Selector})[\p{DI}\p{Bidi_Control}\uFFF9-\uFFFB])+|[\uFE00-\uFE0F]{2,}|[\u{E0100}-\u{E01EF}]+/gu;
/** A comment that is never closed hides everything after it. */
const HIDDEN =
  /<!--[^]*?(?:-->|$)|(?:(?!\p{Variation_Selector})[\p{DI}\p{Bidi_Control}\uFFF9-\uFFFB])+|[\uFE00-\uFE0F]{2,}|[\u{E0100}-\u{E01EF}]+/gu;

export interface PromptFacts {
  readonly issue: Issue;
  /** Empty: the work is not checked. */
  readonly gate: readonly GateCommand[];
  /** Failures of the last gate, which the agent must fix first. */
  readonly findings: readonly string[];
  /** Changes of the issue that the agent has not seen. Null: none. */
  readonly news: IssueNews | null;
  readonly knowledge: IssueKnowledge;
  /** The commit that the work began from. Null: none. */
  readonly baseline: string | null;
  /** It was closed as done and opened again. */
  readonly reopened: boolean;
  /** The agent's last turn was completed. */
  readonly turnCompleted: boolean;
}

/**
 * What the continued conversation knows of the issue. all: everything except `news`. maybe: unknown. other: a different
 * conversation got the text.
 */
export type IssueKnowledge = "all" | "maybe" | "other";

/** The first prompt of a conversation. `baseline`: an earlier conversation worked since that commit. */
export function firstPrompt({ issue, gate, findings }: PromptFacts, baseline: string | null): string {
  const { text, note } = visibleText(issue.body);
  return paragraphs([
    "Work on this issue in the repository that you are in, until it is done. Do not push, and do not merge.",
    `# ${issue.id}: ${titleOf(issue)}`,
    text,
    note,
    commentsText("Comments on the issue:", issue.comments ?? []),
    earlierWorkText(baseline, ", in another conversation"),
    findingsText(findings),
    gateText(gate),
  ]);
}

function earlierWorkText(baseline: string | null, where: string): string {
  if (baseline === null) return "";
  return `Work on it has begun already${where}: look at what changed since commit ${baseline} before you go on.`;
}

/** Continues a conversation without repeating known text. */
export function nextPrompt(facts: PromptFacts): string {
  const { findings, reopened } = facts;
  if (reopened) return reopenedPrompt(facts);
  return paragraphs([opening(facts), ...changesText(facts), findingsText(findings)]);
}

function opening({ issue, knowledge, turnCompleted }: PromptFacts): string {
  const which = `ssue ${issue.id} (${titleOf(issue)})`;
  if (knowledge === "other") return `I${which} is not done. Work on it until it is.`;
  return turnCompleted
    ? `Your last turn ended, but i${which} is not done. Go on with it until it is.`
    : `You were interrupted while you worked on i${which}. Go on where you left off.`;
}

/** For an issue that was closed as done and opened again: sends the whole present text. */
function reopenedPrompt({ issue, gate, news, knowledge }: PromptFacts): string {
  const { text, note } = visibleText(issue.body);
  const body = news?.body === true ? "Its text is new. It reads now:" : "It reads:";
  return paragraphs([
    `Issue ${issue.id} was closed as done after your last turn, and has been opened again: it is not done. Work on it until it is. Do not push, and do not merge.`,
    news?.title === true ? "Its title is new:" : "",
    `# ${issue.id}: ${titleOf(issue)}`,
    text === "" ? "" : body,
    text,
    note,
    knowledge === "all"
      ? commentsText("Comments that are new:", news?.comments ?? [])
      : commentsText("Comments on the issue:", issue.comments ?? []),
    gateText(gate),
  ]);
}

/** After a gate that failed. */
export function findingsPrompt(facts: PromptFacts): string {
  const { issue, findings } = facts;
  return paragraphs([
    `The work on issue ${issue.id} is not done: the project's own checks do not pass. Put that right.`,
    ...changesText(facts),
    findingsText(findings),
  ]);
}

/** The agent finished, but the issue has changed meanwhile. */
export function newsPrompt(facts: PromptFacts): string {
  const { issue, gate, knowledge } = facts;
  return paragraphs([
    `Issue ${issue.id} (${titleOf(issue)}) was changed while you worked on it, so it is not done yet. Work on it until it is.`,
    ...changesText(facts),
    "If you made this change yourself, leave the issue's text as it is, and finish what is left to be done.",
    knowledge === "all" ? gateText(gate) : "",
  ]);
}

/** Changes since the last prompt, marked as new. In doubt, the whole issue. */
function changesText(facts: PromptFacts): readonly string[] {
  const { issue, news, knowledge } = facts;
  if (knowledge !== "all") return wholeIssueText(facts);
  if (news === null) return [];
  const { text, note } = visibleText(issue.body);
  return [
    "The issue was changed since you last read it. What follows is new:",
    news.title ? `Its title is now: ${titleOf(issue)}` : "",
    ...(news.body ? ["Its text is now:", text === "" ? "(empty)" : text, note] : []),
    commentsText("New comments:", news.comments),
  ];
}

/** Repeating the text does no harm. */
function wholeIssueText({ issue, gate, knowledge, news, baseline }: PromptFacts): readonly string[] {
  const { text, note } = visibleText(issue.body);
  return [
    "It is not certain that this conversation has the issue as it reads now, so here is all of it. Do not push, and do not merge.",
    knowledge === "maybe" && news !== null ? newSince(news) : "",
    `# ${issue.id}: ${titleOf(issue)}`,
    text,
    note,
    commentsText("Comments on the issue:", issue.comments ?? []),
    knowledge === "other" ? earlierWorkText(baseline, "") : "",
    gateText(gate),
  ];
}

function newSince({ title, body, comments }: IssueNews): string {
  const parts = [title ? "its title" : "", body ? "its text" : "", comments.length > 0 ? "comments" : ""];
  return `New since you last got it: ${parts.filter(Boolean).join(", ")}.`;
}

function commentsText(heading: string, comments: readonly IssueComment[]): string {
  if (comments.length === 0) return "";
  const all = comments.map(({ author, text }) => {
    const { text: words, note } = visibleText(text);
    const who =
      author === null ? "" : `${author.replace(INVISIBLE, "").replace(/\s+/g, " ").slice(0, 100)}: `;
    return [`${who}${words}`, note].filter((part) => part !== "").join("\n");
  });
  const joined = [heading, ...all].join("\n\n");
  if (joined.length <= MAX_BODY) return joined;
  return `${joined.slice(0, MAX_BODY)}\n\n(The comments go on for ${joined.length - MAX_BODY} more characters, which are left out.)`;
}

function findingsText(findings: readonly string[]): string {
  if (findings.length === 0) return "";
  return [
    "This was found and is still open, so it comes first, even if the work seems complete:",
    ...findings,
  ].join("\n\n");
}

function gateText(gate: readonly GateCommand[]): string {
  if (gate.length === 0) return "";
  const lines = gate.map(
    ({ run, timeoutMs }) => `- ${shellLine(run)} (at most ${formatDuration(timeoutMs)})`,
  );
  return ["Your work is checked with these commands, which must all succeed:", ...lines].join("\n");
}

function titleOf({ title }: Issue): string {
  return title.replace(INVISIBLE, "").replace(/\s+/g, " ").trim().slice(0, MAX_TITLE);
}

function visibleText(body: string): { readonly text: string; readonly note: string } {
  let hidden = 0;
  const shown = body
    .slice(0, 4 * MAX_BODY)
    .replace(HIDDEN, () => {
      hidden += 1;
      return "";
    })
    .trim();
  const text = shown.slice(0, MAX_BODY);
  const left = Math.max(shown.length, body.length) - text.length;
  const notes = [
    ...(text.length < shown.length || body.length > 4 * MAX_BODY
      ? [`(The text goes on for ${left} more characters, which are left out.)`]
      : []),
    ...(hidden > 0 ? [`(${hidden} hidden part(s) of the text were left out.)`] : []),
  ];
  return { text, note: notes.join("\n") };
}

function paragraphs(parts: readonly string[]): string {
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

/** Digests of the sent text, which itself is in the conversation. */
export interface SentIssue {
  readonly title: string;
  readonly body: string;
  readonly comments: readonly string[];
  /** The conversation that got it. Null: sent, but unproved. */
  readonly session: string | null;
  /** The run's last attempt that was a turn of this conversation about the issue. */
  readonly attempt: number;
}

export interface IssueNews {
  /** The title changed. */
  readonly title: boolean;
  /** The text or its acceptance criteria changed. */
  readonly body: boolean;
  readonly comments: readonly IssueComment[];
}

export function sentOf({ title, body, comments = [] }: Issue): SentIssue {
  const words = { title: digest(title), body: digest(body), comments: comments.map(commentDigest) };
  return { ...words, session: null, attempt: 0 };
}

/**
 * `attempts`: the run's number of attempts. An attempt that was not a turn about the issue, such as a person's, may have
 * changed the conversation or cut it short.
 */
export function knowledgeOf(
  sent: SentIssue | null,
  session: string | null,
  attempts: number,
): IssueKnowledge {
  if (sent === null || sent.session === null) return "maybe";
  if (sent.session !== session) return "other";
  return sent.attempt === attempts ? "all" : "maybe";
}

/** Null: nothing new, or the sent text is unknown. */
export function newsIn(issue: Issue, sent: SentIssue | null): IssueNews | null {
  if (sent === null) return null;
  const { title, body } = sentOf(issue);
  const known = new Set(sent.comments);
  const comments = (issue.comments ?? []).filter((comment) => !known.has(commentDigest(comment)));
  const news = { title: title !== sent.title, body: body !== sent.body, comments };
  return news.title || news.body || comments.length > 0 ? news : null;
}

export function readSent(entry: unknown): SentIssue | null {
  const sent = objectIn(entry, "sent");
  const [title, body] = [stringIn(sent, "title"), stringIn(sent, "body")];
  if (title === undefined || body === undefined) return null;
  return {
    title,
    body,
    comments: arrayIn(sent, "comments").filter((one) => typeof one === "string"),
    session: stringIn(sent, "session") ?? null,
    attempt: numberIn(sent, "attempt") ?? 0,
  };
}

function commentDigest({ author, text }: IssueComment): string {
  return digest(JSON.stringify([author, text]));
}

/** Ignores line ends and surrounding white space. */
function digest(text: string): string {
  return createHash("sha256").update(text.replaceAll("\r\n", "\n").trim()).digest("hex").slice(0, 16);
}
