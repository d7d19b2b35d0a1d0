/**
 * A runbook after reading and checking: agents, their supervision, and pipelines of steps.
 *
 * Types, and the table of triggers and actions. `runbooks/` reads files, `supervisor/` acts.
 */
import type { TroubleKind } from "./events.ts";

export const TRIGGERS = ["idle", "dead", "error", "prompt"] as const;
export type Trigger = (typeof TRIGGERS)[number];

export const ACTIONS = ["nudge", "done", "fail", "resume", "escalate", "gate"] as const;
export type ActionName = (typeof ACTIONS)[number];

export const ERROR_MATCHES = [
  "rate_limited",
  "overloaded",
  "auth",
  "quota",
  "network",
  "context_full",
  "any",
] as const satisfies readonly (TroubleKind | "any")[];
export type ErrorMatch = (typeof ERROR_MATCHES)[number];

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

/** One entry of the ladder that answers a trigger. */
export interface PolicyEntry {
  readonly action: ActionName;
  readonly message: string | null;
  /** resume: the message continues the conversation instead of starting a new one. */
  readonly append: boolean;
  /** gate: the command, one argument per element, and its time limit. */
  readonly run: readonly string[] | null;
  readonly timeoutMs: number;
  /** How many times Reprise tries this entry before the next; progress resets the count. */
  readonly attempts: number;
  readonly cooldownMs: number;
  /** The errors that it answers; `any` for other triggers. */
  readonly match: ErrorMatch;
}

/** A trigger without entries escalates. */
export interface Policy {
  readonly on: Readonly<Record<Trigger, readonly PolicyEntry[]>>;
  readonly idleAfterMs: number;
  /** Processes that Reprise may start for this agent in total. Null: as many as the entries allow. */
  readonly maxAttempts: number | null;
}

export type AgentMode = "interactive" | "headless";

/** An agent with all templates filled in. */
export interface AgentDefinition {
  readonly name: string;
  readonly engine: string;
  /** Native arguments, without the prompt. */
  readonly args: readonly string[];
  readonly mode: AgentMode;
  readonly prompt: string | null;
  /** Absolute. */
  readonly cwd: string;
  readonly env: readonly (readonly [string, string])[];
  readonly policy: Policy;
}

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
export interface RunbookSource {
  readonly path: string;
  readonly sha256: string;
}
