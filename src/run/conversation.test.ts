import { describe, expect, test } from "vitest";
import type { SeenSession, Session } from "../core/records.ts";
import { candidates, observe, sessionOf, settle } from "./conversation.ts";

const seen = (value: string, over: Partial<SeenSession> = {}): SeenSession => ({
  value,
  source: "stdout",
  at: "2026-11-15T00:00:00.000Z",
  attempt: 1,
  verifiedAt: "2026-11-15T00:00:00.000Z",
  ...over,
});

describe("observe", () => {
  test("adds what is new and keeps what was there", () => {
    expect(observe([seen("a")], seen("b"))).toEqual([seen("a"), seen("b")]);
  });
  test("the same id again changes nothing, so nothing is written", () => {
    const known = [seen("a")];
    expect(observe(known, seen("a", { at: "later" }))).toBe(known);
  });
  test("a chosen id gains its proof when the engine reports it", () => {
    const chosen = seen("a", { source: "chosen", verifiedAt: null });
    expect(observe([chosen], seen("a"))).toEqual([
      { ...chosen, source: "stdout", verifiedAt: seen("a").verifiedAt },
    ]);
  });
  test("the same id in a later attempt is a fact of its own", () => {
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

test("candidates: the current id, then every other, newest first, each once", () => {
  const current: Session = { field: "f", value: "b", source: "stdout", verifiedAt: null };
  expect(candidates([seen("a"), seen("b"), seen("c"), seen("a", { attempt: 2 })], current)).toEqual([
    "b",
    "a",
    "c",
  ]);
});
