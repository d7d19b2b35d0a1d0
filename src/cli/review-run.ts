/** `reprise review --run`: sends the comments to Codex without a UI, for scripts and CI. */
import type { QuestionAnswer } from "../core/events.ts";
import { type FaultCode, FAULTS } from "../core/faults.ts";
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { untilText } from "../lib/until.ts";
import type {
  ReviewComment,
  ReviewService,
  InterruptedSession,
  ReviewTurn,
  TurnOptions,
  TurnResult,
} from "../reviews/reviews.ts";
import type { StopRequest } from "../run/run.ts";
import type { Context } from "./context.ts";
import { openView, type View } from "./live.ts";

export interface HeadlessOptions {
  readonly resume?: "auto" | "always" | "never";
  readonly json?: true;
  readonly quiet?: true;
}

interface Ready {
  readonly desk: ReviewService;
  readonly comments: readonly ReviewComment[];
  /** Null: no such session, or not wanted. */
  readonly session: InterruptedSession | null;
}

const SIGNALS: Readonly<Record<StopRequest, number>> = {
  interrupt: 130,
  terminate: 130,
  end: 130,
  SIGTERM: 143,
  SIGHUP: 129,
};

/** Codex's message may be long. */
const MAX_REASON = 2_000;

const MAX_WANTED = 200;
/** Requests to list one by one at the end. */
const MAX_NAMED = 10;

function untilIn(resetsAt: string | undefined, now: number): string {
  const at = Date.parse(resetsAt ?? "");
  return Number.isNaN(at) || at <= now ? "" : `, ${untilText(at, now)}`;
}

/** One line, with its full stop. */
function sentence(text: string): string {
  return harmlessLine(text, MAX_REASON).replace(/[^.!?]$/, "$&.");
}

type SignalListener = Parameters<NonNullable<TurnOptions["onSignal"]>>[0];

