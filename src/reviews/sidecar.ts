/**
 * The record of one review session: `<name>.session.json` beside its transcript `<name>.jsonl`. Its names are public.
 *
 * It records the session's state; the run (`handle`) records each attempt. Written atomically, so it is never torn; a
 * known thread id is never lost (I3).
 */
import { existsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { z } from "zod";
import { readRecord, writeAtomic } from "../state/files.ts";
import type { Outcome, TroubleKind } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { redactor } from "../lib/secrets.ts";
import { createTranscript } from "./transcript.ts";
import type { PullRequest } from "./review.ts";

const time = z.iso.datetime();

const approval = z.looseObject({
  /** Equal for identical requests. */
  key: z.string().min(1),
  about: z.enum(["command", "files"]),
  /** The beginning of the approved action, for people. */
  what: z.string(),
  at: time,
});
export type KeptApproval = z.infer<typeof approval>;

/** Keeps fields of later versions. */
export const Sidecar = z.looseObject({
  status: z.enum(["running", "completed", "interrupted", "failed", "cancelled"]),
  /** A file name in the sidecar's directory. */
  transcript_path: z.string().min(1),
  /** Null until Codex names it; the run may know it earlier. */
  thread_id: z
    .string()
    .regex(/^[0-9A-Za-z][0-9A-Za-z_-]{7,127}$/)
    .nullable(),
  host: z.string().default("github.com"),
  owner: z.string(),
  repository: z.string(),
  pr_number: z.int().min(1),
  started_at: time,
  finished_at: time.nullable(),
  /** The number of the run's attempts in the transcript. Null: written by an older version that did not count. */
  attempts: z.int().min(0).nullable().default(null),
  /** Why the last turn ended, if it was not completed. Redacted. */
  reason: z.string().nullable().default(null),
  /** The reset time of the limit that ended the last turn. */
  resets_at: time.nullable().default(null),
  /** The session's run. */
  handle: z.string().regex(/^[0-9a-f]{8}$/),
  /** The user's approvals for the session. */
  approvals: z.array(approval).default([]),
  /** Marks of the comments that Codex got (`markOf`). */
  sent_comments: z.array(z.string()).default([]),
  /** When the user declined to continue it. */
  declined_at: time.nullable().default(null),
});
export type Sidecar = z.infer<typeof Sidecar>;

export const SIDECAR_END = ".session.json";
const MAX_APPROVALS = 1_000;
const MAX_SENT = 10_000;
const MAX_WHAT = 300;
/** More than its largest content. */
const MAX_BYTES = 16 * 1024 * 1024;
const redact = redactor([]);

export interface NewSession {
  readonly pullRequest: PullRequest;
  readonly handle: string;
  /** The number of the run's attempt that begins the session. */
  readonly attempt?: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** An empty transcript, and a sidecar that says `running`. Two starts in the same second get two names. */
export function createSession(
  directory: string,
  { pullRequest, handle, attempt = 1, now }: NewSession,
): SessionFile {
  const startedAt = new Date(now).toISOString();
  const { host, owner, repository, number } = pullRequest;
  const name = `${nameStart(pullRequest)}${startedAt.replace(/\.\d+/, "").replaceAll(/[-:]/g, "")}`;
  for (let twin = 1; twin < 1_000; twin += 1) {
    const stem = join(directory, twin === 1 ? name : `${name}-${twin}`);
    if (existsSync(`${stem}${SIDECAR_END}`) || !createTranscript(`${stem}.jsonl`)) continue;
    const session = new SessionFile(`${stem}${SIDECAR_END}`, {
      status: "running",
      transcript_path: `${basename(stem)}.jsonl`,
      thread_id: null,
      host,
      owner,
      repository,
      pr_number: number,
      started_at: startedAt,
      finished_at: null,
      attempts: attempt,
      reason: null,
      resets_at: null,
      handle,
      approvals: [],
      sent_comments: [],
      declined_at: null,
    });
    session.update({});
    return session;
  }
  throw new Fault(
    "storage_failed",
    `Too many sessions were started in one second: ${join(directory, name)}.`,
  );
}

/** The common prefix of all session names of a pull request. */
export function nameStart({ owner, repository, number }: Omit<PullRequest, "host">): string {
  const safe = (text: string) => text.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 100);
  return `${safe(owner).replace(/^\./, "_")}-${safe(repository)}-pr-${number}-`;
}

/** Refuses a file that is not our sidecar, with the fault `record_damaged` or `denied`. */
export function openSession(path: string): SessionFile {
  const record = readRecord(path, MAX_BYTES);
  const parsed = Sidecar.safeParse(record);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".") ?? "";
    if (record === null)
      throw new Fault("record_damaged", `${path} is gone.`, { facts: { path, why: "it is gone" } });
    throw damaged(path, `its ${field || "content"} is not as it should be`);
  }
  const own = basename(path).replace(/\.session\.json$/, ".jsonl");
  if (resolve(dirname(path), parsed.data.transcript_path) !== resolve(dirname(path), own)) {
    throw damaged(path, "its transcript_path names another file than the one beside it");
  }
  return new SessionFile(path, parsed.data);
}

