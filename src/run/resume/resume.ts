/** Resumes or forks a run: takes its lease, prepares the command, takes the session's lease and restores a copy if planned. */
import { assertOwnState } from "../../state/identity.ts";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import { type AttemptOptions, type AttemptResult, makeAttempt } from "../attempt/attempt.ts";
import type { Deps } from "../deps.ts";
import { engineOf } from "../engine-setup.ts";
import { leaveCopy, recoverEscrow } from "../escrow/escrow.ts";
import { copyId } from "../escrow/copies.ts";
import type { RestoredCopy } from "../attempt/receipt.ts";
import { restoreEscrow } from "../escrow/restore.ts";
import { assertAgentGone, assertAllRecorded, assertNoneUnknown, forgetLocks } from "../agent-locks.ts";
import { assertKnownRecord } from "./refusals.ts";
import type { ResumeOptions } from "./options.ts";
import type { Watch } from "../attempt/job.ts";
import { finishWorktree } from "../isolate.ts";
import { recordedEnv } from "../launch.ts";
import { assertNoChoice, clearAfterDead, leaseRun, type RunLease } from "../leases.ts";
import { forkedRun, newRunId, recordRun } from "../new-run.ts";
import { type PreparedResume, prepareResume } from "./prepare.ts";
import { assertRunDirectory } from "./resumable.ts";
import { asItIsNow, recordEnd, selectRun } from "../select.ts";
import { assertNobodyIn, endLeftBehind } from "../stop.ts";

export interface ResumeRequest extends AttemptOptions, ResumeOptions {
  readonly selector: string;
  /** The number that the new attempt must get, otherwise `run_busy`. Absent: any number. */
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
    await finishWorktree(deps, current);
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
      ...(request.scheduled === undefined ? {} : { scheduled: request.scheduled }),
      env: recordedEnv(run, deps.env, request.env),
      continues:
        plan.do === "continue"
          ? { session: plan.session, restored: restoredCopy(prepared), lacks: prepared.lacks }
          : null,
    });
  });
}

/**
 * A fork is a separate run. The parent's lease is held while its session is read or restored, the session's lease until
 * the engine names the copy. In the parent's record only the order of its copies changes. A crash leaves at most a run
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
      continues: { session: plan.session, restored: restoredCopy(prepared), lacks: prepared.lacks },
    });
  });
}

/** For the receipt. Null: the engine had its session. */
function restoredCopy({ plan, copy }: PreparedResume): RestoredCopy | null {
  if (plan.do === "fresh" || !plan.restore || copy === null) return null;
  return { id: copyId(copy).slice(0, 8), takenAt: copy.takenAt };
}

/** The current record of the run, after everything that a dead attempt left is cleared. The caller holds the lease. */
async function readyForNext(deps: Deps, found: RunRecord, hold: RunLease): Promise<RunRecord> {
  // Without its engine, the end of a dead attempt would be recorded without the session that its output names.
  engineOf(deps, found);
  // The owner may have died between the lookup and the lease.
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

/** Several processes may decide on the same attempt. Its number makes sure that only one starts it (I8). */
function assertNext(run: RunRecord, wanted: number | undefined): void {
  const next = run.attempts + 1;
  if (wanted === undefined || wanted === next) return;
  throw new Fault(
    "run_busy",
    `Attempt ${wanted} of run ${run.handle} cannot start: another process was faster, and the next attempt is ${next}.`,
    { facts: { handle: run.handle, attempt: wanted, next } },
  );
}
