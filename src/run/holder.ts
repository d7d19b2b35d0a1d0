/**
 * Owns one live attempt: the child, its tape, the session lock, the watchdog and the record of its end.
 *
 * Order is what survives a crash: attempt row, then spawn (I1); raw bytes, then parsing (I7); a session id goes
 * to disk when it is first seen (I2); the end is written before anything is said about it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { attemptDir, createAttemptDir, openTape, saveAttemptFile, type Tape } from "../audit/audit.ts";
import type { EngineEvent, Exit, SeenEvent, Stream, Tokens } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord, SeenSession } from "../core/records.ts";
import { type LiveAgent, openAgent, sessionFiles } from "../drivers/drivers.ts";
import { formatDuration } from "../lib/duration.ts";
import { observe, settle, sessionOf } from "./conversation.ts";
import { type Deps, isoNow } from "./deps.ts";
import {
  chosenSession,
  type Held,
  intendedAttempt,
  type Job,
  markerOf,
  redactOutcome,
  type StopRequest,
  type Watch,
} from "./job.ts";
import { Ledger } from "./ledger.ts";
import { expired, firstPulse, type Pulse, sawEvents, sawOutput } from "./liveness.ts";
import { judge, type StopReason } from "./outcome.ts";
import { newSession } from "./recover.ts";

/** A version is worth knowing, and not worth waiting for. */
const VERSION_PATIENCE_MS = 1_000;

export async function holdAttempt(deps: Deps, job: Job, watch: Watch): Promise<Held> {
  const attempt = intendedAttempt(deps, job);
  // A crash from here on leaves a run that says it is running and whose owner is dead: it is corrected on sight.
  await deps.store.saveRun({ ...job.run, status: "running" }, job.fence);
  // The row is the idempotency key: whoever writes (run, n) first runs it (I1, I8).
  if (!(await deps.store.createAttempt(attempt, job.fence))) {
    throw new Fault(
      "session_busy",
      `Attempt ${attempt.n} of run ${job.run.handle} was started by another process.`,
    );
  }
  createAttemptDir(job.run.runDirectory, attempt.n);
  saveAttemptFile(job.run.runDirectory, attempt);
  const run = { ...job.run, attempts: attempt.n };
  const ledger = new Ledger(deps, { run, attempt, fence: job.fence });
  ledger.save({ run: { status: "running", ...chosenSession(deps, job, attempt.n) } });
  const tape = openTape(attemptDir(job.run.runDirectory, attempt.n), {
    redact: job.redact,
    clock: deps.clock,
  });
  return new Holder(deps, job, ledger, tape).hold(watch);
}

class Holder {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #ledger: Ledger;
  readonly #tape: Tape;
  readonly #startedAtMs: number;
  #agent: LiveAgent | null = null;
  #pulse: Pulse;
  #stop: StopReason | null = null;
  #storageFault: Fault | null = null;
  #turnEnd: Extract<EngineEvent, { type: "turn_ended" }> | null = null;
  #tokens: Tokens | null = null;
  #ending: Promise<unknown> | null = null;

  constructor(deps: Deps, job: Job, ledger: Ledger, tape: Tape) {
    this.#deps = deps;
    this.#job = job;
    this.#ledger = ledger;
    this.#tape = tape;
    this.#startedAtMs = deps.clock.now();
    this.#pulse = firstPulse(deps.clock.mono());
  }

