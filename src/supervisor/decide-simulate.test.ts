/** `decide` over simulated days, with agents that misbehave: every list of entries ends, and a delay ends in one act. */
import { describe, expect, test } from "vitest";
import {
  agentLike,
  DAY,
  failing,
  HOUR,
  live,
  MINUTE,
  entry,
  type Script,
  SECOND,
  simulate,
  type Simulated,
  T0,
  trouble,
} from "../../test/supervision.ts";
import { occurrenceOf } from "./occurrence.ts";

const dies = (endsAfterMs: number): Script => ({
  endsAfterMs,
  outcome: { result: "interrupted", reason: "it was killed" },
});
const fails = (kind: Parameters<typeof trouble>[0], endsAfterMs: number, resetsAtMs?: number): Script => ({
  endsAfterMs,
  outcome: { result: "failed", reason: "it failed", trouble: trouble(kind, resetsAtMs) },
});
const gaps = ({ starts }: Simulated) => starts.slice(1).map((at, n) => at - (starts[n] ?? 0));
const ofKind = ({ acts }: Simulated, action: string) => acts.filter((act) => act.action === action);
/** Resuming for ever, as far as the runbook is concerned. */
const stubborn = entry("resume", { attempts: 1_000 });
const headless = (on: Parameters<typeof agentLike>[0]) => agentLike({ mode: "headless", ...on });

