/**
 * A pull request's review comments, worked on by Codex in a conversation that survives interruption. The door of this
 * folder: what the terminal UI and the headless command are given to work with. Knows nothing of either.
 */
import type { Decision, EngineEvent, Question } from "../core/events.ts";
import type { FaultCode } from "../core/faults.ts";

export { toJsonLines } from "./comment-file.ts";
export { findPullRequest, openDesk } from "./desk.ts";
export { followSession } from "./elsewhere.ts";
export { lookAt } from "./folder.ts";
export { damagedSidecars } from "./health.ts";
export { toMarkdown } from "./markdown.ts";
export { sessionRemoval } from "./removal.ts";
export { beginTurn, type TurnOptions } from "./turn.ts";

export interface PullRequest {
  /** `github.com`, or the host of a GitHub Enterprise server. */
  readonly host: string;
  readonly owner: string;
  readonly repository: string;
  readonly number: number;
}

/** A review comment. All texts are untrusted and as they came; they are made harmless where they are shown or sent. */
export interface Comment {
  readonly id: string;
  readonly author: string;
  /** GitHub's word for what the author is to the repository: OWNER, MEMBER, COLLABORATOR, CONTRIBUTOR, NONE, …; null: not known. */
  readonly association: string | null;
  readonly filePath: string;
  readonly line: number | null;
  readonly originalLine: number | null;
  readonly body: string;
  readonly diffHunk: string;
  readonly commit: string | null;
  readonly inReplyTo: string | null;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** Null: not known. */
  readonly resolved: boolean | null;
}

export interface Loaded {
  readonly comments: readonly Comment[];
  readonly title: string | null;
  /** The pull request's head, and that of the folder Codex works in, where known. */
  readonly head: { readonly pullRequest: string | null; readonly folder: string | null };
  /** What the user should know, one sentence each. */
  readonly warnings: readonly string[];
}

/** A session of this pull request that did not end, and that Codex can continue. */
export interface InterruptedSession {
  readonly sidecar: string;
  readonly handle: string;
  readonly threadId: string;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** What stood in the way of its last turn and passes by itself. Absent: it was just interrupted. Untrusted. */
  readonly why?: string;
  /** When that ends, ISO 8601, UTC, where it is known. */
  readonly resetsAt?: string;
  /** What was approved for the session. Absent: nothing was. Untrusted. */
  readonly approvals?: readonly string[];
  /** `--keep-approvals`: those are approved again without asking. */
  readonly keepsApprovals?: true;
}

export interface TurnOrder {
  readonly comments: readonly Comment[];
  /** Null: a fresh conversation. */
  readonly resume: InterruptedSession | null;
}

export type TurnUpdate =
  /** The run is recorded and Codex is being started. */
  | { readonly type: "begun"; readonly handle: string; readonly resumed: boolean }
  | { readonly type: "event"; readonly event: EngineEvent }
  /** Codex waits for `Turn.answer`. */
  | { readonly type: "question"; readonly question: Question }
  /** Answered, by the user or by an approval kept from before, or given up. */
  | { readonly type: "settled"; readonly id: string; readonly decision: Decision | null };

export interface TurnResult {
  readonly status: "completed" | "interrupted" | "failed" | "cancelled";
  /** One sentence for people. */
  readonly reason: string;
  readonly handle: string;
  readonly exitCode: number;
  /** The conversation could not be continued, and why: nothing was sent, a fresh start may be offered. */
  readonly refused: string | null;
  /** For scripts: what kind of refusal it is, where that is known. */
  readonly refusedAs?: FaultCode;
  /** The session can go on when a person has said how: a fresh one is begun only if that is asked for. */
  readonly undecided?: true;
  /** The session stays open: it is offered again. */
  readonly open?: true;
  /** When the limit that ended the turn ends: ISO 8601, UTC, where it is known. */
  readonly resetsAt?: string;
  /** What Codex wrote to stderr last, where that may tell why it ended. Harmless and redacted. */
  readonly lastWords?: readonly string[];
}

/** One Codex turn at work. */
export interface Turn {
  /** Never rejects with anything but a Fault. */
  readonly done: Promise<TurnResult>;
  answer(id: string, decision: Decision): void;
  /** Asks Codex to stop; the session is offered again. */
  interrupt(): void;
  /** Ends it for good: the session is recorded as cancelled and not offered again. */
  discard(): void;
}

/** Everything that can be done with one pull request. */
export interface Desk {
  readonly pullRequest: PullRequest;
  /** With `fresh`, asks GitHub again instead of taking what is known. */
  load(fresh: boolean): Promise<Loaded>;
  /** Comments that are sent when none is selected: those of trusted authors, or all with `--include-all`. */
  trusts(comment: Comment): boolean;
  findInterrupted(): Promise<InterruptedSession | null>;
  /** Remembers that the user does not want it; it is not offered again. */
  decline(session: InterruptedSession): Promise<void>;
  begin(order: TurnOrder, update: (update: TurnUpdate) => void): Turn;
  /** Lines of the file around the comment, as the folder has them now; null: not there. */
  codeAround(comment: Comment, lines: number): Promise<readonly string[] | null>;
}
