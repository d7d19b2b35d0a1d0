/**
 * The durable records in run directories: a schema for each, from which `records.ts`, `events.ts`, `runbook.ts` and
 * `supervision.ts` derive their types.
 *
 * A schema only decides whether a file is valid. Reprise uses the file's own value, so fields of later versions survive.
 * Schemas cost start-up time: import them as values only where a file is read. Names are public (`show --json`);
 * `test/golden/keys.json` lists them all.
 */
import { z } from "zod";
import { HANDLE, isRunId } from "./ids.ts";
import { ACTIONS, ERROR_MATCHES, TROUBLE_KINDS } from "./kinds.ts";

/** The type of a record that a schema describes. */
export type RecordOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>;
type DeepReadonly<T> = { readonly [Key in keyof T]: DeepReadonly<T[Key]> };

const time = z.iso.datetime();
const texts = z.array(z.string());
const count = z.int().min(0);
const handle = z.string().regex(HANDLE);
const runId = z.string().refine(isRunId);

const source = z.enum(["chosen", "pty-output", "stdout", "stderr", "store", "adopted"]);

/** A file in `lives/` of the state directory that a process keeps locked as long as it lives. */
const life = z.object({
  file: z.string(),
  /** Tells the file from its copy: a copied state directory has the same names but other inodes. */
  inode: count,
  /** The file system may be shared by several machines, and another machine's lock may be invisible. */
  shared: z.boolean(),
});

/** Identifies one process, even after a reboot or when the pid is reused (I6). */
export const processSchema = z.object({
  /** Zero and negative numbers are process groups. */
  pid: z.int().min(1).max(4_194_304),
  /** Start time in clock ticks since boot (`/proc/PID/stat`), or the `ps` start time on systems without /proc. */
  start: z.string(),
  boot: z.string(),
  /**
   * The pid namespace, and the time namespace unless it is the system's: pid and start have no meaning outside them.
   */
  space: z.string(),
  /**
   * Of an agent, which leads a session: the kernel's name of that session, unique per boot. Absent: this system has no
   * such names.
   */
  autogroup: z.exactOptional(z.string()),
  /** Of a process that owns runs: proves that it lives to processes that cannot see its pid. */
  life: z.exactOptional(life),
});

/** A session id that an attempt saw or chose. Never removed (I3). */
const seenSession = z.object({
  value: z.string().min(1),
  source,
  at: time,
  attempt: count,
  verifiedAt: time.nullable(),
  /** Seen, but not this run's conversation: not the requested session, or not confirmed by the engine's store. */
  foreign: z.exactOptional(z.literal(true)),
});

/** A copy of the engine's session in the run's `escrow/`. */
const escrow = z.object({
  session: z.string(),
  /** The session's file first, then files that it depends on (a fork's parents). */
  files: z.array(
    z.object({
      /** File name inside `escrow/`. */
      file: z.string(),
      /** The engine's path for it, relative to the engine home. Null: restored by the engine's import command. */
      restoreTo: z.string().nullable(),
      size: count,
      sha256: z.string(),
    }),
  ),
  /**
   * Native options that restore the rights the conversation began with; see `Located`. Absent: the engine has no such
   * options.
   */
  rights: z.exactOptional(texts),
  takenAt: time,
});

const trouble = z.object({
  kind: z.enum(TROUBLE_KINDS),
  /** The engine's own words, shortened. Untrusted text. */
  message: z.string(),
  /** ISO 8601, UTC. Absent: the engine named no time, or an ambiguous one. */
  resetsAt: z.exactOptional(z.string()),
  /** HTTP status, where the engine reports one. */
  status: z.exactOptional(z.number()),
});

const mode = z.enum(["pipe", "pty"]);

/** Counts as the engine reports them; an absent field was not reported. */
const tokens = z.object({
  /** All input, read from a cache or not. */
  input: z.number(),
  /** All output, with the reasoning. */
  output: z.number(),
  /** The part of `input` that came from a cache. */
  cached: z.exactOptional(z.number()),
  /** The part of `output` that the model used to reason. */
  reasoning: z.exactOptional(z.number()),
  /** US dollars. */
  costUsd: z.exactOptional(z.number()),
  /** The one model that the engine named. Untrusted text. Absent as well: it named several. */
  model: z.exactOptional(z.string()),
});

