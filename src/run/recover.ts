/**
 * Recovers the session id of an attempt whose owner died: from the tape, then from the engine's store.
 */
import { readStream } from "../state/logs.ts";
import { attemptDir } from "../state/runs.ts";
import type { Stream } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord, SeenSession } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import { type Engine, type FoundSession, OPENING_CHARACTERS } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import { observe, sessionBefore, sessionOf, settle } from "./conversation.ts";
import { type Deps, isoNow } from "./deps.ts";
import { allEngines, findEngine } from "./engine-setup.ts";
import { EXCERPT_CHARACTERS, withoutMark } from "./launch.ts";

/** Ids are at the beginning of a tape, so reading gigabytes is not worth the wait. */
const SCAN_BYTES = 8 * 1024 * 1024;
const LINE_BYTES = 1024 * 1024;

interface Recovered {
  readonly run: Pick<RunRecord, "session" | "sessions">;
  readonly reported: readonly SeenSession[];
  readonly diagnostics: readonly string[];
}

export async function recoverSession(deps: Deps, run: RunRecord, attempt: AttemptRecord): Promise<Recovered> {
  // After a new conversation whose agent never started, the run keeps the one before it.
  const isUnbegun = attempt.kind === "fresh" && attempt.agent === null && run.session.value === null;
  const { field } = allEngines(deps).find(({ id }) => id === run.agentName)?.session ?? run.session;
  const kept = isUnbegun ? { ...run, session: sessionBefore(run, attempt.n, field) } : run;
  const unchanged: Recovered = { run: kept, reported: attempt.reported, diagnostics: [] };
  // The attempt is written before the run, and Reprise may die in between.
  const isKnown = (value: string) => run.sessions.some((one) => one.value === value);
  if (attempt.reported.length > 0 && attempt.reported.every(({ value }) => isKnown(value))) return unchanged;
  try {
    const engine = findEngine(deps, run.agentName);
    const seen =
      attempt.reported[0] ??
      (await fromTape(deps, engine, run, attempt)) ??
      (await fromStore(deps, engine, run, attempt));
    if (seen === null)
      return { ...unchanged, diagnostics: ["no session id was printed before Reprise died"] };
    const reported = observe(attempt.reported, seen);
    const { session } = settle(reported, new Set());
    // A dead resume keeps the conversation that it was asked to continue, whatever it printed (I4).
    const foreign =
      (attempt.kind === "resume" && seen.value !== attempt.asked) || seen.value === run.parent?.session;
    return {
      run: {
        sessions: observe(run.sessions, foreign ? { ...seen, foreign } : seen),
        session: foreign ? run.session : sessionOf(engine.session.field, session, run.session),
      },
      reported,
      diagnostics: [`the session id was recovered from ${seen.source}`],
    };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ...unchanged, diagnostics: [error.message] };
  }
}

