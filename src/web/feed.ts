/**
 * What changes in the index, for all pages at once: reads only after a commit, and only new and live runs.
 *
 * Without listeners, the server reads nothing.
 */
import { statSync } from "node:fs";
import type { RunRecord } from "../core/records.ts";
import { listRuns } from "../run/select.ts";
import type { Core } from "./core.ts";
import { detailOf, type RunRow, rowOf } from "./rows.ts";

export interface RunsChange {
  /** Runs that are new or changed. */
  readonly rows: readonly RunRow[];
  /** Handles of runs that were removed. */
  readonly gone: readonly string[];
}

const TICK_MS = 100;
/** A dead owner writes nothing: live runs are looked at this often, changed or not. */
const ANYWAY_MS = 5_000;
/** Older runs change only by a resume, which makes them live. */
const NEWEST = 50;

export class Feed {
  readonly #core: Core;
  readonly #listeners = new Set<(change: RunsChange) => void>();
  readonly #ticks = new Set<() => void>();
  /** What was last seen of a run: changes show in these fields. */
  readonly #marks = new Map<string, { readonly mark: string; readonly handle: string }>();
  #timer: NodeJS.Timeout | null = null;
  #stamp = "";
  #lookedAt = 0;
  #busy = false;
  #again = false;

  constructor(core: Core) {
    this.#core = core;
  }

  listen(listener: (change: RunsChange) => void): () => void {
    this.#listeners.add(listener);
    this.#start();
    return () => {
      this.#listeners.delete(listener);
      this.#stopIfUnused();
    };
  }

  /** Called ten times a second, for files that grow. */
  onTick(listener: () => void): () => void {
    this.#ticks.add(listener);
    this.#start();
    return () => {
      this.#ticks.delete(listener);
      this.#stopIfUnused();
    };
  }

  #start(): void {
    this.#timer ??= setInterval(() => void this.#tick(), TICK_MS);
  }

  #stopIfUnused(): void {
    if (this.#listeners.size + this.#ticks.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#stamp = "";
    this.#marks.clear();
  }

  async #tick(): Promise<void> {
    for (const listener of this.#ticks) listener();
    const stamp = stampOf(this.#core.deps.state.indexPath);
    const now = this.#core.deps.clock.mono();
    const isNew = stamp !== this.#stamp;
    if (this.#busy || !(isNew || this.#again || now - this.#lookedAt > ANYWAY_MS)) return;
    this.#busy = true;
    // A commit shows in the files a moment before it can be read.
    this.#again = isNew;
    this.#stamp = stamp;
    this.#lookedAt = now;
    try {
      const change = await this.#look();
      // The first look reports everything that it sees: a page read its lists a moment before it began to listen.
      for (const listener of this.#listeners) listener(change);
    } catch (error) {
      // The next look may succeed; the server goes on.
      this.#core.deps.log.warn(`the index could not be read: ${String(error)}`);
    } finally {
      this.#busy = false;
    }
  }

  async #look(): Promise<RunsChange> {
    const { deps } = this.#core;
    const newest = await listRuns(deps, { limit: NEWEST, sort: "updated" });
    const live = await listRuns(deps, { status: "running", limit: 1_000 });
    const found = new Map([...newest, ...live].map((run) => [run.runId, run]));
    const unseen = [...this.#marks.keys()].filter((runId) => !found.has(runId));
    const gone: string[] = [];
    for (const runId of await deps.store.unknownRuns(unseen)) {
      gone.push(this.#marks.get(runId)?.handle ?? "");
      this.#marks.delete(runId);
    }
    const changed = [...found.values()].filter((run) => this.#isNews(run));
    const rows = await Promise.all(
      changed.map(async (run) => ({ ...rowOf(run), ...(await detailOf(deps, run)) })),
    );
    return { rows, gone };
  }

  #isNews(run: RunRecord): boolean {
    const mark = `${run.updatedAt} ${run.status} ${run.attempts} ${run.name ?? ""} ${(run.tags ?? []).join(",")}`;
    const known = this.#marks.get(run.runId)?.mark;
    this.#marks.set(run.runId, { mark, handle: run.handle });
    return known !== mark;
  }
}

/** Every commit changes the index or the log beside it. */
function stampOf(indexPath: string): string {
  return [indexPath, `${indexPath}-wal`]
    .map((path) => {
      const stats = statSync(path, { throwIfNoEntry: false });
      return stats === undefined ? "none" : `${stats.mtimeMs} ${stats.size}`;
    })
    .join(" ");
}
