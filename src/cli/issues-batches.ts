/** `reprise issues status|clean`: the records of batches. */
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { shownRecord, type BatchRecord, liveBatch } from "../issues/issues.ts";
import { cleanBatches, batchHistory } from "../issues/prior.ts";
import type { Context } from "./context.ts";
import { defineCommand, duration, flag, JSON_FLAG, withValue } from "./define.ts";
import { howLong } from "./issues-live.ts";
import { totalsOf, totalsText } from "./issues-totals.ts";
import {
  CWD,
  goOns,
  load,
  open,
  placeOf,
  printGates,
  printGoOn,
  printHistory,
  printLeaves,
  seen,
  SOURCE_OPTIONS,
} from "./issues-source.ts";

export const status = defineCommand({
  name: "issues status",
  summary: "Show the last batch of this repository: the result of each issue.",
  options: { cwd: CWD, json: JSON_FLAG },
  examples: ["reprise issues status", "reprise issues status --json"],
  run: async ({ options }, context) => {
    const { deps, root } = await open(context, options);
    const [last] = batchHistory(deps, root).batches();
    if (last === undefined) {
      const none = { batch: null, live: false, totals: null, resume: null, earlier: [], orphans: [] };
      if (options.json === true) context.printJson({ ok: true, repository: root, ...none });
      else context.print("This repository has had no batch yet. Start one: reprise issues run");
      return 0;
    }
    const live = last.completed_at === null && liveBatch(deps, root) === last.run_id;
    const issues = await Promise.all(
      Object.entries(last.issues).map(
        async ([id, record]) => [id, await shownRecord(deps, seen(record, live))] as const,
      ),
    );
    const prices = deps.config.prices ?? {};
    const totals = totalsOf(last, new Map(issues), { live, nowMs: deps.clock.now(), prices });
    const typist = { place: placeOf(root, options), config: deps.config };
    const { earlierJson, earlierText, standingOf } = await goOns();
    const { leaves, orphans, goOn, earlier } = live
      ? { leaves: [], orphans: [], goOn: null, earlier: [] }
      : await standingOf(deps, root, last, typist);
    if (options.json === true) {
      const left = last.leaves === undefined && leaves.length === 0 ? {} : { leaves };
      const batch = { ...last, issues: Object.fromEntries(issues), ...left };
      const lost = orphans.map(({ go_on: _none, ...one }) => one);
      const now = { resume: goOn?.command ?? null, earlier: earlier.map(earlierJson), orphans: lost };
      context.printJson({ ok: true, repository: root, batch, live, totals, ...now });
      return 0;
    }
    context.print(`${harmlessLine(last.run_id, 40)}  ${live ? "under way" : howLong(last)}`);
    const past = issues.map(([issue, record]) => ({ issue, batch: last.run_id, ...record }));
    if (past.length > 0) printHistory(context, past, deps.clock.now());
    else if (live) context.print("None of its issues has started yet.");
    else context.print(last.left === 0 ? "There was nothing to do." : "It started no issue.");
    printUnbegun(context, last, live);
    const words = totalsText(totals, live);
    if (words !== "") context.print(`\n${words}`);
    printGates(context, past);
    printLeaves(context, leaves, deps.clock.now());
    const isSaid = earlier.some(({ batch }) => batch.run_id === goOn?.batch.run_id);
    printGoOn(context, isSaid ? null : goOn);
    for (const one of earlier) context.print(`\n${capital(earlierText(one))}`);
    return 0;
  },
});

const capital = (words: string) => words.slice(0, 1).toUpperCase() + words.slice(1);

/** Of a batch that has ended, its leaves say it. */
function printUnbegun(
  context: Context,
  { planned = [], issues, completed_at: ended }: BatchRecord,
  live: boolean,
) {
  const ids = planned.filter((id) => !Object.hasOwn(issues, id));
  if (ids.length === 0 || ended !== null) return;
  const isOne = ids.length === 1;
  const words = live ? `${isOne ? "has" : "have"} not begun yet` : `${isOne ? "was" : "were"} not begun`;
  const more = ids.length > MAX_UNBEGUN ? `, and ${ids.length - MAX_UNBEGUN} more` : "";
  context.print(
    `\n${plural(ids.length, "issue")} ${words}: ${harmlessLine(ids.slice(0, MAX_UNBEGUN).join(", "), 1_000)}${more}`,
  );
}

const MAX_UNBEGUN = 10;

export const clean = defineCommand({
  name: "issues clean",
  summary: "Remove records of old batches. Keeps records that name the conversation of an open issue.",
  options: {
    cwd: CWD,
    ...SOURCE_OPTIONS,
    olderThan: withValue("<time>", "minimum age of a batch (default 30d)", duration),
    dryRun: flag("list the removals, without removing anything"),
    json: JSON_FLAG,
  },
  examples: ["reprise issues clean --dry-run", "reprise issues clean --older-than 7d"],
  run: async ({ options, reply }, context) => {
    const { dryRun = false } = options;
    const { deps, root } = await open(context, options);
    const issues = await load(context, deps, root, options);
    const removed = cleanBatches(deps, root, {
      olderThanMs: options.olderThan ?? 30 * 24 * 3_600_000,
      closed: new Set(issues.filter((issue) => issue.status === "closed").map(({ id }) => id)),
      dryRun,
    });
    reply({ repository: root, removed, dryRun }, () => {
      for (const file of removed) context.print(file);
      context.log.info(`${plural(removed.length, "record")} ${dryRun ? "would be removed" : "removed"}`);
    });
    return 0;
  },
});
