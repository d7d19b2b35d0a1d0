/**
 * Decisions: the questions to a person, with facts, the agent's last words and numbered options, and their answers.
 * Reprise stores both before it acts on them.
 */
import { Fault } from "../core/faults.ts";
import type { Trigger } from "../core/runbook.ts";
import type { AgentRecord, DecisionOption, DecisionRecord } from "../core/supervision.ts";
import { harmless, wholeSentences } from "../lib/harmless.ts";
import { screenOf } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import { offerFor, refusedStart } from "../run/inspect.ts";
import { redactorFor } from "../run/engine-setup.ts";
import type { Document } from "../store/store.ts";
import { toStored } from "./history.ts";
import type { AgentSnapshot } from "./snapshot.ts";
import { notifyOf } from "./decision-notice.ts";
import { agentOf, correctionAdvice } from "./pipelines.ts";
import { refuseSecretMessage } from "./secrets.ts";
import { type Decided, reportOf } from "./counts.ts";

const LAST_WORDS = { cols: 120, rows: 20 };
const MAX_WORDS = 4_000;
const MAX_WHAT = 2_000;

/** Returns the id of the question. It follows from the decision, so after a crash the same question is asked once. */
export async function escalate(deps: Deps, snapshot: AgentSnapshot, asked: AskedDecision): Promise<string> {
  const { decided } = asked;
  const id = `${snapshot.agent.id}-${decided.seq}`;
  const record = await newDecision(deps, snapshot, id, asked);
  await deps.store.saveDocument({ kind: "decision", id, open: true, data: { ...record } }, null);
  await deps.store.appendEvent(
    toStored(snapshot.agent.runId, {
      kind: "escalated",
      at: deps.clock.now(),
      attempt: decided.attempt,
      decision: id,
    }),
  );
  // The process that stored it may have died before the notification: better two notifications than none.
  const stored = await getDecision(deps, id);
  if (stored?.state === "open") await notifyOf(deps, stored);
  return id;
}

export interface AskedDecision {
  readonly decided: Decided;
  readonly why: string;
  /** Why the conversation cannot continue. Null: it can, or the answer is not known yet. */
  readonly toContinue: Fault | null;
  /** Why no new conversation can start. Null: it can. */
  readonly toBegin: Fault | null;
}

async function newDecision(
  deps: Deps,
  snapshot: AgentSnapshot,
  id: string,
  asked: AskedDecision,
): Promise<DecisionRecord> {
  const { agent } = snapshot;
  const { decided, why } = asked;
  const redact = redactorFor(deps.env, agent.definition.env);
  const trigger: Trigger = decided.trigger === "user" ? "dead" : decided.trigger;
  const tried = triedBefore(snapshot.history, decided);
  const refused = snapshot.run === null ? null : refusedStart(snapshot.run, snapshot.attempts);
  const what =
    refused === null
      ? [why, ...(await obstaclesOf(deps, snapshot, asked, `${why} ${tried ?? ""}`))]
          .map(withoutDot)
          .join(". ")
      : `${why}. Its engine refused to start (${withoutDot(refused)}). ${await correctionAdvice(deps, agent)}.`;
  return {
    v: 1,
    id,
    agentId: agent.id,
    runId: agent.runId,
    attempt: decided.attempt,
    trigger,
    what: wholeSentences(redact(what), MAX_WHAT),
    trouble: troubleOf(snapshot),
    ...(tried === null ? {} : { tried: harmless(redact(tried)) }),
    lastWords: redact(await lastWords(deps, snapshot)).slice(-MAX_WORDS),
    options: optionsFor(trigger, snapshot, asked).map((option, at) => ({ n: at + 1, ...option })),
    state: "open",
    choice: null,
    createdAt: new Date(deps.clock.now()).toISOString(),
  };
}

/** The obstacles to continuing and a command that helps, without repeating `said`. */
async function obstaclesOf(
  deps: Deps,
  { run }: AgentSnapshot,
  { toContinue, toBegin }: AskedDecision,
  said: string,
): Promise<readonly string[]> {
  const bars = [toContinue, toBegin].flatMap((bar) => (bar === null ? [] : [bar.message]));
  const unsaid = bars.filter((bar) => !said.includes(withoutDot(bar))).map(asSentence);
  if (run === null || toBegin === null) return unsaid;
  const { next } = await offerFor(deps, run);
  const isWay = next.startsWith("reprise resume ") && ![said, ...bars].some((text) => text.includes(next));
  return isWay ? [...unsaid, `Continue by hand: \`${next}\``] : unsaid;
}

const asSentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
const withoutDot = (text: string) => text.replace(/\.$/, "");

/** The last decision about this trigger, if it failed. */
function triedBefore(history: AgentSnapshot["history"], { seq, attempt, trigger }: Decided): string | null {
  const last = history.findLast(
    (event): event is Decided => event.kind === "decided" && event.attempt === attempt && event.seq < seq,
  );
  const report = last?.trigger === trigger ? reportOf(history, last.key) : null;
  return last === undefined || report === null || report.result === "ok"
    ? null
    : `${last.action}: ${report.detail}`;
}

function troubleOf({ seen }: AgentSnapshot): DecisionRecord["trouble"] {
  if (seen.is === "ended") return seen.outcome.trouble ?? null;
  if (seen.is !== "live" || seen.observed.activity.state !== "error") return null;
  return seen.observed.activity.trouble;
}

/** Empty if the tape cannot be read: the question is useful without them. */
async function lastWords(deps: Deps, { run, seen }: AgentSnapshot): Promise<string> {
  if (run === null) return "";
  try {
    const attempt = seen.is === "ended" ? seen.attempt : run.attempts;
    return harmless(await screenOf(deps, run, attempt, LAST_WORDS));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return "";
  }
}

type Option = Omit<DecisionOption, "n">;
const OPTIONS = {
  resume: { label: "continue the conversation (with -m: with this message)", does: "resume" },
  kill: { label: "end the process and continue the conversation", does: "resume" },
  killFresh: { label: "end the process and start a new conversation with the prompt", does: "fresh" },
  nudge: { label: "tell it to continue (with -m: send this message)", does: "nudge" },
  fresh: { label: "start a new conversation with the prompt (with -m: with this message)", does: "fresh" },
  done: { label: "the work is done: end the agent", does: "done" },
  fail: { label: "give up: end the agent as failed", does: "fail" },
  again: { label: "try to start again with the same options", does: "fresh" },
  dismiss: { label: "leave it as it is (attach to it and answer it yourself)", does: "dismiss" },
  leave: { label: "leave it as it is", does: "dismiss" },
} as const satisfies Record<string, Option>;

/** Offers only possible options: a lost conversation offers neither resume nor nudge. */
function optionsFor(
  trigger: Trigger,
  { seen, agent, run, attempts }: AgentSnapshot,
  { toContinue, toBegin }: AskedDecision,
): readonly Option[] {
  const { resume, kill, killFresh, nudge, fresh, done, fail, again, dismiss, leave } = OPTIONS;
  if (run !== null && refusedStart(run, attempts) !== null) return [fail, again, leave];
  if (seen.is === "unresponsive") return [run?.sessions.length === 0 ? killFresh : kill, fail, leave];
  if (trigger === "prompt") return [dismiss, done, fail];
  const anew = toBegin === null ? [fresh] : [];
  // An ended process cannot be attached to.
  const stay = seen.is === "live" ? dismiss : leave;
  if (toContinue !== null) return [...anew, done, fail, stay];
  if (trigger === "idle") return [nudge, done, fail, stay];
  const isLive = seen.is === "live" && agent.definition.mode === "interactive";
  return isLive ? [resume, done, fail, stay] : [resume, ...anew, done, fail, stay];
}

function readDecision(document: Document): DecisionRecord {
  // Only Reprise writes documents, with a checksum.
  return document.data as unknown as DecisionRecord;
}

export async function getDecision(deps: Deps, id: string): Promise<DecisionRecord | null> {
  const document = await deps.store.getDocument("decision", id);
  return document === null ? null : readDecision(document);
}

/** Oldest first. Shows a decision as overtaken even if the daemon has not checked its agent yet. */
export async function listDecisions(
  deps: Deps,
  { open }: { readonly open?: true } = {},
): Promise<readonly DecisionRecord[]> {
  const documents = await deps.store.listDocuments("decision", open === undefined ? {} : { open });
  const decisions: DecisionRecord[] = [];
  for (const record of documents.map(readDecision)) {
    const isPast = record.state === "open" && (await isOutdated(deps, record));
    if (open === undefined || !isPast) decisions.push(isPast ? { ...record, state: "overtaken" } : record);
  }
  return decisions;
}

