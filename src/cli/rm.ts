/** `reprise rm <handle…>` */
import { exitCodeOf, Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "../run/run.ts";
import { finishRemovals, removeRun } from "../run/clean.ts";
import { selectRun } from "../run/select.ts";
import type { Context } from "./context.ts";
import { defineCommand, flag, RUN_HANDLE, JSON_FLAG } from "./define.ts";

export const DISCARD_WORK = flag(
  "remove even unsaved work, the only copy of a conversation and runs of issues in progress",
);

export const command = defineCommand({
  name: "rm",
  summary:
    "Remove runs: their recordings and copies, the files of a review, the agent of a runbook, their place in the list. The engine keeps its own session, if it still has it; the only copy of a conversation stays.",
  usage: "[options] <handle…>",
  args: {
    handles: { ...RUN_HANDLE, help: "handles, unique prefixes of 4 to 7 characters, or run ids", many: true },
  },
  options: { discardWork: DISCARD_WORK, json: JSON_FLAG },
  examples: ["reprise rm 1a2b3c4d", "reprise rm 1a2b3c4d 5e6f7a8b --discard-work"],
  run: async ({ args, options }, context) => {
    const { discardWork = false } = options;
    const deps = await context.open({ cwd: null, makesRoom: true });
    await finishRemovals(deps);
    const how = { discardWork, needed: byIssue(deps), alongside: withReview(deps) };
    return removeEach(context, args.handles, options.json === true, async (given) => {
      const found = await selectRun(deps, given);
      await removeRun(deps, found, how);
      const { handle: removed, runId } = found;
      return { text: `run ${removed}`, json: { handle: removed, runId } };
    });
  },
});

interface Removed {
  readonly text: string;
  readonly json: object;
}

/** Removes each record that is named, and reports all failures. The exit code is that of the only failure, or 10. */
export async function removeEach(
  context: Context,
  names: readonly string[],
  json: boolean,
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
      removed: removed.map((one) => one.json),
      failed: failed.map(({ given, fault }) => ({ given, code: fault.code, message: fault.message })),
    });
  } else {
    for (const { text } of removed) context.print(`Removed ${text}.`);
    for (const { fault } of failed) context.log.warn(fault.message);
  }
  if (first === undefined) return 0;
  return removed.length === 0 ? exitCodeOf(first.fault) : 10;
}

/** Removes a review's sidecar and transcript with its run. Loads the code only for such a run. */
export function withReview({ state, log }: Deps): (run: RunRecord) => Promise<void> {
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
