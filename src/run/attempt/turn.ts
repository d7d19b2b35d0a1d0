/** How the agent's turn went, by its events and its last output. The outcome of the attempt follows from it. */
import type { EngineEvent, Exit, Outcome, Tokens, Trouble } from "../../core/events.ts";
import type { LiveAgent } from "../../drivers/drivers.ts";
import type { Job } from "./job.ts";
import { type AttemptFacts, judge } from "./outcome.ts";

export class Turn {
  readonly #job: Job;
  #end: Extract<EngineEvent, { type: "turn_ended" }> | null = null;
  #tokens: Tokens | null = null;
  /** The trouble behind the engine's last retry, until new output arrives. */
  #retrying: Trouble | null = null;

  constructor(job: Job) {
    this.#job = job;
  }

  get tokens(): Tokens | null {
    return this.#tokens;
  }

  /** True: the agent works, so its start is over. */
  heard(event: EngineEvent): boolean {
    if (event.type === "turn_ended") this.#end = event;
    else if (event.type === "turn_started") this.#end = null;
    else if (event.type === "usage") this.#tokens = event.tokens;
    if (event.type === "retry") this.#retrying = event.trouble;
    const works = event.type === "text" || event.type === "tool";
    if (works) this.#retrying = null;
    return works;
  }

  /** Whether the turn was completed, or text output ended with exit code 0. */
  isCompleted({ code }: Exit): boolean {
    return this.#end?.result === "completed" || (!this.#job.command.structured && code === 0);
  }

  judge(
    facts: Pick<AttemptFacts, "exit" | "stop" | "diverged">,
    agent: LiveAgent | null,
    at: number,
  ): Outcome {
    const { structured } = this.#job.command;
    const explained = this.#end === null ? this.#explain(facts.exit, agent, at) : null;
    return judge({ ...facts, structured, interactive: this.#job.interactive, turnEnd: this.#end, explained });
  }

  #explain(exit: Exit, agent: LiveAgent | null, at: number): Trouble | null {
    const { engine, command, interactive } = this.#job;
    const isText = !command.structured && !interactive;
    const stdout = isText ? agent?.stdoutTail() : undefined;
    return engine.explainExit(exit, agent?.stderrTail() ?? "", at, stdout) ?? this.#retrying;
  }
}
