/** The terminal UI of a review. The door of this folder; loaded only when a UI is opened. */
import type { Desk } from "../reviews/reviews.ts";

export interface UiOptions {
  readonly desk: Desk;
  /** The caller's terminal. */
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  readonly colours: boolean;
  readonly now: () => number;
}

/** Resolves with the exit code when the user leaves. */
export type OpenReview = (options: UiOptions) => Promise<number>;
