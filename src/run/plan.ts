/**
 * What a resume does: facts in, one plan out. Nothing has been started, restored or sent when this decides.
 */
import { type Facts, Fault, type FaultCode } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";

export interface ResumeFacts {
  readonly run: RunRecord;
  readonly engine: { readonly title: string; readonly canFork: boolean };
  readonly cwdExists: boolean;
  /** The engine home that an attempt would use now. */
  readonly home: string | null;
  /** The run's session ids, newest first, with what the engine's store says of each. */
  readonly known: readonly KnownSession[];
  /** The session of the copy in the run directory, if there is one and its checksum holds. */
  readonly escrow: string | null;
  /** Why the copy that is recorded cannot be used. Absent: it can be, or there is none. */
  readonly copyDamage?: string;
  readonly want: "resume" | "fork" | "fresh";
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
}

export type Plan =
  | {
      readonly do: "continue";
      readonly session: string;
      /** The engine lost its copy; ours goes back first. */
      readonly restore: boolean;
      /** Newer ids of this run that the engine does not have. */
      readonly passedOver: readonly string[];
    }
  | { readonly do: "fresh" };

/** The plan, or what stands in the way of it. */
export type Decision = Plan | Refusal;

export interface Refusal {
  readonly do: "refuse";
  readonly code: FaultCode;
  /** As the end of a sentence about the run. */
  readonly why: string;
  /** Options of `resume` with which it goes on all the same, each with what it does. */
  readonly ways: readonly { readonly option: "--restore-copy" | "--ignore-copy"; readonly does: string }[];
  readonly facts: Facts;
}

/** A place that is gone or another one is a fault; a conversation that cannot be continued is a refusal. */
export function planResume(facts: ResumeFacts): Decision {
  const { run } = facts;
  assertPlace(facts);
  if (facts.want === "fresh") return { do: "fresh" };
  if (facts.want === "fork" && !facts.engine.canFork) {
    throw new Fault("engine_cannot", `${facts.engine.title} cannot fork a session.`, {
      facts: { handle: run.handle },
    });
  }
  if (facts.known.length === 0) return noSession(run);
  const passedOver: string[] = [];
  for (const session of facts.known) {
    if (session.state === "present" || session.state === "unknown") {
      return { do: "continue", session: session.id, restore: false, passedOver };
    }
    const hasCopy = facts.escrow === session.id;
    if (session.state === "absent" && hasCopy) {
      return { do: "continue", session: session.id, restore: true, passedOver };
    }
    if (session.state === "torn" || session.damaged === true) {
      if (facts.damage === "restore" && hasCopy) {
        return { do: "continue", session: session.id, restore: true, passedOver };
      }
      if (facts.damage === "ignore" && session.state === "torn") {
        return { do: "continue", session: session.id, restore: false, passedOver };
      }
      return damaged(facts, session, hasCopy);
    }
    passedOver.push(session.id);
  }
  return lost(facts);
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
  // A home that is gone altogether has lost the session; the copy may still bring it back.
  if (run.engineHome === null || home === run.engineHome) return;
  const now = home ?? "unknown";
  throw new Fault(
    "engine_home_missing",
    `The engine home of run ${run.handle} is ${run.engineHome}, but ${facts.engine.title} would now use ${now}. ` +
      "Set the environment as it was at the start, then resume again.",
    { facts: { handle: run.handle, recorded: run.engineHome, now } },
  );
}

/** Of a run whose record says that it is empty. */
export const NOTHING_SAID = "its UI was closed before anything was said";

export const NEVER_STARTED = "its agent was never started";

/** An agent that was never started has no conversation. */
export function isUnbegun({ attempts, session }: Pick<RunRecord, "attempts" | "session">): boolean {
  return attempts === 0 && session.value === null;
}

function noSession(run: RunRecord): Refusal {
  const why = isUnbegun(run) ? NEVER_STARTED : "no session id is known (session.value is null)";
  return { do: "refuse", code: "session_unknown", why, ways: [], facts: { missing: "session.value" } };
}

function lost(facts: ResumeFacts): Refusal {
  const { known } = facts;
  const newest = known[0];
  const copy =
    damagedCopy(facts) ??
    (facts.escrow === null
      ? "there is no copy in the run directory"
      : facts.escrow === newest?.id
        ? "the copy in the run directory holds no more of it"
        : `the copy is of another session, ${facts.escrow}`);
  const why = `${facts.engine.title} does not have session ${newest?.id ?? ""} (${newest?.note ?? ""}), and ${copy}`;
  return {
    do: "refuse",
    code: "session_lost",
    why,
    ways: [],
    facts: { sessions: known.map(({ id }) => id) },
  };
}

function damagedCopy({ copyDamage }: ResumeFacts): string | null {
  return copyDamage === undefined ? null : `the run's copy of the session cannot be used: ${copyDamage}`;
}

/** Nothing is sent to a conversation that has lost a part of itself before the user has decided. */
function damaged(facts: ResumeFacts, session: KnownSession, hasCopy: boolean): Refusal {
  const { title } = facts.engine;
  const what =
    session.state === "torn"
      ? `${title}'s session ${session.id} lacks a part that the run's copy has (${session.note})`
      : `${title} cannot read session ${session.id}: ${session.note}`;
  const copy = damagedCopy(facts);
  const why = copy === null ? what : `${what}; ${copy}`;
  const restore = {
    option: "--restore-copy",
    does: "puts the copy back and keeps the engine's file beside it",
  } as const;
  const ignore = { option: "--ignore-copy", does: "goes on with what is left" } as const;
  const ways = [...(hasCopy ? [restore] : []), ...(session.state === "torn" ? [ignore] : [])];
  return { do: "refuse", code: "session_damaged", why, ways, facts: { session: session.id } };
}
