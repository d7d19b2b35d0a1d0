/** The label of a run: the name and tags that people give it, at its start or later. */
import type { RunRecord } from "./records.ts";

export type Label = Pick<RunRecord, "name" | "tags" | "relabelled">;

export const MOST_TAGS = 20;

/** The label alone. */
export function labelOf({ name, tags, relabelled }: Label): Label {
  return {
    name,
    ...(tags === undefined ? {} : { tags }),
    ...(relabelled === undefined ? {} : { relabelled }),
  };
}

/**
 * The record with the later of two labels. A label may change while another process owns the run and writes its record: the
 * owner's record then has an older label.
 */
export function withLaterLabel<R extends Label>(record: R, other: Label | null): R {
  if (other === null || (other.relabelled ?? 0) <= (record.relabelled ?? 0)) return record;
  const { tags: _before, ...rest } = record;
  return { ...rest, ...labelOf(other) } as R;
}

/** People type a name in any case; blanks around it cannot be seen. */
export function foldedName(name: string): string {
  return name.trim().toLowerCase();
}
