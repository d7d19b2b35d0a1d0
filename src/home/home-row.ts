/** What the home screen knows about one thing. Types only. */

/** One line of the table. */
export interface HomeRow {
  /** Unique among all kinds. */
  readonly key: string;
  readonly kind: "decision" | "agent" | "pipeline" | "batch" | "run";
  /** What commands call it: a handle, or the id of a pipeline, batch or decision. */
  readonly id: string;
  readonly title: string;
  readonly engine: string;
  readonly state: string;
  /** Of a limited run: the time until its limit ends, where `next` has no room. */
  readonly left?: string;
  readonly sinceMs: number;
  readonly createdMs: number;
  /** What happens next. Empty: nothing. */
  readonly next: string;
  readonly tokens: number | null;
  readonly live: boolean;
  /** A live UI that a terminal can attach to. */
  readonly hasUi: boolean;
  /** Its open question. Null: none. */
  readonly decision: string | null;
  /** Of a decision: its options with their numbers. */
  readonly choices?: readonly string[];
  /** Lower case: what the filter searches. */
  readonly text: string;
}
