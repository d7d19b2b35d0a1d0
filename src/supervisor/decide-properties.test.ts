/** What must hold whatever happened before: `decide` over generated agents, observations and histories. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TROUBLE_KINDS } from "../core/events.ts";
import {
  ACTIONS,
  type ActionName,
  ERROR_MATCHES,
  TRIGGERS,
  type Trigger,
  whyNotAllowed,
} from "../core/runbook.ts";
import {
  agentLike,
  DAY,
  type Event,
  HOUR,
  log,
  MINUTE,
  past,
  entry,
  RUN_ID,
  SECOND,
  T0,
} from "../../test/supervision.ts";
import { decide, type SupervisionFacts } from "./decide.ts";
import { fromStored, toStored } from "./history.ts";
import type { ProcessState } from "./occurrence.ts";

const span = fc.integer({ min: 0, max: 3 * DAY });
const soon = fc.oneof(fc.integer({ min: 0, max: 3 * MINUTE }), span);
const before = soon.map((ms) => T0 - ms);

const entriesFor = (trigger: Trigger) => {
  const allowed = ACTIONS.filter((action) => whyNotAllowed(trigger, action) === null);
  const one = fc.record({
    action: fc.constantFrom(...allowed),
    attempts: fc.integer({ min: 1, max: 4 }),
    cooldownMs: fc.constantFrom(0, SECOND, MINUTE, HOUR),
    match: trigger === "error" ? fc.constantFrom(...ERROR_MATCHES) : fc.constant("any" as const),
  });
  return fc.array(
    one.map(({ action, ...rest }) => entry(action, rest)),
    { maxLength: 4 },
  );
};

const trouble = fc
  .record({
    kind: fc.constantFrom(...TROUBLE_KINDS),
    resetsAt: fc.option(
      fc.oneof(
        fc.integer({ min: -DAY, max: 40 * DAY }).map((ms) => new Date(T0 + ms).toISOString()),
        fc.constant("soon"),
      ),
      { nil: undefined },
    ),
  })
  .map(({ kind, resetsAt }) => ({ kind, message: "words", ...(resetsAt === undefined ? {} : { resetsAt }) }));

const outcome = fc
  .record({
    result: fc.constantFrom("completed", "failed", "interrupted", "cancelled", "diverged"),
    trouble: fc.option(trouble, { nil: undefined }),
  })
  .map(({ result, trouble: of }) => ({
    result,
    reason: "so it ended",
    ...(of === undefined ? {} : { trouble: of }),
  }));

const endedAttempt = (attempt: number) =>
  fc
    .record({ startedAt: before, lived: span, outcome })
    .map(({ startedAt, lived, outcome: how }) =>
      past(attempt, [startedAt, Math.min(T0, startedAt + lived)], how),
    );

const activity = fc.oneof(
  fc.constantFrom(
    { state: "starting" as const },
    { state: "working" as const },
    { state: "idle" as const },
    { state: "waiting" as const, what: "rm" },
  ),
  trouble.map((of) => ({ state: "error" as const, trouble: of })),
);

const seenOf = (attempt: number): fc.Arbitrary<ProcessState> =>
  fc.oneof(
    fc
      .record({ activity, sinceMs: before, grewAtMs: before, turns: fc.nat(5), certain: fc.boolean() })
      .map((observed) => ({ is: "live" as const, observed })),
    endedAttempt(attempt).map((end) => ({ is: "ended" as const, ...end })),
    before.map((sinceMs) => ({ is: "unresponsive" as const, sinceMs })),
    before.map((sinceMs) => ({ is: "missing" as const, sinceMs })),
  );

const happening = fc.record({
  what: fc.constantFrom("progress", "decided", "decided", "decided", "answered", "escalated"),
  at: before,
  attempt: fc.integer({ min: 1, max: 4 }),
  trigger: fc.constantFrom<Trigger | "user">(...TRIGGERS, "user"),
  position: fc.nat(4),
  action: fc.constantFrom<ActionName>(...ACTIONS),
  result: fc.constantFrom("ok", "failed", "refused", null),
});

type Happening = typeof happening extends fc.Arbitrary<infer H> ? H : never;

/** A log as it may be: keys are what `decide` would have given, in order, each once. */
function historyOf(happenings: readonly Happening[]) {
  const counts = new Map<string, number>();
  const events: Event[] = happenings.flatMap(
    ({ what, at, attempt, trigger, position, action, result }, n): readonly Event[] => {
      if (what === "progress") return [{ kind: what, at, attempt }];
      if (what === "escalated") return [{ kind: what, at, attempt, decision: `1a2b3c4d-${n}` }];
      if (what === "answered")
        return [{ kind: what, at, attempt, decision: `1a2b3c4d-${n}`, choice: "dismiss" }];
      const place = `${attempt}/${trigger}/${position}`;
      counts.set(place, (counts.get(place) ?? 0) + 1);
      const key = `${RUN_ID}/${place}/${counts.get(place)}`;
      const newAttempt = action === "resume" ? attempt + 1 : null;
      const decided = {
        kind: "decided",
        at,
        attempt,
        key,
        trigger,
        position,
        action,
        message: null,
        newAttempt,
      } as const;
      return result === null
        ? [decided]
        : [decided, { kind: "carried_out", at: at + 1, attempt, key, result, detail: "words" }];
    },
  );
  return log(...events);
}

