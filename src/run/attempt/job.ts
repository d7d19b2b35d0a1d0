/**
 * The input of the attempt runner, the caller's view of a live attempt, and the records with which an attempt begins.
 */
import type { Redact } from "../../lib/secrets.ts";
import type { TerminalSize } from "../../lib/terminal-state.ts";
import { checkedOutAt } from "../git/head.ts";
import { join } from "node:path";
import { writeAtomic } from "../../state/files.ts";
import { attemptDir, beginAttemptDir, saveAttemptFile } from "../../state/runs.ts";
import type { QuestionAnswer, Observed, Question, SeenEvent, Stream } from "../../core/events.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptKind, AttemptRecord, Mode, RunRecord, SeenSession } from "../../core/records.ts";
import type { Command, Engine } from "../../engines/engine.ts";
import { observe, UNNAMED } from "../conversation.ts";
import { type Deps, isoNow } from "../deps.ts";
import { excerpt, storableArgs } from "../launch.ts";
import type { Limits } from "./liveness.ts";
import type { StopReason } from "./outcome.ts";

export interface Job {
  readonly run: RunRecord;
  readonly engine: Engine;
  readonly command: Command;
  readonly kind: AttemptKind;
  readonly mode: Mode;
  readonly interactive: boolean;
  readonly program: readonly [file: string, ...args: string[]];
  readonly native: readonly string[];
  readonly message: string | null;
  /** The complete environment of the agent, except for the marker and the engine's settings. */
  readonly env: Readonly<Record<string, string>>;
  readonly engineHome: string | null;
  /** The agent must not start while another one starts in the same folder. */
  readonly startsApart: boolean;
  /** The file that the command's hooks append to. Absent: no hooks. */
  readonly hooksFile?: string;
  readonly limits: Limits;
  readonly fence: number;
  readonly redact: Redact;
  /** Names of the variables whose values `redact` knows. */
  readonly hidden: readonly string[];
  /** Their values, as far as a later command needs to see that one has changed. */
  readonly hiddenSums: Readonly<Record<string, string>>;
  readonly size?: TerminalSize;
  /** Resolves at once, or while the agent works. */
  readonly version: Promise<string | null>;
  /** Warnings that belong to the attempt. */
  readonly diagnostics: readonly string[];
  /** As in the attempt's record. */
  readonly restored?: { readonly lacks: readonly string[] };
  readonly scheduled?: string;
  /** The session that a resume or a fork continues; null for a new conversation. */
  readonly continues: string | null;
  /** Takes the lease of a session that the engine named. Rejects when another attempt has it. */
  onSession(session: string): Promise<void>;
  /** Registers the only listener for the loss of the run's lease. */
  onLeaseLost(listener: () => void): void;
  /** Calls that listener. */
  readonly leaseLost: () => void;
}

/** The caller's view of a live attempt, and its way to stop it. */
export interface Watch {
  /** A promise makes the agent wait: Reprise reads no output until it resolves. */
  raw(stream: Stream, chunk: Buffer): Promise<void> | undefined;
  events(seen: readonly SeenEvent[]): void;
  /** Once a second, and whenever it matters. */
  status(status: LiveStatus): void;
  /** The agent's activity: on every change, and once a second while its output grows. */
  activity?(observed: Observed): void;
  /** The agent lives. Interactive callers type and resize through this. */
  live(controls: LiveControls): void;
  /** The attempt ends while the caller does not read: unread output is dropped here. The tape has it. */
  mute(): void;
  /** Registers the only listener for stop requests. */
  onStop(listener: (request: StopRequest) => void): void;
  /** The attempt is on disk; nothing was started yet (I1). A Fault here or in `wire` ends it like a full disk. */
  recorded?(run: RunRecord, attempt: AttemptRecord): void;
  /** Each line of a dialogue, before it is acted on (`in`) or sent (`out`). */
  wire?(direction: "in" | "out", line: string): void;
  /** The agent waits for the answer. Absent: the answer is no. */
  ask?(question: Question): Promise<QuestionAnswer>;
  /** The question was answered, or needs no answer any more. */
  settled?(id: string): void;
}

export interface LiveControls {
  readonly interactive: boolean;
  /** The output is machine-readable and arrives as events. Otherwise it is text for people. */
  readonly structured: boolean;
  write(data: Buffer): void;
  resize(cols: number, rows: number): void;
  /** The present size of the agent's terminal. Null: it has none. */
  size(): TerminalSize | null;
  /** Records a message that is about to be typed. False: the disk refused, and the attempt ends. */
  sending(message: string): boolean;
  /** Checks the agent's activity now and reports it through `activity` before it resolves. */
  look(): Promise<void>;
  /** Whether the conversation has the typed message. Null: the engine cannot tell. */
  tookUp(message: string, typedAtMs: number): Promise<boolean | null>;
}

/**
 * interrupt: ask the agent to stop. terminate: end it in its own time, as the system would. end: end it now. The
 * signals are those that Reprise itself received.
 */
