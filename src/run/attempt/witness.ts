/**
 * Which conversation a live attempt is in: every id goes to disk as soon as it is seen (I2), and at the end the
 * engine's own store decides (I4, I5).
 */
import type { Exit, SeenEvent } from "../../core/events.ts";
import type { ProcessIdentity, RunRecord, SeenSession, Session } from "../../core/records.ts";
import { runsUnmarked, sessionFiles, Typed, writtenBy } from "../../drivers/drivers.ts";
import type { FoundSession } from "../../engines/engine.ts";
import { disown, observe, sessionOf, settle, unsaid } from "../conversation.ts";
import { type Deps, isoNow } from "../deps.ts";
import type { Job } from "./job.ts";
import { attemptMarker } from "../agent-locks.ts";
import type { Ledger } from "./ledger.ts";
import { newSession, openingOf, type AttemptSight } from "../recover.ts";

export interface Verdict {
  /** The id that counts for this attempt. Null: no id was seen. */
  readonly reported: string | null;
  readonly diverged: { readonly asked: string; readonly reported: string } | null;
  readonly run: Pick<RunRecord, "session" | "sessions">;
  readonly diagnostics: readonly string[];
  /** The engine wrote into the session that was continued. */
  readonly wrote: boolean;
  /** The UI was closed before the first message. False also where the engine's store cannot tell. */
  readonly isEmpty: boolean;
}

export interface TurnEnd {
  /** The agent printed nothing on stdout. */
  readonly mute: boolean;
  /** The turn was completed, or text output ended with exit code 0. */
  readonly completed: boolean;
  readonly exit: Exit;
}

/** The most ids in one message. The record has all of them. */
const MOST_NAMED = 10;

export class Witness {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #ledger: Ledger;
  readonly #startedAtMs: number;
  /** A session that began at the same time in the same directory, and may belong to another agent. */
  #stranger: string | null = null;
  /** Sessions that may belong to this attempt. */
  #candidates: readonly string[] = [];
  /** Why the one candidate does not count. */
  #doubt: string | null = null;
  /** Sessions that the agent was seen to write. */
  readonly #held = new Set<string>();
  readonly #typed = new Typed();
  #outsiders = false;
  /** The store's mark of the session that a UI continues, before the agent was started. */
  #before: string | null = null;

  constructor(deps: Deps, job: Job, ledger: Ledger) {
    this.#deps = deps;
    this.#job = job;
    this.#ledger = ledger;
    this.#startedAtMs = deps.clock.now();
  }

  /** Await it before the agent starts: reads the store's state of a session that only the store can prove. */
  async begin(): Promise<void> {
    const { interactive, command, continues } = this.#job;
    if (continues !== null && (interactive || !command.structured))
      this.#before = await this.#markOf(continues);
  }

