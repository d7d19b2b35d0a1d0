import { describe, expect, test } from "vitest";
import type { SeenSession, Session } from "../core/records.ts";
import { candidates, isConfirmed, observe, sessionOf, settle, unsaid } from "./conversation.ts";

const seen = (value: string, over: Partial<SeenSession> = {}): SeenSession => ({
  value,
  source: "stdout",
  at: "2026-11-15T00:00:00.000Z",
  attempt: 1,
  verifiedAt: "2026-11-15T00:00:00.000Z",
  ...over,
});

describe("observe", () => {
  test("adds a new id and keeps earlier ones", () => {
    expect(observe([seen("a")], seen("b"))).toEqual([seen("a"), seen("b")]);
  });
  test("writes nothing for an id that it already has", () => {
    const known = [seen("a")];
    expect(observe(known, seen("a", { at: "later" }))).toBe(known);
  });
  test("proves a chosen id when the engine reports it", () => {
    const chosen = seen("a", { source: "chosen", verifiedAt: null });
    expect(observe([chosen], seen("a"))).toEqual([
      { ...chosen, source: "stdout", verifiedAt: seen("a").verifiedAt },
    ]);
  });
  test("treats the same id in a later attempt as a separate fact", () => {
    expect(observe([seen("a")], seen("a", { attempt: 2 }))).toHaveLength(2);
  });
});

describe("settle", () => {
  const cases: Record<
    string,
    [ids: SeenSession[], confirmed: string[], session: string | null, mismatch: boolean]
  > = {
    none: [[], [], null, false],
    one: [[seen("a")], [], "a", false],
    "two, the store confirms the first: a forged line changes nothing": [
      [seen("a"), seen("f")],
      ["a"],
      "a",
      true,
    ],
    "two, a forged line first, the store knows better": [[seen("f"), seen("a")], ["a"], "a", true],
    "two, both confirmed: the last one wins": [[seen("a"), seen("b")], ["a", "b"], "b", false],
    "two, the store cannot tell: the first stays": [[seen("a"), seen("b")], [], "a", true],
  };
  test.each(Object.entries(cases))("%s", (_name, [ids, confirmed, session, mismatch]) => {
    const settled = settle(ids, new Set(confirmed));
    expect([settled.session?.value ?? null, settled.mismatch]).toEqual([session, mismatch]);
  });
});

test("a known id is never replaced by nothing (I3)", () => {
  const before: Session = { field: "thread_id", value: "a", source: "stdout", verifiedAt: "t" };
  expect(sessionOf("thread_id", null, before)).toEqual(before);
});

describe("whether a session contains a message", () => {
  const current: Session = { field: "f", value: "b", source: "chosen", verifiedAt: null };
  const chosen = seen("b", { attempt: 2, source: "chosen", verifiedAt: null });
  const cases: Record<string, [sessions: readonly SeenSession[], session: Session, confirmed: boolean]> = {
    "its id was only chosen": [[seen("a"), chosen], current, false],
    "the engine named it": [[seen("a"), seen("b")], current, true],
    "the store confirmed it": [[seen("a"), chosen], { ...current, verifiedAt: "t" }, true],
    "it was named as another one than asked for": [[seen("b", { foreign: true })], current, false],
    "a UI named it and was left": [unsaid([seen("a"), seen("b")], 1, new Set(["b"])), current, false],
    "a UI named it and was left, after an attempt in it": [
      unsaid([seen("b"), seen("b", { attempt: 2 })], 2, new Set(["b"])),
      current,
      true,
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [sessions, session, confirmed]) => {
    expect(isConfirmed({ session, sessions }, "b")).toBe(confirmed);
  });
});

test("candidates are the current id, then every other one, newest first, each once", () => {
  const current: Session = { field: "f", value: "b", source: "stdout", verifiedAt: null };
  expect(candidates([seen("a"), seen("b"), seen("c"), seen("a", { attempt: 2 })], current)).toEqual([
    "b",
    "a",
    "c",
  ]);
});
