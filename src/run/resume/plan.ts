/**
 * What a resume does: facts in, one plan out. Nothing has been started, restored or sent when this decides.
 */
import { type FaultFacts, Fault, type FaultCode } from "../../core/faults.ts";
import type { AttemptKind, AttemptRecord, RunRecord } from "../../core/records.ts";
import type { Located } from "../../engines/engine.ts";

export interface ResumeFacts {
  readonly run: RunRecord;
  readonly engine: {
    readonly title: string;
    readonly canFork: boolean;
    /** A copy goes back by the engine's own import, which adds what is missing and sets nothing aside. */
    readonly imports?: true;
  };
  readonly cwdExists: boolean;
  /** Where the path of the working directory leads now, symlinks resolved. Absent: it is not to be compared. */
  readonly cwdNow?: string;
  /** The engine home that an attempt would use now. */
  readonly home: string | null;
  /** It is the supervisor's environment that says so. */
  readonly supervised?: true;
  /** The run's session ids, newest first, with what the engine's store says of each. */
  readonly known: readonly KnownSession[];
  /** The newest id of the run, if none of its ids has the format that the engine's ids have now. */
  readonly misfit?: string;
  /** The newest conversation has no id that Reprise knows, and nobody chose an earlier one. */
  readonly unnamed?: true;
  /** The session of the copy in the run directory, if there is one and its checksum holds. */
  readonly escrow: string | null;
  /** The sessions of earlier copies that are whole and hold more than the engine's own session. Absent: none. */
  readonly kept?: readonly string[];
  /** Why the copy that is recorded cannot be used. Absent: it can be, or there is none. */
  readonly copyDamage?: string;
  /** Of earlier copies with words that the session lacks and that cannot be put back: why not. Absent: there are none. */
  readonly stuck?: readonly { readonly session: string; readonly why: string }[];
  readonly want: "resume" | "fork" | "fresh";
  /** The one session that the user asked for. Absent: the newest of `known` in which anything was said. */
  readonly session?: string;
  /** What the user says about a session that is damaged, or shorter than our copy. */
  readonly damage: "refuse" | "restore" | "ignore";
}

export interface KnownSession {
  readonly id: string;
  /** torn: there, but without all that our copy holds. */
  readonly state: "present" | "absent" | "torn" | "unusable" | "unknown";
  /** Where it was looked for, or why the engine will not continue it. */
  readonly note: string;
  readonly damaged?: boolean;
  /** No message is in it: without a copy that has some, nothing is left to decide about. */
  readonly blank?: true;
  /** As far as is known, nothing was ever said in it. */
  readonly silent?: true;
  /** torn: why the newest copy cannot put back what is missing. */
  readonly stuck?: string;
}

export function describeLocated(id: string, located: Located, engineHome: string): KnownSession {
  switch (located.state) {
    case "present":
      return { id, state: "present", note: located.files[0]?.path ?? engineHome };
    case "absent":
      return { id, state: "absent", note: `looked in ${located.searched}` };
    case "unusable": {
      const { why, path, damaged: isDamaged, blank } = located;
      const known = { id, state: "unusable", note: `${why} (${path})`, damaged: isDamaged } as const;
      return blank === undefined ? known : { ...known, blank };
    }
    case "unknown":
      return { id, state: "unknown", note: located.why };
  }
}

export type ResumePlan =
  | {
      readonly do: "continue";
      readonly session: string;
      /** The engine lost its copy; ours goes back first. */
      readonly restore: boolean;
      /** What goes back is an earlier copy, not the newest one. */
      readonly kept?: true;
      /** Newer ids of this run, of conversations that never began. */
      readonly passedOver: readonly string[];
    }
  | { readonly do: "fresh" };

/** The plan, or what stands in the way of it. */
export type ResumeDecision = ResumePlan | ResumeRefusal;

export interface ResumeRefusal {
  readonly do: "refuse";
  readonly code: FaultCode;
  /** As the end of a sentence about the run. */
  readonly why: string;
  /** Options of `resume` with which it goes on all the same, each with what it does. */
  readonly ways: readonly { readonly option: WayOption; readonly does: string }[];
  readonly facts: FaultFacts;
}

/** Neither the engine nor the run has the conversation. */
export function isGone({ code }: Pick<ResumeRefusal, "code">): boolean {
  return code === "session_lost" || code === "session_unknown";
}

type WayOption = "--restore-copy" | "--ignore-copy" | `--session ${string}`;

