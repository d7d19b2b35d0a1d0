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
  const text = [row.handle, row.title, row.name, row.launch?.message, row.cwd, row.agentName].join("\n");
  return text.toLowerCase().includes(filter.grep.toLowerCase());
}

/** The order is the server's. A row that is known already, from live changes, stays where it is. */
export function addPage(
  state: RunsState,
  page: { readonly runs: readonly RunRow[]; readonly next: string | null; readonly total?: number },
): RunsState {
  const fresh = new Map(page.runs.map((row) => [row.handle, row]));
  const rows = state.rows.map((row) => newer(row, fresh.get(row.handle)));
  for (const row of rows) fresh.delete(row.handle);
  const all = [...rows, ...fresh.values()];
  return { rows: all, next: page.next, total: page.total ?? all.length + (page.next === null ? 0 : 1) };
}

const newer = (old: RunRow, row: RunRow | undefined): RunRow =>
  row === undefined || row.updatedAt < old.updatedAt ? old : { ...old, ...row };

/** Known rows change in place; others come first, since they have just been used. */
export function applyChanges(
  state: RunsState,
  changes: { readonly rows: readonly RunRow[]; readonly gone: readonly string[] },
  filter: Filter,
): RunsState {
  const changed = new Map(changes.rows.map((row) => [row.handle, row]));
  const lost = new Set(changes.gone);
  const known = new Set(state.rows.map((row) => row.handle));
  const stayed = state.rows.flatMap((old) => {
    if (lost.has(old.handle)) return [];
    const row = newer(old, changed.get(old.handle));
    return row === old || fits(row, filter) ? [row] : [];
  });
  const first = changes.rows
    .filter((row) => !known.has(row.handle) && !lost.has(row.handle) && fits(row, filter))
    .sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
  // A row of a page that is not loaded yet is counted already.
  const newest = state.rows.reduce((last, row) => (row.createdAt > last ? row.createdAt : last), "");
  const added = first.filter((row) => state.next === null || row.createdAt > newest).length;
  const removed = state.rows.length - stayed.length;
  return { rows: [...first, ...stayed], next: state.next, total: state.total - removed + added };
}
