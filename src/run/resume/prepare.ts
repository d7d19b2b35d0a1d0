/**
 * From a run and a wish to the exact native command of its next attempt. Changes nothing and sends nothing,
 * so that `--dry-run` and a real resume are the same up to here.
 */
import type { Redact } from "../../lib/secrets.ts";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isDirectory, loadRunFile, readRecord } from "../../state/state.ts";
import { Fault, type FaultCode } from "../../core/faults.ts";
import type { AttemptKind, Escrow, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { AttemptRequest, Command, Engine, Located } from "../../engines/engine.ts";
import { keepNative } from "../../engines/engines.ts";
import {
  type CheckedCopies,
  chosenCopy,
  earlierRights,
  lacking,
  type LookedUp,
  lookUp,
  usableCopies,
} from "../escrow/copies.ts";
import { candidates, type ConversationRights, isUnnamed } from "../conversation.ts";
import type { Deps } from "../deps.ts";
import { engineOf, type EngineSetup, findEngine, setUpEngine } from "../engine-setup.ts";
import { assertOwnWorkplace, assertWorktree, cwdNow } from "../isolate.ts";
import {
  assertHiddenMessage,
  assertNothingRedacted,
  assertSameFolders,
  assertSameRights,
  recordedEnv,
  redactorFor,
  storableArgs,
} from "../launch.ts";
import { anewIn, anewWith, folderIn, mayBeginAnew, reopensUi } from "../new-run.ts";
import {
  adoptCommand,
  asksTrust,
  type ResumeDecision,
  goingBack,
  isGone,
  leavesCopy,
  misfitFault,
  neverBegan,
  NOTHING_SAID,
  notesFor,
  type ResumePlan,
  planResume,
  type ResumeRefusal,
  refusedStart,
  freshCommand,
  resumeCommand,
  type ResumeFacts,
} from "./plan.ts";

export const DEFAULT_MESSAGE = "Continue where you left off.";

export interface ResumeOptions {
  readonly want: "resume" | "fork" | "fresh";
  /** Which of the run's sessions: an id, or its first 8 or more characters. Absent: the newest in which anything was said. */
  readonly session?: string;
  /** What to do about a session that is damaged, or shorter than our copy. */
  readonly damage: "refuse" | "restore" | "ignore";
  /** Which copy goes back: 8 or more characters of its id, as `show` prints it. Absent: the newest that has more. */
  readonly copy?: string;
  /** Null: the UI again if the run was interactive, which needs a terminal; else `DEFAULT_MESSAGE`. */
  readonly message: string | null;
  readonly native: readonly string[];
  /**
   * Behind the config's: what a run begins with whose engine has refused its command line, so that no conversation ever
   * began. Absent: what it was started with. Any other run keeps its options.
   */
  readonly anew?: readonly string[];
  /** Makes `native` the run's own from now on. A new conversation keeps what it begins with in any case. */
  readonly keep: boolean;
  readonly env: readonly (readonly [string, string])[];
  /** Variables of the engine that Reprise does not know may differ from those of the start. */
  readonly allowEnv?: true;
  /** Files that decide on the run's rights may differ from those of the start. */
  readonly allowFiles?: true;
  /** The supervisor asks, and the environment is its own. */
  readonly supervised?: true;
  readonly hasTerminal: boolean;
  /** Opens the engine's UI, also for a message and for nobody who looks at it yet. */
  readonly ui?: true;
  readonly trustCwd: boolean;
  /** Talks with the agent while it works. Absent: it works alone. */
  readonly dialogue?: AttemptRequest["dialogue"];
  /** The id of the run that a fork becomes. Absent: nobody runs it (`--dry-run`). */
  readonly forkAs?: string;
}

export interface PreparedResume {
  /** With `native` merged in when it is to be kept. */
  readonly run: RunRecord;
  readonly setup: EngineSetup;
  readonly plan: ResumePlan;
  /** The copy that goes back; null: none does. */
  readonly copy: Escrow | null;
  /** What was said and is not in that copy, one sentence each. */
  readonly lacks: readonly string[];
  /** The session lacks what its copy has, and the attempt goes on with it as it is. */
  readonly leavesCopy: boolean;
  readonly command: Command;
  readonly kind: AttemptKind;
  readonly interactive: boolean;
  readonly message: string | null;
  /** What the user should hear before it runs. */
  readonly notes: readonly string[];
}

export async function prepareResume(
  deps: Deps,
  recorded: RunRecord,
  wish: ResumeOptions,
): Promise<PreparedResume> {
  const engine = engineOf(deps, recorded);
  await assertUsable(recorded, wish);
  assertOwnWorkplace(recorded);
  const env = recordedEnv(recorded, deps.env, wish.env, wish.supervised);
  const setup = setUpEngine(deps, engine, env);
  assertSameRights(engine, recorded, { ...wish, env: setup.env });
  const refusal = await refusalFor(deps, engine, recorded, wish);
  const run = refusal === null ? recorded : anewIn(setup, recorded, wish);
  const seen = await prospect(engine, run, { ...wish, home: setup.home });
  const plan = await possible(deps, engine, run, seen);
  assertWorktree(engine, run, goesOn(seen.found, plan));
  if (plan.do === "continue") await assertNotOpenElsewhere(deps, engine, run, plan.session);
  const interactive = reopensUi(engine, run, wish);
  const message = interactive ? wish.message : (wish.message ?? DEFAULT_MESSAGE);
  const kind: AttemptKind = plan.do === "fresh" ? "fresh" : wish.want === "fork" ? "fork" : "resume";
  const trustCwd = trusts(run, wish);
  const ask: AttemptRequest = {
    kind,
    interactive,
    message,
    ...sessionsFor(deps, engine, plan, kind),
    given: run.launch.given,
    givenHasNoPrompt: run.launch.message !== null,
    native: wish.native,
    cwd: run.cwd,
    tag: tagOf(run, wish),
    ...{ ...held(deps, rightsOf(run, seen, plan)), ...folderIn(engine, run) },
    trustCwd,
    ...(wish.ui === true ? { watched: true } : {}),
    ...(wish.dialogue === undefined ? {} : { dialogue: wish.dialogue }),
  };
  const copy = copyFor(run, seen, plan);
  const lacks = await missingIn(deps, run, seen, copy);
  const command = warning(engine.command(ask), [...goingBack(plan), ...lacks]);
  assertSameFolders(engine, run, command, { ...wish, env: setup.env });
  const redact = redactorFor(setup.env, env);
  assertHiddenMessage(command, message, redact);
  const launch = keeps(wish, plan) ? keptLaunch(engine, run, wish.native, redact) : run.launch;
  return {
    run: { ...run, launch: { ...launch, trustCwd, ...lasting(command, refusal) } },
    setup,
    plan,
    copy,
    lacks,
    leavesCopy: leavesCopy(seen.facts, plan),
    command,
    kind,
    interactive,
    message,
    notes: [
      ...(refusal === null ? notesFor(seen.facts, plan, kind) : [`beginning in run ${run.handle}`]),
      ...(wish.trustCwd && !trustCwd ? distrust(engine, run, ask, command) : []),
    ],
  };
}

function sessionsFor(
  deps: Deps,
  { can: { chooseSession } }: Engine,
  plan: ResumePlan,
  kind: AttemptKind,
): Pick<AttemptRequest, "session" | "forkTo"> {
  const forkTo = kind === "fork" && chooseSession ? deps.newSessionId() : null;
  if (plan.do === "continue") return { session: plan.session, forkTo };
  return { session: chooseSession ? deps.newSessionId() : null, forkTo };
}

function warning(command: Command, more: readonly string[]): Command {
  return more.length === 0 ? command : { ...command, warnings: [...more, ...(command.warnings ?? [])] };
}

async function missingIn(
  deps: Deps,
  run: RunRecord,
  { found }: Prospect,
  copy: Escrow | null,
): Promise<readonly string[]> {
  if (copy === null) return [];
  const located = found.find(({ known }) => known.id === copy.session)?.located;
  if (located === undefined) return [];
  const attempts = await deps.store.listAttempts(run.runId);
  return lacking(findEngine(deps, run.agentName), run, copy, { located, attempts });
}

async function possible(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  { facts, found, decision, copies: { copyDamage } }: Prospect,
): Promise<ResumePlan> {
  if (decision.do === "refuse") {
    const again = isGone(decision) ? await forkAgain(deps, run) : null;
    throw refused(facts, decision, { again, anew: anewWith(engine, run, found) });
  }
  const { unresumable } = run.launch;
  if (decision.do === "fresh" && unresumable !== undefined && !mayBeginAnew(engine, run, found))
    throw startAnother("option_unkept", run, `cannot begin a new conversation: ${unresumable}`);
  if (copyDamage !== undefined) deps.log.warn(`the run's copy of the session cannot be used: ${copyDamage}`);
  return decision;
}

/** A fork whose conversation is gone is made once more of the one that it was made of. Null: it is no fork, or cannot be. */
async function forkAgain(deps: Deps, run: RunRecord): Promise<string | null> {
  if (run.parent === undefined) return null;
  return (await import("./resumable.ts")).forkOfParent(deps, run);
}

/** What the engine said when it refused to begin a conversation in this run; null: one may have begun. */
export async function refusalOf(deps: Deps, engine: Engine, run: RunRecord): Promise<string | null> {
  if (run.status !== "failed" || run.attempts === 0) return null;
  const said = refusedStart(run, await deps.store.listAttempts(run.runId));
  if (said === null) return null;
  const found = await lookUp(engine, run);
  return found.every(({ known }) => known.state === "absent") ? said : null;
}

/** Where no conversation ever began, only a new one can. */
async function refusalFor(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  { want }: ResumeOptions,
): Promise<string | null> {
  const said = await refusalOf(deps, engine, run);
  if (said !== null && want !== "fresh")
    throw neverBegan(engine, run, said, await wantsOnlyTrust(engine, run, said));
  return said;
}

/** Would the run begin with `--force-fresh --trust-cwd`, as far as Reprise can tell? `said`: what the engine refused it with. */
export async function wantsOnlyTrust(engine: Engine, run: RunRecord, said: string): Promise<boolean> {
  if (!asksTrust(said) || run.launch.trustCwd) return false;
  const trusting = { ...run, launch: { ...run.launch, trustCwd: true } };
  return mayBeginAnew(engine, trusting, await lookUp(engine, run));
}

/** A run that only now begins may begin with an option that forbids its resume. */
function lasting({ ephemeral }: Command, refusal: string | null): Pick<RunRecord["launch"], "unresumable"> {
  return refusal === null || ephemeral === undefined ? {} : { unresumable: ephemeral };
}

function goesOn(found: readonly LookedUp[], plan: ResumePlan): Located | undefined {
  return found.find(({ known }) => plan.do === "continue" && known.id === plan.session)?.located;
}

/** Trust is a right (I12): it comes with the first attempt, which of an adopted run is yet to be made. */
function trusts({ attempts, launch }: RunRecord, { trustCwd }: ResumeOptions): boolean {
  return launch.trustCwd || (trustCwd && attempts === 0);
}

/** Said where trust would have made a difference to the engine. */
function distrust(
  engine: Engine,
  { handle }: RunRecord,
  ask: AttemptRequest,
  command: Command,
): readonly string[] {
  const trusting = engine.command({ ...ask, trustCwd: true });
  const started = ({ args, env }: Command) => JSON.stringify([args, env]);
  if (started(trusting) === started(command)) return [];
  return [
    `run ${handle} was started without --trust-cwd, so it has no effect on this attempt; start a new run to let ${engine.title} trust the folder`,
  ];
}

async function assertUsable(run: RunRecord, { want }: ResumeOptions): Promise<void> {
  await assertKnownRecord(run);
  assertNothingRedacted(run);
  const why = run.launch.unresumable ?? (run.empty === true ? NOTHING_SAID : null);
  if (why === null || want === "fresh") return;
  throw startAnother("session_unknown", run, `cannot be resumed: ${why}`);
}

function startAnother(code: FaultCode, { handle, agentName }: RunRecord, what: string): Fault {
  return new Fault(code, `Run ${handle} ${what}. Start a new run instead: reprise start ${agentName} "…"`, {
    facts: { handle },
  });
}

/** An attempt would write over what a newer Reprise has recorded. A damaged record is written again. */
export async function assertKnownRecord(run: RunRecord): Promise<void> {
  const { runDirectory } = run;
  try {
    const written = readRecord(join(runDirectory, "run.json"));
    // What the index says as well needs no schema, which is slow to load.
    if (isDeepStrictEqual(written, JSON.parse(JSON.stringify(run)))) return;
    await loadRunFile(runDirectory);
  } catch (error) {
    if (!(error instanceof Fault) || error.code === "schema_newer") throw error;
  }
}

function tagOf(run: RunRecord, { forkAs }: ResumeOptions): string {
  return forkAs === undefined ? `reprise-${run.handle}-${run.attempts + 1}` : `reprise-${forkAs.slice(-8)}-1`;
}

/** What a conversation begins with is what all its later attempts are held to. */
function keeps({ keep, native }: ResumeOptions, plan: ResumePlan): boolean {
  return keep || (plan.do === "fresh" && native.length > 0);
}

/** The run's options with those of this attempt, which stay from now on. */
function keptLaunch(
  engine: Engine,
  run: RunRecord,
  native: readonly string[],
  redact: Redact,
): RunRecord["launch"] {
  const given = keepNative(engine, run.launch.given, native, run.launch.message !== null);
  const { args, redacted } = storableArgs(given, redact, engine);
  return { ...run.launch, given: args, redacted };
}

interface Prospect {
  readonly found: readonly LookedUp[];
  readonly facts: ResumeFacts;
  readonly decision: ResumeDecision;
  /** As far as they had to be looked at. */
  readonly copies: CheckedCopies;
}

/** What the engine's store and the run's copy allow. */
export async function prospect(
  engine: Engine,
  run: RunRecord,
  wish: Pick<ResumeOptions, "want" | "damage" | "session" | "copy" | "supervised"> & {
    readonly home: string | null;
  },
): Promise<Prospect> {
  const { want, damage, home } = wish;
  const { misfit } = misfitOf(engine, run);
  if (misfit !== undefined && wish.session !== undefined) throw misfitFault(run, misfit);
  const chosen = wish.copy === undefined ? null : chosenCopy(run, wish.copy, wish.session);
  const found = await lookUp(engine, run, chosen?.session ?? wish.session);
  const known = found.map(({ known: session }) => session);
  const isThere = known.every(({ state }) => state === "present" || state === "unknown");
  const copies =
    isThere && damage !== "restore"
      ? { escrow: null, kept: [] }
      : await usableCopies(engine, run, found, chosen);
  const facts: ResumeFacts = {
    run,
    engine: {
      title: engine.title,
      canFork: engine.can.fork,
      ...(engine.transfer === undefined ? {} : { imports: true }),
    },
    cwdExists: isDirectory(run.cwd),
    ...cwdNow(run),
    home,
    ...(wish.supervised === true ? { supervised: true } : {}),
    known,
    ...misfitOf(engine, run),
    ...(chosen === null && wish.session === undefined && isUnnamed(run) ? { unnamed: true } : {}),
    ...copies,
    kept: copies.kept.map(({ session }) => session),
    want,
    damage,
    ...(wish.session === undefined ? {} : { session: known[0]?.id ?? wish.session }),
  };
  return { found, facts, decision: planResume(facts), copies };
}

function misfitOf({ session: { format } }: Engine, run: RunRecord): Pick<ResumeFacts, "misfit"> {
  const ids = candidates(run.sessions, run.session);
  const [newest] = ids;
  return newest === undefined || ids.some((id) => format.test(id)) ? {} : { misfit: newest };
}

function copyFor(run: RunRecord, { copies }: Prospect, plan: ResumePlan): Escrow | null {
  if (plan.do === "fresh" || !plan.restore) return null;
  if (plan.kept === undefined) return run.escrow;
  return copies.kept.findLast(({ session }) => session === plan.session) ?? null;
}

export interface Obstacle extends Pick<ResumeRefusal, "code" | "why" | "ways"> {
  /** Native options with which `--force-fresh` would be accepted. Null: it would be refused. */
  readonly anew: readonly string[] | null;
  /** What to type, where nothing else helps. */
  readonly next?: string;
  /** No conversation ever began. */
  readonly unbegun?: true;
  /** The session in which the engine answered a fork instead of a copy. */
  readonly answered?: string;
}

/** What stands in the way of a plain resume, whatever the environment of the day is. Null: nothing. */
export async function whatStandsInTheWay(engine: Engine, run: RunRecord): Promise<Obstacle | null> {
  assertOwnWorkplace(run);
  const { decision, found } = await prospect(engine, run, {
    want: "resume",
    damage: "refuse",
    home: run.engineHome,
  });
  if (decision.do !== "refuse") return null;
  const began = found.some(({ known }) => known.silent !== true || known.damaged === true);
  const { answered } = decision.facts;
  if (typeof answered === "string")
    return { ...decision, anew: null, next: adoptCommand(run, answered), answered };
  const unbegun = found.length === 0 || began || isUnnamed(run) ? {} : { unbegun: true as const };
  return { ...decision, anew: anewWith(engine, run, found), ...unbegun };
}

interface Else {
  /** Makes a fork once more. */
  readonly again: string | null;
  readonly anew: readonly string[] | null;
}

function refused(
  asked: ResumeFacts,
  { code, why, ways, facts }: ResumeRefusal,
  { again, anew }: Else,
): Fault {
  const { run } = asked;
  const { handle } = run;
  if (typeof asked.misfit === "string" && code === "config_invalid") return misfitFault(run, asked.misfit);
  const offered = ways.map(({ option, does }) => `\`${resumeCommand(handle, asked, option)}\` ${does}`);
  if (again !== null) offered.push(`\`${again}\` makes the fork once more`);
  const begin =
    anew === null
      ? `\`reprise start ${run.agentName} "…"\` starts a new run`
      : `\`${freshCommand(handle, anew)}\` starts anew in the same run${anew.length === 0 ? "" : ", with the least rights, as its own cannot be told"}`;
  return new Fault(code, `Run ${handle} cannot be resumed: ${why}. ${[...offered, begin].join("; ")}.`, {
    facts: { handle, ...facts },
  });
}

function held(deps: Deps, known: ConversationRights): ConversationRights & Pick<AttemptRequest, "nonce"> {
  return known.rights === undefined ? known : { ...known, nonce: deps.newSessionId().replaceAll("-", "") };
}

/** From the engine's own session, or from our copy of it when that goes back. */
function rightsOf(run: RunRecord, seen: Prospect, plan: ResumePlan): ConversationRights {
  const { found } = seen;
  if (plan.do === "fresh") return earlierRights(run, found);
  if (!plan.restore) return found.find(({ known }) => known.id === plan.session)?.rights ?? {};
  const rights = copyFor(run, seen, plan)?.rights;
  return rights === undefined ? { rightsUnknown: "the run's copy of it does not say" } : { rights };
}

/** A program outside Reprise that has the conversation open would be a second writer. */
async function assertNotOpenElsewhere(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  session: string,
): Promise<void> {
  if (engine.holders === undefined || run.engineHome === null) return;
  const hints = await engine.holders(session, { home: run.engineHome, cwd: run.cwd }, sessionFiles());
  const live = hints.find(({ pid, start }) => {
    const identity = deps.processes.identify(pid);
    return identity !== null && (start === null || start === identity.start);
  });
  if (live === undefined) return;
  throw new Fault(
    "session_busy",
    `${engine.title} has session ${session} open in another process (pid ${live.pid}). Close it there, then resume again.`,
    { facts: { handle: run.handle, session, pid: live.pid } },
  );
}
