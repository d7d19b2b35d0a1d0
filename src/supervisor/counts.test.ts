/** What neither settles anything nor begins a count again: what a person was refused, and a turn that was heard of late. */
import { expect, test } from "vitest";
import { agentLike, did, factsLike, failing, live, log, MINUTE, entry, T0 } from "../../test/supervision.ts";
import type { SupervisionEvent } from "../core/supervision.ts";
import { decide } from "./decide.ts";
import { type Decided, lastDecided, restartsOf, triesOf } from "./counts.ts";

const decided = (seq: number, trigger: Decided["trigger"], key: string): SupervisionEvent => ({
  ...{ kind: "decided", seq, at: seq, attempt: 1, key, trigger, position: 0 },
  ...{ action: "nudge", message: null, newAttempt: null },
});
const reported = (seq: number, key: string, result: "ok" | "refused"): SupervisionEvent => ({
  ...{ kind: "carried_out", seq, at: seq, attempt: 1, key, result, detail: "" },
});
const nudged = [decided(1, "idle", "r/1/idle/0/1"), reported(2, "r/1/idle/0/1", "ok")];
const RUNG = { trigger: "idle", position: 0, action: "nudge" } as const;

test.each([
  ["refused", "r/1/user/0/1", "refused", { last: 1, tries: [1] }],
  ["sent", "r/1/user/0/1", "ok", { last: 3, tries: [] }],
  ["the answer to a question, and refused", "r/answer/1a2b3c4d-1", "refused", { last: 3, tries: [] }],
] as const)("the tally depends on whether a message was %s", (_name, key, result, { last, tries }) => {
  const events = [...nudged, decided(3, "user", key), reported(4, key, result)];
  expect(lastDecided(events, 1, 0)?.seq).toBe(last);
  expect(triesOf(events, RUNG).map(({ seq }) => seq)).toEqual(tries);
  expect(restartsOf(events)).toEqual([]);
});

test("a cooldown continues after a person's resume was refused", () => {
  const agent = agentLike({ on: { error: [entry("resume", { cooldownMs: MINUTE })] } });
  const history = log(...did(["user", 0, "resume"], T0 - 5, { result: "refused" }));
  const decision = decide(factsLike({ seen: failing("rate_limited", T0 - 10), agent, history }));
  expect(decision).toMatchObject({ do: "wait", untilMs: T0 - 10 + MINUTE, next: "resume" });
});

test("a question is asked again if a turn that was heard of late overtook it", () => {
  const agent = agentLike({ on: { idle: [entry("escalate")] } });
  const late = { kind: "progress", at: T0 - 5, attempt: 1 } as const;
  const history = log(...did(["idle", 0, "escalate"], T0 - MINUTE), late);
  const decision = decide(
    factsLike({ seen: live({ state: "idle" }, T0 - 2 * MINUTE), agent, history, openDecision: null }),
  );
  expect(decision).toMatchObject({ do: "act", entry: { action: "escalate" }, count: 2 });
});
