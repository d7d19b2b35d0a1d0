/** The door of `search`: finds words in past conversations, and keeps `search.db` in step with the runs. */
import type { Deps } from "../run/run.ts";
import { catchUp, missingRuns } from "./fill.ts";
import { findHits, type SearchFilter, type SearchHits } from "./find.ts";
import { openSearchFile, type SearchFile, searchPath } from "./search-file.ts";
import { catchUpOutside, type FillProgress } from "./sessions.ts";

export { indexAttempt, removeFromSearch } from "./fill.ts";
export type { SearchHit } from "./find.ts";
export { excerpt, type HitRange } from "./mark.ts";
export { parseQuery } from "./query.ts";

const BUSY_MS = 10_000;

/** A damaged file is made again, once. */
export async function searchConversations(
  deps: Deps,
  filter: SearchFilter,
  onProgress: FillProgress,
): Promise<SearchHits> {
  for (let tries = 1; ; tries += 1) {
    const file = await openSearchFile(deps.state, { busyTimeoutMs: BUSY_MS });
    if (file === null) {
      report(deps, null);
      return { hits: [], total: 0 };
    }
    try {
      await prepare(deps, file, filter, onProgress);
      return findHits(file, filter);
    } catch (error) {
      if (file.trouble(error) !== "damaged" || !deps.state.writable || tries > 1) throw file.faultOf(error);
      await file.discard(deps.state);
    } finally {
      file.close();
    }
  }
}

/** Where nothing can be written, or another process writes for long, the search uses what there is and says so. */
async function prepare(
  deps: Deps,
  file: SearchFile,
  filter: SearchFilter,
  onProgress: FillProgress,
): Promise<void> {
  if (!deps.state.writable) return report(deps, file);
  try {
    await catchUp(deps, file, onProgress);
    if (filter.outside) await catchUpOutside(deps, file, filter.engine, onProgress);
  } catch (error) {
    const trouble = file.trouble(error);
    if (trouble !== "busy" && trouble !== "unwritable") throw error;
    report(deps, file);
  }
}

function report(deps: Deps, file: SearchFile | null): void {
  const missing = missingRuns(deps, file);
  const what =
    missing === 0 ? "the newest text of live runs" : `${missing} of ${deps.state.runIds.length} runs`;
  deps.log.warn(`${searchPath(deps.state)} cannot be written now, so the search lacks ${what}.`);
}
