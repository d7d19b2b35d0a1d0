/**
 * Owns one live attempt: the child, its tape, the session lock, the watchdog and the record of its end.
 *
 * Order is what survives a crash: attempt row, then spawn (I1); raw bytes, then parsing (I7); a session id goes
 * to disk when it is first seen (I2); the end is written before anything is said about it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { agentLock, attemptDir, openTape, removeQuietly, type Tape } from "../../state/state.ts";
import type { EngineEvent, Exit, Outcome, SeenEvent, Stream, Tokens, Trouble } from "../../core/events.ts";
import { Fault } from "../../core/faults.ts";
import { type LiveAgent, TAIL_BYTES } from "../../drivers/drivers.ts";
import { connectDialogue, endRest, noteUnheard, Questions, StartTurn } from "./connect.ts";
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
import { lastWords } from "../launch.ts";
import { Ledger } from "./ledger.ts";
import {
  delayed,
  describeExpired,
  expired,
  firstPulse,
  type LivenessState,
  eventsSeen,
  outputSeen,
} from "./liveness.ts";
import { Observer } from "./observer.ts";
import { judge, type StopReason } from "./outcome.ts";
import { offerFor } from "../resume/resumable.ts";
import { NO_EXIT, type Verdict, Witness } from "./witness.ts";

/** A version is worth knowing, and not worth waiting for. */
const VERSION_PATIENCE_MS = 1_000;
/** A tick that comes this late says that we, not the agent, stood still. */
const LATE_MS = 4_000;

export async function runAttempt(deps: Deps, job: Job, watch: Watch): Promise<AttemptEnd> {
  const attempt = intendedAttempt(deps, job);
  // A place that is not safely ours is refused before anything is recorded.
  const directory = attemptDir(job.run.runDirectory, attempt.n);
  // The row is the idempotency key: whoever writes (run, n) first runs it (I1, I8). A crash from here on leaves a run
  // that says it is running and whose owner is dead: it is corrected on sight.
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
  const watched = withHooks(job, attempt.n);
  try {
    return await new Holder(deps, watched, watch, { ledger, tape }).hold();
  } finally {
    // What hooks say is on the tape, without secrets, as far as it was shown.
    if (watched.hooksFile !== undefined) removeQuietly(watched.hooksFile);
  }
}

class Holder {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #watch: Watch;
  readonly #ledger: Ledger;
  readonly #tape: Tape;
  readonly #witness: Witness;
  readonly #turn: StartTurn;
  readonly #keeper: EscrowKeeper;
  readonly #questions: Questions;
  /** Null: nobody wants to know. */
  readonly #observer: Observer | null;
  #agent: LiveAgent | null = null;
  #pulse: LivenessState;
  #lastTick: number;
  #waiting = 0;
  #muted = false;
  #stop: StopReason | null = null;
  #storageFault: Fault | null = null;
  #turnEnd: Extract<EngineEvent, { type: "turn_ended" }> | null = null;
  #tokens: Tokens | null = null;
  /** What the engine was still trying to get over, when nothing came after it. */
  #retrying: Trouble | null = null;
  #ending: Promise<unknown> | null = null;
  /** An agent may be faster than the lock of its session. */
  readonly #locks: Promise<void>[] = [];

