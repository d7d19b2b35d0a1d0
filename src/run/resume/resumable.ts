/**
 * Whether a run can be resumed, and what to type: every hint asks here before it offers `reprise resume`. Whether the run has
 * the only copy of a conversation: then it is not removed.
 */
import { join } from "node:path";
import {
  assertReadableDirectory,
  checkOwnDirectory,
  isDirectory,
  isEmptied,
  movedWords,
  stateOrigin,
} from "../../state/state.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine, Located } from "../../engines/engine.ts";
import { shellWord } from "../../lib/shell.ts";
import { copiesOf, copyId, damageOf, isElsewhere, lackedWith, copyName, whyStuck } from "../escrow/copies.ts";
import { type BatchLease, batchHoldOf, type Deps } from "../deps.ts";
import { allEngines, undefinedWords } from "../engine-setup.ts";
import { expectedEscrow } from "../escrow/escrow.ts";
import { assertOwnWorkplace, movedWith } from "../isolate.ts";
import {
  beginInstead,
  freshCommand,
  isGone,
  isUnbegun,
  NEVER_STARTED,
  NOTHING_SAID,
  refusalWords,
  resumeCommand,
} from "./plan.ts";
import { type Obstacle, prospect, refusalOf, wantsOnlyTrust, whatStandsInTheWay } from "./prepare.ts";

/** Why this run cannot be resumed, as the end of a sentence. Null: as far as its record tells, it can be. */
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

/** What goes on from here. */
export interface ResumeOffer {
  /** Why `reprise resume` would be refused, as the end of a sentence. Null: nothing that can be seen stands in its way. */
  readonly why: string | null;
  /** What to type: to continue the conversation, else the nearest thing to it. */
  readonly next: string;
  /** No conversation ever began: an id that the run has is that of none. */
  readonly unbegun?: true;
  /** Of a fork: the session in which the engine answered instead of a copy. */
  readonly answered?: string;
}

/**
 * Looks where a resume looks: at the run directory, the engine's session and the run's copy of it. What only counts at
 * the moment of a resume, such as variables that are set then, is left to it.
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

/** What keeps every conversation of a run from being resumed. Null: nothing does. */
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
  /** `reprise resume HANDLE`, with `--session` where the run has gone on elsewhere. Null: no command leads there. */
  readonly resume: string | null;
  /** The run is no longer there. */
  readonly gone: boolean;
}

/** Null: the run is no fork. */
export async function parentOffer(deps: Deps, { parent }: RunRecord): Promise<ParentOffer | null> {
  if (parent === undefined) return null;
  const { handle, session } = parent;
  const origin = await deps.store.getRun(parent.runId).catch(() => null);
  if (origin === null) return { handle, resume: null, gone: true };
  const option = await optionTo(deps, origin, session);
  return { handle, resume: option === null ? null : `reprise resume ${handle}${option}`, gone: false };
}

/** Makes a fork once more. Null: the run is no fork, or its parent cannot be resumed. */
export async function forkOfParent(deps: Deps, run: RunRecord): Promise<string | null> {
  const resume = (await parentOffer(deps, run))?.resume ?? null;
  return resume === null ? null : `${resume} --fork "…"`;
}

