/**
 * One turn of the conversation about an issue: started, resumed or begun afresh where the work is. What is seen of it
 * goes to the issue's desk at once; what it means for the issue is not decided here.
 */
import type { DeniedCall, Outcome } from "../core/events.ts";
import { Fault, type FaultCode } from "../core/faults.ts";
import { type AttemptResult, resumeRun, startRun, type Watch } from "../run/run.ts";
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
  /** It was a resume, and neither the engine nor its store confirms the session. */
  readonly unverified: boolean;
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
export async function takeTurn(desk: IssueProgress, ask: TurnRequest): Promise<IssueTurn> {
  const words = sentOf(desk.issue);
  const seen = new Sight(desk, words);
  try {
    const result = await (ask.do === "start" ? start(desk, seen.watch) : again(desk, ask, seen.watch));
    desk.run = result.run;
    desk.attempt = result.attempt.n;
    await result.finish();
    const none = { result: "interrupted", reason: "the attempt has no outcome" } as const;
    const outcome = result.attempt.outcome ?? none;
    desk.spoken = outcome.result === "completed";
    const isHeard = outcome.result === "completed" || seen.toolCalls > 0;
    desk.sent = sentIn(result, { words, isHeard, known: seen.toolCalls > 0 ? seen.before : desk.sent });
    if (isHeard && outcome.result !== "diverged") desk.reopened = false;
    desk.note({ status: "running", session_id: result.run.session.value, tokens: result.attempt.tokens });
    const unverified = result.receipt?.verified === "not_verified";
    desk.unverified = unverified;
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied, unverified };
  } catch (error) {
    const outcome = error instanceof Fault && ask.do !== "start" ? outcomeOf(error) : null;
    if (outcome === null) throw error;
    const { code } = error as Fault;
    // The place of the work is gone with the run.
    if (LOST.includes(code) && code !== "session_lost") desk.handle = null;
    return { outcome, toolCalls: seen.toolCalls, denied: seen.denied, unverified: false };
  } finally {
    seen.forget();
  }
}

/**
 * What is known after a turn of what the run's conversation has heard. A message whose turn never got anywhere may not be in
 * it, and one that another conversation answered is not: both are said again.
 */
function sentIn(
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
function outcomeOf({ code, message }: Fault): Outcome | null {
  const kind = LOST.includes(code) ? "session_lost" : BUSY.includes(code) ? "session_busy" : null;
  if (kind === null) return null;
  return { result: "failed", reason: message, trouble: { kind, message: message.replace(/\.$/, "") } };
}

async function start(desk: IssueProgress, watch: Watch): Promise<AttemptResult> {
  const { deps, root, options } = desk.shop;
  const isolated = options.isolate === "worktree";
  const runId = desk.runId ?? desk.nameRun();
  // Another start of the same issue is another run.
  desk.runId = null;
  desk.begunNow = true;
  // Sent, and not yet known to be heard: the agent may be gone before its engine has kept it.
  desk.sent = sentOf(desk.issue);
  if (desk.shop.batch.issue(desk.issue.id)?.agent_id !== runId)
    await desk.save({ status: "running", agent_id: runId, gate: null });
  return startRun(
    deps,
    {
      ...attemptOptions(desk),
      engine: options.engine,
      message: firstPrompt(desk.told(), desk.before === null ? null : desk.baseline),
      native: newOptions(desk),
      env: [],
      cwd: root,
      cwdGiven: true,
      isolate: isolated ? "worktree" : null,
      ...(isolated && desk.branch !== null ? { branch: desk.branch } : {}),
      ...(isolated && desk.baseline !== null ? { from: desk.before ?? desk.baseline } : {}),
      runDir: null,
      name: null,
      subject: `issue:${repositorySlug(root)}#${desk.issue.id}`,
      trustCwd: options.trustCwd,
      escrow: true,
      runId,
    },
    watch,
  );
}

async function again(
  desk: IssueProgress,
  { do: want, handle, message }: Exclude<TurnRequest, { do: "start" }>,
  watch: Watch,
): Promise<AttemptResult> {
  // What the gate said is about the work as it was.
  const words = message();
  if (want === "fresh") desk.sent = sentOf(desk.issue);
  await desk.save({ status: "running", gate: null });
  return resumeRun(
    desk.shop.deps,
    {
      ...attemptOptions(desk),
      selector: handle,
      want,
      damage: "refuse",
      message: words,
      // What it began with is the run's own.
      native: desk.begunNow ? [] : desk.over,
      anew: newOptions(desk),
      keep: false,
      env: [],
      hasTerminal: false,
      trustCwd: desk.shop.options.trustCwd,
    },
    watch,
  );
}

/** Of a run that begins in this batch. */
function newOptions({ shop: { options } }: IssueProgress): readonly string[] {
  return [...options.access.options, ...options.native];
}

function attemptOptions({ shop }: IssueProgress) {
  return { mode: "auto", limits: shop.options.limits, terminal: null } as const;
}

/** What is seen of a live attempt. Session ids go to the metadata when they are first seen. */
class Sight {
  toolCalls = 0;
  readonly denied: DeniedCall[] = [];
  readonly watch: Watch;
  readonly #desk: IssueProgress;
  #session: string | null = null;
  readonly #open = new Set<string>();
  readonly #words: SentIssue;
  /** What was known before this turn was heard. */
  before: SentIssue | null = null;
  #forget = (): void => {};

  constructor(desk: IssueProgress, words: SentIssue) {
    this.#desk = desk;
    this.#words = words;
    this.watch = {
      raw: () => undefined,
      events: (events) => {
        for (const { event } of events) {
          if (event.type === "session") this.#saw(event.session);
          else if (event.type === "tool") this.#sawTool(event);
          else if (event.type === "notice" && event.denied !== undefined) this.#sawDenied(event.denied);
          else if (event.type === "usage") desk.tokens = event.tokens;
        }
      },
      status: ({ attempt, tools }) => {
        desk.attempt = attempt;
        desk.show("running", tools.map(({ name }) => name).join(", "));
      },
      live: () => {},
      mute: () => {},
      onStop: (listener) => {
        this.#forget = desk.brake.onStop(listener);
      },
      recorded: (run, attempt) => {
        desk.attempt = attempt.n;
        desk.run = run;
        if (!tellsTools(desk.shop.deps, run.agentName, attempt.args)) desk.tools = null;
        desk.note({ status: "running", attempts: attempt.n, agent_id: run.runId });
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
    const desk = this.#desk;
    if (desk.tools !== null) desk.tools += 1;
    if (this.toolCalls > 1) return;
    this.before = desk.sent;
    desk.sent = { ...this.#words, session: this.#session, attempt: desk.attempt };
    // That there was one, and what its agent has heard, must be known after a crash; how many is told with the next change.
    desk.note({ status: "running" });
  }

  #sawDenied(call: DeniedCall): void {
    this.denied.push(call);
    this.#desk.denied.push(call);
    this.#desk.note({ status: "running" });
  }

  #saw(session: string | null): void {
    if (session === null || session === this.#session) return;
    this.#session = session;
    this.#desk.note({ status: "running", session_id: session });
  }
}
