/**
 * Carries out what was decided and stored. Each deed may be begun again after a crash with the same facts and is done
 * once all the same: an attempt by its number, a typed message by its key, an end by the document (I8).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { PolicyEntry } from "../core/runbook.ts";
import { type AgentRecord, PUT_BACK } from "../core/supervision.ts";
import { type HolderLink, launchHolder } from "../detached/detached.ts";
import { type Deps, type ResumeRequest } from "../run/run.ts";
import { dryRun, isUndecided, refusedStart } from "../run/inspect.ts";
import { environmentAt, redactorFor } from "../run/engine-setup.ts";
import { agentAttemptOptions, endAgent, endIfStopped, endRun, isActive } from "./agents.ts";
import { escalate } from "./escalate.ts";
import { plainEnv, runGate } from "../process/process.ts";
import type { Look } from "./look.ts";
import { correction } from "./pipelines.ts";
import { type Alive, CONTINUE, planAgentResume, type AgentResumePlan } from "./plan.ts";
import type { Decided } from "./tally.ts";

/** What a deed needs besides the facts. */
export interface ActContext {
  readonly deps: Deps;
  readonly link: HolderLink | null;
  /** Resolves when one more process may be started. */
  mayStart(): Promise<void>;
  /** For the log. */
  note(what: string, facts: Readonly<Record<string, unknown>>): void;
}

export interface ActResult {
  readonly result: "ok" | "failed" | "refused";
  readonly detail: string;
}

/** The holder of an attempt that has ended copies its session before it lets go of the run. */
const LET_GO_MS = 60_000;
const POLL_MS = 50;

/** `why` is what led to it, one sentence. What throws is begun again later: a bug, or a question that the store did not take whole. */
export async function carryOut(
  hand: ActContext,
  look: Look,
  decided: Decided,
  why: string,
): Promise<ActResult> {
  try {
    switch (decided.action) {
      case "nudge":
        return await nudge(hand, look, decided);
      case "resume":
        return await resume(hand, look, decided);
      case "gate":
        return await gate(hand.deps, look.agent, decided);
      case "done":
        return await end(hand.deps, look, "done", why);
      case "fail":
        return await end(hand.deps, look, "failed", why);
      case "escalate":
        return { result: "ok", detail: `decision ${await ask(hand.deps, look, decided, why)}` };
    }
  } catch (error) {
    if (!(error instanceof Fault) || decided.action === "escalate") throw error;
    return { result: "failed", detail: error.message };
  }
}

async function ask(deps: Deps, look: Look, decided: Decided, why: string): Promise<string> {
  const { run } = look;
  const isOver = run !== null && run.status !== "running";
  const toContinue = isOver ? await barToContinue(deps, look) : null;
  const toBegin = isOver ? await barToBegin(deps, look, run) : null;
  return escalate(deps, look, { decided, why, toContinue, toBegin });
}

/** The options of a new conversation cannot be kept; null: one may begin. What else may stand in the way can pass. */
async function barToBegin(deps: Deps, { agent }: Look, run: RunRecord): Promise<Fault | null> {
  const message = agent.definition.prompt ?? CONTINUE;
  const fault = await faultOf(deps, run, requestFor(deps, agent, { want: "fresh", message }));
  return fault?.code === "option_unkept" || fault?.code === "would_widen" ? fault : null;
}

/** The entry that a decision stands on; undefined: a person's, or one that the runbook does not have any more. */
function entryFor(agent: AgentRecord, decided: Decided): PolicyEntry | undefined {
  return decided.trigger === "user"
    ? undefined
    : agent.definition.policy.on[decided.trigger][decided.position];
}

async function nudge(hand: ActContext, look: Look, decided: Decided): Promise<ActResult> {
  const message = decided.message ?? CONTINUE;
  if (look.agent.definition.mode === "interactive") return say(hand.link, message, decided.key);
  // A headless agent has ended with its turn: the message begins its next one.
  const append = true;
  return startAgain(hand, look, decided, planFor(look, { message, append, kill: false }));
}

