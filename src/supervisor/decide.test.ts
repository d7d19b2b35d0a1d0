/** Decisions, one table per area: given → then, whole decisions compared. */
import { describe, expect, test } from "vitest";
import { ACTIONS, TRIGGERS, whyNotAllowed } from "../core/runbook.ts";
import {
  agentLike,
  DAY,
  did,
  ended,
  factsLike,
  failing,
  HOUR,
  live,
  log,
  MINUTE,
  past,
  entry,
  RUN_ID,
  SECOND,
  T0,
  trouble,
} from "../../test/supervision.ts";
import { decide, type SupervisionFacts } from "./decide.ts";
import { jitterOf } from "./delay.ts";
import { endedAttempt, type ProcessState } from "./occurrence.ts";
import { inFlight } from "./counts.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";

type Rows = Record<string, [given: Partial<SupervisionFacts> & Pick<SupervisionFacts, "seen">, then: object]>;

function table(rows: Rows): void {
  test.each(Object.entries(rows))("%s", (_name, [given, then]) => {
    expect(decide(factsLike(given))).toMatchObject(then);
  });
}

const act = (trigger: string, position: number, action: string, count = 1, attempt = 1) => ({
  do: "act" as const,
  trigger,
  position,
  entry: { action },
  count,
  key: `${RUN_ID}/${attempt}/${trigger}/${position}/${count}`,
});
const exhausted = (trigger: string, position: number, why: string | RegExp, count = 1) => ({
  do: "exhausted" as const,
  trigger,
  position,
  why: typeof why === "string" ? why : expect.stringMatching(why),
  key: `${RUN_ID}/1/${trigger}/${position}/${count}`,
});
const wait = (untilMs: number, next: string) => ({ do: "wait" as const, untilMs, next });
const nothing = (because: string) => ({ do: "nothing" as const, because });

const ago = (ms: number) => T0 - ms;
const idle = (ms: number, rest = {}) => live({ state: "idle" }, ago(ms), rest);
const asking = live({ state: "waiting", what: "rm -rf" }, ago(SECOND));
const killed = ended(1, [ago(HOUR), ago(SECOND)]);
const completed = (attempt = 1) =>
  ended(attempt, [ago(HOUR), ago(0)], { result: "completed", reason: "the turn was completed" });

test("a decision has all its parts", () => {
  const nudge = entry("nudge", { message: "go on" });
  expect(decide(factsLike({ seen: idle(MINUTE), agent: agentLike({ on: { idle: [nudge] } }) }))).toEqual({
    do: "act",
    trigger: "idle",
    position: 0,
    entry: nudge,
    count: 1,
    tries: 1,
    key: `${RUN_ID}/1/idle/0/1`,
    why: "it is idle",
    trouble: null,
  });
  expect(decide(factsLike({ seen: failing("auth", ago(0)) }))).toEqual({
    do: "exhausted",
    trigger: "error",
    position: 0,
    count: 1,
    key: `${RUN_ID}/1/error/0/1`,
    why: "its turn failed (auth), and the runbook has no on_error",
    trouble: trouble("auth"),
  });
  expect(decide(factsLike({ seen: idle(SECOND) }))).toEqual({
    do: "wait",
    untilMs: ago(SECOND) + MINUTE,
    trigger: "idle",
    next: "escalate",
    why: "it is idle",
  });
});

describe("every trigger with every action", () => {
  const seenFor: Record<string, ProcessState> = {
    idle: idle(HOUR),
    dead: killed,
    error: failing("network", ago(SECOND)),
    prompt: asking,
  };
  const pairs = TRIGGERS.flatMap((trigger) => ACTIONS.map((action) => [trigger, action] as const));
  test.each(pairs)("on_%s %s", (trigger, action) => {
    const seen = seenFor[trigger];
    if (seen === undefined) throw new Error(trigger);
    const reason = whyNotAllowed(trigger, action);
    if (reason !== null) {
      expect(reason).toMatch(/^[a-z].*; use /);
      return;
    }
    const agent = agentLike({ on: { [trigger]: [entry(action)] } });
    expect(decide(factsLike({ seen, agent }))).toMatchObject(act(trigger, 0, action));
  });

  test("allows exactly the specification's table", () => {
    const allowed = pairs.filter(([trigger, action]) => whyNotAllowed(trigger, action) === null);
    const listed = TRIGGERS.map((one) =>
      allowed.filter(([trigger]) => trigger === one).map(([, action]) => action),
    );
    expect(listed.map((actions) => actions.toSorted().join(" "))).toEqual([
      "done escalate fail gate nudge",
      "done escalate fail gate resume",
      "escalate fail gate resume",
      "done escalate fail gate",
    ]);
  });

  test.each(TRIGGERS)("on_%s absent asks a person", (trigger) => {
    const seen = seenFor[trigger];
    if (seen === undefined) throw new Error(trigger);
    expect(decide(factsLike({ seen }))).toMatchObject({
      ...exhausted(trigger, 0, new RegExp(`the runbook has no on_${trigger}$`)),
    });
  });
});

