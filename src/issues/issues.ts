/**
 * Batches of issues, each issue with its own run: sources, plans, conversations and results. The door of this folder.
 */
export { openSource, repositoryRoot, type SourceOptions } from "./repository.ts";
export { type Issue, type IssueSource, unknownIssue } from "./sources/source.ts";
export { directoryFor, forgetBatchOwner } from "./live-batch.ts";
export { StopControl } from "./stop-control.ts";
export type { BatchRecord, IssueRecord, LeftIssue } from "./metadata.ts";
export { isReversed, RESET } from "./decide.ts";
export { shownRecord, isOrphan, orphans, damagedSessions } from "./past.ts";
export { IN_PROGRESS, parseScope, plan, readiness } from "./plan.ts";
export { cleanBatches, batchHistory, batchHistoryIn } from "./prior.ts";
export { branchesToMerge } from "./git/branch.ts";
export { assertRightsNotWider, correctedOptions, gateWords, PLACEHOLDER } from "./rights.ts";
export { type BatchEnd, runBatch } from "./batch.ts";
export type { BatchView, IssueEnd, ProgressReport } from "./batch-context.ts";
export { liveBatch, type StoppedIssue, stopInBatch } from "./batch-owner.ts";
export {
  type AccessFrom,
  type BatchOptions,
  continuesRun,
  planBatch,
  type PlannedBatch,
} from "./batch-plan.ts";
