/**
 * Resume or fresh: how the action `resume` and the command `agent resume` are carried out. One table, facts in, one plan
 * out; nothing has been started, typed or killed when this decides.
 */
import type { AgentMode } from "../core/runbook.ts";

export interface AgentResumeFacts {
  /** What the runbook or the person says; null: nothing. */
  readonly message: string | null;
  /** The message goes into the conversation. Without it, the message begins a new one. */
  readonly append: boolean;
  /** A new conversation is asked for, with the message or else with the prompt. */
  readonly fresh?: boolean;
  /** What the agent was first started with. */
  readonly prompt: string | null;
  /** Of the newest conversation that can be had, also of earlier attempts; with escrow the engine gets it back. */
  readonly priorSession: "present" | "lost_but_escrow" | "lost" | "none";
  readonly alive: Alive;
  /** A person said `--kill`. */
  readonly kill: boolean;
  readonly mode: AgentMode;
}

/** no: its process is gone. The others tell what a live one is doing. */
export type Alive = "no" | "idle" | "idle_after_error" | "busy" | "waiting" | "unresponsive";

export interface AgentResumePlan {
  readonly do: "resume" | "fresh" | "nudge" | "kill_and_resume" | "kill_and_fresh" | "refuse";
  /** What the agent is told; null: nothing (a UI that opens by itself, or a refusal). */
  readonly message: string | null;
  /** One sentence for people; a refusal's reason, or why a new conversation begins. */
  readonly why: string;
}

/** `--resume` alone only opens a conversation, so a bare resume says something. */
export const CONTINUE = "Continue where you left off.";

export function planAgentResume(facts: AgentResumeFacts): AgentResumePlan {
  const { alive, kill, mode } = facts;
  if (alive === "no") return again(facts);
  if (alive === "waiting") {
    return refused("it asks for permission; attach to it and answer, or stop it first");
  }
  if (kill || alive === "unresponsive") return killed(again(facts), kill);
  if (alive === "idle_after_error" && mode === "interactive") {
    const message = facts.message ?? CONTINUE;
    return { do: "nudge", message, why: "it is alive and has its conversation, so it is told there" };
  }
  return refused(
    alive === "busy"
      ? "it is alive and working; it can be told something when its turn is over"
      : "it is alive and idle",
  );
}

/** A new process for the agent. */
function again(facts: AgentResumeFacts): AgentResumePlan {
  const { message, append, prompt, priorSession, mode } = facts;
  if (facts.fresh === true) return anew(facts);
  if (message !== null && !append) {
    return { do: "fresh", message, why: "the message replaces the prompt" };
  }
  if (priorSession === "present") {
    return {
      do: "resume",
      message: message ?? CONTINUE,
      why: "the engine is asked to continue the conversation",
    };
  }
  if (priorSession === "lost_but_escrow") {
    const why =
      "the engine is asked to continue the conversation from the run's copy, since it has lost its own";
    return { do: "resume", message: message ?? CONTINUE, why };
  }
  const lost =
    priorSession === "none"
      ? "there is no conversation to continue"
      : "the engine has lost the conversation, and there is no copy";
  const words = [prompt, message].filter((text) => text !== null);
  if (words.length === 0 && mode === "headless") return refused(`${lost}, and no prompt to begin another`);
  return { do: "fresh", message: words.length === 0 ? null : words.join("\n\n"), why: lost };
}

function anew({ message, prompt, mode }: AgentResumeFacts): AgentResumePlan {
  if (message !== null) return { do: "fresh", message, why: "the message replaces the prompt" };
  if (prompt !== null) return { do: "fresh", message: prompt, why: "it is told its prompt again" };
  if (mode === "headless") return refused("there is no prompt to begin a new conversation with");
  return { do: "fresh", message: null, why: "its UI opens without a prompt" };
}

function killed(plan: AgentResumePlan, asked: boolean): AgentResumePlan {
  if (plan.do !== "resume" && plan.do !== "fresh") return plan;
  const why = `${asked ? "it is ended first" : "it does not answer, so it is ended first"}; ${plan.why}`;
  return { do: plan.do === "resume" ? "kill_and_resume" : "kill_and_fresh", message: plan.message, why };
}

function refused(why: string): AgentResumePlan {
  return { do: "refuse", message: null, why };
}