describe("an agent that is left alone", () => {
  const nudging = agentLike({ on: { idle: [entry("nudge")] } });
  table({
    working: [{ seen: live({ state: "working" }, ago(DAY)) }, nothing("working")],
    "starting without a UI": [
      { agent: agentLike({ mode: "headless" }), seen: live({ state: "starting" }, ago(DAY)) },
      nothing("starting"),
    ],
    "of a superseded attempt": [{ seen: killed, attempt: 1, latest: 2 }, nothing("stale")],
    done: [{ seen: killed, agent: agentLike({ phase: "done" }) }, nothing("ended")],
    failed: [{ seen: idle(DAY), agent: agentLike({ phase: "failed" }) }, nothing("ended")],
    stopped: [{ seen: asking, agent: agentLike({ phase: "stopped" }) }, nothing("ended")],
    "with an open decision": [{ seen: killed, openDecision: "1a2b3c4d-1" }, nothing("asked")],
    "that a person stopped": [
      {
        seen: ended(1, [ago(HOUR), ago(0)], { result: "cancelled" }),
        agent: agentLike({ on: { dead: [entry("resume")] } }),
      },
      nothing("cancelled"),
    ],
    "while a decision is being carried out": [
      {
        seen: idle(DAY),
        agent: nudging,
        history: log(...did(["idle", 0, "nudge"], ago(5), { result: null })),
      },
      nothing("in_flight"),
    ],
    "while a person's decision is being carried out": [
      { seen: killed, history: log(...did(["user", 0, "resume"], ago(5), { result: null })) },
      nothing("in_flight"),
    ],
    "but not for an intent of an attempt before it": [
      {
        seen: ended(2, [ago(HOUR), ago(0)]),
        attempt: 2,
        history: log(...did(["error", 0, "resume"], ago(DAY), { result: null })),
        agent: agentLike({ on: { dead: [entry("fail")] } }),
      },
      act("dead", 0, "fail", 1, 2),
    ],
    "whose idleness is a guess": [
      { seen: idle(DAY, { certain: false }), agent: nudging },
      nothing("uncertain"),
    ],
  });
});

