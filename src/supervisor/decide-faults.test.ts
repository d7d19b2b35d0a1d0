/** `decide` where something is wrong that no runbook foresees: a start that never ends or never begins, a clock. */
import { describe, expect, test } from "vitest";
import {
  agentLike,
  DAY,
  did,
  ended,
  factsLike,
  HOUR,
  live,
  log,
  MINUTE,
  entry,
  T0,
} from "../../test/supervision.ts";
import { decide, type SupervisionFacts } from "./decide.ts";

type Given = Partial<SupervisionFacts> & Pick<SupervisionFacts, "seen">;
type Rows = Readonly<Record<string, readonly [given: Given, then: object]>>;

function table(rows: Rows): void {
  test.each(Object.entries(rows))("%s", (_name, [given, then]) => {
    expect(decide(factsLike(given))).toMatchObject(then);
  });
}

const ago = (ms: number) => T0 - ms;
const wait = (untilMs: number, next: string) => ({ do: "wait", untilMs, next });
const nothing = (because: string) => ({ do: "nothing", because });
const act = (trigger: string, position: number, action: string, count = 1) => ({
  do: "act",
  trigger,
  position,
  entry: { action },
  count,
});
const exhausted = (trigger: string, position: number, why: RegExp) => ({
  do: "exhausted",
  trigger,
  position,
  why: expect.stringMatching(why) as string,
});

describe("a UI that is stuck at its start", () => {
  const agent = agentLike({ on: { prompt: [entry("done")], dead: [entry("resume")] } });
  const starting = (ms: number, rest = {}) => live({ state: "starting" }, ago(ms), rest);
  table({
    "has two minutes": [{ seen: starting(MINUTE), agent }, wait(T0 + MINUTE, "escalate")],
    "and then a person is asked, whatever on_prompt says": [
      { seen: starting(2 * MINUTE), agent },
      exhausted("prompt", 1, /is stuck at its start/),
    ],
    once: [
      {
        seen: starting(HOUR),
        agent,
        history: log(...did(["prompt", 1, "escalate"], ago(MINUTE))),
      },
      nothing("settled"),
    ],
    "where the engine tells nothing, that is no sign": [
      { seen: starting(HOUR, { certain: false }), agent },
      nothing("starting"),
    ],
  });
});

describe("a start that comes to nothing", () => {
  const missing = (times: number, attempts = 1_000, mode: "interactive" | "headless" = "interactive") => {
    const tries = Array.from({ length: times }, (_, n) =>
      did(["dead", 0, "resume"], ago((times - n) * HOUR), { result: "failed", newAttempt: 2 }),
    );
    const agent = agentLike({ mode, on: { dead: [entry("resume", { attempts })] } });
    return { seen: ended(1, [ago(2 * DAY), ago(DAY)]), agent, history: log(...tries.flat()) };
  };
  table({
    "is tried again": [missing(3), act("dead", 0, "resume", 4)],
    "five times at most, a failed attempt included, with the reason": [
      missing(4),
      exhausted("dead", 1, /failed too often without a completed turn: its last words$/),
    ],
    "says why also where the runbook allows no more": [
      missing(1, 1),
      exhausted("dead", 1, /resume was tried 1 time: its last words$/),
    ],
    "counts no more when the attempt was made after all": [
      { ...missing(4), seen: ended(2, [ago(2 * DAY), ago(DAY)]), attempt: 2 },
      act("dead", 0, "resume"),
    ],
  });
});

describe("a clock that was set back", () => {
  const seen = ended(1, [T0, T0 + HOUR]);
  const agent = agentLike({ on: { dead: [entry("escalate")] } });
  table({
    "is not waited for": [{ seen, agent }, act("dead", 0, "escalate")],
    "does not make a question that was asked a new one": [
      { seen, agent, history: log(...did(["dead", 0, "escalate"], ago(MINUTE))) },
      nothing("settled"),
    ],
  });
});
