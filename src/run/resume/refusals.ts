/** Decides whether the engine's store and the run's copies allow a resume, and makes the fault of a refusal. */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { readRecord } from "../../state/files.ts";
import { isDirectory } from "../../state/places.ts";
import { loadRunFile } from "../../state/runs.ts";
import { Fault, type FaultCode } from "../../core/faults.ts";
import { withLaterLabel } from "../../core/label.ts";
import type { RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine } from "../../engines/engine.ts";
import { type CheckedCopies, chosenCopy, type LookedUp, lookUp, usableCopies } from "../escrow/look-up.ts";
import { asksTrust, neverBegan, NOTHING_SAID, refusedStart } from "./never-began.ts";
import { candidates, isUnnamed } from "../conversation.ts";
import type { Deps } from "../deps.ts";
import { assertOwnWorkplace, cwdNow } from "../isolate.ts";
import { assertNothingRedacted } from "../launch.ts";
import { anewWith, mayBeginAnew } from "../new-run.ts";
import {
  adoptCommand,
  type ResumeDecision,
  isGone,
  type KnownSession,
  misfitFault,
  type OtherCopy,
  type ResumePlan,
  planResume,
  type ResumeRefusal,
  freshCommand,
  resumeCommand,
  type ResumeFacts,
} from "./plan.ts";
import type { ResumeOptions } from "./options.ts";

export async function possible(
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

/** The command that repeats a fork whose conversation is lost. Null: not a fork, or impossible. */
async function forkAgain(deps: Deps, run: RunRecord): Promise<string | null> {
  if (run.parent === undefined) return null;
  return (await import("./resumable.ts")).forkOfParent(deps, run);
}

/** The engine's message when it refused to begin a conversation in this run. Null: one may have begun. */
export async function refusalOf(deps: Deps, engine: Engine, run: RunRecord): Promise<string | null> {
  if (run.status !== "failed" || run.attempts === 0) return null;
  const said = refusedStart(run, await deps.store.listAttempts(run.runId));
  if (said === null) return null;
  const found = await lookUp(engine, run);
  return found.every(({ known }) => known.state === "absent") ? said : null;
}

/** Without a conversation, the run can only begin a new one. */
export async function refusalFor(
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

/** Whether the run would probably begin with `--force-fresh --trust-cwd`. `said`: the engine's refusal. */
export async function wantsOnlyTrust(engine: Engine, run: RunRecord, said: string): Promise<boolean> {
  if (!asksTrust(said) || run.launch.trustCwd) return false;
  const trusting = { ...run, launch: { ...run.launch, trustCwd: true } };
  return mayBeginAnew(engine, trusting, await lookUp(engine, run));
}

export async function assertUsable(run: RunRecord, { want }: ResumeOptions): Promise<void> {
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

/** Refuses a record of a newer Reprise, which an attempt would overwrite. A damaged record is written again. */
export async function assertKnownRecord(run: RunRecord): Promise<void> {
  const { runDirectory } = run;
  try {
    const written = readRecord(join(runDirectory, "run.json"));
    const now = JSON.parse(JSON.stringify(run)) as RunRecord;
    // A record that equals the index needs no schema, which is slow to load.
    if (written !== null && isDeepStrictEqual(withLaterLabel(written as unknown as RunRecord, now), now))
      return;
    await loadRunFile(runDirectory);
  } catch (error) {
    if (!(error instanceof Fault) || error.code === "schema_newer") throw error;
  }
}

export interface Prospect {
  readonly found: readonly LookedUp[];
  readonly facts: ResumeFacts;
  readonly decision: ResumeDecision;
  /** As far as they were checked. */
  readonly copies: CheckedCopies;
}

/** What the engine's store and the run's copies allow. */
export async function prospect(
  deps: Deps,
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
  const elsewhere = want === "fresh" ? [] : await inOtherRuns(deps, engine, run, { known, copies });
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
    ...(wish.supervised === undefined ? {} : { supervised: wish.supervised }),
    known,
    ...(misfit === undefined ? {} : { misfit }),
    ...(chosen === null && wish.session === undefined && isUnnamed(run) ? { unnamed: true } : {}),
    ...copies,
    kept: copies.kept.map(({ session }) => session),
    ...(elsewhere.length === 0 ? {} : { elsewhere }),
    ...(chosen === null ? {} : { chosen: true }),
    want,
    damage,
    ...(wish.session === undefined ? {} : { session: known[0]?.id ?? wish.session }),
  };
  return { found, facts, decision: planResume(facts), copies };
}

/** A session that the engine has lost or cut short may be longer in the directory of another run. */
async function inOtherRuns(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  { known, copies }: { readonly known: readonly KnownSession[]; readonly copies: CheckedCopies },
): Promise<readonly OtherCopy[]> {
  const ownOf = (id: string) =>
    copies.escrow === id ? run.escrow : (copies.kept.findLast(({ session }) => session === id) ?? null);
  const lost = known.filter(({ state }) => state !== "present" && state !== "unknown");
  if (lost.length === 0) return [];
  const { copiesElsewhere } = await import("../escrow/other-runs.ts");
  return copiesElsewhere(
    deps,
    engine,
    run,
    lost.map(({ id }) => ({ session: id, own: ownOf(id) })),
  );
}

function misfitOf({ session: { format } }: Engine, run: RunRecord): Pick<ResumeFacts, "misfit"> {
  const ids = candidates(run.sessions, run.session);
  const [newest] = ids;
  return newest === undefined || ids.some((id) => format.test(id)) ? {} : { misfit: newest };
}

export interface Obstacle extends Pick<ResumeRefusal, "code" | "why" | "ways"> {
  /** Native options with which `--force-fresh` would be accepted. Null: it would be refused. */
  readonly anew: readonly string[] | null;
  /** The command to type if nothing else helps. */
  readonly next?: string;
  /** No conversation ever began. */
  readonly unbegun?: true;
  /** The session in which the engine answered a fork instead of a copy. */
  readonly answered?: string;
}

/** Why a plain resume would be refused, apart from the current environment. Null: it would not be. */
export async function whatStandsInTheWay(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
): Promise<Obstacle | null> {
  assertOwnWorkplace(run);
  const { decision, found } = await prospect(deps, engine, run, {
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
  /** The command that repeats the fork. */
  readonly again: string | null;
  readonly anew: readonly string[] | null;
}

function refused(
  asked: ResumeFacts,
  { code, why, ways, facts, next }: ResumeRefusal,
  { again, anew }: Else,
): Fault {
  const { run } = asked;
  const { handle } = run;
  if (typeof asked.misfit === "string" && code === "config_invalid") return misfitFault(run, asked.misfit);
  const offered = ways.map(({ option, does }) => `\`${resumeCommand(handle, asked, option)}\` ${does}`);
  if (next !== undefined) offered.unshift(`\`${next}\` continues it there, from that copy`);
  if (again !== null) offered.push(`\`${again}\` repeats the fork`);
  const begin =
    anew === null
      ? `\`reprise start ${run.agentName} "…"\` starts a new run`
      : `\`${freshCommand(handle, anew)}\` starts a new conversation in the same run${anew.length === 0 ? "" : ", with the least rights, because the run's own are unknown"}`;
  return new Fault(code, `Run ${handle} cannot be resumed: ${why}. ${[...offered, begin].join("; ")}.`, {
    facts: { handle, ...facts },
  });
}

/** A program outside Reprise that has the conversation open would be a second writer. */
export async function assertNotOpenElsewhere(
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