describe("idle", () => {
  const nudging = agentLike({ on: { idle: [entry("nudge")] } });
  const headless = (entries = [entry("nudge")]) => agentLike({ mode: "headless", on: { idle: entries } });
  table({
    "not yet": [{ seen: idle(MINUTE - 1), agent: nudging }, wait(T0 + 1, "nudge")],
    "long enough": [{ seen: idle(MINUTE), agent: nudging }, act("idle", 0, "nudge")],
    "its output grew since": [
      { seen: idle(DAY, { grewAtMs: ago(10 * SECOND) }), agent: nudging },
      wait(ago(10 * SECOND) + MINUTE, "nudge"),
    ],
    "the runbook's own idle_after": [
      {
        seen: idle(5 * SECOND),
        agent: agentLike({ idleAfterMs: 5 * SECOND, on: { idle: [entry("done")] } }),
      },
      act("idle", 0, "done"),
    ],
    "a person may be asked on a guess": [
      { seen: idle(DAY, { certain: false }), agent: agentLike({ on: { idle: [entry("escalate")] } }) },
      act("idle", 0, "escalate"),
    ],
    "nobody is ended on a guess": [
      { seen: idle(DAY, { certain: false }), agent: agentLike({ on: { idle: [entry("done")] } }) },
      nothing("uncertain"),
    ],
    "a nudge without effect gets the same silence again": [
      { seen: idle(DAY), agent: nudging, history: log(...did(["idle", 0, "nudge"], ago(SECOND))) },
      wait(ago(SECOND) + 1 + MINUTE, "nudge"),
    ],
    "then the next one": [
      { seen: idle(DAY), agent: nudging, history: log(...did(["idle", 0, "nudge"], ago(HOUR))) },
      { ...act("idle", 0, "nudge", 2), tries: 2 },
    ],
    "a refused nudge is not repeated at once": [
      {
        seen: idle(DAY),
        agent: nudging,
        history: log(...did(["idle", 0, "nudge"], ago(SECOND), { result: "refused" })),
      },
      wait(ago(SECOND) + 1 + MINUTE, "nudge"),
    ],
    "the last nudge is waited for before a person is asked": [
      {
        seen: idle(DAY),
        agent: nudging,
        history: log(...[HOUR, 30 * MINUTE, SECOND].flatMap((ms) => did(["idle", 0, "nudge"], ago(ms)))),
      },
      wait(ago(SECOND) + 1 + MINUTE, "escalate"),
    ],
    "a completed headless turn is nudged at once": [
      { seen: completed(), agent: headless() },
      act("idle", 0, "nudge"),
    ],
    "a completed headless turn without on_idle is done": [
      { seen: completed(), agent: headless([]) },
      act("idle", 0, "done"),
    ],
    "a UI that was closed is dead, not done": [
      { seen: completed(), agent: agentLike({ on: { dead: [entry("resume")] } }) },
      act("dead", 0, "resume"),
    ],
    "a headless agent that is ending is waited for": [
      { seen: idle(DAY), agent: headless() },
      nothing("working"),
    ],
  });
});

describe("the entries", () => {
  const on = { dead: [entry("resume", { attempts: 2 }), entry("gate"), entry("fail")] };
  const agent = agentLike({ on });
  const tried = (
    ...entries: readonly (readonly [number, "resume" | "gate" | "fail", ("ok" | "failed")?])[]
  ) =>
    log(
      ...entries.flatMap(([n, action, result = "failed"], at) =>
        did(["dead", n, action], ago(HOUR - at), { result }),
      ),
    );
  const long = ended(1, [ago(DAY), ago(HOUR)]);
  table({
    "begins at its first entry": [{ seen: long, agent }, act("dead", 0, "resume")],
    "tries an entry as often as it says": [
      { seen: long, agent, history: tried([0, "resume"]) },
      { ...act("dead", 0, "resume", 2), tries: 2 },
    ],
    "then the next one": [
      { seen: long, agent, history: tried([0, "resume"], [0, "resume"]) },
      act("dead", 1, "gate"),
    ],
    "a gate that failed leads on": [
      { seen: long, agent, history: tried([0, "resume"], [0, "resume"], [1, "gate"]) },
      act("dead", 2, "fail"),
    ],
    "after the last one a person is asked": [
      { seen: long, agent, history: tried([0, "resume"], [0, "resume"], [1, "gate"], [2, "fail"]) },
      exhausted("dead", 3, /and fail was tried 1 time: its last words$/),
    ],
    "triggers do not share entries": [
      {
        seen: asking,
        agent: agentLike({ on: { ...on, prompt: [entry("fail")] } }),
        history: tried([0, "resume"]),
      },
      act("prompt", 0, "fail"),
    ],
    "progress begins the count again, and the key goes on": [
      {
        seen: long,
        agent,
        history: log(
          ...did(["dead", 0, "resume"], ago(HOUR), { result: "failed" }),
          ...did(["dead", 0, "resume"], ago(HOUR), { result: "failed" }),
          { kind: "progress", at: ago(MINUTE), attempt: 1 },
        ),
      },
      { ...act("dead", 0, "resume", 3), tries: 1 },
    ],
    "late progress of a superseded attempt does not": [
      {
        seen: ended(2, [ago(HOUR), ago(SECOND)]),
        attempt: 2,
        agent: agentLike({ on: { dead: [entry("resume"), entry("fail")] } }),
        history: log(
          ...did(["dead", 0, "resume"], ago(DAY), { newAttempt: 2 }),
          { kind: "escalated", at: ago(HOUR), attempt: 2, decision: "x" },
          { kind: "progress", at: ago(MINUTE), attempt: 1 },
        ),
      },
      act("dead", 1, "fail", 1, 2),
    ],
    "a person's answer begins the count again": [
      {
        seen: long,
        agent,
        history: log(
          ...did(["dead", 0, "resume"], ago(HOUR), { result: "failed" }),
          ...did(["dead", 0, "resume"], ago(HOUR), { result: "failed" }),
          { kind: "answered", at: ago(MINUTE), attempt: 1, decision: "1a2b3c4d-1", choice: "dismiss" },
        ),
      },
      act("dead", 0, "resume", 3),
    ],
  });
});

