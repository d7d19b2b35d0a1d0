/**
 * One turn of the conversation about an issue: started, resumed, or a new conversation in the same place. Records what
 * it sees at once; other files decide what it means for the issue.
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
  /** Tool calls that the agent began. */
  readonly toolCalls: number;
  /** Calls that the engine refused, as far as its output reports them. */
  readonly denied: readonly DeniedCall[];
  /** It was a resume, and neither the engine nor its store confirms the session. */
  readonly unverified: boolean;
}

/** Faults that mean a lost conversation. A person decides about a damaged one. */
const LOST: readonly FaultCode[] = [
  "session_lost",
  "session_unknown",
  "cwd_missing",
  "run_dir_missing",
  "handle_unknown",
];
const BUSY: readonly FaultCode[] = ["session_busy", "run_busy"];

/** A lost conversation is an outcome of the turn, not a fault. */
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
    const tokens = progress.spend(result.attempt.tokens);
    progress.note({ status: "running", session_id: result.run.session.value, tokens });
    const unverified = result.receipt?.verified === "not_verified";
    progress.unverified = unverified;
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied, unverified };
  } catch (error) {
    const outcome = error instanceof Fault && ask.do !== "start" ? outcomeOfFault(error) : null;
    if (outcome === null) throw error;
    const { code } = error as Fault;
    // The worktree is gone with the run.
    if (LOST.includes(code) && code !== "session_lost") progress.handle = null;
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied, unverified: false };
  } finally {
    seen.forget();
  }
}

/**
 * The sent text that the run's conversation has after a turn. A message may be missing from it if the turn failed early,
 * or if another conversation answered: Reprise then sends the text again.
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

/** Null: not about the conversation. */
function outcomeOfFault({ code, message }: Fault): Outcome | null {
  const kind = LOST.includes(code) ? "session_lost" : BUSY.includes(code) ? "session_busy" : null;
  if (kind === null) return null;
  return { result: "failed", reason: message, trouble: { kind, message: message.replace(/\.$/, "") } };
}

async function startTurn(progress: IssueProgress, watch: Watch): Promise<AttemptResult> {
  const { deps, root, options } = progress.context;
  const isolated = options.isolate === "worktree";
  const runId = progress.runId ?? progress.nameRun();
  // Another start of the same issue makes another run.
  progress.runId = null;
  progress.begunNow = true;
  // The agent may die before its engine stores the text.
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
  // An earlier gate result is about earlier work.
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
      // The run has its own options.
      native: progress.begunNow ? [] : progress.over,
      anew: newOptions(progress),
      trustCwd: progress.context.options.trustCwd,
    },
    watch,
  );
}

/** For a run that begins in this batch. */
function newOptions({ context: { options } }: IssueProgress): readonly string[] {
  return [...options.access.options, ...options.native];
}

function attemptOptions({ context }: IssueProgress) {
  return { mode: "auto", limits: context.options.limits, terminal: null } as const;
}

/** Watches a live attempt, and records each session id when it first appears. */
class TurnObserver {
  toolCalls = 0;
  readonly denied: DeniedCall[] = [];
  readonly watch: Watch;
  readonly #progress: IssueProgress;
  #session: string | null = null;
  readonly #open = new Set<string>();
  readonly #words: SentIssue;
  /** The record of sent text before this turn. */
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
          else if (event.type === "usage") progress.tokens = event.tokens ?? event.session;
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

  /** Some engines report a call only when it ends. */
  #sawTool({ state, id }: { readonly state: "started" | "ended"; readonly id: string }): void {
    if (state === "ended" && this.#open.delete(id)) return;
    if (state === "started") this.#open.add(id);
    this.toolCalls += 1;
    const progress = this.#progress;
    if (progress.tools !== null) progress.tools += 1;
    if (this.toolCalls > 1) return;
    this.before = progress.sent;
    progress.sent = { ...this.#words, session: this.#session, attempt: progress.attempt };
    // The first call proves that the agent got the text, and must survive a crash. The next change writes the count.
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