  async hold(watch: Watch): Promise<Held> {
    const agent = await this.#spawn(watch);
    this.#agent = agent;
    this.#ledger.save({ attempt: { state: "running", agent: agent.identity } });
    this.#ledger.onLeaseLost(() =>
      this.#end({ by: "storage", what: "another process took over this run" }, "terminate"),
    );
    watch.live({
      interactive: this.#job.interactive,
      write: (data) => agent.write(data),
      resize: (cols, rows) => agent.resize({ cols, rows }),
    });
    watch.onStop((request) => this.#stopRequested(request));
    const ticking = setInterval(() => this.#tick(watch), 1_000);
    const every = this.#job.engine.liveSession === undefined ? 2_000 : 500;
    const finding = this.#job.interactive ? setInterval(() => void this.#findSession(false), every) : null;
    try {
      const exit = await agent.ended;
      await this.#ending;
      return await this.#finish(exit, agent.stderrTail());
    } finally {
      clearInterval(ticking);
      if (finding !== null) clearInterval(finding);
    }
  }

  async #spawn(watch: Watch): Promise<LiveAgent> {
    const { command, program, run } = this.#job;
    const [file, ...first] = program;
    try {
      return await openAgent({
        mode: this.#job.mode,
        interactive: this.#job.interactive,
        ...(this.#job.size === undefined ? {} : { size: this.#job.size }),
        marker: markerOf(run.runId, this.#ledger.attempt.n),
        child: {
          file,
          args: [...first, ...command.args],
          cwd: this.#ledger.attempt.cwd,
          env: { ...this.#job.env, REPRISE_ATTEMPT: markerOf(run.runId, this.#ledger.attempt.n) },
          stdin: command.stdin,
        },
        reader: this.#job.engine.reader(() => this.#deps.clock.now()),
        hooks: {
          raw: (stream, chunk) => this.#raw(watch, stream, chunk),
          events: (seen) => this.#events(watch, seen),
        },
      });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      await this.#neverStarted(error);
      const { handle } = run;
      const recorded = `Attempt ${this.#ledger.attempt.n} of run ${handle} is recorded: reprise show ${handle}`;
      throw new Fault(error.code, `${error.message} ${recorded}`, {
        facts: { ...error.facts, handle },
        cause: error.cause,
      });
    }
  }

  #raw(watch: Watch, stream: Stream, chunk: Buffer): void {
    try {
      this.#tape.raw(stream, chunk);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#storageFailed(error);
      return;
    }
    // A reader sees every line of structured output; elsewhere the bytes themselves are the sign of life.
    if (!this.#job.command.structured) this.#pulse = sawOutput(this.#pulse, this.#deps.clock.mono());
    const wait = watch.raw(stream, chunk);
    if (wait !== undefined) {
      this.#agent?.pause();
      void wait.then(() => this.#agent?.resume());
    }
  }

  #events(watch: Watch, seen: readonly SeenEvent[]): void {
    this.#pulse = sawEvents(this.#pulse, seen, this.#deps.clock.mono());
    try {
      for (const { event, stream } of seen) {
        if (event.type === "session") this.#sawSession(event.session, this.#source(stream));
        else if (event.type === "turn_ended") this.#turnEnd = event;
        else if (event.type === "usage") this.#tokens = event.tokens;
      }
      this.#tape.events(seen);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#storageFailed(error);
    }
    watch.events(seen);
  }

  #source(stream: Stream): SeenSession["source"] {
    return this.#job.mode === "pty" ? "pty-output" : stream;
  }

  /** On disk before the next byte is read (I2). */
  #sawSession(value: string, source: SeenSession["source"]): void {
    const at = isoNow(this.#deps);
    const { n, reported } = this.#ledger.attempt;
    const next: SeenSession = { value, source, at, attempt: n, verifiedAt: at };
    const now = observe(reported, next);
    if (now === reported) return;
    void this.#lock(value);
    const { session } = settle(now, new Set());
    // Another id than the one asked for is recorded, but it does not become the run's conversation (I4).
    const isForeign =
      this.#job.kind === "resume" && !this.#job.interactive && session?.value !== this.#ledger.attempt.asked;
    this.#ledger.save({
      attempt: { reported: now },
      run: {
        sessions: observe(this.#ledger.run.sessions, next),
        session: isForeign
          ? this.#ledger.run.session
          : sessionOf(this.#job.engine.session.field, session, this.#ledger.run.session),
      },
    });
  }

  async #lock(session: string): Promise<void> {
    try {
      await this.#job.onSession(session);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#deps.log.warn(error.message);
    }
  }

  #stopRequested(request: StopRequest): void {
    if (request === "interrupt") this.#end({ by: "user" }, "interrupt");
    else if (request === "end") this.#end({ by: "user" }, "terminate");
    else this.#end({ by: "signal", signal: request }, "terminate");
  }