const launch = z.object({
  /** Native arguments of the first start, without the message. Secret values are replaced (see `redacted`). */
  args: texts,
  /** The native arguments that the user gave, before Reprise added any. A resume is built from them. */
  given: texts,
  /** Options whose value was a secret and is not stored. A resume needs them again through `--native`. */
  redacted: texts,
  /** Reprise does not store a secret's value but reads it from the environment again. */
  env: z.array(z.object({ name: z.string(), value: z.string().nullable() })),
  /** Variables that give the engine rights, as the first start had them (I12): name and SHA-256 of the value. */
  rights: z.array(
    z.object({
      name: z.string(),
      sha256: z.string(),
      /** Of a folder: SHA-256 of its path with links resolved. Absent: not a folder, or recorded by an earlier version. */
      leads: z.exactOptional(z.string()),
    }),
  ),
  /** `rights` includes unknown variables with the engine's prefix. Absent: recorded by an earlier version. */
  guarded: z.exactOptional(z.literal(true)),
  /** Files that options and variables name and that decide on rights, as the first start found them (I12). */
  files: z.exactOptional(
    z.array(
      z.object({
        /** The option or variable that names it. */
        by: z.string(),
        path: z.string(),
        /** Null: missing. If it begins with "uncomparable", no later content counts as the same. */
        sha256: z.string().nullable(),
      }),
    ),
  ),
  /** Folders that options open to the agent, and where they led at the first start, links resolved (I12). */
  folders: z.exactOptional(z.array(z.object({ by: z.string(), path: z.string(), leads: z.string() }))),
  mode,
  interactive: z.boolean(),
  isolate: z.enum(["dir", "worktree"]).nullable(),
  escrow: z.boolean(),
  trustCwd: z.boolean(),
  /**
   * Of the folder, before the first start: trusted, not trusted, or not mentioned. Absent: the engine has no such
   * settings, or an earlier version recorded it.
   */
  folderTrust: z.exactOptional(z.enum(["trusted", "untrusted", "unset"])),
  /** Absolute path of the engine's program at the first start, and the version that it printed. */
  program: z.string(),
  version: z.string().nullable(),
  /** The first 200 characters of the message, redacted. */
  message: z.string().nullable(),
  /** Why these options make a resume impossible, such as `--ephemeral`. Absent: they do not. */
  unresumable: z.exactOptional(z.string()),
});

export const runSchema = z.object({
  v: z.literal(1),
  handle,
  runId,
  runDirectory: z.string(),
  /** The engine's id. The specification defines this name. */
  agentName: z.string().min(1),
  session: z.object({
    field: z.string().nullable(),
    value: z.string().min(1).nullable(),
    source: source.nullable(),
    /** When the engine reported this id or its store confirmed it. Null: only chosen or announced. */
    verifiedAt: time.nullable(),
  }),
  /** Every session id of this run, oldest first. */
  sessions: z.array(seenSession),
  launch,
  cwd: z.string(),
  engineHome: z.string().nullable(),
  status: z.enum(["running", "completed", "failed", "interrupted", "cancelled", "diverged"]),
  /** The number of attempts; they are numbered from 1. */
  attempts: count,
  subject: z.string().nullable(),
  name: z.string().nullable(),
  /** Words for people to find the run by. */
  tags: z.exactOptional(texts),
  /**
   * How often name and tags were changed since the start. Of two records, the one with the larger number has the present
   * name and tags, whatever else is newer.
   */
  relabelled: z.exactOptional(count),
  /** The first words in the engine's own store, of a run that was started without a message. Untrusted text. */
  title: z.exactOptional(z.string()),
  escrow: escrow.nullable(),
  /** Earlier copies with content that `escrow` lacks, oldest first: other sessions, or more of the same session. */
  kept: z.exactOptional(z.array(escrow)),
  /** The parent keeps its conversation and attempts; `session` was copied. Absent: the run is not a fork. */
  parent: z.exactOptional(z.object({ runId, handle, session: z.string().min(1) })),
  /** The user closed the UI before saying anything, so the engine has no conversation. */
  empty: z.exactOptional(z.literal(true)),
  createdAt: time,
  updatedAt: time,
});

/** `label.json`: name and tags as they were changed after the start, by whatever process. */
export const labelSchema = z.object({
  v: z.literal(1),
  name: z.string().nullable(),
  tags: z.exactOptional(texts),
  relabelled: z.int().min(1),
});

