/**
 * The differences between engines, and nothing more.
 *
 * An engine is data plus pure functions: it never spawns, opens a file or reads the clock. `drivers/` talks to agents
 * and reads session files for it; `run/` keeps records and asks for capabilities, never for an engine's name.
 */
import type { Access } from "../core/config-issues.ts";
import type { Env } from "../core/deps.ts";
import type {
  QuestionAnswer,
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
import type {
  FoundSession,
  HolderHint,
  LiveUi,
  Located,
  SessionFiles,
  SessionPlace,
  SaidEvent,
  UiState,
} from "./session-store.ts";

export type {
  DatabaseRow,
  FileEntry,
  FoundSession,
  LiveUi,
  Located,
  NewLines,
  SaidEvent,
  SessionFiles,
  UiState,
} from "./session-store.ts";
export { OPENING_CHARACTERS } from "./session-store.ts";

export interface Engine {
  /** Stored with every run. Public API: never renamed. */
  readonly id: string;
  readonly title: string;
  /** Program name, looked up on PATH unless the config names a path. */
  readonly program: string;
  /** Why this engine can no longer be installed. Shown by `doctor`. */
  readonly legacy?: string;
  /** Oldest and newest versions with recorded fixtures. Null: not recorded. */
  readonly tested: readonly [oldest: string, newest: string] | null;
  readonly session: {
    /** Name of the id in the engine's output; becomes `session.field`. */
    readonly field: string;
    /** The engine's id format, anchored. An id that does not match never counts (I5). */
    readonly format: RegExp;
  };
  /** Capabilities. `run/` branches on these, never on `id`. */
  readonly can: {
    /** The caller may choose the session id before the first turn. */
    readonly chooseSession: boolean;
    readonly fork: boolean;
    readonly interactive: boolean;
    /** `sessions` and `locate` can read the engine's store. */
    readonly readStore: boolean;
    /** A session is found only from the directory where it began. */
    readonly boundToCwd: boolean;
  };
  readonly grammar: Grammar;
  /** Options that restrict agents without a UI to a level of access. Absent: the engine has no such modes. */
  readonly access?: AccessModes;
  /** The least rights, for a run without rights options whose first rights are no longer known (I12). */
  readonly narrowest?: readonly string[];
  /** A command line with these words prints every tool call. Absent: the output may leave tool calls out. */
  readonly tellsTools?: readonly string[];
  /** Variables that give or take rights: a resume must see them as the start did (I12). */
  readonly rightsEnv?: readonly string[];
  /**
   * Where its settings outside its home are, with the fallback of each variable that is not set: another HOME may move
   * them (I12). Absent: all settings that decide on rights are in its home, or do not depend on HOME.
   */
  settingsPlaces?(env: Env): readonly string[];
  /** Variables that name a file with rules. `unchanged` removes what the engine itself writes there. */
  readonly rulesEnv?: { readonly names: readonly string[]; readonly unchanged?: (content: string) => string };
  /** Works only in a folder that it trusts, which `--trust-cwd` arranges. */
  readonly asksTrust?: true;
  /**
   * Its settings trust folders, and in a trusted folder the folder's own content counts. Absent: nothing to preserve
   * (I12).
   */
  readonly folderTrust?: {
    /** Settings files, below the engine's home or absolute; the first that names a folder decides. */
    readonly files: readonly string[];
    /** The directory where the agent works with these arguments. */
    workplace(args: readonly string[], cwd: string): string;
    /**
     * The level of the first of these folders by the files, overridden by the arguments. Its checkout follows, and for a
     * worktree the main checkout.
     */
    in(
      texts: readonly string[],
      folders: readonly [cwd: string, ...checkouts: string[]],
      args: readonly string[],
    ): FolderTrust;
  };
  /** Variables whose unknown members may affect rights. Absent: the engine has no prefix. */
  readonly guardedEnv?: GuardedEnv;
  /**
   * Variables that open the folder they name to the agent, if these arguments allow it. Unset, they open nothing (I12).
   */
  readonly openingEnv?: { readonly names: readonly string[]; matters(args: readonly string[]): boolean };

  /** The directory of the engine's sessions, from its environment. Null: HOME is unknown. */
  home(env: Env): string | null;
  /** The variables that make the engine use this home (the config's `home`). */
  homeEnv(home: string): Readonly<Record<string, string>>;
  /** From the output of `program --version`. */
  version(output: string): string | null;
  /** Whether a user is logged in, by files and variables; reads no secret. Absent: unknown. */
  login?(where: LoginPlace): LoginState;
  /** Would these native arguments, passed through unchanged, open a UI that needs a terminal? */
  opensUi(args: readonly string[]): boolean;
  /** The native command of an attempt. Throws a Fault if an exact one is impossible (I12). */
  command(ask: AttemptRequest): Command;
  /**
   * A new reader for one attempt's output. `now` is for announced reset times. `printed` defaults to `events`; the
   * reader of a dialogue only needs to find the session on the tape.
   */
  reader(now: () => number, printed?: Printed): OutputReader;
  /** The kind of output of a recorded attempt, from its command line. */
  printed(attempt: Pick<AttemptRecord, "args" | "interactive" | "message">): Printed;
  /** The first message in native arguments, as the engine stores it. Null: unknown. */
  opening?(args: readonly string[]): string | null;
  /**
   * Why the agent failed, from its exit and last words, if no terminal event explains the end. Null: unknown.
   * `stdoutTail` is given only if stdout is text: engine and model both write there, so only the place of the engine's
   * own messages counts.
   */
  explainExit(exit: Exit, stderrTail: string, nowMs: number, stdoutTail?: string): Trouble | null;
  /** Whether the engine still has this session, and where. */
  locate(session: string, where: SessionPlace, files: SessionFiles): Promise<Located>;
  /**
   * Does a new file with this name, where `locate` searched, belong to this session? Absent: only `locate` can tell.
   */
  namesFile?(session: string, name: string): boolean;
  /** Sessions in the engine's store, newest first; only those of `where.cwd` unless it is null. */
  sessions(
    where: { home: string; cwd: string | null },
    files: SessionFiles,
  ): Promise<readonly FoundSession[]>;
  /** The events in one line of a session file. Absent: sessions are not files of lines, or not understood. */
  said?(line: string): readonly SaidEvent[];
  /** Processes with this session open according to the engine's registry; some may be dead. */
  holders?(session: string, where: SessionPlace, files: SessionFiles): Promise<readonly HolderHint[]>;
  /** The current session of a live agent, for engines with a registry by pid. */
  liveSession?(
    agent: Pick<ProcessIdentity, "pid" | "start">,
    where: SessionPlace,
    files: SessionFiles,
  ): Promise<string | null>;
  /**
   * The activity of a live UI, from the engine's registry and session. Null: unknown right now. Absent: the engine
   * never reports it, and Reprise only watches its output and its end.
   */
  activity?(agent: LiveUi, where: SessionPlace, files: SessionFiles): Promise<UiState | null>;
  /** Refused tool calls of the last turn, for engines whose output does not show them. */
  denied?(session: string, where: SessionPlace, files: SessionFiles): Promise<readonly DeniedCall[]>;
  /** Did the conversation receive this message after it was typed? */
  receivedMessage?(
    message: string,
    agent: LiveUi & { readonly typedAtMs: number },
    where: SessionPlace,
    files: SessionFiles,
  ): Promise<boolean>;
  /** For engines whose sessions are not files: native arguments that write a session to stdout and read one back. */
  readonly transfer?: {
    exportArgs(session: string): readonly string[];
    /** Restores what the store lacks, by id, and leaves the rest unchanged. */
    importArgs(file: string): readonly string[];
    /** The content of an export: the words of each message and part, by the engine's ids. Null: unknown. */
    readExport(text: string): ReadonlyMap<string, string> | null;
    /** The events of an export, oldest first. Null: not an export. */
    said(text: string): readonly SaidEvent[] | null;
    /** The same for the store's content of a session. */
    saidIn(session: string, where: SessionPlace, files: SessionFiles): Promise<readonly SaidEvent[] | null>;
    /** `readExport` for the store's content of a session. Null: unknown. */
    wordsIn(
      session: string,
      where: SessionPlace,
      files: SessionFiles,
    ): Promise<ReadonlyMap<string, string> | null>;
  };
}

/** unknown: the login may be in a key store of the system, in a cloud's settings, or not be needed. */
export type LoginState = "yes" | "no" | "unknown";

export interface LoginPlace {
  readonly home: string;
  readonly env: Env;
  /** The system's key store can hold logins. */
  readonly hasKeyStore: boolean;
  /** Whether this file has content. */
  has(path: string): boolean;
  /** The text of a settings file, never of a file for secrets. Null: missing. */
  settings(path: string): string | null;
}

/**
 * The kind of an attempt's stdout. events: lines for the reader. dialogue: lines of `Command.dialogue`. text: the
 * model's own words, which must never name a session (I5).
 */
export type Printed = "events" | "dialogue" | "text";

/**
 * Native options for each level; empty: the engine's default. Absent: the engine cannot be restricted to that level.
 */
export interface AccessModes extends Partial<Readonly<Record<Access, readonly string[]>>> {
  /** Options that may set the mode themselves, so that none is added. */
  readonly unless?: readonly string[];
  /** Rules of the user that each of these options would switch off. */
  readonly profile?: {
    /** Files that may name the rules, below the engine's home or absolute; the first match wins. */
    readonly files: readonly string[];
    /** The file's rules as written. Null: it names none. */
    in(text: string): string | null;
    isNamedBy(option: Given): boolean;
  };
}

export interface AttemptRequest {
  readonly kind: AttemptKind;
  readonly interactive: boolean;
  /** Null: no message (interactive, or native arguments passed through unchanged). */
  readonly message: string | null;
  /** resume, fork: the session to continue. start, fresh: the id to choose if the engine can; otherwise null. */
  readonly session: string | null;
  /** fork: the id of the new session if the engine can choose it; otherwise null. */
  readonly forkTo: string | null;
  /** The user's first native arguments, after the config's defaults. */
  readonly given: readonly string[];
  /** The first start had a message from Reprise, so no word in `given` is a prompt. */
  readonly givenHasNoPrompt: boolean;
  /** Native options for this attempt, applied over `given` within I12. */
  readonly native: readonly string[];
  /** The rights of this session according to `locate`, for anything that `given` and `native` do not decide (I12). */
  readonly rights?: readonly string[];
  /** Why `rights` are unknown. An engine that needs them refuses (I12). */
  readonly rightsUnknown?: string;
  /** Unpredictable, and new for each attempt. Absent: no `rights` to preserve. */
  readonly nonce?: string;
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  /** Unique for this attempt, `[0-9a-z-]`; engines that cannot choose an id use it to find their session. */
  readonly tag: string;
  /** The user allows the engine to trust the folder. */
  readonly trustCwd: boolean;
  /**
   * The folder's level by the engine's settings and the run's own options at the first start. Absent: see
   * `Engine.folderTrust`.
   */
  readonly folderTrust?: FolderTrust;
  /** The agent's folder with links resolved, its checkout and, for a worktree, the main checkout. Absent: not looked up. */
  readonly folders?: readonly [cwd: string, ...checkouts: string[]];
  /** The folder is made for this run, and empty (`--isolate dir`). */
  readonly ownFolder?: true;
  /** Reprise watches the UI: the engine may add hooks that report its activity and do nothing else. */
  readonly watched?: true;
  /** Reprise talks with the agent during the turn, and the agent asks for permission by this policy. */
  readonly dialogue?: { readonly approval: Approval };
}

/** on-request: the agent asks before anything that its sandbox forbids. never: it leaves that out. */
export type Approval = "on-request" | "never";

export interface Command {
  readonly args: readonly string[];
  /** `args` in the stored form, with `[message]` in place of the message. Absent: `args` do not contain the message. */
  readonly storedArgs?: readonly string[];
  /** Written to stdin, which is then closed. Null: stdin is closed (headless) or the terminal (interactive). */
  readonly stdin: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** Settings files; the variable gets the path unless the user set it. */
  readonly settings?: readonly SettingsFile[];
  /** The variable that must name a file for the command's hooks, which append one JSON object per line. */
  readonly hooks?: string;
  readonly headless: boolean;
  /** stdout is machine-readable: the reader sees every event, including the end of a turn. */
  readonly structured: boolean;
  /** The id that the engine must report: chosen or requested. Null: the engine will name one. */
  readonly expects: string | null;
  /** Why no session will be kept (`--ephemeral`, `--no-session-persistence`). */
  readonly ephemeral?: string;
  /** The fate of the recorded options, one text each, for the receipt. */
  readonly options: OptionReport;
  /** Facts that the user should know before this runs. */
  readonly warnings?: readonly string[];
  /**
   * Reprise talks with the agent over stdin and stdout, which stay open, and sends the message there. `stdin` is null.
   */
  readonly dialogue?: (now: () => number) => Dialogue;
}

export interface SettingsFile {
  /** Its effect, for people. */
  readonly purpose: string;
  readonly variable: string;
  /** The file's name: in the package if it ships with it, otherwise in the state directory. */
  readonly name: string;
  readonly content: string;
  /** The engine trusts only a file that belongs to root, below directories that only root can change. */
  readonly rootOnly?: true;
  /** Files that the engine would read without the variable. If one exists, Reprise does not set the variable. */
  hides?(env: Env): readonly string[];
  /** If it cannot be set, starts in one folder must not overlap: the next waits until the last has its file. */
  readonly otherwiseApart?: true;
}

/**
 * A conversation with an agent that answers, reports and asks, one JSON object per line each way. Stateful over one
 * attempt, pure otherwise: the owner sends the returned lines in order, after it has recorded their events (I2). No
 * method may throw.
 */
export interface Dialogue {
  /** The first lines to send. */
  open(): DialogueMessage;
  /** One line of the agent's stdout, without its line break. */
  heard(text: string): DialogueMessage;
  /** The answer to a question. Empty if the question is no longer open. */
  answer(id: string, decision: QuestionAnswer): DialogueMessage;
  /** Asks the running turn to stop. A turn that has not begun does not begin, and nothing is sent. */
  interrupt(): DialogueMessage;
  /** Our unanswered requests, oldest first, by the name that people know. */
  waitsFor(): readonly string[];
}

export interface DialogueMessage {
  /** Lines to send, without line breaks. */
  readonly send: readonly string[];
  readonly events: readonly EngineEvent[];
  /** New questions, to answer through `answer`. */
  readonly questions: readonly Question[];
  /** Questions that no longer need an answer. */
  readonly settled: readonly string[];
  /** The conversation is over: the agent may exit. */
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
  /** After the last line: events that only the end reveals (a pretty-printed object, a missing terminal event). */
  end(exit: Exit): readonly EngineEvent[];
  /** The stream of a session that only `end` reports. Absent: stdout. */
  readonly namesLastOn?: Stream;
}

/** For text: a model's words may look like any line of the engine, so none is interpreted (I5). */
export const SILENT: OutputReader = { line: () => [], end: () => [] };
