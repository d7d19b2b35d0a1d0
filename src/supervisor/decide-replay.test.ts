/**
 * Histories as they are in stores, each with what was decided then. A case is one file: the agent, its log as it was stored, and
 * moments with what was seen and what followed. A release must decide the same, or say so by changing the file.
 */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { AgentRecord } from "../core/supervision.ts";
import type { StoredEvent } from "../store/store.ts";
import { decide, type NextAction, type SupervisionFacts } from "./decide.ts";
import { fromStored } from "./history.ts";
import type { EndedAttempt, ProcessState } from "./occurrence.ts";

interface Recorded {
  readonly about: string;
  readonly agent: AgentRecord;
  readonly events: readonly StoredEvent[];
  readonly ended: readonly EndedAttempt[];
  readonly moments: readonly {
    readonly at: string;
    /** How much of the log there was. */
    readonly seq: number;
    readonly attempt: number;
    readonly seen: ProcessState;
    readonly with?: Partial<SupervisionFacts>;
    readonly decision: NextAction;
  }[];
}

const folder = new URL("./decide.fixtures/", import.meta.url);
const names = readdirSync(folder).filter((name) => name.endsWith(".json"));

test("recorded histories exist", () => expect(names.length).toBeGreaterThanOrEqual(20));

test.each(names)("%s", (name) => {
  const recorded = JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Recorded;
  expect(recorded.moments.length).toBeGreaterThan(0);
  for (const { at, seq, attempt, seen, with: rest, decision } of recorded.moments) {
    const facts: SupervisionFacts = {
      now: Date.parse(at),
      agent: recorded.agent,
      attempt,
      latest: attempt,
      seen,
      ended: recorded.ended.filter((end) => end.attempt < attempt),
      history: fromStored(recorded.events.filter((event) => event.seq <= seq)),
      openDecision: null,
      clockJumpMs: null,
      jitter: 0.25,
      ...rest,
    };
    expect(decide(facts), `${recorded.about} (${at})`).toEqual(decision);
  }
});