describe("a gate that passed", () => {
  const gated = (trigger: "idle" | "dead" | "error" | "prompt") =>
    agentLike({ on: { [trigger]: [entry("gate"), entry("fail")] } });
  const passed = (trigger: "idle" | "dead" | "error" | "prompt", at = ago(MINUTE)) =>
    log(...did([trigger, 0, "gate"], at));
  table({
    "on_idle: done, also with an entry behind it": [
      { seen: idle(DAY), agent: gated("idle"), history: passed("idle") },
      { ...act("idle", 0, "done", 2), why: "its gate passed" },
    ],
    "on_dead: done": [
      { seen: ended(1, [ago(DAY), ago(HOUR)]), agent: gated("dead"), history: passed("dead") },
      act("dead", 0, "done", 2),
    ],
    "on_error: settled": [
      { seen: failing("network", ago(HOUR)), agent: gated("error"), history: passed("error") },
      nothing("settled"),
    ],
    "on_prompt: settled": [
      {
        seen: live({ state: "waiting", what: "x" }, ago(HOUR)),
        agent: gated("prompt"),
        history: passed("prompt"),
      },
      nothing("settled"),
    ],
    "until it occurs again": [
      { seen: failing("network", ago(SECOND)), agent: gated("error"), history: passed("error") },
      act("error", 1, "fail"),
    ],
  });
});

describe("a pending question to a person", () => {
  const agent = agentLike({ on: { dead: [entry("escalate")] } });
  const dead = ended(1, [ago(DAY), ago(HOUR)]);
  const asked = did(["dead", 0, "escalate"], ago(MINUTE));
  const answered = { kind: "answered", at: ago(9), attempt: 1, decision: "1a2b3c4d-1", choice: "x" } as const;
  table({
    "and left it at that": [{ seen: dead, agent, history: log(...asked, answered) }, nothing("settled")],
    "and the question was overtaken": [{ seen: dead, agent, history: log(...asked) }, nothing("settled")],
    "about something before this": [
      {
        seen: live({ state: "waiting", what: "x" }, ago(SECOND)),
        history: log(...did(["prompt", 0, "escalate"], ago(MINUTE))),
      },
      exhausted("prompt", 0, /asks for permission/, 2),
    ],
    "and what was decided could not be done": [
      {
        seen: dead,
        agent,
        history: log(...asked, answered, ...did(["user", 0, "resume"], ago(5), { result: "failed" })),
      },
      exhausted("dead", 1, "resume: its last words"),
    ],
    "and said nudge, which is given its time": [
      {
        seen: idle(DAY),
        agent: agentLike({ on: { idle: [entry("nudge")] } }),
        history: log(
          ...did(["idle", 0, "escalate"], ago(MINUTE)),
          answered,
          ...did(["user", 0, "nudge"], ago(5)),
        ),
      },
      wait(ago(4) + MINUTE, "nudge"),
    ],
    "or could not be: again after a minute": [
      { seen: dead, history: log(...did(["dead", 0, "escalate"], ago(SECOND), { result: "failed" })) },
      wait(ago(SECOND) + 1 + MINUTE, "escalate"),
    ],
    "could not be, a minute ago": [
      { seen: dead, history: log(...did(["dead", 0, "escalate"], ago(HOUR), { result: "failed" })) },
      exhausted("dead", 0, /no on_dead/, 2),
    ],
  });
});

