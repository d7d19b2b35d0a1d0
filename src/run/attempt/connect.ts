/**
 * Starts an attempt's agent with the driver that its command needs, when its turn has come, and puts the agent's
 * questions to the caller.
 */
import { statSync, utimesSync } from "node:fs";
import { startLock } from "../../state/directory.ts";
import { removeQuietly } from "../../state/files.ts";
import { agentLock } from "../../state/runs.ts";
import type { QuestionAnswer, Outcome, Question } from "../../core/events.ts";
import { Fault } from "../../core/faults.ts";
import { type DialogueHooks, type LiveAgent, openAgent, openDialogue } from "../../drivers/drivers.ts";
import { type FileLock, lockFile } from "../../store/store.ts";
import type { Deps } from "../deps.ts";
import type { Job, Watch } from "./job.ts";
import { attemptMarker, prepareLock } from "../agent-locks.ts";
import type { Ledger } from "./ledger.ts";
import { cannotBeEnded } from "../stop.ts";

/** The hooks of both drivers: an agent without a dialogue never calls those of a dialogue. */
type ConnectHooks = DialogueHooks;

interface AttemptPlace {
  readonly cwd: string;
  /** The number of the attempt. */
  readonly n: number;
}

export async function connectAgent(
  deps: Deps,
  job: Job,
  place: AttemptPlace,
  hooks: ConnectHooks,
): Promise<LiveAgent> {
  const lock = agentLock(job.run, place.n);
  prepareLock(deps, lock);
  try {
    return await open(deps, job, { ...place, lock }, hooks);
  } catch (error) {
    removeQuietly(lock);
    throw error;
  }
}

function open(
  deps: Deps,
  job: Job,
  { cwd, n, lock }: AttemptPlace & { readonly lock: string },
  hooks: ConnectHooks,
): Promise<LiveAgent> {
  const { command, engine, env, mode, interactive, size } = job;
  const [file, ...first] = job.program;
  const child = { file, args: [...first, ...command.args], cwd, env, lock };
  const marker = attemptMarker(job.run.runId, n);
  const now = () => deps.clock.now();
  if (command.dialogue !== undefined) {
    return openDialogue({ child, marker, dialogue: command.dialogue(now), hooks });
  }
  return openAgent({
    mode,
    interactive,
    ...(size === undefined ? {} : { size }),
    marker,
    child: { ...child, stdin: command.stdin },
    reader: engine.reader(now, command.structured ? "events" : "text"),
    hooks,
  });
}

/** Processes that no signal reaches keep working. That is reported and recorded, and the attempt lasts as long as its agent. */
export function noteUnheard({ log }: Deps, ledger: Ledger, pids: readonly number[]): void {
  const what = `Reprise told the agent to stop, but ${cannotBeEnded(pids)}`;
  log.warn(what);
  const { diagnostics } = ledger.attempt;
  if (!diagnostics.includes(what)) ledger.save({ attempt: { diagnostics: [...diagnostics, what] } });
}

/**
 * A dead agent leaves its tools behind; a finished one may have started a server on purpose. The lock file is removed once
 * Reprise has seen the agent end.
 */
export async function endRest(
  agent: LiveAgent | null,
  lock: string,
  outcome: Outcome,
): Promise<{ readonly outcome: Outcome; readonly survivors: readonly number[] }> {
  const ended = outcome.result === "completed" ? null : await agent?.end("terminate");
  const survivors = ended?.survivors ?? [];
  if (survivors.length === 0) removeQuietly(lock);
  const lives = survivors.length === 0 ? "" : `, but pid ${survivors.join(", ")} could not be ended`;
  return { outcome: { ...outcome, reason: `${outcome.reason}${lives}` }, survivors };
}

/** After this time an agent that has not begun no longer keeps others from starting. */
const STARTING_MS = 60_000;
/**
 * The longest wait for one other start: its owner stands still. The queue may be as long as it is: the starts before this
 * one take the lock in turn. After that, the links and copies of a session protect it.
 */
const TURN_MS = 2 * STARTING_MS;
const LOOK_AGAIN_MS = 100;
/** A longer wait is reported. */
const SOON_MS = 1_000;

/** For engines whose starts harm each other in one folder: the next agent starts when the last has begun. */
export class StartTurn {
  readonly #deps: Deps;
  readonly #job: Job;
  #lock: FileLock | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: Deps, job: Job) {
    this.#deps = deps;
    this.#job = job;
  }

  /** Waits for the turn, until it takes too long or the caller gives up. */
  async take(cwd: string, isStopped: () => boolean): Promise<void> {
    const { engine, engineHome, startsApart } = this.#job;
    const { clock, log, state } = this.#deps;
    if (!startsApart) return;
    const path = startLock(state, `${engineHome ?? ""}\u0000${cwd}`);
    const begun = clock.mono();
    let [isSaid, since, taken] = [false, begun, takenAt(path)];
    while (!isStopped() && clock.mono() - since < TURN_MS) {
      const lock = await lockOrGoOn(this.#deps, path);
      if (lock !== null) return this.#taken(lock, path);
      const last = takenAt(path);
      if (last !== taken) [since, taken] = [clock.mono(), last];
      if (clock.mono() - begun > SOON_MS && !isSaid) {
        isSaid = true;
        log.info(`waiting until another ${engine.title} has started in this folder`);
      }
      await new Promise((wake) => setTimeout(wake, LOOK_AGAIN_MS));
    }
  }

  #taken(lock: FileLock | "none", path: string): void {
    if (lock === "none") return;
    const now = new Date();
    utimesSync(path, now, now);
    this.#lock = lock;
    this.#timer = setTimeout(() => this.over(), STARTING_MS);
  }

  /** The agent has begun, or will not. */
  over(): void {
    clearTimeout(this.#timer);
    this.#lock?.release();
    this.#lock = null;
  }
}

/** Changes with each process that takes the lock. A held lock file must not be opened. */
function takenAt(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? null;
}

/** Null: another process has it. */
async function lockOrGoOn(deps: Deps, path: string): Promise<FileLock | "none" | null> {
  try {
    return await lockFile(path);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`other starts in this folder are not waited for: ${error.message}`);
    return "none";
  }
}

export interface QuestionHooks {
  answer(id: string, decision: QuestionAnswer): void;
  /** The caller could not store the answer. */
  fault(fault: Fault): void;
}

/** The open questions of a live agent. Without a person to ask, the answer is no. */
export class Questions {
  readonly #watch: Watch;
  readonly #hooks: QuestionHooks;
  readonly #open = new Set<string>();
  #unheard = 0;

  constructor(watch: Watch, hooks: QuestionHooks) {
    this.#watch = watch;
    this.#hooks = hooks;
  }

  /** A question is open, so the agent's silence is no sign of death. */
  get waiting(): boolean {
    return this.#open.size > 0;
  }

  async put(question: Question): Promise<void> {
    // A question that is repeated while it is open gets the same answer.
    if (this.#open.has(question.id)) return;
    if (this.#watch.ask === undefined) {
      this.#unheard += 1;
      this.#hooks.answer(question.id, "decline");
      return;
    }
    this.#open.add(question.id);
    try {
      const decision = await this.#watch.ask(question);
      if (this.#open.delete(question.id)) this.#hooks.answer(question.id, decision);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#hooks.fault(error);
    }
  }

  settled(id: string): void {
    this.#open.delete(id);
    this.#watch.settled?.(id);
  }

  diagnostics(): readonly string[] {
    if (this.#unheard === 0) return [];
    return [`nobody could be asked: ${this.#unheard} request(s) of the agent for an approval were declined`];
  }
}
