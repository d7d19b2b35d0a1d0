/**
 * What happens to an issue: before it starts (resume, start fresh, fail, leave alone) and after each turn; and what
 * a batch leaves undone. Facts in, one decision out. Pure: nothing has been claimed, started or told when this decides.
 */
import type { GateConfig } from "../core/config-issues.ts";
import type { FaultCode } from "../core/faults.ts";
import type { DeniedCall, Outcome, TroubleKind } from "../core/events.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Leave } from "./metadata.ts";
import { IN_PROGRESS } from "./plan.ts";
import type { Issue, IssueStatus } from "./source.ts";
import type { ContinueCommands, IssueEnd } from "./issue-progress.ts";

export interface BatchPolicy {
  readonly resume: boolean;
  readonly strict: boolean;
  /** With `resume`: keep the work, drop the conversation. */
  readonly fresh: boolean;
  readonly isolate: Isolate;
  /** Null: the work is not checked. */
  readonly gate: GateConfig | null;
}

/** Where agents work: each in a worktree with a branch of its own, or in the user's checkout itself. */
export type Isolate = "worktree" | "none";

/** What is known of an issue's last conversation with this engine. */
export interface Past {
  /** Null: there was none. */
  readonly session: string | null;
  /**
   * stale: the engine cannot continue it, whenever it is asked. trouble: it cannot right now. damaged: its session lacks a
   * part or cannot be read, and a person decides what goes on: the copy of it, or what is left.
   */
  readonly state: "none" | "alive" | "stale" | "trouble" | "damaged";
  /** Why, for all but `alive`; one sentence without its full stop. */
  readonly why: string;
  /** The run whose directory still holds the work; null: there is none. */
  readonly handle: string | null;
  /** Where that run works. */
  readonly isolate: Isolate;
  /** What its last turn left to be done. */
  readonly next: "agent" | "gate" | "close";
  /** Its last turn was a resume that nothing proves. */
  readonly unverified?: true;
  /** Commands have checked its work; false: there were none to do it, or they have not run. */
  readonly checked: boolean;
  /** It was completed, and is not closed any more. */
  readonly reopened?: true;
  /** A person decided about it while its agent worked, and has opened it again. */
  readonly left?: true;
  /** Of `trouble`: options of `issues run --resume` without it; none: it passes by itself. Absent: there are none. */
  readonly with?: readonly string[];
  /** Of an issue that is open: what is said of an earlier run that does not go on. */
  readonly earlier?: string;
}

export type IssueDecision =
  /** `reopened`: the conversation had come to its end. */
  | {
      readonly do: "resume";
      readonly session: string;
      readonly handle: string;
      readonly why: string;
      readonly reopened?: true;
    }
  /** `handle`: in that run, where the work is. `warn`: the user expected a conversation to go on. */
  | {
      readonly do: "fresh";
      readonly handle: string | null;
      readonly why: string;
      readonly warn: boolean;
    }
  /** The agent was done; only its work is left to be checked, or the issue to be closed. */
  | {
      readonly do: "gate" | "close";
      readonly handle: string;
      readonly session: string | null;
      readonly why: string;
    }
  /** `with`: as below; absent: it fails again, unless `--strict` is left out. */
  | { readonly do: "fail"; readonly why: string; readonly with?: readonly string[] }
  /** Neither worked on nor failed: the conversation is kept for later. */
  /** `with`: options of `issues run --resume` that take it up; none: the same, when the reason has passed. */
  | { readonly do: "leave"; readonly why: string; readonly with?: readonly string[] };

/** Of an issue that nobody has worked on. */
const READY = "it is ready";

export const RESUMPTION_FAILED = "Session resumption failed: ";

/** Of a turn in a conversation that the engine did not name again. */
export const UNVERIFIED = "the resume is not verified: the engine did not confirm the session";

const ELSEWHERE = {
  none: "its work is in the checkout itself; --isolate none takes it up",
  worktree: "its work is in a worktree; it is taken up without --isolate none",
} as const;

