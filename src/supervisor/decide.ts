/**
 * Decides the next action for one agent: facts in, one decision out. Pure.
 *
 * The daemon observes, calls `decide`, stores the decision under its key and only then acts (I8). The same situation has
 * the same key in every process, so a crash in between loses nothing and repeats nothing.
 */
import type { Trouble } from "../core/events.ts";
import type { ActionName, AgentMode, PolicyEntry, Trigger } from "../core/runbook.ts";
import type { AgentRecord, SupervisionEvent } from "../core/supervision.ts";
import { plausibleTime, dueAt, earliestTry, LONGEST_WAIT_MS, resetOf } from "./delay.ts";
import {
  type NoActionReason,
  type EndedAttempt,
  type Occurrence,
  occurrenceOf,
  type NoAction,
  type ProcessState,
} from "./occurrence.ts";
import {
  type Decided,
  failuresOf,
  inFlight,
  lastDecided,
  ordinalOf,
  reportOf,
  restartsOf,
  triesOf,
  unstartedOf,
} from "./counts.ts";

export interface SupervisionFacts {
  /** Wall clock, milliseconds. */
  readonly now: number;
  readonly agent: AgentRecord;
  /** The attempt of `seen`, and the newest attempt of the run. */
  readonly attempt: number;
  readonly latest: number;
  readonly seen: ProcessState;
  /** Earlier attempts that have ended. */
  readonly ended: readonly EndedAttempt[];
  /** Everything about this run, in order of `seq`. */
  readonly history: readonly SupervisionEvent[];
  /** The open question to a person. Null: none. */
  readonly openDecision: string | null;
  /** When the wall clock last jumped by more than 10 s. Null: never. */
  readonly clockJumpMs: number | null;
  /** In [0, 1), constant per attempt (`jitterOf`). */
  readonly jitter: number;
}

export type NextAction =
  | { readonly do: "nothing"; readonly because: NoActionReason; readonly why: string }
  | {
      readonly do: "wait";
      /** Always later than now. */
      readonly untilMs: number;
      readonly trigger: Trigger;
      /** The action at that time, if nothing changes. */
      readonly next: ActionName;
      readonly why: string;
    }
  | ({ readonly do: "act"; readonly entry: PolicyEntry; readonly tries: number } & PendingDecision)
  /** No entry is left: Reprise asks a person. `position` is one after the last entry. */
  | ({ readonly do: "exhausted" } & PendingDecision);

/** The part that Reprise stores before it acts. */
interface PendingDecision {
  readonly trigger: Trigger;
  readonly position: number;
  readonly count: number;
  /** `<runId>/<attempt>/<trigger>/<position>/<count>` */
  readonly key: string;
  readonly why: string;
  readonly trouble: Trouble | null;
}

const GRACE_MS = 60_000;

export function decide(facts: SupervisionFacts): NextAction {
  const { agent, now } = facts;
  const quiet = whyNoAction(facts);
  if (quiet !== null) return { do: "nothing", ...quiet };
  const { policy, mode } = agent.definition;
  const found = occurrenceOf(facts.seen, mode, policy.idleAfterMs);
  if ("because" in found) return { do: "nothing", ...found };
  const choice = chooseEntry(facts, found);
  const answered = earlierAnswer(facts, found);
  if (answered !== null && answered.do !== "wait") return answered;
  const times = {
    grace: graceOf(facts, found),
    settles: answered?.untilMs ?? 0,
    due: dueOf(facts, found, choice),
  };
  const untilMs = Math.ceil(Math.max(...Object.values(times)));
  if (choice.entry !== null && !found.certain && choice.entry.action !== "escalate") {
    const why = "it may be waiting for permission: the engine does not report its state";
    return { do: "nothing", because: "uncertain", why };
  }
  if (untilMs > now) {
    const why = times.grace >= untilMs ? "the clock jumped, so Reprise waits before it acts" : found.what;
    return { do: "wait", untilMs, trigger: found.trigger, next: choice.entry?.action ?? "escalate", why };
  }
  if (choice.entry === null) {
    return {
      do: "exhausted",
      ...pendingDecision(facts, found, policy.on[found.trigger].length),
      why: choice.why,
    };
  }
  return {
    do: "act",
    entry: choice.entry,
    tries: choice.tries.length + 1,
    ...pendingDecision(facts, found, choice.position),
  };
}

