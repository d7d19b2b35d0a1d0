/** The options of a resume, and their defaults for programs. */
import type { AttemptRequest } from "../../engines/engine.ts";
import type { DaemonWork } from "./plan.ts";

export interface ResumeOptions {
  readonly want: "resume" | "fork" | "fresh";
  /** The session to continue: an id, or its first 8 or more characters. Absent: the newest one with a message. */
  readonly session?: string;
  /** What to do about a session that is damaged, or shorter than the run's copy. */
  readonly damage: "refuse" | "restore" | "ignore";
  /** The copy to restore: 8 or more characters of its id, as `show` prints it. Absent: the newest copy that has more. */
  readonly copy?: string;
  /** Null: opens the UI if the run was interactive, which needs a terminal; otherwise sends `CONTINUE_MESSAGE`. */
  readonly message: string | null;
  readonly native: readonly string[];
  /**
   * New options for a run whose engine refused its command line, so that no conversation ever began. They follow those of
   * the config. Absent: the options of the start. Any other run keeps its options.
   */
  readonly anew?: readonly string[];
  /** Adds `native` to the run's options for later attempts. A new conversation always keeps its options. */
  readonly keep: boolean;
  readonly env: readonly (readonly [string, string])[];
  /** Engine variables that Reprise does not know may differ from those of the start. */
  readonly allowEnv?: true;
  /** Files that affect the run's rights may differ from those of the start. */
  readonly allowFiles?: true;
  /** The daemon resumes, in the daemon's environment. */
  readonly supervised?: DaemonWork;
  /** The id of the scheduled resume that asks for this attempt. Absent: a person or a program asks now. */
  readonly scheduled?: string;
  readonly hasTerminal: boolean;
  /** Opens the engine's UI even with a message and without a terminal. */
  readonly ui?: true;
  readonly trustCwd: boolean;
  /** Exchanges messages with the agent while it works. Absent: the agent works alone. */
  readonly dialogue?: AttemptRequest["dialogue"];
  /** The id of the fork's run. Absent: a dry run. */
  readonly forkAs?: string;
}

/** A resume by a program: with the run's own options and without a terminal. */
export const RESUME_DEFAULTS = {
  damage: "refuse",
  native: [],
  keep: false,
  env: [],
  hasTerminal: false,
  trustCwd: false,
} as const satisfies Partial<ResumeOptions>;