  /** The first reason stays: what follows only ends the agent faster. */
  #end(reason: StopReason, from: "interrupt" | "terminate" | "kill"): void {
    this.#stop ??= reason;
    if (this.#agent === null) return;
    // The user's first request only asks: an agent may take its time to stop well, and a second request ends it.
    if (reason.by === "user" && from === "interrupt") this.#agent.interrupt();
    else this.#ending = this.#agent.end(from);
  }

  #storageFailed(fault: Fault): void {
    if (this.#storageFault !== null) return;
    this.#storageFault = fault;
    this.#deps.state.releaseReserve();
    this.#end({ by: "storage", what: fault.message }, "terminate");
  }

  #tick(watch: Watch): void {
    const now = this.#deps.clock.mono();
    const over =
      this.#stop === null && !this.#job.interactive ? expired(this.#pulse, this.#job.limits, now) : null;
    if (over !== null) {
      const limit = formatDuration(over.limitMs);
      const what = {
        idle: `no sign of life for ${limit}`,
        tool: `the tool ${over.tool ?? ""} ran for more than ${limit}`,
        total: `the time limit of ${limit} was reached`,
      };
      this.#end({ by: "deadline", what: what[over.what] }, "interrupt");
    }
    watch.status({
      elapsedMs: now - this.#pulse.startedAt,
      quietMs: now - this.#pulse.lastSign,
      attempt: this.#ledger.attempt.n,
      tools: [...this.#pulse.tools.values()].map((tool) => ({ name: tool.name, forMs: now - tool.since })),
      stopping: this.#stop !== null,
    });
  }

  /**
   * A UI prints no id: the engine's own store and registry tell which conversation it is in. Where there is no
   * registry, a conversation that the user began inside the UI shows only afterwards, as the one new session.
   */
  async #findSession(afterwards: boolean): Promise<void> {
    const { engine, engineHome } = this.#job;
    if (engineHome === null || !engine.can.readStore) return;
    const where = { home: engineHome, cwd: this.#ledger.attempt.cwd };
    const agent = this.#agent?.identity;
    const live = agent === undefined ? null : await engine.liveSession?.(agent, where, sessionFiles());
    if (live !== null && live !== undefined) {
      this.#sawSession(live, "store");
      return;
    }
    const { asked, reported } = this.#ledger.attempt;
    const known = [...reported.map((one) => one.value), ...(asked === null ? [] : [asked])];
    const mayChange = afterwards && this.#job.interactive && engine.liveSession === undefined;
    if (known.length > 0 && !mayChange) return;
    const found = await newSession(this.#deps, engine, this.#ledger.run, this.#startedAtMs);
    if (found !== null) this.#sawSession(found, "store");
  }

  /** Ids that the engine's own store has, written in this attempt, in this directory. */
  async #confirmed(): Promise<ReadonlySet<string>> {
    const { engine, engineHome } = this.#job;
    const { reported, asked, cwd } = this.#ledger.attempt;
    const ids = new Set([...reported.map((one) => one.value), ...(asked === null ? [] : [asked])]);
    const proved = reported.length === 1 && ids.size === 1;
    if (engineHome === null || !engine.can.readStore || proved) return new Set();
    const confirmed = new Set<string>();
    for (const id of ids) {
      const located = await engine.locate(id, { home: engineHome, cwd }, sessionFiles());
      const fresh = located.state === "present" && (located.updatedAtMs ?? 0) >= this.#startedAtMs - 1_000;
      if (fresh && (located.cwd === null || located.cwd === cwd)) confirmed.add(id);
    }
    return confirmed;
  }

