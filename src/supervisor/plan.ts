/**
 * Resume or fresh: the plan for the action `resume` and the command `agent resume`. Pure: facts in, one plan out, before
 * anything is started, typed or ended.
 */
import { type AgentMode, CONTINUE_MESSAGE } from "../core/runbook.ts";

export interface AgentResumeFacts {
  /** The message of the runbook or the person. Null: none. */
  readonly message: string | null;
  /** True: the message goes into the conversation. False: the message begins a new one. */
  readonly append: boolean;
  /** The person asks for a new conversation, with the message or else with the prompt. */
  readonly fresh?: boolean;
  /** The agent's first message. */
  readonly prompt: string | null;
  /** The newest conversation of any attempt. lost_but_escrow: the engine gets the run's copy back. */
  readonly priorSession: "present" | "lost_but_escrow" | "lost" | "none";
  readonly alive: Alive;
  /** The person gave `--kill`. */
  readonly kill: boolean;
  readonly mode: AgentMode;
}

/** no: its process has ended. The others are states of a live process. */
export type Alive = "no" | "idle" | "idle_after_error" | "busy" | "waiting" | "unresponsive";

export interface AgentResumePlan {
  readonly do: "resume" | "fresh" | "nudge" | "kill_and_resume" | "kill_and_fresh" | "refuse";
  /** The message to the agent. Null: none (a UI that opens without a prompt, or a refusal). */
  readonly message: string | null;
  /** One sentence: the reason of a refusal, or of a new conversation. */
  readonly why: string;
}

export function planAgentResume(facts: AgentResumeFacts): AgentResumePlan {
  const { alive, kill, mode } = facts;
  if (alive === "no") return planNewProcess(facts);
  if (alive === "waiting") {
    return refused("it asks for permission; attach to it and answer, or stop it first");
  }
  if (kill || alive === "unresponsive") return endFirst(planNewProcess(facts), kill);
  if (alive === "idle_after_error" && mode === "interactive") {
    const message = facts.message ?? CONTINUE_MESSAGE;
    return { do: "nudge", message, why: "it is alive, so Reprise types the message there" };
  }
  return refused(
    alive === "busy" ? "it is working; send a message when its turn is over" : "it is alive and idle",
  );
}

/** The plan for an agent without a process. */
function planNewProcess(facts: AgentResumeFacts): AgentResumePlan {
  const { message, append, prompt, priorSession, mode } = facts;
  if (facts.fresh === true) return planFresh(facts);
  if (message !== null && !append) {
    return { do: "fresh", message, why: "the message replaces the prompt" };
  }
  if (priorSession === "present") {
    const why = "the engine is asked to continue the conversation";
    return { do: "resume", message: message ?? CONTINUE_MESSAGE, why };
  }
  if (priorSession === "lost_but_escrow") {
    const why = "the engine is asked to continue the conversation from the run's copy; it has lost its own";
    return { do: "resume", message: message ?? CONTINUE_MESSAGE, why };
  }
  const lost =
    priorSession === "none"
      ? "there is no conversation to continue"
      : "the engine has lost the conversation, and there is no copy";
  const words = [prompt, message].filter((text) => text !== null);
  if (words.length === 0 && mode === "headless") return refused(`${lost}, and it has no prompt for another`);
  return { do: "fresh", message: words.length === 0 ? null : words.join("\n\n"), why: lost };
}

function planFresh({ message, prompt, mode }: AgentResumeFacts): AgentResumePlan {
  if (message !== null) return { do: "fresh", message, why: "the message replaces the prompt" };
  if (prompt !== null) return { do: "fresh", message: prompt, why: "it starts over with its prompt" };
  if (mode === "headless") return refused("it has no prompt for a new conversation");
  return { do: "fresh", message: null, why: "its UI opens without a prompt" };
}

function endFirst(plan: AgentResumePlan, asked: boolean): AgentResumePlan {
  if (plan.do !== "resume" && plan.do !== "fresh") return plan;
  const why = `${asked ? "Reprise ends it first" : "it does not answer, so Reprise ends it first"}; ${plan.why}`;
  return { do: plan.do === "resume" ? "kill_and_resume" : "kill_and_fresh", message: plan.message, why };
}

function refused(why: string): AgentResumePlan {
  return { do: "refuse", message: null, why };
}
