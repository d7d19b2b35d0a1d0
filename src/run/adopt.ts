/**
 * Conversations that were started outside Reprise: finds them in the engines' own stores, and makes a run of one, so that
 * it has a handle. Nothing is written to the engine's store.
 */
import { ensureIdentity } from "../state/identity.ts";
import { readCopy } from "../state/escrow.ts";
import { createRunDir, saveRunFile } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { Redact } from "../lib/secrets.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import type { Engine, FoundSession, SaidEvent } from "../engines/engine.ts";
import { type Deps, isoNow } from "./deps.ts";
import { allEngines, environmentOf, findEngine, findProgram, versionOf } from "./engine-setup.ts";
import { trustNow } from "./folder-trust.ts";
import { copiesOf } from "./escrow/copies.ts";
import { takeEscrow } from "./escrow/escrow.ts";
import { excerpt, recognition, redactorFor, rightsVariables } from "./launch.ts";
import { leaseRun } from "./leases.ts";

export interface Conversation extends FoundSession {
  readonly engine: string;
  /** The run that has this conversation. Null: none. */
  readonly handle: string | null;
}

export interface ConversationFilter {
  /** Null: every engine whose store can be read. */
  readonly engine: string | null;
  /** Null: any directory. */
  readonly cwd: string | null;
}

/** Newest first. An engine with an unreadable store is a warning. */
export async function findConversations(
  deps: Deps,
  filter: ConversationFilter,
): Promise<readonly Conversation[]> {
  const engines = filter.engine === null ? allEngines(deps) : [readable(findEngine(deps, filter.engine))];
  const found: Conversation[] = [];
  for (const engine of engines) {
    const { home } = environmentOf(deps, engine, []);
    if (home === null || !engine.can.readStore) continue;
    try {
      const sessions = await engine.sessions({ home, cwd: filter.cwd }, sessionFiles());
      if (sessions.length === 0) continue;
      const known = await runsBySession(deps, engine.id);
      for (const session of sessions) {
        found.push({ ...session, engine: engine.id, handle: known.get(session.id)?.handle ?? null });
      }
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(`${engine.title}: ${error.message}`);
    }
  }
  return found.toSorted((one, other) => (other.updatedAtMs ?? 0) - (one.updatedAtMs ?? 0));
}

/** A piece of a conversation, for a search. Untrusted text. */
export interface SessionWords {
  readonly kind: "message" | "answer" | "tool" | "notice";
  readonly text: string;
  /** ISO 8601. Absent: the session does not say when. */
  readonly at?: string;
}

/** A longer session is read from its end. */
const MAX_WORDS_BYTES = 32 * 1024 * 1024;

/** The words of a conversation in an engine's own store, redacted. Null: the store cannot be read. */
export async function conversationWords(
  deps: Deps,
  { engine: id, id: session, cwd, path }: Conversation,
): Promise<readonly SessionWords[] | null> {
  const engine = findEngine(deps, id);
  const { home, env } = environmentOf(deps, engine, []);
  const redact = redactorFor(env, []);
  const files = sessionFiles();
  if (path !== null) {
    const text = await files.tail(path, MAX_WORDS_BYTES);
    return text === null ? null : redacted(wordsOf(engine, text), redact);
  }
  const place = { home: home ?? "", cwd: cwd ?? "" };
  const said = home === null ? null : await engine.transfer?.saidIn(session, place, files);
  return said === null || said === undefined ? null : redacted(wordsIn(said), redact);
}

/** The same for the run's copy of its session. Also null if it may hold a secret that is not known to be the same today. */
export function copyWords(
  deps: Deps,
  run: RunRecord,
  attempts: readonly AttemptRecord[],
): readonly SessionWords[] | null {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  const own = run.escrow?.files[0];
  if (engine === undefined || own === undefined || own.size > MAX_WORDS_BYTES) return null;
  const { redact, unproven } = recognition(environmentOf(deps, engine, []).env, run, attempts);
  const text = unproven.length > 0 ? null : readCopy(run.runDirectory, own);
  return text === null ? null : redacted(wordsOf(engine, text), redact);
}

