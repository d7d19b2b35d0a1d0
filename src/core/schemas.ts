/**
 * The shapes of the records in run directories, to check files that other programs may have written.
 *
 * A schema only decides whether a file is valid. Reprise uses the file's own value, so fields of later versions
 * survive. Schemas cost start-up time: import them only where a file is read. The types are in `records.ts`;
 * `schemas.test.ts` keeps both in step.
 */
import { z } from "zod";
import { TROUBLE_KINDS } from "./events.ts";
import { HANDLE, isRunId } from "./ids.ts";
import { ACTIONS, ERROR_MATCHES } from "./runbook.ts";

const time = z.iso.datetime();
const texts = z.array(z.string());
const count = z.int().min(0);

const source = z.enum(["chosen", "pty-output", "stdout", "stderr", "store", "adopted"]);

const processIdentity = z.object({
  /** Zero and negative numbers are process groups. */
  pid: z.int().min(1).max(4_194_304),
  start: z.string(),
  boot: z.string(),
  space: z.string(),
  autogroup: z.exactOptional(z.string()),
  life: z.exactOptional(z.object({ file: z.string(), inode: count, shared: z.boolean() })),
});

const seenSession = z.object({
  value: z.string().min(1),
  source,
  at: time,
  attempt: count,
  verifiedAt: time.nullable(),
  foreign: z.exactOptional(z.literal(true)),
});

const escrow = z.object({
  session: z.string(),
  files: z.array(
    z.object({ file: z.string(), restoreTo: z.string().nullable(), size: count, sha256: z.string() }),
  ),
  rights: z.exactOptional(texts),
  takenAt: time,
});

const trouble = z.object({
  kind: z.enum(TROUBLE_KINDS),
  message: z.string(),
  resetsAt: z.exactOptional(z.string()),
  status: z.exactOptional(z.number()),
});

const mode = z.enum(["pipe", "pty"]);

const launch = z.object({
  args: texts,
  given: texts,
  redacted: texts,
  env: z.array(z.object({ name: z.string(), value: z.string().nullable() })),
  rights: z.array(z.object({ name: z.string(), sha256: z.string(), leads: z.exactOptional(z.string()) })),
  guarded: z.exactOptional(z.literal(true)),
  files: z.exactOptional(
    z.array(z.object({ by: z.string(), path: z.string(), sha256: z.string().nullable() })),
  ),
  mode,
  interactive: z.boolean(),
  isolate: z.enum(["dir", "worktree"]).nullable(),
  escrow: z.boolean(),
  trustCwd: z.boolean(),
  folderTrust: z.exactOptional(z.enum(["trusted", "untrusted", "unset"])),
  program: z.string(),
  version: z.string().nullable(),
  message: z.string().nullable(),
  unresumable: z.exactOptional(z.string()),
});

const parent = z.object({
  runId: z.string().refine(isRunId),
  handle: z.string().regex(HANDLE),
  session: z.string().min(1),
});

export const runSchema = z.object({
  v: z.literal(1),
  handle: z.string().regex(HANDLE),
  runId: z.string().refine(isRunId),
  runDirectory: z.string(),
  agentName: z.string().min(1),
  session: z.object({
    field: z.string().nullable(),
    value: z.string().min(1).nullable(),
    source: source.nullable(),
    verifiedAt: time.nullable(),
  }),
  sessions: z.array(seenSession),
  launch,
  cwd: z.string(),
  engineHome: z.string().nullable(),
  status: z.enum(["running", "completed", "failed", "interrupted", "cancelled", "diverged"]),
  attempts: count,
  subject: z.string().nullable(),
  name: z.string().nullable(),
  escrow: escrow.nullable(),
  kept: z.exactOptional(z.array(escrow)),
  parent: z.exactOptional(parent),
  empty: z.exactOptional(z.literal(true)),
  createdAt: time,
  updatedAt: time,
});

export const attemptSchema = z.object({
  v: z.literal(1),
  runId: z.string().refine(isRunId),
  n: z.int().min(1),
  kind: z.enum(["start", "resume", "fork", "fresh"]),
  state: z.enum(["intended", "running", "ended"]),
  mode,
  interactive: z.boolean(),
  program: z.string(),
  args: texts,
  native: texts,
  cwd: z.string(),
  message: z.string().nullable(),
  owner: processIdentity,
  agent: processIdentity.nullable(),
  asked: z.string().nullable(),
  reported: z.array(seenSession),
  engineVersion: z.string().nullable(),
  startedAt: time,
  endedAt: time.nullable(),
  exit: z.object({ code: z.int().nullable(), signal: z.string().nullable() }).nullable(),
  outcome: z
    .object({
      result: z.enum(["completed", "failed", "interrupted", "cancelled", "diverged"]),
      reason: z.string(),
      trouble: z.exactOptional(trouble),
    })
    .nullable(),
  tokens: z.object({ input: z.number(), output: z.number() }).nullable(),
  bytes: z.object({ stdout: count, stderr: count }),
  diagnostics: texts,
  hidden: z.exactOptional(texts),
  restored: z.exactOptional(z.object({ lacks: texts })),
  lastWords: z.exactOptional(texts),
});

export const receiptSchema = z.object({
  v: z.literal(1),
  runId: z.string().refine(isRunId),
  attempt: z.int().min(1),
  asked: z.string(),
  reported: z.string().nullable(),
  verified: z.enum(["engine_reported", "store_confirmed", "forked", "not_verified", "diverged"]),
  cwd: z.string(),
  engineVersion: z.string().nullable(),
  restoredFromEscrow: z.boolean(),
  lacks: z.exactOptional(texts),
  options: z.object({ kept: texts, dropped: texts, rewritten: texts }),
  at: time,
});

const entries = z.array(
  z.object({
    action: z.enum(ACTIONS),
    message: z.string().nullable(),
    append: z.boolean(),
    run: texts.nullable(),
    timeoutMs: count,
    attempts: count,
    cooldownMs: count,
    match: z.enum(ERROR_MATCHES),
  }),
);

const agentDefinition = z.object({
  name: z.string(),
  engine: z.string(),
  args: texts,
  mode: z.enum(["interactive", "headless"]),
  prompt: z.string().nullable(),
  cwd: z.string(),
  env: z.array(z.tuple([z.string(), z.string()])),
  policy: z.object({
    on: z.object({ idle: entries, dead: entries, error: entries, prompt: entries }),
    idleAfterMs: count,
    maxAttempts: count.nullable(),
  }),
});

export const agentSchema = z.object({
  v: z.literal(1),
  id: z.string().regex(HANDLE),
  runId: z.string().refine(isRunId),
  definition: agentDefinition,
  runbook: z.object({ path: z.string(), sha256: z.string() }),
  vars: z.record(z.string(), z.string()),
  trustCwd: z.exactOptional(z.literal(true)),
  phase: z.enum(["active", "done", "failed", "stopped"]),
  reason: z.string().nullable(),
  pipeline: z.object({ id: z.string(), step: z.string() }).nullable(),
  createdAt: time,
  endedAt: time.nullable(),
});
