/** The record with which a run begins, of a start and of a fork, and how it reaches index and run directory. */
import { join } from "node:path";
import { ensureIdentity } from "../state/identity.ts";
import { fileSize } from "../state/places.ts";
import { createRunDir, saveRunFile } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { Launch, Mode, RunRecord } from "../core/records.ts";
import type { AttemptRequest, Command, Engine } from "../engines/engine.ts";
import { refusedOption, widerAnew } from "../engines/engines.ts";
import { earlierRights, type LookedUp } from "./escrow/look-up.ts";
import type { ResumeOptions } from "./resume/options.ts";
import { type Deps, isoNow } from "./deps.ts";
import type { EngineSetup } from "./engine-setup.ts";
import { foldersIn } from "./folder-trust.ts";
import { excerpt, redactorFor, rightsVariables, storableArgs, storableEnv } from "./launch.ts";
import { optionsOf, resumeCommand } from "./resume/plan.ts";

export interface NewRun {
  readonly request: {
    readonly message: string | null;
    readonly env: readonly (readonly [string, string])[];
    readonly mode: Mode | "auto";
    readonly isolate: "dir" | "worktree" | null;
    readonly escrow: boolean;
    readonly trustCwd: boolean;
    readonly subject: string | null;
    readonly name: string | null;
    readonly tags?: readonly string[];
  };
  readonly setup: EngineSetup;
  readonly command: Command;
  readonly runId: string;
  readonly cwd: string;
  readonly given: readonly string[];
  readonly interactive: boolean;
  readonly trust: Pick<Launch, "folderTrust">;
}

export function newRun(deps: Deps, parts: NewRun): RunRecord {
  const { request, setup, command, runId } = parts;
  const redact = redactorFor(setup.env, request.env);
  const given = storableArgs(parts.given, redact, setup.engine);
  return {
    ...emptyRun(deps, runId),
    agentName: setup.engine.id,
    launch: {
      args: storableArgs(command.storedArgs ?? command.args, redact, setup.engine).args,
      given: given.args,
      redacted: given.redacted,
      env: storableEnv(request.env, redact),
      rights: rightsVariables(setup.engine, setup.env),
      guarded: true,
      mode: parts.interactive ? "pty" : request.mode === "auto" ? "pipe" : request.mode,
      interactive: parts.interactive,
      isolate: request.isolate,
      escrow: request.escrow,
      trustCwd: request.trustCwd,
      ...parts.trust,
      program: setup.program[0],
      version: null,
      message: excerpt(request.message, redact),
      ...unresumable(parts),
    },
    cwd: parts.cwd,
    engineHome: setup.home,
    subject: request.subject,
    name: excerpt(request.name, redact),
    ...(request.tags === undefined ? {} : { tags: request.tags.map(redact) }),
  };
}

function unresumable({ request, setup, command, given }: NewRun): Pick<Launch, "unresumable"> {
  const why = command.ephemeral ?? refusedOption(setup.engine, given, request.message !== null);
  return why === null ? {} : { unresumable: why };
}

/** The parent's resume, as far as a fork needs it. */
interface ForkedFrom {
  readonly run: RunRecord;
  readonly setup: EngineSetup;
  readonly command: Command;
  readonly interactive: boolean;
  readonly message: string | null;
}

export interface ForkRequest {
  readonly runId: string;
  readonly session: string;
  readonly env: readonly (readonly [string, string])[];
}

/**
 * The run of a fork: the parent's place, options and rights (I12), and a separate conversation. The parent's session
 * is not among its sessions, so no later resume can go back to it.
 */
