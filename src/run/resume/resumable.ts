/** Whether a run can be resumed, and what to type: every hint uses this file before it offers `reprise resume`. */
import { join } from "node:path";
import { assertReadableDirectory } from "../../state/directory.ts";
import { checkOwnDirectory } from "../../state/files.ts";
import { movedWords, stateOrigin } from "../../state/identity.ts";
import { isDirectory } from "../../state/places.ts";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import type { Engine } from "../../engines/engine.ts";
import { shellWord } from "../../lib/shell.ts";
import { beginInstead, isUnbegun, NEVER_STARTED, NOTHING_SAID, refusalWords } from "./never-began.ts";
import { type Obstacle, prospect, refusalOf, wantsOnlyTrust, whatStandsInTheWay } from "./refusals.ts";
import { type BatchLease, batchHoldOf, type Deps } from "../deps.ts";
import { allEngines, undefinedWords } from "../engine-setup.ts";
import { expectedEscrow } from "../escrow/escrow.ts";
import { assertOwnWorkplace, movedWith } from "../isolate.ts";
import { freshCommand, isGone } from "./plan.ts";

/** Why this run cannot be resumed, as the end of a sentence. Null: its record shows no reason. */
export function whyNotResumable(run: RunRecord): string | null {
  const { launch, sessions, session } = run;
  const [option] = launch.redacted;
  if (option !== undefined) return `it was started with a secret in ${option}, which is not stored`;
  if (launch.unresumable !== undefined) return launch.unresumable;
  if (run.empty === true) return NOTHING_SAID;
  const hasSession = session.value !== null || sessions.some(({ foreign }) => foreign === undefined);
  if (hasSession || run.status === "running") return null;
  return isUnbegun(run) ? NEVER_STARTED : "no session id is known";
}

/** How the run can continue. */
export interface ResumeOffer {
  /** Why `reprise resume` would be refused, as the end of a sentence. Null: no known reason. */
  readonly why: string | null;
  /** The command that continues the conversation, or comes nearest to it. */
  readonly next: string;
  /** No conversation ever began, even if the run has an id. */
  readonly unbegun?: true;
  /** Of a fork: the session in which the engine answered instead of a copy. */
  readonly answered?: string;
}

/**
 * Checks what a resume checks: the run directory, the engine's session and the run's copies. Conditions of the moment, such
 * as environment variables, are left to the resume.
 */
export async function offerFor(deps: Deps, run: RunRecord): Promise<ResumeOffer> {
  const bar = await barFor(deps, run);
  if (bar !== null) return bar;
  const { handle } = run;
  const why = whyNotResumable(run);
  const resume = `reprise resume ${handle} "…"`;
  if (run.status === "running") return { why, next: resume };
  const obstacle = await obstacleFor(deps, run);
  if (obstacle === null) return { why, next: why === null ? resume : `reprise logs ${handle}` };
  const { why: stands, unbegun, answered } = obstacle;
  return {
    why: stands,
    next: await wayAround(deps, run, obstacle),
    ...(unbegun === undefined ? {} : { unbegun }),
    ...(answered === undefined ? {} : { answered }),
  };
}

/** Why no conversation of the run can be resumed. Null: no such reason. */
async function barFor(deps: Deps, run: RunRecord): Promise<ResumeOffer | null> {
  const { handle, launch } = run;
  if (stateOrigin(deps.state, deps.machine)?.is === "copy")
    return { why: "its state directory is a copy", next: "reprise doctor --accept-copy" };
  if (!isDirectory(run.runDirectory))
    return { why: "its run directory is gone", next: `reprise rm ${handle}` };
  const held = await batchHoldOf(deps, run);
  if (held !== null) return { why: batchWords(held), next: `reprise stop ${handle}` };
  const why = whyNotResumable(run);
  // An empty conversation has nothing to show.
  if (run.empty === true && why !== null) return { why, next: `reprise rm ${handle}`, unbegun: true };
  if (launch.redacted.length > 0 || launch.unresumable !== undefined)
    return { why, next: `reprise logs ${handle}` };
  return null;
}

/** The conversation that a fork was made of. */
export interface ParentOffer {
  readonly handle: string;
  /** `reprise resume HANDLE`, with `--session` if the run has moved to another conversation. Null: no command leads there. */
  readonly resume: string | null;
  /** The parent run is gone. */
  readonly gone: boolean;
}

/** Null: not a fork. */
export async function parentOffer(deps: Deps, { parent }: RunRecord): Promise<ParentOffer | null> {
  if (parent === undefined) return null;
  const { handle, session } = parent;
  const origin = await deps.store.getRun(parent.runId).catch(() => null);
  if (origin === null) return { handle, resume: null, gone: true };
  const option = await optionTo(deps, origin, session);
  return { handle, resume: option === null ? null : `reprise resume ${handle}${option}`, gone: false };
}

/** The command that repeats the fork. Null: not a fork, or its parent cannot be resumed. */
export async function forkOfParent(deps: Deps, run: RunRecord): Promise<string | null> {
  const resume = (await parentOffer(deps, run))?.resume ?? null;
  return resume === null ? null : `${resume} --fork "…"`;
}

