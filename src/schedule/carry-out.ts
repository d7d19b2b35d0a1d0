/**
 * Carries out scheduled resumes, in the daemon. Each step is stored before it is taken, so that a daemon that is killed
 * between two steps loses none and repeats none.
 */
import { existsSync } from "node:fs";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord } from "../core/records.ts";
import type { ScheduledResume } from "../core/supervision.ts";
import { launchHolder } from "../detached/detached.ts";
import { formatDuration } from "../lib/duration.ts";
import { type Notice, notify } from "../notify/notify.ts";
import { liveOwner } from "../run/inspect.ts";
import { type Deps, RESUME_DEFAULTS, type ResumeRequest } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { agentLock } from "../state/runs.ts";
import { nextStep, type ScheduleFacts } from "./decide.ts";
import { changeScheduled, forgetScheduled, isOpen, listScheduled } from "./files.ts";

/** After this lateness the notification says how late it was. */
const LATE_MS = 60_000;
/** A holder that died without a reply may have started nothing; the next look decides. */
const MOST_TRIES = 5;

export interface CarryOutOptions {
  /** Resolves when one more process may be started. */
  mayStart(): Promise<void>;
  note(what: string, facts: Readonly<Record<string, unknown>>): void;
}

/** Checks all scheduled resumes. One check runs at a time. */
export class Schedule {
  readonly #deps: Deps;
  readonly #options: CarryOutOptions;
  readonly #tries = new Map<string, number>();
  #checking: Promise<void> | null = null;

  constructor(deps: Deps, options: CarryOutOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  async check(): Promise<void> {
    this.#checking ??= this.#checkAll().finally(() => (this.#checking = null));
    return this.#checking;
  }

  async #checkAll(): Promise<void> {
    const { state, clock } = this.#deps;
    for (const record of await listScheduled(state)) {
      // The start of one run must not hold up another.
      const isDue = record.state === "starting" || Date.parse(record.dueAt) <= clock.now();
      if (isOpen(record) && isDue) await this.#try(record);
    }
  }

  async #try(record: ScheduledResume): Promise<void> {
    try {
      await this.#advance(record);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#options.note("a scheduled resume was not checked", { id: record.id, why: error.message });
    }
  }

  async #advance(record: ScheduledResume): Promise<void> {
    const step = nextStep(record, await factsOf(this.#deps, record));
    switch (step.do) {
      case "nothing":
        return;
      case "forget":
        return forgetScheduled(this.#deps.state, record.runId);
      case "wait":
        if (record.reason !== step.reason) await this.#store(record, { reason: step.reason });
        return;
      case "started":
        return this.#started(record);
      case "failed":
      case "unsure":
        return this.#failed(record, step.do, step.reason);
      case "start":
        return this.#start(record, step.attempt);
    }
  }

  /** The number is stored first: it decides which attempt counts as this resume. */
  async #start(before: ScheduledResume, attempt: number): Promise<void> {
    const record = await this.#store(before, { state: "starting", attempt, reason: null });
    if (record === null) return;
    await this.#options.mayStart();
    try {
      const request = requestOf(record);
      await launchHolder(this.#deps, { do: "resume", request, asAttempt: attempt });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return await this.#refused(record, error);
    }
    await this.#started(record);
  }

  async #started(before: ScheduledResume): Promise<void> {
    const lateMs = this.#latenessOf(before);
    const record = await this.#store(before, { state: "started", lateMs, reason: null });
    if (record === null) return;
    this.#tries.delete(record.id);
    const what = `the scheduled resume was started${lateText(lateMs)}`;
    await this.#tell(record, what, `reprise attach ${record.handle}`);
  }

  #latenessOf({ dueAt }: ScheduledResume): number {
    return Math.max(0, this.#deps.clock.now() - Date.parse(dueAt));
  }

  /** A busy run is tried again later; so is a start whose result is unknown. Anything else is final. */
  async #refused(record: ScheduledResume, fault: Fault): Promise<void> {
    if (fault.code === "run_busy" || fault.code === "session_busy") {
      const { attempt } = await factsOf(this.#deps, record);
      if (attempt?.scheduled === record.id) return;
      await this.#store(record, { state: "waiting", attempt: null, reason: fault.message });
      return;
    }
    const tries = (this.#tries.get(record.id) ?? 0) + 1;
    this.#tries.set(record.id, tries);
    const isUnknown = ["spawn_failed", "too_many_files", "index_busy"].includes(fault.code);
    if (isUnknown && tries < MOST_TRIES) return;
    await this.#failed(record, "failed", fault.message);
  }

  async #failed(before: ScheduledResume, state: "failed" | "unsure", reason: string): Promise<void> {
    const lateMs = this.#latenessOf(before);
    const record = await this.#store(before, { state, reason, lateMs });
    if (record === null) return;
    this.#tries.delete(record.id);
    const what = state === "failed" ? "the scheduled resume failed" : "the scheduled resume is unsure";
    await this.#tell(record, `${what}${lateText(lateMs)}: ${reason}`, `reprise show ${record.handle}`);
  }

  /** Null: it changed in the meantime, for example a person cancelled it. */
  async #store(before: ScheduledResume, change: Partial<ScheduledResume>): Promise<ScheduledResume | null> {
    const { state, clock } = this.#deps;
    let isOurs = false;
    const stored = await changeScheduled(state, before.runId, (now) => {
      isOurs = now !== null && now.id === before.id && now.state === before.state && isOpen(now);
      return isOurs && now !== null
        ? { ...now, ...change, updatedAt: new Date(clock.now()).toISOString() }
        : null;
    });
    return isOurs ? stored : null;
  }

  async #tell(record: ScheduledResume, what: string, next: string): Promise<void> {
    this.#options.note(what, { id: record.id, attempt: record.attempt });
    const { id, handle, runId, engine, attempt, dueAt, lateMs, state, reason } = record;
    const scheduled = { id, handle, runId, engine, attempt, dueAt, lateMs, state, reason };
    const notice: Notice = {
      event: "scheduled",
      text: `${engine} ${handle}: ${what}`,
      facts: { scheduled, next },
    };
    await notify(this.#deps, notice, `scheduled resume ${id}`);
  }
}

const lateText = (lateMs: number) => (lateMs >= LATE_MS ? `, ${formatDuration(lateMs)} late` : "");

async function factsOf(deps: Deps, record: ScheduledResume): Promise<ScheduleFacts> {
  const nowMs = deps.clock.now();
  const none = { nowMs, run: null, attempt: null, mayHaveStarted: false };
  let run;
  try {
    run = await selectRun(deps, record.runId);
  } catch (error) {
    if (error instanceof Fault && error.code === "handle_unknown") return none;
    throw error;
  }
  const { attempt: n } = record;
  const attempt: AttemptRecord | null =
    n === null ? null : ((await deps.store.listAttempts(run.runId)).find((one) => one.n === n) ?? null);
  const isLive = (await liveOwner(deps, run.runId)) !== null;
  return {
    nowMs,
    run: { attempts: run.attempts, isLive },
    attempt,
    mayHaveStarted: n !== null && existsSync(agentLock(run, n)),
  };
}

export function requestOf(record: Omit<ScheduledResume, "state">): ResumeRequest {
  const { id, runId, message, native, keep, mode, limits } = record;
  return {
    ...RESUME_DEFAULTS,
    selector: runId,
    want: "resume",
    message,
    native,
    keep,
    mode,
    limits,
    terminal: null,
    supervised: "schedule",
    scheduled: id,
  };
}
