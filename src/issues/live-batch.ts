/**
 * A live batch as other processes see it: its owner, the runs that it holds, and requests to stop one of them. Commands
 * that only look up runs load this file, so it imports nothing that works on issues.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readRecordOrNull, removeQuietly, writeAtomic } from "../state/files.ts";
import type { ProcessIdentity, RunRecord } from "../core/records.ts";
import { objectIn, stringIn } from "../lib/json.ts";
import type { BatchLease, Deps } from "../run/run.ts";
import { identityIn } from "../store/store.ts";
import type { IssueState } from "./metadata.ts";
import type { StopControl } from "./stop-control.ts";

const LOOK_MS = 200;
/** After this time, an interrupted agent that still lives is ended. */
const PATIENCE_MS = 10_000;

/** The file that asks a batch to stop one run. The batch's id is in its name, so no other batch reads it. */
function requestFile(directory: string, batch: string, handle: string): string {
  return join(directory, `${batch}.stop-${handle}`);
}

/** Asks the batch to stop this run only. The result withdraws the request. */
export function requestStop(directory: string, batch: string, handle: string): () => void {
  const file = requestFile(directory, batch, handle);
  writeAtomic(file, "");
  return () => removeQuietly(file);
}

/** Stops the issue when a request for its run appears. */
export function watchStopRequests(
  control: StopControl,
  { directory, batch, handle }: { directory: string; batch: string; handle: () => string | null },
): Disposable {
  let askedMs: number | null = null;
  const look = () => {
    const now = handle();
    const file = now === null ? null : requestFile(directory, batch, now);
    if (file !== null && existsSync(file)) {
      removeQuietly(file);
      askedMs ??= performance.now();
      if (control.level < 2) control.stopAlone();
    }
    if (askedMs !== null && performance.now() - askedMs > PATIENCE_MS && control.level < 3)
      control.stopAlone();
  };
  const timer = setInterval(look, LOOK_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

type World = Pick<Deps, "state" | "processes">;

export interface LiveBatch {
  readonly batch: string;
  readonly who: ProcessIdentity;
}

/** The metadata directory of the run's repository. Null: the run has no issue. */
export function directoryFor({ state }: Pick<Deps, "state">, subject: string | null): string | null {
  const slug = /^issue:([\w.-]+)#/.exec(subject ?? "")?.[1];
  return slug === undefined ? null : join(state.root, "issues", slug);
}

const ownerFile = (directory: string) => join(directory, "runner.owner");

export function liveOwnerIn({ processes }: Pick<Deps, "processes">, directory: string): LiveBatch | null {
  const record = readRecordOrNull(ownerFile(directory));
  const who = identityIn(record);
  if (who === null || !processes.isAlive(who)) return null;
  return { batch: stringIn(record, "run_id") ?? "", who };
}

/** For a user who says that the batch is gone. Does nothing if the kernel shows that it lives. */
export function forgetBatchOwner({ state, processes }: World, { subject }: Pick<RunRecord, "subject">): void {
  const directory = directoryFor({ state }, subject);
  const live = directory === null ? null : liveOwnerIn({ processes }, directory);
  if (directory !== null && live !== null && processes.examine(live.who) !== "lives")
    removeQuietly(ownerFile(directory));
}

const UNDONE: readonly string[] = ["running", "waiting", "checking", "passed"] satisfies IssueState[];

interface BatchIssue {
  readonly issue: string;
  readonly state: string;
  readonly isOver: boolean;
}

/** The issues in a batch's metadata, by the handles of their runs. */
export function issuesByHandle(directory: string, batch: string): ReadonlyMap<string, BatchIssue> {
  const issues = objectIn(readRecordOrNull(join(directory, `${batch}.json`)), "issues") ?? {};
  return new Map(
    Object.entries(issues).flatMap(([issue, entry]) => {
      const handle = stringIn(entry, "handle");
      const state = stringIn(entry, "status") ?? "";
      return handle === undefined ? [] : [[handle, { issue, state, isOver: !UNDONE.includes(state) }]];
    }),
  );
}

/** The runs that live batches hold. The metadata names a run before the batch starts it, until the issue ends. */
export function batchHolds(
  world: World,
  runs: readonly Pick<RunRecord, "handle" | "subject">[],
): ReadonlyMap<string, BatchLease> {
  const found = new Map<string, BatchLease>();
  for (const directory of new Set(runs.map(({ subject }) => directoryFor(world, subject)))) {
    const live = directory === null ? null : liveOwnerIn(world, directory);
    if (directory === null || live === null || isSelf(world, live.who)) continue;
    const certain = world.processes.examine(live.who) === "lives";
    for (const [handle, { issue, state, isOver }] of issuesByHandle(directory, live.batch))
      if (!isOver) found.set(handle, { batch: live.batch, pid: live.who.pid, issue, state, certain });
  }
  return found;
}

function isSelf({ processes }: Pick<Deps, "processes">, who: ProcessIdentity): boolean {
  const { pid, start, boot, space } = processes.self();
  return who.pid === pid && who.start === start && who.boot === boot && who.space === space;
}
