/**
 * What Reprise understands of an agent's output, the same for every engine.
 *
 * Engines translate their own lines into these; nothing above `engines/` knows a native event.
 */

/** Why an attempt went wrong. `quota` has no reset in sight; `rate_limited` has one, or one is near. */
export const TROUBLE_KINDS = [
  "rate_limited",
  "overloaded",
  "auth",
  "quota",
  "network",
  "context_full",
  "session_lost",
  "session_busy",
  "usage",
  "other",
] as const;
export type TroubleKind = (typeof TROUBLE_KINDS)[number];

export interface Trouble {
  readonly kind: TroubleKind;
  /** The engine's own words, cut to a sane length. Untrusted text. */
  readonly message: string;
  /** ISO 8601, UTC. Absent when the engine named no time, or none that is certain. */
  readonly resetsAt?: string;
  /** HTTP status, where the engine reports one. */
  readonly status?: number;
}

export interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** A tool call that the engine refused to run. Both texts are untrusted. */
export interface DeniedCall {
  readonly name: string;
  /** The command, the file. */
  readonly detail?: string;
}

export type EngineEvent =
  /** The engine names its session in a structured line of its own at top level (I5). */
  | { readonly type: "session"; readonly session: string }
  | { readonly type: "turn_started" }
  /** Assistant text. A `delta` continues the text before it without a line break. */
  | { readonly type: "text"; readonly text: string; readonly delta?: true }
  | {
      readonly type: "tool";
      readonly state: "started" | "ended";
      /** Pairs start and end. Engines without ids use the tool's name. */
      readonly id: string;
      readonly name: string;
      /** One line for people: the command, the file. Untrusted text. */
      readonly detail?: string;
      readonly ok?: boolean;
    }
  /** The engine tries again by itself. `delayMs` is what it announced; absent means it named no end. */
  | { readonly type: "retry"; readonly trouble: Trouble; readonly delayMs?: number }
  /** `denied`: it is about a tool call that the engine did not let run. */
  | { readonly type: "notice"; readonly message: string; readonly denied?: DeniedCall }
  | { readonly type: "usage"; readonly tokens: Tokens }
  /** The engine's terminal event. Without one, the attempt is interrupted whatever the exit code says. */
  | {
      readonly type: "turn_ended";
      readonly result: "completed" | "failed" | "interrupted";
      readonly trouble?: Trouble;
    }
  /** The session changed by the user's own doing inside the UI (claude `/clear`, a fork). */
  | { readonly type: "session_changed"; readonly session: string; readonly why: string }
  /** A line that is not understood, or so many in a row: kept on the tape, never fatal (I9). */
  | { readonly type: "unknown"; readonly lines?: number };

/** Where a line came from. In PTY mode both terminals are read; `pty` is the agent's stdout terminal. */
export type Stream = "stdout" | "stderr";

/** An event with its origin, as written to `events.jsonl`. */
export interface SeenEvent {
  readonly event: EngineEvent;
  readonly stream: Stream;
  /** 1-based line number within the stream. */
  readonly line: number;
}

/** How a child process ended. Exactly one of the two is set, or neither when nobody could observe it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

export type OutcomeResult = "completed" | "failed" | "interrupted" | "cancelled" | "diverged";

export interface Outcome {
  readonly result: OutcomeResult;
  /** One sentence for people. */
  readonly reason: string;
  readonly trouble?: Trouble;
}

/** What would become of one file. Untrusted. */
export interface FileChange {
  /** `update src/a.ts`. */
  readonly what: string;
  /** Lines that begin with `+`, `-` or a blank, in hunks that begin with `@@`. Empty: nothing but `what`. */
  readonly diff: string;
}

/** What an agent asks before it goes on. All texts are untrusted. */
export interface Question {
  /** Names it among the open questions of this attempt. */
  readonly id: string;
  readonly about: "command" | "files";
  /** The command line, or the files with what shall be done to them. */
  readonly what: string;
  readonly cwd: string | null;
  readonly reason: string | null;
  /** Of `files`: each change that was announced. Absent: Codex did not say. */
  readonly changes?: readonly FileChange[];
  /** Equal for identical requests, also in another process. */
  readonly key: string;
}

export type Decision = "accept" | "accept_for_session" | "decline" | "cancel";

/** What a live agent is doing, in the engine's own words where it has some. */
export type Activity =
  | { readonly state: "starting" }
  | { readonly state: "working" }
  /** Its turn is over and it would take a message. */
  | { readonly state: "idle" }
  /** It asks for permission: whatever is typed now answers that. `what` is untrusted text. */
  | { readonly state: "waiting"; readonly what: string }
  /** Its turn failed, and it would take a message. */
  | { readonly state: "error"; readonly trouble: Trouble };

export interface Observed {
  readonly activity: Activity;
  /** Wall clock, milliseconds: when the activity began. */
  readonly sinceMs: number;
  /** When output, session or state last changed. */
  readonly grewAtMs: number;
  /** Turns that this attempt completed so far. */
  readonly turns: number;
  /** False: guessed from output alone, so an idle agent might as well be asking for permission. */
  readonly certain: boolean;
}
