/**
 * The door of `schedule`: resumes that the daemon carries out at a set time (`resume --at`, `resume --when-reset`). Each has a
 * separate file, so that a lost index loses none.
 */
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { ScheduledResume } from "../core/supervision.ts";
import { localTime } from "../lib/duration.ts";
import { redactorFor, storableArgs, findEngine } from "../run/engine-setup.ts";
import { dryRun, liveOwner } from "../run/inspect.ts";
import type { Deps } from "../run/run.ts";
import { requestOf } from "./carry-out.ts";
import { changeScheduled, isFailed, isOpen } from "./files.ts";

export { Schedule } from "./carry-out.ts";
export { isOpen, listScheduled, setDamagedAside } from "./files.ts";
export { parseMoment } from "./when.ts";

export type NewSchedule = Pick<
  ScheduledResume,
  "message" | "native" | "keep" | "mode" | "limits" | "dueAt" | "by"
>;

/** Faults: the run has an open scheduled resume, the message has a secret, or the resume would be refused now. */
export async function scheduleResume(
  deps: Deps,
  run: RunRecord,
  wish: NewSchedule,
): Promise<ScheduledResume> {
  refuseSecrets(deps, run, wish);
  const at = new Date(deps.clock.now()).toISOString();
  const recordOf = (n: number): ScheduledResume => ({
    v: 1,
    id: `${run.handle}-${n}`,
    runId: run.runId,
    handle: run.handle,
    engine: run.agentName,
    ...wish,
    state: "waiting",
    attempt: null,
    reason: null,
    lateMs: null,
    createdAt: at,
    updatedAt: at,
  });
  // A live run changes before its attempt ends, so only the start itself can tell.
  if ((await liveOwner(deps, run.runId)) === null) await dryRun(deps, run, requestOf(recordOf(0)));
  const stored = await changeScheduled(deps.state, run.runId, (now) => {
    if (now !== null && isOpen(now)) throw alreadyScheduled(deps, now);
    return recordOf(now === null ? 1 : Number(now.id.split("-")[1]) + 1);
  });
  if (stored === null) throw new Error("the scheduled resume was not stored");
  return stored;
}

/** A failed one is cancelled as well: then no command names it any more. Faults: nothing is scheduled, or it is starting. */
export async function cancelScheduled(deps: Deps, run: RunRecord): Promise<ScheduledResume> {
  const { handle } = run;
  const stored = await changeScheduled(deps.state, run.runId, (now) => {
    if (now === null || !(isOpen(now) || isFailed(now)))
      throw new Fault("usage", `Run ${handle} has no scheduled resume. Run: reprise scheduled`, {
        facts: { handle },
      });
    if (now.state === "starting")
      throw new Fault(
        "run_busy",
        `The scheduled resume of run ${handle} is starting. Stop its attempt: reprise stop ${handle}`,
        { facts: { handle } },
      );
    return {
      ...now,
      state: "cancelled",
      reason: "cancelled by the user",
      updatedAt: new Date(deps.clock.now()).toISOString(),
    };
  });
  if (stored === null) throw new Error("the scheduled resume was not stored");
  return stored;
}

function alreadyScheduled(deps: Deps, { handle, dueAt, id }: ScheduledResume): Fault {
  return new Fault(
    "run_busy",
    `Run ${handle} already has a scheduled resume (${localTime(dueAt, deps.clock.now())}). Cancel it first: reprise scheduled cancel ${handle}`,
    { facts: { handle, id, dueAt } },
  );
}

/** The message is stored until it is sent, so it must not contain a secret. */
function refuseSecrets(deps: Deps, run: RunRecord, { message, native }: NewSchedule): void {
  const redact = redactorFor({ ...deps.env, ...deps.config.engines[run.agentName]?.env }, []);
  const args = storableArgs(native, redact, findEngine(deps, run.agentName));
  const what =
    message !== null && redact(message) !== message
      ? "The message"
      : args.redacted.length > 0
        ? "A native option"
        : null;
  if (what === null) return;
  throw new Fault(
    "message_invalid",
    `${what} contains text that looks like a secret, and Reprise stores a scheduled resume until it starts. Remove it, and name the variable or file that has it.`,
    { facts: { handle: run.handle } },
  );
}
