/** What all issues of a batch share: options, metadata, limits; and what a batch reports about each of them. */
import type { Deps } from "../run/run.ts";
import type { Tokens } from "../core/events.ts";
import type { Redact } from "../lib/secrets.ts";
import type { PlannedBatch } from "./batch-plan.ts";
import type { IssueEnd, WorkOptions } from "./batch-types.ts";
import type { Batch, IssueRecord } from "./metadata.ts";
import type { Issue, IssueSource } from "./sources/source.ts";
import type { StopControl } from "./stop-control.ts";

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
  /** The branch that finished work is merged into. Null: no merges. */
  readonly mergeInto: string | null;
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
  /** Of the present turn. */
  readonly tokens: Tokens | null;
  /** Of all turns that ended, earlier batches included. */
  readonly spent: Tokens | null;
  readonly detail: string;
}

export interface BatchView extends WorkView {
  planned(planned: PlannedBatch): void;
  started(issue: Issue): void;
  ended(end: IssueEnd): void;
}
