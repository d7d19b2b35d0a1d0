/**
 * The records that survive: a run and its attempts, as stored in the index and mirrored in the run directory.
 *
 * Types only, so that nothing here costs start-up time; the schemas that check files are in `schemas.ts`.
 * Names are public (`show --json`); `test/golden/keys.json` lists every one.
 */
import type { Outcome, Exit, Tokens } from "./events.ts";

export type SessionField = string;
export type SessionSource = "chosen" | "pty-output" | "stdout" | "stderr" | "store" | "adopted";
export type RunStatus = "running" | "completed" | "failed" | "interrupted" | "cancelled" | "diverged";
export type Mode = "pipe" | "pty";

/** A process that can be told from any other, also after a reboot and after its pid was reused (I6). */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start time in clock ticks since boot (`/proc/PID/stat`), or the `ps` start time where there is no /proc. */
  readonly start: string;
  readonly boot: string;
  /** The pid namespace, and the time namespace unless it is the system's own: pid and start mean nothing outside them. */
  readonly space: string;
  /** Of an agent, which leads a session: the kernel's name of it, used once per boot. Absent: this system has none. */
  readonly autogroup?: string;
  /** Of a process that owns runs: what shows that it lives to those who cannot look at it. */
  readonly life?: Life;
}

/** A file in `lives/` of the state directory that a process has locked for as long as it lives. */
export interface Life {
  readonly file: string;
  /** A copy of the state directory has the same name in it, and another inode. */
  readonly inode: number;
  /** On a file system that several machines may have, where the lock of another one need not be seen. */
  readonly shared: boolean;
}

export interface Session {
  readonly field: SessionField | null;
  readonly value: string | null;
  readonly source: SessionSource | null;
  /** When the engine reported this id, or its own store confirmed it. Null: only chosen or announced. */
  readonly verifiedAt: string | null;
}

/** A session id that an attempt saw or chose. Never removed (I3). */
export interface SeenSession {
  readonly value: string;
  readonly source: SessionSource;
  readonly at: string;
  readonly attempt: number;
  readonly verifiedAt: string | null;
  /** Seen, but not this run's conversation: another one than asked for, or one that the engine's store does not confirm. */
  readonly foreign?: true;
}

/** A recorded environment variable. A secret's value is not stored: it is taken from the environment again. */
export interface LaunchEnv {
  readonly name: string;
  readonly value: string | null;
}

export interface RightsVariable {
  readonly name: string;
  readonly sha256: string;
  /** Of a folder: SHA-256 of where it led, links resolved. Absent: it is none, or an earlier version made it. */
  readonly leads?: string;
}

/** A file or a folder that decides on rights. Null: it was not there, or is too large to be compared. */
export interface RightsFile {
  /** The option or the variable that names it. */
  readonly by: string;
  readonly path: string;
  readonly sha256: string | null;
}

/** What an engine's own settings say of a folder: they trust it, they do not, or they do not name it. */
export type FolderTrust = "trusted" | "untrusted" | "unset";

export interface Launch {
  /** Native arguments of the first start, without the message. Secret values are replaced (see `redacted`). */
  readonly args: readonly string[];
  /** The native arguments the user gave, before Reprise added its own. What a resume is rendered from. */
  readonly given: readonly string[];
  /** Options whose value was a secret and is not stored. A resume needs them again by `--native`. */
  readonly redacted: readonly string[];
  readonly env: readonly LaunchEnv[];
  /** Variables by which the engine gets rights, as the first start had them (I12): name and SHA-256 of the value. */
  readonly rights: readonly RightsVariable[];
  /** `rights` has also the variables with the engine's prefix that Reprise does not know. Absent: an earlier version made it. */
  readonly guarded?: true;
  /** Files that options and variables name and that decide on rights, as the first start found them (I12). Absent: none. */
  readonly files?: readonly RightsFile[];
  readonly mode: Mode;
  readonly interactive: boolean;
  readonly isolate: "dir" | "worktree" | null;
  readonly escrow: boolean;
  readonly trustCwd: boolean;
  /** Of the folder, before the first start. Absent: the engine has no such settings, or an earlier version made it. */
  readonly folderTrust?: FolderTrust;
  /** Absolute path of the engine's program at the first start, and what it said of its version. */
  readonly program: string;
  readonly version: string | null;
  /** The first 200 characters of the message, redacted. */
  readonly message: string | null;
  /** Why no resume is possible with these options (`--ephemeral`, say). Absent: they stand in nobody's way. */
  readonly unresumable?: string;
}

