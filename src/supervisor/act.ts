/**
 * Carries out stored decisions. After a crash the same decision may run again and still takes effect once: an attempt
 * by its number, a typed message by its key, an end by the document (I8).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { CONTINUE_MESSAGE, type PolicyEntry } from "../core/runbook.ts";
import { type AgentRecord, PUT_BACK } from "../core/supervision.ts";
import { type HolderLink, launchHolder } from "../detached/detached.ts";
import { type Deps, RESUME_DEFAULTS, type ResumeRequest } from "../run/run.ts";
import { dryRun, isUndecided, liveOwner, refusedStart } from "../run/inspect.ts";
import { runAgentGate } from "./agent-gate.ts";
import { agentAttemptOptions, endAgent, endIfStopped, endRun, isActive } from "./agents.ts";
import { escalate } from "./decisions.ts";
import type { AgentSnapshot } from "./snapshot.ts";
import { correctionAdvice } from "./pipelines.ts";
import { type Alive, planAgentResume, type AgentResumePlan } from "./plan.ts";
import type { Decided } from "./counts.ts";

/** Everything that an action needs besides the facts. */
export interface ActContext {
  readonly deps: Deps;
  readonly link: HolderLink | null;
  /** Resolves when one more process may be started. */
  mayStart(): Promise<void>;
  /** Writes to the daemon log. */
  note(what: string, facts: Readonly<Record<string, unknown>>): void;
}

export interface ActResult {
  readonly result: "ok" | "failed" | "refused";
  readonly detail: string;
}

/** The holder of an ended attempt copies its session before it releases the run. */
const RELEASE_MS = 60_000;
const POLL_MS = 50;

/** `why`: the cause, one sentence. If it throws (a bug, or a question that was not fully stored), the daemon retries. */
export async function carryOut(
  context: ActContext,
  snapshot: AgentSnapshot,
  decided: Decided,
  why: string,
): Promise<ActResult> {
  try {
    switch (decided.action) {
      case "nudge":
        return await nudge(context, snapshot, decided);
      case "resume":
        return await resume(context, snapshot, decided);
      case "gate":
        return await runAgentGate(context.deps, snapshot.agent, entryFor(snapshot.agent, decided));
      case "done":
        return await end(context.deps, snapshot, "done", why);
      case "fail":
        return await end(context.deps, snapshot, "failed", why);
      case "escalate":
        return { result: "ok", detail: `decision ${await askPerson(context.deps, snapshot, decided, why)}` };
    }
  } catch (error) {
    if (!(error instanceof Fault) || decided.action === "escalate") throw error;
    return { result: "failed", detail: error.message };
  }
}

async function askPerson(
  deps: Deps,
  snapshot: AgentSnapshot,
  decided: Decided,
  why: string,
): Promise<string> {
  const { run } = snapshot;
  const isOver = run !== null && run.status !== "running";
  const toContinue = isOver ? await whyNoContinuation(deps, snapshot) : null;
  const toBegin = isOver ? await whyNoNewConversation(deps, snapshot, run) : null;
  return escalate(deps, snapshot, { decided, why, toContinue, toBegin });
}

/** A new conversation could not keep the options. Null: it may start, because every other obstacle is temporary. */
async function whyNoNewConversation(
  deps: Deps,
  { agent }: AgentSnapshot,
  run: RunRecord,
): Promise<Fault | null> {
  const message = agent.definition.prompt ?? CONTINUE_MESSAGE;
  const fault = await faultOf(deps, run, requestFor(deps, agent, { want: "fresh", message }));
  return fault?.code === "option_unkept" || fault?.code === "would_widen" ? fault : null;
}

/** The runbook entry of a decision. Undefined: a person decided, or the runbook no longer has the entry. */
function entryFor(agent: AgentRecord, decided: Decided): PolicyEntry | undefined {
  return decided.trigger === "user"
    ? undefined
    : agent.definition.policy.on[decided.trigger][decided.position];
}

