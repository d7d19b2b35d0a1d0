/**
 * `agent resume`: an agent that is not running goes on, and what came of it is told as it is: the same conversation, a new
 * one and why, running already, or not at all. What is told comes from the record of the attempt, not from the intention.
 */
import { isDirectory, movedState, movedWords } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { AgentRecord, PipelineRecord } from "../core/supervision.ts";
import { type Deps } from "../run/run.ts";
import { offerFor } from "../run/inspect.ts";
import {
  type ActResult,
  type ActContext,
  NEW_CONVERSATION,
  planAnew,
  planFor,
  whyNeverBegins,
  whyNotContinued,
} from "./act.ts";
import { actForUser } from "./advance.ts";
import { endAgent, getAgent, reopenAgent } from "./agents.ts";
import { fromStored, toStored } from "./history.ts";
import { type Look, lookAt, runOf, UNWATCHED, viewOf } from "./look.ts";
import { agentOf, correction, getPipeline, runCommand, startCommand } from "./pipelines.ts";
import { entryOf } from "./reduce.ts";
import type { Roster } from "./roster.ts";
import type { Decided } from "./tally.ts";

export interface BringBackOptions {
  /** A live one is ended first. */
  readonly kill: boolean;
  /** Also one that has ended. */
  readonly ended: boolean;
  /** It had not ended when the person asked: what brought it to its end since then counts. */
  readonly wasActive: boolean;
  /** No new conversation may begin. */
  readonly strict: boolean;
  /** The attempts that it had when the person asked; null: nobody looked. */
  readonly seen: number | null;
}

export interface BroughtBack {
  /**
   * resumed: in its conversation. restarted: in a new one. told: it was alive and was told to go on. running: it is alive, and
   * nothing was done. refused: it could not be, and nothing was started. strict: only a new conversation would have been
   * possible, or (`already`) the supervisor has begun one.
   */
  readonly result: "resumed" | "restarted" | "told" | "running" | "refused" | "strict";
  /** One sentence: why a new conversation, why not, or what a running one is doing. */
  readonly why: string;
  /** The supervisor had brought it back by itself, since it was started. */
  readonly already: boolean;
  readonly attempt: number | null;
  readonly session: string | null;
  /** The engine has reported the conversation that was asked for, or its store confirms it. */
  readonly verified: boolean;
  /** The run's copy of the conversation was put back; what was said and is not in it, one sentence each. */
  readonly restored?: { readonly lacks: readonly string[] };
  /** Of a refusal: no later try can help. */
  readonly never?: true;
  /** Of one that is running: what `--kill` would do after it ended it; absent: `--kill` would be refused. */
  readonly kill?: "resume" | "fresh";
}

interface Place {
  readonly deps: Deps;
  readonly roster: Pick<Roster, "ask">;
  /** When this supervisor was started. */
  readonly sinceMs: number;
  /** The attempts that a person was told of as brought back: `<runId>/<attempt>`. */
  readonly told: Set<string>;
}

/** Nothing is changed before it is certain that it will be tried. */
export async function bringBack(place: Place, id: string, options: BringBackOptions): Promise<BroughtBack> {
  const { deps, roster } = place;
  const found = await getAgent(deps, id);
  if (found === null) throw new Fault("handle_unknown", `There is no agent ${id}.`);
  if (found.record.phase !== "active") {
    const run = await runOf(deps, found.record);
    const ended = `it is ${found.record.phase}`;
    if (run === null) return refused(options.ended ? "its run is gone, or was never started" : ended);
    const look = await lookAt(deps, found.record, run, UNWATCHED);
    const back = options.wasActive ? alreadyBack(place, look, { state: ended, ...options }) : null;
    if (back !== null || !options.ended) return back ?? refused(ended);
    const bar = await barTo(deps, look, options);
    if (bar !== null) return bar;
    if (options.strict) await forbidNew(deps, look);
    if ((await reopenAgent(deps, found)) === null) return refused("somebody else was faster");
  }
  let said: BroughtBack | null = null;
  const done = await roster.ask(id, async (hand, look) => {
    if (options.strict && look.run?.status !== "running") await forbidNew(deps, look);
    said =
      running(place, look, options) ?? backSince(place, look, options) ?? (await barTo(deps, look, options));
    if (said !== null) return { result: "refused", detail: said.why };
    // One that is ended first is its runbook's as soon as it has ended.
    if (options.strict && options.kill) await forbidNew(deps, look);
    const did = await actForUser(hand, look, {
      action: "resume",
      message: null,
      ...(options.kill ? { how: "kill" as const } : {}),
      ...(options.strict ? { strict: true as const } : {}),
    });
    // One that had ended and cannot be brought back is as it was: nothing is asked about it.
    const { phase, reason } = found.record;
    if (did.result !== "ok" && phase !== "active") await endAgent(deps, id, phase, reason ?? "");
    said = await toldOf(hand, look, did);
    if (did.result === "failed") said = { ...said, why: await withWay(deps, found.record, said.why) };
    return did;
  });
  return said ?? refused(done.detail);
}

