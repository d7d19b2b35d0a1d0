/**
 * What differs from one engine to the next, and nothing more.
 *
 * An engine is data plus pure functions: it never spawns, opens a file or looks at the clock. `drivers/` does
 * the talking and reads session files on its behalf; `run/` does the remembering and asks for capabilities,
 * never for an engine's name.
 */
import type { Access } from "../core/config-issues.ts";
import type { Env } from "../core/deps.ts";
import type {
  Activity,
  Decision,
  DeniedCall,
  EngineEvent,
  Exit,
  Question,
  Stream,
  Trouble,
} from "../core/events.ts";
import type { AttemptKind, AttemptRecord, FolderTrust, ProcessIdentity } from "../core/records.ts";
import type { Given, Grammar } from "./grammar.ts";
import type { GuardedEnv } from "./guarded-env.ts";

export interface Engine {
  /** Stored with every run. Public API: never renamed. */
  readonly id: string;
  readonly title: string;
  /** Program name, looked up on PATH unless the config names a path. */
  readonly program: string;
  /** Arguments that must precede all others; only for engines that are a script of ours. */
  readonly programArgs?: readonly string[];
  /** Why nobody can install this engine any more. Shown by `doctor`. */
  readonly legacy?: string;
  /** Oldest and newest versions whose transcripts are in the fixtures. Null: none was recorded. */
  readonly tested: readonly [oldest: string, newest: string] | null;
  readonly session: {
    /** Name of the id in the engine's output; becomes `session.field`. */
    readonly field: string;
    /** The engine's own id format, anchored. An id that does not match never counts (I5). */
    readonly format: RegExp;
  };
  /** What others may count on. `run/` branches on these, never on `id`. */
  readonly can: {
    /** The caller may choose the session id before the first turn. */
    readonly chooseSession: boolean;
    readonly fork: boolean;
    readonly interactive: boolean;
    /** `sessions` and `locate` can read the engine's store. */
    readonly readStore: boolean;
    /** A session is found only from the directory it was started in. */
    readonly boundToCwd: boolean;
  };
  readonly grammar: Grammar;
  /** How agents without a UI are held to a level of access. Absent: the engine has no such modes. */
  readonly access?: AccessModes;
  /** A command line with these words prints every tool call. Absent: nothing tells that no tool was called. */
  readonly tellsTools?: readonly string[];
  /** Variables by which this engine gets or loses rights: a resume sees them as the start did (I12). */
  readonly rightsEnv?: readonly string[];
  /** Variables that name a file with rules. `unchanged` takes out of it what the engine writes there itself. */
  readonly rulesEnv?: { readonly names: readonly string[]; readonly unchanged?: (content: string) => string };
  /** It works only in a folder that it trusts, which `--trust-cwd` makes it do. */
  readonly asksTrust?: true;
  /** Its own settings trust folders, and in a trusted one what the folder brings counts. Absent: nothing to hold (I12). */
  readonly folderTrust?: {
    /** Settings, below the engine's home or absolute; what the first says of a folder counts. */
    readonly files: readonly string[];
    /** The directory that these arguments make the agent work in. */
    workplace(args: readonly string[], cwd: string): string;
    /**
     * What such files, and these arguments over them, say of the first of these folders: then come its checkout and, of a
     * worktree, the main one.
     */
    in(
      texts: readonly string[],
      folders: readonly [cwd: string, ...checkouts: string[]],
      args: readonly string[],
    ): FolderTrust;
    /** Where the settings say nothing the UI asks, and goes on only in a folder that the user trusts. */
    readonly uiAsks: true;
  };
  /** Variables of which an unknown one may bear on rights. Absent: the engine has no prefix of its own. */
  readonly guardedEnv?: GuardedEnv;
  /** Variables that open the folder they name to the agent, where these arguments let them. Unset they open nothing (I12). */
  readonly openingEnv?: { readonly names: readonly string[]; matters(args: readonly string[]): boolean };

