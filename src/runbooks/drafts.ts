/** Agents and pipelines of a runbook: checked, with templates still in their texts. */
import type { AgentDefinition, StepDefinition } from "../core/runbook.ts";
import type { At } from "./tree.ts";

export interface Var {
  readonly name: string;
  /** The default. Null: the user must give a value. */
  readonly value: string | null;
}

interface Draft {
  readonly name: string;
  /** Position of its name. */
  readonly at: At;
  readonly vars: readonly Var[];
}

export interface AgentDraft extends Draft {
  /** As written, relative to the runbook. `definition.prompt` already has its text. */
  readonly promptFile: string | null;
  /** `cwd` as written; empty: not written. */
  readonly definition: AgentDefinition;
}

export interface PipelineDraft extends Draft {
  readonly workspace: "cwd" | "dir" | "worktree";
  /** As written; empty: not written. */
  readonly cwd: string;
  readonly steps: readonly StepDraft[];
}

export type StepDraft = Omit<StepDefinition, "agent"> & { readonly agent: AgentDraft | null };
