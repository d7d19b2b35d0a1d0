/** How the agent's turn went, by its events and its last output. The outcome of the attempt follows from it. */
import type { EngineEvent, Exit, Outcome, Trouble } from "../../core/events.ts";
import type { ReportedUsage } from "../../core/tokens.ts";
import type { LiveAgent } from "../../drivers/drivers.ts";
import { plural } from "../../lib/plural.ts";
import type { Job } from "./job.ts";
import { type AttemptFacts, judge } from "./outcome.ts";

export class Turn {
  readonly #job: Job;
  #end: Extract<EngineEvent, { type: "turn_ended" }> | null = null;
  #usage: ReportedUsage | null = null;
  /** The trouble behind the engine's last retry, until new output arrives. */
  #retrying: Trouble | null = null;

  /** Tool calls that the engine refused to run. */
  #denied = 0;

  constructor(job: Job) {
    this.#job = job;
  }

  get usage(): ReportedUsage | null {
    return this.#usage;
  }

  /** True: the agent works, so its start is over. */
  heard(event: EngineEvent): boolean {
    if (event.type === "turn_ended") this.#end = event;
    else if (event.type === "turn_started") this.#end = null;
    else if (event.type === "usage") this.#usage = event;
    else if (event.type === "notice" && event.denied !== undefined) this.#denied += 1;
    if (event.type === "retry") this.#retrying = event.trouble;
    const works = event.type === "text" || event.type === "tool";
    if (works) this.#retrying = null;
    return works;
  }

  diagnostics(): readonly string[] {
    if (this.#denied === 0) return [];
    return [
      `${plural(this.#denied, "tool call")} ${this.#denied === 1 ? "was" : "were"} denied by the engine`,
    ];
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