  /** The directory where the engine keeps its sessions, from its environment; null when HOME is unknown. */
  home(env: Env): string | null;
  /** The variables that make the engine use this home (the config's `home`). */
  homeEnv(home: string): Readonly<Record<string, string>>;
  /** From what `program --version` printed. */
  version(output: string): string | null;
  /** Would these native arguments, passed through untouched, open a UI that needs a terminal? */
  opensUi(args: readonly string[]): boolean;
  /** The native command for an attempt. Throws a Fault when it cannot be done exactly (I12). */
  command(ask: Ask): Command;
  /**
   * A fresh reader for one attempt's output. `now` is for announced reset times. `printed` is `events` when absent; the
   * reader of a dialogue need only find the session again on the tape.
   */
  reader(now: () => number, printed?: Printed): OutputReader;
  /** What a recorded attempt printed, by its command line. */
  printed(attempt: Pick<AttemptRecord, "args" | "interactive" | "message">): Printed;
  /** The first message that native arguments give, as the engine stores it. Null: they do not say. */
  opening?(args: readonly string[]): string | null;
  /**
   * Why the agent failed, from its exit and its last words, when no terminal event explained the end. Null: nothing to
   * say. `stdoutTail` only where stdout is text: the engine may speak there, but the model does too, so only the place
   * where the engine speaks counts then.
   */
  explainExit(exit: Exit, stderrTail: string, nowMs: number, stdoutTail?: string): Trouble | null;
  /** Does the engine still have this session, and where? */
  locate(session: string, where: Where, files: SessionFiles): Promise<Located>;
  /** Is a new file of this name, where `locate` searched, this session's? Absent: only `locate` can tell. */
  namesFile?(session: string, name: string): boolean;
  /** Sessions in the engine's store, newest first; only those of `where.cwd` unless it is null. */
  sessions(
    where: { home: string; cwd: string | null },
    files: SessionFiles,
  ): Promise<readonly FoundSession[]>;
  /** Processes that the engine's registry says have this session open; dead ones may be among them. */
  holders?(session: string, where: Where, files: SessionFiles): Promise<readonly HolderHint[]>;
  /** The session that a live agent is in right now, where the engine keeps a registry by pid. */
  liveSession?(
    agent: Pick<ProcessIdentity, "pid" | "start">,
    where: Where,
    files: SessionFiles,
  ): Promise<string | null>;
  /**
   * What a live UI is doing, from the engine's registry and session; null: it cannot be told right now. Absent: the
   * engine never says, and only its output and its end can be watched.
   */
  activity?(agent: LiveUi, where: Where, files: SessionFiles): Promise<UiState | null>;
  /** Tool calls that were refused in the last turn, for engines whose output does not tell. */
  denied?(session: string, where: Where, files: SessionFiles): Promise<readonly DeniedCall[]>;
  /** Did the conversation take up this message, after it was typed? */
  tookUp?(
    message: string,
    agent: LiveUi & { readonly typedAtMs: number },
    where: Where,
    files: SessionFiles,
  ): Promise<boolean>;
  /** For engines whose sessions are not files: native arguments that write a session to stdout and read one back. */
  readonly transfer?: {
    exportArgs(session: string): readonly string[];
    /** Gives back what the store lacks, by id, and leaves the rest as it is. */
    importArgs(file: string): readonly string[];
    /** What an export holds: the words of each message and part, by the engine's own ids. Null: it cannot be told. */
    readExport(text: string): ReadonlyMap<string, string> | null;
    /** The same of all that the store has of a session. Null: it cannot be told. */
    wordsIn(session: string, where: Where, files: SessionFiles): Promise<ReadonlyMap<string, string> | null>;
  };
}

/**
 * What an attempt's stdout holds. events: lines that the reader understands. dialogue: those of `Command.dialogue`. text:
 * the model's own words, among which nothing may name a session (I5).
 */
export type Printed = "events" | "dialogue" | "text";

/** Native options for each level; none: the engine does that unasked. Absent: it cannot be held to that level. */
export interface AccessModes extends Partial<Readonly<Record<Access, readonly string[]>>> {
  /** Options that may set the mode themselves, so that none is added beside them. */
  readonly unless?: readonly string[];
  /** Rules of the user's own that each of these options would switch off. */
  readonly profile?: {
    /** Files that may name the rules, below the engine's home or absolute; the first that does counts. */
    readonly files: readonly string[];
    /** What such a file says, as it stands there; null: nothing. */
    in(text: string): string | null;
    isNamedBy(option: Given): boolean;
  };
}