describe("on_error", () => {
  const list = [
    entry("resume", { match: "rate_limited", cooldownMs: MINUTE, message: "go", append: true, attempts: 7 }),
    entry("gate", { match: "network", run: ["ping"] }),
    entry("resume", { match: "any" }),
    entry("fail", { match: "auth" }),
  ];
  const agent = agentLike({ on: { error: list } });
  table({
    "the first that matches, with all its fields": [
      { seen: failing("rate_limited", ago(MINUTE)), agent },
      { do: "act", position: 0, entry: list[0] },
    ],
    "another one": [
      { seen: failing("network", ago(0)), agent },
      { do: "act", position: 1, entry: list[1] },
    ],
    "any takes the rest": [{ seen: failing("overloaded", ago(0)), agent }, act("error", 2, "resume")],
    "an exhausted entry leads to the next that matches": [
      {
        seen: failing("network", ago(HOUR)),
        agent,
        history: log(...did(["error", 1, "gate"], ago(MINUTE), { result: "failed" })),
      },
      act("error", 2, "resume"),
    ],
    "a login that is missing is not tried again; the entry behind it is": [
      { seen: failing("auth", ago(0)), agent },
      act("error", 3, "fail"),
    ],
    "nothing fits": [
      {
        seen: failing("quota", ago(0)),
        agent: agentLike({ on: { error: [entry("fail", { match: "auth" })] } }),
      },
      exhausted("error", 1, "its turn failed (quota), and no entry of on_error matches"),
    ],
    "a headless attempt that ended with a trouble": [
      {
        seen: ended(1, [ago(HOUR), ago(0)], { result: "failed", trouble: trouble("network") }),
        agent: agentLike({ mode: "headless", on: { error: list, dead: [entry("done")] } }),
      },
      act("error", 1, "gate"),
    ],
    "a changing text does not begin the count again": [
      {
        seen: live({ state: "error", trouble: { kind: "other", message: `error ${T0}` } }, ago(HOUR)),
        agent: agentLike({ on: { error: [entry("resume"), entry("fail")] } }),
        history: log(...did(["error", 0, "resume"], ago(DAY))),
      },
      act("error", 1, "fail"),
    ],
  });

  test.each(["auth", "quota", "session_lost", "usage"] as const)(
    "%s is not retried, and the decision says why",
    (kind) => {
      const resuming = agentLike({ on: { error: [entry("resume", { attempts: 9 })] } });
      const headless = agentLike({ mode: "headless", on: { error: [entry("resume", { attempts: 9 })] } });
      const dead = ended(1, [ago(HOUR), ago(0)], { result: "failed", trouble: trouble(kind) });
      for (const facts of [
        { seen: failing(kind, ago(0)), agent: resuming },
        { seen: dead, agent: resuming },
        { seen: dead, agent: headless },
      ]) {
        const decision = decide(factsLike(facts));
        expect(decision).toMatchObject({
          ...exhausted("error", 1, /Reprise does not restart it: its /),
          trouble: { kind },
        });
      }
    },
  );

  test.each(["rate_limited", "overloaded", "network", "context_full", "session_busy", "other"] as const)(
    "%s is retried",
    (kind) => {
      const resuming = agentLike({ on: { error: [entry("resume")] } });
      const decision = decide(factsLike({ seen: failing(kind, ago(DAY)), agent: resuming }));
      expect(decision).toMatchObject(act("error", 0, "resume"));
    },
  );
});

