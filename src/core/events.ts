/**
 * How Reprise interprets an agent's output, the same for every engine.
 *
 * Engines translate their lines into these events; no folder above `engines/` knows a native event.
 */
import type { AttemptRecord } from "./records.ts";

export { TROUBLE_KINDS, type TroubleKind } from "./kinds.ts";

export type Trouble = NonNullable<Outcome["trouble"]>;

export type Tokens = NonNullable<AttemptRecord["tokens"]>;

/** A tool call that the engine refused to run. Both texts are untrusted. */
export interface DeniedCall {
  readonly name: string;
  /** The command or the file of the call. */
  readonly detail?: string;
}

export type EngineEvent =
  /** The engine names its session in a structured top-level line (I5). */
  | { readonly type: "session"; readonly session: string }
  | { readonly type: "turn_started" }
  /** Assistant text. A `delta` continues the text before it without a line break. */
  | { readonly type: "text"; readonly text: string; readonly delta?: true }
  /** What somebody said to the agent. `opening`: the attempt began with it. `cut`: characters that were left out. */
  | { readonly type: "message"; readonly text: string; readonly opening?: true; readonly cut?: number }
  | {
      readonly type: "tool";
      readonly state: "started" | "ended";
      /** Pairs start and end. For engines without ids, the tool's name. */
      readonly id: string;
      readonly name: string;
      /** One line: the command or the file. Untrusted text. */
      readonly detail?: string;
      readonly ok?: boolean;
      /** Of an ended call: what it returned, as far as the engine shows it. Untrusted text. */
      readonly output?: string;
      /** Characters left out of `output`, where it has a line with an ellipsis. Absent: none. */
      readonly cut?: number;
    }
  /** The engine retries on its own. `delayMs` is the announced delay; absent: the engine announced none. */
  | { readonly type: "retry"; readonly trouble: Trouble; readonly delayMs?: number }
  /** `denied`: the notice is about a tool call that the engine refused to run. */
  | { readonly type: "notice"; readonly message: string; readonly denied?: DeniedCall }
  /**
   * `tokens`: what this attempt has used so far; null if the engine reports only totals. `session`: totals of the whole
   * conversation, earlier attempts and the original of a fork included.
   */
  | { readonly type: "usage"; readonly tokens: Tokens; readonly session?: Tokens }
  | { readonly type: "usage"; readonly tokens: null; readonly session: Tokens }
  /** The engine's terminal event. Without it the attempt counts as interrupted, whatever the exit code. */
  | {
      readonly type: "turn_ended";
      readonly result: "completed" | "failed" | "interrupted";
      readonly trouble?: Trouble;
    }
  /** The user changed the session inside the UI (claude `/clear`, a fork). */
  | { readonly type: "session_changed"; readonly session: string; readonly why: string }
  /** One or more lines in a row that Reprise does not understand: kept on the tape, never fatal (I9). */
  | { readonly type: "unknown"; readonly lines?: number };

/** The origin of a line. In PTY mode, stdout and stderr are two terminals. */
export type Stream = "stdout" | "stderr";

/** An event with its origin, as written to `events.jsonl`. */
export interface SeenEvent {
  readonly event: EngineEvent;
  readonly stream: Stream;
  /** 1-based line number within the stream. */
  readonly line: number;
}

/** How a child process ended. One of the two is set, or neither if nothing observed the end. */
export type Exit = NonNullable<AttemptRecord["exit"]>;

export type Outcome = NonNullable<AttemptRecord["outcome"]>;
export type OutcomeResult = Outcome["result"];

/** The planned change of one file. Untrusted. */
export interface FileChange {
  /** `update src/a.ts`. */
  readonly what: string;
  /** Lines that begin with `+`, `-` or a blank, in hunks that begin with `@@`. Empty: only `what` is known. */
  readonly diff: string;
}

/** A request of an agent that waits for an answer. All texts are untrusted. */
export interface Question {
  /** Unique among the open questions of this attempt. */
  readonly id: string;
  readonly about: "command" | "files";
  /** The command line, or the files with the planned changes. */
  readonly what: string;
  readonly cwd: string | null;
  readonly reason: string | null;
  /** Of `files`: each announced change. Absent: Codex announced none. */
  readonly changes?: readonly FileChange[];
  /** Equal for identical requests, even across processes. */
  readonly key: string;
}

export type QuestionAnswer = "accept" | "accept_for_session" | "decline" | "cancel";

/** What a live agent is doing, in the engine's words if it reports any. */
export type Activity =
  | { readonly state: "starting" }
  | { readonly state: "working" }
  /** The turn is over, and the agent accepts a message. */
  | { readonly state: "idle" }
  /** The agent asks for permission, so any typed text answers that question. `what` is untrusted text. */
  | { readonly state: "waiting"; readonly what: string }
  /** The turn failed, and the agent accepts a message. */
  | { readonly state: "error"; readonly trouble: Trouble };

export interface Observed {
  readonly activity: Activity;
  /** Wall clock, milliseconds: when the activity began. */
  readonly sinceMs: number;
  /** When output, session or state last changed, milliseconds. */
  readonly grewAtMs: number;
  /** Turns that this attempt has completed. */
  readonly turns: number;
  /** False: derived from output alone, so an agent that seems idle may be asking for permission. */
  readonly certain: boolean;
}