function wordsOf(engine: Engine, text: string): readonly SessionWords[] {
  const exported = engine.transfer?.said(text);
  if (exported !== null && exported !== undefined) return wordsIn(exported);
  return wordsIn(text.split("\n").flatMap((line) => engine.said?.(line) ?? []));
}

/** Each message and answer once, although a session may have it again. Results of tools are left out. */
function wordsIn(said: readonly SaidEvent[]): readonly SessionWords[] {
  const seen = new Set<string>();
  return said.flatMap(({ event, at, id, words }): SessionWords[] => {
    const when = at === undefined ? {} : { at };
    const key = id === undefined ? null : `${event.type} ${id}`;
    if (key !== null && seen.has(key)) return [];
    if (key !== null) seen.add(key);
    if (event.type === "message" || event.type === "text")
      return [{ kind: event.type === "text" ? "answer" : "message", text: event.text, ...when }];
    if (event.type === "tool" && event.state === "started")
      return [{ kind: "tool", text: words ?? `${event.name} ${event.detail ?? ""}`, ...when }];
    return event.type === "notice" ? [{ kind: "notice", text: event.message, ...when }] : [];
  });
}

function redacted(words: readonly SessionWords[], redact: Redact): readonly SessionWords[] {
  return words.map((piece) => ({ ...piece, text: redact(piece.text) }));
}

export interface AdoptRequest {
  readonly engine: string;
  /** An id, or its first 8 or more characters. */
  readonly session: string;
  /** Where the conversation took place, for stores that do not say so. */
  readonly cwd: string | null;
  readonly name: string | null;
}

export interface Adopted {
  readonly run: RunRecord;
  /** False: this run had the conversation already. */
  readonly isNew: boolean;
}

export async function adoptSession(deps: Deps, request: AdoptRequest): Promise<Adopted> {
  const engine = readable(findEngine(deps, request.engine));
  const found = await pick(deps, engine, request.session);
  const known = (await runsBySession(deps, engine.id)).get(found.id);
  if (known !== undefined) return { run: known, isNew: false };
  const cwd = placeOf(engine, found, request.cwd);
  const { home } = environmentOf(deps, engine, []);
  await assertUsable(engine, found, cwd, home);
  const run = await newRun(deps, engine, { ...found, cwd }, request.name);
  await using hold = await leaseRun(deps, run);
  // Of two simultaneous adoptions, the second finds the session leased or the run of the first.
  await hold.holdSession(run, found.id);
  const first = (await runsBySession(deps, engine.id)).get(found.id);
  if (first !== undefined) return { run: first, isNew: false };
  ensureIdentity(deps.state, deps.machine);
  if ((await deps.store.createRun(run)) === "handle_taken") {
    throw new Fault("run_busy", `The handle ${run.handle} is already in use. Run the command again.`, {
      facts: { handle: run.handle },
    });
  }
  createRunDir(deps.state, run.runId);
  saveRunFile(run);
  const program = findProgram(deps, engine) ?? [engine.program];
  return {
    run: await takeEscrow(deps, { ...environmentOf(deps, engine, []), program }, { run, fence: hold.fence }),
    isNew: true,
  };
}

function placeOf(engine: Engine, found: FoundSession, given: string | null): string {
  const cwd = found.cwd ?? given;
  if (cwd === null) {
    throw new Fault(
      "usage",
      `${engine.title} does not say where this conversation took place. Add --cwd DIR.`,
    );
  }
  if (given !== null && given !== cwd) {
    throw new Fault("usage", `The conversation took place in ${cwd}, not in ${given}. Leave out --cwd.`);
  }
  return cwd;
}

