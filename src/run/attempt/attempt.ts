/**
 * One attempt of a run, for a start and for a resume: makes the job for the attempt runner, proves which conversation
 * answered, and finishes with the last copy of the session.
 */
import { saveReceipt, storable } from "../../state/runs.ts";
import { sweepTemp } from "../../state/upkeep.ts";
import { Fault } from "../../core/faults.ts";
import type { AttemptKind, AttemptRecord, Mode, Receipt, RunRecord } from "../../core/records.ts";
import type { Command } from "../../engines/engine.ts";
import type { Redact } from "../../lib/secrets.ts";
import { runAttempt } from "./attempt-runner.ts";
import { type Deps, isoNow } from "../deps.ts";
import { type EngineSetup, settingsEnv, versionOf } from "../engine-setup.ts";
import { copiesLeft, takeEscrow } from "../escrow/escrow.ts";
import { environmentAt } from "../isolate.ts";
import type { Job, Watch } from "./job.ts";
import { hiddenVariables, redactorFor } from "../launch.ts";
import { isDead, type RunLease } from "../leases.ts";
import { ownsAttempt } from "./ledger.ts";
import type { Limits } from "./liveness.ts";
import { exitCodeFor } from "./outcome.ts";
import { offerFor, type ParentOffer, parentOffer, type ResumeOffer } from "../resume/resumable.ts";
import { receiptFor, type RestoredCopy } from "./receipt.ts";

export interface AttemptOptions {
  readonly mode: Mode | "auto";
  readonly limits: Limits;
  /** The size of the caller's terminal. Null: the caller has none; a UI requested with `ui` needs none. */
  readonly terminal: { readonly cols: number; readonly rows: number } | null;
}

export interface AttemptResult {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord;
  readonly receipt: Receipt | null;
  readonly exitCode: number;
  /** The command to type next. Looked up on each call. */
  offer(): Promise<ResumeOffer>;
  /** For a fork: the command that leads to the parent's conversation. Null: not a fork. */
  parentOffer(): Promise<ParentOffer | null>;
  /** Resolves when `changesOf` can compare the folder with the attempt's start, as far as it ever can. */
  readonly compared: Promise<void>;
  /** Copies the engine's session into the run and releases the leases. Await it after the summary is shown. */
  finish(): Promise<void>;
}

/** The terminal size of a UI that no terminal shows yet. */
const UNSEEN = { cols: 120, rows: 40 };

interface Continues {
  readonly session: string;
  /** The copy of it that Reprise restored first. Null: none. */
  readonly restored: RestoredCopy | null;
  /** Missing parts of the conversation in that copy, one sentence each. */
  readonly lacks: readonly string[];
}

export interface AttemptPlan {
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
  readonly continues: Continues | null;
  /** As in the attempt's record. */
  readonly scheduled?: string;
}

export async function makeAttempt(deps: Deps, watch: Watch, plan: AttemptPlan): Promise<AttemptResult> {
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
    compared: held.compared,
    finish: async () => {
      await held.copied;
      await held.compared;
      const after = await takeEscrow(deps, setup, { run: held.run, fence: hold.fence });
      for (const warning of copiesLeft(setup.engine, run, after)) deps.log.warn(warning);
      await orWarn(deps, "the lease was not released; it ends with this process", () => hold.release());
      await deps.attemptEnded?.(held.run, held.attempt);
      // Upkeep that no caller waits for.
      if (deps.state.writable) await sweepTemp(deps.state, deps.clock, isDead(deps), "beside");
    },
  };
}

/** The job for the attempt runner. */
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
    ...hiddenVariables(setup.env, plan.env),
    ...sizeFor(plan),
    // An unknown version stops nothing.
    version: versionOf(deps, setup.engine, setup.program).catch(() => null),
    diagnostics: [...(command.warnings ?? []), ...settings.notes],
    continues: plan.continues?.session ?? null,
    ...(plan.scheduled === undefined ? {} : { scheduled: plan.scheduled }),
    ...(plan.continues === null || plan.continues.restored === null
      ? {}
      : { restored: { lacks: plan.continues.lacks } }),
    onSession: async (session) => {
      await hold.holdSession(run, session);
      await hold.releaseChoice(run);
      // The engine has read the conversation that it forks, so other attempts may continue that one.
      if (run.parent !== undefined && session !== run.parent.session)
        await hold.releaseSession(run, run.parent.session);
    },
    onLeaseLost: (listener) => hold.onLost(listener),
    leaseLost: () => hold.lost(),
  };
}

/** Variables that the user set for this run or this engine stay, in every working directory. */
function placedEnv(deps: Deps, { run, setup, env }: AttemptPlan): EngineSetup["env"] {
  const wanted = { ...deps.config.engines[setup.engine.id]?.env, ...Object.fromEntries(env) };
  return { ...(environmentAt(deps, run.cwd, setup.env) as EngineSetup["env"]), ...wanted };
}

/** The attempt is over and recorded, so a later failure is only a warning. */
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

/** A run that began in a UI continues without it on pipes, where no tool can write lines in the engine's name. */
function headlessMode({ run, command, request }: AttemptPlan): Mode {
  if (command.dialogue !== undefined) return "pipe";
  if (request.mode !== "auto") return request.mode;
  return run.launch.interactive ? "pipe" : run.launch.mode;
}
