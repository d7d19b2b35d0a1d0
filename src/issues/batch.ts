/** A batch from its lock to its last record: plans it, works through its issues, and watches for new ones. */
import { findEngine, redactorFor, setUpEngine, withoutRepository } from "../run/engine-setup.ts";
import type { Deps } from "../run/run.ts";
import { Fault } from "../core/faults.ts";
import { redactValue } from "../lib/secrets.ts";
import type { BatchContext, BatchView } from "./batch-context.ts";
import type { IssueEnd } from "./batch-types.ts";
import { lockRepository } from "./batch-owner.ts";
import {
  type BatchOptions,
  type BatchPlace,
  planBatch,
  type PlannedBatch,
  type PlannedIssue,
} from "./batch-plan.ts";
import { unfinishedOf } from "./decide.ts";
import { headCommit, ourBranches } from "./git/branch.ts";
import { assertFilters, mergeTarget } from "./git/merge.ts";
import { IssueQueue } from "./issue-queue.ts";
import { batchId, beginBatch, type LeftIssue, makeMetadataDirectory } from "./metadata.ts";
import { configOf } from "./rights.ts";
import type { StopControl } from "./stop-control.ts";

export interface BatchEnd {
  readonly runId: string;
  readonly path: string;
  readonly issues: readonly IssueEnd[];
  /** Issues outside the plan. */
  readonly skipped: PlannedBatch["skip"];
  /** Work on issues that the source has lost. */
  readonly orphans: readonly LeftIssue[];
  readonly exitCode: number;
}

const isStarted = ({ decision }: PlannedIssue) => decision.do !== "leave" && decision.do !== "fail";

/** Without its engine, a batch would claim and fail every issue. A batch with no work needs none. */
function assertEngine(
  deps: Deps,
  { engine, watch: isWatching }: BatchOptions,
  take: readonly PlannedIssue[],
): void {
  if (isWatching || take.some(isStarted)) setUpEngine(deps, findEngine(deps, engine), []);
}

export async function runBatch(
  given: Deps,
  place: BatchPlace,
  options: BatchOptions,
  { stopControl, view }: { stopControl: StopControl; view: BatchView },
): Promise<BatchEnd> {
  const { root } = place;
  // Agents and gates work where this batch works, whatever repository the environment names.
  const deps = { ...given, env: withoutRepository(given.env) };
  const directory = makeMetadataDirectory(deps.state, root);
  const startedAtMs = deps.clock.now();
  const runId = batchId(startedAtMs, deps.newHandle());
  const lock = await lockRepository(deps, directory, root, runId);
  try {
    const planned = await planBatch(deps, place, options);
    assertEngine(deps, options, planned.take);
    view.planned(planned);
    const redact = redactorFor(deps.env, []);
    const first = {
      run_id: runId,
      started_at: new Date(startedAtMs).toISOString(),
      completed_at: null,
      planned: planned.take.filter(isStarted).map(({ issue }) => issue.id),
      left: 0,
      repo_path: root,
      version: options.version,
    };
    const branches = await ourBranches(deps, root);
    if (options.isolate === "worktree" && planned.take.length > 0)
      await assertWorktreesPossible(deps, root, branches);
    // Work that is done later goes there, whatever is checked out by then.
    const mergeInto = options.merge ? await mergeTarget(deps, root, options.mergeInto) : null;
    const config = redactValue({ ...configOf(deps, options, redact), merge_into: mergeInto }, redact);
    const batch = await beginBatch(directory, { ...first, config }, redact);
    const context: BatchContext = {
      deps,
      ...place,
      batch,
      options,
      stopControl,
      redact,
      branches,
      view,
      limitedUntilMs: 0,
      trees: new Map(),
      mergeInto,
      merging: Promise.resolve(),
    };
    const queue = new IssueQueue(context, options, view);
    await queue.work(planned.take);
    if (options.watch) await watch(deps, place, options, queue);
    queue.leave();
    const { goOn, leaves } = unfinishedOf(queue.ends, queue.ways, options);
    const at = new Date(deps.clock.now()).toISOString();
    await batch.complete({ at, left: leaves.length, leaves: [...leaves, ...planned.orphans], go_on: goOn });
    const { skip: skipped, orphans: lost } = planned;
    const exitCode = queue.exitCode();
    return { runId, path: batch.path, issues: queue.ends, skipped, orphans: lost, exitCode };
  } finally {
    lock.release();
  }
}

/** Looks for new issues until a stop, or until `maxIssues` have begun. */
async function watch(deps: Deps, place: BatchPlace, options: BatchOptions, queue: IssueQueue): Promise<void> {
  let said = "";
  while (queue.mayBegin()) {
    if (!(await queue.pause(deps.clock.now() + place.source.restMs))) return;
    let take: readonly PlannedIssue[] = [];
    try {
      // `maxIssues` applies to the whole batch.
      ({ take } = await planBatch(deps, place, { ...options, maxIssues: null }));
      said = "";
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // A person may be editing them, or the network may be down: the next look may succeed.
      if (said !== error.message)
        deps.log.warn(`Reprise cannot read the issues at the moment: ${error.message}`);
      said = error.message;
      continue;
    }
    await queue.work(take);
  }
}

/** Refuses before the first claim what would make every issue fail. */
async function assertWorktreesPossible(
  deps: Deps,
  root: string,
  branches: ReadonlySet<string>,
): Promise<void> {
  const facts = { repository: root };
  if ((await headCommit(deps, root)) === null)
    throw new Fault(
      "cwd_invalid",
      `Worktrees need a git repository with a commit, and ${root} is not one. Commit something, or work in the checkout: --isolate none`,
      { facts },
    );
  if (branches.has("reprise"))
    throw new Fault(
      "cwd_invalid",
      `${root} has a branch "reprise", so git cannot create branches below "reprise/". Rename it: git branch -m reprise <other name>.`,
      { facts },
    );
  await assertFilters(deps, root);
}