/** The options that a resume of this conversation needs. Null: it would be refused. */
async function optionTo(deps: Deps, run: RunRecord, session: string): Promise<string | null> {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  if (engine === undefined || !isDirectory(run.cwd) || (await barFor(deps, run)) !== null) return null;
  try {
    if ((await sessionToContinue(deps, engine, run)) === session) return "";
    return (await sessionToContinue(deps, engine, run, session)) === session ? ` --session ${session}` : null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

/** The session that a resume would continue, with or without `--session`. Null: it would be refused. */
async function sessionToContinue(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  session?: string,
): Promise<string | null> {
  assertOwnWorkplace(run);
  const wish = { want: "resume", damage: "refuse", home: run.engineHome } as const;
  const { decision } = await prospect(deps, engine, run, session === undefined ? wish : { ...wish, session });
  return decision.do === "continue" ? decision.session : null;
}

function batchWords({ batch, pid, issue, state }: BatchLease): string {
  return `batch ${batch} (pid ${pid}) works on its issue ${issue} (${state})`;
}

/** Null: a config file that is not trusted yet, or cannot be read, may define it. */
function undefinedEngine({ config }: Deps, { agentName, handle }: RunRecord): Obstacle | null {
  if (config.untrusted !== undefined || config.unread !== undefined) return null;
  const why = undefinedWords(agentName);
  return { why, code: "engine_unknown", ways: [], anew: null, next: `reprise logs ${handle}` };
}

/** Null: none. `deps` has the settings of the run's directory. */
async function obstacleFor(deps: Deps, run: RunRecord): Promise<Obstacle | null> {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  if (engine === undefined) return undefinedEngine(deps, run);
  const moved = movedWith(run);
  if (moved !== null) {
    const next = `${moved.back} && REPRISE_HOME=${shellWord(moved.from)} reprise resume ${run.handle} "…"`;
    return { why: `it works ${movedWords(moved)}`, code: "state_moved", ways: [], anew: null, next };
  }
  if (!isDirectory(run.cwd)) {
    const why = `its working directory is gone: ${run.cwd}`;
    return { why, code: "cwd_missing", ways: [], anew: null };
  }
  try {
    const refusal = await refusalOf(deps, engine, run);
    if (refusal !== null) return await refusedObstacle(engine, run, refusal);
    // After a crash, links may hold what no copy has.
    return await whatStandsInTheWay(deps, engine, await expectedEscrow(deps, run));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { why: error.message.replace(/\.$/, ""), code: error.code, ways: [], anew: null };
  }
}

async function refusedObstacle(engine: Engine, run: RunRecord, said: string): Promise<Obstacle> {
  const why = refusalWords(engine, said);
  const next = beginInstead(run, said, await wantsOnlyTrust(engine, run, said));
  return { why, code: "session_unknown", ways: [], anew: null, next, unbegun: true };
}

async function wayAround(deps: Deps, run: RunRecord, obstacle: Obstacle): Promise<string> {
  const { handle } = run;
  if (obstacle.next !== undefined) return obstacle.next;
  const [way] = obstacle.ways;
  if (way !== undefined) return `reprise resume ${handle} ${way.option} "…"`;
  if (!isGone(obstacle)) return isUnbegun(run) ? `reprise rm ${handle}` : `reprise logs ${handle}`;
  const again = await forkOfParent(deps, run);
  if (again !== null) return again;
  return obstacle.anew === null ? `reprise start ${run.agentName} "…"` : freshCommand(handle, obstacle.anew);
}

/** Without the run's directory an attempt cannot be recorded, so none starts. */
export function assertRunDirectory(run: RunRecord): void {
  const { handle, runDirectory, agentName, session } = run;
  if (checkOwnDirectory(runDirectory)) {
    // Unreadable copies can be neither compared nor kept, so the fault comes before the agent gets a message.
    assertReadableDirectory(join(runDirectory, "escrow"));
    return;
  }
  // Killed between the index and the directory: no caller got the handle, and no agent was started.
  if (isUnbegun(run))
    throw new Fault(
      "run_dir_missing",
      `Run ${handle} never began: its start was interrupted before the agent was started. Remove it: reprise rm ${handle}`,
      { facts: { handle, path: runDirectory } },
    );
  const adopt =
    session.value === null
      ? ""
      : ` Then \`reprise adopt ${agentName} ${session.value}\` makes a new run of the conversation, if the engine still has it.`;
  throw new Fault(
    "run_dir_missing",
    `The directory of run ${handle} is gone: ${runDirectory}. Nothing was started. ` +
      `Put the directory back, or remove what is left of the run: reprise rm ${handle}.${adopt}`,
    { facts: { handle, path: runDirectory } },
  );
}

/** The fault that ended an attempt, and how its run goes on. */
export async function withNextStep(deps: Deps, run: RunRecord, fault: Fault): Promise<Fault> {
  const { handle } = run;
  const { why } = await offerFor(deps, run);
  const next = why === null ? `Then: reprise resume ${handle}` : `It cannot be resumed: ${why}.`;
  return new Fault(fault.code, `${fault.message} ${next}`, {
    facts: { ...fault.facts, handle },
    cause: fault.cause,
  });
}
