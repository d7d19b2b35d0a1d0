/** Explains what a runbook does at a trigger. Pure; `supervisor/decide.ts` makes the decisions. */
import type { TroubleKind } from "../core/events.ts";
import { type AgentDefinition, CONTINUE_MESSAGE, type PolicyEntry, type Trigger } from "../core/runbook.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";

/** A retry does not help against these. */
const DETERMINISTIC: Partial<Record<TroubleKind, string>> = {
  auth: "the engine asks for a login, which only a person can give",
  quota: "no time of a reset is known",
  session_lost: "the engine has lost the conversation",
  usage: "the engine would refuse the same command again",
};

/** One line per entry. `trouble`: which error. Null: another trigger, or any error. */
export function explainTrigger(
  agent: AgentDefinition,
  trigger: Trigger,
  trouble: TroubleKind | null,
): readonly string[] {
  const entries = agent.policy.on[trigger];
  const lines = [
    `agent.${agent.name} (${agent.engine}, ${agent.mode}), on_${trigger}${trouble === null ? "" : ` ${trouble}`}`,
  ];
  if (trigger === "idle") {
    const when =
      agent.mode === "headless"
        ? "when a turn is complete"
        : `after ${formatDuration(agent.policy.idleAfterMs)} without new output`;
    lines.push(`  idle: ${when}`);
  }
  let position = 0;
  for (const entry of entries) {
    if (!answers(entry, trouble)) {
      lines.push(`  –  ${entry.action} is skipped: it answers ${entry.match}`);
      continue;
    }
    position += 1;
    lines.push(...explainEntry(position, entry, { agent, trigger, trouble }));
    if (entry.action === "done" || entry.action === "fail") return lines;
  }
  lines.push(`  ${ending(agent, trigger, entries.length)}`);
  if (agent.policy.maxAttempts !== null) {
    lines.push(`  Reprise starts at most ${agent.policy.maxAttempts} processes for this agent.`);
  }
  return lines;
}

interface About {
  readonly agent: AgentDefinition;
  readonly trigger: Trigger;
  readonly trouble: TroubleKind | null;
}

function answers({ match }: PolicyEntry, trouble: TroubleKind | null): boolean {
  return match === "any" || trouble === null || match === trouble;
}

function explainEntry(position: number, entry: PolicyEntry, about: About): string[] {
  const each = entry.attempts === 1 ? "" : "each ";
  const times = entry.attempts === 1 ? "once" : `up to ${entry.attempts} times`;
  const cooldown =
    entry.cooldownMs === 0 ? "" : `, ${each}after a cooldown of ${formatDuration(entry.cooldownMs)}`;
  const ends = entry.action === "done" || entry.action === "fail";
  const only = entry.match === "any" || about.trouble !== null ? "" : ` (${entry.match})`;
  const head = `  ${position}. ${entry.action}${only}${ends ? "" : `, ${times}${cooldown}`}`;
  return [head, ...does(entry, about).map((line) => `     ${line}`)];
}

function does(entry: PolicyEntry, about: About): readonly string[] {
  switch (entry.action) {
    case "nudge":
      return [nudgeText(entry, about.agent)];
    case "resume":
      return resumes(entry, about);
    case "gate":
      return [
        `runs ${JSON.stringify(entry.run)} in the agent's directory, ${formatDuration(entry.timeoutMs)} at most; once each time this happens`,
        about.trigger === "idle" || about.trigger === "dead"
          ? "exit 0: the agent is done; else the next entry"
          : "exit 0: nothing more is done until it happens again; else the next entry",
      ];
    case "escalate":
      return ["Reprise asks a person, with the facts and numbered options"];
    case "done":
      return ["the agent is done"];
    case "fail":
      return ["the agent has failed"];
  }
}

function nudgeText(entry: PolicyEntry, agent: AgentDefinition): string {
  const message = quoted(entry.message ?? CONTINUE_MESSAGE);
  return agent.mode === "headless"
    ? `Reprise resumes the conversation with ${message}`
    : `Reprise types ${message} into its UI, never while it asks for permission`;
}

function resumes(entry: PolicyEntry, { trouble }: About): readonly string[] {
  const hopeless = trouble === null ? undefined : DETERMINISTIC[trouble];
  if (hopeless !== undefined) return [`skipped, because it would not help: ${hopeless}`];
  const lines = [resumeText(entry)];
  lines.push(...(trouble === "rate_limited" ? limitWaits(entry) : restartWaits));
  return lines;
}

/** The table of docs/runbooks.md, "Resume or fresh". */
function resumeText(entry: PolicyEntry): string {
  const lost =
    "if there is no conversation, or the engine and Reprise have both lost it, Reprise starts a new one and reports it";
  if (entry.message === null) return `the conversation continues with ${quoted(CONTINUE_MESSAGE)}; ${lost}`;
  return entry.append
    ? `the conversation continues with ${quoted(entry.message)}; ${lost}`
    : `a new conversation begins with ${quoted(entry.message)} (append = true would continue the old one)`;
}

const restartWaits = [
  "the first restart without progress has no delay, the next waits 5 s, then twice as long each time, 15 m at most;",
  "after five failures without progress, Reprise does not restart it",
];

function limitWaits(entry: PolicyEntry): readonly string[] {
  const without =
    entry.cooldownMs === 0
      ? "where the engine names no reset: after 15 m, then 30 m, 1 h, 2 h, 4 h"
      : `where the engine names no reset: after the cooldown, ${formatDuration(entry.cooldownMs)}`;
  return [
    "Reprise waits for the reset that the engine names and 1 to 3 minutes more, even if the cooldown is shorter;",
    `Reprise does not wait for a reset more than 8 days away; ${without}`,
  ];
}

function ending(agent: AgentDefinition, trigger: Trigger, entries: number): string {
  if (entries === 0 && trigger === "idle" && agent.mode === "headless") {
    return "The runbook has no entry for it: a completed turn ends the task as done.";
  }
  return entries === 0
    ? "The runbook has no entry for it: it escalates, and Reprise asks a person."
    : "Then it escalates: Reprise asks a person.";
}

function quoted(message: string): string {
  return JSON.stringify(harmlessLine(message, 120));
}
