/**
 * Watches one live agent and reports its activity to the caller: every change, and once a second while its output grows.
 * It asks the engine where the engine can tell, and decides nothing.
 */
import type { Observed, SeenEvent } from "../../core/events.ts";
import type { ProcessIdentity } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { LiveUi, UiState } from "../../engines/engine.ts";
import { firstSight, isSame, sawEvents, sawNothing, sawOutput, sawUi, statusIn } from "./activity.ts";
import type { Deps } from "../deps.ts";
import type { Job } from "./job.ts";
import type { Ledger } from "./ledger.ts";

const EVERY_MS = 500;
const GROWTH_MS = 1_000;

export class Observer {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #ledger: Ledger;
  readonly #tell: (observed: Observed) => void;
  readonly #startedAtMs: number;
  #observed: Observed;
  #told: Observed | null = null;
  #toldAtMs = 0;
  #agent: ProcessIdentity | null = null;
  #ui: UiState | null = null;
  #status: string | undefined;
  #rest = "";
  #polling: NodeJS.Timeout | null = null;
  #looking: Promise<void> | null = null;

  constructor(deps: Deps, job: Job, ledger: Ledger, tell: (observed: Observed) => void) {
    this.#deps = deps;
    this.#job = job;
    this.#ledger = ledger;
    this.#tell = tell;
    this.#startedAtMs = deps.clock.now();
    const tells = job.interactive ? this.#asks() !== null : job.command.structured;
    this.#observed = firstSight(this.#startedAtMs, tells);
  }

  begin(agent: ProcessIdentity): void {
    this.#agent = agent;
    this.#show();
    this.#polling = setInterval(() => {
      if (this.#looking === null) void this.look();
    }, EVERY_MS);
  }

  end(): void {
    if (this.#polling !== null) clearInterval(this.#polling);
    this.#polling = null;
  }

  output(chunk: Buffer): void {
    if (this.#job.interactive) this.#readStatus(chunk);
    else if (this.#job.command.structured) return;
    this.#observed = sawOutput(this.#observed, this.#deps.clock.now());
  }

  events(seen: readonly SeenEvent[]): void {
    if (this.#job.interactive) return;
    const events = seen.map(({ event }) => event);
    this.#observed = sawEvents(this.#observed, events, this.#deps.clock.now());
    this.#show();
  }

  #readStatus(chunk: Buffer): void {
    const { status, rest } = statusIn(this.#rest + chunk.toString("latin1"), this.#status);
    this.#status = status;
    this.#rest = rest;
  }

  /** One check at a time: each begins where the last one ended. */
  async look(): Promise<void> {
    await this.#looking;
    this.#looking ??= this.#ask().finally(() => (this.#looking = null));
    await this.#looking;
  }

  async #ask(): Promise<void> {
    const ask = this.#asks();
    const state = ask === null ? null : await ask();
    const nowMs = this.#deps.clock.now();
    if (state !== null) this.#ui = state;
    // The end of the agent is reported elsewhere.
    if (this.#polling === null) return;
    this.#observed = sawNothing(sawUi(this.#observed, state, nowMs), nowMs);
    this.#show();
  }

  /** Null: the engine has no way to tell. */
  #asks(): (() => Promise<UiState | null>) | null {
    const { engine, interactive } = this.#job;
    const where = this.#where();
    if (!interactive || engine.activity === undefined || where === null) return null;
    return async () => {
      const ui = this.#liveUi();
      return ui === null ? null : ((await engine.activity?.(ui, where, sessionFiles())) ?? null);
    };
  }

  #where(): { readonly home: string; readonly cwd: string } | null {
    const { engineHome, run } = this.#job;
    return engineHome === null ? null : { home: engineHome, cwd: run.cwd };
  }

  #liveUi(): LiveUi | null {
    if (this.#agent === null) return null;
    const { asked, reported } = this.#ledger.attempt;
    const { hooksFile } = this.#job;
    return {
      pid: this.#agent.pid,
      start: this.#agent.start,
      session: reported.at(-1)?.value ?? asked,
      startedAtMs: this.#startedAtMs,
      ...(this.#ui === null ? {} : { before: this.#ui }),
      ...(hooksFile === undefined ? {} : { hooks: hooksFile }),
      ...(this.#status === undefined ? {} : { status: this.#status }),
    };
  }

  #show(): void {
    const [now, told] = [this.#observed, this.#told];
    const nowMs = this.#deps.clock.now();
    const changed =
      told === null ||
      now.turns !== told.turns ||
      now.sinceMs !== told.sinceMs ||
      !isSame(now.activity, told.activity);
    const grew = told !== null && now.grewAtMs > told.grewAtMs && nowMs - this.#toldAtMs >= GROWTH_MS;
    if (!changed && !grew) return;
    this.#told = now;
    this.#toldAtMs = nowMs;
    this.#tell(now);
  }
}