/** A resume as it is typed, of the same session and into a fork as what was asked for; `…` stands for the message. */
export function resumeCommand(
  handle: string,
  { want, session }: { readonly want: ResumeFacts["want"]; readonly session?: string | undefined },
  ...options: readonly string[]
): string {
  const chosen = session === undefined ? [] : ["--session", session];
  const fork = want === "fork" ? ["--fork"] : [];
  return ["reprise resume", handle, ...chosen, ...fork, ...options, '"…"'].join(" ");
}

/** A new conversation in the same run, with these native options. */
export function freshCommand(handle: string, native: readonly string[]): string {
  return ["reprise resume", handle, "--force-fresh", ...native.map((word) => `--native ${word}`), '"…"'].join(
    " ",
  );
}

/** The rest of the options that decide which conversation is gone on with. */
export function optionsOf(wish: Pick<ResumeFacts, "want" | "damage"> & { readonly copy?: string }): string[] {
  if (wish.want === "fresh") return ["--force-fresh"];
  if (wish.copy !== undefined) return ["--copy", wish.copy];
  return wish.damage === "refuse" ? [] : [`--${wish.damage}-copy`];
}

/**
 * A place that is gone or another one is a fault; a conversation that cannot be continued is a refusal. What is meant for the
 * newest conversation is told to no earlier one, unless nothing was ever said in the newest.
 */
export function planResume(facts: ResumeFacts): ResumeDecision {
  const { run } = facts;
  assertPlace(facts);
  if (facts.want === "fresh") return { do: "fresh" };
  if (facts.want === "fork" && !facts.engine.canFork) {
    throw new Fault("engine_cannot", `${facts.engine.title} cannot fork a session.`, {
      facts: { handle: run.handle },
    });
  }
  const answered = facts.session === undefined ? answeredIn(run) : null;
  const hasNone = facts.known.every(({ state, silent }) => state === "absent" && silent === true);
  if (answered !== null && hasNone) return elsewhere(facts, answered);
  if (facts.known.length === 0)
    return facts.misfit === undefined ? noSession(run) : misfitting(facts, facts.misfit);
  if (facts.unnamed === true) return unnamed(facts);
  const passedOver: string[] = [];
  for (const session of facts.known) {
    const going = { do: "continue", session: session.id, passedOver } as const;
    const restored = restoring(facts, session);
    if (session.state === "present" || session.state === "unknown") {
      if (facts.damage !== "restore") return { ...going, restore: false };
      if (restored !== null) return { ...going, ...restored };
      throw nothingToRestore(facts, session);
    }
    if (session.state === "absent" && restored !== null) return { ...going, ...restored };
    if (session.state === "torn" || session.damaged === true) {
      if (facts.damage === "restore" && restored !== null) return { ...going, ...restored };
      if (facts.damage === "ignore" && session.state === "torn") {
        return { ...going, restore: false };
      }
      const isLost = session.blank === true && restored === null;
      return isLost ? lost(facts, session) : damaged(facts, session, restored !== null);
    }
    if (session.silent !== true) return lost(facts, session);
    passedOver.push(session.id);
  }
  return lost(facts, facts.known[0]);
}

/** The newest copy goes back before earlier ones; of a session that is there, only an earlier one has more. */
function restoring(
  { escrow, kept = [] }: ResumeFacts,
  { id, state, stuck }: KnownSession,
): { readonly restore: true; readonly kept?: true } | null {
  const isThere = state === "present" || state === "unknown";
  if (escrow === id && !isThere && stuck === undefined) return { restore: true };
  return kept.includes(id) ? { restore: true, kept: true } : null;
}

function nothingToRestore({ run, engine, stuck = [] }: ResumeFacts, { id }: KnownSession): Fault {
  const reasons = stuck.filter(({ session }) => session === id).map(({ why }) => why);
  const why =
    reasons.length === 0
      ? `no whole copy in its directory holds more than ${engine.title}'s session ${id}`
      : reasons.join("; ");
  const what = reasons.length === 0 ? "nothing to restore" : "nothing that --restore-copy can put back";
  return new Fault(
    "copy_missing",
    `Run ${run.handle} has ${what}: ${why}. ` +
      `Nothing was started. Leave out --restore-copy to go on; \`reprise show ${run.handle}\` lists the copies.`,
    { facts: { handle: run.handle, session: id } },
  );
}

