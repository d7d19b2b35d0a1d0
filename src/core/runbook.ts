/**
 * A runbook after reading and checking: agents, their supervision, and pipelines of steps.
 *
 * Types, and the table of triggers and actions. `runbooks/` reads files, `supervisor/` acts.
 */
import type { ActionName, Trigger } from "./kinds.ts";
import type { agentSchema, RecordOf } from "./schemas.ts";

export { type ActionName, ACTIONS, ERROR_MATCHES, type ErrorMatch, type Trigger, TRIGGERS } from "./kinds.ts";

/** The message of a resume without one: an engine that only opens a conversation does not continue it. */
export const CONTINUE_MESSAGE = "Continue where you left off.";

type AgentRecord = RecordOf<typeof agentSchema>;

const ALLOWED: Readonly<Record<Trigger, readonly ActionName[]>> = {
  idle: ["nudge", "done", "fail", "escalate", "gate"],
  dead: ["done", "fail", "resume", "escalate", "gate"],
  error: ["fail", "resume", "escalate", "gate"],
  prompt: ["done", "fail", "escalate", "gate"],
};

/** Null: the action is allowed. Otherwise the reason why not, one sentence. */
export function whyNotAllowed(trigger: Trigger, action: ActionName): string | null {
  if (ALLOWED[trigger].includes(action)) return null;
  if (action === "nudge") {
    if (trigger === "dead") return "a dead agent cannot be nudged; use resume";
    return trigger === "error"
      ? "an agent that failed is not waiting for a message; use resume"
      : "text that is typed into a question of the engine would answer it; use escalate";
  }
  if (action === "resume") {
    return trigger === "idle"
      ? "an idle agent is alive and has its conversation; use nudge"
      : "an agent that asks for permission is alive; use escalate";
  }
  return "an error is not the end of the task; use fail, or escalate and let a person decide";
}

/** An agent with all templates filled in. */
export type AgentDefinition = AgentRecord["definition"];
export type AgentMode = AgentDefinition["mode"];

/** The entries of an agent, by trigger. */
export type Policy = AgentDefinition["policy"];
/** One of the entries that answer a trigger in order. */
export type PolicyEntry = Policy["on"][Trigger][number];

export interface StepDefinition {
  readonly name: string;
  /** One of the two is set: a command, one argument per element, or an agent of the runbook. */
  readonly run: readonly string[] | null;
  readonly agent: AgentDefinition | null;
  readonly timeoutMs: number;
  /** The next step. Null: the pipeline ends. */
  readonly onDone: string | null;
  /** Null: the pipeline fails. */
  readonly onFail: string | null;
}

export interface PipelineDefinition {
  readonly name: string;
  readonly steps: readonly StepDefinition[];
  readonly workspace: "cwd" | "dir" | "worktree";
  /** Absolute. */
  readonly cwd: string;
}

/** The origin of a definition, for messages and to detect a changed file. */
export type RunbookSource = AgentRecord["runbook"];
