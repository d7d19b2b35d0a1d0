/** What all issues of a batch share: options, metadata, limits; and what a batch reports about each of them. */
import type { HeldAccess } from "../run/engine-access.ts";
import type { Deps, Limits } from "../run/run.ts";
import type { GateConfig } from "../core/config-issues.ts";
import type { Tokens } from "../core/events.ts";
import type { Redact } from "../lib/secrets.ts";
import type { PlannedBatch } from "./batch-plan.ts";
import type { Isolate } from "./decide.ts";
import type { Batch, IssueRecord } from "./metadata.ts";
import type { Issue, IssueSource, IssueStatus } from "./sources/source.ts";
import type { StopControl } from "./stop-control.ts";

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

/** Shared by all issues of a batch. */
export interface BatchContext {
  readonly deps: Deps;
  readonly root: string;
  readonly source: IssueSource;
  readonly batch: Batch;
  readonly options: WorkOptions;
  readonly stopControl: StopControl;
  readonly redact: Redact;
  /** Names of existing branches. */
  readonly branches: Set<string>;
  readonly view: WorkView;
  /** The end of the engine's limit: no agent starts before it. */
  limitedUntilMs: number;
  /** The tree of each commit that issues begin from. */
  readonly trees: Map<string, Promise<string | null>>;
  /** The merge in progress: the next one waits for it. */
  merging: Promise<void>;
}

export interface WorkView {
  progress(id: string, progress: ProgressReport): void;
  /** Shown with `--verbose`. */
  verbose(text: string): void;
}

export interface ProgressReport {
  readonly state: IssueRecord["status"];
  readonly attempt: number;
  readonly tokens: Tokens | null;
  readonly detail: string;
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
  /** The exit code, if the whole batch ends with this issue. */
  readonly stop?: number;
}

export interface BatchView extends WorkView {
  planned(planned: PlannedBatch): void;
  started(issue: Issue): void;
  ended(end: IssueEnd): void;
}