export class HeadlessReview implements Disposable {
  readonly #context: Context;
  readonly #options: HeadlessOptions;
  readonly #view: View;
  #turn: ReviewTurn | null = null;
  #signalled: SignalListener | null = null;
  #stopped: StopRequest | null = null;
  /** Codex's requests by question id, and which of them were declined. */
  readonly #wanted = new Map<string, string>();
  readonly #declined: string[] = [];
  #signalSeen: (request: StopRequest) => void = () => {};
  readonly #signal = new Promise<StopRequest>((resolve) => {
    this.#signalSeen = resolve;
  });

  constructor(context: Context, options: HeadlessOptions) {
    this.#context = context;
    this.#options = options;
    this.#view = openView(context, { ...options, readable: true, progress: "stderr" });
    this.#view.onStop((request) => this.#stop(request));
  }

  [Symbol.dispose](): void {
    this.#view.close();
  }

  /** For a turn, so that signals to Reprise reach it. */
  onSignal(listener: SignalListener): () => void {
    this.#signalled = listener;
    return () => {
      this.#signalled = null;
    };
  }

  /** Until Codex starts, a signal ends everything: nothing can be lost yet. */
  async run(open: () => Promise<ReviewService>): Promise<number> {
    const ready = await Promise.race([this.#prepare(open), this.#signal]);
    if (typeof ready === "string") {
      // Pending requests would keep the process alive.
      this.#context.abandonOutput();
      return this.#nothing("Stopped before Codex was started.", "interrupted", SIGNALS[ready]);
    }
    return this.#send(ready);
  }

  async #prepare(open: () => Promise<ReviewService>): Promise<Ready> {
    const desk = await open();
    const comments = await this.#choose(desk);
    const session = this.#options.resume === "never" ? null : await desk.findInterrupted();
    return { desk, comments, session };
  }

  async #send({ desk, comments, session }: Ready): Promise<number> {
    const when = this.#options.resume ?? "auto";
    if (session === null && when === "always") {
      return this.#refuse(
        "There is no interrupted session of this pull request to resume. --resume auto starts a fresh one.",
      );
    }
    if (comments.length === 0) return this.#uncommented(session, when);
    const result = await this.#work(desk, comments, session);
    if (result.refused === null) return this.#conclude(desk, result, session !== null);
    const why = `The session cannot be resumed: ${sentence(result.refused)}`;
    if (result.undecided === true)
      return this.#refuse(
        `${why} The session is kept. To start a new session instead, add: --resume never`,
        result.refusedAs,
      );
    // A fresh one would work in the same checkout.
    if (when === "always" || result.refusedAs === "run_busy") return this.#refuse(why, result.refusedAs);
    this.#context.log.warn(`${why} Reprise starts a new session.`);
    return this.#conclude(desk, await this.#work(desk, comments, null), false);
  }

  /** An interrupted session stays interrupted, which is not a success for a user who wanted it resumed. */
  #uncommented(session: InterruptedSession | null, when: "auto" | "always" | "never"): number {
    const none = "There are no comments for Codex";
    if (session === null) return this.#nothing(`${none}.`, "nothing", 0);
    const { handle } = session;
    const reason = `${none}, so the interrupted session of run ${handle} was not resumed: \`reprise resume ${handle}\` goes on with it.`;
    return when === "always" ? this.#refuse(reason, "message_invalid") : this.#nothing(reason, "nothing", 0);
  }

  async #choose(desk: ReviewService): Promise<readonly ReviewComment[]> {
    const { comments, warnings } = await desk.load(false);
    for (const warning of warnings) this.#context.log.warn(warning);
    const chosen = comments.filter((comment) => desk.trusts(comment));
    const others = comments.length - chosen.length;
    if (others > 0) {
      this.#say(
        `left out: ${plural(others, "comment")} of authors who are not owners, members or collaborators (--include-all adds them)`,
      );
    }
    return chosen;
  }

  async #work(
    desk: ReviewService,
    comments: readonly ReviewComment[],
    session: InterruptedSession | null,
  ): Promise<TurnResult> {
    this.#say(`${plural(comments.length, "comment")} for Codex`);
    let line = 0;
    this.#turn = desk.begin({ comments, resume: session }, (update) => {
      if (update.type === "event")
        this.#view.events([{ event: update.event, stream: "stdout", line: (line += 1) }]);
      else if (update.type === "begun") {
        // Not earlier: a resume may be refused.
        if (session !== null) this.#sayResuming(session);
        this.#say(`run ${update.handle}`);
      } else if (update.type === "question") {
        const what = harmlessLine(update.question.what.replaceAll("\n", ", "), MAX_WANTED);
        this.#wanted.set(update.question.id, what);
        this.#say(`Codex asks for: ${what}`);
      } else if (update.decision !== null) this.#answered(update.id, update.decision);
    });
    if (this.#stopped !== null) this.#stop(this.#stopped);
    try {
      return await this.#turn.done;
    } finally {
      this.#turn = null;
    }
  }

  #sayResuming(session: InterruptedSession): void {
    const now = Date.now();
    const { approvals = [], handle, keepsApprovals, resetsAt, startedAt, why } = session;
    this.#say(`Interrupted session from ${localTime(startedAt, now)}, run ${handle}: resuming it`);
    if (why !== undefined)
      this.#say(`it ended because ${harmlessLine(why, MAX_REASON)}${untilIn(resetsAt, now)}`);
    if (approvals.length === 0) return;
    const then = keepsApprovals === true ? "given again" : "not given again without --keep-approvals";
    const list = approvals.map((what) => harmlessLine(what.replaceAll("\n", ", "), MAX_WANTED)).join("; ");
    this.#say(`${plural(approvals.length, "stored approval")}, ${then}: ${list}`);
  }

  #answered(id: string, decision: QuestionAnswer): void {
    this.#say(`answered: ${decision}`);
    if (decision === "decline") this.#declined.push(this.#wanted.get(id) ?? "?");
    this.#wanted.delete(id);
  }

  #stop(request: StopRequest): void {
    this.#stopped ??= request;
    this.#signalSeen(request);
    if (request === "SIGTERM" || request === "SIGHUP") this.#signalled?.(request);
    else this.#turn?.interrupt();
  }

  async #conclude(desk: ReviewService, result: TurnResult, resumed: boolean): Promise<number> {
    const { status, reason, handle, exitCode, resetsAt, lastWords = [] } = result;
    const declined = this.#declined.length;
    // Ends the line of the answer.
    this.#view.close();
    if (this.#options.json === true) {
      this.#context.printJson({
        ok: status === "completed",
        status,
        reason,
        handle,
        resumed,
        exitCode,
        declined,
        ...(resetsAt === undefined ? {} : { resetsAt }),
        ...(lastWords.length === 0 ? {} : { lastWords }),
        text: this.#view.text(),
      });
    } else {
      for (const line of lastWords) this.#say(`stderr: ${harmlessLine(line, MAX_REASON)}`);
      if (declined > 0) {
        const list = this.#declined.slice(0, MAX_NAMED).join("; ");
        const more = declined > MAX_NAMED ? `; ${declined - MAX_NAMED} more` : "";
        this.#say(`declined, as nobody can be asked: ${plural(declined, "request")}: ${list}${more}`);
      }
      this.#say(`${harmlessLine(reason, MAX_REASON)}${untilIn(resetsAt, Date.now())}`);
      if (status !== "completed") {
        const offered = (await desk.findInterrupted())?.handle === handle;
        this.#say(
          offered
            ? `the session is kept: the same command resumes it, so does \`reprise resume ${handle}\``
            : `the same command begins a fresh session; \`reprise resume ${handle}\` goes on with this one`,
        );
      }
    }
    return exitCode;
  }

  /** Codex was not started. */
  #nothing(reason: string, status: TurnResult["status"] | "nothing", exitCode: number): number {
    if (this.#options.json === true) {
      const ok = exitCode === 0;
      const nothing = { handle: null, resumed: false, exitCode, declined: 0, text: "" };
      this.#context.printJson({ ok, status, reason, ...nothing });
    } else this.#say(reason);
    return exitCode;
  }

  #refuse(reason: string, code: FaultCode = "session_unknown"): number {
    if (this.#options.json === true) {
      this.#context.printJson({
        ok: false,
        error: { code, message: reason, facts: { retryable: FAULTS[code].retryable } },
      });
    } else this.#context.log.warn(reason);
    return 1;
  }

  #say(text: string): void {
    if (this.#options.json === undefined && this.#options.quiet === undefined) this.#context.log.info(text);
  }
}
