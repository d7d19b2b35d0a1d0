/**
 * A batch of issues, each a run of its own: where they come from, what became of them, which conversation goes on.
 * The door of this folder.
 */
export { openSource, repositoryRoot, type SourceOptions } from "./repository.ts";
export { type Issue, type IssueSource, unknownIssue } from "./source.ts";
export { Brake, directoryFor, forsakeBatch } from "./brake.ts";
export type { BatchRecord, IssueRecord, Leave } from "./metadata.ts";
export { isTakenBack, RESET } from "./decide.ts";
export { actualOf, isOrphan, orphans, undecided } from "./past.ts";
export { IN_PROGRESS, parseScope, plan, readiness } from "./plan.ts";
export { cleanBatches, priorRuns, priorRunsIn } from "./prior.ts";
export { branchesToMerge } from "./git.ts";
export { assertNoMore, corrected, gateWords, RIGHT } from "./rights.ts";
export {
  type AccessFrom,
  type BatchEnd,
  type BatchOptions,
  type BatchView,
  goesOn,
  liveBatch,
  planBatch,
  type PlannedBatch,
  runBatch,
  type StoppedIssue,
  stopInBatch,
} from "./batch.ts";
export type { IssueEnd, ProgressReport } from "./issue-progress.ts";
