/**
 * One turn of the conversation about an issue: started, resumed or begun afresh where the work is. What is seen of it
 * goes to the issue's progress at once; what it means for the issue is not decided here.
 */
import type { DeniedCall, Outcome } from "../core/events.ts";
import { Fault, type FaultCode } from "../core/faults.ts";
import { type AttemptResult, RESUME_DEFAULTS, resumeRun, startRun, type Watch } from "../run/run.ts";
import { tellsTools } from "../run/engine-access.ts";
import { firstPrompt, type SentIssue, sentOf } from "./prompt.ts";
import { repositorySlug } from "./repository.ts";
import type { IssueProgress } from "./issue-progress.ts";

export type TurnRequest =
  | { readonly do: "start" }
  | { readonly do: "resume" | "fresh"; readonly handle: string; readonly message: () => string };

export interface IssueTurn {
  readonly outcome: Outcome;
  /** Tools that the agent began to use. */
  readonly toolCalls: number;
  /** Those that the engine refused, as far as its output tells. */
  readonly denied: readonly DeniedCall[];
}

/** Faults that say of the conversation what an engine would say. A damaged one is a person's to decide about. */
const LOST: readonly FaultCode[] = [
  "session_lost",
  "session_unknown",
  "cwd_missing",
  "run_dir_missing",
  "handle_unknown",
];
const BUSY: readonly FaultCode[] = ["session_busy", "run_busy"];

/** A conversation that is not there any more is an outcome of the turn. */
export async function takeTurn(progress: IssueProgress, ask: TurnRequest): Promise<IssueTurn> {
  const words = sentOf(progress.issue);
  const seen = new TurnObserver(progress, words);
  try {
    const result = await (ask.do === "start"
      ? startTurn(progress, seen.watch)
      : resumeTurn(progress, ask, seen.watch));
    progress.run = result.run;
    progress.attempt = result.attempt.n;
    await result.finish();
    const none = { result: "interrupted", reason: "the attempt has no outcome" } as const;
    const outcome = result.attempt.outcome ?? none;
    progress.turnCompleted = outcome.result === "completed";
    const isHeard = outcome.result === "completed" || seen.toolCalls > 0;
    progress.sent = sentAfter(result, {
      words,
      isHeard,
      known: seen.toolCalls > 0 ? seen.before : progress.sent,
    });
    if (isHeard && outcome.result !== "diverged") progress.reopened = false;
    progress.note({ status: "running", session_id: result.run.session.value, tokens: result.attempt.tokens });
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied };
  } catch (error) {
    const outcome = error instanceof Fault && ask.do !== "start" ? outcomeOfFault(error) : null;
    if (outcome === null) throw error;
    const { code } = error as Fault;
    // The place of the work is gone with the run.
    if (LOST.includes(code) && code !== "session_lost") progress.handle = null;
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied };
  } finally {
    seen.forget();
  }
}

/**
 * What is known after a turn of what the run's conversation has heard. A message whose turn never got anywhere may not be in
 * it, and one that another conversation answered is not: both are said again.
 */
function sentAfter(
  { run, attempt: { n, outcome } }: AttemptResult,
  turn: { readonly words: SentIssue; readonly isHeard: boolean; readonly known: SentIssue | null },
): SentIssue | null {
  const { words, isHeard, known } = turn;
  if (outcome?.result === "diverged") return known;
  const session = run.session.value;
  if (isHeard) return { ...words, session, attempt: n };
  return known?.session === session && known !== null ? { ...known, attempt: n } : known;
}

/** Null: it is a fault and nothing else. */
function outcomeOfFault({ code, message }: Fault): Outcome | null {
  const kind = LOST.includes(code) ? "session_lost" : BUSY.includes(code) ? "session_busy" : null;
  if (kind === null) return null;
  return { result: "failed", reason: message, trouble: { kind, message: message.replace(/\.$/, "") } };
}