async function say(link: HolderLink | null, message: string, key: string): Promise<ActResult> {
  if (link === null) return { result: "refused", detail: "its holder cannot be reached" };
  const { state } = link.observed().activity;
  if (state === "waiting")
    return { result: "refused", detail: "it asks for permission, and that is no answer" };
  const sent = await link.send(message, key);
  if (sent.sent === "refused") return { result: "refused", detail: sent.why };
  const seen = sent.sent === "ok" ? "the conversation took it up" : "nobody can tell whether it arrived";
  return { result: "ok", detail: `typed: ${seen}` };
}

async function resume(hand: ActContext, look: Look, decided: Decided): Promise<ActResult> {
  const entry = entryFor(look.agent, decided);
  const { message, how } = decided;
  const plan = planFor(look, {
    message,
    append: entry?.append ?? true,
    kill: how === "kill",
    fresh: how === "fresh",
  });
  if (plan.do === "nudge") return say(hand.link, plan.message ?? CONTINUE, decided.key);
  return startAgain(hand, look, decided, plan);
}

interface ResumeOrder {
  readonly message: string | null;
  readonly append: boolean;
  readonly kill: boolean;
  readonly fresh?: boolean;
  /** Absent: whether the engine still has the conversation, or the run a copy, is found out when it is asked for. */
  readonly prior?: "lost" | "none";
}

export function planFor(look: Look, { prior, ...wish }: ResumeOrder): AgentResumePlan {
  const { prompt, mode } = look.agent.definition;
  const priorSession = prior ?? (look.run?.sessions.length === 0 ? "none" : "present");
  return planAgentResume({ ...wish, prompt, priorSession, alive: aliveOf(look), mode });
}

