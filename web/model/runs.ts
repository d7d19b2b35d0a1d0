/** The list of runs: pages from the server, changed by live rows. Pure. */
import type { RunRow } from "../types.ts";

export interface Filter {
  readonly status: string;
  readonly engine: string;
  readonly tag: string;
  readonly grep: string;
}

export interface RunsState {
  readonly rows: readonly RunRow[];
  /** All rows that fit the filter, loaded or not. */
  readonly total: number;
  /** The cursor of the next page. Null: everything is loaded. */
  readonly next: string | null;
}

export const NO_RUNS: RunsState = { rows: [], total: 0, next: null };

export function fits(row: RunRow, filter: Filter): boolean {
  if (filter.status !== "" && row.status !== filter.status) return false;
  if (filter.engine !== "" && row.agentName !== filter.engine) return false;
  if (filter.tag !== "" && !(row.tags ?? []).includes(filter.tag)) return false;
  if (filter.grep === "") return true;
  const text = [row.handle, row.title, row.name, row.launch.message, row.cwd, row.agentName].join("\n");
  return text.toLowerCase().includes(filter.grep.toLowerCase());
}

/** Newest first. Rows of a page may be known already from live changes; the newer one counts. */
export function addPage(
  state: RunsState,
  page: { readonly runs: readonly RunRow[]; readonly next: string | null; readonly total: number },
): RunsState {
  return { rows: merge(state.rows, page.runs), next: page.next, total: page.total };
}

export function applyChanges(
  state: RunsState,
  changes: { readonly rows: readonly RunRow[]; readonly gone: readonly string[] },
  filter: Filter,
): RunsState {
  const known = new Set(state.rows.map((row) => row.handle));
  const lost = new Set([
    ...changes.gone,
    ...changes.rows.filter((row) => !fits(row, filter)).map((row) => row.handle),
  ]);
  const fitting = changes.rows.filter((row) => fits(row, filter));
  const stayed = lost.size === 0 ? state.rows : state.rows.filter((row) => !lost.has(row.handle));
  const removed = state.rows.length - stayed.length;
  // A row that is not loaded yet counts in `total` already, unless it is new.
  const oldest = state.next === null ? "" : (state.rows.at(-1)?.createdAt ?? "");
  const added = fitting.filter((row) => !known.has(row.handle) && row.createdAt >= oldest).length;
  return { rows: merge(stayed, fitting), next: state.next, total: state.total - removed + added };
}

function merge(old: readonly RunRow[], fresh: readonly RunRow[]): readonly RunRow[] {
  if (fresh.length === 0) return old;
  const rows = new Map(old.map((row) => [row.handle, row]));
  for (const row of fresh) {
    const before = rows.get(row.handle);
    if (before === undefined || before.updatedAt <= row.updatedAt) rows.set(row.handle, row);
  }
  return [...rows.values()].sort(
    (a, b) => b.updatedAt.localeCompare(a.updatedAt) || a.handle.localeCompare(b.handle),
  );
}
