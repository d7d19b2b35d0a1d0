/**
 * The life of one run: start it, continue it. The door of this folder.
 *
 * Follow a run here: `startRun` records it, `resumeRun` plans it, both hand a job to the holder and prove what came back.
 */
import type { Redact } from "../lib/secrets.ts";
import { join } from "node:path";
import { assertOwnState, saveReceipt, saveRunFile, storable, sweepTemp } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptKind, AttemptRecord, Mode, Receipt, RunRecord } from "../core/records.ts";
import type { Command, Engine } from "../engines/engine.ts";
import { earlierChoice } from "../engines/engines.ts";
import { changedNow, type Deps, isoNow } from "./deps.ts";
import {
  type EngineSetup,
  findEngine,
  setUpEngine,
  settingsEnv,
  startFolder,
  versionOf,
} from "./engine-setup.ts";
import { copiesLeft, leaveCopy, recoverEscrow, restoreEscrow, takeEscrow } from "./escrow.ts";
import { runAttempt } from "./attempt-runner.ts";
import { environmentAt, planWorkplace, type Workplace } from "./isolate.ts";
import { ownsAttempt } from "./ledger.ts";
import type { Job, Watch } from "./job.ts";
import { assertHiddenMessage, hiddenNames, recordedEnv, redactorFor, withRightsFiles } from "./launch.ts";
import {
  assertAgentGone,
  assertAllRecorded,
  assertNoChoice,
  assertNoneUnknown,
  clearAfterDead,
  forgetLocks,
  leaseRun,
  isDead,
  type RunLease,
} from "./leases.ts";
import type { Limits } from "./liveness.ts";
import { assertStartable, forkedRun, newRun, newRunId, recordRun, warnOfUnresumable } from "./new-run.ts";
import { exitCodeFor } from "./outcome.ts";
import { assertKnownRecord, prepareResume, type ResumeOptions } from "./prepare.ts";
import {
  assertRunDirectory,
  type ResumeOffer,
  offerFor,
  type ParentOffer,
  parentOffer,
} from "./resumable.ts";
import { asItIsNow, recordEnd, selectRun, selectRunDir } from "./select.ts";
import { assertNobodyIn, endLeftBehind } from "./stop.ts";
import { receiptFor } from "./witness.ts";

export type { BatchLease, Deps } from "./deps.ts";
export type { LiveControls, LiveStatus, StopRequest, Watch } from "./job.ts";
export type { Limits } from "./liveness.ts";
export { type DryRun, dryRun } from "./prepare.ts";
export type { HeldAccess } from "../engines/engines.ts";
export { adoptSession, type Conversation, findConversations } from "./adopt.ts";
export { copyId } from "./copies.ts";
export { finishRemovals, forgetAgent, type Pruned, pruneRuns, removeRun } from "./clean.ts";
export {
  allEngines,
  findEngine,
  heldAccess,
  ownRules,
  heldInRun,
  secretOptions,
  setUpEngine,
  engineDefaults,
  storedDenials,
  tellsTools,
  widerNow,
} from "./engine-setup.ts";
export { type Explanation, explainOutput } from "./explain.ts";
export { checkHealth, type Health } from "./health.ts";
export { type InspectedAttempt, type Inspection, inspectRun, recognize } from "./inspect.ts";
export { environmentAt, planWorkplace, withoutRepository } from "./isolate.ts";
export { redactorFor, storableArgs } from "./launch.ts";
export { rebuildIndex, renewIndex } from "./rebuild.ts";
export { exitCodeFor } from "./outcome.ts";
export { isUndecided, refusedStart } from "./plan.ts";
export { acceptCopy, assertOwnState } from "../state/state.ts";
export { type ResumeOffer, offerFor, type ParentOffer, whyNotResumable } from "./resumable.ts";
export { forsakeUnrecorded, liveOwner } from "./leases.ts";
export { listRuns, selectLatest, selectRun } from "./select.ts";
export { assertReachable, type Stopped, stopRun } from "./stop.ts";

