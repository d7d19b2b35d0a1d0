/**
 * The records of a turn: its session's sidecar and transcript, from before Codex starts to the turn's end.
 *
 * Writes nothing for a turn that never began, so a resume that is refused before the start changes nothing.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../core/deps.ts";
import type { QuestionAnswer, FileChange, Outcome, Question } from "../core/events.ts";
import type { Redact } from "../lib/secrets.ts";
import type { InterruptedSession, PullRequest } from "./review.ts";
import { createSession, openSession, type SessionFile, type Sidecar } from "./sidecar.ts";
import { openTranscript, type TranscriptRemark, RESUMED, type Transcript } from "./transcript.ts";

export interface TurnRecorderOptions {
  readonly directory: string;
  readonly pullRequest: PullRequest;
  readonly clock: Clock;
  /** Null: a new session. */
  readonly resume: InterruptedSession | null;
  readonly redact: Redact;
}

type Approval = Extract<TranscriptRemark, { type: "approval" }>;

export class TurnRecorder implements Disposable {
  readonly #options: TurnRecorderOptions;
  #session: SessionFile | null;
  #transcript: Transcript | null = null;
  #begun = false;

  /** Refuses an invalid sidecar, as `openSession` does. */
  constructor(options: TurnRecorderOptions) {
    this.#options = options;
    this.#session = options.resume === null ? null : openSession(options.resume.sidecar);
  }

  /** Marks of comments that Codex got earlier in this conversation. Null: a fresh one. */
  get known(): ReadonlySet<string> | null {
    return this.#session === null ? null : new Set(this.#session.record.sent_comments);
  }

  get begun(): boolean {
    return this.#begun;
  }

  /** The run has this handle, and Codex is about to start for the attempt with this number. */
  begin(handle: string, attempt: number): void {
    const { directory, pullRequest, clock, resume } = this.#options;
    this.#begun = true;
    this.#session ??= createSession(directory, { pullRequest, handle, attempt, now: clock.now() });
    const transcript = openTranscript(this.#session.transcript, clock);
    this.#transcript = transcript;
    if (resume === null) return;
    const { threadId } = resume;
    transcript.remark({ type: "session_resumed", text: RESUMED, thread_id: threadId, handle });
    const ended = { finished_at: null, reason: null, resets_at: null };
    this.#session.update({ status: "running", ...ended, attempts: attempt, thread_id: threadId });
  }

  line(direction: "in" | "out", line: string): void {
    this.#transcript?.line(direction, line);
  }

  note(text: string): void {
    this.#transcript?.remark({ type: "note", text });
  }

  /** On disk before Codex gets the comments (I2). The run judges an id that differs from the known one. */
  named(thread: string): void {
    if (this.#session?.record.thread_id === null) this.#session.update({ thread_id: thread });
  }

  sent(marks: readonly string[]): void {
    this.#session?.noteSent(marks);
  }

  isKept(question: Question): boolean {
    const key = keyOf(question);
    return this.#session?.record.approvals.some((kept) => kept.key === key) ?? false;
  }

  /** On disk before Codex gets it. */
  answered(question: Question, decision: QuestionAnswer, by: Approval["by"]): void {
    const { id, about, what } = question;
    const key = keyOf(question);
    const { redact } = this.#options;
    const changes =
      question.changes === undefined
        ? {}
        : { changes: question.changes.map((change) => storable(change, redact)) };
    this.#transcript?.remark({ type: "approval", id, key, about, what, ...changes, decision, by });
    if (decision !== "accept_for_session") return;
    this.#session?.keepApproval({ key, about, what: redact(what), at: this.#now() });
  }

  /** Without an outcome: there never was an attempt. */
  end(status: Exclude<Sidecar["status"], "running">, outcome: Outcome | null): void {
    try {
      this.#session?.end(status, this.#now(), outcome);
    } finally {
      this[Symbol.dispose]();
    }
  }

  [Symbol.dispose](): void {
    this.#transcript?.close();
  }

  #now(): string {
    return new Date(this.#options.clock.now()).toISOString();
  }
}

/** Of one file's diff, in an answer. */
const MAX_DIFF = 100_000;

function storable({ what, diff }: FileChange, redact: Redact): FileChange {
  const text = redact(diff);
  const left = text.length - MAX_DIFF;
  return { what, diff: left <= 0 ? text : `${text.slice(0, MAX_DIFF)}\n… ${left} more characters` };
}

/** An approval may be long and contain secrets, so its digest is the key. */
function keyOf({ key }: Question): string {
  return createHash("sha256").update(key).digest("hex");
}
