/**
 * Owns one live attempt: the child, its tape, the session lock, the watchdog and the record of its end.
 *
 * The order survives a crash: attempt row, then spawn (I1); raw bytes, then parsing (I7); a session id goes to disk
 * when it is first seen (I2); the end is recorded before it is reported.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { removeQuietly } from "../../state/files.ts";
import { agentLock, attemptDir } from "../../state/runs.ts";
import { openTape, type Tape } from "../../state/tape.ts";
import type { AttemptRecord } from "../../core/records.ts";
import type { Exit, SeenEvent, Stream } from "../../core/events.ts";
import { Fault } from "../../core/faults.ts";
import type { TerminalSize } from "../../lib/terminal-state.ts";
import { type LiveAgent, TAIL_BYTES } from "../../drivers/drivers.ts";
import { connectAgent, endRest, noteUnheard, Questions, StartTurn } from "./connect.ts";
import { type Deps, isoNow } from "../deps.ts";
import { EscrowKeeper, PUT_BACK } from "../escrow/escrow-keeper.ts";
import {
  chosenSession,
  type AttemptEnd,
  intendedAttempt,
  type Job,
  neverStarted,
  placeFor,
  type StopRequest,
  type Watch,
  withHooks,
} from "./job.ts";
import type { StartSnapshot } from "../git/snapshot.ts";
import { lastWords } from "../launch.ts";
import { Ledger } from "./ledger.ts";
import { Observer } from "./observer.ts";
import type { StopReason } from "./outcome.ts";
import { withNextStep } from "../resume/resumable.ts";
import { emptyOrTitle } from "./title.ts";
import { countTokens } from "./tokens.ts";
import { Turn } from "./turn.ts";
import { Watchdog } from "./watchdog.ts";
import { NO_EXIT, Witness } from "./witness.ts";

/** The end of an attempt waits no longer than this for the engine's version. */
const VERSION_PATIENCE_MS = 1_000;

export async function runAttempt(deps: Deps, job: Job, watch: Watch): Promise<AttemptEnd> {
  const attempt = intendedAttempt(deps, job);
  const snapshot = openedSnapshot(deps, job, attempt);
  // A directory with unsafe ownership or permissions is refused before anything is recorded.
  const directory = attemptDir(job.run.runDirectory, attempt.n);
  // The row is the idempotency key: the process that writes (run, n) first runs it (I1, I8). A crash from here on leaves a
  // run with the status `running` and a dead owner, which the next command corrects.
  if (!(await deps.store.createAttempt(attempt, job.fence))) {
    throw new Fault(
      "session_busy",
      `Attempt ${attempt.n} of run ${job.run.handle} was started by another process.`,
    );
  }
  await placeFor(deps, job, attempt);
  const { empty: _before, ...before } = job.run;
  const run = { ...before, attempts: attempt.n };
  const { fence, redact, leaseLost } = job;
  const ledger = new Ledger(deps, { run, attempt, fence, redact, onLeaseLost: leaseLost });
  ledger.save({ run: { status: "running", ...chosenSession(deps, job, attempt.n) } });
  const tape = openTape(directory, { redact: job.redact, clock: deps.clock });
  if (attempt.terminal !== undefined) tape.resized(attempt.terminal);
  const watched = withHooks(job, attempt.n);
  try {
    const end = await new LiveAttempt(deps, watched, watch, { ledger, tape, snapshot }).run();
    return { ...end, compared: snapshot.then((one) => one?.settled()) };
  } finally {
    // The tape has the output of the hooks, redacted.
    if (watched.hooksFile !== undefined) removeQuietly(watched.hooksFile);
  }
}

/** Loads nothing for a folder outside git. */
async function openedSnapshot(deps: Deps, job: Job, attempt: AttemptRecord): Promise<StartSnapshot | null> {
  if (attempt.startedFrom === undefined) return null;
  return (await import("../git/snapshot.ts")).openSnapshot(deps, job.run, attempt);
}

type LiveEnd = Omit<AttemptEnd, "compared">;

interface Records {
  readonly ledger: Ledger;
  readonly tape: Tape;
  readonly snapshot: Promise<StartSnapshot | null>;
}

