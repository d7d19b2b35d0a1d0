/**
 * A pull request's review comments, worked on by Codex in a conversation that survives interruption. The door of this
 * folder: the interface for the terminal UI and the headless command. Knows neither.
 */

export { toJsonLines } from "./comment-file.ts";
export { findPullRequest, openReviewService } from "./review-service.ts";
export { damagedSidecars } from "./discovery.ts";
export { followSession } from "./elsewhere.ts";
export { lookAtFolder } from "./folder.ts";
export { toMarkdown } from "./markdown.ts";
export { sessionRemoval } from "./removal.ts";
export type {
  PullRequest,
  ReviewComment,
  LoadedComments,
  InterruptedSession,
  TurnOrder,
  TurnUpdate,
  TurnResult,
  ReviewTurn,
  ReviewService,
} from "./review.ts";
export { beginTurn, type TurnOptions } from "./turn.ts";
