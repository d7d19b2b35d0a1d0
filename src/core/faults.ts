/**
 * The one error type that crosses a folder boundary, and the table of its codes.
 *
 * Throw it when Reprise cannot do what the user asked. An agent's failure is not a Fault but an `Outcome`, a stored
 * value that Reprise acts on. `docs/errors.md` is generated from this table.
 */
import { errorCode } from "./errno.ts";

interface FaultInfo {
  readonly exit: number;
  /** The same command may succeed later without any change by the user. */
  readonly retryable: boolean;
  readonly means: string;
}

/** Codes are public API: add freely, never rename. */
export const FAULTS = {
  usage: { exit: 2, retryable: false, means: "the command line is wrong" },
  config_invalid: { exit: 2, retryable: false, means: "a config file has an unknown key or a bad value" },
  runbook_invalid: {
    exit: 2,
    retryable: false,
    means: "a runbook has a mistake; file, line and column are in the message",
  },
  engine_unknown: { exit: 2, retryable: false, means: "no engine has this name" },
  handle_invalid: {
    exit: 2,
    retryable: false,
    means: "no run has this name, and it is not a handle, a prefix of one, or a run id",
  },
  handle_ambiguous: {
    exit: 2,
    retryable: false,
    means: "the name or the prefix fits more than one run",
  },
  name_taken: { exit: 4, retryable: false, means: "another live run has this name" },
  message_invalid: {
    exit: 2,
    retryable: false,
    means: "the message is empty, too long or contains a zero byte",
  },
  cwd_invalid: { exit: 2, retryable: false, means: "the working directory given is not a usable directory" },
  run_engine_mismatch: { exit: 2, retryable: false, means: "the run belongs to another engine" },
  runbook_unknown: {
    exit: 3,
    retryable: false,
    means: "no runbook defines an agent or a pipeline of this name",
  },
  handle_unknown: { exit: 3, retryable: false, means: "no run has this handle or name" },
  run_dir_missing: { exit: 3, retryable: false, means: "the run's directory is missing" },
  attempt_unknown: { exit: 3, retryable: false, means: "the run has no such attempt or no such stream" },
  session_unknown: { exit: 3, retryable: false, means: "the run has no session id to continue" },
  session_lost: {
    exit: 3,
    retryable: false,
    means: "the engine no longer has this session, and the run has no copy that can be used",
  },
  copy_missing: {
    exit: 3,
    retryable: false,
    means: "the run has no intact copy with more than the engine's session",
  },
  cwd_missing: { exit: 3, retryable: false, means: "the run's working directory is missing" },
  engine_home_missing: {
    exit: 3,
    retryable: false,
    means: "the engine's home differs from the home at the start of the run",
  },
  limit_unknown: {
    exit: 3,
    retryable: false,
    means: "the last attempt hit no limit, or the engine did not say when it ends",
  },
  wait_timeout: { exit: 124, retryable: true, means: "the `--timeout` of `wait` expired" },
  run_busy: { exit: 4, retryable: true, means: "another process owns this run right now" },
  session_busy: { exit: 4, retryable: true, means: "another live attempt holds this session" },
  batch_busy: { exit: 4, retryable: true, means: "another batch works on the issues of this repository" },
  no_answer: { exit: 4, retryable: true, means: "another process of Reprise does not answer" },
  index_busy: { exit: 4, retryable: true, means: "the index is locked by another process" },
  record_damaged: { exit: 5, retryable: false, means: "a stored record cannot be read" },
  index_damaged: { exit: 5, retryable: false, means: "the index cannot be read and could not be rebuilt" },
  session_damaged: {
    exit: 5,
    retryable: false,
    means: "the engine's own session is damaged, or lacks a part that the run's copy has",
  },
  engine_missing: {
    exit: 6,
    retryable: false,
    means: "the engine's program is not installed or cannot be run",
  },
  engine_cannot: { exit: 6, retryable: false, means: "the engine does not support this" },
  schema_newer: { exit: 6, retryable: false, means: "the index or a run was written by a newer Reprise" },
  platform_unsupported: {
    exit: 6,
    retryable: false,
    means: "this system or terminal lacks a required feature",
  },
  storage_failed: { exit: 7, retryable: false, means: "the state directory could not be read or written" },
  storage_full: { exit: 7, retryable: true, means: "the disk or the quota is full" },
  too_many_files: {
    exit: 7,
    retryable: true,
    means: "too many open files, in this process or in the whole system",
  },
  spawn_failed: { exit: 7, retryable: true, means: "the system refused to start a process" },
  denied: {
    exit: 8,
    retryable: false,
    means: "the state directory or a file in it has unsafe ownership or permissions",
  },
  outside_root: { exit: 8, retryable: false, means: "a run directory lies outside the runs root" },
  outside_repository: {
    exit: 8,
    retryable: false,
    means: "issues of a repository lie outside it, behind a symbolic link",
  },
  would_widen: {
    exit: 8,
    retryable: false,
    means: "the resume would get more rights than the run was started with",
  },
  option_unkept: { exit: 8, retryable: false, means: "Reprise cannot repeat a recorded option exactly" },
  trust_required: {
    exit: 8,
    retryable: false,
    means: "you must trust the folder or the project's config first",
  },
  secrets_unknown: {
    exit: 8,
    retryable: false,
    means: "secrets of the agent are not known here, so Reprise cannot redact them",
  },
  state_copied: {
    exit: 8,
    retryable: false,
    means: "the state directory is a copy, and the original may be at work on the same sessions",
  },
  state_moved: {
    exit: 8,
    retryable: false,
    means: "an agent worked inside the state directory, and the state directory has moved since",
  },
  mount_inside: {
    exit: 8,
    retryable: false,
    means: "the directory to remove contains a mount point, and the files behind it are not the run's",
  },
  work_unsaved: {
    exit: 8,
    retryable: false,
    means: "removing would destroy uncommitted or unmerged work, or the only copy of a conversation",
  },
  comments_invalid: { exit: 2, retryable: false, means: "a file of review comments cannot be used" },
  issues_invalid: {
    exit: 2,
    retryable: false,
    means: "a file of issues has a mistake; file and line are in the message",
  },
  issues_missing: {
    exit: 3,
    retryable: false,
    means: "the repository has no issues in the expected place",
  },
  issue_unknown: { exit: 3, retryable: false, means: "no issue has this id" },
  pull_request_unknown: {
    exit: 3,
    retryable: false,
    means: "GitHub has no such pull request, or does not show it to this token",
  },
  github_denied: { exit: 8, retryable: false, means: "GitHub asks for a token, or rejects the one it got" },
  github_limited: {
    exit: 75,
    retryable: true,
    means: "GitHub's rate limit is used up; the message says until when",
  },
  github_unreachable: {
    exit: 75,
    retryable: true,
    means: "GitHub cannot be reached, or cannot answer right now",
  },
  github_garbled: {
    exit: 6,
    retryable: false,
    means: "the server is not GitHub's API, or its answer is too large",
  },
  lease_lost: { exit: 4, retryable: false, means: "another process took over this run in the meantime" },
} as const satisfies Record<string, FaultInfo>;