class LiveAttempt {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #watch: Watch;
  readonly #ledger: Ledger;
  readonly #tape: Tape;
  readonly #snapshot: Promise<StartSnapshot | null>;
  readonly #witness: Witness;
  readonly #start: StartTurn;
  readonly #turn: Turn;
  readonly #watchdog: Watchdog;
  readonly #keeper: EscrowKeeper;
  readonly #questions: Questions;
  /** Null: the caller does not ask for activity. */
  readonly #observer: Observer | null;
  #agent: LiveAgent | null = null;
  #size: TerminalSize | null;
  #waiting = 0;
  #muted = false;
  #stop: StopReason | null = null;
  #storageFault: Fault | null = null;
  #ending: Promise<unknown> | null = null;
  /** Leases that are being taken: an agent may end before it has the lease of its session. */
  readonly #locks: Promise<void>[] = [];

  constructor(deps: Deps, job: Job, watch: Watch, records: Records) {
    this.#deps = deps;
    this.#job = job;
    this.#watch = watch;
    this.#ledger = records.ledger;
    this.#tape = records.tape;
    this.#size = records.ledger.attempt.terminal ?? null;
    this.#snapshot = records.snapshot;
    this.#witness = new Witness(deps, job, records.ledger);
    this.#start = new StartTurn(deps, job);
    this.#turn = new Turn(job);
    this.#watchdog = new Watchdog(deps, job);
    this.#keeper = new EscrowKeeper(deps, job, records.ledger, () => this.#start.over());
    this.#questions = new Questions(watch, {
      answer: (id, decision) => this.#agent?.answer(id, decision),
      fault: (fault) => this.#notRecorded(fault),
    });
    this.#observer =
      watch.activity === undefined
        ? null
        : new Observer(deps, job, records.ledger, (observed) => watch.activity?.(observed));
  }

  async run(): Promise<LiveEnd> {
    this.#watch.onStop((request) => this.#stopRequested(request));
    this.#job.onLeaseLost(() =>
      this.#end({ by: "storage", what: "another process took over this run" }, "terminate"),
    );
    const { message } = this.#job;
    if (message !== null) this.#recording(() => this.#tape.said(message, true));
    this.#recording(() => this.#watch.recorded?.(this.#ledger.run, this.#ledger.attempt));
    const { cwd } = this.#ledger.attempt;
    try {
      await this.#start.take(cwd, () => this.#stop !== null);
      return await this.#runAgent();
    } finally {
      this.#start.over();
    }
  }

  async #runAgent(): Promise<LiveEnd> {
    const { runDirectory } = this.#ledger.run;
    await (await this.#snapshot)?.take(attemptDir(runDirectory, this.#ledger.attempt.n));
    // A stop request from before the agent existed: no agent is started.
    if (this.#stop !== null) return this.#finish(NO_EXIT);
    this.#watchdog.restart();
    await this.#witness.begin();
    const agent = await this.#spawn();
    this.#agent = agent;
    const every = this.#job.engine.liveSession === undefined ? 2_000 : 500;
    const ticking = this.#watchdog.every(() => this.#tick());
    const finding = this.#looks() ? setInterval(() => void this.#findSession(false), every) : null;
    let isOver = false;
    try {
      this.#recording(() => this.#ledger.save({ attempt: { state: "running", agent: agent.identity } }));
      if (this.#stop !== null) this.#end(this.#stop, "terminate");
      this.#watch.live({
        interactive: this.#job.interactive,
        structured: this.#job.command.structured,
        write: (data) => {
          if (this.#job.interactive) this.#witness.typed(data);
          agent.write(data);
        },
        resize: (cols, rows) => {
          agent.resize({ cols, rows });
          if (this.#size?.cols === cols && this.#size.rows === rows) return;
          this.#size = { cols, rows };
          this.#tape.resized({ cols, rows });
        },
        size: () => this.#size,
        sending: (message) => this.#recording(() => this.#tape.said(message, false)),
        look: async () => this.#observer?.look(),
        tookUp: (message, typedAtMs) => this.#witness.tookUp(agent.identity, message, typedAtMs),
      });
      this.#observer?.begin(agent.identity);
      this.#keeper.follow(this.#job.kind === "resume" ? this.#job.continues : this.#job.command.expects);
      const exit = await agent.ended;
      isOver = true;
      await this.#ending;
      return await this.#finish(exit);
    } catch (error) {
      // Without a record the agent must not go on: its output would find the store closed.
      if (!isOver) await agent.end("terminate").then(() => Promise.allSettled([agent.ended, ...this.#locks]));
      throw error;
    } finally {
      this.#keeper.stop();
      this.#observer?.end();
      clearInterval(ticking);
      if (finding !== null) clearInterval(finding);
    }
  }

  /** True: the agent's output does not name its session, so the engine's store is searched while the agent lives. */
  #looks(): boolean {
    const { interactive, command, engine } = this.#job;
    return interactive || (!command.structured && command.expects === null && engine.can.readStore);
  }

  async #spawn(): Promise<LiveAgent> {
    const { run } = this.#job;
    const { cwd, n } = this.#ledger.attempt;
    try {
      return await connectAgent(
        this.#deps,
        this.#job,
        { cwd, n },
        {
          raw: (stream, chunk) => this.#raw(stream, chunk),
          events: (seen) => this.#events(seen),
          wire: (direction, line) =>
            this.#recording(() => this.#watch.wire?.(direction, line)) && this.#storageFault === null,
          question: (question) => void this.#questions.put(question),
          settled: (id) => this.#questions.settled(id),
          stuck: (why) => this.#end({ by: "deadline", what: why }, "terminate"),
        },
      );
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      await this.#neverStarted(error);
      const { handle } = run;
      const recorded = `Attempt ${n} of run ${handle} is recorded: reprise show ${handle}`;
      throw new Fault(error.code, `${error.message} ${recorded}`, {
        facts: { ...error.facts, handle },
        cause: error.cause,
      });
    }
  }

  #raw(stream: Stream, chunk: Buffer): void {
    if (!this.#recording(() => this.#tape.raw(stream, chunk))) return;
    // Structured output shows life by its events, other output by its bytes.
    if (!this.#job.command.structured) this.#watchdog.output();
    if (stream === "stdout") this.#observer?.output(chunk);
    if (this.#muted) return;
    const wait = this.#watch.raw(stream, chunk);
    if (wait === undefined) return;
    this.#waiting += 1;
    this.#agent?.pause();
    void wait.then(() => {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#agent?.resume();
    });
  }

  #events(seen: readonly SeenEvent[]): void {
    this.#watchdog.events(seen);
    this.#recording(() => {
      this.#saw(this.#witness.heard(seen));
      for (const { event } of seen) if (this.#turn.heard(event)) this.#start.over();
      this.#tape.events(seen);
    });
    this.#recording(() => this.#watch.events(seen));
    this.#observer?.events(seen);
  }

  #saw(fresh: readonly string[]): void {
    for (const session of fresh) this.#locks.push(this.#lock(session));
    if (fresh.length > 0) this.#keeper.follow(this.#ledger.run.session.value);
  }

  /** One live attempt per session (I6): an engine that opens the conversation of another attempt must stop. */
  async #lock(session: string): Promise<void> {
    try {
      await this.#job.onSession(session);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#end({ by: "busy", what: error.message }, "terminate");
    }
  }

  /** Runs in a timer: a fault must end the attempt, not the process. */
  async #findSession(afterwards: boolean): Promise<void> {
    const found = await this.#witness.find(this.#agent?.identity ?? null, afterwards);
    if (found !== null)
      this.#recording(() => this.#saw(this.#witness.sawAll([{ value: found, source: "store" }])));
  }

  #stopRequested(request: StopRequest): void {
    if (request === "interrupt") this.#end({ by: "user" }, "interrupt");
    else if (request === "terminate") this.#end({ by: "user" }, "terminate");
    else if (request === "end") this.#end({ by: "user" }, "kill");
    else this.#end({ by: "signal", signal: request }, "terminate");
  }

  /** The first reason stays. Later requests only end the agent faster. */
  #end(reason: StopReason, from: "interrupt" | "terminate" | "kill"): void {
    this.#stop ??= reason;
    if (this.#agent === null) return;
    // The user's first request only asks: the agent may take its time to stop. A second request ends it.
    if (reason.by === "user" && from === "interrupt") {
      this.#unheard(this.#agent.interrupt());
      return;
    }
    // A caller that does not read the output must not keep the agent from ending.
    if (this.#waiting > 0 && !this.#muted) {
      this.#muted = true;
      this.#watch.mute();
      this.#agent.resume();
    }
    this.#ending = this.#agent.end(from).then(({ survivors }) => this.#unheard(survivors));
  }

  #unheard(pids: readonly number[]): void {
    if (pids.length > 0) this.#recording(() => noteUnheard(this.#deps, this.#ledger, pids));
  }

  /** False: the disk refused. Reprise ends the agent and releases the reserve, which leaves room to record why. */
  #recording(write: () => void): boolean {
    try {
      write();
      return true;
    } catch (error) {
      this.#notRecorded(error);
      return false;
    }
  }

  #notRecorded(error: unknown): void {
    if (!(error instanceof Fault)) throw error;
    if (this.#storageFault !== null) return;
    this.#storageFault = error;
    this.#deps.state.releaseReserve();
    this.#end({ by: "storage", what: error.message }, "terminate");
  }

  #tick(): void {
    const over = this.#watchdog.tick({ owed: this.#questions.waiting, unread: this.#waiting > 0 });
    if (over !== null && this.#ending === null)
      this.#end({ by: "deadline", what: over }, this.#stop === null ? "interrupt" : "terminate");
    this.#watch.status({
      ...this.#watchdog.status(),
      attempt: this.#ledger.attempt.n,
      stopping: this.#stop !== null,
    });
  }

  async #finish(exit: Exit): Promise<LiveEnd> {
    this.#keeper.stop();
    if (this.#job.interactive || this.#ledger.attempt.reported.length === 0) await this.#findSession(true);
    const bytes = await this.#closeTape();
    await Promise.all(this.#locks);
    const verdict = await this.#witness.verdict({
      mute: bytes.stdout === 0,
      completed: this.#turn.isCompleted(exit),
      exit,
    });
    const facts = { exit, stop: this.#stop, diverged: verdict.diverged };
    const judged = this.#turn.judge(facts, this.#agent, this.#deps.clock.now());
    const { outcome, survivors } = await endRest(
      this.#agent,
      agentLock(this.#job.run, this.#ledger.attempt.n),
      judged,
    );
    this.#unheard(survivors);
    const version = await Promise.race([this.#job.version, sleep(VERSION_PATIENCE_MS, null, { ref: false })]);
    const { attempt, run } = this.#ledger;
    const counted = await countTokens(this.#deps, this.#job, attempt, this.#turn.usage);
    const failed = outcome.result === "failed" || outcome.result === "interrupted";
    const isWhole = bytes.stderr <= TAIL_BYTES;
    const words = failed ? lastWords(this.#agent?.stderrTail() ?? "", isWhole, this.#job.redact) : [];
    const end = {
      attempt: {
        state: "ended",
        endedAt: isoNow(this.#deps),
        exit: this.#agent === null ? null : exit,
        outcome,
        ...counted,
        bytes,
        engineVersion: version,
        diagnostics: [
          // Gemini removes the session file of a UI without a message when it exits.
          ...attempt.diagnostics.filter((one) => !verdict.isEmpty || one !== PUT_BACK),
          ...verdict.diagnostics,
          ...[this.#questions, this.#turn].flatMap((one) => one.diagnostics()),
        ],
        ...(words.length === 0 ? {} : { lastWords: words }),
      },
      run: {
        status: outcome.result,
        launch: { ...run.launch, version: run.launch.version ?? version },
        ...verdict.run,
        ...(await emptyOrTitle(this.#job, { ...run, ...verdict.run }, verdict.isEmpty)),
      },
    } as const;
    // The end of a turn may use the last blocks of the disk.
    if (!this.#recording(() => this.#ledger.save(end))) this.#ledger.save(end);
    await this.#ledger.settled();
    if (this.#storageFault !== null && outcome.result !== "completed")
      throw await withNextStep(this.#deps, this.#ledger.run, this.#storageFault);
    return {
      run: this.#ledger.run,
      attempt: this.#ledger.attempt,
      stop: this.#stop,
      reported: verdict.reported,
      wrote: verdict.wrote,
      copied: this.#keeper.settled(),
    };
  }

  async #closeTape(): Promise<{ stdout: number; stderr: number }> {
    try {
      return await this.#tape.close();
    } catch (error) {
      this.#notRecorded(error);
      return this.#ledger.attempt.bytes;
    }
  }

  async #neverStarted(fault: Fault): Promise<void> {
    const bytes = await this.#closeTape();
    this.#ledger.save(neverStarted(this.#deps, this.#job, { ...this.#ledger.attempt, bytes }, fault));
    await this.#ledger.settled();
  }
}
