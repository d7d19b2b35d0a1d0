/**
 * Which session an attempt belongs to (I2–I5): ids are only ever added, and the engine's own store decides.
 * Also the difference between two states of a conversation.
 */
import type {
  AttemptRecord,
  Escrow,
  RunRecord,
  SeenSession,
  Session,
  SessionSource,
} from "../core/records.ts";
import type { AttemptRequest, Located } from "../engines/engine.ts";

export interface SettledSession {
  readonly session: SeenSession | null;
  /** More than one id was seen and the store confirms no other id than the kept one. */
  readonly mismatch: boolean;
}

/** Adds an id that was chosen, reported or found. The same id reported later gains its source and time of proof. */
export function observe(seen: readonly SeenSession[], next: SeenSession): readonly SeenSession[] {
  const at = seen.findIndex((known) => known.value === next.value && known.attempt === next.attempt);
  const known = seen[at];
  if (known === undefined) return [...seen, next];
  if (known.verifiedAt !== null || next.verifiedAt === null) return seen;
  return seen.with(at, { ...known, source: proof(known.source, next.source), verifiedAt: next.verifiedAt });
}

/**
 * The ids of one attempt → the id that counts. Ids that the store confirms (present, written in this attempt,
 * same directory) win, the last of them; where the store cannot tell, the first id stays.
 */
export function settle(seen: readonly SeenSession[], confirmed: ReadonlySet<string>): SettledSession {
  const known = seen.filter((one) => confirmed.has(one.value));
  const reported = seen.filter((one) => one.source !== "chosen");
  const distinct = new Set(seen.map((one) => one.value));
  const session = known.at(-1) ?? reported[0] ?? seen[0] ?? null;
  return { session, mismatch: distinct.size > 1 && known.length < distinct.size };
}

/** Marks ids of an attempt that do not belong to this run's conversation. They stay, and no resume continues them. */
export function disown(
  sessions: readonly SeenSession[],
  attempt: number,
  foreign: readonly string[],
): readonly SeenSession[] {
  if (foreign.length === 0) return sessions;
  return sessions.map((one) =>
    one.attempt === attempt && foreign.includes(one.value) ? { ...one, foreign: true } : one,
  );
}

/** Ids that were named but are not in the engine's store have no message. They stay, and count only as chosen. */
export function unsaid(
  sessions: readonly SeenSession[],
  attempt: number,
  ids: ReadonlySet<string>,
): readonly SeenSession[] {
  if (ids.size === 0) return sessions;
  return sessions.map((one) =>
    one.attempt === attempt && ids.has(one.value) ? { ...one, verifiedAt: null } : one,
  );
}

/** Whether the engine has named this session or its store has confirmed it. */
export function isConfirmed(
  { session, sessions }: { readonly session: Session; readonly sessions: readonly SeenSession[] },
  id: string,
): boolean {
  if (session.value === id && session.verifiedAt !== null) return true;
  return sessions.some((one) => one.value === id && one.foreign === undefined && one.verifiedAt !== null);
}

/** The session of a new conversation that has no id yet. The earlier ids stay in the run's `sessions` (I3). */
export const UNNAMED: Session = { field: null, value: null, source: null, verifiedAt: null };

/** Earlier conversations of the run have ids, and the newest one has none that Reprise knows. */
export function isUnnamed({ session, sessions }: Pick<RunRecord, "session" | "sessions">): boolean {
  return session.value === null && sessions.some(({ foreign }) => foreign === undefined);
}

/** The newest id of earlier attempts: a new conversation that never began leaves the run in that session. */
export function sessionBefore(
  { session, sessions }: Pick<RunRecord, "session" | "sessions">,
  attempt: number,
  field: string | null,
): Session {
  const before = sessions.findLast((one) => one.foreign === undefined && one.attempt < attempt);
  if (before === undefined) return session;
  const { value, source, verifiedAt } = before;
  return { field, value, source, verifiedAt };
}

/** The run's session after an attempt: no id that was seen leaves it as it is. */
export function sessionOf(field: string, seen: SeenSession | null, before: Session): Session {
  if (seen === null) return before;
  return { field, value: seen.value, source: seen.source, verifiedAt: seen.verifiedAt };
}

/** Distinct ids of a run, newest first, for walking back to an id that the engine still has. */
export function candidates(sessions: readonly SeenSession[], current: Session): readonly string[] {
  const own = sessions.filter((one) => one.foreign === undefined);
  const newestFirst = own.map((one) => one.value).toReversed();
  return [...new Set(current.value === null ? newestFirst : [current.value, ...newestFirst])];
}

/** An id that Reprise chose keeps that source when the engine reports it. Any other source is replaced by the proof. */
function proof(known: SessionSource, next: SessionSource): SessionSource {
  return known === "chosen" || known === "adopted" ? next : known;
}

/** Names the attempts whose messages are certainly not in a copy, for people. Null: none, as far as the attempts show. */
export function saidSince(copy: Escrow, attempts: readonly AttemptRecord[]): string | null {
  const told = attempts.filter(
    ({ agent, asked, reported }) =>
      agent !== null && [asked, ...reported.map(({ value }) => value)].includes(copy.session),
  );
  const later = told.filter(({ startedAt }) => startedAt > copy.takenAt).map(({ n }) => n);
  if (later.length > 0) {
    const which = later.length === 1 ? `attempt ${later[0]}` : `attempts ${later.join(", ")}`;
    return `the copy is older than ${which} and lacks later messages`;
  }
  const cut = told.find(
    ({ endedAt, outcome }) => outcome?.result === "interrupted" && (endedAt ?? "") > copy.takenAt,
  );
  return cut === undefined
    ? null
    : `Reprise made the copy during attempt ${cut.n}, so it lacks later messages`;
}

/** The text of a conversation, by the engine's ids of messages and parts. */
export type ConversationWords = ReadonlyMap<string, string>;

/** An answer grows. When it is complete, the engine trims the space at its end. */
function holdsWords(has: ConversationWords, id: string, words: string): boolean {
  return has.get(id)?.startsWith(words.trimEnd()) === true;
}

export interface Missing {
  /** The number of missing messages and parts. An import brings them back. */
  readonly gone: number;
  /** The number of parts with different text. An import does not change them. */
  readonly changed: number;
  readonly of: number;
  /** No text is left. */
  readonly empty: boolean;
}

export function isNothing({ gone, changed }: Missing): boolean {
  return gone + changed === 0;
}

/** The parts of an export that another export or the engine's store lacks. Null: unknown. */
export function differenceOf(had: ConversationWords | null, has: ConversationWords | null): Missing | null {
  if (had === null || has === null) return null;
  const lost = [...had].filter(([id, words]) => !holdsWords(has, id, words));
  const gone = lost.filter(([id]) => !has.has(id)).length;
  const empty = lost.length > 0 && [...has.values()].every((words) => words === "");
  return { gone, changed: lost.length - gone, of: had.size, empty };
}

export function changedWords({ changed, of }: Missing): string {
  return `${changed} of ${of} messages and parts ${changed === 1 ? "has" : "have"} other words`;
}

/** The engine ended before it stored any text. */
export function isBlank(located: Located): boolean {
  return located.state === "unusable" && located.blank === true;
}

export type ConversationRights = Pick<AttemptRequest, "rights" | "rightsUnknown">;

/** The rights that a session records. */
export function rightsIn(located: Located): ConversationRights {
  if (located.state === "unknown") return { rightsUnknown: located.why };
  if (located.state === "absent") return {};
  const { rights, rightsUnknown } = located;
  if (rightsUnknown !== undefined) return { rightsUnknown };
  return rights === undefined ? {} : { rights };
}
