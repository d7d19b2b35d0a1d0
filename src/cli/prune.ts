/** `reprise prune --older-than 30d` */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import type { RunRecord, RunStatus } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { type Pruned, pruneRuns } from "../run/clean.ts";
import { duration, makeCommand, once, oneOf, parse } from "./command.ts";
import type { Context } from "./context.ts";
import { byIssue, withReview } from "./rm.ts";
import { age, hanging, STATUSES } from "./words.ts";

interface PruneOptions {
  readonly olderThan?: number;
  readonly status?: RunStatus;
  readonly dryRun?: true;
  readonly discardWork?: true;
  readonly json?: true;
}

const command = () =>
  makeCommand({
    name: "prune",
    summary:
      "Remove runs that have not been used for a while. Keeps live runs, unsaved work, the only copy of a conversation and runs of issues in progress.",
    examples: [
      "reprise prune --older-than 30d --dry-run",
      "reprise prune --older-than 30d",
      "reprise prune --older-than 7d --status completed",
    ],
  })
    .addOption(once("--older-than <age>", "minimum time since the last update, e.g. 30d or 12h", someAge))
    .addOption(once("--status <status>", `only ${STATUSES.join(", ")}`, oneOf(...STATUSES)))
    .option("--dry-run", "show what would be removed, without removing anything")
    .option(
      "--discard-work",
      "remove even unsaved work, the only copy of a conversation and runs of issues in progress",
    )
    .option("--json", "print one JSON object");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: PruneOptions = parser.opts();
  if (options.olderThan === undefined)
    throw new Fault("usage", "How old? Give --older-than, as in: reprise prune --older-than 30d --dry-run");
  const deps = await context.open({ cwd: null, makesRoom: true });
  const pruned = await pruneRuns(
    deps,
    {
      olderThanMs: options.olderThan,
      status: options.status ?? null,
      dryRun: options.dryRun === true,
      discardWork: options.discardWork === true,
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
  if (options.json === true) context.printJson(toJson(pruned, options.dryRun === true));
  else print(context, pruned, options.dryRun === true, deps.clock.now());
  return pruned.skipped.some(({ failed }) => failed) ? 10 : 0;
}

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