/** Reasons to leave the agent alone that do not depend on its state. */
function whyNoAction(facts: SupervisionFacts): NoAction | null {
  const { agent, attempt, latest, history, openDecision } = facts;
  if (agent.phase !== "active") return { because: "ended", why: `the agent is ${agent.phase}` };
  if (attempt < latest) return { because: "stale", why: `attempt ${attempt} was followed by ${latest}` };
  const open = inFlight(history, attempt, latest);
  if (open !== null) return { because: "in_flight", why: `${open.action} is being carried out` };
  return openDecision === null ? null : { because: "asked", why: `decision ${openDecision} is open` };
}

/** An earlier answer to this same occurrence, if it still counts. */
function earlierAnswer(
  facts: SupervisionFacts,
  found: Occurrence,
): Exclude<NextAction, { readonly do: "wait" }> | Settling | null {
  const { history, attempt, agent, now } = facts;
  const last = lastDecided(history, attempt, plausibleTime(found.sinceMs, now));
  const report = last === null ? null : reportOf(history, last.key);
  if (last === null || report === null) return null;
  const settles = (ms: number): Settling => ({ do: "wait", untilMs: plausibleTime(report.at, now) + ms });
  const { policy } = agent.definition;
  if (last.trigger === "user" && report.result !== "ok") {
    const why = `${last.action}: ${report.detail}`;
    return { do: "exhausted", ...pendingDecision(facts, found, policy.on[found.trigger].length), why };
  }
  if (last.action === "nudge" || last.action === "resume") {
    return facts.seen.is !== "live"
      ? null
      : settles(found.trigger === "idle" ? policy.idleAfterMs : SETTLE_MS);
  }
  if (last.trigger !== found.trigger) return null;
  if (last.action === "escalate") {
    if (report.result !== "ok") return settles(ASK_AGAIN_MS);
    // A completed turn that was reported late has overtaken the question, and the state persists.
    if (history.some((event) => event.kind === "progress" && event.seq > report.seq)) return null;
    return { do: "nothing", because: "settled", why: "a person was asked and dismissed the question" };
  }
  if (last.action !== "gate" || report.result !== "ok") return null;
  if (found.trigger === "error" || found.trigger === "prompt") {
    return { do: "nothing", because: "settled", why: "its gate passed; Reprise acts when this occurs again" };
  }
  const why = "its gate passed";
  return { do: "act", entry: DONE, tries: 1, ...pendingDecision(facts, found, last.position), why };
}

/** After a message, an agent needs a moment before its state changes; nothing else is tried until then. */
interface Settling {
  readonly do: "wait";
  readonly untilMs: number;
}

const SETTLE_MS = 30_000;
/** How long to wait before a failed question is asked again. */
const ASK_AGAIN_MS = 60_000;

type EntryChoice =
  | { readonly entry: PolicyEntry; readonly position: number; readonly tries: readonly Decided[] }
  | { readonly entry: null; readonly why: string };

/** The first entry that matches, has tries left and is allowed. */
function chooseEntry(facts: SupervisionFacts, found: Occurrence): EntryChoice {
  const { policy, mode } = facts.agent.definition;
  const entries = policy.on[found.trigger];
  if (found.asks !== null) return { entry: null, why: found.asks };
  if (entries.length === 0) {
    if (found.completed) return { entry: DONE, position: 0, tries: [] };
    return { entry: null, why: `${found.what}, and the runbook has no on_${found.trigger}` };
  }
  let why = `${found.what}, and no entry of on_${found.trigger} matches`;
  for (const [position, entry] of entries.entries()) {
    if (!answers(entry, found)) continue;
    const tries = triesOf(facts.history, { trigger: found.trigger, position, action: entry.action });
    const spent = whySpent(facts, found, entry, tries);
    if (spent !== null) {
      why = `${found.what}, and ${spent}`;
      continue;
    }
    const bar = startsProcess(entry, facts.seen, mode)
      ? whyNoRestart(facts, found)
      : whyNoRetry(facts, found, entry);
    if (bar === null) return { entry, position, tries };
    why = `${found.what}, and Reprise does not restart it: ${bar}`;
  }
  return { entry: null, why };
}