export const attemptSchema = z.object({
  v: z.literal(1),
  runId,
  n: z.int().min(1),
  kind: z.enum(["start", "resume", "fork", "fresh"]),
  /** intended: recorded, nothing started. running: the agent is spawned. ended: `outcome` is set. */
  state: z.enum(["intended", "running", "ended"]),
  mode,
  interactive: z.boolean(),
  /** The size of its terminal when it began; `timing.jsonl` has each change. Absent: no terminal, or an older record. */
  terminal: z.exactOptional(z.object({ cols: z.int().min(1), rows: z.int().min(1) })),
  program: z.string(),
  /** Native arguments as executed, secrets replaced. A message that went through stdin is not among them. */
  args: texts,
  /** Native options given for this attempt only (`--native`). */
  native: texts,
  cwd: z.string(),
  /**
   * The checkout that holds `cwd` and its commit when the attempt began; null: no commit yet. Absent: no repository, or
   * only git could tell.
   */
  startedFrom: z.exactOptional(z.object({ top: z.string(), commit: z.string().nullable() })),
  message: z.string().nullable(),
  owner: processSchema,
  agent: processSchema.nullable(),
  /** The session id that Reprise asked for (resume, fork) or chose (start). */
  asked: z.string().nullable(),
  reported: z.array(seenSession),
  engineVersion: z.string().nullable(),
  startedAt: time,
  endedAt: time.nullable(),
  /** One of the two is set, or neither if nothing observed the end. */
  exit: z.object({ code: z.int().nullable(), signal: z.string().nullable() }).nullable(),
  outcome: z
    .object({
      result: z.enum(["completed", "failed", "interrupted", "cancelled", "diverged"]),
      /** One sentence for the user. */
      reason: z.string(),
      trouble: z.exactOptional(trouble),
    })
    .nullable(),
  /** What this attempt used. Null: the engine reported nothing, or only totals that cannot be divided. */
  tokens: tokens.nullable(),
  /** Totals of the whole conversation, earlier attempts included. Absent: the engine reports no such totals. */
  sessionTokens: z.exactOptional(tokens),
  bytes: z.object({ stdout: count, stderr: count }),
  /** Facts for the user that no field holds, one sentence each. */
  diagnostics: texts,
  /** Names of the variables whose values Reprise removed from everything but the raw logs. */
  hidden: z.exactOptional(texts),
  /**
   * For each of these variables, four hex digits of a digest of its value. They show that a value has changed, and are too
   * few to tell the value. Absent: an earlier version recorded the attempt.
   */
  hiddenSums: z.exactOptional(z.record(z.string(), z.string())),
  /** The run's copy of the session was restored first. Absent: the engine had its session. */
  restored: z.exactOptional(
    z.object({
      /** Text that the conversation had and the copy lacks, one sentence each. */
      lacks: texts,
    }),
  ),
  /** The last stderr lines of an agent that failed or was interrupted, redacted and harmless. */
  lastWords: z.exactOptional(texts),
  /** The id of the scheduled resume that started it. */
  scheduled: z.exactOptional(z.string()),
});

export const receiptSchema = z.object({
  v: z.literal(1),
  runId,
  attempt: z.int().min(1),
  asked: z.string(),
  reported: z.string().nullable(),
  /** `forked`: the engine reported a new id for a copy of the conversation. */
  verified: z.enum(["engine_reported", "store_confirmed", "forked", "not_verified", "diverged"]),
  cwd: z.string(),
  engineVersion: z.string().nullable(),
  restoredFromEscrow: z.boolean(),
  /** The copy that was restored: the beginning of its id, and when it was made. Absent: none, or an earlier version wrote it. */
  restoredCopy: z.exactOptional(z.object({ id: z.string(), takenAt: time })),
  /** Text that the conversation had and the restored copy lacks, one sentence each. Absent: none is known. */
  lacks: z.exactOptional(texts),
  options: z.object({ kept: texts, dropped: texts, rewritten: texts }),
  at: time,
});

/** What an attempt used: a line of `removed-usage.jsonl`, and a part of `usage`. */
export const usedSchema = z.object({
  v: z.literal(1),
  runId,
  handle,
  /** The engine's id. */
  engine: z.string(),
  n: z.int().min(1),
  startedAt: time,
  endedAt: time.nullable(),
  cwd: z.string(),
  /** As the engine reported it, or as its option says. Untrusted text. */
  model: z.string().nullable(),
  tokens: tokens.nullable(),
  /** The limit that ended it. */
  limit: z.object({ kind: z.enum(["rate_limited", "quota"]), resetsAt: z.string().nullable() }).nullable(),
});