export function forkedRun(deps: Deps, prepared: ForkedFrom, { runId, session, env }: ForkRequest): RunRecord {
  const { run: parent, setup, command, interactive, message } = prepared;
  const redact = redactorFor(setup.env, env);
  return {
    ...emptyRun(deps, runId),
    agentName: parent.agentName,
    launch: {
      ...parent.launch,
      args: storableArgs(command.storedArgs ?? command.args, redact, setup.engine).args,
      interactive,
      mode: interactive ? "pty" : parent.launch.interactive ? "pipe" : parent.launch.mode,
      // An isolated place is the parent's and goes with the parent.
      isolate: null,
      program: setup.program[0],
      version: null,
      // Null says that words among the options are a prompt, as they are in the parent's.
      message: parent.launch.message === null ? null : excerpt(message, redact),
    },
    cwd: parent.cwd,
    engineHome: parent.engineHome,
    subject: parent.subject,
    name: null,
    parent: { runId: parent.runId, handle: parent.handle, session },
  };
}

function emptyRun(deps: Deps, runId: string) {
  const at = isoNow(deps);
  return {
    v: 1,
    handle: runId.slice(-8),
    runId,
    runDirectory: join(deps.state.runsRoot, runId),
    session: { field: null, value: null, source: null, verifiedAt: null },
    sessions: [],
    status: "running",
    attempts: 0,
    escrow: null,
    createdAt: at,
    updatedAt: at,
  } as const;
}

/** Said while it can still be started another way. */
export function warnOfUnresumable({ log }: Deps, { launch }: RunRecord): void {
  const [option] = launch.redacted;
  if (option !== undefined)
    log.warn(
      `${option} contains a secret. Reprise does not store secrets, so this run cannot be resumed. Pass them in the environment (--env NAME=value) instead.`,
    );
  if (launch.unresumable !== undefined) log.warn(`This run cannot be resumed: ${launch.unresumable}.`);
}

/** A name is given in turn, so that no two live runs get the same one. */
export async function recordRun(deps: Deps, run: RunRecord): Promise<RunRecord> {
  if (run.name === null) return record(deps, run);
  return (await import("./label.ts")).withName(deps, run.name, run.runId, () => record(deps, run));
}

/** The index decides over the handle; the run directory follows. */
async function record(deps: Deps, run: RunRecord): Promise<RunRecord> {
  ensureIdentity(deps.state, deps.machine);
  if ((await deps.store.createRun(run)) === "handle_taken") {
    // One handle in four thousand million: the user may simply start again.
    throw new Fault("run_busy", `The handle ${run.handle} is already in use. Run the command again.`, {
      facts: { handle: run.handle },
    });
  }
  if (createRunDir(deps.state, run.runId) === null && fileSize(join(run.runDirectory, "run.json")) !== null) {
    // An older index was restored, so it lacks this run. The recorded run directory stays as it is.
    await deps.store.deleteRun(run.runId);
    throw new Fault("run_busy", `Run ${run.handle} already exists: ${run.runDirectory}`, {
      facts: { handle: run.handle, path: run.runDirectory },
    });
  }
  saveRunFile(run);
  return run;
}

export async function newRunId(deps: Deps, engine: string): Promise<string> {
  for (;;) {
    const handle = deps.newHandle();
    if ((await deps.store.findByHandle(handle)).length === 0)
      return makeRunId(deps.clock.now(), engine, handle);
  }
}

interface UiWish {
  readonly message: string | null;
  readonly ui?: true | undefined;
  readonly terminal: object | null;
}

/** True: it will open the engine's UI. */
export function assertStartable(engine: Engine, request: UiWish, given: readonly string[]): boolean {
  const opensUi = engine.opensUi(given);
  if (request.ui === undefined && (request.message !== null || !opensUi)) return false;
  if (!engine.can.interactive) {
    throw new Fault(
      "engine_cannot",
      `${engine.title} has no interactive UI. Give a prompt: reprise start ${engine.id} "…"`,
    );
  }
  if (!opensUi) {
    throw new Fault(
      "usage",
      `${engine.title} does not open its UI with ${given.join(" ")}. Leave that out, or give a prompt.`,
      {
        facts: { engine: engine.id },
      },
    );
  }
  if (request.ui === true || request.terminal !== null) return true;
  throw new Fault(
    "usage",
    `Without a prompt ${engine.title} opens its UI, and that needs a terminal. Give a prompt: reprise start ${engine.id} "…"`,
    { facts: { engine: engine.id } },
  );
}

