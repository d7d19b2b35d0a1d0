/** `resume --at` and `resume --when-reset`: stores the resume and makes sure that the daemon runs. */
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { untilText } from "../lib/until.ts";
import type { Deps } from "../run/run.ts";
import { type NewSchedule, parseMoment, scheduleResume } from "../schedule/schedule.ts";
import { ensureDaemon } from "../supervisor/daemon-client.ts";
import type { Context } from "./context.ts";

interface Later {
  /** As typed. Absent: when the limit ends. */
  readonly at: string | undefined;
  readonly isJson: boolean;
}

const YEAR_MS = 366 * 86_400_000;

export async function resumeLater(
  context: Context,
  deps: Deps,
  run: RunRecord,
  { at, isJson, ...wish }: Later & Omit<NewSchedule, "dueAt" | "by">,
): Promise<number> {
  const nowMs = deps.clock.now();
  const dueMs = at === undefined ? await resetOf(deps, run) : momentOf(at, nowMs);
  const dueAt = new Date(dueMs).toISOString();
  const by = at === undefined ? ("reset" as const) : ("time" as const);
  const scheduled = await scheduleResume(deps, run, { ...wish, dueAt, by });
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  await daemon.poke(null);
  const { handle } = run;
  if (isJson) context.printJson({ ok: true, scheduled });
  else {
    context.print(`Run ${handle} waits ${untilText(dueMs, nowMs)}. The daemon then resumes it.`);
    context.log.info(`List: reprise scheduled   Cancel: reprise scheduled cancel ${handle}`);
    context.log.info("After a reboot, start the daemon so that it catches up: reprise daemon start");
  }
  return 0;
}

function momentOf(given: string, nowMs: number): number {
  const atMs = parseMoment(given, nowMs);
  if (atMs === null)
    throw new Fault(
      "usage",
      `--at takes a time such as 07:30, "2026-11-19 07:30" or +2h, not ${JSON.stringify(given.slice(0, 80))}.`,
    );
  if (atMs < nowMs) throw new Fault("usage", `--at ${given} is in the past. Resume now: leave out --at.`);
  if (atMs > nowMs + YEAR_MS) throw new Fault("usage", `--at ${given} is more than a year away.`);
  return atMs;
}

/** When the limit that stopped the run's last attempt ends. A limit that is over is due now. */
async function resetOf(deps: Deps, { runId, handle }: RunRecord): Promise<number> {
  const last = (await deps.store.listAttempts(runId)).at(-1);
  const trouble = last?.outcome?.trouble;
  const atMs = Date.parse(trouble?.resetsAt ?? "");
  const nowMs = deps.clock.now();
  if (!Number.isNaN(atMs) && atMs <= nowMs + YEAR_MS) return Math.max(atMs, nowMs);
  const isLimit = trouble?.kind === "rate_limited" || trouble?.kind === "quota";
  const what = !Number.isNaN(atMs)
    ? `The limit of run ${handle} ends more than a year from now, as the engine says (${trouble?.resetsAt ?? ""}).`
    : isLimit
      ? `The last attempt of run ${handle} hit a limit, but the engine did not say when it ends.`
      : `The last attempt of run ${handle} hit no limit.`;
  throw new Fault("usage", `${what} Name a time: reprise resume ${handle} --at 07:30 "…"`, {
    facts: { handle },
  });
}