export interface AttemptOptions {
  readonly mode: Mode | "auto";
  readonly limits: Limits;
  /** The size of the caller's terminal, where it has one to lend. A UI that is asked for by `ui` needs none. */
  readonly terminal: { readonly cols: number; readonly rows: number } | null;
}

/** The terminal of a UI that nobody looks at yet. */
const UNSEEN = { cols: 120, rows: 40 };

export interface StartRequest extends AttemptOptions {
  readonly engine: string;
  readonly message: string | null;
  readonly native: readonly string[];
  readonly env: readonly (readonly [string, string])[];
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  /** The user named it. */
  readonly cwdGiven: boolean;
  readonly isolate: "dir" | "worktree" | null;
  /** With a worktree: a branch to be made for it, and the commit it begins at. Absent: none, and that of `cwd`. */
  readonly branch?: string;
  readonly from?: string;
  /** Adds the attempt to this run instead of a new one. */
  readonly runDir: string | null;
  readonly name: string | null;
  readonly subject: string | null;
  readonly trustCwd: boolean;
  readonly escrow: boolean;
  /** Opens the engine's UI, also for a message and for nobody who looks at it yet. */
  readonly ui?: true;
  /** Chosen and recorded by the caller; a run that has it already is `run_busy`. Absent: any. */
  readonly runId?: string;
  /** Talks with the agent while it works. Absent: it works alone. */
  readonly dialogue?: ResumeOptions["dialogue"];
}

export interface ResumeRequest extends AttemptOptions, ResumeOptions {
  readonly selector: string;
  /** The number that the new attempt must get; another one has been made meanwhile: `run_busy`. Absent: any. */
  readonly asAttempt?: number;
}

export interface AttemptResult {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord;
  readonly receipt: Receipt | null;
  readonly exitCode: number;
  /** What to type next, looked up when it is asked for. */
  offer(): Promise<ResumeOffer>;
  /** Of a fork: what leads to the conversation that it was made of. Null: it is none. */
  parentOffer(): Promise<ParentOffer | null>;
  /** Copies the engine's session into the run and lets go of it. To be awaited after the summary was shown. */
  finish(): Promise<void>;
}

export async function startRun(deps: Deps, request: StartRequest, watch: Watch): Promise<AttemptResult> {
  const engine = findEngine(deps, request.engine);
  if (request.runDir !== null) return startInRun(deps, engine, { ...request, runDir: request.runDir }, watch);
  const setup = setUpEngine(deps, engine, request.env);
  const runId = request.runId ?? (await newRunId(deps, engine.id));
  const workplace = await planWorkplace(deps, join(deps.state.runsRoot, runId), request);
  const given = [...setup.defaultArgs, ...request.native];
  const interactive = assertStartable(engine, request, given);
  const { cwd } = workplace;
  const { trust, folder } = startFolder(setup, request, { cwd, args: given, interactive });
  const chosen = engine.can.chooseSession ? deps.newSessionId() : null;
  const command = engine.command({
    kind: "start",
    interactive,
    message: request.message,
    session: chosen,
    forkTo: null,
    given,
    givenHasNoPrompt: request.message !== null,
    native: [],
    cwd,
    tag: `reprise-${runId.slice(-8)}-1`,
    trustCwd: request.trustCwd,
    ...folder,
    ...(request.ui === true ? { watched: true } : {}),
    ...(request.dialogue === undefined ? {} : { dialogue: request.dialogue }),
  });
  assertHiddenMessage(command, request.message, redactorFor(setup.env, request.env));
  const wanted = newRun(deps, { request, setup, command, runId, cwd, given, interactive, trust });
  warnOfUnresumable(deps, wanted);
  const choice = command.expects === null ? earlierChoice(engine, given, request.message !== null) : null;
  if (choice !== null || (command.expects !== null && command.expects !== chosen))
    await (await import("./unindexed.ts")).assertMayName(deps, engine.id);
  // Held before it is recorded: a run that says it is running is never without a living owner.
  const hold = await leaseRun(deps, wanted);
  return hold.untilFinished(async () => {
    // A session that another attempt is in leaves no run behind that never began.
    if (command.expects !== null) await hold.holdSession(wanted, command.expects);
    if (choice === null && command.expects !== chosen) await assertNoChoice(deps, wanted);
    if (command.expects !== null && command.expects !== chosen)
      await assertNobodyIn(deps, wanted, command.expects);
    if (choice !== null) {
      await hold.holdChoice(wanted);
      await (await import("./unindexed.ts")).assertMayChoose(deps, engine, wanted, choice);
    }
    const recorded = await recordRun(deps, wanted);
    await makeOrFail(deps, recorded, workplace, hold.fence);
    const run = withRightsFiles(engine, recorded, given, setup.env);
    const plan = { run, setup, command, hold, interactive, request, env: request.env };
    return attempt(deps, watch, {
      ...plan,
      message: request.message,
      kind: "start",
      native: [],
      continues: null,
    });
  });
}

