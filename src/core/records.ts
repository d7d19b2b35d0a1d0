/**
 * The durable records: a run and its attempts, as stored in the index and mirrored in the run directory.
 *
 * Types only, so that importing this file costs no start-up time; the schemas that check files are in `schemas.ts`.
 * Names are public (`show --json`); `test/golden/keys.json` lists them all.
 */
import type { Outcome, Exit, Tokens } from "./events.ts";

export type SessionField = string;
export type SessionSource = "chosen" | "pty-output" | "stdout" | "stderr" | "store" | "adopted";
export type RunStatus = "running" | "completed" | "failed" | "interrupted" | "cancelled" | "diverged";
export type Mode = "pipe" | "pty";

/** Identifies one process, even after a reboot or when the pid is reused (I6). */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start time in clock ticks since boot (`/proc/PID/stat`), or the `ps` start time on systems without /proc. */
  readonly start: string;
  readonly boot: string;
  /**
   * The pid namespace, and the time namespace unless it is the system's: pid and start have no meaning outside them.
   */
  readonly space: string;
  /**
   * Of an agent, which leads a session: the kernel's name of that session, unique per boot. Absent: this system has no
   * such names.
   */
  readonly autogroup?: string;
  /** Of a process that owns runs: proves that it lives to processes that cannot see its pid. */
  readonly life?: Life;
}

/** A file in `lives/` of the state directory that a process keeps locked as long as it lives. */
export interface Life {
  readonly file: string;
  /** Tells the file from its copy: a copied state directory has the same names but other inodes. */
  readonly inode: number;
  /** The file system may be shared by several machines, and another machine's lock may be invisible. */
  readonly shared: boolean;
}

export interface Session {
  readonly field: SessionField | null;
  readonly value: string | null;
  readonly source: SessionSource | null;
  /** When the engine reported this id or its store confirmed it. Null: only chosen or announced. */
  readonly verifiedAt: string | null;
}

/** A session id that an attempt saw or chose. Never removed (I3). */
export interface SeenSession {
  readonly value: string;
  readonly source: SessionSource;
  readonly at: string;
  readonly attempt: number;
  readonly verifiedAt: string | null;
  /** Seen, but not this run's conversation: not the requested session, or not confirmed by the engine's store. */
  readonly foreign?: true;
}

/** A recorded environment variable. Reprise does not store a secret's value but reads it from the environment again. */
export interface LaunchEnv {
  readonly name: string;
  readonly value: string | null;
}

export interface RightsVariable {
  readonly name: string;
  readonly sha256: string;
  /** Of a folder: SHA-256 of its path with links resolved. Absent: not a folder, or recorded by an earlier version. */
  readonly leads?: string;
}

/** A file or folder that decides on rights. Null: missing, or too large to compare. */
export interface RightsFile {
  /** The option or variable that names it. */
  readonly by: string;
  readonly path: string;
  readonly sha256: string | null;
}

/** How an engine's settings treat a folder: trusted, not trusted, or not mentioned. */
export type FolderTrust = "trusted" | "untrusted" | "unset";

export interface Launch {
  /** Native arguments of the first start, without the message. Secret values are replaced (see `redacted`). */
  readonly args: readonly string[];
  /** The native arguments that the user gave, before Reprise added any. A resume is built from them. */
  readonly given: readonly string[];
  /** Options whose value was a secret and is not stored. A resume needs them again through `--native`. */
  readonly redacted: readonly string[];
  readonly env: readonly LaunchEnv[];
  /** Variables that give the engine rights, as the first start had them (I12): name and SHA-256 of the value. */
  readonly rights: readonly RightsVariable[];
  /** `rights` includes unknown variables with the engine's prefix. Absent: recorded by an earlier version. */
  readonly guarded?: true;
  /** Files that options and variables name and that decide on rights, as the first start found them (I12). */
  readonly files?: readonly RightsFile[];
  readonly mode: Mode;
  readonly interactive: boolean;
  readonly isolate: "dir" | "worktree" | null;
  readonly escrow: boolean;
  readonly trustCwd: boolean;
  /**
   * Of the folder, before the first start. Absent: the engine has no such settings, or an earlier version recorded it.
   */
  readonly folderTrust?: FolderTrust;
  /** Absolute path of the engine's program at the first start, and the version that it printed. */
  readonly program: string;
  readonly version: string | null;
  /** The first 200 characters of the message, redacted. */
  readonly message: string | null;
  /** Why these options make a resume impossible, such as `--ephemeral`. Absent: they do not. */
  readonly unresumable?: string;
}

