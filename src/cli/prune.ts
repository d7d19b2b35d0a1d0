/** `reprise prune --older-than 30d` */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { type Pruned, pruneRuns } from "../run/clean.ts";
import type { Context } from "./context.ts";
import { choice, defineCommand, duration, flag, JSON_FLAG, withValue } from "./define.ts";
import { byIssue, DISCARD_WORK, withReview } from "./rm.ts";
import { age, hanging, STATUSES } from "./words.ts";

export const command = defineCommand({
  name: "prune",
  summary:
    "Remove runs that have not been used for a while. Keeps live runs, unsaved work, the only copy of a conversation and runs of issues in progress.",
  options: {
    olderThan: withValue("<age>", "minimum time since the last update, e.g. 30d or 12h", someAge),
    status: choice("<status>", `only ${STATUSES.join(", ")}`, STATUSES),
    dryRun: flag("show what would be removed, without removing anything"),
    discardWork: DISCARD_WORK,
    json: JSON_FLAG,
  },
  examples: [
    "reprise prune --older-than 30d --dry-run",
    "reprise prune --older-than 30d",
    "reprise prune --older-than 7d --status completed",
  ],
  run: async ({ options }, context) => {
    const { olderThan, status = null, dryRun = false, discardWork = false } = options;
    if (olderThan === undefined)
      throw new Fault("usage", "How old? Give --older-than, as in: reprise prune --older-than 30d --dry-run");
    const deps = await context.open({ cwd: null, makesRoom: true });
    const pruned = await pruneRuns(
      deps,
      {
        olderThanMs: olderThan,
        status,
        dryRun,
        discardWork,
        needed: byIssue(deps),
        alongside: withReview(deps),
      },
      (done, of) => {
        if (done > 0 && done % 100 === 0) context.log.info(`${done} of ${of} runs`);
      },
    );
    if ("bug" in pruned) {
      for (const { handle } of pruned.removed) context.log.warn(`Removed run ${handle}.`);
      throw pruned.bug;
    }
    if (options.json === true) context.printJson(toJson(pruned, dryRun));
    else print(context, pruned, dryRun, deps.clock.now());
    return pruned.skipped.some(({ failed }) => failed) ? 10 : 0;
  },
});

/** Elsewhere `0` means no limit; here it would mean every run. */
function someAge(given: string): number {
  const ms = duration(given);
  if (ms === null) throw new InvalidArgumentError("It is longer than zero, such as 1m or 30d.");
  return ms;
}

function toJson(pruned: Pruned, dryRun: boolean) {
  const named = ({ handle, runId, updatedAt }: RunRecord) => ({ handle, runId, updatedAt });
  return {
    ok: pruned.skipped.every(({ failed }) => !failed),
    dryRun,
    removed: pruned.removed.map(named),
    skipped: pruned.skipped.map(({ run: record, code, reason }) => ({ ...named(record), code, reason })),
  };
}

function print(context: Context, pruned: Pruned, dryRun: boolean, nowMs: number): void {
  const verb = dryRun ? "Would remove" : "Removed";
  for (const { handle, agentName, updatedAt } of pruned.removed) {
    context.print(`${verb} ${handle} (${agentName}, ${age(updatedAt, nowMs)} old)`);
  }
  for (const { run: record, reason, failed } of pruned.skipped) {
    const what = failed ? "Failed" : "Kept";
    context.print(hanging(context.terminal, `${what} ${record.handle}: ${harmlessLine(reason)}`, 2));
  }
  const failures = pruned.skipped.filter(({ failed }) => failed).length;
  const rest = failures === 0 ? "" : `, ${failures} failed`;
  context.print(
    `${verb} ${plural(pruned.removed.length, "run")}, kept ${pruned.skipped.length - failures}${rest}.`,
  );
}
