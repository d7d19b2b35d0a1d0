/** What a caller asks of a resume. */
import type { AttemptRequest } from "../../engines/engine.ts";

export interface ResumeOptions {
  readonly want: "resume" | "fork" | "fresh";
  /** Which of the run's sessions: an id, or its first 8 or more characters. Absent: the newest in which anything was said. */
  readonly session?: string;
  /** What to do about a session that is damaged, or shorter than our copy. */
  readonly damage: "refuse" | "restore" | "ignore";
  /** Which copy goes back: 8 or more characters of its id, as `show` prints it. Absent: the newest that has more. */
  readonly copy?: string;
  /** Null: the UI again if the run was interactive, which needs a terminal; else `CONTINUE_MESSAGE`. */
  readonly message: string | null;
  readonly native: readonly string[];
  /**
   * Behind the config's: what a run begins with whose engine has refused its command line, so that no conversation ever
   * began. Absent: what it was started with. Any other run keeps its options.
   */
  readonly anew?: readonly string[];
  /** Makes `native` the run's own from now on. A new conversation keeps what it begins with in any case. */
  readonly keep: boolean;
  readonly env: readonly (readonly [string, string])[];
  /** Variables of the engine that Reprise does not know may differ from those of the start. */
  readonly allowEnv?: true;
  /** Files that decide on the run's rights may differ from those of the start. */
  readonly allowFiles?: true;
  /** The supervisor asks, and the environment is its own. */
  readonly supervised?: true;
  readonly hasTerminal: boolean;
  /** Opens the engine's UI, also for a message and for nobody who looks at it yet. */
  readonly ui?: true;
  readonly trustCwd: boolean;
  /** Talks with the agent while it works. Absent: it works alone. */
  readonly dialogue?: AttemptRequest["dialogue"];
  /** The id of the run that a fork becomes. Absent: nobody runs it (`--dry-run`). */
  readonly forkAs?: string;
}

/** A plain resume in a program's name: with the run's own options, and no person at a terminal. */
export const RESUME_DEFAULTS = {
  damage: "refuse",
  native: [],
  keep: false,
  env: [],
  hasTerminal: false,
  trustCwd: false,
} as const satisfies Partial<ResumeOptions>;