async function fromTape(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<SeenSession | null> {
  const reader = engine.reader(() => deps.clock.now(), engine.printed(attempt));
  for (const stream of ["stdout", "stderr"] as const satisfies readonly Stream[]) {
    const lines = new LineSplitter(LINE_BYTES);
    let bytes = 0;
    for await (const chunk of readStream(attemptDir(run.runDirectory, attempt.n), stream)) {
      for (const line of lines.push(chunk)) {
        const found = reader.line(stream, line).find((event) => event.type === "session");
        if (found !== undefined)
          return seenNow(deps, attempt, found.session, attempt.mode === "pty" ? "pty-output" : stream);
      }
      bytes += chunk.length;
      if (bytes > SCAN_BYTES) break;
    }
  }
  // Some engines name their session at the end of their output.
  const last = reader.end({ code: null, signal: null }).find((event) => event.type === "session");
  const { namesLastOn = "stdout" } = reader;
  return last === undefined
    ? null
    : seenNow(deps, attempt, last.session, attempt.mode === "pty" ? "pty-output" : namesLastOn);
}

async function fromStore(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<SeenSession | null> {
  const { engineHome: home, cwd } = run;
  if (attempt.asked === null || home === null || !engine.can.readStore) {
    const { only } = await newSession(deps, engine, run, {
      sinceMs: Date.parse(attempt.startedAt),
      interactive: attempt.interactive,
      message: openingOf(engine, attempt),
    });
    return only === null ? null : seenNow(deps, attempt, only, "store");
  }
  const { state } = await engine.locate(attempt.asked, { home, cwd }, sessionFiles());
  return state === "present" ? seenNow(deps, attempt, attempt.asked, "store") : null;
}

/** The first message to the agent, as far as it is known. Records keep an excerpt. */
export function openingOf(
  engine: Engine,
  { message, args }: Pick<AttemptRecord, "message" | "args">,
): string | null {
  return message ?? engine.opening?.(args) ?? null;
}

export interface Begun {
  readonly sinceMs: number;
  /** In a UI the first message may be anything. */
  readonly interactive: boolean;
  /** The first message or its beginning. Null: unknown. */
  readonly message: string | null;
}

export interface NewSessions {
  /** The session that can only belong to this attempt. */
  readonly only: string | null;
  /** All sessions that may belong to it. */
  readonly candidates: readonly string[];
  /** Why the one candidate does not count. */
  readonly doubt?: string;
}

/** Facts that are known only while the agent lives. */
export interface AttemptSight {
  /** Sessions whose files the agent has, or had, open for writing. */
  held(recent: readonly FoundSession[]): ReadonlySet<string>;
  /** For a UI: whether a conversation that begins with this message may have begun there. */
  mayHaveSaid(opening: string | null): boolean;
  /** The engine ran in this directory outside of Reprise. */
  readonly outsiders: boolean;
}

/**
 * The session that began in the run's directory since then and certainly belongs to this attempt: the agent had its file
 * open, or it is the only session with the sent message and no other agent can have begun it. Sessions of other runs do
 * not count, and none counts when the index cannot tell their owners.
 */
export async function newSession(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  begun: Begun & { readonly sight?: AttemptSight },
): Promise<NewSessions> {
  const { engineHome: home, cwd } = run;
  if (home === null || !engine.can.readStore) return NOTHING;
  const found = await engine.sessions({ home, cwd }, sessionFiles());
  const since = found.filter((one) => (one.createdAtMs ?? 0) >= begun.sinceMs);
  if (since.length === 0) return NOTHING;
  const { sight } = begun;
  const held = sight?.held(since) ?? new Set();
  const mayBe = (opening: string | null) =>
    beginsWith(opening, begun) && (!begun.interactive || sight?.mayHaveSaid(opening) !== false);
  const recent = since.filter(({ id, opening }) => held.has(id) || mayBe(opening ?? null));
  if (recent.length === 0) return NOTHING;
  try {
    const runs = await deps.store.listRuns({ cwd, engine: run.agentName, limit: 100 });
    const taken = new Set([run, ...runs].flatMap((one) => one.sessions.map(({ value }) => value)));
    const free = recent.filter(({ id }) => !taken.has(id));
    const own = free.filter(({ id }) => held.has(id));
    const [one, ...more] = own.length > 0 ? own : free;
    const candidates = free.map(({ id }) => id);
    if (one === undefined || more.length > 0) return { only: null, candidates };
    const others = runs.filter(({ runId }) => runId !== run.runId);
    const doubt = own.length > 0 ? null : await doubtAbout(deps, engine, one, { others, sight });
    return doubt === null ? { only: one.id, candidates } : { only: null, candidates, doubt };
  } catch (error) {
    if (error instanceof Fault) return NOTHING;
    throw error;
  }
}

const NOTHING: NewSessions = { only: null, candidates: [] };

/** Names another agent that may have begun this session. Null: none. */
async function doubtAbout(
  deps: Deps,
  engine: Engine,
  found: FoundSession,
  { others, sight }: { others: readonly RunRecord[]; sight: AttemptSight | undefined },
): Promise<string | null> {
  for (const other of others) {
    const isOver =
      other.status !== "running" && Date.parse(other.updatedAt) < (found.createdAtMs ?? 0) - SLACK_MS;
    if (isOver || other.empty === true) continue;
    const attempts = await deps.store.listAttempts(other.runId);
    if (attempts.some((attempt) => mayHaveBegun(engine, attempt, found)))
      return `run ${other.handle} may have begun it`;
  }
  return sight?.outsiders === true ? `${engine.title} was also running here outside of Reprise` : null;
}

/** Stores round their times. */
const SLACK_MS = 1_000;

function mayHaveBegun(
  engine: Engine,
  attempt: AttemptRecord,
  { createdAtMs, opening }: FoundSession,
): boolean {
  const { startedAt, endedAt, interactive, asked, reported } = attempt;
  const at = createdAtMs ?? 0;
  if (Date.parse(startedAt) > at + SLACK_MS) return false;
  if (endedAt !== null && Date.parse(endedAt) < at - SLACK_MS) return false;
  // An agent without a UI has one conversation; a UI that has ended has no more than were seen.
  if ((reported.length > 0 || asked !== null) && (!interactive || endedAt !== null)) return false;
  const message = openingOf(engine, attempt);
  return message === null || beginsWith(opening ?? null, { message, interactive });
}

/** Stores and records cut long messages and differ in white space. */
function beginsWith(
  opening: string | null,
  { message, interactive }: Pick<Begun, "message" | "interactive">,
): boolean {
  if (interactive) return true;
  if (message === null || opening === null) return false;
  const [said, sent] = [opening, withoutMark(message)].map((text) => text.replaceAll(/\s+/g, " ").trim()) as [
    string,
    string,
  ];
  if (said === sent) return true;
  const isCut = (text: string, at: number) => text.length >= at;
  return (
    (isCut(message, EXCERPT_CHARACTERS) && said.startsWith(sent)) ||
    (isCut(opening, OPENING_CHARACTERS) && sent.startsWith(said))
  );
}

function seenNow(
  deps: Deps,
  attempt: AttemptRecord,
  value: string,
  source: SeenSession["source"],
): SeenSession {
  const at = isoNow(deps);
  return { value, source, at, attempt: attempt.n, verifiedAt: at };
}