const DONE = {
  checked: "its work has passed the gate",
  unchecked: "its last turn was completed and changed files; there was no gate",
} as const;
const UNJUDGED = {
  with: "its last turn was completed, and the gate has not run since",
  without: "its last turn was completed; there is no gate, so a change of files is looked for",
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
  // What a worktree is owed (a commit of everything in it) would be done to the user's checkout, or left undone.
  if (handle !== null && past.isolate !== policy.isolate)
    return { do: "leave", why: ELSEWHERE[past.isolate], with: ["--isolate", past.isolate] };
  if (handle !== null && past.next === "close")
    return { do: "close", handle, session, why: DONE[past.checked ? "checked" : "unchecked"] };
  if (past.state === "trouble")
    return { do: "leave", why: past.why, ...(past.with === undefined ? {} : { with: past.with }) };
  // Offered when the person has decided: whoever shows it asks `undecided`.
  if (past.state === "damaged" && !policy.strict) return { do: "leave", why: past.why, with: [] };
  if (policy.fresh) return { do: "fresh", handle, why: "a new conversation was asked for", warn: false };
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
              ? "it was opened again, and its conversation goes on"
              : "its conversation goes on",
          ...(reopened ? { reopened } : {}),
        };
  }
  if (policy.strict) {
    const later = past.state === "damaged" ? { with: [] } : {};
    return { do: "fail", why: `${RESUMPTION_FAILED}${past.why}`, ...later };
  }
  return { do: "fresh", handle, why: past.why, warn: true };
}

/** What is taken and waits for issues that are not done waits for those of the same batch. */
export function afterOthers(decision: IssueDecision, ids: readonly string[]): IssueDecision {
  if (decision.do !== "fresh" || decision.why !== READY || ids.length === 0) return decision;
  return { ...decision, why: `it begins when ${harmlessLine(ids.join(", "), 300)} is done` };
}