function assertPlace(facts: ResumeFacts): void {
  const { run, home } = facts;
  if (!facts.cwdExists) {
    throw new Fault(
      "cwd_missing",
      `The working directory of run ${run.handle} is gone: ${run.cwd}. Put it back, then resume again; a session continues only where it took place.`,
      { facts: { handle: run.handle, cwd: run.cwd } },
    );
  }
  if (facts.cwdNow !== undefined && facts.cwdNow !== run.cwd) {
    throw new Fault(
      "cwd_missing",
      `The working directory of run ${run.handle}, ${run.cwd}, is now a link to ${facts.cwdNow}. The agent would work there instead, with the rights it had for ${run.cwd}. ` +
        `Put the directory itself back, then resume again; or start a new run there: reprise start ${run.agentName} --cwd ${facts.cwdNow} "…"`,
      { facts: { handle: run.handle, cwd: run.cwd, now: facts.cwdNow } },
    );
  }
  // A home that is gone altogether has lost the session; the copy may still bring it back.
  if (run.engineHome === null || home === run.engineHome) return;
  const now = home ?? "unknown";
  throw new Fault(
    "engine_home_missing",
    `The engine home of run ${run.handle} is ${run.engineHome}, but ${facts.engine.title} would now use ${now}. ` +
      (facts.supervised === true
        ? inSupervisor(run, "set the environment as it was at the start")
        : "Set the environment as it was at the start, then resume again."),
    { facts: { handle: run.handle, recorded: run.engineHome, now } },
  );
}

/** What to do about an environment that no command of the user has. */
export function inSupervisor({ handle }: Pick<RunRecord, "handle">, change: string): string {
  return (
    "The supervisor starts later attempts of an agent, in the supervisor's own environment. " +
    `Run \`reprise daemon stop\`, ${change}, run \`reprise daemon start\`, then \`reprise agent resume ${handle}\`.`
  );
}

/** Of a run whose record says that it is empty. */
export const NOTHING_SAID = "its UI was closed before anything was said";

export const NEVER_STARTED = "its agent was never started";

/** An agent that was never started has no conversation. */
export function isUnbegun({ attempts, session }: Pick<RunRecord, "attempts" | "session">): boolean {
  return attempts === 0 && session.value === null;
}

/**
 * What the engine said when it refused the command line of every attempt, so that no conversation can have begun; null: one
 * may have. Whether its store has a session all the same is not asked here.
 */
export function refusedStart(run: RunRecord, attempts: readonly AttemptRecord[]): string | null {
  const { escrow, session, sessions, parent } = run;
  const isOurs = sessions.every(({ source }) => source === "chosen");
  if (escrow !== null || session.verifiedAt !== null || parent !== undefined || !isOurs) return null;
  const isRefused = ({ outcome, reported, tokens }: AttemptRecord) =>
    outcome?.result === "failed" &&
    outcome.trouble?.kind === "usage" &&
    reported.length === 0 &&
    tokens === null;
  if (attempts.length !== run.attempts || !attempts.every(isRefused)) return null;
  return attempts.at(-1)?.outcome?.trouble?.message ?? null;
}

/** As the end of a sentence about the run. */
export function refusalWords({ title }: { readonly title: string }, said: string): string {
  const what = asksTrust(said) ? "refused to start" : "refused its command line";
  return `no conversation ever began: ${title} ${what} (${said.replace(/\.$/, "")})`;
}

/** What begins where the engine refused to; `inRun`: this run may begin once the folder is trusted, with its options. */
export function beginInstead({ handle, agentName }: RunRecord, said: string, inRun: boolean): string {
  if (inRun) return `reprise resume ${handle} --force-fresh --trust-cwd "…"`;
  return `reprise start ${agentName}${asksTrust(said) ? " --trust-cwd" : ""} "…"`;
}

export const asksTrust = (said: string) => said.includes("--trust-cwd");

export function neverBegan(
  engine: { readonly title: string },
  run: RunRecord,
  said: string,
  inRun: boolean,
): Fault {
  const { handle } = run;
  const what = inRun ? "Begin in this run, with its options" : "Start a new run with the right options";
  return new Fault(
    "session_unknown",
    `Run ${handle} cannot be resumed: ${refusalWords(engine, said)}. ${what}: ${beginInstead(run, said, inRun)}`,
    { facts: { handle, refused: refusalWords(engine, said) } },
  );
}

function noSession(run: RunRecord): ResumeRefusal {
  const why = isUnbegun(run) ? NEVER_STARTED : "no session id is known";
  return { do: "refuse", code: "session_unknown", why, ways: [], facts: { missing: "session.value" } };
}

/** The session in which the engine answered a fork instead of a copy; null: it did not. */
function answeredIn({ parent, status, sessions }: RunRecord): string | null {
  if (parent === undefined || status !== "diverged") return null;
  return sessions.findLast(({ foreign }) => foreign === true)?.value ?? null;
}

function elsewhere({ engine: { title }, run }: ResumeFacts, answered: string): ResumeRefusal {
  const adopt = adoptCommand(run, answered);
  const why = `${title} answered in session ${answered} instead of a copy of the conversation; \`${adopt}\` leads to it`;
  return { do: "refuse", code: "session_lost", why, ways: [], facts: { answered } };
}

