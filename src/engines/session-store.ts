/**
 * Sessions in an engine's own store, and the live UIs that write them: how an engine reads both through `SessionFiles`
 * and what it finds.
 */
import type { Activity, EngineEvent, Trouble } from "../core/events.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { stringIn } from "../lib/json.ts";

export interface SessionPlace {
  readonly home: string;
  readonly cwd: string;
}

export type Located =
  | {
      readonly state: "present";
      /** The session's file first, which only grows, then files that it depends on. Empty: the store is not files. */
      readonly files: readonly { readonly path: string; readonly restoreTo: string }[];
      /** The conversation's directory, if the store records it. */
      readonly cwd: string | null;
      readonly updatedAtMs: number | null;
      /**
       * A worktree that the engine made and returns to; if it is missing, the agent works in the run's directory
       * instead.
       */
      readonly worktree?: string;
      /** Native options for the rights that the conversation began with, if the engine does not restore them. */
      readonly rights?: readonly string[];
      /** Why those rights are unknown, if the engine does not restore them. */
      readonly rightsUnknown?: string;
    }
  | { readonly state: "absent"; readonly searched: string }
  /** The session exists, but the engine refuses it, or would continue it without the conversation. */
  | {
      readonly state: "unusable";
      readonly path: string;
      readonly why: string;
      readonly damaged: boolean;
      /** The engine ended before it stored the first message. `rights` mean the same as for an existing session. */
      readonly blank?: true;
      readonly rights?: readonly string[];
      readonly rightsUnknown?: string;
    }
  | { readonly state: "unknown"; readonly why: string };

export interface FoundSession {
  readonly id: string;
  readonly cwd: string | null;
  readonly path: string | null;
  readonly createdAtMs: number | null;
  readonly updatedAtMs: number | null;
  /** First words of the conversation, for people. Untrusted text. */
  readonly title: string | null;
  /** The first message, cut to `OPENING_CHARACTERS`. Null or absent: unknown. */
  readonly opening?: string | null;
}

/** An event of a conversation, as the engine's session has it. Untrusted text, not redacted and not cut. */
export interface SaidEvent {
  readonly event: Extract<EngineEvent, { type: "message" | "text" | "tool" | "notice" | "turn_ended" }>;
  /** ISO 8601. Absent: the session does not say when. */
  readonly at?: string;
  /** The engine's id of a message or answer: a later event with the same id replaces this one. Absent: unknown. */
  readonly id?: string;
  /** More words of a tool call, for a search. Absent: those of the event. */
  readonly words?: string;
}

export const OPENING_CHARACTERS = 4_000;

export interface LiveUi extends Pick<ProcessIdentity, "pid" | "start"> {
  readonly session: string | null;
  readonly startedAtMs: number;
  /** The last result, so that only new data is read. Absent: the first look. */
  readonly before?: UiState;
  /** The file to which the hooks of `Command.hooks` append. Absent: no hooks. */
  readonly hooks?: string;
  /** The last status that the UI reported to its terminal (OSC 7501), `state=working:app=…`. Absent: none. */
  readonly status?: string;
}

export interface UiState {
  readonly activity: Activity;
  /** Turns completed since the process began. */
  readonly turns: number;
  /** When it changed according to the engine. Null: unknown. */
  readonly changedAtMs: number | null;
  /** For the next look; opaque to callers. */
  readonly mark?: UiMark;
}

/** The position in an engine's files, and their state up to there. */
export interface UiMark {
  /** Of the conversation. Null: no file yet. */
  readonly path: string | null;
  readonly offset: number;
  readonly turn: UiTurn;
  /** Identifies the last completed turn, which may take several lines. */
  readonly lastTurn: string | null;
  readonly hooks: { readonly offset: number; readonly heard: UiTurn | { readonly state: "waiting" } };
}

/** none: no message since the process began. over: completed, or ended by the user. */
export type UiTurn =
  | { readonly state: "none" | "running" | "over" }
  | { readonly state: "failed"; readonly trouble: Trouble };

export interface HolderHint {
  readonly pid: number;
  /** To compare with the live process. Null: the registry does not have it. */
  readonly start: ProcessIdentity["start"] | null;
}

/** An engine's access to its session store. Paths are absolute; nothing here throws for a missing file. */
export interface SessionFiles {
  /** Entries of a directory; empty if it is missing or unreadable. */
  list(directory: string): Promise<readonly FileEntry[]>;
  stat(path: string): Promise<FileEntry | null>;
  /** The first `bytes` of a file as text. Null: unreadable, or not a regular file. */
  head(path: string, bytes: number): Promise<string | null>;
  tail(path: string, bytes: number): Promise<string | null>;
  /**
   * Whole lines after the byte `from`, at most the last `bytes`; a file that became shorter is read from its beginning.
   * The next look continues at `next`.
   */
  lines(path: string, from: number, bytes: number): Promise<NewLines | null>;
  /** Rows of a read-only query on a SQLite file. Null: the file, the table or the library is missing. */
  rows(database: string, sql: string, values: readonly string[]): Promise<readonly DatabaseRow[] | null>;
}

export interface NewLines {
  readonly lines: readonly string[];
  readonly next: number;
}

export interface FileEntry {
  readonly name: string;
  readonly directory: boolean;
  readonly size: number;
  readonly mtimeMs: number;
}

export type DatabaseRow = Readonly<Record<string, unknown>>;

/** One line may hold an attachment of 60 KB; larger growth between two looks at a live session is read from its end. */
export const PART_BYTES = 1_048_576;
/** Clocks of one machine, rounded in different places. */
export const SLACK_MS = 1_000;

/** Milliseconds since 1970. 0: the record has no time. */
export function timeOf(record: unknown): number {
  const at = Date.parse(stringIn(record, "timestamp") ?? "");
  return Number.isNaN(at) ? 0 : at;
}

/** A message as it is compared: engines change its white space. */
export function plain(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