export interface TurnFacts {
  readonly outcome: Outcome;
  readonly resumed: boolean;
  /** It was a resume that nothing proves. */
  readonly unverified: boolean;
  readonly toolCalls: number;
  /** The user wants the batch to end. */
  readonly stopping: boolean;
  /** Turns in a row that ended in trouble which passes by itself. */
  readonly troubles: number;
  /** Turns in a row that ended without an end of their own. */
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
  /** The issue is kept, and the batch ends with this code: no other issue would fare better. */
  | { readonly do: "stop"; readonly why: string; readonly exitCode: number };

const MINUTE = 60_000;
/** Without a reset time: longer from try to try. */
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
      // What a tool did cannot be undone, and a fresh conversation would do it again.
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

/** unseen: git cannot tell, and a tool was let work. others: files changed, but no tool of the agent was let work. */
export type WorkState = "changed" | "unseen" | "nothing" | "others";

/** No other issue would fare better. */
export const HOPELESS: readonly FaultCode[] = [
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

export function whoStopped({ isAlone }: { readonly isAlone: boolean }): string {
  return isAlone ? "it was stopped with `reprise stop`" : "the batch was stopped";
}

export const times = (n: number) => (n === 1 ? "once" : `${n} times`);

/** Of an issue in a checkout that its agent shares with people. */
export const UNTOLD =
  "the issue's text changed in the last turn too, and its agent was not told: it may have changed it itself";

/** What is said of it where others work too: nobody knows whose change it is. */
export const WORK_WORDS = {
  changed: "files changed in the folder",
  unseen: "its agent ran tools; without git, changes of files are not seen",
  others: "files changed in the folder, but the agent ran no tool",
  nothing: "the agent changed nothing",
} as const;

export interface WorkFacts {
  /** What the files were when the work began, and are; null: git cannot tell. */
  readonly tree: string | null;
  readonly now: string | null;
  /** Tool calls since then; null: not all of them are seen. */
  readonly tools: number | null;
  /** Those of this batch that were seen, and those that were denied. */
  readonly toolCalls: number;
  readonly denied: number;
  readonly isolate: Isolate;
}

/** Without git, a tool that was let work is all that can be known. In the checkout others change files too. */
export function workOf({ tree, now, tools, toolCalls, denied, isolate }: WorkFacts): WorkState {
  if (now === null || tree === null) return (tools ?? toolCalls) > denied ? "unseen" : "nothing";
  if (now === tree) return "nothing";
  const ranNone = tools !== null && tools <= denied;
  return ranNone && isolate === "none" ? "others" : "changed";
}

const MAX_NAMED = 5;

/** `2 tool calls were denied: Write a.ts, Bash npm test`; empty: none was. `when`: behind the calls. */
export function deniedWords(denied: readonly DeniedCall[], when = ""): string {
  if (denied.length === 0) return "";
  const named = denied
    .slice(0, MAX_NAMED)
    .map(({ name, detail = "" }) => harmlessLine(`${name} ${detail}`.trim(), 80));
  const more = denied.length > MAX_NAMED ? `, and ${denied.length - MAX_NAMED} more` : "";
  const were = denied.length === 1 ? "was" : "were";
  return `${counted(denied.length, "tool call")}${when} ${were} denied: ${named.join(", ")}${more}`;
}

/** The reset that the engine named counts, with a moment for clocks that differ. */
function limitEnd({ outcome, nowMs, troubles }: TurnFacts): number {
  const named = Date.parse(outcome.trouble?.resetsAt ?? "");
  if (named > nowMs) return named + 1_000;
  // One that has passed already is believed once.
  return !Number.isNaN(named) && troubles === 0 ? nowMs + 1_000 : nowMs + backoff(troubles);
}

function backoff(troubles: number): number {
  return BACKOFF_MS[Math.min(troubles, BACKOFF_MS.length - 1)] ?? MINUTE;
}

function counted(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** How a reason names the end of a limit. */
export const RESET = / \(until (\d{4}-\d\d-\d\dT[\d:.]+Z)\)/;

function whyOf({ reason, trouble }: Outcome): string {
  if (trouble === undefined) return reason;
  const until = trouble.resetsAt === undefined ? "" : ` (until ${trouble.resetsAt})`;
  return `${trouble.kind}: ${trouble.message}${until}`;
}

const REMOVED = "the issue was removed ";
const SET_TO = /^its status was set to (\S+) /;

/** What a person did about the issue; `word`: its status by now, null: it is gone. */
export function decidedWords(word: string | null, when: string): string {
  return word === null ? `${REMOVED}${when}` : `its status was set to ${word} ${when}, and stays so`;
}

/** A person has taken back what this reason says: the issue is there, and may be worked on. */
export function isTakenBack(
  why: string,
  { status, statusWord = status }: Pick<Issue, "status" | "statusWord">,
) {
  const word = SET_TO.exec(why)?.[1];
  const isOther = word === undefined ? why.startsWith(REMOVED) : word !== statusWord;
  return isOther && (status === "open" || status === "in_progress");
}

/** What a batch leaves undone. The summary, `issues status`, `issues show` and `--json` all say this. */
export interface Undone {
  /** Behind `reprise issues run --resume`: what goes on with something of it. Null: no such command does. */
  readonly goOn: readonly string[] | null;
  readonly leaves: readonly Leave[];
}

/** Options that take up an issue that was left, or failed before it began; none: the same command, when the reason has passed. */
export type Ways = ReadonlyMap<string, readonly string[]>;

const OPEN: readonly IssueEnd["state"][] = ["failed", "interrupted", "no_change"];

export function undoneOf(
  ends: readonly IssueEnd[],
  ways: Ways,
  { engine, again }: { readonly engine: string; readonly again: ContinueCommands },
): Undone {
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
  // With it, what it has barred would fail again, for as often as the command is typed.
  if (open.some(isBarred)) return { goOn: withoutStrict(again.words), leaves };
  if (isSame || open.length > 0) return { goOn: again.words, leaves };
  return { goOn: leaves.find(({ go_on: words }) => words !== null)?.go_on ?? null, leaves };
}

/** Where the dashes are, the engine's own options begin. */
function withoutStrict(words: readonly string[]): readonly string[] {
  const dashes = words.indexOf("--");
  return words.filter((word, at) => word !== "--strict" || (dashes !== -1 && at > dashes));
}