export interface Ask {
  readonly kind: AttemptKind;
  readonly interactive: boolean;
  /** Null: none (interactive, or native arguments passed through untouched). */
  readonly message: string | null;
  /** resume, fork: the session to continue. start, fresh: the id to choose where the engine can; else null. */
  readonly session: string | null;
  /** fork: the id for the new session where the engine can choose it; else null. */
  readonly forkTo: string | null;
  /** Native arguments as the user first gave them, config defaults in front. */
  readonly given: readonly string[];
  /** The first start had a message of Reprise's own, so no word in `given` is a prompt. */
  readonly givenHasNoPrompt: boolean;
  /** Native options for this attempt, applied over `given` within I12. */
  readonly native: readonly string[];
  /** What `locate` said of the rights of this session; used where `given` and `native` say nothing of them (I12). */
  readonly rights?: readonly string[];
  /** Why `rights` cannot be known. An engine that needs them then refuses (I12). */
  readonly rightsUnknown?: string;
  /** Not to be guessed, and new for each attempt. Absent: there are no `rights` to hold. */
  readonly nonce?: string;
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  /** Unique for this attempt, `[0-9a-z-]`; engines that cannot choose an id use it to find their session. */
  readonly tag: string;
  /** The user allows the engine to trust the folder. */
  readonly trustCwd: boolean;
  /**
   * What the engine's settings and the run's own options said of the folder when the run was first started. Absent: see
   * `Engine.folderTrust`.
   */
  readonly folderTrust?: FolderTrust;
  /** The folder that the agent works in, links resolved, its checkout and, of a worktree, the main one. Absent: not looked up. */
  readonly folders?: readonly [cwd: string, ...checkouts: string[]];
  /** The folder is made for this run, and empty (`--isolate dir`). */
  readonly ownFolder?: true;
  /** The UI is watched: hooks may be added that tell what it does, and nothing else. */
  readonly watched?: true;
  /** The agent is talked to while it works, and asks before it does what it may not: by this policy. */
  readonly dialogue?: { readonly approval: Approval };
}

/** When an agent asks: for what its sandbox forbids, or never, in which case it does without. */
export type Approval = "on-request" | "never";

export interface Command {
  readonly args: readonly string[];
  /** `args` as they may be stored, `[message]` in place of the message. Absent: `args` do not hold the message. */
  readonly storedArgs?: readonly string[];
  /** Written to stdin, which is then closed. Null: stdin is closed (headless) or the terminal (interactive). */
  readonly stdin: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** Settings files; the variable gets the path unless the user set it. */
  readonly settings?: readonly SettingsFile[];
  /** The variable that must name a file to which hooks of the command append one JSON object a line. */
  readonly hooks?: string;
  readonly headless: boolean;
  /** stdout is machine-readable: the reader sees every event, the end of a turn included. */
  readonly structured: boolean;
  /** The id that the engine must report: chosen or asked for. Null: the engine will name one. */
  readonly expects: string | null;
  /** No session will be kept (`--ephemeral`, `--no-session-persistence`): why. */
  readonly ephemeral?: string;
  /** What became of the recorded options, one text each, for the receipt. */
  readonly options: OptionReport;
  /** What the user should know before this runs. */
  readonly warnings?: readonly string[];
  /** The agent is talked to over stdin and stdout, which stay open; the message is said in there. `stdin` is null. */
  readonly dialogue?: (now: () => number) => Dialogue;
}

export interface SettingsFile {
  /** What it changes, for people. */
  readonly purpose: string;
  readonly variable: string;
  /** Of the file: in the package where it is shipped with it, else in the state directory. */
  readonly name: string;
  readonly content: string;
  /** The engine believes only a file that belongs to root, below directories that only root can change. */
  readonly rootOnly?: true;
  /** Files that the engine would read without the variable. Where one exists, the variable is not set. */
  hides?(env: Env): readonly string[];
  /** Where it cannot be set, starts in one folder must not overlap: the next waits until the last has its file. */
  readonly otherwiseApart?: true;
}

/**
 * A conversation with an agent that answers, reports and asks, one JSON object a line each way. Stateful over one
 * attempt, pure otherwise: who owns it sends the lines that it returns, in order, after the events beside them were
 * recorded (I2). No method may throw.
 */
export interface Dialogue {
  /** The first lines to send. */
  open(): Said;
  /** One line of the agent's stdout, without its line break. */
  heard(text: string): Said;
  /** The answer to a question. Nothing for one that is not open any more. */
  answer(id: string, decision: Decision): Said;
  /** Asks the turn that runs to stop; one that has not begun does not begin, and then there is nothing to send. */
  interrupt(): Said;
  /** Requests of ours that wait for their answer, oldest first, by the name people know. */
  waitsFor(): readonly string[];
}

export interface Said {
  /** Lines to send, without line breaks. */
  readonly send: readonly string[];
  readonly events: readonly EngineEvent[];
  /** Asked now, to be answered by `answer`. */
  readonly questions: readonly Question[];
  /** Questions that need no answer any more. */
  readonly settled: readonly string[];
  /** Nothing more will come of this conversation: the agent may be let go. */
  readonly over: boolean;
}

export interface OptionReport {
  readonly kept: readonly string[];
  readonly dropped: readonly string[];
  readonly rewritten: readonly string[];
}