/** What a resume of this conversation of the run needs beside the handle; null: it would be refused. */
async function optionTo(deps: Deps, run: RunRecord, session: string): Promise<string | null> {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  if (engine === undefined || !isDirectory(run.cwd) || (await barFor(deps, run)) !== null) return null;
  try {
    if ((await sessionToContinue(engine, run)) === session) return "";
    return (await sessionToContinue(engine, run, session)) === session ? ` --session ${session}` : null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

/** The session that a resume would continue, a plain one or one with `--session`. Null: it would be refused. */
async function sessionToContinue(engine: Engine, run: RunRecord, session?: string): Promise<string | null> {
  assertOwnWorkplace(run);
  const wish = { want: "resume", damage: "refuse", home: run.engineHome } as const;
  const { decision } = await prospect(engine, run, session === undefined ? wish : { ...wish, session });
  return decision.do === "continue" ? decision.session : null;
}

function batchWords({ batch, pid, issue, state }: BatchLease): string {
  return `batch ${batch} (pid ${pid}) works on its issue ${issue} (${state})`;
}

/** Null: a file that nobody has trusted yet, or that cannot be read, may define it. */
function undefinedEngine({ config }: Deps, { agentName, handle }: RunRecord): Obstacle | null {
  if (config.untrusted !== undefined || config.unread !== undefined) return null;
  const why = undefinedWords(agentName);
  return { why, code: "engine_unknown", ways: [], anew: null, next: `reprise logs ${handle}` };
}

/** Null: there is none. `deps` has the settings of the run's directory. */
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
    const found = await whatStandsInTheWay(engine, run);
    if (found?.code !== "session_lost") return found;
    // After a crash, links may hold what no copy has.
    const expected = await expectedEscrow(deps, run);
    return expected === run ? found : await whatStandsInTheWay(engine, expected);
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

/** Without its directory an attempt could not be recorded, so none is begun. */
export function assertRunDirectory(run: RunRecord): void {
  const { handle, runDirectory, agentName, session } = run;
  if (checkOwnDirectory(runDirectory)) {
    // Copies that cannot be read can neither be compared nor kept, and that is known before the agent is told anything.
    assertReadableDirectory(join(runDirectory, "escrow"));
    return;
  }
  // Killed between the index and the directory: nobody was told of it, and no agent was started.
  if (isUnbegun(run))
    throw new Fault(
      "run_dir_missing",
      `Run ${handle} was never begun: its start was cut off before an agent was started. Remove it: reprise rm ${handle}`,
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

export interface OnlyCopy {
  /** As the end of a sentence about the run. */
  readonly why: string;
  /** What puts the copy back, and what that leads to, as a sentence without its end. */
  readonly way: string;
  /** What is lost with the run. */
  readonly lost: string;
}

/** The newest copy that would be lost with the run, and what else would be; null: the engine has everything that the copies hold. */
export async function conversationAtRisk(deps: Deps, run: RunRecord): Promise<OnlyCopy | null> {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  const { engineHome, runDirectory } = run;
  if (engine === undefined || engineHome === null || run.empty === true || !isDirectory(runDirectory))
    return null;
  // After a crash, links may hold what no copy has.
  const now = await expectedEscrow(deps, run);
  const risky: { copy: Escrow; located: Located; damage: string | null }[] = [];
  for (const copy of copiesOf(now).toReversed()) {
    const located = await engine.locate(copy.session, { home: engineHome, cwd: run.cwd }, sessionFiles());
    if (isEmptied(runDirectory, copy) || (await isSafe(engine, run, copy, located))) continue;
    risky.push({ copy, located, damage: await damageOf(run, copy) });
  }
  const first = risky.find(({ damage }) => damage === null) ?? risky[0];
  if (first === undefined) return null;
  const why = whatIsLost(engine, first.copy.session, first.located);
  const way =
    first.damage === null
      ? await wayBackTo(engine, now, first.copy, first.located)
      : `The copy is damaged, so Reprise does not put it back, but what is left of it can be read (${first.damage})`;
  const named = risky.map(({ copy }) => `copy ${copyName(copy)}`).join(" and ");
  return { why: `${why}, and a copy of it is in the run's directory`, way, lost: named };
}

/** What cannot be read may lack everything. */
async function isSafe(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<boolean> {
  try {
    return await isElsewhere(engine, run, copy, located);
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

function whatIsLost({ title }: Engine, session: string, located: Located): string {
  if (located.state === "absent") return `${title} no longer has session ${session}`;
  if (located.state === "unknown")
    return `nothing shows that ${title} still has session ${session} (${located.why})`;
  return `${title}'s session ${session} lacks a part that the run's copy has`;
}

async function wayBackTo(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<string> {
  const { session } = copy;
  const stuck = located.state === "present" ? await whyStuck(engine, run, copy) : null;
  if (stuck !== null) return `It cannot be put back: in copy ${copyId(copy).slice(0, 8)}, ${stuck}`;
  const isNewest = copy === run.escrow && session === run.session.value;
  const isLost = located.state === "absent" && isNewest;
  const options = isLost ? [] : isNewest ? ["--restore-copy"] : ["--copy", copyId(copy).slice(0, 8)];
  const way = `\`${resumeCommand(run.handle, { want: "resume" }, ...options)}\` puts it back`;
  const apart = await apartFrom(engine, run, copy, located);
  if (apart.length === 0) return way;
  const named = apart.map((other) => `copy ${copyName(other)}`).join(" and ");
  return `${way}, but then the session lacks what only ${named} holds: they went different ways, and a session holds one of them`;
}

/** Copies that the session would lack in their turn. An import adds to what is there; a file takes the place of another one. */
async function apartFrom(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<readonly Escrow[]> {
  if (engine.transfer !== undefined) return [];
  try {
    return await lackedWith(engine, run, copy, located);
  } catch (error) {
    if (error instanceof Fault) return [];
    throw error;
  }
}
