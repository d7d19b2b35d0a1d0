/**
 * `agent resume`: continues an agent that is not running, and reports the result: the same conversation, a new one and
 * why, already running, or refused. The result comes from the record of the attempt, not from the plan.
 */
import { movedState, movedWords } from "../state/identity.ts";
import { isDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { AgentRecord, PipelineRecord } from "../core/supervision.ts";
import type { Deps } from "../run/run.ts";
import { offerFor } from "../run/inspect.ts";
import {
  type ActResult,
  type ActContext,
  NEW_CONVERSATION,
  planNewConversation,
  planFor,
  whyNeverStarts,
  whyNotContinued,
} from "./act.ts";
import { actForUser } from "./advance.ts";
import { endAgent, getAgent, reopenAgent } from "./agents.ts";
import { fromStored, toStored } from "./history.ts";
import { type AgentSnapshot, takeSnapshot, runOf, UNWATCHED, viewOf } from "./snapshot.ts";
import { agentOf, correctionAdvice, getPipeline, runCommand, startCommand } from "./pipelines.ts";
import { stepRecordOf } from "./reduce.ts";
import type { WatchedAgents } from "./watched-agents.ts";
import type { Decided } from "./counts.ts";

export interface AgentResumeOptions {
  /** End a live agent first. */
  readonly kill: boolean;
  /** Resume an ended agent as well. */
  readonly ended: boolean;
  /** The agent was active when the person asked. It may have continued and ended since then. */
  readonly wasActive: boolean;
  /** No new conversation may begin. */
  readonly strict: boolean;
  /** The number of attempts when the person asked. Null: unknown. */
  readonly seen: number | null;
}

export interface AgentResumeResult {
  /**
   * resumed: in its conversation. restarted: in a new one. told: it was alive and got the message. running: it is alive
   * and unchanged. refused: nothing started. strict: only a new conversation was possible, or (`already`) the daemon has
   * started one.
   */
  readonly result: "resumed" | "restarted" | "told" | "running" | "refused" | "strict";
  /** One sentence: why a new conversation, why refused, or the state of a running agent. */
  readonly why: string;
  /** This daemon had already resumed the agent by its runbook. */
  readonly already: boolean;
  readonly attempt: number | null;
  readonly session: string | null;
  /** The engine reported the requested conversation, or its store confirms it. */
  readonly verified: boolean;
  /** The run's copy of the conversation was restored. `lacks`: text that it lacks, one sentence each. */
  readonly restored?: { readonly lacks: readonly string[] };
  /** For a refusal: no later try can succeed. */
  readonly never?: true;
  /** For a running agent: the effect of `--kill` after its end. Absent: `--kill` would be refused. */
  readonly kill?: "resume" | "fresh";
}

interface ResumeContext {
  readonly deps: Deps;
  readonly agents: Pick<WatchedAgents, "ask">;
  /** When this daemon started. */
  readonly sinceMs: number;
  /** Attempts that a person has seen reported as resumed: `<runId>/<attempt>`. */
  readonly reported: Set<string>;
}

/** Changes nothing before it is certain that a start will be tried. */
export async function resumeAgent(
  place: ResumeContext,
  id: string,
  options: AgentResumeOptions,
): Promise<AgentResumeResult> {
  const { deps, agents } = place;
  const found = await getAgent(deps, id);
  if (found === null) throw new Fault("handle_unknown", `There is no agent ${id}.`);
  if (found.record.phase !== "active") {
    const run = await runOf(deps, found.record);
    const ended = `already ${found.record.phase}`;
    if (run === null)
      return refused(options.ended ? "it has no run: someone removed it, or it never started" : ended);
    const snapshot = await takeSnapshot(deps, found.record, run, UNWATCHED);
    const back = options.wasActive ? resumedByDaemon(place, snapshot, { state: ended, ...options }) : null;
    if (back !== null || !options.ended) return back ?? refused(ended);
    const bar = await refusalBefore(deps, snapshot, options);
    if (bar !== null) return bar;
    if (options.strict) await appendStrict(deps, snapshot);
    if ((await reopenAgent(deps, found)) === null) return refused("another process acted first");
  }
  let said: AgentResumeResult | null = null;
  const done = await agents.ask(id, async (context, snapshot) => {
    if (options.strict && snapshot.run?.status !== "running") await appendStrict(deps, snapshot);
    said =
      leftRunning(place, snapshot, options) ??
      resumedSince(place, snapshot, options) ??
      (await refusalBefore(deps, snapshot, options));
    if (said !== null) return { result: "refused", detail: said.why };
    // The runbook may act as soon as `--kill` has ended the agent.
    if (options.strict && options.kill) await appendStrict(deps, snapshot);
    const did = await actForUser(context, snapshot, {
      action: "resume",
      message: null,
      ...(options.kill ? { how: "kill" as const } : {}),
      ...(options.strict ? { strict: true as const } : {}),
    });
    // An ended agent that cannot be resumed keeps its end, and raises no question.
    const { phase, reason } = found.record;
    if (did.result !== "ok" && phase !== "active") await endAgent(deps, id, phase, reason ?? "");
    said = await recordedResult(context, snapshot, did);
    if (did.result === "failed") said = { ...said, why: await withAdvice(deps, found.record, said.why) };
    return did;
  });
  return said ?? refused(done.detail);
}

/**
 * Stores `--strict` before the daemon starts, because a new daemon acts on its runbooks at once. Stores nothing for a live
 * agent: the event would apply to an end that comes much later.
 */
export async function storeStrict(deps: Deps, agent: AgentRecord): Promise<void> {
  const run = await runOf(deps, agent);
  if (run !== null && run.status !== "running")
    await appendStrict(deps, await takeSnapshot(deps, agent, run, UNWATCHED));
}

async function appendStrict({ store, clock }: Deps, { agent, latest }: AgentSnapshot): Promise<void> {
  await store.appendEvent(toStored(agent.runId, { kind: "strict", at: clock.now(), attempt: latest }));
}

/** A refusal before anything is tried. Null: try it. */
async function refusalBefore(
  deps: Deps,
  snapshot: AgentSnapshot,
  { kill, strict }: AgentResumeOptions,
): Promise<AgentResumeResult | null> {
  const plan = planFor(snapshot, { message: null, append: true, kill });
  if (plan.do === "refuse") return refused(plan.why);
  const never = await whyNeverStarts(deps, snapshot);
  if (never !== null) return { ...refused(never), never: true };
  if (!strict || plan.do === "nudge") return null;
  const why = await whyNotContinued(deps, snapshot);
  return why === null ? null : { ...refused(why), result: "strict" };
}

/** The result for a live agent that stays as it is. Null: it is not alive, or must not stay. */
function leftRunning(
  place: ResumeContext,
  snapshot: AgentSnapshot,
  { kill, strict }: AgentResumeOptions,
): AgentResumeResult | null {
  const plan = planFor(snapshot, { message: null, append: true, kill });
  if (kill || snapshot.run?.status !== "running" || plan.do !== "refuse") return null;
  const why = stateOf(snapshot);
  const facts = attemptFacts(snapshot.run, snapshot.attempts.at(-1));
  const killed = planFor(snapshot, { message: null, append: true, kill: true }).do;
  const then =
    killed === "refuse"
      ? {}
      : { kill: killed === "kill_and_fresh" ? ("fresh" as const) : ("resume" as const) };
  return (
    resumedByDaemon(place, snapshot, { state: why, strict }) ?? {
      ...{ result: "running", why, already: false },
      ...facts,
      ...then,
    }
  );
}

/** The agent was resumed after the person asked, and its turn is over: it must not get the message twice. */
function resumedSince(
  place: ResumeContext,
  snapshot: AgentSnapshot,
  { kill, seen, strict }: AgentResumeOptions,
): AgentResumeResult | null {
  if (kill || seen === null || snapshot.latest <= seen) return null;
  return resumedByDaemon(place, snapshot, { state: stateOf(snapshot), strict });
}

/**
 * The result for an agent that this daemon resumed by its runbook before the request. Null: it did not, or an earlier
 * request reported it. With `--strict`, every request reports a new conversation as a refusal.
 */
function resumedByDaemon(
  { sinceMs, reported }: ResumeContext,
  snapshot: AgentSnapshot,
  { state, strict }: { readonly state: string; readonly strict: boolean },
): AgentResumeResult | null {
  const { attempts, history, run } = snapshot;
  const attempt = attempts.at(-1);
  if (run === null || attempt === undefined || Date.parse(attempt.startedAt) < sinceMs) return null;
  const decided = decisionFor(history, attempt.n);
  if (decided === undefined || decided.trigger === "user") return null;
  const facts = { already: true, ...attemptFacts(run, attempt) };
  const why = () => whyNewConversation(snapshot.agent, history, attempt.n);
  if (attempt.kind === "fresh" && strict) return { result: "strict", why: why(), ...facts };
  const key = `${run.runId}/${attempt.n}`;
  if (reported.has(key) || (attempt.kind !== "fresh" && attempt.kind !== "resume")) return null;
  // A nudge gives a headless agent its next attempt; that is not a resume.
  if (attempt.kind === "resume" && decided.action !== "resume") return null;
  reported.add(key);
  return attempt.kind === "resume"
    ? { result: "resumed", why: state, ...facts }
    : { result: "restarted", why: why(), ...facts };
}

function stateOf(snapshot: AgentSnapshot): string {
  const { state } = viewOf(snapshot);
  return state === "waiting"
    ? "it asks for permission; attach to it and answer, or stop it first"
    : `it is ${state}`;
}

/** What `agent resume` would do for an ended agent, as far as its run shows. */
export type ResumeForecast =
  | { readonly way: "resume" }
  /** Its conversation is lost: a new one would start. */
  | { readonly way: "fresh"; readonly why: string }
  /** It would be skipped. `todo`: the next step for the user. `later`: a resume works after that step. */
  | { readonly way: "none"; readonly why: string; readonly todo: string; readonly later: boolean };

export async function forecastResume(deps: Deps, agent: AgentRecord): Promise<ResumeForecast> {
  const run = await runOf(deps, agent);
  const anew = `Start it again: ${await startCommand(deps, agent)}`;
  if (run === null)
    return {
      way: "none",
      why: "it has no run: someone removed it, or it never started",
      todo: anew,
      later: false,
    };
  const snapshot = await takeSnapshot(deps, agent, run, UNWATCHED);
  const never = await whyNeverStarts(deps, snapshot);
  const { why, next } = await offerFor(deps, run);
  if (never !== null) {
    const todo = await correctionAdvice(deps, agent);
    return { way: "none", why: why ?? never, todo, later: false };
  }
  if (why === null) return { way: "resume" };
  const plan = await planNewConversation(deps, snapshot);
  if (plan !== null && !(plan instanceof Fault)) return { way: "fresh", why: plan.why };
  // Other offers for a run do not continue it.
  const todo = next.startsWith("reprise resume ") ? `First: ${next}` : `Look at it: reprise show ${agent.id}`;
  const bar = plan === null ? "" : `. A new conversation is not possible: ${plan.message.replace(/\.$/, "")}`;
  return { way: "none", why: `${why}${bar}`, todo, later: true };
}

/** A refusal with the command that helps, unless it is unknown or already named. */
async function withAdvice(deps: Deps, agent: AgentRecord, why: string): Promise<string> {
  const back = await forecastResume(deps, agent);
  const command = back.way === "none" ? /^First: (.*)$/.exec(back.todo)?.[1] : undefined;
  if (command === undefined || why.includes(command)) return why;
  return `${why} First: \`${command}\`. Then: \`${(await commandToResume(deps, agent.id)).command}\`.`;
}

/** The command that continues an agent. `pipeline`: the ended pipeline that continues with it. */
export interface ResumeCommand {
  readonly command: string;
  readonly pipeline: string | null;
}

export async function commandToResume(deps: Deps, id: string): Promise<ResumeCommand> {
  const alone = { command: `reprise agent resume ${id}`, pipeline: null };
  const agent = await agentOf(deps, id);
  const found = agent?.pipeline == null ? null : await getPipeline(deps, agent.pipeline.id);
  if (agent === null || found === null) return alone;
  const { record } = found;
  const isItsStep = stepRecordOf(record, record.step)?.agent === id;
  // The daemon may not have checked the pipeline since the agent was stopped.
  const isOver = record.phase === "failed" || record.phase === "cancelled" || agent.phase === "stopped";
  if (!isItsStep || !isOver || record.phase === "done") return alone;
  return { command: `reprise pipeline resume ${record.id}`, pipeline: record.id };
}

/** The same for a pipeline that failed or was cancelled. */
export async function forecastPipelineResume(deps: Deps, record: PipelineRecord): Promise<ResumeForecast> {
  const { definition, vars, workspace } = record;
  const moved = movedState(deps.state.root, workspace);
  if (moved !== null)
    return { way: "none", why: `it works ${movedWords(moved)}`, todo: `First: ${moved.back}`, later: true };
  if (!isDirectory(workspace)) {
    const todo = `Start a new one: ${runCommand("pipeline", definition.name, vars)}`;
    return { way: "none", why: `its workspace no longer exists: ${workspace}`, todo, later: false };
  }
  const stepRecord = stepRecordOf(record, record.step);
  const agent = stepRecord?.agent == null ? null : await agentOf(deps, stepRecord.agent);
  if (stepRecord?.agent != null && stepRecord.state !== "done" && agent === null)
    return { way: "fresh", why: `its agent ${stepRecord.agent} was removed` };
  if (agent === null || stepRecord?.state === "done" || agent.phase === "active" || agent.phase === "done")
    return { way: "resume" };
  return forecastResume(deps, agent);
}

/** The result as the store records it. */
async function recordedResult(
  { deps }: ActContext,
  snapshot: AgentSnapshot,
  done: ActResult,
): Promise<AgentResumeResult> {
  if (done.result !== "ok") return refused(done.detail);
  const run = await deps.store.getRun(snapshot.agent.runId);
  const attempt = (await deps.store.listAttempts(snapshot.agent.runId)).at(-1);
  const facts = run === null ? NOTHING : attemptFacts(run, attempt);
  if (attempt === undefined || attempt.n <= snapshot.latest)
    return { result: "told", why: done.detail, already: false, ...facts };
  if (attempt.kind === "resume") return { result: "resumed", why: done.detail, already: false, ...facts };
  const history = fromStored(await deps.store.listEvents(snapshot.agent.runId));
  const why =
    done.detail.split(NEW_CONVERSATION)[1] ?? whyNewConversation(snapshot.agent, history, attempt.n);
  return { result: "restarted", why, already: false, ...facts };
}

/** Why this attempt started a new conversation, as far as the log shows. */
function whyNewConversation(
  { runId }: AgentRecord,
  history: AgentSnapshot["history"],
  attempt: number,
): string {
  const key = decisionFor(history, attempt)?.key ?? `${runId}/`;
  const report = history.find((event) => event.kind === "carried_out" && event.key === key);
  const detail = report?.kind === "carried_out" ? report.detail : "";
  return detail.split(NEW_CONVERSATION)[1] ?? "the old one could not be continued";
}

/** The last decision for an attempt; earlier ones had no effect. */
function decisionFor(history: AgentSnapshot["history"], attempt: number): Decided | undefined {
  return history.findLast(
    (event): event is Decided => event.kind === "decided" && event.newAttempt === attempt,
  );
}

const NOTHING = { attempt: null, session: null, verified: false } as const;

function attemptFacts(
  run: RunRecord,
  attempt: AttemptRecord | undefined,
): Pick<AgentResumeResult, "attempt" | "session" | "verified" | "restored"> {
  const session = attempt?.asked ?? run.session.value;
  const verified = run.sessions.some(
    (one) => one.attempt === attempt?.n && one.value === session && one.verifiedAt !== null,
  );
  const restored = attempt?.restored === undefined ? {} : { restored: attempt.restored };
  return { attempt: attempt?.n ?? null, session, verified, ...restored };
}

function refused(why: string): AgentResumeResult {
  return { result: "refused", why, already: false, ...NOTHING };
}