/** Where a fork comes from. The parent keeps its own conversation and attempts. */
export interface Parent {
  readonly runId: string;
  readonly handle: string;
  /** The session that was copied. */
  readonly session: string;
}

/** A copy of the engine's own session, kept in the run's `escrow/`. */
export interface Escrow {
  readonly session: string;
  /** The session's own file first, then files it depends on (a fork's parents). */
  readonly files: readonly EscrowFile[];
  /** Native options that hold the rights the conversation began with; see `Located`. Absent: the engine has none to hold. */
  readonly rights?: readonly string[];
  readonly takenAt: string;
}

export interface EscrowFile {
  /** File name inside `escrow/`. */
  readonly file: string;
  /** Where the engine keeps it, relative to the engine home. Null: given back by the engine's own import command. */
  readonly restoreTo: string | null;
  readonly size: number;
  readonly sha256: string;
}

export interface RunRecord {
  readonly v: 1;
  readonly handle: string;
  readonly runId: string;
  readonly runDirectory: string;
  /** The engine's id. The name is the specification's. */
  readonly agentName: string;
  readonly session: Session;
  /** Every session id this run ever saw, oldest first. */
  readonly sessions: readonly SeenSession[];
  readonly launch: Launch;
  readonly cwd: string;
  readonly engineHome: string | null;
  readonly status: RunStatus;
  /** How many attempts there are; they are numbered from 1. */
  readonly attempts: number;
  readonly subject: string | null;
  readonly name: string | null;
  readonly escrow: Escrow | null;
  /** Earlier copies that hold something which `escrow` lacks, oldest first: of other sessions, or with more of the same. */
  readonly kept?: readonly Escrow[];
  /** Absent: the run is not a fork. */
  readonly parent?: Parent;
  /** Its UI was closed before anything was said, so the engine has no conversation. */
  readonly empty?: true;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export type AttemptKind = "start" | "resume" | "fork" | "fresh";

export interface AttemptRecord {
  readonly v: 1;
  readonly runId: string;
  readonly n: number;
  readonly kind: AttemptKind;
  /** intended: recorded, nothing started. running: the agent was spawned. ended: `outcome` is set. */
  readonly state: "intended" | "running" | "ended";
  readonly mode: Mode;
  readonly interactive: boolean;
  readonly program: string;
  /** Native arguments as executed; secrets replaced, the message never in them when it went by stdin. */
  readonly args: readonly string[];
  /** Native options given for this attempt only (`--native`). */
  readonly native: readonly string[];
  readonly cwd: string;
  readonly message: string | null;
  readonly owner: ProcessIdentity;
  readonly agent: ProcessIdentity | null;
  /** The session id asked for (resume, fork) or chosen by us (start). */
  readonly asked: string | null;
  readonly reported: readonly SeenSession[];
  readonly engineVersion: string | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
  readonly exit: Exit | null;
  readonly outcome: Outcome | null;
  readonly tokens: Tokens | null;
  readonly bytes: { readonly stdout: number; readonly stderr: number };
  /** What the user should know and no field says, one sentence each. */
  readonly diagnostics: readonly string[];
  /** Names of the variables whose values were taken out of everything but the raw logs. */
  readonly hidden?: readonly string[];
  /** The last lines that an agent which failed or was interrupted wrote to stderr, redacted and harmless. */
  readonly lastWords?: readonly string[];
}

/** Proof of a resume, `receipt.json` in the attempt. */
export interface Receipt {
  readonly v: 1;
  readonly runId: string;
  readonly attempt: number;
  readonly asked: string;
  readonly reported: string | null;
  /** `forked`: the engine reported a new id for a copy of the conversation. */
  readonly verified: "engine_reported" | "store_confirmed" | "forked" | "not_verified" | "diverged";
  readonly cwd: string;
  readonly engineVersion: string | null;
  readonly restoredFromEscrow: boolean;
  readonly options: {
    readonly kept: readonly string[];
    readonly dropped: readonly string[];
    readonly rewritten: readonly string[];
  };
  readonly at: string;
}