async function nudge(context: ActContext, snapshot: AgentSnapshot, decided: Decided): Promise<ActResult> {
  const message = decided.message ?? CONTINUE_MESSAGE;
  if (snapshot.agent.definition.mode === "interactive")
    return typeMessage(context.link, message, decided.key);
  // A headless agent ends with its turn: the message starts the next one.
  const append = true;
  return startAttempt(context, snapshot, decided, planFor(snapshot, { message, append, kill: false }));
}

async function typeMessage(link: HolderLink | null, message: string, key: string): Promise<ActResult> {
  if (link === null) return { result: "refused", detail: "its holder cannot be reached" };
  const { state } = link.observed().activity;
  if (state === "waiting")
    return { result: "refused", detail: "it is waiting for permission, and the message would answer it" };
  const sent = await link.send(message, key);
  if (sent.sent === "refused") return { result: "refused", detail: sent.why };
  const seen = sent.sent === "ok" ? "the conversation received it" : "Reprise cannot tell whether it arrived";
  return { result: "ok", detail: `typed: ${seen}` };
}

async function resume(context: ActContext, snapshot: AgentSnapshot, decided: Decided): Promise<ActResult> {
  const entry = entryFor(snapshot.agent, decided);
  const { message, how } = decided;
  const plan = planFor(snapshot, {
    message,
    append: entry?.append ?? true,
    kill: how === "kill",
    fresh: how === "fresh",
  });
  if (plan.do === "nudge") return typeMessage(context.link, plan.message ?? CONTINUE_MESSAGE, decided.key);
  return startAttempt(context, snapshot, decided, plan);
}

interface ResumeOptions {
  readonly message: string | null;
  readonly append: boolean;
  readonly kill: boolean;
  readonly fresh?: boolean;
  /** Absent: the start finds out whether the engine still has the conversation, or the run a copy. */
  readonly prior?: "lost" | "none";
}

export function planFor(snapshot: AgentSnapshot, { prior, ...wish }: ResumeOptions): AgentResumePlan {
  const { prompt, mode } = snapshot.agent.definition;
  const priorSession = prior ?? (snapshot.run?.sessions.length === 0 ? "none" : "present");
  return planAgentResume({ ...wish, prompt, priorSession, alive: aliveOf(snapshot), mode });
}

/** Reprise never types into an agent whose state is a guess, so an uncertain idle counts as busy. */
function aliveOf({ run, seen }: AgentSnapshot): Alive {
  if (run?.status !== "running") return "no";
  if (seen.is !== "live") return "unresponsive";
  switch (seen.observed.activity.state) {
    case "waiting":
      return "waiting";
    case "idle":
      return seen.observed.certain ? "idle" : "busy";
    case "error":
      return "idle_after_error";
    case "starting":
    case "working":
      return "busy";
  }
}

/** Starts a new process, at most once per attempt number. */
async function startAttempt(
  context: ActContext,
  snapshot: AgentSnapshot,
  decided: Decided,
  plan: AgentResumePlan,
): Promise<ActResult> {
  const { deps } = context;
  const { agent } = snapshot;
  if (plan.do === "refuse" || plan.do === "nudge") return { result: "refused", detail: plan.why };
  const want = plan.do === "resume" || plan.do === "kill_and_resume" ? "resume" : "fresh";
  if (want === "fresh" && (await forbidsNewConversation(deps, snapshot, decided)))
    return strictRefusal(decided, plan);
  if (plan.do === "kill_and_resume" || plan.do === "kill_and_fresh") await endRun(deps, agent, "SIGTERM");
  const run = await waitUntilFree(deps, agent.runId);
  const wanted = decided.newAttempt ?? (run?.attempts ?? 0) + 1;
  if (run === null) return { result: "failed", detail: "its run no longer exists" };
  if (run.attempts >= wanted) return resultOfExisting(deps, agent, wanted, { want, message: plan.message });
  await context.mayStart();
  if (!(await isActive(deps, agent))) return { result: "refused", detail: "it was stopped" };
  try {
    const request = requestFor(deps, agent, { want, message: plan.message });
    await launchHolder(deps, { do: "resume", request, asAttempt: wanted });
  } catch (error) {
    const other = await startAfterRefusal(context, snapshot, { decided, plan, want, error });
    if (other !== null) return other;
    throw error;
  }
  await endIfStopped(deps, agent);
  // The engine may refuse the same options again.
  const isRefused = decided.how === "fresh" && refusedStart(run, snapshot.attempts) !== null;
  const begins = isRefused ? SAME_OPTIONS : `${NEW_CONVERSATION}${plan.why}`;
  const what = want === "resume" ? `${plan.why}${await restoredText(deps, run.runId, wanted)}` : begins;
  return { result: "ok", detail: `attempt ${wanted}: ${what}` };
}

