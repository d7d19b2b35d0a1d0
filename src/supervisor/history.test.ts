/** Events survive the store, and whatever else is in it. */
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../test/contracts/memory-store.ts";
import type { StoredEvent } from "../store/store.ts";
import type { SupervisionEvent } from "../core/supervision.ts";
import { fromStored, type NewSupervisionEvent, toStored } from "./history.ts";

const RUN = "20260101T000000Z-claude-1a2b3c4d";
const at = Date.UTC(2026, 0, 1);
const key = `${RUN}/1/dead/0/1`;

const events: readonly NewSupervisionEvent[] = [
  { kind: "begun_again", at, attempt: 1, key, time: 1 },
  { kind: "begun_again", at, attempt: 1, key, time: 2 },
  { kind: "progress", at, attempt: 1, turn: 1 },
  {
    kind: "decided",
    at,
    attempt: 1,
    key,
    trigger: "dead",
    position: 0,
    action: "resume",
    message: "m",
    newAttempt: 2,
  },
  { kind: "carried_out", at, attempt: 1, key, result: "failed", detail: "spawn_failed" },
  { kind: "escalated", at, attempt: 1, decision: "1a2b3c4d-1" },
  { kind: "answered", at, attempt: 1, decision: "1a2b3c4d-1", choice: "resume" },
  { kind: "strict", at, attempt: 1 },
  {
    kind: "decided",
    at,
    attempt: 1,
    key: `${RUN}/1/user/0/1`,
    trigger: "user",
    position: 0,
    action: "nudge",
    message: null,
    newAttempt: null,
  },
];

test("the history contains entries only after they are written", async () => {
  await using store = memoryStore();
  for (const event of events) expect(await store.appendEvent(toStored(RUN, event))).not.toBeNull();
  for (const event of events) expect(await store.appendEvent(toStored(RUN, event))).toBeNull();
  const expected = events.map((event, n) => {
    const { turn: _, ...rest } = { turn: 0, ...event };
    return { ...rest, seq: n + 1 };
  });
  expect(fromStored(await store.listEvents(RUN))).toEqual(expected);
});

test("each completed turn counts as progress", async () => {
  await using store = memoryStore();
  for (const turn of [1, 2, 2, 1, 3]) {
    await store.appendEvent(toStored(RUN, { kind: "progress", at, attempt: 1, turn }));
  }
  expect(fromStored(await store.listEvents(RUN))).toHaveLength(3);
});

const stored = (fields: Partial<StoredEvent>): StoredEvent => ({
  seq: 7,
  runId: RUN,
  attempt: 1,
  kind: "decided",
  at: "2026-01-01T00:00:00.000Z",
  key,
  payload: { trigger: "dead", position: 0, action: "resume", message: null, newAttempt: 2, key },
  ...fields,
});
const payload = (fields: Readonly<Record<string, unknown>>) =>
  stored({ payload: { ...stored({}).payload, ...fields } });
const decided = {
  seq: 7,
  at,
  attempt: 1,
  kind: "decided",
  key,
  trigger: "dead",
  position: 0,
  action: "resume",
  message: null,
  newAttempt: 2,
} as const satisfies SupervisionEvent;

describe("lines that others wrote", () => {
  const rows: Record<string, [StoredEvent, SupervisionEvent | null]> = {
    "an old event that says Recover": [payload({ action: "Recover" }), decided],
    "an old event that says recover": [payload({ action: "recover" }), decided],
    "a field too many": [payload({ colour: "red" }), decided],
    "no message and no new attempt": [
      payload({ message: undefined, newAttempt: undefined }),
      { ...decided, newAttempt: null },
    ],
    "no attempt": [stored({ attempt: null }), { ...decided, attempt: 0 }],
    "a report without words": [
      stored({ kind: "carried_out", payload: { key, result: "ok" } }),
      { seq: 7, at, attempt: 1, kind: "carried_out", key, result: "ok", detail: "" },
    ],
    "an unknown kind": [stored({ kind: "dreamt" }), null],
    "an unknown action": [payload({ action: "pray" }), null],
    "an unknown trigger": [payload({ trigger: "bored" }), null],
    "no position": [payload({ position: "0" }), null],
    "a decision without a key": [stored({ key: null }), null],
    "a time that is not a time": [stored({ at: "soon" }), null],
    "a report of an unknown result": [
      stored({ kind: "carried_out", payload: { key, result: "maybe" } }),
      null,
    ],
    "a report on nothing": [stored({ kind: "carried_out", payload: { result: "ok" } }), null],
    "an escalation of nothing": [stored({ kind: "escalated", payload: {} }), null],
    "an answer without a choice": [stored({ kind: "answered", payload: { decision: "x" } }), null],
  };
  test.each(Object.entries(rows))("%s", (_name, [event, then]) => {
    expect(fromStored([event])).toEqual(then === null ? [] : [then]);
  });
});