/** What can be done to it now. A state that is only guessed at is not typed into. */
function aliveOf({ run, seen }: Look): Alive {
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

/** A new process, at most one by the number of its attempt. */
async function startAgain(
  hand: ActContext,
  look: Look,
  decided: Decided,
  plan: AgentResumePlan,
): Promise<ActResult> {
  const { deps } = hand;
  const { agent } = look;
  if (plan.do === "refuse" || plan.do === "nudge") return { result: "refused", detail: plan.why };
  const want = plan.do === "resume" || plan.do === "kill_and_resume" ? "resume" : "fresh";
  if (want === "fresh" && (await isForbidden(deps, look, decided))) return forbidden(decided, plan);
  if (plan.do === "kill_and_resume" || plan.do === "kill_and_fresh") await endRun(deps, agent, "SIGTERM");
  const run = await untilFree(deps, agent.runId);
  const wanted = decided.newAttempt ?? (run?.attempts ?? 0) + 1;
  if (run === null) return { result: "failed", detail: "its run is gone" };
  if (run.attempts >= wanted) return foundBegun(deps, agent, wanted, { want, message: plan.message });
  await hand.mayStart();
  if (!(await isActive(deps, agent))) return { result: "refused", detail: "it was stopped" };
  try {
    const request = requestFor(deps, agent, { want, message: plan.message });
    await launchHolder(deps, { do: "resume", request, asAttempt: wanted });
  } catch (error) {
    const other = await otherWay(hand, look, { decided, plan, want, error });
    if (other !== null) return other;
    throw error;
  }
  await endIfStopped(deps, agent);
  // Nobody knows yet whether the engine accepts now what it refused before.
  const isRefused = decided.how === "fresh" && refusedStart(run, look.attempts) !== null;
  const begins = isRefused ? TRIES : `${NEW_CONVERSATION}${plan.why}`;
  const what = want === "resume" ? `${plan.why}${await restoredWords(deps, run.runId, wanted)}` : begins;
  return { result: "ok", detail: `attempt ${wanted}: ${what}` };
}

/** What the engine had lost, and what the copy lacks. */
async function restoredWords({ store }: Deps, runId: string, n: number): Promise<string> {
  const restored = (await store.listAttempts(runId)).find((one) => one.n === n)?.restored;
  return restored === undefined ? "" : `; ${[PUT_BACK, ...restored.lacks].join("; ")}`;
}

/** `--strict` is read from the store right before: another process may have written it after this was decided. */
async function isForbidden({ store }: Deps, { agent, latest }: Look, decided: Decided): Promise<boolean> {
  if (decided.trigger === "user") return decided.strict === true;
  const events = await store.listEvents(agent.runId);
  return events.some(({ kind, attempt }) => kind === "strict" && attempt === latest);
}

/** Of a runbook it is a failure: when nothing else is left to try, a person is asked. */
function forbidden({ trigger }: Decided, { why }: AgentResumePlan): ActResult {
  return trigger === "user"
    ? { result: "refused", detail: `${why}, and nobody asked for a new one` }
    : { result: "failed", detail: `${why}, and --strict allows no new one` };
}

/** In the report on an attempt that begins another conversation; what follows says why. */
export const NEW_CONVERSATION = "a new conversation begins: ";

const TRIES = "its engine, which refused its options before, is asked once more with the same options";

interface Refused {
  readonly decided: Decided;
  readonly plan: AgentResumePlan;
  readonly want: "resume" | "fresh";
  readonly error: unknown;
}

/** Null: there is none. A conversation that nobody has any more begins anew; an attempt that is there is enough. */
async function otherWay(hand: ActContext, look: Look, refused: Refused): Promise<ActResult | null> {
  const { decided, want, error } = refused;
  if (!(error instanceof Fault)) return null;
  const prior = want === "resume" ? priorOf(error) : null;
  if (prior !== null) {
    if (decided.strict === true) return { result: "refused", detail: error.message };
    const gone: Look = { ...look, run: await hand.deps.store.getRun(look.agent.runId) };
    const message = decided.message;
    return startAgain(hand, gone, decided, planFor(gone, { message, append: true, kill: false, prior }));
  }
  const { newAttempt } = decided;
  const now = await hand.deps.store.getRun(look.agent.runId);
  if (newAttempt === null || (now?.attempts ?? 0) < newAttempt) return null;
  return foundBegun(hand.deps, look.agent, newAttempt, { want, message: refused.plan.message });
}

/**
 * The attempt is there that was to be begun: by a holder whose supervisor died, or by a person who was faster, with another
 * message or in another conversation.
 */
async function foundBegun(
  { store }: Deps,
  { runId }: AgentRecord,
  n: number,
  { want, message }: Pick<ResumeRequest, "want" | "message">,
): Promise<ActResult> {
  const attempt = (await store.listAttempts(runId)).find((one) => one.n === n);
  const isOurs = attempt?.kind === want && (message === null || attempt.message === message);
  return isOurs ? { result: "ok", detail: `attempt ${n} was started` } : begunMeanwhile(n);
}

function begunMeanwhile(n: number): ActResult {
  return { result: "refused", detail: `attempt ${n} was begun meanwhile, by somebody else` };
}

/** Null: that is not what the fault is about. */
function priorOf(fault: Fault): "lost" | "none" | null {
  const { code } = fault;
  if (isUndecided(fault)) return null;
  if (code === "session_lost") return "lost";
  return code === "session_unknown" ? "none" : null;
}

/** Why the conversation cannot be continued; null: nothing stands in its way. Starts nothing. */
export async function whyNotContinued(deps: Deps, look: Look): Promise<string | null> {
  const bar = await barToContinue(deps, look);
  return bar === null || bar.code === "session_damaged" || isUndecided(bar) ? null : bar.message;
}

/** The conversation is lost, was never there, or lacks something. What else may stand in the way can pass. */
async function barToContinue(deps: Deps, { agent, run }: Look): Promise<Fault | null> {
  if (run === null || run.sessions.length === 0)
    return new Fault("session_unknown", "there is no conversation to continue");
  const fault = await faultOf(deps, run, requestFor(deps, agent, { want: "resume", message: CONTINUE }));
  if (fault === null) return null;
  return priorOf(fault) !== null || fault.code === "session_damaged" || isUndecided(fault) ? fault : null;
}

/** What an attempt would be refused with; null: it would be started. */
async function faultOf(deps: Deps, run: RunRecord, request: ResumeRequest): Promise<Fault | null> {
  try {
    await dryRun(deps, run, request);
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error;
  }
}

/** How an agent whose conversation is gone would begin another one, or why that is refused; null: it is not gone. Starts nothing. */
export async function planAnew(deps: Deps, look: Look): Promise<AgentResumePlan | Fault | null> {
  const { agent, run } = look;
  if (run === null || (await whyNotContinued(deps, look)) === null) return null;
  const prior = run.sessions.length === 0 ? "none" : "lost";
  const plan = planFor(look, { message: null, append: true, kill: false, prior });
  if (plan.do !== "fresh") return null;
  const request = requestFor(deps, agent, { want: "fresh", message: plan.message });
  return (await faultOf(deps, run, request)) ?? plan;
}

/**
 * Why no attempt of it can ever begin: its engine refused its command line, which stays as it is; null: that is not so. An
 * engine that only wants trust may begin another time.
 */
export async function whyNeverBegins(deps: Deps, { agent, run }: Look): Promise<string | null> {
  if (run === null || run.status !== "failed") return null;
  const fault = await faultOf(deps, run, requestFor(deps, agent, { want: "resume", message: CONTINUE }));
  const refused = fault?.facts["refused"];
  if (typeof refused !== "string" || refused.includes("--trust-cwd")) return null;
  return `${refused}. ${await correction(deps, agent)}`;
}

function requestFor(
  deps: Deps,
  { definition, runId }: AgentRecord,
  wish: { readonly want: "resume" | "fresh"; readonly message: string | null },
): ResumeRequest {
  return {
    ...agentAttemptOptions(deps, definition),
    selector: runId,
    ...wish,
    damage: "refuse",
    native: [],
    keep: false,
    env: [],
    hasTerminal: false,
    supervised: true,
    trustCwd: false,
    ...(definition.mode === "interactive" ? { ui: true } : {}),
  };
}

/** Waits until nobody alive owns the run. Null: it is gone. */
async function untilFree(deps: Deps, runId: string): Promise<RunRecord | null> {
  const deadline = deps.clock.mono() + LET_GO_MS;
  for (;;) {
    const lease = await deps.store.getLease(`run:${runId}`);
    if (lease === null || !deps.processes.isAlive(lease.owner) || deps.clock.mono() >= deadline)
      return deps.store.getRun(runId);
    await sleep(POLL_MS);
  }
}

/** Names the processes of an agent's gate. */
export function gateMarker({ runId }: AgentRecord): string {
  return `${runId}/gate`;
}

async function gate(deps: Deps, agent: AgentRecord, decided: Decided): Promise<ActResult> {
  const entry = entryFor(agent, decided);
  if (entry?.run == null) return { result: "refused", detail: "the runbook has no command for this gate" };
  const { cwd } = agent.definition;
  const { passed, detail } = await runGate(deps.processes, {
    command: entry.run,
    cwd,
    env: { ...plainEnv(environmentAt(deps, cwd, deps.env)), ...Object.fromEntries(agent.definition.env) },
    timeoutMs: entry.timeoutMs,
    redact: redactorFor(deps.env, agent.definition.env),
    marker: gateMarker(agent),
  });
  return { result: passed ? "ok" : "failed", detail };
}

/** The process first: after a crash in between the decision is still open, and is finished. */
async function end(
  deps: Deps,
  { agent, latest }: Look,
  phase: "done" | "failed",
  why: string,
): Promise<ActResult> {
  const begun = (await deps.store.getRun(agent.runId))?.attempts ?? 0;
  if (begun > latest) return begunMeanwhile(begun);
  await endRun(deps, agent);
  await endAgent(deps, agent.id, phase, why);
  return { result: "ok", detail: `the agent is ${phase}` };
}
