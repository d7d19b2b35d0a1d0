/** `reprise scheduled [list|cancel]`: resumes that the daemon carries out later. */
import type { ScheduledResume } from "../core/supervision.ts";
import { formatDuration, localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { wrapTable } from "../lib/table.ts";
import { untilText } from "../lib/until.ts";
import type { Deps } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { cancelScheduled, isOpen, listScheduled, setDamagedAside } from "../schedule/schedule.ts";
import { findDaemon } from "../supervisor/daemon-client.ts";
import type { Context } from "./context.ts";
import { type CommandGroup, defineCommand, flag, JSON_FLAG, RUN_HANDLE } from "./define.ts";
import { failedOf } from "./scheduled-lines.ts";
import { labelled, printTable, widthLimit } from "./words.ts";

export const command: CommandGroup = {
  name: "scheduled",
  summary: "Resumes that the daemon carries out later (`resume --at`, `resume --when-reset`).",
  commands: {
    list: { summary: "list scheduled resumes", load: async () => list },
    cancel: { summary: "cancel the scheduled resume of a run", load: async () => cancel },
  },
  alone: "list",
  examples: [
    'reprise resume 1a2b3c4d --at 07:30 "go on"',
    "reprise scheduled",
    "reprise scheduled cancel 1a2b3c4d",
  ],
};

const NOT_RUNNING = "The daemon is not running, so nothing will be resumed. Start it: reprise daemon start";

const list = defineCommand({
  name: "scheduled list",
  summary: "List scheduled resumes, the next one first, and failed ones until the run is resumed.",
  options: { all: flag("include finished resumes"), json: JSON_FLAG },
  examples: ["reprise scheduled", "reprise scheduled list --all --json"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const found = await listScheduled(deps.state, (text) => context.log.warn(text));
    const failed = await failedOf(deps, found);
    const scheduled =
      options.all === true ? found : found.filter((one) => isOpen(one) || failed.includes(one));
    await using daemon = scheduled.some(isOpen) ? await findDaemon(deps) : null;
    const isUnattended = daemon === null && scheduled.some(isOpen);
    const ends = await endsOf(deps, scheduled);
    reply({ scheduled, daemon: daemon === null ? null : { pid: daemon.pid } }, () => {
      if (scheduled.length === 0)
        context.print('Nothing is scheduled. Schedule a resume: reprise resume HANDLE --at 07:30 "go on"');
      else printScheduled(context, scheduled, ends, deps.clock.now());
      for (const one of failed) context.print(failedHint(one));
      if (isUnattended) context.log.warn(NOT_RUNNING);
    });
    return 0;
  },
});

function failedHint({ handle }: ScheduledResume): string {
  return `${handle} was not resumed. Resume it now: reprise resume ${handle} "…"   Forget it: reprise scheduled cancel ${handle}`;
}

/** The results of started attempts that have ended, by the id of the scheduled resume. */
async function endsOf(
  deps: Deps,
  scheduled: readonly ScheduledResume[],
): Promise<ReadonlyMap<string, string>> {
  const ends = new Map<string, string>();
  for (const { id, runId, state, attempt } of scheduled) {
    if (state !== "started") continue;
    const attempts = await deps.store.listAttempts(runId);
    const result = attempts.find(({ n }) => n === attempt)?.outcome?.result;
    if (result !== undefined) ends.set(id, result);
  }
  return ends;
}

function printScheduled(
  context: Context,
  scheduled: readonly ScheduledResume[],
  ends: ReadonlyMap<string, string>,
  nowMs: number,
): void {
  const header = ["HANDLE", "ENGINE", "STATE", "WHEN", "MESSAGE"];
  const rows = scheduled.map((one) => [
    one.handle,
    harmlessLine(one.engine, 20),
    ends.has(one.id) ? `${one.state}, ${ends.get(one.id)}` : one.state,
    whenOf(one, nowMs),
    harmlessLine(one.message ?? "-", 60),
  ]);
  printTable(context, wrapTable([header, ...rows], widthLimit(context.terminal)));
  for (const one of scheduled) {
    if (one.reason === null) continue;
    for (const line of labelled(context.terminal, `${one.handle}: `, harmlessLine(one.reason, 1_000)))
      context.print(line);
  }
}

function whenOf({ dueAt, lateMs, state }: ScheduledResume, nowMs: number): string {
  const atMs = Date.parse(dueAt);
  if (state === "waiting" && atMs > nowMs) return untilText(atMs, nowMs).replace(/^until /, "");
  const late = lateMs !== null && lateMs >= 60_000 ? ` (${formatDuration(lateMs)} late)` : "";
  return `${localTime(dueAt, nowMs)}${late}`;
}

const cancel = defineCommand({
  name: "scheduled cancel",
  summary:
    "Cancel the scheduled resume of a run, or forget a failed one. A resume that has already started continues.",
  args: { handle: RUN_HANDLE },
  options: { json: JSON_FLAG },
  examples: ["reprise scheduled cancel 1a2b3c4d"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const found = await selectRun(deps, args.handle);
    const aside = await setDamagedAside(deps.state, found.runId);
    if (aside !== null) {
      const kept = `The damaged file is now ${harmlessLine(aside)}.`;
      reply({ scheduled: null, aside }, `Nothing is scheduled for run ${found.handle} any more. ${kept}`);
      return 0;
    }
    const scheduled = await cancelScheduled(deps, found);
    reply({ scheduled }, `The scheduled resume of run ${scheduled.handle} is cancelled.`);
    return 0;
  },
});