/**
 * `--strict`, stored before the supervisor is asked or even started: a supervisor that starts acts by its runbooks at once.
 * A live agent needs no such note, and would keep it for an end that comes much later.
 */
export async function keepConversation(deps: Deps, agent: AgentRecord): Promise<void> {
  const run = await runOf(deps, agent);
  if (run !== null && run.status !== "running")
    await forbidNew(deps, await lookAt(deps, agent, run, UNWATCHED));
}

async function forbidNew({ store, clock }: Deps, { agent, latest }: Look): Promise<void> {
  await store.appendEvent(toStored(agent.runId, { kind: "strict", at: clock.now(), attempt: latest }));
}

/** Why it is not even tried; null: it is. */
async function barTo(
  deps: Deps,
  look: Look,
  { kill, strict }: BringBackOptions,
): Promise<BroughtBack | null> {
  const plan = planFor(look, { message: null, append: true, kill });
  if (plan.do === "refuse") return refused(plan.why);
  const never = await whyNeverBegins(deps, look);
  if (never !== null) return { ...refused(never), never: true };
  if (!strict || plan.do === "nudge") return null;
  const why = await whyNotContinued(deps, look);
  return why === null ? null : { ...refused(why), result: "strict" };
}

/** It is alive and is left alone; null: it is not, or it shall not be. */
function running(place: Place, look: Look, { kill, strict }: BringBackOptions): BroughtBack | null {
  const plan = planFor(look, { message: null, append: true, kill });
  if (kill || look.run?.status !== "running" || plan.do !== "refuse") return null;
  const why = stateOf(look);
  const facts = factsOf(look.run, look.attempts.at(-1));
  const killed = planFor(look, { message: null, append: true, kill: true }).do;
  const then =
    killed === "refuse"
      ? {}
      : { kill: killed === "kill_and_fresh" ? ("fresh" as const) : ("resume" as const) };
  return (
    alreadyBack(place, look, { state: why, strict }) ?? {
      ...{ result: "running", why, already: false },
      ...facts,
      ...then,
    }
  );
}

/** Since the person asked it was brought back, and its turn is over already: it is not told to go on a second time. */
function backSince(place: Place, look: Look, { kill, seen, strict }: BringBackOptions): BroughtBack | null {
  if (kill || seen === null || look.latest <= seen) return null;
  return alreadyBack(place, look, { state: stateOf(look), strict });
}

/**
 * This supervisor has brought it back by its runbook before it was asked to; null: it has not, or that was told. A new
 * conversation is none for `--strict`, however often it is asked.
 */
function alreadyBack(
  { sinceMs, told }: Place,
  look: Look,
  { state, strict }: { readonly state: string; readonly strict: boolean },
): BroughtBack | null {
  const { attempts, history, run } = look;
  const attempt = attempts.at(-1);
  if (run === null || attempt === undefined || Date.parse(attempt.startedAt) < sinceMs) return null;
  const decided = decidedOf(history, attempt.n);
  if (decided === undefined || decided.trigger === "user") return null;
  const facts = { already: true, ...factsOf(run, attempt) };
  const why = () => whyNew(look.agent, history, attempt.n);
  if (attempt.kind === "fresh" && strict) return { result: "strict", why: why(), ...facts };
  const key = `${run.runId}/${attempt.n}`;
  if (told.has(key) || (attempt.kind !== "fresh" && attempt.kind !== "resume")) return null;
  // A headless agent that was nudged got its next attempt, and was not gone.
  if (attempt.kind === "resume" && decided.action !== "resume") return null;
  told.add(key);
  return attempt.kind === "resume"
    ? { result: "resumed", why: state, ...facts }
    : { result: "restarted", why: why(), ...facts };
}

function stateOf(look: Look): string {
  const { state } = viewOf(look);
  return state === "waiting"
    ? "it asks for permission; attach to it and answer, or stop it first"
    : `it is ${state}`;
}

/** What `agent resume` would do for an agent that has ended, as far as its run tells. */
export type WayBack =
  | { readonly way: "resume" }
  /** Its conversation is gone: a new one begins. */
  | { readonly way: "fresh"; readonly why: string }
  /** It would be skipped. `todo`: what helps, one sentence. `later`: after that it can be resumed. */
  | { readonly way: "none"; readonly why: string; readonly todo: string; readonly later: boolean };

export async function wayBack(deps: Deps, agent: AgentRecord): Promise<WayBack> {
  const run = await runOf(deps, agent);
  const anew = `Start it again: ${await startCommand(deps, agent)}`;
  if (run === null)
    return { way: "none", why: "its run is gone, or was never started", todo: anew, later: false };
  const look = await lookAt(deps, agent, run, UNWATCHED);
  const never = await whyNeverBegins(deps, look);
  const { why, next } = await offerFor(deps, run);
  if (never !== null) {
    const todo = await correction(deps, agent);
    return { way: "none", why: why ?? never, todo, later: false };
  }
  if (why === null) return { way: "resume" };
  const plan = await planAnew(deps, look);
  if (plan !== null && !(plan instanceof Fault)) return { way: "fresh", why: plan.why };
  // What else is offered for a run is no way to continue it.
  const todo = next.startsWith("reprise resume ") ? `First: ${next}` : `Look at it: reprise show ${agent.id}`;
  const bar = plan === null ? "" : `. No new conversation can begin: ${plan.message.replace(/\.$/, "")}`;
  return { way: "none", why: `${why}${bar}`, todo, later: true };
}