async function startTurn(progress: IssueProgress, watch: Watch): Promise<AttemptResult> {
  const { deps, root, options } = progress.context;
  const isolated = options.isolate === "worktree";
  const runId = progress.runId ?? progress.nameRun();
  // Another start of the same issue is another run.
  progress.runId = null;
  progress.begunNow = true;
  // Sent, and not yet known to be heard: the agent may be gone before its engine has kept it.
  progress.sent = sentOf(progress.issue);
  if (progress.context.batch.issue(progress.issue.id)?.agent_id !== runId)
    await progress.save({ status: "running", agent_id: runId, gate: null });
  return startRun(
    deps,
    {
      ...attemptOptions(progress),
      engine: options.engine,
      message: firstPrompt(progress.promptFacts(), progress.before === null ? null : progress.baseline),
      native: newOptions(progress),
      env: [],
      cwd: root,
      cwdGiven: true,
      isolate: isolated ? "worktree" : null,
      ...(isolated && progress.branch !== null ? { branch: progress.branch } : {}),
      ...(isolated && progress.baseline !== null ? { from: progress.before ?? progress.baseline } : {}),
      runDir: null,
      name: null,
      subject: `issue:${repositorySlug(root)}#${progress.issue.id}`,
      trustCwd: options.trustCwd,
      escrow: true,
      runId,
    },
    watch,
  );
}

async function resumeTurn(
  progress: IssueProgress,
  { do: want, handle, message }: Exclude<TurnRequest, { do: "start" }>,
  watch: Watch,
): Promise<AttemptResult> {
  // What the gate said is about the work as it was.
  const words = message();
  if (want === "fresh") progress.sent = sentOf(progress.issue);
  await progress.save({ status: "running", gate: null });
  return resumeRun(
    progress.context.deps,
    {
      ...attemptOptions(progress),
      ...RESUME_DEFAULTS,
      selector: handle,
      want,
      message: words,
      // What it began with is the run's own.
      native: progress.begunNow ? [] : progress.over,
      anew: newOptions(progress),
      trustCwd: progress.context.options.trustCwd,
    },
    watch,
  );
}

/** Of a run that begins in this batch. */
function newOptions({ context: { options } }: IssueProgress): readonly string[] {
  return [...options.access.options, ...options.native];
}

function attemptOptions({ context }: IssueProgress) {
  return { mode: "auto", limits: context.options.limits, terminal: null } as const;
}

/** What is seen of a live attempt. Session ids go to the metadata when they are first seen. */
class TurnObserver {
  toolCalls = 0;
  readonly denied: DeniedCall[] = [];
  readonly watch: Watch;
  readonly #progress: IssueProgress;
  #session: string | null = null;
  readonly #open = new Set<string>();
  readonly #words: SentIssue;
  /** What was known before this turn was heard. */
  before: SentIssue | null = null;
  #forget = (): void => {};

  constructor(progress: IssueProgress, words: SentIssue) {
    this.#progress = progress;
    this.#words = words;
    this.watch = {
      raw: () => undefined,
      events: (events) => {
        for (const { event } of events) {
          if (event.type === "session") this.#saw(event.session);
          else if (event.type === "tool") this.#sawTool(event);
          else if (event.type === "notice" && event.denied !== undefined) this.#sawDenied(event.denied);
          else if (event.type === "usage") progress.tokens = event.tokens;
        }
      },
      status: ({ attempt, tools }) => {
        progress.attempt = attempt;
        progress.show("running", tools.map(({ name }) => name).join(", "));
      },
      live: () => {},
      mute: () => {},
      onStop: (listener) => {
        this.#forget = progress.stopControl.onStop(listener);
      },
      recorded: (run, attempt) => {
        progress.attempt = attempt.n;
        progress.run = run;
        if (!tellsTools(progress.context.deps, run.agentName, attempt.args)) progress.tools = null;
        progress.note({ status: "running", attempts: attempt.n, agent_id: run.runId });
        this.#saw(run.session.value);
      },
    };
  }

  forget(): void {
    this.#forget();
  }

  /** Some calls are only told when they are over. */
  #sawTool({ state, id }: { readonly state: "started" | "ended"; readonly id: string }): void {
    if (state === "ended" && this.#open.delete(id)) return;
    if (state === "started") this.#open.add(id);
    this.toolCalls += 1;
    const progress = this.#progress;
    if (progress.tools !== null) progress.tools += 1;
    if (this.toolCalls > 1) return;
    this.before = progress.sent;
    progress.sent = { ...this.#words, session: this.#session, attempt: progress.attempt };
    // That there was one, and what its agent has heard, must be known after a crash; how many is told with the next change.
    progress.note({ status: "running" });
  }

  #sawDenied(call: DeniedCall): void {
    this.denied.push(call);
    this.#progress.denied.push(call);
    this.#progress.note({ status: "running" });
  }

  #saw(session: string | null): void {
    if (session === null || session === this.#session) return;
    this.#session = session;
    this.#progress.note({ status: "running", session_id: session });
  }
}