describe("an agent that", () => {
  test("exits at once is started five times in all, then a person is asked", () => {
    const ran = simulate(headless({ on: { dead: [stubborn] } }), () => dies(10), { forMs: 3 * DAY });
    expect([ran.starts.length, ran.exhausted.length, ofKind(ran, "escalate").length]).toEqual([5, 1, 1]);
  });

  test("exits after 30 s is started five times in all, at growing intervals", () => {
    const ran = simulate(headless({ on: { dead: [stubborn] } }), () => dies(30 * SECOND), { forMs: 3 * DAY });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([5, 1]);
    const delays = gaps(ran).map((gap) => gap - 30 * SECOND);
    expect(delays[0]).toBeLessThanOrEqual(2 * SECOND);
    expect(delays.every((delay, n) => n === 0 || delay >= 0.8 * 5 * SECOND * 2 ** (n - 1))).toBe(true);
    expect(delays.every((delay, n) => n === 0 || delay <= 1.2 * 5 * SECOND * 2 ** (n - 1) + 2 * SECOND)).toBe(
      true,
    );
  });

  test("exits after each completed turn continues as long as it makes progress", () => {
    const working = { ...dies(HOUR), progressAtMs: [30 * MINUTE] };
    const ran = simulate(headless({ on: { dead: [entry("resume")] } }), () => working, {
      forMs: 2 * DAY,
      tickMs: 30 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([48, 0]);
  });

  test("stops making progress is given up", () => {
    const script = (attempt: number) =>
      attempt < 4 ? { ...dies(HOUR), progressAtMs: [MINUTE] } : dies(MINUTE);
    const ran = simulate(headless({ on: { dead: [stubborn] } }), script, {
      forMs: 2 * DAY,
      tickMs: 5 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([7, 1]);
  });

  test("is always rate limited, with a reset in 30 days, is not started again, let alone in 6 ms", () => {
    const script = (_: number, at: number) => fails("rate_limited", SECOND, at + 30 * DAY);
    const ran = simulate(headless({ on: { error: [stubborn] } }), script, {
      forMs: 3 * DAY,
      tickMs: 5 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([1, 1]);
    expect(ran.exhausted[0]?.why).toMatch(/Reprise waits 8 days at most$/);
  });

  test("is always rate limited, with a reset in an hour, waits for each", () => {
    const script = (_: number, at: number) => fails("rate_limited", SECOND, at + HOUR);
    const ran = simulate(
      headless({ on: { error: [entry("resume", { attempts: 4, cooldownMs: SECOND })] } }),
      script,
      {
        forMs: 2 * DAY,
        tickMs: 5 * SECOND,
      },
    );
    expect([ran.starts.length, ran.exhausted.length]).toEqual([5, 1]);
    expect(gaps(ran).every((gap) => gap >= HOUR + MINUTE && gap <= HOUR + 3 * MINUTE + 10 * SECOND)).toBe(
      true,
    );
  });

  test("is always rate limited, with no reset, is tried at growing intervals", () => {
    const ran = simulate(headless({ on: { error: [stubborn] } }), () => fails("rate_limited", SECOND), {
      forMs: 10 * DAY,
      tickMs: MINUTE,
    });
    const [first = 0, second = 0, third = 0] = gaps(ran);
    expect([first >= 15 * MINUTE, second >= 30 * MINUTE, third >= HOUR]).toEqual([true, true, true]);
    expect(
      gaps(ran)
        .slice(4)
        .every((gap) => gap >= 4 * HOUR),
    ).toBe(true);
    expect(ran.starts.length).toBeLessThanOrEqual(5 + 60);
  });

  test("has no network is started five times at most", () => {
    const ran = simulate(headless({ on: { error: [stubborn] } }), () => fails("network", MINUTE), {
      forMs: 2 * DAY,
      tickMs: 5 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([5, 1]);
  });

  test.each(["auth", "quota", "session_lost", "usage"] as const)(
    "fails with %s is not started again",
    (kind) => {
      const ran = simulate(headless({ on: { error: [stubborn] } }), () => fails(kind, MINUTE), {
        forMs: DAY,
        tickMs: 5 * SECOND,
      });
      expect([ran.starts.length, ran.exhausted.length]).toEqual([1, 1]);
    },
  );

  test("alternates between dying and failing is still bounded", () => {
    const script = (attempt: number) => (attempt % 2 === 0 ? dies(MINUTE) : fails("network", MINUTE));
    const ran = simulate(headless({ on: { error: [stubborn], dead: [stubborn] } }), script, {
      forMs: 2 * DAY,
      tickMs: 5 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([5, 1]);
  });

  test("max_attempts 2 is started twice", () => {
    const ran = simulate(headless({ maxAttempts: 2, on: { dead: [stubborn] } }), () => dies(HOUR), {
      forMs: DAY,
      tickMs: 5 * SECOND,
    });
    expect([ran.starts.length, ran.exhausted.length]).toEqual([2, 1]);
  });

  test("completes its turn and says so to every nudge is nudged three times, then a person is asked", () => {
    const script: Script = {
      endsAfterMs: MINUTE,
      outcome: { result: "completed", reason: "the turn was completed" },
      progressAtMs: [MINUTE],
    };
    const ran = simulate(headless({ on: { idle: [entry("nudge")] } }), () => script, { forMs: DAY });
    expect([ofKind(ran, "nudge").length, ran.starts.length, ran.exhausted.length]).toEqual([3, 4, 1]);
    const done = simulate(headless({}), () => script, { forMs: HOUR });
    expect([done.phase, done.starts.length, done.exhausted.length]).toEqual(["done", 1, 0]);
  });

  test("idles in its UI is nudged three times, a silence apart, then a person is asked", () => {
    const script: Script = {
      endsAfterMs: null,
      outcome: { result: "interrupted", reason: "" },
      live: (startedAt) => live({ state: "idle" }, startedAt),
    };
    const ran = simulate(agentLike({ on: { idle: [entry("nudge")] } }), () => script, { forMs: DAY });
    expect(ofKind(ran, "nudge").map(({ at }) => Math.round((at - T0) / MINUTE))).toEqual([1, 2, 3]);
    expect([ran.starts.length, ran.exhausted.length]).toEqual([1, 1]);
  });

  test("asks for permission is never nudged", () => {
    const script: Script = {
      endsAfterMs: null,
      outcome: { result: "interrupted", reason: "" },
      live: (startedAt) => live({ state: "waiting", what: "rm" }, startedAt),
    };
    const agent = agentLike({
      on: { idle: [entry("nudge", { attempts: 99 })], error: [stubborn], dead: [stubborn] },
    });
    const ran = simulate(agent, () => script, { forMs: DAY, tickMs: 5 * SECOND });
    expect(ran.acts.map(({ action }) => action)).toEqual(["escalate"]);
  });
});

describe("a cooldown", () => {
  test.each([SECOND, 7 * SECOND])(
    "acts exactly once, and not before it is over (a tick of %i ms)",
    (tickMs) => {
      const agent = agentLike({
        on: { error: [entry("resume", { cooldownMs: MINUTE, match: "rate_limited" })] },
      });
      // Rate limited from the start; it works again a little after it was spoken to.
      const script: Script = {
        endsAfterMs: null,
        outcome: { result: "interrupted", reason: "" },
        live: (startedAt, now) =>
          now < startedAt + MINUTE + 20 * SECOND
            ? failing("rate_limited", startedAt)
            : live({ state: "working" }, now),
      };
      const ran = simulate(agent, () => script, { forMs: 2 * HOUR, tickMs });
      expect(ran.acts.map(({ action }) => action)).toEqual(["resume"]);
      expect((ran.acts[0]?.at ?? 0) - T0).toBeGreaterThanOrEqual(MINUTE);
      expect((ran.acts[0]?.at ?? 0) - T0).toBeLessThanOrEqual(MINUTE + 2 * tickMs);
    },
  );
});

describe.each([5, 2, 1])("a daemon that dies every %i s", (seconds) => {
  const dieEveryMs = seconds * SECOND;
  const agents: Record<string, [agent: ReturnType<typeof agentLike>, script: () => Script]> = {
    "exits at once": [headless({ on: { dead: [stubborn] } }), () => dies(10)],
    "exits after 30 s": [headless({ on: { dead: [stubborn] } }), () => dies(30 * SECOND)],
    "is rate limited": [
      headless({ on: { error: [entry("resume", { attempts: 3, cooldownMs: MINUTE })] } }),
      () => fails("rate_limited", SECOND),
    ],
    "has no network": [headless({ on: { error: [stubborn] } }), () => fails("network", MINUTE)],
  };
  test.each(Object.entries(agents))("starts an agent that %s no more often", (_name, [agent, script]) => {
    const calm = simulate(agent, script, { forMs: DAY });
    const stormy = simulate(agent, script, { forMs: DAY, dieEveryMs });
    expect(stormy.starts.length).toBe(calm.starts.length);
    expect([calm.exhausted.length, stormy.exhausted.length]).toEqual([1, 1]);
    const started = stormy.acts.filter(({ action }) => action === "resume").map(({ key }) => key);
    expect(new Set(started).size).toBe(started.length);
  });
});

test("occurrenceOf names the trigger of a live agent, or why nothing happens", () => {
  expect(occurrenceOf(live({ state: "working" }, T0), "interactive", MINUTE)).toEqual({
    because: "working",
    why: "it is working",
  });
  expect(occurrenceOf(live({ state: "idle" }, T0), "interactive", MINUTE)).toMatchObject({
    trigger: "idle",
    sinceMs: T0,
    dueMs: T0 + MINUTE,
  });
});