/** Stateful over one attempt, pure otherwise. Neither method may throw. */
export interface OutputReader {
  /** One line without its line break and without a trailing `\r`. */
  line(stream: Stream, text: string): readonly EngineEvent[];
  /** After the last line: what only the end reveals (a pretty-printed object, a missing terminal event). */
  end(exit: Exit): readonly EngineEvent[];
  /** The stream on which the engine names a session that only `end` tells of. Absent: stdout. */
  readonly namesLastOn?: Stream;
}

/** For text: of a model's own words nothing is understood, since they may look like any line of the engine's (I5). */
export const SILENT: OutputReader = { line: () => [], end: () => [] };

export interface Where {
  readonly home: string;
  readonly cwd: string;
}

export type Located =
  | {
      readonly state: "present";
      /** The session's own file first, which only ever grows, then files it depends on. Empty when the store is not files. */
      readonly files: readonly { readonly path: string; readonly restoreTo: string }[];
      /** Where the conversation took place, if the store says so. */
      readonly cwd: string | null;
      readonly updatedAtMs: number | null;
      /** A worktree that the engine made and goes back to; when it is gone the agent works in the run's directory instead. */
      readonly worktree?: string;
      /** Native options that hold the rights the conversation began with, where the engine does not restore them. */
      readonly rights?: readonly string[];
      /** Why those rights cannot be told, where the engine does not restore them. */
      readonly rightsUnknown?: string;
    }
  | { readonly state: "absent"; readonly searched: string }
  /** It is there, but the engine will not continue it. */
  | { readonly state: "unusable"; readonly path: string; readonly why: string; readonly damaged: boolean }
  | { readonly state: "unknown"; readonly why: string };

export interface FoundSession {
  readonly id: string;
  readonly cwd: string | null;
  readonly path: string | null;
  readonly createdAtMs: number | null;
  readonly updatedAtMs: number | null;
  /** First words of the conversation, for people. Untrusted text. */
  readonly title: string | null;
  /** The first message, cut to `OPENING_CHARACTERS`. Null or absent: the store does not say. */
  readonly opening?: string | null;
}

export const OPENING_CHARACTERS = 4_000;

export interface LiveUi extends Pick<ProcessIdentity, "pid" | "start"> {
  readonly session: string | null;
  readonly startedAtMs: number;
  /** What was told last time, so that only what is new is read. Absent: this is the first look. */
  readonly before?: UiState;
  /** The file to which the hooks of `Command.hooks` append. Absent: it was given none. */
  readonly hooks?: string;
  /** The last status that the UI gave its terminal (OSC 7501), `state=working:app=…`. Absent: none. */
  readonly status?: string;
}

export interface UiState {
  readonly activity: Activity;
  /** Turns completed since the process began. */
  readonly turns: number;
  /** When the engine says that it changed; null: it does not. */
  readonly changedAtMs: number | null;
  /** For the next look, and for nobody else to understand. */
  readonly mark?: UiMark;
}

/** How far an engine's files were read, and what they had said by then. */
export interface UiMark {
  /** Of the conversation; null: it has no file yet. */
  readonly path: string | null;
  readonly offset: number;
  readonly turn: UiTurn;
  /** Names the last completed turn, which may be written in several lines. */
  readonly lastTurn: string | null;
  readonly hooks: { readonly offset: number; readonly heard: UiTurn | { readonly state: "waiting" } };
}

/** none: nothing was said since the process began. over: completed, or ended by the user. */
export type UiTurn =
  | { readonly state: "none" | "running" | "over" }
  | { readonly state: "failed"; readonly trouble: Trouble };

export interface HolderHint {
  readonly pid: number;
  /** To be compared with the live process; null when the registry does not say. */
  readonly start: ProcessIdentity["start"] | null;
}

/** How engines see their own session store. Paths are absolute; nothing here throws for a missing file. */
export interface SessionFiles {
  /** Entries of a directory; empty when it does not exist or cannot be read. */
  list(directory: string): Promise<readonly FileEntry[]>;
  stat(path: string): Promise<FileEntry | null>;
  /** The first `bytes` of a file as text; null when it cannot be read or is not a regular file. */
  head(path: string, bytes: number): Promise<string | null>;
  tail(path: string, bytes: number): Promise<string | null>;
  /**
   * Whole lines behind the byte `from`, of more than `bytes` only the last; a file that became shorter is read from its
   * beginning. `next` is where the following look goes on.
   */
  lines(path: string, from: number, bytes: number): Promise<NewLines | null>;
  /** Rows of a read-only query on a SQLite file; null when the file, the table or the library is missing. */
  rows(database: string, sql: string, values: readonly string[]): Promise<readonly Row[] | null>;
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

export type Row = Readonly<Record<string, unknown>>;