/** The agent has a newer attempt than the question, or has ended. */
async function isOutdated(deps: Deps, { agentId, runId, attempt }: DecisionRecord): Promise<boolean> {
  try {
    const agent = await agentOf(deps, agentId);
    const attempts = (await deps.store.getRun(runId))?.attempts ?? 0;
    return agent?.phase !== "active" || attempts > attempt;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return false;
  }
}

/**
 * Stores a person's choice; the daemon carries it out, now or at its next start. Faults: the decision is unknown,
 * resolved or overtaken, or has no such option.
 */
export async function resolveDecision(
  deps: Deps,
  id: string,
  n: number,
  message: string | null,
): Promise<DecisionRecord> {
  for (;;) {
    const document = await deps.store.getDocument("decision", id);
    if (document === null)
      throw new Fault("handle_unknown", `There is no decision ${id}. Run: reprise decisions list`);
    const record = readDecision(document);
    const option = record.options.find((one) => one.n === n);
    if (record.state !== "open" || (await isOutdated(deps, record))) throw lateAnswerFault(record);
    if (option === undefined)
      throw new Fault("usage", `Decision ${id} has the options 1 to ${record.options.length}.`);
    const agent = message === null ? null : await agentOf(deps, record.agentId);
    if (agent !== null && message !== null) refuseSecretMessage(deps, agent.definition, message);
    const at = deps.clock.now();
    const choice = { n, message, at: new Date(at).toISOString() };
    const resolved: DecisionRecord = { ...record, state: "resolved", choice };
    if (!(await replace(deps, document, resolved))) continue;
    await appendAnswer(deps, resolved, option.does);
    return resolved;
  }
}

/** The fault for an answer to a closed question. */
export function lateAnswerFault({ id, agentId, state }: DecisionRecord): Fault {
  const facts = { id, state: state === "resolved" ? state : "overtaken" };
  const what =
    state === "resolved"
      ? "is already resolved."
      : `is overtaken: its agent has continued or ended since. Look at it: reprise agent show ${agentId}`;
  return new Fault("usage", `Decision ${id} ${what}`, { facts });
}

async function appendAnswer(
  deps: Deps,
  { runId, attempt, id }: DecisionRecord,
  choice: string,
): Promise<void> {
  const at = deps.clock.now();
  await deps.store.appendEvent(toStored(runId, { kind: "answered", at, attempt, decision: id, choice }));
}

/** Appends missing events of answers: a process may have died after it stored the document. True: it appended some. */
export async function restoreAnswerEvents(
  deps: Deps,
  { history, openDecision }: AgentSnapshot,
): Promise<boolean> {
  const heard = new Set(history.flatMap((event) => (event.kind === "answered" ? [event.decision] : [])));
  let mended = false;
  for (const event of history) {
    if (event.kind !== "escalated" || event.decision === openDecision || heard.has(event.decision)) continue;
    const record = await getDecision(deps, event.decision);
    const option = record?.options.find((one) => one.n === record.choice?.n);
    if (record?.state !== "resolved" || option === undefined) continue;
    await appendAnswer(deps, record, option.does);
    mended = true;
  }
  return mended;
}

/** Closes a question that no longer fits the agent's state, even if its answer is not carried out yet. */
export async function markOvertaken(deps: Deps, id: string): Promise<void> {
  const document = await deps.store.getDocument("decision", id);
  if (document === null) return;
  const record = readDecision(document);
  if (record.state !== "overtaken") await replace(deps, document, { ...record, state: "overtaken" });
}

/** Closes the questions about an ended agent. */
export async function markAllOvertaken(deps: Deps, agent: AgentRecord): Promise<void> {
  for (const document of await deps.store.listDocuments("decision", { open: true })) {
    if (readDecision(document).agentId === agent.id) await markOvertaken(deps, document.id);
  }
}

async function replace(deps: Deps, { id, version }: Document, record: DecisionRecord): Promise<boolean> {
  const change = { kind: "decision", id, open: record.state === "open", data: { ...record } };
  return (await deps.store.saveDocument(change, version)) !== null;
}
