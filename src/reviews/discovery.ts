/**
 * Finds a pull request's unfinished session that can be continued. Reads sidecars and the state of their runs, and
 * changes only a session that the user declines. Reports and skips files that are not valid sidecars.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { StateDir } from "../state/directory.ts";
import { checkOwnDirectory, storageFault } from "../state/files.ts";
import type { Outcome } from "../core/events.ts";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import type { RunStatus } from "../core/records.ts";
import { subjectOf } from "./pull-request.ts";
import { isPassing, nameStart, openSession, SIDECAR_END, type Sidecar, whyOf } from "./sidecar.ts";
import type { InterruptedSession, PullRequest } from "./review.ts";

/** The current state of a run. */
export interface RunState {
  /** `running`: a live process works on it. */
  readonly status: RunStatus;
  /** The engine's session id. */
  readonly session: string | null;
  readonly subject: string | null;
  /** Of its last attempt. Absent: unknown. */
  readonly outcome?: Outcome | null;
}

export interface RunLookup {
  /** Null: there is no such run. */
  run(handle: string): Promise<RunState | null>;
  warn(message: string): void;
}

/** The newest session. Null: no session to continue. */
export async function findInterruptedSession(
  directory: string,
  pullRequest: PullRequest,
  looking: RunLookup,
): Promise<InterruptedSession | null> {
  for (const { path, record } of candidates(directory, pullRequest, looking)) {
    const run = await looking.run(record.handle);
    if (run === null || run.subject?.toLowerCase() !== subjectOf(pullRequest).toLowerCase()) {
      const what = run === null ? "is gone" : "is for something else";
      looking.warn(`${path} is skipped: its run ${record.handle} ${what}.`);
      continue;
    }
    // A resume uses the run, and a kill between the two writes leaves the id only in the run.
    const threadId = run.session ?? record.thread_id;
    if (threadId === null || !isOpen(record, run)) continue;
    return {
      sidecar: path,
      handle: record.handle,
      threadId,
      startedAt: record.started_at,
      ...(isPassing(run.outcome) && run.outcome ? whyIn(run.outcome) : {}),
      ...(record.approvals.length === 0 ? {} : { approvals: record.approvals.map(({ what }) => what) }),
    };
  }
  return null;
}

/** Keeps it in the list of runs, but does not offer it again. */
export function declineSession(path: string, at: string): void {
  openSession(path).update({ declined_at: at });
}

/** A session that a process works on, or that was finished since (`reprise resume`), is not interrupted. */
function isOpen({ status }: Sidecar, run: RunState): boolean {
  if (run.status === "running" || run.status === "completed") return false;
  // The sidecar of a dead owner says `running`; then its run tells how the session ended.
  if (status === "interrupted" || run.status === "interrupted" || run.status === "cancelled") return true;
  return isPassing(run.outcome);
}

function whyIn(outcome: Outcome): Pick<InterruptedSession, "why" | "resetsAt"> {
  const { resetsAt } = outcome.trouble ?? {};
  return { why: whyOf(outcome), ...(resetsAt === undefined ? {} : { resetsAt }) };
}

interface Candidate {
  readonly path: string;
  readonly record: Sidecar;
}

/** Newest first. The name selects files to read; their content decides. */
function candidates(directory: string, pullRequest: PullRequest, looking: RunLookup): Candidate[] {
  const start = nameStart(pullRequest).toLowerCase();
  const found: Candidate[] = [];
  for (const name of sidecarsIn(directory)) {
    if (!name.toLowerCase().startsWith(start)) continue;
    const path = join(directory, name);
    try {
      const { record } = openSession(path);
      const open = record.status === "running" || record.status === "interrupted";
      if (open && record.declined_at === null && isOf(record, pullRequest)) found.push({ path, record });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      looking.warn(error.message);
    }
  }
  return found.toSorted(
    (one, other) => Date.parse(other.record.started_at) - Date.parse(one.record.started_at),
  );
}

function isOf(record: Sidecar, { host, owner, repository, number }: PullRequest): boolean {
  const same = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();
  return (
    record.pr_number === number &&
    same(record.owner, owner) &&
    same(record.repository, repository) &&
    same(record.host, host)
  );
}

/** The names of all possible sidecars. */
export function sidecarsIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).filter((name) => name.endsWith(SIDECAR_END));
  } catch (error) {
    if (isErrno(error, "ENOENT")) return [];
    throw storageFault(error, "read", directory);
  }
}

export interface DamagedSidecar {
  readonly path: string;
  readonly why: string;
}

/** For `doctor`: unusable sidecars. Reads only. */
export function damagedSidecars(state: StateDir): readonly DamagedSidecar[] {
  const directory = join(state.root, "reviews");
  try {
    if (!checkOwnDirectory(directory)) return [];
  } catch (error) {
    return [damageOf(error, directory)];
  }
  return sidecarsIn(directory).flatMap((name) => {
    const path = join(directory, name);
    try {
      openSession(path);
      return [];
    } catch (error) {
      return [damageOf(error, path)];
    }
  });
}

function damageOf(error: unknown, path: string): DamagedSidecar {
  if (!(error instanceof Fault)) throw error;
  const { why } = error.facts;
  return { path, why: typeof why === "string" ? why : error.message };
}