/** `start.json` of an attempt: the files of its checkout before the agent started. Paths have one character per byte. */
export const startSchema = z.object({
  v: z.literal(1),
  /** A git tree with all files that git did not ignore. Null: Reprise has no tree, and `why` says why. */
  tree: z
    .string()
    .regex(/^[0-9a-f]{40,64}$/)
    .nullable(),
  why: z.exactOptional(z.string()),
  /** Files in the tree by their size and time only. */
  standIns: texts,
  /** How long the agent had been at work when all files were read. Absent: it had not started, or had changed nothing. */
  lateMs: z.exactOptional(count),
  /** Files that the agent may have changed before that. The tree has them as they were in the index. */
  unsure: z.exactOptional(texts),
});

/** The entries that answer a trigger, in order. */
const entries = z.array(
  z.object({
    action: z.enum(ACTIONS),
    message: z.string().nullable(),
    /** resume: the message continues the conversation instead of starting a new one. */
    append: z.boolean(),
    /** gate: the command, one argument per element, and its time limit. */
    run: texts.nullable(),
    timeoutMs: count,
    /** How many times Reprise tries this entry before the next; progress resets the count. */
    attempts: count,
    cooldownMs: count,
    /** The errors that it answers; `any` for other triggers. */
    match: z.enum(ERROR_MATCHES),
  }),
);

const agentDefinition = z.object({
  name: z.string(),
  engine: z.string(),
  /** Native arguments, without the prompt. */
  args: texts,
  mode: z.enum(["interactive", "headless"]),
  prompt: z.string().nullable(),
  /** Absolute. */
  cwd: z.string(),
  env: z.array(z.tuple([z.string(), z.string()])),
  policy: z.object({
    /** A trigger without entries escalates. */
    on: z.object({ idle: entries, dead: entries, error: entries, prompt: entries }),
    idleAfterMs: count,
    /** Processes that Reprise may start for this agent in total. Null: as many as the entries allow. */
    maxAttempts: count.nullable(),
  }),
});

export const agentSchema = z.object({
  v: z.literal(1),
  id: handle,
  runId,
  definition: agentDefinition,
  runbook: z.object({ path: z.string(), sha256: z.string() }),
  vars: z.record(z.string(), z.string()),
  /** The user trusts the folder for its engine, even if another process finishes the start. Absent: not stated. */
  trustCwd: z.exactOptional(z.literal(true)),
  phase: z.enum(["active", "done", "failed", "stopped"]),
  /** Why it ended, one sentence. */
  reason: z.string().nullable(),
  pipeline: z.object({ id: z.string(), step: z.string() }).nullable(),
  createdAt: time,
  endedAt: time.nullable(),
});

/** A resume that the daemon carries out at a set time: `scheduled/<runId>.json` of the state directory. */
export const scheduledSchema = z.object({
  v: z.literal(1),
  /** `<handle>-<number>`, counted per run. The attempt that it starts has it as `scheduled`. */
  id: z.string(),
  runId,
  handle,
  /** The engine's id. */
  engine: z.string(),
  message: z.string().nullable(),
  /** Native options for this attempt only. */
  native: texts,
  keep: z.boolean(),
  mode: z.enum(["auto", "pipe", "pty"]),
  limits: z.object({
    idleMs: count.nullable(),
    toolMs: count.nullable(),
    totalMs: count.nullable(),
  }),
  dueAt: time,
  /** time: `--at`. reset: `--when-reset`. */
  by: z.enum(["time", "reset"]),
  /**
   * waiting: not due, or the run is busy. starting: `attempt` is about to start. started: the attempt was started.
   * unsure: Reprise ended while the attempt started, and nothing shows whether the agent got the message. The states
   * after `starting` are final.
   */
  state: z.enum(["waiting", "starting", "started", "unsure", "failed", "cancelled"]),
  /** The number of the attempt that it starts. Null: not chosen yet. */
  attempt: z.int().min(1).nullable(),
  /** Why the run waits longer, or how it ended, one sentence. */
  reason: z.string().nullable(),
  /** How much later than `dueAt` it was started. Null: not started. */
  lateMs: count.nullable(),
  createdAt: time,
  updatedAt: time,
});
