/**
 * Opens an attempt's agent by the driver that its command asks for, and puts what the agent asks to the caller.
 */
import { removeQuietly } from "../audit/audit.ts";
import type { Decision, Question } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { type DialogueHooks, type LiveAgent, openAgent, openDialogue } from "../drivers/drivers.ts";
import type { Deps } from "./deps.ts";
import { type Job, markerOf, type Watch } from "./job.ts";
import { agentLock, prepareLock } from "./leases.ts";

export interface Place {
  readonly cwd: string;
  /** The number of the attempt. */
  readonly n: number;
}

export async function connect(deps: Deps, job: Job, place: Place, hooks: DialogueHooks): Promise<LiveAgent> {
  const lock = agentLock(job.run, place.n);
  prepareLock(deps, lock);
  try {
    const agent = await open(deps, job, { ...place, lock }, hooks);
    // Whoever comes later need not ask whether the agent lives: it was seen to end.
    void agent.ended.then(() => removeQuietly(lock));
    return agent;
  } catch (error) {
    removeQuietly(lock);
    throw error;
  }
}

function open(
  deps: Deps,
  job: Job,
  { cwd, n, lock }: Place & { readonly lock: string },
  hooks: DialogueHooks,
): Promise<LiveAgent> {
  const { command, engine, env, mode, interactive, size } = job;
  const [file, ...first] = job.program;
  const child = { file, args: [...first, ...command.args], cwd, env, lock };
  const marker = markerOf(job.run.runId, n);
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

export interface QuestionHooks {
  answer(id: string, decision: Decision): void;
  /** The caller could not keep the answer. */
  fault(fault: Fault): void;
}

/** What a live agent waits for somebody to decide. Where nobody can be asked, the answer is no. */
export class Questions {
  readonly #watch: Watch;
  readonly #hooks: QuestionHooks;
  readonly #open = new Set<string>();
  #unheard = 0;

  constructor(watch: Watch, hooks: QuestionHooks) {
    this.#watch = watch;
    this.#hooks = hooks;
  }

  /** Somebody thinks: until then the agent's silence is no sign of death. */
  get waiting(): boolean {
    return this.#open.size > 0;
  }

  async put(question: Question): Promise<void> {
    // A question that is repeated while it is open gets the one answer.
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