  async #finish(exit: Exit, stderrTail: string): Promise<Held> {
    if (this.#job.interactive || this.#ledger.attempt.reported.length === 0) await this.#findSession(true);
    const bytes = await this.#closeTape();
    const { attempt } = this.#ledger;
    const { engine, command, kind } = this.#job;
    const confirmed = await this.#confirmed();
    const settled = settle(attempt.reported, confirmed);
    const reported = settled.session?.value ?? null;
    const asked = kind === "resume" ? attempt.asked : null;
    const changedByUser = this.#job.interactive;
    const isDiverged = asked !== null && reported !== null && reported !== asked && !changedByUser;
    const outcome = judge({
      structured: command.structured,
      interactive: this.#job.interactive,
      exit,
      turnEnd: this.#turnEnd,
      stop: this.#stop,
      explained: this.#turnEnd === null ? engine.explainExit(exit, stderrTail, this.#deps.clock.now()) : null,
      diverged: isDiverged ? { asked, reported } : null,
    });
    // An agent that died left its tools behind; one that finished may have started a server on purpose.
    if (outcome.result !== "completed") await this.#agent?.end("terminate");
    const version = await Promise.race([this.#job.version, sleep(VERSION_PATIENCE_MS, null, { ref: false })]);
    const diagnostics = [...attempt.diagnostics, ...this.#sessionDiagnostics(settled.mismatch, reported)];
    this.#ledger.save({
      attempt: {
        state: "ended",
        endedAt: isoNow(this.#deps),
        exit,
        outcome: redactOutcome(outcome, this.#job.redact),
        tokens: this.#tokens,
        bytes,
        engineVersion: version,
        diagnostics,
      },
      run: {
        status: outcome.result,
        launch: { ...this.#ledger.run.launch, version: this.#ledger.run.launch.version ?? version },
        // A conversation that diverged never replaces the one that was asked for.
        session: isDiverged
          ? this.#ledger.run.session
          : this.#verified(
              sessionOf(engine.session.field, settled.session, this.#ledger.run.session),
              confirmed,
            ),
      },
    });
    await this.#ledger.settled();
    if (this.#storageFault !== null) throw this.#resumable(this.#storageFault);
    return { run: this.#ledger.run, attempt: this.#ledger.attempt, stop: this.#stop, reported };
  }

  #resumable(fault: Fault): Fault {
    const { handle } = this.#ledger.run;
    return new Fault(fault.code, `${fault.message} Then: reprise resume ${handle}`, {
      facts: { ...fault.facts, handle },
      cause: fault.cause,
    });
  }

  #verified(session: RunRecord["session"], confirmed: ReadonlySet<string>): RunRecord["session"] {
    if (session.value === null || session.verifiedAt !== null || !confirmed.has(session.value))
      return session;
    return { ...session, verifiedAt: isoNow(this.#deps) };
  }

  #sessionDiagnostics(mismatch: boolean, reported: string | null): string[] {
    const { command, engine } = this.#job;
    const lines: string[] = [];
    const { asked } = this.#ledger.attempt;
    if (
      this.#job.kind !== "resume" &&
      asked !== null &&
      reported !== null &&
      reported !== asked &&
      !this.#job.interactive
    ) {
      lines.push(`session_mismatch: ${engine.title} was given the session id ${asked} and uses ${reported}`);
    }
    if (mismatch && !this.#job.interactive) {
      const ids = this.#ledger.attempt.reported.map((one) => one.value).join(", ");
      lines.push(
        `session_mismatch: more than one session id was seen (${ids}); ${reported ?? "none"} counts`,
      );
    }
    if (reported !== null || this.#ledger.attempt.asked !== null) return lines;
    if (command.ephemeral !== undefined) lines.push(`no session id: ${command.ephemeral}`);
    else if (!command.structured)
      lines.push(
        "no session id: the output is not machine-readable and the engine's store shows no new session",
      );
    else lines.push(`no session id: ${engine.title} ended before it named its session`);
    return lines;
  }

  async #closeTape(): Promise<{ stdout: number; stderr: number }> {
    try {
      return await this.#tape.close();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#storageFailed(error);
      return this.#ledger.attempt.bytes;
    }
  }

  async #neverStarted(fault: Fault): Promise<void> {
    const bytes = await this.#closeTape();
    this.#ledger.save({
      attempt: {
        state: "ended",
        endedAt: isoNow(this.#deps),
        bytes,
        outcome: { result: "failed", reason: `the agent was not started: ${fault.message}` },
        diagnostics: [...this.#ledger.attempt.diagnostics, "no session id: the agent was not started"],
      },
      run: { status: "failed" },
    });
    await this.#ledger.settled();
  }
}