export type StopRequest = "interrupt" | "terminate" | "end" | "SIGTERM" | "SIGHUP";

export interface LiveStatus {
  readonly elapsedMs: number;
  readonly quietMs: number;
  readonly attempt: number;
  readonly tools: readonly { readonly name: string; readonly forMs: number }[];
  readonly stopping: boolean;
}

export interface AttemptEnd {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord;
  readonly stop: StopReason | null;
  readonly reported: string | null;
  /** The engine wrote into the session that was continued. */
  readonly wrote: boolean;
  /** Resolves when no copy of the session is being made any more. The last one is made after the agent's end. */
  readonly copied: Promise<void>;
  /** Resolves when the snapshot of the folder at the start is complete or given up. */
  readonly compared: Promise<void>;
}

/** Recorded before anything is started (I1). */
export function intendedAttempt(deps: Deps, job: Job): AttemptRecord {
  const [file, ...first] = job.program;
  const startedFrom = checkedOutAt(job.run.cwd);
  return {
    v: 1,
    runId: job.run.runId,
    n: job.run.attempts + 1,
    kind: job.kind,
    state: "intended",
    mode: job.mode,
    interactive: job.interactive,
    ...(job.mode === "pty" && job.size !== undefined ? { terminal: job.size } : {}),
    program: file,
    args: storableArgs([...first, ...(job.command.storedArgs ?? job.command.args)], job.redact, job.engine)
      .args,
    native: storableArgs(job.native, job.redact, job.engine).args,
    cwd: job.run.cwd,
    ...(startedFrom === null ? {} : { startedFrom }),
    message: excerpt(job.message, job.redact),
    owner: deps.processes.owner(),
    agent: null,
    asked: job.command.expects,
    reported: [],
    engineVersion: null,
    startedAt: isoNow(deps),
    endedAt: null,
    exit: null,
    outcome: null,
    tokens: null,
    bytes: { stdout: 0, stderr: 0 },
    diagnostics: job.diagnostics,
    hidden: job.hidden,
    hiddenSums: job.hiddenSums,
    ...(job.restored === undefined ? {} : { restored: job.restored }),
    ...(job.scheduled === undefined ? {} : { scheduled: job.scheduled }),
  };
}

/** An id that Reprise chooses is on disk before the engine gets it (I2). */
export function chosenSession(deps: Deps, job: Job, n: number): Partial<RunRecord> {
  const { expects, ephemeral } = job.command;
  // Until the engine names the new conversation, no id leads to it, and the old one must not stand for it.
  if (job.kind === "fresh" && (expects === null || ephemeral !== undefined)) return { session: UNNAMED };
  if (expects === null || job.kind === "resume" || ephemeral !== undefined) return {};
  const chosen: SeenSession = {
    value: expects,
    source: "chosen",
    at: isoNow(deps),
    attempt: n,
    verifiedAt: null,
  };
  return {
    sessions: observe(job.run.sessions, chosen),
    session: { field: job.engine.session.field, value: expects, source: "chosen", verifiedAt: null },
  };
}

/** Created before the hooks run, with permissions for the user alone. */
export function withHooks(job: Job, n: number): Job {
  const { hooks } = job.command;
  if (hooks === undefined) return job;
  const hooksFile = join(attemptDir(job.run.runDirectory, n), "hooks.jsonl");
  writeAtomic(hooksFile, "");
  return { ...job, hooksFile, env: { ...job.env, [hooks]: hooksFile } };
}

/** An attempt without a directory is over, so its row must not look live. */
export async function placeFor(deps: Deps, job: Job, attempt: AttemptRecord): Promise<void> {
  try {
    beginAttemptDir(job.run.runDirectory, attempt.n);
    saveAttemptFile(job.run.runDirectory, attempt);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const outcome = {
      result: "failed",
      reason: `the attempt could not be recorded: ${error.message}`,
    } as const;
    await deps.store.saveAttempt({ ...attempt, state: "ended", endedAt: isoNow(deps), outcome }, job.fence);
    await deps.store.saveRun({ ...job.run, attempts: attempt.n, status: "failed" }, job.fence);
    throw error;
  }
}

/** The end of an attempt whose agent the system refused to start. */
export function neverStarted(
  deps: Deps,
  job: Job,
  { diagnostics, bytes }: Pick<AttemptRecord, "diagnostics" | "bytes">,
  fault: Fault,
): { readonly attempt: Partial<AttemptRecord>; readonly run: Partial<RunRecord> } {
  return {
    attempt: {
      state: "ended",
      endedAt: isoNow(deps),
      bytes,
      outcome: { result: "failed", reason: `the agent was not started: ${fault.message}` },
      diagnostics: [...diagnostics, "no session id: the agent was not started"],
    },
    run: { status: "failed", ...(job.kind === "fresh" ? { session: job.run.session } : {}) },
  };
}
