/** The cursor of a list that is longer than the screen. Pure. */
import type { Key } from "./keys.ts";
import { clamp, scrolledTo } from "./layout.ts";

export interface ListCursor {
  readonly cursor: number;
  /** The first visible row. */
  readonly top: number;
}

export const FIRST: ListCursor = { cursor: 0, top: 0 };

/** Null: the key does not move a cursor. `rows`: how many are visible. */
export function moved(
  { cursor, top }: ListCursor,
  key: Key,
  rows: number,
  length: number,
): ListCursor | null {
  const page = Math.max(1, rows - 1);
  const steps: Readonly<Record<Key, number>> = {
    up: -1,
    "ctrl-p": -1,
    "ctrl-k": -1,
    down: 1,
    "ctrl-n": 1,
    pageup: -page,
    pagedown: page,
  };
  const step = Object.hasOwn(steps, key) ? steps[key] : undefined;
  if (step === undefined) return null;
  return kept({ cursor: cursor + step, top }, rows, length);
}

/** The nearest place that exists, for another number of rows or items. */
export function kept({ cursor, top }: ListCursor, rows: number, length: number): ListCursor {
  const at = clamp(cursor, length - 1);
  return { cursor: at, top: scrolledTo(at, top, rows, length) };
}
