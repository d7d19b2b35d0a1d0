/**
 * Which session an attempt belongs to (I2–I5): ids are only ever added, and the engine's own store has the last word.
 */
import type { SeenSession, Session, SessionSource } from "../core/records.ts";

export interface Settled {
  readonly session: SeenSession | null;
  /** More than one id was seen and the store could not confirm more than the one that stays. */
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
 * The ids one attempt saw → the one that counts. Ids that the store confirms (present, written in this attempt,
 * same directory) win, the last of them; where the store cannot tell, the first id stays.
 */
export function settle(seen: readonly SeenSession[], confirmed: ReadonlySet<string>): Settled {
  const known = seen.filter((one) => confirmed.has(one.value));
  const reported = seen.filter((one) => one.source !== "chosen");
  const distinct = new Set(seen.map((one) => one.value));
  const session = known.at(-1) ?? reported[0] ?? seen[0] ?? null;
  return { session, mismatch: distinct.size > 1 && known.length < distinct.size };
}

/** Ids of an attempt that turned out not to be this run's conversation: kept, and never continued. */
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

/** Ids that were named and of which the engine keeps nothing: nothing was said there. They stay, and count as chosen only. */
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

/** Has the engine ever named this session, or its store confirmed it? */
export function isConfirmed(
  { session, sessions }: { readonly session: Session; readonly sessions: readonly SeenSession[] },
  id: string,
): boolean {
  if (session.value === id && session.verifiedAt !== null) return true;
  return sessions.some((one) => one.value === id && one.foreign === undefined && one.verifiedAt !== null);
}

/** The run's session after an attempt: a known id is never replaced by nothing (I3). */
export function sessionOf(field: string, seen: SeenSession | null, before: Session): Session {
  if (seen === null) return before;
  return { field, value: seen.value, source: seen.source, verifiedAt: seen.verifiedAt };
}

/** Distinct ids of a run, newest first, for walking back to one that the engine still has. */
export function candidates(sessions: readonly SeenSession[], current: Session): readonly string[] {
  const own = sessions.filter((one) => one.foreign === undefined);
  const newestFirst = own.map((one) => one.value).toReversed();
  return [...new Set(current.value === null ? newestFirst : [current.value, ...newestFirst])];
}

/** A chosen id that the engine then reports was still chosen by us; any other source is replaced by the proof. */
function proof(known: SessionSource, next: SessionSource): SessionSource {
  return known === "chosen" || known === "adopted" ? next : known;
}
