/**
 * What is kept about supervised agents: the agent, the decisions about it, the questions to a person.
 *
 * Types only. Counters are never stored: they are counted from the event log, so a restart does not reset them.
 */
import type { Trouble } from "./events.ts";
import type { ActionName, AgentDefinition, PipelineDefinition, RunbookSource, Trigger } from "./runbook.ts";

/** active: supervised, also while a person is asked. The others are ends. */
export type AgentPhase = "active" | "done" | "failed" | "stopped";

/** Stored under the kind `agent` with the run's handle as id, and in the run directory as `agent.json`. */
export interface AgentRecord {
  readonly v: 1;
  readonly id: string;
  readonly runId: string;
  readonly definition: AgentDefinition;
  readonly runbook: RunbookSource;
  readonly vars: Readonly<Record<string, string>>;
  /** The user trusts the folder for its engine, also when another process finishes the start. Absent: not said. */
  readonly trustCwd?: true;
  readonly phase: AgentPhase;
  /** Why it ended, one sentence. */
  readonly reason: string | null;
  readonly pipeline: { readonly id: string; readonly step: string } | null;
  readonly createdAt: string;
  readonly endedAt: string | null;
}

/**
 * An event of the run's log. `at` is milliseconds since 1970, `attempt` the one that it is about. Progress begins every
 * count again, but for one thing: the turn that a nudge brought about does not begin the count of nudges again.
 */
export type SupervisionEvent = { readonly seq: number; readonly at: number; readonly attempt: number } & (
  | /** A turn was completed: counters begin again. */ { readonly kind: "progress" }
  /** Stored before it is carried out; `key` makes a second one impossible (I8). */
  | {
      readonly kind: "decided";
      readonly key: string;
      readonly trigger: Trigger | "user";
      readonly position: number;
      readonly action: ActionName;
      readonly message: string | null;
      /** resume: the number that the new attempt will have. */
      readonly newAttempt: number | null;
      /** resume, by a person: a live agent is ended first, or a new conversation begins. */
      readonly how?: "kill" | "fresh";
      /** resume, by a person: no new conversation may begin. */
      readonly strict?: true;
    }
  /** Whoever ran a gate died, and it is run again, for the first, second, … time. */
  | { readonly kind: "begun_again"; readonly key: string; readonly time: number }
  | {
      readonly kind: "carried_out";
      readonly key: string;
      readonly result: "ok" | "failed" | "refused";
      /** One sentence; a gate's last words. Untrusted text. */
      readonly detail: string;
    }
  /** A person was asked; the decision record has the rest. */
  | { readonly kind: "escalated"; readonly decision: string }
  | { readonly kind: "answered"; readonly decision: string; readonly choice: string }
  /** A person said `--strict` when this attempt was over: its runbook begins no new conversation after it. */
  | { readonly kind: "strict" }
);

export interface DecisionOption {
  readonly n: number;
  readonly label: string;
  readonly does: "resume" | "nudge" | "fresh" | "done" | "fail" | "dismiss";
}

/** A question to a person, stored under the kind `decision`. */
export interface DecisionRecord {
  readonly v: 1;
  /** `<handle>-<number>`. */
  readonly id: string;
  readonly agentId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly trigger: Trigger;
  /** What happened, one sentence. */
  readonly what: string;
  readonly trouble: Trouble | null;
  /** How the last answer of the runbook failed, a gate with the end of its output. Absent: none did. Untrusted text. */
  readonly tried?: string;
  /** The agent's last words, made harmless. */
  readonly lastWords: string;
  readonly options: readonly DecisionOption[];
  readonly state: "open" | "resolved" | "overtaken";
  readonly choice: { readonly n: number; readonly message: string | null; readonly at: string } | null;
  readonly createdAt: string;
}

export interface StepRecord {
  readonly name: string;
  readonly state: "running" | "done" | "failed";
  /** How often it was begun since the pipeline was last started or resumed by a person. */
  readonly runs: number;
  /** The agent that works on it, or was the last to. Null: a command, or none was started yet. */
  readonly agent: string | null;
  /** The agents that worked on it, oldest first. */
  readonly agents: readonly string[];
  /** How it ended; a command's last words. Untrusted text. */
  readonly detail: string | null;
}

/** Stored under the kind `pipeline`. */
export interface PipelineRecord {
  readonly v: 1;
  readonly id: string;
  readonly definition: PipelineDefinition;
  readonly runbook: RunbookSource;
  readonly vars: Readonly<Record<string, string>>;
  readonly phase: "active" | "done" | "failed" | "cancelled";
  /** The step that is being worked on, or was when it failed or was cancelled; null before the first and after the last. */
  readonly step: string | null;
  /** Those that were begun, in the order in which they first were. */
  readonly steps: readonly StepRecord[];
  /** Where its steps work; absolute. */
  readonly workspace: string;
  /** The engines of its agents may trust the workspace. */
  readonly trustCwd: boolean;
  readonly reason: string | null;
  readonly createdAt: string;
  readonly endedAt: string | null;
}
