/**
 * Decisions about an issue: before it starts (resume, start fresh, fail, leave alone) and after each turn; and what a
 * batch leaves undone. Facts in, one decision out. Pure.
 */
import type { GateConfig } from "../core/config-issues.ts";
import type { FaultCode } from "../core/faults.ts";
import type { DeniedCall, Outcome, TroubleKind } from "../core/events.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { LeftIssue } from "./metadata.ts";
import { IN_PROGRESS } from "./plan.ts";
import type { Issue, IssueStatus } from "./sources/source.ts";
import type { ContinueCommands, Isolate, IssueEnd } from "./batch-types.ts";

export interface BatchPolicy {
  readonly resume: boolean;
  readonly strict: boolean;
  /** With `resume`: keep the work, drop the conversation. */
  readonly fresh: boolean;
  readonly isolate: Isolate;
  /** Null: the work is not checked. */
  readonly gate: GateConfig | null;
}

/** Facts about an issue's last conversation with this engine. */
export interface Past {
  /** Null: none. */
  readonly session: string | null;
  /**
   * stale: the engine cannot continue it, now or later. trouble: it cannot right now. damaged: its session lacks a part or
   * is unreadable, and a person must choose between its copy and the rest.
   */
  readonly state: "none" | "alive" | "stale" | "trouble" | "damaged";
  /** Why, for all but `alive`; one sentence without its full stop. */
  readonly why: string;
  /** The run whose directory still holds the work. Null: none. */
  readonly handle: string | null;
  /** Where that run works. */
  readonly isolate: Isolate;
  /** The next step after its last turn. */
  readonly next: "agent" | "gate" | "close";
  /** Its last turn was a resume without proof. */
  readonly unverified?: true;
  /** A gate checked its work. False: no gate, or it has not run. */
  readonly checked: boolean;
  /** It was completed, and someone opened it again. */
  readonly reopened?: true;
  /** A person set its status while its agent worked, and opened it again. */
  readonly left?: true;
  /** For `trouble`: options of `issues run --resume` that avoid it. Empty: it passes. Absent: no such options. */
  readonly with?: readonly string[];
  /** For an open issue: text about an earlier run that does not continue. */
  readonly earlier?: string;
}

export type IssueDecision =
  /** `reopened`: the issue had been completed. */
  | {
      readonly do: "resume";
      readonly session: string;
      readonly handle: string;
      readonly why: string;
      readonly reopened?: true;
    }
  /** `handle`: in that run, which holds the work. `warn`: the user expected the old conversation to continue. */
  | {
      readonly do: "fresh";
      readonly handle: string | null;
      readonly why: string;
      readonly warn: boolean;
    }
  /** The agent is done: only the gate or the closing is missing. */
  | {
      readonly do: "gate" | "close";
      readonly handle: string;
      readonly session: string | null;
      readonly why: string;
    }
  /** `with`: as below. Absent: it fails again, unless the user omits `--strict`. */
  | { readonly do: "fail"; readonly why: string; readonly with?: readonly string[] }
  /** Neither worked on nor failed: Reprise keeps the conversation for later. */
  /** `with`: options of `issues run --resume` that resume it. Empty: the same options, when the reason has passed. */
  | { readonly do: "leave"; readonly why: string; readonly with?: readonly string[] };

/** The reason for an issue without a past. */
const READY = "it is ready";

export const RESUMPTION_FAILED = "Session resumption failed: ";

/** Of a turn in a conversation that the engine did not name again. */
export const UNVERIFIED = "the resume is not verified: the engine did not confirm the session";

const ELSEWHERE = {
  none: "its work is in the checkout; --isolate none resumes it",
  worktree: "its work is in a worktree; to resume it, omit --isolate none",
} as const;

const DONE = {
  checked: "its work has passed the gate",
  unchecked: "its last turn was completed and changed files; there was no gate",
} as const;
const UNJUDGED = {
  with: "its last turn was completed, and the gate has not run since",
  without: "its last turn was completed; without a gate, Reprise looks for changed files",
} as const;

