/** The process that works on a repository's batch: one at a time, and how another process stops an issue of it. */
import { liveOwner } from "../run/inspect.ts";
import type { Deps } from "../run/run.ts";
import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { readRecord, writeAtomic } from "../state/files.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { numberIn, stringIn } from "../lib/json.ts";
import { type FileLock, lockFile } from "../store/store.ts";
import { directoryFor, issuesByHandle, type LiveBatch, liveOwnerIn, requestStop } from "./live-batch.ts";
import { metadataDirectory } from "./metadata.ts";

/**
 * Two batches of one repository would claim each other's issues. The kernel releases the lock of a dead process. A
 * second lock names the directory itself, because a bind mount gives it another path.
 */
export async function lockRepository(
  deps: Deps,
  directory: string,
  root: string,
  runId: string,
): Promise<FileLock> {
  const { dev, ino } = statSync(root, { bigint: true });
  const named = join(directory, "runner");
  const places = [named, join(dirname(directory), `directory-${dev}-${ino}`)];
  const held: FileLock[] = [];
  const release = () => held.forEach((lock) => lock.release());
  for (const place of places) {
    const lock = await lockFile(`${place}.lock`);
    if (lock === null) {
      release();
      throw batchBusy(root, ownerText(`${place}.owner`), place === named);
    }
    held.push(lock);
  }
  const owner = `${JSON.stringify({ ...deps.processes.owner(), run_id: runId })}\n`;
  for (const place of places) writeAtomic(`${place}.owner`, owner);
  return { release };
}

function batchBusy(root: string, owner: string, isNamed: boolean): Fault {
  const where = isNamed ? root : `${root}, under another path`;
  const look = isNamed ? "; `reprise issues status` shows it" : "";
  return new Fault(
    "batch_busy",
    `Another batch works on ${where}: ${owner}. Wait for it, or stop it with Ctrl-C where it runs${look}.`,
    { facts: { repository: root, owner } },
  );
}

/** The id of the live batch of the repository. Null: no batch is working on it. */
export function liveBatch(deps: Deps, root: string): string | null {
  return liveOwnerIn(deps, metadataDirectory(deps.state, root))?.batch ?? null;
}

export interface StoppedIssue {
  readonly batch: string;
  readonly issue: string;
  readonly state: string;
}

const STOP_WAIT_MS = 30_000;
const STOP_POLL_MS = 50;

/**
 * Stops one run of a live batch; its other issues continue, and the batch records the end. Null: no live batch works
 * on the run's issue.
 */
export async function stopInBatch(
  deps: Deps,
  run: Pick<RunRecord, "handle" | "runId" | "subject">,
  onProgress: (text: string) => void,
): Promise<StoppedIssue | null> {
  const directory = directoryFor(deps, run.subject);
  const live = directory === null ? null : liveOwnerIn(deps, directory);
  if (directory === null || live === null) return null;
  const { batch } = live;
  const { pid } = live.who;
  const owner = await liveOwner(deps, run.runId);
  const look = () => issuesByHandle(directory, batch).get(run.handle) ?? null;
  // A person may have resumed it after the batch was done with it.
  if ((owner !== null && owner.pid !== pid) || look()?.isOver !== false) return null;
  const takeBack = requestStop(directory, batch, run.handle);
  onProgress(`asked batch ${batch} (pid ${pid}) to stop this run; its other issues continue`);
  try {
    const deadline = deps.clock.mono() + STOP_WAIT_MS;
    for (;;) {
      const now = look();
      if (now === null || liveOwnerIn(deps, directory)?.batch !== batch) return null;
      if (now.isOver) return { batch, issue: now.issue, state: now.state };
      if (deps.clock.mono() >= deadline) throw stopTimedOut(run.handle, live);
      await new Promise((wake) => setTimeout(wake, STOP_POLL_MS));
    }
  } finally {
    takeBack();
  }
}

function stopTimedOut(handle: string, { batch, who: { pid } }: LiveBatch): Fault {
  return new Fault(
    "run_busy",
    `Batch ${batch} (pid ${pid}) has not stopped run ${handle} within ${STOP_WAIT_MS / 1_000} s. Stop the whole batch: press Ctrl-C twice where it runs, or type: kill -TERM ${pid}`,
    { facts: { handle, batch, pid } },
  );
}

function ownerText(about: string): string {
  try {
    const record = readRecord(about);
    return `pid ${numberIn(record, "pid") ?? "unknown"}, ${stringIn(record, "run_id") ?? "unknown"}`;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return "unknown process";
  }
}