/** Why this entry has no tries left. Null: it has some. */
function whySpent(
  facts: SupervisionFacts,
  found: Occurrence,
  entry: PolicyEntry,
  tries: readonly Decided[],
): string | null {
  const { attempt, now } = facts;
  // A gate checks the work, which does not change during one state.
  const since = plausibleTime(found.sinceMs, now);
  const isOfThis = (one: Decided) => one.attempt === attempt && plausibleTime(one.at, now) >= since;
  const hasLooked = entry.action === "gate" && tries.some(isOfThis);
  if (tries.length < entry.attempts && !hasLooked) return null;
  const times = `${tries.length} ${tries.length === 1 ? "time" : "times"}`;
  return `${entry.action} was tried ${times}${whyItFailed(facts, tries)}`;
}

/** The failure of the last try, as an appendix to a sentence. Empty: it did not fail. */
function whyItFailed({ history }: SupervisionFacts, tries: readonly Decided[]): string {
  const last = tries.at(-1);
  const report = last === undefined ? null : reportOf(history, last.key);
  const [words = ""] = report?.detail.split("\n") ?? [];
  return report === null || report.result === "ok" || words === "" ? "" : `: ${words}`;
}

function answers(entry: PolicyEntry, { trigger, trouble }: Occurrence): boolean {
  return trigger !== "error" || entry.match === "any" || entry.match === trouble?.kind;
}

/** A nudge of a headless agent starts a process; a live UI gets the message typed. */
function startsProcess(entry: PolicyEntry, seen: ProcessState, mode: AgentMode): boolean {
  if (entry.action === "nudge") return mode === "headless";
  return entry.action === "resume" && seen.is !== "live";
}

const MOST_FAILURES = 5;

/** Why no process may start now. Null: it may. */
function whyNoRestart(facts: SupervisionFacts, found: Occurrence): string | null {
  const { agent, latest, seen, ended, history } = facts;
  const { policy, mode } = agent.definition;
  const { maxAttempts } = policy;
  if (maxAttempts !== null && latest >= maxAttempts) return `max_attempts is ${maxAttempts}`;
  const all = seen.is === "ended" ? [...ended, seen] : ended;
  const unstarted = unstartedOf(history, latest);
  const failures = failuresOf(history, all, mode) + unstarted.length;
  if (failures >= MOST_FAILURES)
    return `it has failed too often without a completed turn${whyItFailed(facts, unstarted)}`;
  return found.noRestart ?? whyTroubleStays(facts, found);
}

function whyNoRetry(facts: SupervisionFacts, found: Occurrence, entry: PolicyEntry): string | null {
  return entry.action === "resume" ? whyTroubleStays(facts, found) : null;
}

/** A retry does not help against these. */
const LASTING: Readonly<Partial<Record<Trouble["kind"], string>>> = {
  auth: "its engine asks for a login",
  quota: "its quota is used up",
  session_lost: "its engine has lost the conversation",
  usage: "its engine refused its command line",
};

function whyTroubleStays({ now }: SupervisionFacts, { trouble, sinceMs }: Occurrence): string | null {
  if (trouble === null) return null;
  const reset = trouble.kind === "rate_limited" ? resetOf(trouble, sinceMs) : null;
  if (reset !== null && reset - now > LONGEST_WAIT_MS) {
    return `its limit ends at ${new Date(reset).toISOString()}, and Reprise waits 8 days at most`;
  }
  return LASTING[trouble.kind] ?? null;
}

/** After a sleep every agent looks dead or idle. A jump in the future means that the clock was set back since. */
function graceOf({ clockJumpMs, now }: SupervisionFacts, { trigger }: Occurrence): number {
  if (clockJumpMs === null || clockJumpMs > now || trigger === "error" || trigger === "prompt") return 0;
  return clockJumpMs + GRACE_MS;
}

function dueOf(facts: SupervisionFacts, found: Occurrence, choice: EntryChoice): number {
  if (choice.entry === null) return dueAt(found, facts.now);
  const { now, jitter, history } = facts;
  const { entry, tries } = choice;
  return earliestTry({ now, jitter, occurrence: found, entry, tries, restarts: restartsOf(history) });
}

function pendingDecision(facts: SupervisionFacts, found: Occurrence, position: number): PendingDecision {
  const { agent, attempt, history } = facts;
  const { trigger, trouble, what } = found;
  const count = ordinalOf(history, attempt, trigger, position);
  const key = `${agent.runId}/${attempt}/${trigger}/${position}/${count}`;
  return { trigger, position, count, key, why: what, trouble };
}

/** The result of a completed headless turn without on_idle, and of a passed gate. */
const DONE: PolicyEntry = {
  action: "done",
  message: null,
  append: false,
  run: null,
  timeoutMs: 0,
  attempts: 1,
  cooldownMs: 0,
  match: "any",
};