describe("cooldown and limits", () => {
  const limited = (cooldownMs: number, attempts = 9) =>
    agentLike({ on: { error: [entry("resume", { match: "rate_limited", cooldownMs, attempts })] } });
  const tries = (n: number) =>
    log(...Array.from({ length: n }, (_, k) => did(["error", 0, "resume"], ago(DAY - k))).flat());
  table({
    "a cooldown delays, from the beginning": [
      {
        seen: failing("network", ago(SECOND)),
        agent: agentLike({ on: { error: [entry("resume", { cooldownMs: MINUTE })] } }),
      },
      wait(ago(SECOND) + MINUTE, "resume"),
    ],
    "and then acts": [
      {
        seen: failing("network", ago(MINUTE)),
        agent: agentLike({ on: { error: [entry("resume", { cooldownMs: MINUTE })] } }),
      },
      act("error", 0, "resume"),
    ],
    "from the last try, where that is later": [
      {
        seen: ended(1, [ago(DAY), ago(HOUR)]),
        agent: agentLike({ on: { dead: [entry("resume", { cooldownMs: MINUTE, attempts: 2 })] } }),
        history: log(...did(["dead", 0, "resume"], ago(SECOND), { result: "failed" })),
      },
      wait(ago(SECOND) + MINUTE, "resume"),
    ],
    "the seed's 60 s, with no reset named": [
      { seen: failing("rate_limited", ago(MINUTE - 1)), agent: limited(MINUTE) },
      wait(T0 + 1, "resume"),
    ],
    "the cooldown alone counts then, however often": [
      { seen: failing("rate_limited", ago(MINUTE)), agent: limited(MINUTE), history: tries(4) },
      act("error", 0, "resume", 5),
    ],
    "a reset is waited for, even if the cooldown is shorter": [
      { seen: failing("rate_limited", ago(HOUR), T0 + HOUR), agent: limited(MINUTE) },
      wait(T0 + HOUR + MINUTE, "resume"),
    ],
    "with jitter": [
      { seen: failing("rate_limited", ago(HOUR), T0 + HOUR), agent: limited(0), jitter: 0.5 },
      wait(T0 + HOUR + 2 * MINUTE, "resume"),
    ],
    "a longer cooldown wins": [
      { seen: failing("rate_limited", ago(0), T0 + MINUTE), agent: limited(DAY) },
      wait(T0 + DAY, "resume"),
    ],
    "past the reset it acts": [
      { seen: failing("rate_limited", ago(2 * HOUR), ago(HOUR)), agent: limited(0) },
      act("error", 0, "resume"),
    ],
    "a reset that had passed when it was named is none": [
      { seen: failing("rate_limited", ago(0), ago(SECOND)), agent: limited(0) },
      wait(T0 + 15 * MINUTE, "resume"),
    ],
    "a reset that is no time is none": [
      {
        seen: live(
          { state: "error", trouble: { kind: "rate_limited", message: "", resetsAt: "soon" } },
          ago(0),
        ),
        agent: limited(0),
      },
      wait(T0 + 15 * MINUTE, "resume"),
    ],
    "8 days are waited for": [
      { seen: failing("rate_limited", ago(0), T0 + 8 * DAY), agent: limited(0) },
      wait(T0 + 8 * DAY + MINUTE, "resume"),
    ],
    "30 days are not": [
      { seen: failing("rate_limited", ago(0), T0 + 30 * DAY), agent: limited(0) },
      exhausted("error", 1, /its limit ends at 2026-01-31T00:00:00.000Z, and Reprise waits 8 days at most/),
    ],
    "other actions need no reset": [
      {
        seen: failing("rate_limited", ago(0), T0 + HOUR),
        agent: agentLike({ on: { error: [entry("fail")] } }),
      },
      act("error", 0, "fail"),
    ],
    "a clock that was set back does not make it wait for years": [
      {
        seen: failing("network", T0 + 400 * DAY),
        agent: agentLike({ on: { error: [entry("resume", { cooldownMs: MINUTE })] } }),
      },
      act("error", 0, "resume"),
    ],
  });

  test.each([
    [0, 15 * MINUTE],
    [1, 30 * MINUTE],
    [2, HOUR],
    [3, 2 * HOUR],
    [4, 4 * HOUR],
    [7, 4 * HOUR],
  ])("after %i tries without a reset it waits %i ms", (n, delay) => {
    const seen = failing("rate_limited", ago(0));
    expect(decide(factsLike({ seen, agent: limited(0), history: tries(n) }))).toMatchObject({
      do: "wait",
      untilMs: T0 + delay,
    });
  });

  test("a live UI has half a minute to show that it continues after a message", () => {
    const facts = {
      seen: failing("network", ago(HOUR)),
      agent: agentLike({ on: { error: [entry("resume")] } }),
    };
    const history = log(...did(["error", 0, "resume"], ago(SECOND)));
    expect(decide(factsLike({ ...facts, history }))).toMatchObject(
      wait(ago(SECOND) + 1 + 30 * SECOND, "escalate"),
    );
  });
});

