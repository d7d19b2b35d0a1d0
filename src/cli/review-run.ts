/** `reprise review --run`: the comments go to Codex without a UI, for scripts and CI. */
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Comment, Desk, InterruptedSession, Turn, TurnOptions, TurnResult } from "../reviews/reviews.ts";
import type { StopRequest } from "../run/run.ts";
import type { Context } from "./context.ts";
import { openView, type View } from "./live.ts";
import { plural } from "./words.ts";

export interface HeadlessOptions {
  readonly resume?: "auto" | "always" | "never";
  readonly json?: true;
  readonly quiet?: true;
}

type SignalListener = Parameters<NonNullable<TurnOptions["onSignal"]>>[0];

export class HeadlessReview implements Disposable {
  readonly #context: Context;
  readonly #options: HeadlessOptions;
  readonly #view: View;
  #turn: Turn | null = null;
  #signalled: SignalListener | null = null;
  #stopped: StopRequest | null = null;

  constructor(context: Context, options: HeadlessOptions) {
    this.#context = context;
    this.#options = options;
    this.#view = openView(context, { ...options, readable: true });
    this.#view.onStop((request) => this.#stop(request));
  }

  [Symbol.dispose](): void {
    this.#view.close();
  }

  /** What a turn is given, so that a signal to Reprise reaches it. */
  onSignal(listener: SignalListener): () => void {
    this.#signalled = listener;
    return () => {
      this.#signalled = null;
    };
  }

  async run(desk: Desk): Promise<number> {
    const when = this.#options.resume ?? "auto";
    const comments = await this.#choose(desk);
    const session = when === "never" ? null : await desk.findInterrupted();
    if (session === null && when === "always") {
      return this.#refuse(
        "There is no interrupted session of this pull request to resume. --resume auto starts a fresh one.",
      );
    }
    if (comments.length === 0) return this.#nothing();
    const result = await this.#work(desk, comments, session);
    if (result.refused === null) return this.#conclude(desk, result, session !== null);
    if (when === "always") return this.#refuse(`The session cannot be resumed: ${result.refused}`);
    this.#context.log.warn(`The session cannot be resumed: ${result.refused} A fresh one is started.`);
    return this.#conclude(desk, await this.#work(desk, comments, null), false);
  }

  async #choose(desk: Desk): Promise<readonly Comment[]> {
    const { comments, warnings } = await desk.load(false);
    for (const warning of warnings) this.#context.log.warn(warning);
    const chosen = comments.filter((comment) => desk.trusts(comment));
    const others = comments.length - chosen.length;
    if (others > 0) {
      this.#say(
        `left out: ${plural(others, "comment")} of authors who are no owner, member or collaborator (--include-all adds them)`,
      );
    }
    return chosen;
  }

  async #work(
    desk: Desk,
    comments: readonly Comment[],
    session: InterruptedSession | null,
  ): Promise<TurnResult> {
    if (session !== null)
      this.#say(
        `Interrupted session from ${localTime(session.startedAt, Date.now())}, run ${session.handle}: resuming it`,
      );
    this.#say(`${plural(comments.length, "comment")} for Codex`);
    let line = 0;
    this.#turn = desk.begin({ comments, resume: session }, (update) => {
      if (update.type === "event")
        this.#view.events([{ event: update.event, stream: "stdout", line: (line += 1) }]);
      else if (update.type === "begun") this.#say(`run ${update.handle}`);
      else if (update.type === "question")
        this.#say(`Codex asks for: ${harmlessLine(update.question.what, 200)}`);
      else if (update.decision !== null) this.#say(`answered: ${update.decision}`);
    });
    if (this.#stopped !== null) this.#stop(this.#stopped);
    try {
      return await this.#turn.done;
    } finally {
      this.#turn = null;
    }
  }

  #stop(request: StopRequest): void {
    this.#stopped ??= request;
    if (request === "interrupt" || request === "end") this.#turn?.interrupt();
    else this.#signalled?.(request);
  }

  async #conclude(desk: Desk, result: TurnResult, resumed: boolean): Promise<number> {
    const { status, reason, handle, exitCode } = result;
    // Ends the line that the answer stands on.
    this.#view.close();
    if (this.#options.json === true) {
      this.#context.printJson({
        ok: status === "completed",
        status,
        reason,
        handle,
        resumed,
        exitCode,
        text: this.#view.text(),
      });
    } else {
      this.#say(reason);
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

  #nothing(): number {
    const reason = "There are no comments for Codex.";
    if (this.#options.json === true) {
      this.#context.printJson({
        ok: true,
        status: "completed",
        reason,
        handle: null,
        resumed: false,
        exitCode: 0,
        text: "",
      });
    } else this.#say(reason);
    return 0;
  }

  #refuse(reason: string): number {
    if (this.#options.json === true) {
      this.#context.printJson({
        ok: false,
        error: { code: "session_unknown", message: reason, facts: { retryable: false } },
      });
    } else this.#context.log.warn(reason);
    return 1;
  }

  #say(text: string): void {
    if (this.#options.json === undefined && this.#options.quiet === undefined) this.#context.log.info(text);
  }
}
