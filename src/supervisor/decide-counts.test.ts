/** How often entries act: a gate once per occurrence, nudges until a turn that they did not bring about. */
import { expect, test } from "vitest";
import {
  agentLike,
  did,
  type Event,
  factsLike,
  HOUR,
  live,
  log,
  MINUTE,
  entry,
  T0,
} from "../../test/supervision.ts";
import type { PolicyEntry } from "../core/runbook.ts";
import { decide } from "./decide.ts";

const ago = (ms: number) => T0 - ms;
const idle = (ms: number) => live({ state: "idle" }, ago(ms));
const act = (position: number, action: string, count: number) => ({
  do: "act",
  position,
  entry: { action },
  count,
});

/** The actions when a gate always fails and every nudge ends in a completed turn. */
const pushed = (entries: readonly PolicyEntry[], most: number) => {
  const checked = agentLike({ on: { idle: entries } });
  const history: Event[] = [];
  const actions: string[] = [];
  for (let turn = 1; actions.length < most; turn += 1) {
    const at = T0 + turn * HOUR;
    for (const later of [0, 1]) {
      const seen = live({ state: "idle" }, at - MINUTE);
      const decision = decide(factsLike({ now: at + later, seen, agent: checked, history: log(...history) }));
      if (decision.do !== "act") return [...actions, decision.do];
      const { action } = decision.entry;
      actions.push(action);
      history.push(
        ...did(["idle", decision.position, action], at + later, {
          result: action === "gate" ? "failed" : "ok",
        }),
      );
    }
    history.push({ kind: "progress", at: at + MINUTE, attempt: 1 });
  }
  return actions;
};

test("a gate that fails runs once each time, then the next entry acts, however many attempts it has", () => {
  const entries = [entry("gate", { attempts: 4 }), entry("nudge", { attempts: 2 }), entry("fail")];
  expect(pushed(entries, 6)).toEqual(["gate", "nudge", "gate", "nudge", "gate", "fail"]);
});

test("the turn after a nudge gives no three more attempts; every other completed turn does", () => {
  const nudged = agentLike({ on: { idle: [entry("nudge", { attempts: 1 })] } });
  const next = (...history: Event[]) =>
    decide(factsLike({ seen: idle(MINUTE), agent: nudged, history: log(...history) }));
  const turn = { kind: "progress", at: ago(30 * MINUTE), attempt: 1 } as const;
  const sent = (result: "ok" | "refused") => did(["idle", 0, "nudge"], ago(HOUR), { result });
  expect(next(...sent("ok"), turn)).toMatchObject({ do: "exhausted" });
  expect(next(...sent("ok"), turn, turn)).toMatchObject(act(0, "nudge", 2));
  expect(next(...sent("refused"), turn)).toMatchObject(act(0, "nudge", 2));
});

test("nudges without a completed turn end after their attempts, and their gate does not run again for that", () => {
  const checked = agentLike({
    on: { idle: [entry("gate", { attempts: 4 }), entry("nudge", { attempts: 2 })] },
  });
  const seen = live({ state: "idle" }, ago(HOUR));
  const once = [
    ...did(["idle", 0, "gate"], ago(50 * MINUTE), { result: "failed" }),
    ...did(["idle", 1, "nudge"], ago(40 * MINUTE)),
  ];
  const next = (history: Event[]) => decide(factsLike({ seen, agent: checked, history: log(...history) }));
  expect(next(once)).toMatchObject(act(1, "nudge", 2));
  expect(next([...once, ...did(["idle", 1, "nudge"], ago(30 * MINUTE))])).toMatchObject({
    do: "exhausted",
    position: 2,
    why: expect.stringMatching(/and nudge was tried 2 times$/) as string,
  });
});
