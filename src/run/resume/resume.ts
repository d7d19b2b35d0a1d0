/** Resumes a run: prepares what changes nothing, takes the session's lease, restores a copy if the plan asks for it. */
import { assertOwnState } from "../../state/state.ts";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import { type AttemptOptions, type AttemptResult, makeAttempt } from "../attempt/attempt.ts";
import type { Deps } from "../deps.ts";
import { leaveCopy, recoverEscrow, restoreEscrow } from "../escrow/escrow.ts";
import type { Watch } from "../attempt/job.ts";
import { recordedEnv } from "../launch.ts";
import {
  assertAgentGone,
  assertAllRecorded,
  assertNoChoice,
  assertNoneUnknown,
  clearAfterDead,
  forgetLocks,
  leaseRun,
  type RunLease,
} from "../leases.ts";
import { forkedRun, newRunId, recordRun } from "../new-run.ts";
import { assertKnownRecord, prepareResume, type ResumeOptions } from "./prepare.ts";
import { assertRunDirectory } from "./resumable.ts";
import { asItIsNow, recordEnd, selectRun } from "../select.ts";
import { assertNobodyIn, endLeftBehind } from "../stop.ts";

export interface ResumeRequest extends AttemptOptions, ResumeOptions {
  readonly selector: string;
  /** The number that the new attempt must get; another one has been made meanwhile: `run_busy`. Absent: any. */
  readonly asAttempt?: number;
}

export async function resumeRun(deps: Deps, request: ResumeRequest, watch: Watch): Promise<AttemptResult> {
  assertOwnState(deps);
  const found = await selectRun(deps, request.selector);
  if (request.want === "fork") return forkRun(deps, found, request, watch);
  const hold = await leaseRun(deps, found);
  return hold.untilFinished(async () => {
    const current = await readyForNext(deps, found, hold);
    assertNext(current, request.asAttempt);
    const prepared = await prepareResume(deps, current, request);
    const { setup, plan } = prepared;
    if (plan.do === "continue") {
      await hold.holdSession(current, plan.session);
      await assertNobodyIn(deps, current, plan.session);
      await assertNoChoice(deps, current);
    }
    for (const note of prepared.notes) deps.log.info(note);
    const held = { run: current, fence: hold.fence, hold };
    let { escrow, kept } = current;
    if (plan.do === "continue" && plan.restore)
      ({ escrow, kept } = await restoreEscrow(deps, setup, held, prepared.copy));
    else if (plan.do === "continue" && prepared.leavesCopy)
      ({ escrow, kept } = await leaveCopy(deps, setup, held, plan.session));
    const run = { ...prepared.run, escrow, ...(kept === undefined ? {} : { kept }) };
    return makeAttempt(deps, watch, {
      ...prepared,
      run,
      hold,
      request,
      native: request.native,
      env: recordedEnv(run, deps.env, request.env),
      continues:
        plan.do === "continue"
          ? { session: plan.session, restored: plan.restore, lacks: prepared.lacks }
          : null,
    });
  });
}

/**
 * A fork is a run of its own. The parent is held while its session is looked at and put back, its session until the
 * engine names the copy; of the parent's record nothing changes but which of its copies is the newest. A crash leaves a parent as it was, and at most a run
 * that never began.
 */
async function forkRun(
  deps: Deps,
  found: RunRecord,
  request: ResumeRequest,
  watch: Watch,
): Promise<AttemptResult> {
  await using parentHold = await leaseRun(deps, found);
  const parent = await readyForNext(deps, found, parentHold);
  const runId = await newRunId(deps, parent.agentName);
  const prepared = await prepareResume(deps, parent, { ...request, forkAs: runId });
  const { setup, plan } = prepared;
  if (plan.do === "fresh") throw new Error("a fork continues a session");
  const env = recordedEnv(parent, deps.env, request.env);
  const fork = forkedRun(deps, prepared, { runId, session: plan.session, env });
  const hold = await leaseRun(deps, fork);
  return await hold.untilFinished(async () => {
    await hold.holdSession(parent, plan.session);
    await assertNobodyIn(deps, parent, plan.session);
    for (const note of prepared.notes) deps.log.info(note);
    const held = { run: parent, fence: parentHold.fence, hold };
    if (plan.restore) await restoreEscrow(deps, setup, held, prepared.copy);
    const run = await recordRun(deps, fork);
    await parentHold.release();
    return makeAttempt(deps, watch, {
      ...prepared,
      run,
      hold,
      request,
      native: request.native,
      env,
      continues: { session: plan.session, restored: plan.restore, lacks: prepared.lacks },
    });
  });
}

/** The run as it is now, with nothing left of an attempt that died. The caller holds it. */
async function readyForNext(deps: Deps, found: RunRecord, hold: RunLease): Promise<RunRecord> {
  // Its owner may have died after it was looked up and before it was held.
  const current = await asItIsNow(deps, await recordEnd(deps, found, hold.fence));
  assertRunDirectory(current);
  await assertKnownRecord(current);
  await assertNoneUnknown(deps, current);
  await assertAllRecorded(deps, current);
  await endLeftBehind(deps, current);
  await assertAgentGone(deps, current);
  forgetLocks(current);
  await clearAfterDead(deps, current);
  return recoverEscrow(deps, current, hold.fence);
}

/** Whoever decides upon an attempt by its number makes it at most once, however many decide (I8). */
function assertNext(run: RunRecord, wanted: number | undefined): void {
  const next = run.attempts + 1;
  if (wanted === undefined || wanted === next) return;
  throw new Fault(
    "run_busy",
    `Attempt ${wanted} of run ${run.handle} was asked for, and the next one is ${next}: another process was faster.`,
    { facts: { handle: run.handle, attempt: wanted, next } },
  );
}