/** `--run-dir`: a new conversation in an old run, with the options of that run and, within I12, the native ones given now. */
async function startInRun(
  deps: Deps,
  engine: Engine,
  request: StartRequest & { readonly runDir: string },
  watch: Watch,
): Promise<AttemptResult> {
  const run = await selectRunDir(deps, request.runDir, engine.id);
  if (request.isolate !== null || (request.cwd !== run.cwd && request.cwdGiven)) {
    throw new Fault(
      "usage",
      `Run ${run.handle} works in ${run.cwd}; --cwd and --isolate do not go with --run-dir.`,
      {
        facts: { handle: run.handle, cwd: run.cwd },
      },
    );
  }
  if (request.message === null && !run.launch.interactive) {
    throw new Fault("usage", `A new conversation in run ${run.handle} needs a prompt.`, {
      facts: { handle: run.handle },
    });
  }
  const hasTerminal = request.terminal !== null;
  return resumeRun(
    deps,
    { ...request, selector: run.runId, want: "fresh", damage: "refuse", keep: false, hasTerminal },
    watch,
  );
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
    return attempt(deps, watch, {
      ...prepared,
      run,
      hold,
      request,
      native: request.native,
      env: recordedEnv(run, deps.env, request.env),
      continues: plan.do === "continue" ? { session: plan.session, restored: plan.restore } : null,
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
    return attempt(deps, watch, {
      ...prepared,
      run,
      hold,
      request,
      native: request.native,
      env,
      continues: { session: plan.session, restored: plan.restore },
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

interface AttemptPlan {
  readonly run: RunRecord;
  readonly setup: EngineSetup;
  readonly command: Command;
  readonly hold: RunLease;
  readonly kind: AttemptKind;
  readonly interactive: boolean;
  readonly message: string | null;
  readonly native: readonly string[];
  readonly env: readonly (readonly [string, string])[];
  readonly request: AttemptOptions;
  readonly continues: { readonly session: string; readonly restored: boolean } | null;
}

async function attempt(deps: Deps, watch: Watch, plan: AttemptPlan): Promise<AttemptResult> {
  const { run, setup, command, hold } = plan;
  for (const warning of command.warnings ?? []) deps.log.warn(warning);
  if (command.expects !== null && plan.kind !== "resume") await hold.holdSession(run, command.expects);
  const redact = redactorFor(setup.env, plan.env);
  const held = await runAttempt(deps, jobOf(deps, plan, redact), watch);
  const receipt =
    plan.continues === null
      ? null
      : storable(receiptFor(held, { ...plan, continues: plan.continues, at: isoNow(deps) }), redact);
  if (receipt !== null && ownsAttempt(run, held.attempt))
    await orWarn(deps, "the receipt was not written", () => saveReceipt(run.runDirectory, receipt));
  const { outcome } = held.attempt;
  return {
    run: held.run,
    attempt: held.attempt,
    receipt,
    exitCode: outcome === null ? 70 : exitCodeFor(outcome, held.stop),
    offer: () => offerFor(deps, held.run),
    parentOffer: () => parentOffer(deps, held.run),
    finish: async () => {
      await held.copied;
      const after = await takeEscrow(deps, setup, { run: held.run, fence: hold.fence });
      for (const warning of copiesLeft(setup.engine, run, after)) deps.log.warn(warning);
      await orWarn(deps, "the lease was not given back; it ends with this process", () => hold.release());
      // Nobody has to wait for it.
      if (deps.state.writable) await sweepTemp(deps.state, deps.clock, isDead(deps), "beside");
    },
  };
}

/** What the holder needs to know of the attempt. */
function jobOf(deps: Deps, plan: AttemptPlan, redact: Redact): Job {
  const { run, setup, command, hold, request } = plan;
  const settings = settingsEnv(deps, command, setup.env);
  return {
    run,
    engine: setup.engine,
    command,
    kind: plan.kind,
    mode: plan.interactive ? "pty" : headlessMode(plan),
    interactive: plan.interactive,
    program: setup.program,
    native: plan.native,
    message: plan.message,
    env: { ...placedEnv(deps, plan), ...command.env, ...settings.env },
    engineHome: setup.home,
    startsApart: settings.apart,
    limits: request.limits,
    fence: hold.fence,
    redact,
    hidden: hiddenNames(setup.env, plan.env),
    ...sizeFor(plan),
    // Whatever goes wrong while asking for it, a version stops nothing.
    version: versionOf(deps, setup.engine, setup.program).catch(() => null),
    diagnostics: [...(command.warnings ?? []), ...settings.notes],
    continues: plan.continues?.session ?? null,
    onSession: async (session) => {
      await hold.holdSession(run, session);
      await hold.releaseChoice(run);
      // The engine has read the conversation that it copies, which may go on now.
      if (run.parent !== undefined && session !== run.parent.session)
        await hold.releaseSession(run, run.parent.session);
    },
    onLeaseLost: (listener) => hold.onLost(listener),
    leaseLost: () => hold.lost(),
  };
}

/** What the user set for this run or this engine stays, whatever place the run works in. */
function placedEnv(deps: Deps, { run, setup, env }: AttemptPlan): EngineSetup["env"] {
  const wanted = { ...deps.config.engines[setup.engine.id]?.env, ...Object.fromEntries(env) };
  return { ...(environmentAt(deps, run.cwd, setup.env) as EngineSetup["env"]), ...wanted };
}

/** The attempt is over and recorded: what fails after it is said, and changes nothing. */
async function orWarn(deps: Deps, what: string, act: () => void | Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`${what}: ${error.message}`);
  }
}

function sizeFor({ interactive, request }: AttemptPlan): Pick<Job, "size"> {
  if (request.terminal !== null) return { size: request.terminal };
  return interactive ? { size: UNSEEN } : {};
}

/** A run that began in a UI goes on without one on pipes, where no tool can write lines in the engine's name. */
function headlessMode({ run, command, request }: AttemptPlan): Mode {
  if (command.dialogue !== undefined) return "pipe";
  if (request.mode !== "auto") return request.mode;
  return run.launch.interactive ? "pipe" : run.launch.mode;
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

/** A run whose place could not be made never had an attempt, and says so. */
async function makeOrFail(deps: Deps, run: RunRecord, workplace: Workplace, fence: number): Promise<void> {
  try {
    await workplace.make();
  } catch (error) {
    const failed: RunRecord = { ...run, status: "failed", updatedAt: changedNow(deps, run) };
    saveRunFile(failed);
    await deps.store.saveRun(failed, fence);
    throw error;
  }
}