describe("restarts", () => {
  const resuming = (attempts = 99, maxAttempts: number | null = null) =>
    agentLike({ maxAttempts, on: { dead: [entry("resume", { attempts })] } });
  /** Attempts 1 … n that each lived that long; the n-th ends now. */
  const lives = (
    n: number,
    ms: number,
    outcome = {},
  ): Partial<SupervisionFacts> & Pick<SupervisionFacts, "seen"> => ({
    attempt: n,
    seen: ended(n, [ago(ms), ago(0)], outcome),
    ended: Array.from({ length: n - 1 }, (_, k) => past(k + 1, [ago(DAY), ago(DAY) + ms], outcome)),
    history: log(
      ...Array.from({ length: n - 1 }, (_, k) =>
        did(["dead", 0, "resume"], ago(DAY) + ms + k, { attempt: k + 1, newAttempt: k + 2 }),
      ).flat(),
    ),
  });
  table({
    "the first comes at once": [{ ...lives(1, HOUR), agent: resuming() }, act("dead", 0, "resume")],
    "the second after 5 s, less a fifth": [
      { ...lives(2, HOUR), agent: resuming() },
      wait(T0 + 4 * SECOND, "resume"),
    ],
    "or more a fifth": [
      { ...lives(2, HOUR), agent: resuming(), jitter: 0.999_999_999 },
      wait(T0 + 6 * SECOND, "resume"),
    ],
    "the third after 10": [
      { ...lives(3, HOUR), agent: resuming(), jitter: 0.5 },
      wait(T0 + 10 * SECOND, "resume"),
    ],
    "the fifth failure is the last": [
      { ...lives(5, HOUR), agent: resuming() },
      { do: "exhausted", why: expect.stringContaining("failed too often") },
    ],
    "a short life counts once: the fourth failure is not the last": [
      { ...lives(4, SECOND), agent: resuming() },
      { do: "wait", next: "resume" },
    ],
    "the fifth short life is the last": [
      { ...lives(5, SECOND), agent: resuming() },
      { do: "exhausted", why: expect.stringContaining("failed too often") },
    ],
    "a UI that closes at once with exit code 0 counts too": [
      { ...lives(5, SECOND, { result: "completed" }), agent: resuming() },
      { do: "exhausted" },
    ],
    "rate limits are no failures of the agent": [
      {
        ...lives(9, SECOND, { trouble: trouble("rate_limited") }),
        now: T0 + DAY,
        agent: agentLike({ on: { error: [entry("resume")] } }),
      },
      act("error", 0, "resume", 1, 9),
    ],
    "progress forgives": [
      {
        ...lives(9, HOUR),
        agent: resuming(),
        history: log({ kind: "progress", at: ago(MINUTE), attempt: 9 }),
      },
      act("dead", 0, "resume", 1, 9),
    ],
    "a short life that got somewhere counts once": [
      {
        attempt: 3,
        seen: ended(3, [ago(HOUR), ago(0)]),
        ended: [past(1, [ago(DAY), ago(DAY) + SECOND]), past(2, [ago(2 * HOUR), ago(2 * HOUR) + SECOND])],
        agent: resuming(),
        history: log({ kind: "progress", at: ago(DAY), attempt: 1 }),
      },
      act("dead", 0, "resume", 1, 3),
    ],
    "no delay is longer than 15 minutes": [
      {
        seen: failing("network", ago(0)),
        agent: agentLike({ on: { error: [entry("resume", { attempts: 99 })] } }),
        history: log(
          ...Array.from({ length: 20 }, (_, n) => did(["error", 0, "resume"], ago(DAY) + n)).flat(),
        ),
        jitter: 0.5,
      },
      wait(T0 + 15 * MINUTE, "resume"),
    ],
    "a person forgives": [
      {
        ...lives(9, SECOND),
        agent: resuming(),
        history: log({ kind: "answered", at: ago(MINUTE), attempt: 8, decision: "x", choice: "resume" }),
      },
      act("dead", 0, "resume", 1, 9),
    ],
    "max_attempts is the end": [
      { ...lives(2, HOUR), agent: resuming(99, 2) },
      { do: "exhausted", why: expect.stringContaining("max_attempts is 2") },
    ],
    "but a live agent may still get a message": [
      {
        seen: failing("network", ago(0)),
        agent: agentLike({ maxAttempts: 1, on: { error: [entry("resume")] } }),
      },
      act("error", 0, "resume"),
    ],
    "another conversation than the one asked for is no ground to go on": [
      { seen: ended(1, [ago(HOUR), ago(0)], { result: "diverged" }), agent: resuming() },
      exhausted("dead", 1, /another conversation/),
    ],
  });
});