export function adoptCommand({ agentName }: Pick<RunRecord, "agentName">, session: string): string {
  return `reprise adopt ${agentName} ${session}`;
}

/** The settings are to be corrected, so no new conversation is offered. */
function misfitting({ run: { agentName } }: ResumeFacts, id: string): ResumeRefusal {
  return {
    do: "refuse",
    code: "config_invalid",
    why: misfitWords(agentName, id),
    ways: [],
    facts: { session: id, key: `engines.${agentName}.session.format` },
  };
}

export function misfitFault({ handle, agentName }: RunRecord, session: string): Fault {
  const what = `Run ${handle} cannot be resumed: ${misfitWords(agentName, session)}.`;
  return new Fault("config_invalid", what, { facts: { handle, session } });
}

function misfitWords(engine: string, id: string): string {
  return `its session id ${id} does not fit engines.${engine}.session.format of the config. Correct the format, then resume again`;
}

function lost(facts: ResumeFacts, session: KnownSession | undefined): ResumeRefusal {
  const { known } = facts;
  const copy =
    damagedCopy(facts) ??
    (facts.escrow === null
      ? "there is no copy in the run directory"
      : facts.escrow === session?.id
        ? "the copy in the run directory holds no more of it"
        : `the copy is of another session, ${facts.escrow}`);
  const verb = session?.state === "unusable" ? "cannot continue" : "does not have";
  const why = `${facts.engine.title} ${verb} session ${session?.id ?? ""} (${session?.note ?? ""}), and ${copy}`;
  const earlier = earlierThan(facts, session);
  return {
    do: "refuse",
    code: "session_lost",
    why,
    ways: earlier === null ? [] : [{ option: `--session ${earlier}`, does: EARLIER }],
    facts: { sessions: known.map(({ id }) => id), ...(earlier === null ? {} : { earlier }) },
  };
}

/** What is meant for a conversation without an id is told to no other one. */
function unnamed(facts: ResumeFacts): ResumeRefusal {
  const { engine, known, run } = facts;
  const earlier = known.find((session) => isReachable(facts, session))?.id ?? null;
  const why = `the id of its newest conversation is unknown: ${engine.title} named none (\`reprise show ${run.handle}\` lists the attempts)`;
  return {
    do: "refuse",
    code: "session_lost",
    why,
    ways: earlier === null ? [] : [{ option: `--session ${earlier}`, does: EARLIER }],
    facts: { sessions: known.map(({ id }) => id), unnamed: true, ...(earlier === null ? {} : { earlier }) },
  };
}

const EARLIER = "goes on in an earlier conversation of the run";

/** The newest one of the earlier conversations that `--session` would continue. */
function earlierThan(facts: ResumeFacts, lostOne: KnownSession | undefined): string | null {
  const earlier = lostOne === undefined ? [] : facts.known.slice(facts.known.indexOf(lostOne) + 1);
  return earlier.find((session) => isReachable(facts, session))?.id ?? null;
}

function isReachable(facts: ResumeFacts, session: KnownSession): boolean {
  const { state } = session;
  return (
    state === "present" || state === "unknown" || (state === "absent" && restoring(facts, session) !== null)
  );
}

function damagedCopy({ copyDamage }: ResumeFacts): string | null {
  return copyDamage === undefined ? null : `the run's copy of the session cannot be used: ${copyDamage}`;
}

/** Nothing is sent to a conversation that has lost a part of itself before the user has decided. */
function damaged(facts: ResumeFacts, session: KnownSession, hasCopy: boolean): ResumeRefusal {
  const { title } = facts.engine;
  const what =
    session.state === "torn"
      ? `${title}'s session ${session.id} lacks a part that the run's copy has (${session.note})`
      : `${title} cannot read session ${session.id}: ${session.note}`;
  const why = [what, session.stuck, damagedCopy(facts)].filter((part) => part != null).join("; ");
  const restore = {
    option: "--restore-copy",
    does:
      facts.engine.imports === true
        ? "puts back what is missing"
        : "puts the copy back and keeps the engine's file beside it",
  } as const;
  const ignore = { option: "--ignore-copy", does: "goes on with what is left" } as const;
  const ways = [...(hasCopy ? [restore] : []), ...(session.state === "torn" ? [ignore] : [])];
  const known = { session: session.id, ways: ways.map(({ option }) => option) };
  return { do: "refuse", code: "session_damaged", why, ways, facts: known };
}

