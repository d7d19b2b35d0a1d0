/**
 * One turn of Codex on a pull request's comments: a new run or the next attempt of a run, as a conversation, together
 * with the session's sidecar and transcript.
 *
 * The code that starts Codex loads when a turn begins: the first frame of a UI does not need it.
 */
import { Latch } from "../lib/latch.ts";
import type { AttemptResult, Deps, Limits, ResumeRequest, StopRequest, Watch } from "../run/run.ts";
import { dirname } from "node:path";
import type { QuestionAnswer, Outcome, Question, SeenEvent } from "../core/events.ts";
import { exitCodeOf, Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { TurnPlace } from "./review-service.ts";
import { subjectOf } from "./pull-request.ts";
import type { PullRequest, ReviewTurn, TurnOrder, TurnResult, TurnUpdate } from "./review.ts";
import { GONE, resultOf, sessionStatus, STORAGE, UNCONTINUABLE } from "./turn-result.ts";
import type { TurnRecorder } from "./turn-recorder.ts";

export interface TurnOptions {
  readonly pullRequest: PullRequest;
  /** Null: Codex's default, or the conversation's model. */
  readonly model: string | null;
  /** Null: read-only, or the conversation's sandbox. */
  readonly sandbox: string | null;
  readonly approval: NonNullable<ResumeRequest["dialogue"]>["approval"];
  /** Native options of Codex for this turn. */
  readonly native: readonly string[];
  readonly env: readonly (readonly [string, string])[];
  readonly trustCwd: boolean;
  readonly limits: Limits;
  /** Approvals from the session's earlier processes hold again without asking. */
  readonly keepApprovals: boolean;
  /** A person answers through `Turn.answer`. False: Codex's questions are declined. */
  readonly attended: boolean;
  /**
   * Signals to Reprise; SIGINT, which `reprise stop` also sends, interrupts. Returns a function that stops listening.
   */
  readonly onSignal?: (listener: (signal: "SIGINT" | "SIGTERM" | "SIGHUP") => void) => () => void;
}

type Update = (update: TurnUpdate) => void;

/** How long a discarded turn may take to end in order. */
const DISCARD_MS = 3_000;

/** The implementation of `ReviewServiceOptions.begin`. */
export function beginTurn(deps: Deps, options: TurnOptions) {
  return (order: TurnOrder, update: Update, place: TurnPlace): ReviewTurn =>
    new LiveTurn(deps, options, { order, update, place });
}

interface TurnContext {
  readonly order: TurnOrder;
  readonly update: Update;
  readonly place: TurnPlace;
}

interface SentPrompt {
  /** Of the comments in it (`markOf`). */
  readonly marks: readonly string[];
  /** Sentences about parts of the comments that it lacks. */
  readonly omissions: readonly string[];
}

interface OpenQuestion {
  readonly question: Question;
  resolve(decision: QuestionAnswer): void;
  reject(fault: Fault): void;
}

class LiveTurn implements ReviewTurn {
  readonly done: Promise<TurnResult>;
  readonly #deps: Deps;
  readonly #options: TurnOptions;
  readonly #context: TurnContext;
  readonly #open = new Map<string, OpenQuestion>();
  #recorder: TurnRecorder | null = null;
  #handle: string;
  /** Codex has received the comments. */
  #started = false;
  #discarded = false;
  #asked = false;
  /** A stop was requested. */
  #stopped = false;
  readonly #stops = new Latch<StopRequest>();

  constructor(deps: Deps, options: TurnOptions, context: TurnContext) {
    this.#deps = deps;
    this.#options = options;
    this.#context = context;
    this.#handle = context.order.resume?.handle ?? "";
    this.done = this.#work();
  }

  answer(id: string, decision: QuestionAnswer): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    try {
      this.#answered(open.question, decision, "user");
      open.resolve(decision);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      open.reject(error);
    }
  }

  /** The second call ends Codex without asking. */
  interrupt(): void {
    this.#stop(this.#asked ? "end" : "interrupt");
    this.#asked = true;
  }

  discard(): void {
    this.#discarded = true;
    this.interrupt();
    setTimeout(() => this.#stop("end"), DISCARD_MS).unref();
  }

  async #work(): Promise<TurnResult> {
    const unlisten = this.#options.onSignal?.((signal) => {
      if (signal === "SIGINT") this.interrupt();
      else this.#stop(signal);
    });
    try {
      return await this.#run();
    } finally {
      unlisten?.();
      this.#stops.forget();
      for (const id of [...this.#open.keys()]) this.#settled(id);
    }
  }

  async #run(): Promise<TurnResult> {
    let result: AttemptResult;
    try {
      result = await this.#attempt();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return this.#refusedBy(error);
    }
    const { resume } = this.#context.order;
    const facts = {
      handle: this.#handle,
      resumed: resume !== null,
      started: this.#started,
      discarded: this.#discarded,
    };
    const ended = resultOf(result, facts);
    const { outcome } = result.attempt;
    const { isPassing } = await import("./sidecar.ts");
    const closed =
      isPassing(outcome) && ended.status === "failed" ? "interrupted" : sessionStatus(ended, facts, outcome);
    this.#close(closed, outcome);
    await result.finish();
    const lastWords = this.#isUnexplained(ended, outcome) ? (result.attempt.lastWords ?? []) : [];
    const isOpen = closed === "interrupted" && ended.refused === null && result.run.session.value !== null;
    return {
      ...ended,
      ...(isOpen ? { open: true as const } : {}),
      ...(lastWords.length === 0 ? {} : { lastWords }),
    };
  }

  async #attempt(): Promise<AttemptResult> {
    const { order, place } = this.#context;
    const { comments, resume } = order;
    if (comments.length === 0) throw new Fault("usage", "There are no comments to send to Codex.");
    const [
      { RESUME_DEFAULTS, resumeRun, startRun },
      { ownRules },
      { redactorFor, withoutRepository },
      { composePrompt, markOf, omissionsIn },
      { TurnRecorder: Opened },
      { reviewsDirectory },
      { soleTurn },
    ] = await Promise.all([
      import("../run/run.ts"),
      import("../run/engine-access.ts"),
      import("../run/engine-setup.ts"),
      import("./prompt.ts"),
      import("./turn-recorder.ts"),
      import("./transcript.ts"),
      import("./folder.ts"),
    ]);
    if (resume === null) this.#assertSandbox(ownRules(this.#deps, "codex"));
    const { pullRequest } = this.#options;
    const cwd = resume === null ? place.cwd : await this.#openPlace(resume.handle);
    using _sole = await soleTurn(this.#deps, { cwd, pullRequest, handle: resume?.handle ?? null });
    const { clock, state } = this.#deps;
    const redact = redactorFor(this.#deps.env, this.#options.env);
    const directory = reviewsDirectory(state);
    const recorder = new Opened({ directory, pullRequest, clock, resume, redact });
    this.#recorder = recorder;
    const nonce = this.#deps.newSessionId().replaceAll("-", "");
    const prompt = composePrompt({ pullRequest, title: place.title, comments, nonce, known: recorder.known });
    const watch = this.#watch(recorder, { marks: prompt.sent.map(markOf), omissions: omissionsIn(prompt) });
    const shared = { ...this.#shared(), message: prompt.text };
    // Codex works in this clone, whatever repository the environment names.
    const deps = { ...this.#deps, env: withoutRepository(this.#deps.env) };
    if (resume !== null) {
      const request = { ...RESUME_DEFAULTS, ...shared, want: "resume", selector: resume.handle } as const;
      return await resumeRun(deps, request, watch);
    }
    return await startRun(
      deps,
      {
        ...shared,
        engine: "codex",
        cwd: place.cwd,
        cwdGiven: true,
        isolate: null,
        runDir: null,
        name: null,
        subject: subjectOf(pullRequest),
        escrow: true,
      },
      watch,
    );
  }

  /**
   * The directory to continue in. Another process may have continued the session since the offer, and Codex must not
   * hear of an interruption that is over.
   */
  async #openPlace(handle: string): Promise<string> {
    const { selectRun } = await import("../run/select.ts");
    const { status, cwd } = await selectRun(this.#deps, handle);
    if (status !== "completed") return cwd;
    throw new Fault(
      "session_unknown",
      `Run ${handle} was completed meanwhile, so it is not interrupted any more.`,
      {
        facts: { handle },
      },
    );
  }

  /** The review's sandbox is a default, so it must not override rules that the user gave Codex. */
  #assertSandbox(rules: string | null): void {
    if (rules === null || this.#options.sandbox !== null) return;
    throw new Fault(
      "engine_cannot",
      `Codex has the setting ${rules}, which the sandbox of a review switches off. To review without it, add: --sandbox read-only`,
      { facts: { rules } },
    );
  }

  #shared() {
    const { approval, env, limits, model, native, trustCwd } = this.#options;
    // Recorded with the run, so that `reprise resume` grants no more than this turn.
    const { order, place } = this.#context;
    const sandbox = this.#options.sandbox ?? (order.resume === null ? "read-only" : null);
    const distrust = order.resume === null && !trustCwd;
    return {
      mode: "pipe",
      limits,
      terminal: null,
      native: [
        ...(model === null ? [] : ["-m", model]),
        ...(sandbox === null ? [] : ["-s", sandbox]),
        ...native,
        // After the user's options: if a setting is given twice, Codex uses the last one.
        ...(distrust ? ["-c", untrustedFolders(place.cwd)] : []),
      ],
      env,
      trustCwd,
      dialogue: { approval },
    } as const;
  }

  #watch(recorder: TurnRecorder, { marks, omissions }: SentPrompt): Watch {
    return {
      raw: () => undefined,
      status() {},
      live() {},
      mute() {},
      onStop: (listener) => this.#stops.listen(listener),
      recorded: (run, attempt) => this.#recorded(recorder, { run, attempt, omissions }),
      wire: (direction, line) => recorder.line(direction, line),
      events: (seen) => this.#events(recorder, seen, marks),
      ask: (question) => this.#ask(recorder, question),
      settled: (id) => this.#settled(id),
    };
  }

  #recorded(
    recorder: TurnRecorder,
    { run, attempt, omissions }: { run: RunRecord; attempt: AttemptRecord; omissions: readonly string[] },
  ): void {
    const { order, place, update } = this.#context;
    this.#handle = run.handle;
    recorder.begin(run.handle, attempt.n);
    update({ type: "begun", handle: run.handle, resumed: order.resume !== null });
    const elsewhere =
      run.cwd === place.cwd ? [] : [`The conversation continues in ${run.cwd}, where it began.`];
    const own = [...elsewhere, ...omissions];
    for (const text of [...attempt.diagnostics, ...own]) {
      recorder.note(text);
      if (this.#options.attended) update({ type: "event", event: { type: "notice", message: text } });
    }
    // The run has logged the other warnings. A script that reads only the result needs them as well.
    if (!this.#options.attended) for (const text of own) this.#deps.log.warn(text);
  }

  #events(recorder: TurnRecorder, seen: readonly SeenEvent[], marks: readonly string[]): void {
    for (const { event } of seen) {
      if (event.type === "session") recorder.named(event.session);
      if (event.type === "turn_started") {
        this.#started = true;
        recorder.sent(marks);
      }
      this.#context.update({ type: "event", event });
    }
  }

  async #ask(recorder: TurnRecorder, question: Question): Promise<QuestionAnswer> {
    this.#context.update({ type: "question", question });
    if (this.#options.keepApprovals && recorder.isKept(question)) {
      return this.#answered(question, "accept", "kept");
    }
    if (!this.#options.attended) return this.#answered(question, "decline", "policy");
    return new Promise((resolve, reject) => this.#open.set(question.id, { question, resolve, reject }));
  }

  /** In the transcript before Codex gets it. */
  #answered(question: Question, decision: QuestionAnswer, by: "user" | "kept" | "policy"): QuestionAnswer {
    this.#recorder?.answered(question, decision, by);
    this.#context.update({ type: "settled", id: question.id, decision });
    return decision;
  }

  /** The question no longer needs an answer. */
  #settled(id: string): void {
    if (this.#open.delete(id)) this.#context.update({ type: "settled", id, decision: null });
  }

  #stop(request: StopRequest): void {
    this.#stopped = true;
    this.#stops.send(request);
  }

  /** Codex ended on its own, and no message explains why. */
  #isUnexplained({ status }: TurnResult, outcome: Outcome | null): boolean {
    return (
      (status === "failed" || status === "interrupted") && !this.#stopped && outcome?.trouble === undefined
    );
  }

  /** A refused resume is a result; the caller handles any other fault. */
  async #refusedBy(fault: Fault): Promise<TurnResult> {
    const { resume } = this.#context.order;
    const begun = this.#recorder?.begun ?? false;
    if (begun) this.#close(resume === null && !STORAGE.has(fault.code) ? "failed" : "interrupted", null);
    if (resume === null || begun || !UNCONTINUABLE.has(fault.code)) throw fault;
    const { isUndecided } = await import("../run/inspect.ts");
    const undecided = isUndecided(fault);
    // The user must not be asked again about a conversation that no longer exists.
    if (GONE.has(fault.code) && !undecided) this.#close("failed", null);
    return {
      status: "failed",
      reason: fault.message,
      handle: resume.handle,
      exitCode: exitCodeOf(fault),
      refused: fault.message,
      refusedAs: fault.code,
      ...(undecided ? { undecided: true as const } : {}),
    };
  }

  /** The run's end is on disk: readers understand a sidecar that says `running` for a run that is over. */
  #close(status: TurnResult["status"], outcome: Outcome | null): void {
    try {
      this.#recorder?.end(status, outcome);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#deps.log.warn(`the end of the session was not recorded: ${error.message}`);
    }
  }
}

/**
 * The folder has untrusted content, and in a trusted folder Codex reads settings from it, which may name programs that
 * it starts outside the sandbox without asking. With a writable sandbox it would trust the folder on its own,
 * permanently.
 */
function untrustedFolders(cwd: string): string {
  const folders: string[] = [];
  for (let at = cwd; at !== dirname(at); at = dirname(at)) folders.push(at);
  folders.push("/");
  const entries = folders.map((folder) => `${JSON.stringify(folder)}={trust_level="untrusted"}`);
  return `projects={${entries.join(",")}}`;
}