describe("a process that cannot be seen", () => {
  const agent = agentLike({ on: { dead: [entry("resume")] } });
  table({
    "is looked for": [{ seen: { is: "missing", sinceMs: ago(0) }, agent }, wait(T0 + 10 * SECOND, "resume")],
    "and is dead": [{ seen: { is: "missing", sinceMs: ago(MINUTE) }, agent }, act("dead", 0, "resume")],
    "may only be busy": [
      { seen: { is: "unresponsive", sinceMs: ago(MINUTE) }, agent },
      wait(T0 + MINUTE, "escalate"),
    ],
    "and is never started again beside itself": [
      { seen: { is: "unresponsive", sinceMs: ago(HOUR) }, agent },
      exhausted("dead", 1, "its holder is alive but does not answer"),
    ],
  });
});

describe("after the clock has jumped", () => {
  const agent = agentLike({
    on: { dead: [entry("resume")], idle: [entry("nudge")], error: [entry("fail")] },
  });
  const clockJumpMs = ago(10 * SECOND);
  table({
    "nobody is dead for a minute": [
      { seen: killed, agent, clockJumpMs },
      wait(clockJumpMs + MINUTE, "resume"),
    ],
    "nobody is idle for a minute": [
      { seen: idle(DAY), agent, clockJumpMs },
      wait(clockJumpMs + MINUTE, "nudge"),
    ],
    "nobody is missing for a minute": [
      { seen: { is: "missing", sinceMs: ago(DAY) }, agent, clockJumpMs },
      wait(clockJumpMs + MINUTE, "resume"),
    ],
    "an error is one": [{ seen: failing("other", ago(0)), agent, clockJumpMs }, act("error", 0, "fail")],
    "a question is one": [{ seen: asking, agent, clockJumpMs }, { do: "exhausted" }],
    "a minute later everything works as usual": [
      { seen: killed, agent, clockJumpMs: ago(MINUTE) },
      act("dead", 0, "resume"),
    ],
    "a jump that lies ahead is of another clock": [
      { seen: killed, agent, clockJumpMs: T0 + DAY },
      act("dead", 0, "resume"),
    ],
  });
});

describe("helpers", () => {
  test("chance is the same each time, differs from attempt to attempt, and stays below 1", () => {
    const numbers = Array.from({ length: 1_000 }, (_, n) => jitterOf(RUN_ID, n));
    expect(numbers).toEqual(Array.from({ length: 1_000 }, (_, n) => jitterOf(RUN_ID, n)));
    expect(new Set(numbers).size).toBe(1_000);
    expect(numbers.every((number) => number >= 0 && number < 1)).toBe(true);
    expect(Math.abs(numbers.reduce((sum, number) => sum + number, 0) / 1_000 - 0.5)).toBeLessThan(0.1);
  });

  test("a resume whose attempt exists is carried out, reported or not", () => {
    const history = log(...did(["dead", 0, "resume"], ago(0), { result: null, newAttempt: 2 }));
    expect([inFlight(history, 1, 1)?.newAttempt, inFlight(history, 1, 2), inFlight(history, 2, 2)]).toEqual([
      2,
      null,
      null,
    ]);
  });

  test("an attempt's record says how it ended", () => {
    const record = attemptLike(runLike(1), 3);
    const outcome = { result: "failed", reason: "it failed" } as const;
    const endedAt = "2026-01-01T00:00:05.000Z";
    expect(endedAttempt(record)).toBeNull();
    expect(endedAttempt({ ...record, state: "ended", outcome, endedAt })).toEqual({
      attempt: 3,
      outcome,
      exit: null,
      startedAtMs: Date.parse(record.startedAt),
      endedAtMs: Date.parse(endedAt),
    });
  });
});