/** A session that goes on when a person has said how: nobody begins another one in its place unasked. */
export function isUndecided({ code, facts: { ways, unnamed: isUnnamed } }: Fault): boolean {
  if (code === "session_lost") return isUnnamed === true;
  return code === "session_damaged" && Array.isArray(ways) && ways.length > 0;
}

/** The session lacks what its copy has, and the attempt goes on with it as it is. */
export function leavesCopy({ known }: ResumeFacts, plan: ResumePlan): boolean {
  if (plan.do === "fresh" || plan.restore) return false;
  return known.some(({ id, state }) => id === plan.session && state === "torn");
}

/** What the user should hear of a plan before it is carried out. */
export function notesFor(facts: ResumeFacts, plan: ResumePlan, kind: AttemptKind): readonly string[] {
  const { run } = facts;
  if (plan.do === "fresh") {
    const back = wayBack(facts);
    return [`starting a new conversation in run ${run.handle}${back === null ? "" : `; ${back}`}`];
  }
  const notes: string[] = [];
  if (plan.restore) notes.push(restoreNote(facts, plan.session));
  if (leavesCopy(facts, plan))
    notes.push(`going on with what is left of session ${plan.session}; ${copyStays(facts, plan.session)}`);
  if (kind === "fork") {
    const parent = plan.restore ? "gets its session back from the copy" : "stays as it is";
    notes.push(`the fork becomes a new run in the same directory, ${run.cwd}; run ${run.handle} ${parent}`);
  }
  return notes;
}

/** Which conversation goes on instead of the newest one; a part of the attempt's record. */
export function goingBack(plan: ResumePlan): readonly string[] {
  if (plan.do === "fresh" || plan.passedOver.length === 0) return [];
  const what = plan.passedOver.length === 1 ? "session" : "sessions";
  return [`${what} ${plan.passedOver.join(", ")} never began; going back to ${plan.session}`];
}

function copyStays({ run, known, session }: ResumeFacts, id: string): string {
  const stuck = known.find((one) => one.id === id)?.stuck;
  if (stuck !== undefined) return `the copy stays: ${stuck}`;
  return `the longer copy stays: \`${resumeCommand(run.handle, { want: "resume", session }, "--restore-copy")}\` puts it back`;
}

function restoreNote({ engine: { title }, known }: ResumeFacts, session: string): string {
  const state = known.find(({ id }) => id === session)?.state;
  const copy = "putting back the copy from the run directory";
  if (state === "absent") return `${title} has lost session ${session}; ${copy}`;
  if (state === "unusable") return `${title} cannot read session ${session}; ${copy}`;
  return `${title}'s session ${session} lacks a part that a copy of it has; ${copy}`;
}

/** How to return from a new conversation to the one that the run is in. Null: there is nothing to return to. */
function wayBack({ run, engine: { title }, known, escrow, kept = [] }: ResumeFacts): string | null {
  const session = known.find(({ id }) => id === run.session.value);
  if (session === undefined || run.launch.unresumable !== undefined || run.empty === true) return null;
  const { id, state, note } = session;
  const hasCopy = escrow === id || kept.includes(id);
  const back = (option: string) =>
    `\`reprise resume ${run.handle} --session ${id}${option} "…"\` returns to the earlier one`;
  if (state === "present" || state === "unknown" || (state === "absent" && hasCopy)) return back("");
  if (state === "torn")
    return back(hasCopy && session.stuck === undefined ? " --restore-copy" : " --ignore-copy");
  if (session.damaged === true && hasCopy) return back(" --restore-copy");
  return state === "absent"
    ? `neither ${title} nor the run has the earlier one, ${id}`
    : `${title} cannot continue the earlier one, ${id}: ${note}`;
}

export function oneOfThese({ handle }: RunRecord, ids: readonly string[], text: string): string {
  const fitting = ids.filter((id) => id === text || (text.length >= 8 && id.startsWith(text)));
  const [only] = fitting;
  if (only !== undefined && (fitting.length === 1 || fitting.includes(text)))
    return fitting.includes(text) ? text : only;
  const listed = ids.length === 0 ? "It has none." : `It has ${ids.slice(0, 10).join(", ")}.`;
  const isShort = text.length < 8 && ids.some((id) => id.startsWith(text));
  const what = isShort
    ? `Give the session in full, or its first 8 or more characters: ${text} is too short`
    : fitting.length > 1
      ? `Run ${handle} has ${fitting.length} sessions that begin with ${text.slice(0, 80)}`
      : `Run ${handle} has no session ${text.slice(0, 80)}`;
  throw new Fault("session_unknown", `${what}. ${listed}`, {
    facts: { handle, given: text.slice(0, 80) },
  });
}
