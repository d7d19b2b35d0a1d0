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
  /** By which new runs are held to what they may do. */
  readonly access: HeldAccess;
  /** For new runs, behind those of `access`. */
  readonly native: readonly string[];
  /** For runs of earlier batches: what the user gave now, within I12. */
  readonly over: readonly string[];
  /** For the same: what the batch that goes on was held to. It narrows a run; it never stands in its way. */
  readonly bound: readonly string[];
  /** What people say who have no say in the repository reaches agents too. */
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

/** How this batch is gone on with. Without secrets. */
export interface ContinueCommands {
  /** Its options, as they are typed. */
  readonly words: readonly string[];
  /** Those of them that say where issues are. */
  readonly source: readonly string[];
  /** Options whose secrets a person must add. */
  readonly byHand: readonly string[];
  /** The command for notes in issues, which others read. */
  readonly note: string;
}

/** What all issues of a batch share. */
export interface BatchContext {
  readonly deps: Deps;
  readonly root: string;
  readonly source: IssueSource;
  readonly batch: Batch;
  readonly options: WorkOptions;
  readonly stopControl: StopControl;
  readonly redact: Redact;
  /** Names that are taken. */
  readonly branches: Set<string>;
  readonly view: WorkView;
  /** No agent starts before: the engine's limit ends then. */
  limitedUntilMs: number;
  /** What the files are in each commit that issues begin from. */
  readonly trees: Map<string, Promise<string | null>>;
  /** One merge after the other. */
  merging: Promise<void>;
}

export interface WorkView {
  progress(id: string, progress: ProgressReport): void;
  /** For people who want to know. */
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
  /** In the source, as it was seen last; null: it is gone, or not known. */
  readonly status: IssueStatus | null;
  /** no_change: the agent was done and no file differs. left: nothing was done about it. */
  readonly state: "completed" | "failed" | "interrupted" | "no_change" | "left";
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** What the gate said that failed last: why, and the end of its output. Null: none failed. */
  readonly gate: string | null;
  /** The whole batch ends with it. */
  readonly stop?: number;
}

export interface BatchView extends WorkView {
  planned(planned: PlannedBatch): void;
  started(issue: Issue): void;
  ended(end: IssueEnd): void;
}
