/** The options of a batch, and how each of its issues ended. */
import type { Tokens } from "../core/events.ts";
import type { HeldAccess } from "../run/engine-access.ts";
import type { Limits } from "../run/run.ts";
import type { GateConfig } from "../core/config-issues.ts";
import type { IssueStatus } from "./sources/source.ts";

/** Where agents work: each in a worktree with its own branch, or in the user's checkout. */
export type Isolate = "worktree" | "none";

export interface WorkOptions {
  readonly engine: string;
  /** The access of new runs. */
  readonly access: HeldAccess;
  /** For new runs, after those of `access`. */
  readonly native: readonly string[];
  /** For runs of earlier batches: the options of this command, within I12. */
  readonly over: readonly string[];
  /** For runs of earlier batches: the limits of the resumed batch. They narrow a run and never block it. */
  readonly bound: readonly string[];
  /** Agents also get text of authors without a role in the repository. */
  readonly includeStrangers: boolean;
  readonly limits: Limits;
  readonly isolate: Isolate;
  readonly strict: boolean;
  readonly onLimit: "wait" | "stop";
  readonly merge: boolean;
  /** With `merge`: the branch that the continued batch merges into. Null: none is recorded. */
  readonly mergeInto: string | null;
  readonly again: ContinueCommands;
  readonly trustCwd: boolean;
  /** Null: the work is not checked. */
  readonly gate: GateConfig | null;
}

/** The command that continues this batch, without secrets. */
export interface ContinueCommands {
  /** Its options as typed. */
  readonly words: readonly string[];
  /** Those that select the source. */
  readonly source: readonly string[];
  /** Options with a secret that a person must add. */
  readonly byHand: readonly string[];
  /** The command for notes in issues, which other people read. */
  readonly note: string;
}

export interface IssueEnd {
  readonly id: string;
  readonly title: string;
  /** The last status that the source reported. Null: gone or unknown. */
  readonly status: IssueStatus | null;
  /** no_change: the agent ended its turn and no file differs. left: Reprise did nothing about it. */
  readonly state: "completed" | "failed" | "interrupted" | "no_change" | "left";
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** The last failure of the gate: why, and the end of its output. Null: it did not fail. */
  readonly gate: string | null;
  /** What all turns used, earlier batches included. Null: no turn reported it. */
  readonly tokens: Tokens | null;
  /** The branch that has its work now. Absent: Reprise did not merge it. */
  readonly mergedInto?: string;
  /** The exit code, if the whole batch ends with this issue. */
  readonly stop?: number;
}