/** A refusal with the command that helps, where there is one and the refusal does not name it. */
async function withWay(deps: Deps, agent: AgentRecord, why: string): Promise<string> {
  const back = await wayBack(deps, agent);
  const command = back.way === "none" ? /^First: (.*)$/.exec(back.todo)?.[1] : undefined;
  if (command === undefined || why.includes(command)) return why;
  return `${why} First: \`${command}\`. Then: \`${(await backCommand(deps, agent.id)).command}\`.`;
}

/** What brings an agent back. `pipeline`: it has failed with its agent, or was cancelled, and goes on by the same command. */
export interface BackCommand {
  readonly command: string;
  readonly pipeline: string | null;
}

export async function backCommand(deps: Deps, id: string): Promise<BackCommand> {
  const alone = { command: `reprise agent resume ${id}`, pipeline: null };
  const agent = await agentOf(deps, id);
  const found = agent?.pipeline == null ? null : await getPipeline(deps, agent.pipeline.id);
  if (agent === null || found === null) return alone;
  const { record } = found;
  const isItsStep = entryOf(record, record.step)?.agent === id;
  // The supervisor may not have looked since the agent was stopped.
  const isOver = record.phase === "failed" || record.phase === "cancelled" || agent.phase === "stopped";
  if (!isItsStep || !isOver || record.phase === "done") return alone;
  return { command: `reprise pipeline resume ${record.id}`, pipeline: record.id };
}

/** The same for a pipeline that has ended before it was done. */
export async function pipelineWayOn(deps: Deps, record: PipelineRecord): Promise<WayBack> {
  const { definition, vars, workspace } = record;
  const moved = movedState(deps.state.root, workspace);
  if (moved !== null)
    return { way: "none", why: `it works ${movedWords(moved)}`, todo: `First: ${moved.back}`, later: true };
  if (!isDirectory(workspace)) {
    const todo = `Start a new one: ${runCommand("pipeline", definition.name, vars)}`;
    return { way: "none", why: `its workspace is gone: ${workspace}`, todo, later: false };
  }
  const entry = entryOf(record, record.step);
  const agent = entry?.agent == null ? null : await agentOf(deps, entry.agent);
  if (entry?.agent != null && entry.state !== "done" && agent === null)
    return { way: "fresh", why: `its agent ${entry.agent} was removed` };
  if (agent === null || entry?.state === "done" || agent.phase === "active" || agent.phase === "done")
    return { way: "resume" };
  return wayBack(deps, agent);
}

/** What was carried out, as it is recorded now. */
async function toldOf({ deps }: ActContext, look: Look, done: ActResult): Promise<BroughtBack> {
  if (done.result !== "ok") return refused(done.detail);
  const run = await deps.store.getRun(look.agent.runId);
  const attempt = (await deps.store.listAttempts(look.agent.runId)).at(-1);
  const facts = run === null ? NOTHING : factsOf(run, attempt);
  if (attempt === undefined || attempt.n <= look.latest)
    return { result: "told", why: done.detail, already: false, ...facts };
  if (attempt.kind === "resume") return { result: "resumed", why: done.detail, already: false, ...facts };
  const history = fromStored(await deps.store.listEvents(look.agent.runId));
  const why = done.detail.split(NEW_CONVERSATION)[1] ?? whyNew(look.agent, history, attempt.n);
  return { result: "restarted", why, already: false, ...facts };
}

/** Why this attempt began a new conversation, as far as it was noted. */
function whyNew({ runId }: AgentRecord, history: Look["history"], attempt: number): string {
  const key = decidedOf(history, attempt)?.key ?? `${runId}/`;
  const report = history.find((event) => event.kind === "carried_out" && event.key === key);
  const detail = report?.kind === "carried_out" ? report.detail : "";
  return detail.split(NEW_CONVERSATION)[1] ?? "the old one could not be continued";
}

/** The last decision for an attempt: earlier ones came to nothing. */
function decidedOf(history: Look["history"], attempt: number): Decided | undefined {
  return history.findLast(
    (event): event is Decided => event.kind === "decided" && event.newAttempt === attempt,
  );
}

const NOTHING = { attempt: null, session: null, verified: false } as const;

function factsOf(
  run: RunRecord,
  attempt: AttemptRecord | undefined,
): Pick<BroughtBack, "attempt" | "session" | "verified" | "restored"> {
  const session = attempt?.asked ?? run.session.value;
  const verified = run.sessions.some(
    (one) => one.attempt === attempt?.n && one.value === session && one.verifiedAt !== null,
  );
  const restored = attempt?.restored === undefined ? {} : { restored: attempt.restored };
  return { attempt: attempt?.n ?? null, session, verified, ...restored };
}

function refused(why: string): BroughtBack {
  return { result: "refused", why, already: false, ...NOTHING };
}
