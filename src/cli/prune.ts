/** `reprise prune --older-than 30d` */
import { dirname } from "node:path";
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { type Emptied, emptyTrash, type Pruned, pruneRuns } from "../run/clean.ts";
import type { Context } from "./context.ts";
import { choice, defineCommand, duration, flag, JSON_FLAG, withValue } from "./define.ts";
import { alongside, byIssue, DISCARD_WORK, TRASH_DAYS } from "./rm.ts";
import { age, hanging, STATUSES } from "./words.ts";

export const command = defineCommand({
  name: "prune",
  summary:
    "Remove runs that are older than --older-than. Keeps live runs, unsaved work, the only copy of a conversation and runs of issues in progress.",
  options: {
    olderThan: withValue("<age>", "minimum time since the last update, e.g. 30d or 12h", someAge),
    status: choice("<status>", `only runs with this status: ${STATUSES.join(", ")}`, STATUSES),
    trashOlderThan: withValue(
      "<age>",
      `minimum time in the trash before a removed run is deleted permanently (default ${TRASH_DAYS}d)`,
      someAge,
    ),
    dryRun: flag("list the removals, without removing anything"),
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
    const { trashOlderThan = TRASH_DAYS * 86_400_000 } = options;
    if (olderThan === undefined)
      throw new Fault(
        "usage",
        "How old? Give --older-than. Example: reprise prune --older-than 30d --dry-run",
      );
    const deps = await context.open({ cwd: null, makesRoom: true });
    const pruned = await pruneRuns(
      deps,
      {
        olderThanMs: olderThan,
        status,
        dryRun,
        discardWork,
        needed: byIssue(deps),
        alongside: alongside(deps),
      },
      (done, of) => {
        if (done > 0 && done % 100 === 0) context.log.info(`${done} of ${of} runs`);
      },
    );
    if ("bug" in pruned) {
      for (const { handle } of pruned.removed) context.log.warn(`Removed run ${handle}.`);
      throw pruned.bug;
    }
    const emptied = await emptyTrash(deps, { olderThanMs: trashOlderThan, dryRun, discardWork });
    if (options.json === true) context.printJson(toJson(pruned, emptied, dryRun));
    else {
      print(context, pruned, dryRun, deps.clock.now());
      printEmptied(context, emptied, dryRun);
    }
    return pruned.skipped.some(({ failed }) => failed) || emptied.failed.length > 0 ? 10 : 0;
  },
});

/** Elsewhere `0` means no limit; here it would mean every run. */
function someAge(given: string): number {
  const ms = duration(given);
  if (ms === null) throw new InvalidArgumentError("Must be longer than zero, such as 1m or 30d.");
  return ms;
}

function toJson(pruned: Pruned, emptied: Emptied, dryRun: boolean) {
  const named = ({ handle, runId, updatedAt }: RunRecord) => ({ handle, runId, updatedAt });
  return {
    ok: pruned.skipped.every(({ failed }) => !failed) && emptied.failed.length === 0,
    dryRun,
    removed: pruned.removed.map(named),
    skipped: pruned.skipped.map(({ run: record, code, reason }) => ({ ...named(record), code, reason })),
    kept: pruned.kept.map(({ handle, path }) => ({ handle, trash: path })),
    emptied: emptied.gone.map(({ handle, runId, trashedAt }) => ({ handle, runId, trashedAt })),
    trashKept: emptied.kept,
    trashFailed: emptied.failed,
  };
}

function printEmptied(context: Context, { gone, kept, failed }: Emptied, dryRun: boolean): void {
  const say = (what: string, { handle, reason }: Emptied["kept"][number]) =>
    context.print(hanging(context.terminal, `${what} ${handle}: ${harmlessLine(reason)}`, 2));
  for (const one of kept) say("Kept", one);
  for (const one of failed) say("Failed", one);
  if (gone.length === 0) return;
  const handles = gone.map(({ handle }) => handle).join(", ");
  context.print(
    `${dryRun ? "Would remove" : "Removed"} ${plural(gone.length, "run")} from the trash: ${handles}.`,
  );
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
  const [first] = pruned.kept;
  if (first !== undefined)
    context.print(
      `Reprise keeps removed worktrees for ${TRASH_DAYS} days in ${dirname(first.path)}; to bring one back: reprise rm --restore ${first.handle}`,
    );
}