export function decide(
  issue: { readonly status: IssueStatus },
  past: Past,
  policy: BatchPolicy,
): IssueDecision {
  const reopened = past.reopened === true;
  const isOpen = issue.status !== "in_progress";
  if (isOpen && !reopened && past.left !== true) {
    const { earlier } = past;
    return { do: "fresh", handle: null, why: earlier ?? READY, warn: earlier !== undefined };
  }
  if (!isOpen && !policy.resume) return { do: "leave", why: IN_PROGRESS, with: [] };
  const { session, handle } = past;
  // Reprise commits everything in a worktree, and nothing in a checkout, so work cannot change its place.
  if (handle !== null && past.isolate !== policy.isolate)
    return { do: "leave", why: ELSEWHERE[past.isolate], with: ["--isolate", past.isolate] };
  if (handle !== null && past.next === "close")
    return { do: "close", handle, session, why: DONE[past.checked ? "checked" : "unchecked"] };
  if (past.state === "trouble")
    return { do: "leave", why: past.why, ...(past.with === undefined ? {} : { with: past.with }) };
  // Commands offer it only after the person has decided (`damagedSessions`).
  if (past.state === "damaged" && !policy.strict) return { do: "leave", why: past.why, with: [] };
  if (policy.fresh) return { do: "fresh", handle, why: "you asked for a new conversation", warn: false };
  if (policy.strict && past.unverified === true && past.next === "gate")
    return { do: "fail", why: `${RESUMPTION_FAILED}${UNVERIFIED}` };
  if (past.state === "alive" && session !== null && handle !== null) {
    return past.next === "gate"
      ? { do: "gate", handle, session, why: UNJUDGED[policy.gate === null ? "without" : "with"] }
      : {
          do: "resume",
          session,
          handle,
          why:
            reopened || isOpen
              ? "it was opened again, and its conversation continues"
              : "its conversation continues",
          ...(reopened ? { reopened } : {}),
        };
  }
  if (policy.strict) {
    const later = past.state === "damaged" ? { with: [] } : {};
    return { do: "fail", why: `${RESUMPTION_FAILED}${past.why}`, ...later };
  }
  return { do: "fresh", handle, why: past.why, warn: true };
}

/** Adds the unfinished issues of the same batch that this issue waits for. */
export function withDependencies(decision: IssueDecision, ids: readonly string[]): IssueDecision {
  if (decision.do !== "fresh" || decision.why !== READY || ids.length === 0) return decision;
  return { ...decision, why: `it begins when ${harmlessLine(ids.join(", "), 300)} is done` };
}

export interface TurnFacts {
  readonly outcome: Outcome;
  readonly resumed: boolean;
  /** It was a resume that nothing proves. */
  readonly unverified: boolean;
  readonly toolCalls: number;
  /** The user stops the batch. */
  readonly stopping: boolean;
  /** Turns in a row that ended in temporary trouble. */
  readonly troubles: number;
  /** Turns in a row whose agent died. */
  readonly crashes: number;
  readonly nowMs: number;
}

export interface TurnPolicy {
  readonly strict: boolean;
  readonly onLimit: "wait" | "stop";
}

export type TurnDecision =
  | { readonly do: "gate" }
  /** The same conversation again, not before that time. */
  | { readonly do: "again"; readonly notBeforeMs: number; readonly why: string; readonly limit: boolean }
  | { readonly do: "fresh"; readonly why: string }
  | { readonly do: "fail"; readonly why: string }
  | { readonly do: "interrupt"; readonly why: string }
  /** The issue stays in progress, and the batch ends with this code: every other issue would fail as well. */
  | { readonly do: "stop"; readonly why: string; readonly exitCode: number };

const MINUTE = 60_000;
/** Waits without a reset time, longer with each try. */
const BACKOFF_MS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE];
const MAX_NETWORK_TRIES = 5;
const MAX_CRASHES = 2;

export function decideAfter(facts: TurnFacts, policy: TurnPolicy): TurnDecision {
  const { outcome } = facts;
  const why = whyOf(outcome);
  if (outcome.result === "completed")
    return policy.strict && facts.unverified
      ? { do: "fail", why: `${RESUMPTION_FAILED}${UNVERIFIED}` }
      : { do: "gate" };
  if (outcome.result === "cancelled" || facts.stopping) return { do: "interrupt", why };
  if (outcome.result === "diverged") return { do: "fail", why };
  if (outcome.trouble !== undefined) return afterTrouble(outcome.trouble.kind, why, facts, policy);
  if (outcome.result === "failed") return { do: "fail", why };
  if (facts.crashes >= MAX_CRASHES) return { do: "interrupt", why };
  return { do: "again", notBeforeMs: facts.nowMs, why, limit: false };
}

