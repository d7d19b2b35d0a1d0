/** The clock of one live attempt: how long the agent has been silent, and whether a limit has expired. */
import type { SeenEvent } from "../../core/events.ts";
import type { Deps } from "../deps.ts";
import type { Job, LiveStatus } from "./job.ts";
import {
  delayed,
  describeExpired,
  eventsSeen,
  expired,
  firstPulse,
  type LivenessState,
  outputSeen,
} from "./liveness.ts";

const TICK_MS = 1_000;
/** A tick that comes this late shows that Reprise, not the agent, stood still. */
const LATE_MS = 4_000;

export class Watchdog {
  readonly #deps: Deps;
  readonly #limits: Job["limits"];
  #pulse: LivenessState;
  #lastTick: number;

  constructor(deps: Deps, { interactive, limits }: Job) {
    this.#deps = deps;
    // A UI may be silent between a person's keystrokes.
    this.#limits = interactive ? { ...limits, idleMs: null, toolMs: null } : limits;
    this.#lastTick = deps.clock.mono();
    this.#pulse = firstPulse(this.#lastTick);
  }

  /** The agent starts now. */
  restart(): void {
    this.#lastTick = this.#deps.clock.mono();
    this.#pulse = firstPulse(this.#lastTick);
  }

  every(act: () => void): NodeJS.Timeout {
    return setInterval(act, TICK_MS);
  }

  output(): void {
    this.#pulse = outputSeen(this.#pulse, this.#deps.clock.mono());
  }

  events(seen: readonly SeenEvent[]): void {
    this.#pulse = eventsSeen(this.#pulse, seen, this.#deps.clock.mono());
  }

  /** `owed`: the agent waits for an answer. `unread`: Reprise does not read its output. Returns the expired limit, or null. */
  tick({ owed, unread }: { readonly owed: boolean; readonly unread: boolean }): string | null {
    const now = this.#deps.clock.mono();
    const passed = now - this.#lastTick;
    this.#lastTick = now;
    // While Reprise stood still, did not read or owed an answer, the agent could not show that it lives.
    if (passed - TICK_MS > LATE_MS) {
      this.#pulse = delayed(this.#pulse, passed - TICK_MS, now);
      return null;
    }
    if (owed) this.#pulse = delayed(this.#pulse, passed, now);
    if (unread) this.#pulse = outputSeen(this.#pulse, now);
    const over = expired(this.#pulse, this.#limits, now);
    return over === null ? null : describeExpired(over);
  }

  status(): Pick<LiveStatus, "elapsedMs" | "quietMs" | "tools"> {
    const now = this.#lastTick;
    return {
      elapsedMs: now - this.#pulse.startedAt,
      quietMs: now - this.#pulse.lastSign,
      tools: [...this.#pulse.tools.values()].map((tool) => ({ name: tool.name, forMs: now - tool.since })),
    };
  }
}