  /** Changes whenever the engine writes into the session. Null: absent or unreadable. */
  async #markOf(id: string): Promise<string | null> {
    const { engine, engineHome: home } = this.#job;
    const { cwd } = this.#ledger.attempt;
    if (home === null || !engine.can.readStore) return null;
    const located = await engine.locate(id, { home, cwd }, sessionFiles());
    if (located.state !== "present") return null;
    const [own] = located.files;
    const size = own === undefined ? null : ((await sessionFiles().stat(own.path))?.size ?? null);
    return `${size ?? ""} ${located.updatedAtMs ?? ""}`;
  }

  /** Records all ids of this output with one write, because an agent may print many. */
  heard(seen: readonly SeenEvent[]): readonly string[] {
    const isTerminal = this.#job.mode === "pty";
    const ids = seen.flatMap(({ event, stream }) =>
      event.type === "session"
        ? [{ value: event.session, source: isTerminal ? ("pty-output" as const) : stream }]
        : [],
    );
    return ids.length === 0 ? [] : this.sawAll(ids);
  }

  /** Returns the ids that are new to this attempt, in order. They are on disk before the next byte is read. */
  sawAll(ids: readonly Pick<SeenSession, "value" | "source">[]): readonly string[] {
    const at = isoNow(this.#deps);
    const { n, reported } = this.#ledger.attempt;
    const known = new Set(reported.map(({ value }) => value));
    let sessions = [...this.#ledger.run.sessions];
    const listed = new Set(sessions.flatMap((one) => (one.attempt === n ? [one.value] : [])));
    const fresh: SeenSession[] = [];
    for (const { value, source } of ids) {
      if (known.has(value)) continue;
      known.add(value);
      const seen: SeenSession = { value, source, at, attempt: n, verifiedAt: at };
      fresh.push(seen);
      // A different id than the one asked for is recorded, but does not become the run's conversation (I4).
      const entry = this.#isForeign(value) ? { ...seen, foreign: true as const } : seen;
      if (listed.has(value)) sessions = [...observe(sessions, entry)];
      else sessions.push(entry);
    }
    const now = [...reported, ...fresh];
    const newest = fresh.at(-1);
    if (newest === undefined) return [];
    // In a UI the newest id is the user's conversation; elsewhere only the end shows which of several counts.
    const session = this.#job.interactive ? newest : settle(now, new Set()).session;
    const { run } = this.#ledger;
    this.#ledger.save({
      attempt: { reported: now },
      run: {
        sessions,
        session:
          session === null || this.#isForeign(session.value)
            ? run.session
            : sessionOf(this.#job.engine.session.field, session, run.session),
      },
    });
    return fresh.map(({ value }) => value);
  }

  /**
   * A UI prints no id: the engine's registry and store tell which conversation it is in. Where there is no
   * registry, a conversation that began inside the UI shows only afterwards, as the one new session.
   */
  async find(agent: ProcessIdentity | null, afterwards: boolean): Promise<string | null> {
    const { engine, engineHome } = this.#job;
    if (engineHome === null || !engine.can.readStore) return null;
    const { asked, reported, cwd } = this.#ledger.attempt;
    const where = { home: engineHome, cwd };
    const live = agent === null ? null : await engine.liveSession?.(agent, where, sessionFiles());
    if (live !== null && live !== undefined) return live;
    const mayHaveChanged = afterwards && this.#job.interactive && engine.liveSession === undefined;
    if ((reported.length > 0 || asked !== null) && !mayHaveChanged) return null;
    this.#outsiders ||= runsUnmarked(engine.program, cwd);
    const { only, candidates, doubt } = await this.#newSession(agent);
    // Before the end, another process may still begin a session that looks the same.
    if (!afterwards && !this.#job.interactive && (only === null || !this.#held.has(only))) return null;
    this.#candidates = candidates;
    this.#doubt = doubt ?? null;
    if (only === null || asked === null || !(await this.#written(asked))) return only;
    // The conversation that was asked for continued, so the new one may belong to another UI.
    this.#stranger = only;
    return null;
  }

  /** A person types into the UI. */
  typed(data: Buffer | string): void {
    this.#typed.take(data);
  }

  #newSession(agent: ProcessIdentity | null): ReturnType<typeof newSession> {
    const { engine, interactive, command } = this.#job;
    const message = openingOf(engine, { message: this.#job.message, args: command.args });
    const sight: AttemptSight = {
      held: (recent) => this.#seenOpen(agent, recent),
      mayHaveSaid: (opening) => message !== null || this.#typed.mayHaveSaid(opening),
      outsiders: this.#outsiders,
    };
    const begun = { sinceMs: this.#startedAtMs, interactive, message, sight };
    return newSession(this.#deps, engine, this.#ledger.run, begun);
  }

  /** If the agent has a session's file open, and the file holds only that session, the session is the agent's. */
  #seenOpen(agent: ProcessIdentity | null, recent: readonly FoundSession[]): ReadonlySet<string> {
    const paths = recent.flatMap(({ id, path }) => (path === null || this.#held.has(id) ? [] : [path]));
    const single = paths.filter((path) => paths.indexOf(path) === paths.lastIndexOf(path));
    const { runId, n } = this.#ledger.attempt;
    const open = agent === null ? new Set<string>() : writtenBy(agent, attemptMarker(runId, n), single);
    for (const { id, path } of recent) if (path !== null && open.has(path)) this.#held.add(id);
    return this.#held;
  }

  /** Null: the engine cannot tell. */
  async tookUp(agent: ProcessIdentity, message: string, typedAtMs: number): Promise<boolean | null> {
    const { engine, engineHome } = this.#job;
    if (engine.receivedMessage === undefined || engineHome === null) return null;
    const { pid, start } = agent;
    const session = this.#ledger.run.session.value;
    const ui = { pid, start, session, startedAtMs: this.#startedAtMs, typedAtMs };
    const where = { home: engineHome, cwd: this.#ledger.attempt.cwd };
    return engine.receivedMessage(message, ui, where, sessionFiles());
  }

  async verdict(end: TurnEnd): Promise<Verdict> {
    const { mute } = end;
    const confirmed = await this.#confirmed();
    const { asked, reported: seen } = this.#ledger.attempt;
    // A UI that prints no id is proved by the store: the conversation that was asked for continued there.
    if (seen.length === 0 && asked !== null && confirmed.has(asked))
      this.sawAll([{ value: asked, source: "store" }]);
    const isEmpty = await this.#isEmpty();
    const { attempt, run } = this.#ledger;
    const settled = settle(attempt.reported, confirmed);
    const reported = settled.session?.value ?? null;
    const diverged = this.#divergence(reported);
    const session =
      diverged === null
        ? this.#verified(
            sessionOf(this.#job.engine.session.field, settled.session, this.#sessionWithoutId(end)),
            confirmed,
          )
        : run.session;
    const losers = settled.mismatch ? attempt.reported.map((one) => one.value) : [];
    const foreign = losers.filter((id) => id !== reported && id !== session.value);
    const silent = await this.#unsaid(mute);
    return {
      reported,
      diverged,
      run: {
        session: silent.has(session.value ?? "") ? { ...session, verifiedAt: null } : session,
        sessions: unsaid(disown(run.sessions, attempt.n, foreign), attempt.n, silent),
      },
      diagnostics: this.#diagnostics(settled.mismatch, reported, isEmpty),
      isEmpty,
      wrote: reported !== null && reported === this.#job.continues && (await this.#written(reported)),
    };
  }

  /** The run's session if this attempt saw none. A new conversation that never began does not change it. */
  #sessionWithoutId(end: TurnEnd): Session {
    const { run, attempt } = this.#ledger;
    if (this.#job.kind !== "fresh" || run.session.value !== null) return run.session;
    return attempt.agent !== null && this.#mayHaveSpoken(end) ? run.session : this.#job.run.session;
  }

  /** Whether a new conversation without an id may have a message. Without a store, only a refusal means no. */
  #mayHaveSpoken({ mute, completed, exit }: TurnEnd): boolean {
    const { engine, interactive, message, engineHome } = this.#job;
    if (this.#candidates.length > 0 || (completed && !interactive)) return true;
    if (engine.can.readStore && engineHome !== null) return false;
    if (interactive) return message !== null || this.#typed.entered;
    return !mute || exit.code === null || exit.code === 0;
  }

  /** Sessions that only the engine's registry or a UI named, and that its store does not have. */
  async #unsaid(mute: boolean): Promise<ReadonlySet<string>> {
    const { engine, engineHome: home, interactive, continues } = this.#job;
    const { reported, cwd } = this.#ledger.attempt;
    const silent = new Set<string>();
    if (!(interactive || mute) || home === null || !engine.can.readStore) return silent;
    for (const { value, source } of reported) {
      if (value === continues || source !== "store") continue;
      const found = await engine.locate(value, { home, cwd }, sessionFiles());
      if (found.state === "absent" || (found.state === "unusable" && !found.damaged)) silent.add(value);
    }
    return silent;
  }

  async #isEmpty(): Promise<boolean> {
    const { engine, engineHome: home, interactive, continues } = this.#job;
    const { run, attempt } = this.#ledger;
    if (!interactive || continues !== null || home === null || !engine.can.readStore) return false;
    if (run.sessions.some((one) => one.attempt !== attempt.n)) return false;
    const where = { home, cwd: attempt.cwd };
    const said = openingOf(engine, { message: this.#job.message, args: this.#job.command.args });
    const isMute = said === null && !this.#typed.entered;
    const isSilent = said === null && !this.#typed.spoke;
    for (const { value } of run.sessions) {
      const found = await engine.locate(value, where, sessionFiles());
      // Some engines create the file before the first message.
      const isBlank = isSilent && found.state === "unusable" && !found.damaged;
      if (found.state !== "absent" && !isBlank) return false;
    }
    if (run.sessions.length > 0 || isMute) return true;
    const found = await engine.sessions(where, sessionFiles());
    return found.every(({ createdAtMs }) => createdAtMs !== null && createdAtMs < this.#startedAtMs - 1_000);
  }

  #isForeign(value: string): boolean {
    const { kind, interactive, continues, command } = this.#job;
    if (interactive) return false;
    if (kind === "resume") return value !== continues;
    return (
      kind === "fork" && (value === continues || (command.expects !== null && value !== command.expects))
    );
  }

  #divergence(reported: string | null): Verdict["diverged"] {
    const { continues } = this.#job;
    if (reported === null || continues === null || !this.#isForeign(reported)) return null;
    return { asked: this.#job.command.expects ?? `a fork of ${continues}`, reported };
  }

  /** Ids that the engine's own store has, written in this attempt, in this directory. */
  async #confirmed(): Promise<ReadonlySet<string>> {
    const { reported, asked } = this.#ledger.attempt;
    const ids = new Set([...reported.map((one) => one.value), ...(asked === null ? [] : [asked])]);
    // A single id that the engine itself reported needs no other proof.
    if (reported.length === 1 && ids.size === 1) return new Set();
    const confirmed = new Set<string>();
    for (const id of ids) if (await this.#written(id)) confirmed.add(id);
    return confirmed;
  }

  async #written(id: string): Promise<boolean> {
    const { engine, engineHome } = this.#job;
    const { cwd } = this.#ledger.attempt;
    if (engineHome === null || !engine.can.readStore) return false;
    const located = await engine.locate(id, { home: engineHome, cwd }, sessionFiles());
    if (located.state !== "present" || (located.updatedAtMs ?? 0) < this.#startedAtMs - 1_000) return false;
    if (id === this.#job.continues && this.#before !== null && this.#before === (await this.#markOf(id)))
      return false;
    return located.cwd === null || located.cwd === cwd;
  }

  #verified(session: Session, confirmed: ReadonlySet<string>): Session {
    if (session.value === null || session.verifiedAt !== null || !confirmed.has(session.value))
      return session;
    return { ...session, verifiedAt: isoNow(this.#deps) };
  }

  #diagnostics(mismatch: boolean, reported: string | null, isEmpty: boolean): string[] {
    const { command, engine, kind, interactive } = this.#job;
    const { asked } = this.#ledger.attempt;
    const lines: string[] = [];
    if (this.#stranger !== null) {
      lines.push(
        `another session began in this directory meanwhile: ${this.#stranger}; if it is this conversation's, \`reprise adopt\` takes it over`,
      );
    }
    if (kind !== "resume" && asked !== null && reported !== null && reported !== asked && !interactive) {
      lines.push(`session_mismatch: ${engine.title} was given the session id ${asked} and uses ${reported}`);
    }
    if (mismatch && !interactive) {
      const ids = this.#ledger.attempt.reported.map((one) => one.value);
      const more = ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : "";
      lines.push(
        `session_mismatch: more than one session id was seen (${ids.slice(0, MOST_NAMED).join(", ")}${more}); ${reported ?? "none"} counts`,
      );
    }
    // Without a message no session is expected.
    if (reported === null && asked === null && !isEmpty)
      lines.push(`no session id: ${this.#whyNone(command.structured)}`);
    return lines;
  }

  #whyNone(structured: boolean): string {
    const { command, engine, interactive } = this.#job;
    if (command.ephemeral !== undefined) return command.ephemeral;
    if (this.#candidates.length > 1) {
      const ids = this.#candidates.join(", ");
      return `several sessions began here with this message: ${ids}; choose one: \`reprise adopt ${engine.id} ID\``;
    }
    if (this.#doubt !== null) {
      const [id] = this.#candidates;
      return `Reprise cannot be certain that the session ${id} is this agent's: ${this.#doubt}; if it is, \`reprise adopt ${this.#job.run.agentName} ${id}\` takes it over`;
    }
    if (structured) return `${engine.title} did not name its session`;
    if (!engine.can.readStore)
      return `${interactive ? "a UI prints" : "this command line prints"} no lines that Reprise reads, and it cannot look into ${engine.title}'s store`;
    const none = "the engine's store shows no new session in this directory";
    return interactive
      ? `${none} that can only be this UI's`
      : `the output is not machine-readable, and ${none} with this message that no other run has`;
  }
}

/** The agent never ran. */
export const NO_EXIT: Exit = { code: null, signal: null };