/** The origin of a fork. The parent keeps its conversation and attempts. */
export interface Parent {
  readonly runId: string;
  readonly handle: string;
  /** The session that was copied. */
  readonly session: string;
}

/** A copy of the engine's session in the run's `escrow/`. */
export interface Escrow {
  readonly session: string;
  /** The session's file first, then files that it depends on (a fork's parents). */
  readonly files: readonly EscrowFile[];
  /**
   * Native options that restore the rights the conversation began with; see `Located`. Absent: the engine has no such
   * options.
   */
  readonly rights?: readonly string[];
  readonly takenAt: string;
}

export interface EscrowFile {
  /** File name inside `escrow/`. */
  readonly file: string;
  /** The engine's path for it, relative to the engine home. Null: restored by the engine's import command. */
  readonly restoreTo: string | null;
  readonly size: number;
  readonly sha256: string;
}

export interface RunRecord {
  readonly v: 1;
  readonly handle: string;
  readonly runId: string;
  readonly runDirectory: string;
  /** The engine's id. The specification defines this name. */
  readonly agentName: string;
  readonly session: Session;
  /** Every session id of this run, oldest first. */
  readonly sessions: readonly SeenSession[];
  readonly launch: Launch;
  readonly cwd: string;
  readonly engineHome: string | null;
  readonly status: RunStatus;
  /** The number of attempts; they are numbered from 1. */
  readonly attempts: number;
  readonly subject: string | null;
  readonly name: string | null;
  readonly escrow: Escrow | null;
  /** Earlier copies with content that `escrow` lacks, oldest first: other sessions, or more of the same session. */
  readonly kept?: readonly Escrow[];
  /** Absent: the run is not a fork. */
  readonly parent?: Parent;
  /** The user closed the UI before saying anything, so the engine has no conversation. */
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
  /** intended: recorded, nothing started. running: the agent is spawned. ended: `outcome` is set. */
  readonly state: "intended" | "running" | "ended";
  readonly mode: Mode;
  readonly interactive: boolean;
  readonly program: string;
  /** Native arguments as executed, secrets replaced. A message that went through stdin is not among them. */
  readonly args: readonly string[];
  /** Native options given for this attempt only (`--native`). */
  readonly native: readonly string[];
  readonly cwd: string;
  readonly message: string | null;
  readonly owner: ProcessIdentity;
  readonly agent: ProcessIdentity | null;
  /** The session id that Reprise asked for (resume, fork) or chose (start). */
  readonly asked: string | null;
  readonly reported: readonly SeenSession[];
  readonly engineVersion: string | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
  readonly exit: Exit | null;
  readonly outcome: Outcome | null;
  readonly tokens: Tokens | null;
  readonly bytes: { readonly stdout: number; readonly stderr: number };
  /** Facts for the user that no field holds, one sentence each. */
  readonly diagnostics: readonly string[];
  /** Names of the variables whose values Reprise removed from everything but the raw logs. */
  readonly hidden?: readonly string[];
  /**
   * The run's copy of the session was put back first. `lacks`: what was said and is not in the copy, one sentence each.
   * Absent: the engine had its session.
   */
  readonly restored?: { readonly lacks: readonly string[] };
  /** The last stderr lines of an agent that failed or was interrupted, redacted and harmless. */
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
  /** What was said and is not in the copy that was put back, one sentence each. Absent: nothing that Reprise knows of. */
  readonly lacks?: readonly string[];
  readonly options: {
    readonly kept: readonly string[];
    readonly dropped: readonly string[];
    readonly rewritten: readonly string[];
  };
  readonly at: string;
}