async function pick(deps: Deps, engine: Engine, text: string): Promise<FoundSession> {
  const { home } = environmentOf(deps, engine, []);
  const all = home === null ? [] : await engine.sessions({ home, cwd: null }, sessionFiles());
  const exact = all.filter((session) => session.id === text);
  const fitting =
    exact.length > 0 ? exact : all.filter((session) => text.length >= 8 && session.id.startsWith(text));
  const [first] = fitting;
  const facts = { engine: engine.id, given: text };
  if (first === undefined) {
    const short = text.length < 8 ? " A prefix needs at least 8 characters." : "";
    throw new Fault(
      "session_lost",
      `${engine.title} has no conversation ${JSON.stringify(text.slice(0, 80))} in ${home ?? "its store"}.${short} ` +
        `${await copyElsewhere(deps, engine, text)}\`reprise adopt ${engine.id} --all\` lists them.`,
      { facts },
    );
  }
  if (new Set(fitting.map(({ id }) => id)).size > 1) {
    const ids = fitting.slice(0, 5).map(({ id }) => id);
    throw new Fault(
      "handle_ambiguous",
      `${text} fits several conversations: ${ids.join(", ")}. Type more characters.`,
      {
        facts: { ...facts, ids },
      },
    );
  }
  return first;
}

/** A run may have a copy of what the engine has lost. */
async function copyElsewhere(deps: Deps, engine: Engine, text: string): Promise<string> {
  const run = (await runsBySession(deps, engine.id)).get(text);
  if (run === undefined || !copiesOf(run).some(({ session }) => session === text)) return "";
  return `Run ${run.handle} has a copy of it: reprise resume ${run.handle} --session ${text} "…". `;
}

async function assertUsable(
  engine: Engine,
  found: FoundSession,
  cwd: string,
  home: string | null,
): Promise<void> {
  const located = home === null ? null : await engine.locate(found.id, { home, cwd }, sessionFiles());
  if (located?.state !== "unusable") return;
  throw new Fault(
    located.damaged ? "session_damaged" : "session_lost",
    `${engine.title} cannot continue the session ${found.id}: ${located.why} (${located.path}).`,
    { facts: { engine: engine.id, session: found.id } },
  );
}

async function newRun(
  deps: Deps,
  engine: Engine,
  found: FoundSession & { cwd: string },
  name: string | null,
): Promise<RunRecord> {
  const program = findProgram(deps, engine);
  const setup = environmentOf(deps, engine, []);
  const at = isoNow(deps);
  const redact = redactorFor(deps.env, []);
  const runId = makeRunId(deps.clock.now(), engine.id, deps.newHandle());
  return {
    v: 1,
    handle: runId.slice(-8),
    runId,
    runDirectory: `${deps.state.runsRoot}/${runId}`,
    agentName: engine.id,
    // The engine's own store has it, which is the proof.
    session: { field: engine.session.field, value: found.id, source: "adopted", verifiedAt: at },
    sessions: [{ value: found.id, source: "adopted", at, attempt: 0, verifiedAt: at }],
    launch: {
      args: [],
      given: [],
      redacted: [],
      env: [],
      rights: rightsVariables(engine, setup.env),
      guarded: true,
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      ...trustNow(setup, { cwd: found.cwd, checkout: found.cwd, args: [], interactive: false }),
      program: program?.[0] ?? engine.program,
      version: program === null ? null : await versionOf(deps, engine, program).catch(() => null),
      message: excerpt(found.title, redact),
    },
    cwd: found.cwd,
    engineHome: setup.home,
    // Reprise did not see it end.
    status: "interrupted",
    attempts: 0,
    subject: null,
    name: excerpt(name, redact),
    escrow: null,
    createdAt: at,
    updatedAt: at,
  };
}

async function runsBySession(deps: Deps, engine: string): Promise<ReadonlyMap<string, RunRecord>> {
  const runs = await deps.store.listRuns({ engine, limit: Number.POSITIVE_INFINITY });
  const known = new Map<string, RunRecord>();
  // Newest first, so that the newest run of a session is named.
  for (const run of runs.toReversed())
    for (const { value, foreign } of run.sessions) if (foreign === undefined) known.set(value, run);
  return known;
}

function readable(engine: Engine): Engine {
  if (engine.can.readStore) return engine;
  throw new Fault(
    "engine_cannot",
    `Reprise cannot look up the sessions of ${engine.title}. Start a new run instead: reprise start ${engine.id}`,
    {
      facts: { engine: engine.id },
    },
  );
}