function afterTrouble(kind: TroubleKind, why: string, facts: TurnFacts, policy: TurnPolicy): TurnDecision {
  switch (kind) {
    case "session_lost":
      if (!facts.resumed) return { do: "fail", why };
      if (policy.strict) return { do: "fail", why: `${RESUMPTION_FAILED}${why}` };
      // A fresh conversation would repeat the effects of the tool calls.
      return facts.toolCalls === 0
        ? { do: "fresh", why }
        : { do: "fail", why: `${why}, after ${counted(facts.toolCalls, "tool call")} of this turn` };
    case "rate_limited":
    case "overloaded":
      if (policy.onLimit === "stop") return { do: "stop", why, exitCode: 75 };
      return { do: "again", notBeforeMs: limitEnd(facts), why, limit: true };
    case "network":
      if (facts.troubles >= MAX_NETWORK_TRIES) return { do: "stop", why, exitCode: 75 };
      return { do: "again", notBeforeMs: facts.nowMs + backoff(facts.troubles), why, limit: true };
    case "auth":
      return { do: "stop", why, exitCode: 8 };
    case "quota":
      return { do: "stop", why, exitCode: 10 };
    case "session_busy":
      return { do: "interrupt", why };
    case "context_full":
    case "usage":
    case "other":
      return { do: "fail", why };
  }
}

/** unseen: git cannot tell, but a tool ran. others: files changed, but no tool of the agent ran. */
export type WorkState = "changed" | "unseen" | "nothing" | "others";

/** Faults that every other issue would meet as well. */
export const BATCH_ENDING: readonly FaultCode[] = [
  "engine_missing",
  "engine_unknown",
  "storage_failed",
  "storage_full",
  "trust_required",
  "github_limited",
  "github_unreachable",
  "github_denied",
];

export const WHILE_WORKING = "while its agent worked";

export function stopReason({ isAlone }: { readonly isAlone: boolean }): string {
  return isAlone ? "it was stopped with `reprise stop`" : "the batch was stopped";
}

export const times = (n: number) => (n === 1 ? "once" : `${n} times`);

/** For an issue in a checkout that its agent shares with people. */
export const UNSENT_CHANGE =
  "the issue's text changed again in the last turn, and Reprise did not send it: the agent may have changed it itself";

/** In a shared checkout, Reprise cannot tell who made a change. */
export const WORK_WORDS = {
  changed: "files changed in the folder",
  unseen: "its agent ran tools; without git, Reprise cannot see changed files",
  others: "files changed in the folder, but the agent ran no tool",
  nothing: "the agent changed nothing",
} as const;

export interface WorkFacts {
  /** The files when the work began, and now. Null: git cannot tell. */
  readonly tree: string | null;
  readonly now: string | null;
  /** Tool calls since then. Null: the engine does not report all of them. */
  readonly tools: number | null;
  /** Reported calls of this batch, and refused ones. */
  readonly toolCalls: number;
  readonly denied: number;
  readonly isolate: Isolate;
}

/** Without git, only tool calls show work. In the checkout, others change files as well. */
export function workStateOf({ tree, now, tools, toolCalls, denied, isolate }: WorkFacts): WorkState {
  if (now === null || tree === null) return (tools ?? toolCalls) > denied ? "unseen" : "nothing";
  if (now === tree) return "nothing";
  const ranNone = tools !== null && tools <= denied;
  return ranNone && isolate === "none" ? "others" : "changed";
}

const MAX_NAMED = 5;

/** `2 tool calls were denied: Write a.ts, Bash npm test`, or empty. `when` follows the number. */
export function deniedWords(denied: readonly DeniedCall[], when = ""): string {
  if (denied.length === 0) return "";
  const named = denied
    .slice(0, MAX_NAMED)
    .map(({ name, detail = "" }) => harmlessLine(`${name} ${detail}`.trim(), 80));
  const more = denied.length > MAX_NAMED ? `, and ${denied.length - MAX_NAMED} more` : "";
  const were = denied.length === 1 ? "was" : "were";
  return `${counted(denied.length, "tool call")}${when} ${were} denied: ${named.join(", ")}${more}`;
}

