/**
 * Decides what a resume does: facts in, one plan out. Pure: nothing is started, restored or sent yet.
 */
import { type FaultFacts, Fault, type FaultCode } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import type { Located } from "../../engines/engine.ts";
import { isUnbegun, NEVER_STARTED } from "./never-began.ts";

export interface ResumeFacts {
  readonly run: RunRecord;
  readonly engine: {
    readonly title: string;
    readonly canFork: boolean;
    /** The engine's own import restores a copy. It adds missing parts and sets nothing aside. */
    readonly imports?: true;
  };
  readonly cwdExists: boolean;
  /** The working directory's path now, symlinks resolved. Absent: not compared. */
  readonly cwdNow?: string;
  /** The engine home that an attempt would use now. */
  readonly home: string | null;
  /** The daemon resumes, in the daemon's environment. */
  readonly supervised?: DaemonWork;
  /** The run's sessions, newest first, with their state in the engine's store. */
  readonly known: readonly KnownSession[];
  /** The run's newest id, if none of its ids fits the engine's current format. */
  readonly misfit?: string;
  /** The newest conversation has no known id, and the user chose no earlier one. */
  readonly unnamed?: true;
  /** The session of the run's newest copy. Null: no copy, or a damaged one. */
  readonly escrow: string | null;
  /** The sessions of earlier copies that are whole and hold more than the engine's own session. Absent: none. */
  readonly kept?: readonly string[];
  /** Why the recorded copy cannot be used. Absent: usable, or no copy. */
  readonly copyDamage?: string;
  /** Why earlier copies with text that the session lacks cannot be restored. Absent: no such copies. */
  readonly stuck?: readonly { readonly session: string; readonly why: string }[];
  /** Copies of other runs with something that no usable copy of this run has. Absent: none. */
  readonly elsewhere?: readonly OtherCopy[];
  /** The user named the copy to restore. */
  readonly chosen?: true;
  readonly want: "resume" | "fork" | "fresh";
  /** The session that the user asked for. Absent: the newest of `known` with a message. */
  readonly session?: string;
  /** The user's decision about a session that is damaged, or shorter than the run's copy. */
  readonly damage: "refuse" | "restore" | "ignore";
}

/** Another run's copy of one of the sessions. */
export interface OtherCopy {
  readonly session: string;
  readonly handle: string;
  readonly takenAt: string;
  /** The id that `--copy` of that run takes. Absent: a plain resume of that run restores it. */
  readonly copy?: string;
  /** The id of the copy of this run. Null: none that is whole. */
  readonly own: string | null;
  /** It holds everything in that copy. */
  readonly holdsOwn: boolean;
}

export interface KnownSession {
  readonly id: string;
  /** torn: present, but without a part that the run's copy has. */
  readonly state: "present" | "absent" | "torn" | "unusable" | "unknown";
  /** Where Reprise looked for it, or why the engine cannot continue it. */
  readonly note: string;
  readonly damaged?: boolean;
  /** It has no message. Without a copy that has one, the conversation is lost. */
  readonly blank?: true;
  /** As far as Reprise knows, it never had a message. */
  readonly silent?: true;
  /** torn: why the newest copy cannot restore the missing part. */
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
      /** Restores the run's copy first, because the engine lost the session. */
      readonly restore: boolean;
      /** Restores an earlier copy, not the newest one. */
      readonly kept?: true;
      /** Newer ids of this run whose conversations never began. */
      readonly passedOver: readonly string[];
    }
  | { readonly do: "fresh" };

/** The plan, or why there can be none. */
export type ResumeDecision = ResumePlan | ResumeRefusal;

export interface ResumeRefusal {
  readonly do: "refuse";
  readonly code: FaultCode;
  /** As the end of a sentence about the run. */
  readonly why: string;
  /** Options of `resume` that help, each with its effect. */
  readonly ways: readonly { readonly option: WayOption; readonly does: string }[];
  readonly facts: FaultFacts;
  /** The command that leads to the conversation in another run. */
  readonly next?: string;
}

/** Neither the engine nor the run has the conversation. */
export function isGone({ code }: Pick<ResumeRefusal, "code">): boolean {
  return code === "session_lost" || code === "session_unknown";
}

type WayOption = "--restore-copy" | "--ignore-copy" | `--session ${string}` | `--copy ${string}`;

/** The resume command for the same session, with `--fork` if a fork was asked for. `…` stands for the message. */
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

/** The other options that decide which conversation continues. */
export function optionsOf(wish: Pick<ResumeFacts, "want" | "damage"> & { readonly copy?: string }): string[] {
  if (wish.want === "fresh") return ["--force-fresh"];
  if (wish.copy !== undefined) return ["--copy", wish.copy];
  return wish.damage === "refuse" ? [] : [`--${wish.damage}-copy`];
}