function damaged(path: string, why: string): Fault {
  return new Fault(
    "record_damaged",
    `${path} cannot be used: ${why}. The file was not changed; \`reprise doctor\` says what to do.`,
    { facts: { path, why } },
  );
}

export class SessionFile {
  readonly path: string;
  #record: Sidecar;

  constructor(path: string, record: Sidecar) {
    this.path = path;
    this.#record = record;
  }

  get record(): Sidecar {
    return this.#record;
  }

  get transcript(): string {
    return this.path.replace(/\.session\.json$/, ".jsonl");
  }

  /** Records the end of a turn, its result and reason. */
  end(status: Exclude<Sidecar["status"], "running">, at: string, outcome: Outcome | null): void {
    const isDone = outcome === null || outcome.result === "completed";
    const reason = isDone ? null : redact(whyOf(outcome)).slice(0, MAX_WHAT);
    this.update({ status, finished_at: at, reason, resets_at: outcome?.trouble?.resetsAt ?? null });
  }

  /** On disk when it returns. Never replaces a thread id by null, and keeps additions of other processes. */
  update(change: Partial<Sidecar>): void {
    this.#readAgain();
    const next: Sidecar = { ...this.#record, ...change };
    const record: Sidecar = { ...next, thread_id: next.thread_id ?? this.#record.thread_id };
    writeAtomic(this.path, `${JSON.stringify(record, null, 2)}\n`);
    this.#record = record;
  }

  /** Replaces an unusable or missing file by the data known here. */
  #readAgain(): void {
    try {
      const now = Sidecar.safeParse(readRecord(this.path, MAX_BYTES));
      if (now.success) this.#record = now.data;
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
    }
  }

  /** Records an approval for the session, each once. */
  keepApproval(approved: KeptApproval): void {
    this.#readAgain();
    const others = this.#record.approvals.filter(({ key }) => key !== approved.key);
    const kept = { ...approved, what: redact(approved.what).slice(0, MAX_WHAT) };
    this.update({ approvals: [...others, kept].slice(-MAX_APPROVALS) });
  }

  noteSent(marks: readonly string[]): void {
    this.#readAgain();
    const all = new Set([...this.#record.sent_comments, ...marks]);
    this.update({ sent_comments: [...all].slice(-MAX_SENT) });
  }
}

const PASSING: ReadonlySet<TroubleKind> = new Set(["rate_limited", "quota", "overloaded", "network"]);

const WORDS: Readonly<Partial<Record<TroubleKind, string>>> = {
  rate_limited: "Codex was rate limited",
  quota: "the quota of Codex was used up",
  overloaded: "the model was overloaded",
  network: "the connection to the model failed",
  auth: "Codex was not logged in",
  context_full: "the conversation was too long for the model",
};

/** The turn ended but the session did not: the cause is temporary, and the same conversation can continue. */
export function isPassing(outcome: Outcome | null | undefined): boolean {
  return outcome?.result === "failed" && PASSING.has(outcome.trouble?.kind ?? "other");
}

/** The session's status after a turn with this outcome. */
export function statusAfter(outcome: Outcome): Exclude<Sidecar["status"], "running"> {
  switch (outcome.result) {
    case "completed":
      return "completed";
    case "failed":
      return isPassing(outcome) ? "interrupted" : "failed";
    case "diverged":
      return "failed";
    case "interrupted":
    case "cancelled":
      return "interrupted";
  }
}

/** One sentence without its full stop. Untrusted. */
export function whyOf({ reason, trouble }: Outcome): string {
  if (trouble === undefined) return reason;
  return `${WORDS[trouble.kind] ?? reason}: ${trouble.message}`;
}