/** That the engine lost the conversation, and what the copy lacks. */
async function restoredText({ store }: Deps, runId: string, n: number): Promise<string> {
  const restored = (await store.listAttempts(runId)).find((one) => one.n === n)?.restored;
  return restored === undefined ? "" : `; ${[PUT_BACK, ...restored.lacks].join("; ")}`;
}

/** Reads `--strict` right before the start: another process may have stored it after the decision. */
async function forbidsNewConversation(
  { store }: Deps,
  { agent, latest }: AgentSnapshot,
  decided: Decided,
): Promise<boolean> {
  if (decided.trigger === "user") return decided.strict === true;
  const events = await store.listEvents(agent.runId);
  return events.some(({ kind, attempt }) => kind === "strict" && attempt === latest);
}

/** For a runbook's entry this is a failure, so that the next entry or a person follows. */
function strictRefusal({ trigger }: Decided, { why }: AgentResumePlan): ActResult {
  return trigger === "user"
    ? { result: "refused", detail: `${why}, and you did not ask for a new one` }
    : { result: "failed", detail: `${why}, and --strict forbids a new one` };
}

/** Marks the report of an attempt that begins a new conversation; the reason follows. Stored, so it must not change. */
export const NEW_CONVERSATION = "a new conversation begins: ";

const SAME_OPTIONS = "Reprise tries again with the options that the engine refused before";

interface RefusedStart {
  readonly decided: Decided;
  readonly plan: AgentResumePlan;
  readonly want: "resume" | "fresh";
  readonly error: unknown;
}

/** Starts over if the conversation is lost, and accepts an attempt that already exists. Null: neither applies. */
async function startAfterRefusal(
  context: ActContext,
  snapshot: AgentSnapshot,
  refused: RefusedStart,
): Promise<ActResult | null> {
  const { decided, want, error } = refused;
  if (!(error instanceof Fault)) return null;
  const prior = want === "resume" ? priorOf(error) : null;
  if (prior !== null) {
    if (decided.strict === true) return { result: "refused", detail: error.message };
    const gone: AgentSnapshot = { ...snapshot, run: await context.deps.store.getRun(snapshot.agent.runId) };
    const message = decided.message;
    return startAttempt(context, gone, decided, planFor(gone, { message, append: true, kill: false, prior }));
  }
  const { newAttempt } = decided;
  const now = await context.deps.store.getRun(snapshot.agent.runId);
  if (newAttempt === null || (now?.attempts ?? 0) < newAttempt) return null;
  return resultOfExisting(context.deps, snapshot.agent, newAttempt, { want, message: refused.plan.message });
}

/**
 * The attempt already exists. Either a holder started it for a daemon that died, or a person started it first, perhaps
 * with another message or in another conversation.
 */
async function resultOfExisting(
  { store }: Deps,
  { runId }: AgentRecord,
  n: number,
  { want, message }: Pick<ResumeRequest, "want" | "message">,
): Promise<ActResult> {
  const attempt = (await store.listAttempts(runId)).find((one) => one.n === n);
  const isOurs = attempt?.kind === want && (message === null || attempt.message === message);
  return isOurs ? { result: "ok", detail: `attempt ${n} was started` } : attemptConflict(n);
}

function attemptConflict(n: number): ActResult {
  return { result: "refused", detail: `another process started attempt ${n} first` };
}

/** Null: the fault does not concern the conversation. */
function priorOf(fault: Fault): "lost" | "none" | null {
  const { code } = fault;
  if (isUndecided(fault)) return null;
  if (code === "session_lost") return "lost";
  return code === "session_unknown" ? "none" : null;
}

