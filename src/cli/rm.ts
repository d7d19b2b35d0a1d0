/** `reprise rm <handle…>` */
import { exitCodeOf, Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "../run/run.ts";
import { finishRemovals, removeRun } from "../run/clean.ts";
import { selectRun } from "../run/select.ts";
import { makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";

interface RmOptions {
  readonly discardWork?: true;
  readonly json?: true;
}

const command = () =>
  makeCommand({
    name: "rm",
    summary:
      "Remove runs: their recordings and copies, the files of a review, the agent of a runbook, their place in the list. The engine keeps its own session, if it still has it; the only copy of a conversation stays.",
    examples: ["reprise rm 1a2b3c4d", "reprise rm 1a2b3c4d 5e6f7a8b --discard-work"],
  })
    .usage("[options] <handle…>")
    .argument("[handles...]", "handles, unique prefixes of 4 to 7 characters, or run ids")
    .option(
      "--discard-work",
      "remove even unsaved work, the only copy of a conversation and runs of issues in progress",
    )
    .option("--json", "print one JSON object");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: RmOptions = parser.opts();
  if (parser.args.length === 0) throw new Fault("usage", "Which run? `reprise list` shows the handles.");
  const deps = await context.open({ cwd: null, makesRoom: true });
  await finishRemovals(deps);
  const removed: RunRecord[] = [];
  const failed: { given: string; fault: Fault }[] = [];
  const clean = {
    discardWork: options.discardWork === true,
    needed: byIssue(deps),
    alongside: withReview(deps),
  };
  for (const given of new Set(parser.args)) {
    const result = await remove(deps, given, clean);
    if (result instanceof Fault) failed.push({ given, fault: result });
    else removed.push(result);
  }
  const [first] = failed;
  // With one handle, or no success at all, the fault itself is the message.
  if (first !== undefined && removed.length === 0 && failed.length === 1) throw first.fault;
  if (options.json === true) {
    context.printJson({
      ok: failed.length === 0,
      removed: removed.map(({ handle, runId }) => ({ handle, runId })),
      failed: failed.map(({ given, fault }) => ({ given, code: fault.code, message: fault.message })),
    });
  } else {
    for (const { handle } of removed) context.print(`Removed run ${handle}.`);
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

/** An issue in progress goes on in its run. What that takes to know is loaded for such a run alone. */
export function byIssue(deps: Deps): (run: RunRecord) => Promise<string | null> {
  let needed: ((run: RunRecord) => Promise<string | null>) | null = null;
  return async (record) => {
    if (record.subject?.startsWith("issue:") !== true) return null;
    needed ??= (await import("./issues-go-on.ts")).neededByIssue(deps);
    return needed(record);
  };
}

async function remove(
  deps: Deps,
  given: string,
  options: Parameters<typeof removeRun>[2],
): Promise<RunRecord | Fault> {
  try {
    const found = await selectRun(deps, given);
    await removeRun(deps, found, options);
    return found;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}
