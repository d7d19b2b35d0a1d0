/**
 * Batches of issues, each issue with its own run: sources, plans, conversations and results. The door of this folder.
 */
export { openSource, repositoryRoot, type SourceOptions } from "./repository.ts";
export { type Issue, type IssueSource, unknownIssue } from "./sources/source.ts";
export { StopControl } from "./stop-control.ts";
export type { BatchRecord, IssueRecord, LeftIssue } from "./metadata.ts";
export { isReversed, RESET } from "./decide.ts";
export { isOrphan, orphans } from "./orphans.ts";
export { shownRecord, damagedSessions } from "./past.ts";
export { branchesToMerge } from "./git/branch.ts";
export { type BatchEnd, runBatch } from "./batch.ts";
export type { BatchView, ProgressReport } from "./batch-context.ts";
export type { IssueEnd } from "./batch-types.ts";
export { liveBatch, type StoppedIssue, stopInBatch } from "./batch-owner.ts";