/** Why the conversation cannot continue. Null: it can. Starts nothing. */
export async function whyNotContinued(deps: Deps, snapshot: AgentSnapshot): Promise<string | null> {
  const bar = await whyNoContinuation(deps, snapshot);
  return bar === null || bar.code === "session_damaged" || isUndecided(bar) ? null : bar.message;
}

/** The conversation is lost, damaged, or never existed. Null: it can continue; every other obstacle is temporary. */
async function whyNoContinuation(deps: Deps, { agent, run }: AgentSnapshot): Promise<Fault | null> {
  if (run === null || run.sessions.length === 0)
    return new Fault("session_unknown", "there is no conversation to continue");
  const fault = await faultOf(
    deps,
    run,
    requestFor(deps, agent, { want: "resume", message: CONTINUE_MESSAGE }),
  );
  if (fault === null) return null;
  return priorOf(fault) !== null || fault.code === "session_damaged" || isUndecided(fault) ? fault : null;
}

/** The Fault that would refuse an attempt. Null: it would start. */
async function faultOf(deps: Deps, run: RunRecord, request: ResumeRequest): Promise<Fault | null> {
  try {
    await dryRun(deps, run, request);
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error;
  }
}

/** The plan for a new conversation, or why it is refused. Null: the old conversation still exists. Starts nothing. */
export async function planNewConversation(
  deps: Deps,
  snapshot: AgentSnapshot,
): Promise<AgentResumePlan | Fault | null> {
  const { agent, run } = snapshot;
  if (run === null || (await whyNotContinued(deps, snapshot)) === null) return null;
  const prior = run.sessions.length === 0 ? "none" : "lost";
  const plan = planFor(snapshot, { message: null, append: true, kill: false, prior });
  if (plan.do !== "fresh") return null;
  const request = requestFor(deps, agent, { want: "fresh", message: plan.message });
  return (await faultOf(deps, run, request)) ?? plan;
}

/**
 * Why no attempt can ever start: the engine refused the command line, which does not change. Null: an attempt may start,
 * perhaps after the user trusts the directory.
 */
export async function whyNeverStarts(deps: Deps, { agent, run }: AgentSnapshot): Promise<string | null> {
  if (run === null || run.status !== "failed") return null;
  const fault = await faultOf(
    deps,
    run,
    requestFor(deps, agent, { want: "resume", message: CONTINUE_MESSAGE }),
  );
  const refused = fault?.facts["refused"];
  if (typeof refused !== "string" || refused.includes("--trust-cwd")) return null;
  return `${refused}. ${await correctionAdvice(deps, agent)}`;
}

function requestFor(
  deps: Deps,
  { definition, runId }: AgentRecord,
  wish: { readonly want: "resume" | "fresh"; readonly message: string | null },
): ResumeRequest {
  return {
    ...agentAttemptOptions(deps, definition),
    ...RESUME_DEFAULTS,
    selector: runId,
    ...wish,
    supervised: "agent",
    ...(definition.mode === "interactive" ? { ui: true } : {}),
  };
}

/** Waits until no live process owns the run. Null: the run no longer exists. */
async function waitUntilFree(deps: Deps, runId: string): Promise<RunRecord | null> {
  const deadline = deps.clock.mono() + RELEASE_MS;
  for (;;) {
    if ((await liveOwner(deps, runId)) === null || deps.clock.mono() >= deadline)
      return deps.store.getRun(runId);
    await sleep(POLL_MS);
  }
}

/** Ends the process first: after a crash in between, the decision is still open and the next daemon finishes it. */
async function end(
  deps: Deps,
  { agent, latest }: AgentSnapshot,
  phase: "done" | "failed",
  why: string,
): Promise<ActResult> {
  const begun = (await deps.store.getRun(agent.runId))?.attempts ?? 0;
  if (begun > latest) return attemptConflict(begun);
  await endRun(deps, agent);
  await endAgent(deps, agent.id, phase, why);
  return { result: "ok", detail: `the agent is ${phase}` };
}
