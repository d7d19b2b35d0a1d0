/** `reprise rm <handle…>` */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exitCodeOf, Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "../run/run.ts";
import {
  type CleanOptions,
  discardTrashed,
  finishRemovals,
  removeRun,
  restoreRun,
  type Trashed,
} from "../run/clean.ts";
import { selectRun } from "../run/select.ts";
import type { Context } from "./context.ts";
import { defineCommand, flag, RUN_HANDLE, JSON_FLAG } from "./define.ts";

export const DISCARD_WORK = flag(
  "remove even unsaved work, the only copy of a conversation and runs of issues in progress",
);

export const command = defineCommand({
  name: "rm",
  summary:
    "Remove runs with their recordings, session copies, review files and agent records. Keeps the engine's own session; refuses to remove the only copy of a conversation.",
  usage: "[options] <handle…>",
  args: {
    handles: {
      ...RUN_HANDLE,
      help: "handles, unique prefixes of 4 to 7 characters, names, or run ids",
      many: true,
      asks: "Remove",
    },
  },
  options: {
    discardWork: DISCARD_WORK,
    restore: flag("bring removed runs back from the trash, with their worktrees"),
    json: JSON_FLAG,
  },
  examples: [
    "reprise rm 1a2b3c4d",
    "reprise rm 1a2b3c4d 5e6f7a8b --discard-work",
    "reprise rm --restore 1a2b3c4d",
  ],
  run: async ({ args, options }, context) => {
    const { discardWork = false, restore = false } = options;
    if (restore && discardWork) throw new Fault("usage", "Give --restore or --discard-work, not both.");
    const deps = await context.open({ cwd: null, makesRoom: true });
    await finishRemovals(deps);
    if (restore) return restoreEach(context, deps, args.handles, options.json === true);
    const how = { discardWork, needed: byIssue(deps), alongside: alongside(deps) };
    return removeEach(context, args.handles, { json: options.json === true }, (given) =>
      removeOne(deps, given, how),
    );
  },
});

/** With --discard-work also a run that is in the trash already. */
async function removeOne(deps: Deps, given: string, how: CleanOptions): Promise<Removed> {
  try {
    const found = await selectRun(deps, given);
    const kept = await removeRun(deps, found, how);
    const { handle, runId } = found;
    return { text: `run ${handle}`, kept, json: { handle, runId, trash: kept?.path ?? null } };
  } catch (error) {
    const isUnknown = error instanceof Fault && error.code === "handle_unknown";
    const gone = isUnknown && how.discardWork ? await discardTrashed(deps, given) : null;
    if (gone === null) throw error;
    const { handle, runId } = gone;
    return { text: `run ${handle} from the trash`, json: { handle, runId, trash: null } };
  }
}

function restoreEach(
  context: Context,
  deps: Deps,
  handles: readonly string[],
  json: boolean,
): Promise<number> {
  return removeEach(context, handles, { json, done: "restored" }, async (given) => {
    const { note, ...restored } = await restoreRun(deps, given);
    if (note !== null) context.log.warn(note);
    return { text: `run ${restored.handle}: ${restored.runDirectory}`, json: { ...restored, note } };
  });
}

/** How long the trash keeps a run without `prune --trash-older-than`. */
export const TRASH_DAYS = 30;

/** Where the worktree of a removed run is, and how to get it back. */
export function keptWords({ handle, path }: Trashed): string {
  return `It is kept for ${TRASH_DAYS} days in ${path}; to bring it back: reprise rm --restore ${handle}`;
}

interface Removed {
  readonly text: string;
  readonly kept?: Trashed | null;
  readonly json: object;
}

/** Removes or restores each record that is named, and reports all failures. The exit code is that of the only failure, or 10. */
export async function removeEach(
  context: Context,
  names: readonly string[],
  { json, done = "removed" }: { readonly json: boolean; readonly done?: "removed" | "restored" },
  remove: (given: string) => Promise<Removed>,
): Promise<number> {
  const removed: Removed[] = [];
  const failed: { given: string; fault: Fault }[] = [];
  for (const given of new Set(names)) {
    try {
      removed.push(await remove(given));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      failed.push({ given, fault: error });
    }
  }
  const [first] = failed;
  if (first !== undefined && removed.length === 0 && failed.length === 1) throw first.fault;
  if (json) {
    context.printJson({
      ok: failed.length === 0,
      [done]: removed.map((one) => one.json),
      failed: failed.map(({ given, fault }) => ({ given, code: fault.code, message: fault.message })),
    });
  } else {
    for (const { text, kept } of removed) {
      context.print(`${done === "removed" ? "Removed" : "Restored"} ${text}.`);
      if (kept !== undefined && kept !== null) context.print(keptWords(kept));
    }
    for (const { fault } of failed) context.log.warn(fault.message);
  }
  if (first === undefined) return 0;
  return removed.length === 0 ? exitCodeOf(first.fault) : 10;
}

/** Removes what other files hold of a run: a review's records, and its text in the search. */
export function alongside(deps: Deps): (run: RunRecord) => Promise<void> {
  const forgetReview = withReview(deps);
  return async (record) => {
    await forgetReview(record);
    if (existsSync(join(deps.state.root, "search.db")))
      await (await import("../search/search.ts")).removeFromSearch(deps, record);
  };
}

/** Removes a review's sidecar and transcript with its run. Loads the code only for such a run. */
function withReview({ state, log }: Deps): (run: RunRecord) => Promise<void> {
  let forget: ((run: RunRecord) => void) | null = null;
  return async (record) => {
    if (record.subject?.startsWith("pr:") !== true) return;
    forget ??= (await import("../reviews/reviews.ts")).sessionRemoval(state, log);
    forget(record);
  };
}

/** An issue in progress continues in its run. Loads the code only for such a run. */
export function byIssue(deps: Deps): (run: RunRecord) => Promise<string | null> {
  let needed: ((run: RunRecord) => Promise<string | null>) | null = null;
  return async (record) => {
    if (record.subject?.startsWith("issue:") !== true) return null;
    needed ??= (await import("./issues-go-on.ts")).neededByIssue(deps);
    return needed(record);
  };
}
