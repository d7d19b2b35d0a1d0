/**
 * A batch of issues, each a run of its own: where they come from, what became of them, which conversation goes on.
 * The door of this folder.
 */
export { openSource, repositoryRoot, type SourceOptions } from "./repository.ts";
export { type Issue, unknownIssue } from "./source.ts";
export type { IssueRecord } from "./metadata.ts";
export { readiness } from "./plan.ts";
export { cleanBatches, priorRuns } from "./prior.ts";