const facts: fc.Arbitrary<SupervisionFacts> = fc
  .record({
    on: fc.record({
      idle: entriesFor("idle"),
      dead: entriesFor("dead"),
      error: entriesFor("error"),
      prompt: entriesFor("prompt"),
    }),
    mode: fc.constantFrom("interactive", "headless"),
    phase: fc.constantFrom("active", "active", "active", "active", "done", "failed", "stopped"),
    maxAttempts: fc.constantFrom(null, null, 1, 3, 100),
    attempt: fc.integer({ min: 1, max: 4 }),
    behind: fc.constantFrom(0, 0, 0, 0, 1),
    happenings: fc.array(happening, { maxLength: 12 }),
    openDecision: fc.constantFrom(null, null, null, "1a2b3c4d-9"),
    clockJumpMs: fc.option(before, { freq: 3 }),
    jitter: fc.double({ min: 0, max: 0.999_999, noNaN: true }),
  })
  .chain(({ attempt, behind, happenings, on, mode, phase, maxAttempts, ...rest }) =>
    fc
      .record({
        seen: seenOf(attempt),
        ended: fc.tuple(...Array.from({ length: attempt - 1 }, (_, n) => endedAttempt(n + 1))),
      })
      .map((seen) => ({
        now: T0,
        agent: agentLike({ on, mode, phase, maxAttempts }),
        attempt,
        latest: attempt + behind,
        history: historyOf(happenings),
        ...rest,
        ...seen,
      })),
  );

/** Generated once, since that costs more than all that is asked of them. */
const SAMPLES = fc.sample(facts, { numRuns: 10_000, seed: 20_260_101 });

function holds(property: (given: SupervisionFacts) => void): void {
  for (const given of SAMPLES) {
    try {
      property(given);
    } catch (error) {
      throw new Error(`does not hold for ${JSON.stringify(given)}`, { cause: error });
    }
  }
}

describe("for any facts", () => {
  test("the generated facts reach every kind of decision", () => {
    const kinds = SAMPLES.map((given) => decide(given).do);
    for (const kind of ["nothing", "wait", "act", "exhausted"]) {
      expect(kinds.filter((each) => each === kind).length, kind).toBeGreaterThan(SAMPLES.length / 50);
    }
  });

  test("every act has a cause", () => {
    holds((given) => {
      const decision = decide(given);
      if (decision.do !== "act" && decision.do !== "exhausted") return;
      const { seen, agent } = given;
      const state = seen.is === "live" ? seen.observed.activity.state : seen.is;
      if (decision.do === "exhausted" && state === "starting") return;
      expect(["idle", "waiting", "error", "ended", "unresponsive", "missing"]).toContain(state);
      if (decision.do === "exhausted") return;
      expect(
        whyNotAllowed(decision.trigger, decision.entry.action) === null || decision.entry.action === "done",
      ).toBe(true);
      // Nobody types into a question or on a guess, and nothing is started beside a live process.
      if (decision.entry.action === "nudge" && agent.definition.mode === "interactive") {
        expect(seen).toMatchObject({ is: "live", observed: { activity: { state: "idle" }, certain: true } });
      }
      if (decision.entry.action === "resume") expect(state).not.toBe("unresponsive");
    });
  });

  test("attempts are bounded by their entry", () => {
    holds((given) => {
      const decision = decide(given);
      if (decision.do !== "act") return;
      expect(decision.tries).toBeLessThanOrEqual(decision.entry.attempts);
      expect(decision.tries).toBeLessThanOrEqual(decision.count + given.history.length);
      const { maxAttempts } = given.agent.definition.policy;
      if (decision.entry.action === "resume" && given.seen.is !== "live" && maxAttempts !== null) {
        expect(given.latest).toBeLessThan(maxAttempts);
      }
    });
  });

  test("the same facts give the same decision, also from the store, and a new key", () => {
    holds((given) => {
      const decision = decide(given);
      const stored = given.history.map((event, n) => {
        const { seq, ...rest } = event;
        const fresh =
          rest.kind === "progress" ? { ...rest, turn: n } : (rest as Exclude<Event, { kind: "progress" }>);
        return { ...toStored(RUN_ID, fresh), seq };
      });
      const again = JSON.parse(JSON.stringify({ ...given, history: fromStored(stored) })) as SupervisionFacts;
      expect(decide(again)).toEqual(decision);
      if (decision.do !== "act" && decision.do !== "exhausted") return;
      const { trigger, position, count } = decision;
      expect(decision.key).toBe(`${RUN_ID}/${given.attempt}/${trigger}/${position}/${count}`);
      const used = given.history.flatMap((event) => (event.kind === "decided" ? [event.key] : []));
      expect(used).not.toContain(decision.key);
    });
  });

  test("an agent that ended, was superseded or is asked about stays unchanged", () => {
    holds((given) => {
      if (given.agent.phase === "active" && given.attempt === given.latest && given.openDecision === null)
        return;
      expect(decide(given).do).toBe("nothing");
    });
  });

  test("a wait lies ahead and ends: at its time the decision changes", () => {
    holds((given) => {
      const decision = decide(given);
      if (decision.do !== "wait") return;
      expect(decision.untilMs).toBeGreaterThan(given.now);
      expect(Number.isSafeInteger(decision.untilMs)).toBe(true);
      expect(["act", "exhausted"]).toContain(decide({ ...given, now: decision.untilMs }).do);
    });
  });
});