  constructor(deps: Deps, job: Job, watch: Watch, records: { ledger: Ledger; tape: Tape }) {
    this.#deps = deps;
    this.#job = job;
    this.#watch = watch;
    this.#ledger = records.ledger;
    this.#tape = records.tape;
    this.#witness = new Witness(deps, job, records.ledger);
    this.#turn = new StartTurn(deps, job);
    this.#keeper = new EscrowKeeper(deps, job, records.ledger, () => this.#turn.over());
    this.#questions = new Questions(watch, {
      answer: (id, decision) => this.#agent?.answer(id, decision),
      fault: (fault) => this.#notRecorded(fault),
    });
    this.#observer =
      watch.activity === undefined
        ? null
        : new Observer(deps, job, records.ledger, (observed) => watch.activity?.(observed));
    this.#lastTick = deps.clock.mono();
    this.#pulse = firstPulse(this.#lastTick);
  }

  async hold(): Promise<AttemptEnd> {
    this.#watch.onStop((request) => this.#stopRequested(request));
    this.#job.onLeaseLost(() =>
      this.#end({ by: "storage", what: "another process took over this run" }, "terminate"),
    );
    this.#recording(() => this.#watch.recorded?.(this.#ledger.run, this.#ledger.attempt));
    const { cwd } = this.#ledger.attempt;
    try {
      await this.#turn.take(cwd, () => this.#stop !== null);
      return await this.#holdAgent();
    } finally {
      this.#turn.over();
    }
  }

  async #holdAgent(): Promise<AttemptEnd> {
    // A stop that was asked for before there was an agent: there is none to be stopped, and none is started.
    if (this.#stop !== null) return this.#finish(NO_EXIT);
    this.#lastTick = this.#deps.clock.mono();
    this.#pulse = firstPulse(this.#lastTick);
    await this.#witness.begin();
    const agent = await this.#spawn();
    this.#agent = agent;
    const every = this.#job.engine.liveSession === undefined ? 2_000 : 500;
    const ticking = setInterval(() => this.#tick(), 1_000);
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
        resize: (cols, rows) => agent.resize({ cols, rows }),
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
      // An agent that nobody records any more would go on, and what it says would find the store closed.
      if (!isOver) await agent.end("terminate").then(() => Promise.allSettled([agent.ended, ...this.#locks]));
      throw error;
    } finally {
      this.#keeper.stop();
      this.#observer?.end();
      clearInterval(ticking);
      if (finding !== null) clearInterval(finding);
    }
  }

  /** Is it only seen from outside, while the agent lives, which session it is in? */
  #looks(): boolean {
    const { interactive, command, engine } = this.#job;
    return interactive || (!command.structured && command.expects === null && engine.can.readStore);
  }

  async #spawn(): Promise<LiveAgent> {
    const { run } = this.#job;
    const { cwd, n } = this.#ledger.attempt;
    try {
      return await connectDialogue(
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
    // A reader sees every line of structured output; elsewhere the bytes themselves are the sign of life.
    if (!this.#job.command.structured) this.#pulse = outputSeen(this.#pulse, this.#deps.clock.mono());
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
    this.#pulse = eventsSeen(this.#pulse, seen, this.#deps.clock.mono());
    this.#recording(() => {
      this.#saw(this.#witness.heard(seen));
      for (const { event } of seen) this.#understand(event);
      this.#tape.events(seen);
    });
    this.#recording(() => this.#watch.events(seen));
    this.#observer?.events(seen);
  }

  #understand(event: EngineEvent): void {
    if (event.type === "turn_ended") this.#turnEnd = event;
    else if (event.type === "turn_started") this.#turnEnd = null;
    else if (event.type === "usage") this.#tokens = event.tokens;
    if (event.type === "retry") this.#retrying = event.trouble;
    else if (event.type === "text" || event.type === "tool") {
      this.#retrying = null;
      this.#turn.over();
    }
  }

  #saw(fresh: readonly string[]): void {
    for (const session of fresh) this.#locks.push(this.#lock(session));
    if (fresh.length > 0) this.#keeper.follow(this.#ledger.run.session.value);
  }

  /** One live attempt a session (I6): an engine that opens a conversation which another attempt is in must stop. */
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

  /** The first reason stays: what follows only ends the agent faster. */
  #end(reason: StopReason, from: "interrupt" | "terminate" | "kill"): void {
    this.#stop ??= reason;
    if (this.#agent === null) return;
    // The user's first request only asks: an agent may take its time to stop well, and a second request ends it.
    if (reason.by === "user" && from === "interrupt") {
      this.#unheard(this.#agent.interrupt());
      return;
    }
    // Whoever does not read our output must not keep the agent from ending.
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

  /** False: the disk refused. The agent is ended, and the reserve leaves room to record why. */
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
    const now = this.#deps.clock.mono();
    const passed = now - this.#lastTick;
    this.#lastTick = now;
    // While we were stopped, did not read or owed an answer, the agent could not show that it lives.
    if (passed - 1_000 > LATE_MS) this.#pulse = delayed(this.#pulse, passed - 1_000, now);
    else {
      if (this.#questions.waiting) this.#pulse = delayed(this.#pulse, passed, now);
      if (this.#waiting > 0) this.#pulse = outputSeen(this.#pulse, now);
      this.#watchOver(now);
    }
    this.#watch.status({
      elapsedMs: now - this.#pulse.startedAt,
      quietMs: now - this.#pulse.lastSign,
      attempt: this.#ledger.attempt.n,
      tools: [...this.#pulse.tools.values()].map((tool) => ({ name: tool.name, forMs: now - tool.since })),
      stopping: this.#stop !== null,
    });
  }

  #watchOver(now: number): void {
    const { limits, interactive } = this.#job;
    // Between a person's keystrokes a UI is silent by right.
    const over = expired(this.#pulse, interactive ? { ...limits, idleMs: null, toolMs: null } : limits, now);
    if (over === null || this.#ending !== null) return;
    const what = describeExpired(over);
    this.#end({ by: "deadline", what }, this.#stop === null ? "interrupt" : "terminate");
  }

  async #finish(exit: Exit): Promise<AttemptEnd> {
    this.#keeper.stop();
    if (this.#job.interactive || this.#ledger.attempt.reported.length === 0) await this.#findSession(true);
    const bytes = await this.#closeTape();
    await Promise.all(this.#locks);
    const verdict = await this.#witness.verdict({
      mute: bytes.stdout === 0,
      completed: this.#turnEnd?.result === "completed" || (!this.#job.command.structured && exit.code === 0),
      exit,
    });
    const judged = this.#judge(exit, verdict.diverged);
    const { outcome, survivors } = await endRest(
      this.#agent,
      agentLock(this.#job.run, this.#ledger.attempt.n),
      judged,
    );
    this.#unheard(survivors);
    const version = await Promise.race([this.#job.version, sleep(VERSION_PATIENCE_MS, null, { ref: false })]);
    const { attempt, run } = this.#ledger;
    const failed = outcome.result === "failed" || outcome.result === "interrupted";
    const isWhole = bytes.stderr <= TAIL_BYTES;
    const words = failed ? lastWords(this.#agent?.stderrTail() ?? "", isWhole, this.#job.redact) : [];
    const end = {
      attempt: {
        state: "ended",
        endedAt: isoNow(this.#deps),
        exit: this.#agent === null ? null : exit,
        outcome,
        tokens: this.#tokens,
        bytes,
        engineVersion: version,
        diagnostics: [
          // Gemini removes the file of a UI in which nothing was said when it leaves.
          ...attempt.diagnostics.filter((one) => !verdict.isEmpty || one !== PUT_BACK),
          ...verdict.diagnostics,
          ...this.#questions.diagnostics(),
        ],
        ...(words.length === 0 ? {} : { lastWords: words }),
      },
      run: {
        status: outcome.result,
        launch: { ...run.launch, version: run.launch.version ?? version },
        ...verdict.run,
        ...(verdict.isEmpty ? { empty: true as const } : {}),
      },
    } as const;
    // How a turn ended is worth the last blocks of the disk.
    if (!this.#recording(() => this.#ledger.save(end))) this.#ledger.save(end);
    await this.#ledger.settled();
    if (this.#storageFault !== null && outcome.result !== "completed")
      throw await this.#resumable(this.#storageFault);
    return {
      run: this.#ledger.run,
      attempt: this.#ledger.attempt,
      stop: this.#stop,
      reported: verdict.reported,
      wrote: verdict.wrote,
      copied: this.#keeper.settled(),
    };
  }

  #judge(exit: Exit, diverged: Verdict["diverged"]): Outcome {
    const { command, interactive } = this.#job;
    const explained = this.#turnEnd === null ? this.#explain(exit) : null;
    const facts = { structured: command.structured, interactive, exit, turnEnd: this.#turnEnd };
    return judge({ ...facts, stop: this.#stop, explained, diverged });
  }

  #explain(exit: Exit): Trouble | null {
    const { engine, command, interactive } = this.#job;
    const isText = !command.structured && !interactive;
    const stderr = this.#agent?.stderrTail() ?? "";
    const stdout = isText ? this.#agent?.stdoutTail() : undefined;
    return engine.explainExit(exit, stderr, this.#deps.clock.now(), stdout) ?? this.#retrying;
  }

  async #resumable(fault: Fault): Promise<Fault> {
    const { handle } = this.#ledger.run;
    const { why } = await offerFor(this.#deps, this.#ledger.run);
    const next = why === null ? `Then: reprise resume ${handle}` : `It cannot be resumed: ${why}.`;
    return new Fault(fault.code, `${fault.message} ${next}`, {
      facts: { ...fault.facts, handle },
      cause: fault.cause,
    });
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