/**
 * A missing or different directory is a fault; a conversation that cannot continue is a refusal. A message for the newest
 * conversation goes to an earlier one only if the newest never had a message.
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
    const other = facts.elsewhere?.find((one) => one.session === session.id);
    const mayRestore = facts.chosen !== true && (facts.damage !== "ignore" || session.state !== "torn");
    if (other !== undefined && mayRestore) return inOtherRun(facts, session, other);
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

/** Prefers the newest copy. For a session that is present, only an earlier copy can have more. */
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
      ? `no intact copy has more than ${engine.title}'s session ${id}`
      : reasons.join("; ");
  const what = reasons.length === 0 ? "nothing to restore" : "nothing that --restore-copy can restore";
  return new Fault(
    "copy_missing",
    `Run ${run.handle} has ${what}: ${why}. ` +
      `Nothing was started. Leave out --restore-copy to continue; \`reprise show ${run.handle}\` lists the copies.`,
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
  // If the whole home is gone, the copy may still restore the session.
  if (run.engineHome === null || home === run.engineHome) return;
  const now = home ?? "unknown";
  throw new Fault(
    "engine_home_missing",
    `The engine home of run ${run.handle} is ${run.engineHome}, but ${facts.engine.title} would now use ${now}. ` +
      (facts.supervised !== undefined
        ? inSupervisor(run, facts.supervised, "set the environment as it was at the start")
        : "Set the environment as it was at the start, then resume again."),
    { facts: { handle: run.handle, recorded: run.engineHome, now } },
  );
}

/** What the daemon resumes: a supervised agent, or any run at a set time. */
export type DaemonWork = "agent" | "schedule";

/** Advice about the daemon's environment, which no command of the user has. */
export function inSupervisor(
  { handle }: Pick<RunRecord, "handle">,
  work: DaemonWork,
  change: string,
): string {
  if (work === "schedule")
    return (
      "The daemon starts a scheduled resume, in the daemon's own environment. " +
      `Run \`reprise daemon stop\`, ${change}, then schedule it again, which starts the daemon: \`reprise resume ${handle} --at TIME "…"\`. ` +
      `Or resume it now, in your own environment: \`reprise resume ${handle} "…"\`.`
    );
  return (
    "The supervisor starts later attempts of an agent, in the supervisor's own environment. " +
    `Run \`reprise daemon stop\`, ${change}, run \`reprise daemon start\`, then \`reprise agent resume ${handle}\`.`
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

/** The user must correct the settings, so Reprise offers no new conversation. */
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

/** A message for a conversation without an id goes to no other one. */
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

const EARLIER = "continues an earlier conversation of the run";

/** The newest earlier conversation that `--session` would continue. */
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

/** Reprise sends nothing to a conversation that has lost a part until the user decides. */
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
        ? "restores the missing parts"
        : "restores the copy and keeps the engine's file beside it",
  } as const;
  const ignore = { option: "--ignore-copy", does: "continues with the rest" } as const;
  const ways = [...(hasCopy ? [restore] : []), ...(session.state === "torn" ? [ignore] : [])];
  const known = { session: session.id, ways: ways.map(({ option }) => option) };
  return { do: "refuse", code: "session_damaged", why, ways, facts: known };
}

/** Reprise restores no copy while another run has more of the conversation: the user would continue the shorter one. */
function inOtherRun(facts: ResumeFacts, session: KnownSession, other: OtherCopy): ResumeRefusal {
  const { engine, want } = facts;
  const { id, state, note } = session;
  const { own } = other;
  const what =
    state === "torn"
      ? `${engine.title}'s session ${id} lacks a part that copies of it have (${note})`
      : `${engine.title} ${state === "absent" ? "does not have" : "cannot read"} session ${id} (${note})`;
  const more =
    own === null
      ? ""
      : other.holdsOwn
        ? ", longer than the copy of this run"
        : ", with text that the copy of this run lacks";
  const ways = [
    ...(own === null
      ? []
      : [{ option: `--copy ${own}`, does: "restores the copy of this run, without the rest" } as const]),
    ...(state === "torn" ? [{ option: "--ignore-copy", does: "continues with the rest" } as const] : []),
  ];
  const next = resumeCommand(
    other.handle,
    { want, session: other.copy === undefined ? undefined : id },
    ...(other.copy === undefined ? [] : ["--copy", other.copy]),
  );
  const why = `${what}, and run ${other.handle} has a copy of it${more} (made ${other.takenAt})`;
  const known = { session: id, other: other.handle, ways: [next, ...ways.map(({ option }) => option)] };
  return { do: "refuse", code: "session_damaged", why, ways, facts: known, next };
}

/** A person must decide how the session continues, so no program starts a new conversation instead. */
export function isUndecided({ code, facts: { ways, unnamed: isUnnamed } }: Fault): boolean {
  if (code === "session_lost") return isUnnamed === true;
  return code === "session_damaged" && Array.isArray(ways) && ways.length > 0;
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