/** The engine's reset time, plus a second for clocks that differ. */
function limitEnd({ outcome, nowMs, troubles }: TurnFacts): number {
  const named = Date.parse(outcome.trouble?.resetsAt ?? "");
  if (named > nowMs) return named + 1_000;
  // Trusts a past reset time once.
  return !Number.isNaN(named) && troubles === 0 ? nowMs + 1_000 : nowMs + backoff(troubles);
}

function backoff(troubles: number): number {
  return BACKOFF_MS[Math.min(troubles, BACKOFF_MS.length - 1)] ?? MINUTE;
}

function counted(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** The end of a limit in a reason. */
export const RESET = / \(until (\d{4}-\d\d-\d\dT[\d:.]+Z)\)/;

function whyOf({ reason, trouble }: Outcome): string {
  if (trouble === undefined) return reason;
  const until = trouble.resetsAt === undefined ? "" : ` (until ${trouble.resetsAt})`;
  return `${trouble.kind}: ${trouble.message}${until}`;
}

const REMOVED = "the issue was removed ";
const SET_TO = /^its status was set to (\S+) /;

/** What a person did to the issue. `word`: its present status. Null: the issue is gone. */
export function decidedWords(word: string | null, when: string): string {
  return word === null
    ? `${REMOVED}${when}`
    : `its status was set to ${word} ${when}, and Reprise keeps that`;
}

/** A person has reversed what this reason describes: the issue exists, and a batch may work on it. */
export function isReversed(
  why: string,
  { status, statusWord = status }: Pick<Issue, "status" | "statusWord">,
) {
  const word = SET_TO.exec(why)?.[1];
  const isOther = word === undefined ? why.startsWith(REMOVED) : word !== statusWord;
  return isOther && (status === "open" || status === "in_progress");
}

/** What a batch leaves unfinished, for the summary, `issues status`, `issues show` and `--json`. */
export interface UnfinishedWork {
  /** The arguments after `reprise issues run --resume` that continue some of it. Null: no such command. */
  readonly goOn: readonly string[] | null;
  readonly leaves: readonly LeftIssue[];
}

/** Per issue: options that resume it. Empty: the same command, when the reason has passed. */
export type ContinueOptions = ReadonlyMap<string, readonly string[]>;

const OPEN: readonly IssueEnd["state"][] = ["failed", "interrupted", "no_change"];

export function unfinishedOf(
  ends: readonly IssueEnd[],
  ways: ContinueOptions,
  { engine, again }: { readonly engine: string; readonly again: ContinueCommands },
): UnfinishedWork {
  const left = ends.filter(({ state }) => state === "left");
  const wordsFor = (way: readonly string[]): readonly string[] => {
    if (way.length === 0) return again.words;
    const ids = left.filter(({ id }) => ways.get(id)?.join(" ") === way.join(" ")).map(({ id }) => id);
    const whose = way.includes("--engine") ? [] : ["--engine", engine];
    return [...again.source, ...whose, ...way, "--scope", `ids:${ids.join(",")}`];
  };
  const leaves = left.map(({ id, why, handle, branch }) => {
    const way = ways.get(id);
    return { id, why, handle, branch, go_on: way === undefined ? null : wordsFor(way) };
  });
  const open = ends.filter(({ state, status }) => OPEN.includes(state) && status === "in_progress");
  const isBarred = ({ id, why }: IssueEnd) => why.startsWith(RESUMPTION_FAILED) && !ways.has(id);
  const isSame = left.some(({ id }) => ways.get(id)?.length === 0);
  // With `--strict`, these issues would fail again every time.
  if (open.some(isBarred)) return { goOn: withoutStrict(again.words), leaves };
  if (isSame || open.length > 0) return { goOn: again.words, leaves };
  return { goOn: leaves.find(({ go_on: words }) => words !== null)?.go_on ?? null, leaves };
}

/** The engine's own options begin after the dashes. */
function withoutStrict(words: readonly string[]): readonly string[] {
  const dashes = words.indexOf("--");
  return words.filter((word, at) => word !== "--strict" || (dashes !== -1 && at > dashes));
}
