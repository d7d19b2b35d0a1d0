/**
 * The stored records about supervised agents: the agent, the decisions about it, the questions to a person.
 *
 * Types only. Counters are derived from the event log, never stored, so a restart does not reset them.
 */
import type { Trouble } from "./events.ts";
import type { ActionName, PipelineDefinition, RunbookSource, Trigger } from "./runbook.ts";
import type { agentSchema, RecordOf, scheduledSchema } from "./schemas.ts";

/** Stored under the kind `agent` with the run's handle as id, and in the run directory as `agent.json`. */
export type AgentRecord = RecordOf<typeof agentSchema>;

/** One per run: the newest replaces the one before, once that one is final. */
export type ScheduledResume = RecordOf<typeof scheduledSchema>;

/** active: supervised, including while a person is asked. The other phases are final. */
export type AgentPhase = AgentRecord["phase"];

/**
 * An event of the run's log. `at` is milliseconds since 1970, `attempt` the attempt that it concerns. Progress resets
 * every count, except that a turn caused by a nudge does not reset the count of nudges.
 */
export type SupervisionEvent = { readonly seq: number; readonly at: number; readonly attempt: number } & (
  | /** A turn was completed: counters reset. */ { readonly kind: "progress" }
  /** Stored before Reprise acts on it; `key` prevents a duplicate (I8). */
  | {
      readonly kind: "decided";
      readonly key: string;
      readonly trigger: Trigger | "user";
      readonly position: number;
      readonly action: ActionName;
      readonly message: string | null;
      /** resume: the number of the new attempt. */
      readonly newAttempt: number | null;
      /** resume, by a person: ends a live agent first, or starts a new conversation. */
      readonly how?: "kill" | "fresh";
      /** resume, by a person: forbids a new conversation. */
      readonly strict?: true;
    }
  /** The process that ran a gate died, and Reprise runs the gate again for the first, second, … time. */
  | { readonly kind: "begun_again"; readonly key: string; readonly time: number }
  | {
      readonly kind: "carried_out";
      readonly key: string;
      readonly result: "ok" | "failed" | "refused";
      /** One sentence, or a gate's last words. Untrusted text. */
      readonly detail: string;
    }
  /** Reprise asked a person; the decision record has the details. */
  | { readonly kind: "escalated"; readonly decision: string }
  | { readonly kind: "answered"; readonly decision: string; readonly choice: string }
  /** A person passed `--strict` after this attempt: the runbook starts no new conversation after it. */
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
  /**
   * Why the runbook's last answer failed, for a gate with the end of its output. Absent: no answer failed. Untrusted
   * text.
   */
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
  /** How many times it began since a person last started or resumed the pipeline. */
  readonly runs: number;
  /** The agent that works on it, or the last that did. Null: a command, or no agent started yet. */
  readonly agent: string | null;
  /** All agents that worked on it, oldest first. */
  readonly agents: readonly string[];
  /** How it ended, or a command's last words. Untrusted text. */
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
  /**
   * The current step, or the last one if the pipeline failed or was cancelled. Null: before the first and after the
   * last step.
   */
  readonly step: string | null;
  /** Steps that began, in the order of their first start. */
  readonly steps: readonly StepRecord[];
  /** The directory of its steps; absolute. */
  readonly workspace: string;
  /** The engines of its agents may trust the workspace. */
  readonly trustCwd: boolean;
  readonly reason: string | null;
  readonly createdAt: string;
  readonly endedAt: string | null;
}

/** What a report on a resume says when Reprise restored the copy of a lost session. */
export const PUT_BACK = "the engine had lost the conversation, and Reprise restored the run's copy";