export type FaultCode = keyof typeof FAULTS;

export type FaultFacts = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  /** Facts for `--json` and logs. Never secrets, never agent output. */
  readonly facts: FaultFacts;

  constructor(code: FaultCode, message: string, options: { facts?: FaultFacts; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.facts = options.facts ?? {};
  }
}

/** Handles a rejected promise: the fallback replaces a fault. Any other error is a bug and passes on. */
export const ifFault =
  <F>(fallback: F) =>
  (error: unknown): F => {
    if (error instanceof Fault) return fallback;
    throw error;
  };

/** The same for work that throws. */
export function unlessFault<T, F>(work: () => T, fallback: F): T | F {
  try {
    return work();
  } catch (error) {
    return ifFault(fallback)(error);
  }
}

/** Any error that is neither a `Fault` nor a failure of the system is our bug: exit 70 (EX_SOFTWARE). */
export function exitCodeOf(error: unknown): number {
  const fault = error instanceof Fault ? error : outageOf(error);
  return fault === null ? 70 : FAULTS[fault.code].exit;
}

/** Codes of a bad disk, or of a network file system that is gone. */
const DEVICE_CODES: ReadonlySet<string> = new Set(["EIO", "ESTALE", "EREMOTEIO", "ENXIO", "ENODEV"]);

/** A failure of the system that no caller has reported as its own fault. Null: some other error. */
export function outageOf(error: unknown): Fault | null {
  const want = wantOf(error);
  const code = errorCode(error);
  if (want !== null || code === null || !DEVICE_CODES.has(code) || !("syscall" in (error as Error)))
    return want;
  const { syscall, path } = error as NodeJS.ErrnoException;
  const what = path === undefined ? "a file" : path;
  return new Fault("storage_failed", `The system could not access ${what} (${syscall ?? "call"}: ${code}).`, {
    facts: { errno: code, ...(path === undefined ? {} : { path }) },
    cause: error,
  });
}

/**
 * A resource that can run out at any file access, even while Node loads our code. Null: some other error. The message
 * names no file, because reporting it must not load more code.
 */
export function wantOf(error: unknown): Fault | null {
  const code = errorCode(error);
  if (!(error instanceof Error) || code === null) return null;
  // Node reports this when a relative path meets a current directory that was removed.
  if ("syscall" in error && error.syscall === "uv_cwd")
    return new Fault("cwd_invalid", "The current directory is gone. Change to another one.", {
      cause: error,
    });
  const isTooMany =
    code === "EMFILE" ||
    code === "ENFILE" ||
    // A library that fails to open has no errno code.
    (code === "ERR_DLOPEN_FAILED" && /too many open files/i.test(error.message));
  if (!isTooMany) return null;
  return new Fault(
    "too_many_files",
    `Too many open files: the system allows ${code === "ENFILE" ? "no more" : "this process no more"}. ` +
      "Allow more with `ulimit -n 1024` and try again.",
    { cause: error },
  );
}
