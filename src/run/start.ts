/** Starts a run: records it, then makes its first attempt. `--run-dir` starts a new conversation in an existing run. */
import { join } from "node:path";
import { saveRunFile } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Engine } from "../engines/engine.ts";
import { earlierChoice } from "../engines/engines.ts";
import { type AttemptOptions, type AttemptResult, makeAttempt } from "./attempt/attempt.ts";
import { changedNow, type Deps } from "./deps.ts";
import { findEngine, setUpEngine } from "./engine-setup.ts";
import { startFolder } from "./folder-trust.ts";
import { planWorkplace, type Workplace } from "./isolate.ts";
import type { Watch } from "./attempt/job.ts";
import { assertHiddenMessage, redactorFor, withRightsFiles } from "./launch.ts";
import { assertNoChoice, leaseRun } from "./leases.ts";
import { assertStartable, newRun, newRunId, recordRun, warnOfUnresumable } from "./new-run.ts";
import { RESUME_DEFAULTS, type ResumeOptions } from "./resume/options.ts";
import { resumeRun } from "./resume/resume.ts";
import { selectRunDir } from "./select.ts";
import { assertNobodyIn } from "./stop.ts";

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
  /** With a worktree: the branch to create, and the commit to begin at. Absent: no branch, and the commit of `cwd`. */
  readonly branch?: string;
  readonly from?: string;
  /** Adds the attempt to this run instead of a new one. */
  readonly runDir: string | null;
  readonly name: string | null;
  /** Absent: none. */
  readonly tags?: readonly string[];
  readonly subject: string | null;
  readonly trustCwd: boolean;
  readonly escrow: boolean;
  /** Opens the engine's UI even with a message and without a terminal. */
  readonly ui?: true;
  /** An id that the caller has chosen and recorded. `run_busy` if a run has it already. Absent: any id. */
  readonly runId?: string;
  /** Exchanges messages with the agent while it works. Absent: the agent works alone. */
  readonly dialogue?: ResumeOptions["dialogue"];
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
    await (await import("./index/unindexed.ts")).assertMayName(deps, engine.id);
  // The lease comes before the record: a run with the status `running` always has a live owner.
  const hold = await leaseRun(deps, wanted);
  return hold.untilFinished(async () => {
    // Refused before anything is recorded, so that a busy session leaves no run behind.
    if (command.expects !== null) await hold.holdSession(wanted, command.expects);
    if (choice === null && command.expects !== chosen) await assertNoChoice(deps, wanted);
    if (command.expects !== null && command.expects !== chosen)
      await assertNobodyIn(deps, wanted, command.expects);
    if (choice !== null) {
      await hold.holdChoice(wanted);
      await (await import("./index/unindexed.ts")).assertMayChoose(deps, engine, wanted, choice);
    }
    const recorded = await recordRun(deps, wanted);
    await makeOrFail(deps, recorded, workplace, hold.fence);
    const run = withRightsFiles(engine, recorded, given, setup.env);
    const plan = { run, setup, command, hold, interactive, request, env: request.env };
    return makeAttempt(deps, watch, {
      ...plan,
      message: request.message,
      kind: "start",
      native: [],
      continues: null,
    });
  });
}

/** `--run-dir`: a new conversation in an existing run, with the run's options and, within I12, the native ones given now. */
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
      `Run ${run.handle} works in ${run.cwd}; --cwd and --isolate cannot be combined with --run-dir.`,
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
    { ...RESUME_DEFAULTS, ...request, selector: run.runId, want: "fresh", hasTerminal },
    watch,
  );
}

/** A run whose working directory cannot be created is recorded as failed, without an attempt. */
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