/**
 * A run whose engine refused its command line, with the options and the trust that it is to begin with. Its rights are
 * those that it was started with: what an engine refused neither gave nor took any.
 */
export function anewIn(
  { engine, defaultArgs, env }: EngineSetup,
  run: RunRecord,
  { anew, trustCwd }: Pick<ResumeOptions, "anew" | "trustCwd">,
): RunRecord {
  const launch = { ...run.launch, trustCwd: run.launch.trustCwd || trustCwd };
  if (anew === undefined) return { ...run, launch };
  const given = [...defaultArgs, ...anew];
  const noPrompt = launch.message !== null;
  const wider = widerAnew(engine, launch.given, given);
  if (wider !== null)
    throw new Fault(
      "would_widen",
      `Run ${run.handle} ${wider.gone ? `was started with ${wider.option}, which is missing now, so it` : `was started without ${wider.option}, so with it the run`} might get more rights than it was started with. Start a new run instead.`,
      { facts: { handle: run.handle, option: wider.option } },
    );
  const { args, redacted } = storableArgs(given, redactorFor(env, []), engine);
  const { unresumable: _before, ...rest } = launch;
  const why = refusedOption(engine, given, noPrompt);
  return {
    ...run,
    launch: { ...rest, given: args, redacted, ...(why === null ? {} : { unresumable: why }) },
  };
}

const SOME_SESSION = "00000000-0000-4000-8000-000000000000";

/** The native options with which `--force-fresh` is accepted: none, or the least rights. Null: it is refused with both. */
export function anewWith(
  engine: Engine,
  run: RunRecord,
  found: readonly LookedUp[],
): readonly string[] | null {
  const ways = [[], ...(engine.narrowest === undefined ? [] : [engine.narrowest])];
  return ways.find((native) => mayBeginAnew(engine, run, found, native)) ?? null;
}

/** Would `--force-fresh` be accepted? Options and rights of the run may forbid it. */
export function mayBeginAnew(
  engine: Engine,
  run: RunRecord,
  found: readonly LookedUp[],
  native: readonly string[] = [],
): boolean {
  if (run.launch.redacted.length > 0) return false;
  try {
    engine.command({
      kind: "fresh",
      interactive: false,
      message: "go on",
      session: engine.can.chooseSession ? SOME_SESSION : null,
      forkTo: null,
      given: run.launch.given,
      givenHasNoPrompt: run.launch.message !== null,
      native,
      cwd: run.cwd,
      tag: `reprise-${run.handle}`,
      ...earlierRights(run, found),
      trustCwd: run.launch.trustCwd,
      ...folderIn(engine, run),
    });
    return true;
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

/** Whether the next attempt of a run opens the engine's UI. */
export function reopensUi(engine: Engine, run: RunRecord, wish: ResumeOptions): boolean {
  const wantsUi = wish.message === null && run.launch.interactive;
  if (wantsUi && wish.ui === undefined && !wish.hasTerminal) throw noTerminal(engine, run, wish);
  const interactive = wish.ui === true || wantsUi;
  if (interactive && !engine.can.interactive)
    throw new Fault("engine_cannot", `${engine.title} has no interactive UI.`);
  return interactive;
}

/** A person's conversation is not told to go on by itself because a terminal is missing. */
function noTerminal(engine: Engine, { handle }: RunRecord, wish: ResumeOptions): Fault {
  return new Fault(
    "usage",
    `Run ${handle} took place in the UI of ${engine.title}, which needs a terminal (and no --json). ` +
      `To go on without the UI, give a message: ${resumeCommand(handle, wish, ...optionsOf(wish))}`,
    { facts: { handle } },
  );
}

/** Runs of earlier versions do not say: they get no trust that their own options do not bring with them. */
export function folderIn(
  engine: Engine,
  { cwd, launch }: RunRecord,
): Pick<AttemptRequest, "folderTrust" | "folders"> {
  if (engine.folderTrust === undefined) return {};
  const folders = foldersIn(engine, { cwd, checkout: cwd, args: launch.given });
  return { folderTrust: launch.folderTrust ?? "unset", ...folders };
}
