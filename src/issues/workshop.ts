/** What the issues of a batch share, how each is shown while it is worked on, and how it ends. Types only. */
import type { GateConfig } from "../core/config-issues.ts";
import type { Tokens } from "../core/events.ts";
import type { Redact } from "../lib/secrets.ts";
import type { Deps, Limits } from "../run/run.ts";
import type { Brake } from "./brake.ts";
import type { Batch, IssueRecord } from "./metadata.ts";
import type { Source } from "./source.ts";

export interface WorkOptions {
  readonly engine: string;
  readonly native: readonly string[];
  readonly limits: Limits;
  readonly isolate: "worktree" | "none";
  readonly strict: boolean;
  readonly onLimit: "wait" | "stop";
  readonly merge: boolean;
  readonly trustCwd: boolean;
  /** Null: the work is not checked. */
  readonly gate: GateConfig | null;
}

/** What all issues of a batch share. */
export interface Workshop {
  readonly deps: Deps;
  readonly root: string;
  readonly source: Source;
  readonly batch: Batch;
  readonly options: WorkOptions;
  readonly brake: Brake;
  readonly redact: Redact;
  /** Names that are taken. */
  readonly branches: Set<string>;
  readonly view: WorkView;
  /** No agent starts before: the engine's limit ends then. */
  limitedUntilMs: number;
  /** One merge after the other. */
  merging: Promise<void>;
}

export interface WorkView {
  progress(id: string, progress: Progress): void;
  /** For people who want to know. */
  verbose(text: string): void;
}

export interface Progress {
  readonly state: IssueRecord["status"] | "waiting";
  readonly attempt: number;
  readonly tokens: Tokens | null;
  readonly detail: string;
}

export interface IssueEnd {
  readonly id: string;
  readonly title: string;
  /** left: nothing was done about it. */
  readonly state: "completed" | "failed" | "interrupted" | "left";
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** The whole batch ends with it. */
  readonly stop?: number;
}
