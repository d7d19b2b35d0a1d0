/** The types of a review: the pull request, its comments, and a turn of Codex about them. */
import type { QuestionAnswer, EngineEvent, Question } from "../core/events.ts";
import type { FaultCode } from "../core/faults.ts";

export interface PullRequest {
  /** `github.com`, or the host of a GitHub Enterprise server. */
  readonly host: string;
  readonly owner: string;
  readonly repository: string;
  readonly number: number;
}

/** A review comment. All texts are untrusted and unchanged; they are made harmless where they are shown or sent. */
export interface ReviewComment {
  readonly id: string;
  readonly author: string;
  /** The author's association in GitHub's terms: OWNER, MEMBER, COLLABORATOR, CONTRIBUTOR, NONE, …. Null: unknown. */
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
  /** Null: unknown. */
  readonly resolved: boolean | null;
}

export interface LoadedComments {
  readonly comments: readonly ReviewComment[];
  readonly title: string | null;
  /** The heads of the pull request and of Codex's folder, if known. */
  readonly head: { readonly pullRequest: string | null; readonly folder: string | null };
  /** Facts that the user should know, one sentence each. */
  readonly warnings: readonly string[];
}

/** An unfinished session of this pull request that Codex can continue. */
export interface InterruptedSession {
  readonly sidecar: string;
  readonly handle: string;
  readonly threadId: string;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The temporary obstacle that ended its last turn. Absent: it was only interrupted. Untrusted. */
  readonly why?: string;
  /** When the obstacle ends, ISO 8601, UTC, if known. */
  readonly resetsAt?: string;
  /** The session's approvals. Absent: none. Untrusted. */
  readonly approvals?: readonly string[];
  /** `--keep-approvals`: approves those again without asking. */
  readonly keepsApprovals?: true;
}

export interface TurnOrder {
  readonly comments: readonly ReviewComment[];
  /** Null: a fresh conversation. */
  readonly resume: InterruptedSession | null;
}

export type TurnUpdate =
  /** The run is recorded and Codex is starting. */
  | { readonly type: "begun"; readonly handle: string; readonly resumed: boolean }
  | { readonly type: "event"; readonly event: EngineEvent }
  /** Codex waits for `Turn.answer`. */
  | { readonly type: "question"; readonly question: Question }
  /** Answered by the user or by a kept approval, or abandoned. */
  | { readonly type: "settled"; readonly id: string; readonly decision: QuestionAnswer | null };

export interface TurnResult {
  readonly status: "completed" | "interrupted" | "failed" | "cancelled";
  /** One sentence for the user. */
  readonly reason: string;
  readonly handle: string;
  readonly exitCode: number;
  /** Why the conversation could not be continued: nothing was sent, and a fresh start may be offered. */
  readonly refused: string | null;
  /** For scripts: the kind of refusal, if known. */
  readonly refusedAs?: FaultCode;
  /** The session can continue after a person decides how: a fresh one begins only on request. */
  readonly undecided?: true;
  /** The session stays open and is offered again. */
  readonly open?: true;
  /** When the limit that ended the turn ends: ISO 8601, UTC, if known. */
  readonly resetsAt?: string;
  /** Codex's last stderr lines, if they may explain its end. Harmless and redacted. */
  readonly lastWords?: readonly string[];
}

/** One running Codex turn. */
export interface ReviewTurn {
  /** Rejects only with a Fault. */
  readonly done: Promise<TurnResult>;
  answer(id: string, decision: QuestionAnswer): void;
  /** Asks Codex to stop; the session is offered again. */
  interrupt(): void;
  /** Ends it for good: the session is recorded as cancelled and not offered again. */
  discard(): void;
}

/** All operations on one pull request. */
export interface ReviewService {
  readonly pullRequest: PullRequest;
  /** `fresh` asks GitHub again instead of using cached data. */
  load(fresh: boolean): Promise<LoadedComments>;
  /** Comments to send without a selection: those of trusted authors, or all with `--include-all`. */
  trusts(comment: ReviewComment): boolean;
  findInterrupted(): Promise<InterruptedSession | null>;
  /** Records that the user declined it; it is not offered again. */
  decline(session: InterruptedSession): Promise<void>;
  begin(order: TurnOrder, update: (update: TurnUpdate) => void): ReviewTurn;
  /** The present lines of the file around the comment. Null: missing. */
  codeAround(comment: ReviewComment, lines: number): Promise<readonly string[] | null>;
}
