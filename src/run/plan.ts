/**
 * What a resume does: facts in, one plan out. Nothing has been started, restored or sent when this decides.
 */
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";

export interface ResumeFacts {
  readonly run: RunRecord;
  readonly engine: { readonly title: string; readonly canFork: boolean };
  readonly cwdExists: boolean;
  /** The engine home that an attempt would use now. */
  readonly home: string | null;
  /** The run's session ids, newest first, with what the engine's store says of each. */
  readonly known: readonly KnownSession[];
  /** The copy in the run directory, if there is one and its checksum holds. */
  readonly escrow: string | null;
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

export function planResume(facts: ResumeFacts): Plan {
  const { run } = facts;
  assertPlace(facts);
  if (facts.want === "fresh") return { do: "fresh" };
  if (facts.want === "fork" && !facts.engine.canFork) {
    throw new Fault("engine_cannot", `${facts.engine.title} cannot fork a session.`, {
      facts: { handle: run.handle },
    });
  }
  if (facts.known.length === 0) throw noSession(run);
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
      throw damaged(facts, session, hasCopy);
    }
    passedOver.push(session.id);
  }
  throw lost(facts);
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

function noSession(run: RunRecord): Fault {
  return new Fault(
    "session_unknown",
    `Run ${run.handle} has no session id, so there is no conversation to continue (session.value is null). ` +
      `\`reprise show ${run.handle}\` says why; \`reprise resume ${run.handle} --force-fresh "…"\` starts anew in the same run.`,
    { facts: { handle: run.handle, missing: "session.value" } },
  );
}

function lost(facts: ResumeFacts): Fault {
  const { run, known } = facts;
  const newest = known[0];
  const copy =
    facts.escrow === null
      ? "there is no copy in the run directory"
      : facts.escrow === newest?.id
        ? "the copy in the run directory holds no more of it"
        : `the copy is of another session, ${facts.escrow}`;
  const fresh = `\`reprise resume ${run.handle} --force-fresh "…"\` starts anew in the same run.`;
  return new Fault(
    "session_lost",
    `${facts.engine.title} does not have session ${newest?.id ?? ""} of run ${run.handle} (${newest?.note ?? ""}), and ${copy}. ${fresh}`,
    { facts: { handle: run.handle, sessions: known.map((session) => session.id) } },
  );
}

/** Nothing is sent to a conversation that has lost a part of itself before the user has decided. */
function damaged(facts: ResumeFacts, session: KnownSession, hasCopy: boolean): Fault {
  const { handle } = facts.run;
  const what =
    session.state === "torn"
      ? `${facts.engine.title}'s session ${session.id} lacks a part that the copy of run ${handle} has (${session.note}).`
      : `${facts.engine.title} cannot read session ${session.id}: ${session.note}.`;
  const ways = [
    ...(hasCopy
      ? [
          `\`reprise resume ${handle} --restore-copy "…"\` puts the copy back and keeps the engine's file beside it`,
        ]
      : []),
    ...(session.state === "torn" ? ["`--ignore-copy` goes on with what is left"] : []),
    "`--force-fresh` starts anew in the same run",
  ];
  return new Fault("session_damaged", `${what} ${ways.join("; ")}.`, {
    facts: { handle, session: session.id },
  });
}
