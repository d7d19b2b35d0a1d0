import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Attempt, ConversationEvent } from "../types.ts";
import { append, type Block, EMPTY, withAttempts } from "./conversation.ts";

const blocksOf = (...events: ConversationEvent[]): readonly Block[] => append(EMPTY, events).blocks;
const at = { n: 1, t: 0 };

describe("a conversation", () => {
  test("joins pieces of text, and separates messages", () => {
    expect(
      blocksOf(
        { ...at, type: "text", text: "You " },
        { ...at, type: "text", text: "said", delta: true },
        { ...at, type: "text", text: "Another." },
      ),
    ).toEqual([{ ...at, kind: "text", text: "You said\n\nAnother." }]);
  });

  test("makes one line of a tool call, with its output", () => {
    expect(
      blocksOf(
        { ...at, type: "tool", state: "started", id: "a", name: "bash", detail: "npm test" },
        { ...at, type: "tool", state: "started", id: "b", name: "read", detail: "a.ts" },
        { ...at, type: "tool", state: "ended", id: "a", name: "bash", ok: false, output: "1 failed", cut: 7 },
      ),
    ).toEqual([
      {
        ...{ ...at, kind: "tools" },
        calls: [
          { id: "a", name: "bash", detail: "npm test", state: "failed", output: "1 failed", cut: 7 },
          { id: "b", name: "read", detail: "a.ts", state: "running" },
        ],
      },
    ]);
  });

  test("an end without a start is a call of its own", () => {
    expect(blocksOf({ ...at, type: "tool", state: "ended", id: "a", name: "bash", ok: true })).toEqual([
      { ...at, kind: "tools", calls: [{ id: "a", name: "bash", detail: "", state: "ok" }] },
    ]);
  });

  test("a turn ends with its trouble and its tokens", () => {
    const trouble = { kind: "context", message: "The context is full." };
    expect(
      blocksOf(
        { ...at, type: "usage", tokens: { input: 3, output: 4 } },
        { ...at, type: "turn_ended", result: "failed", trouble },
      ),
    ).toEqual([
      { ...at, kind: "trouble", level: "bad", text: "The context is full.", trouble },
      { ...at, kind: "ended", result: "failed", tokens: { input: 3, output: 4 } },
    ]);
  });

  test("shows retries and denied calls, and skips what says nothing", () => {
    const trouble = { kind: "rate_limited", message: "too many requests" };
    const blocks = blocksOf(
      { ...at, type: "session", session: "x" },
      { ...at, type: "turn_started" },
      { ...at, type: "retry", trouble, delayMs: 4_000 },
      { ...at, type: "notice", message: "no", denied: { name: "write", detail: "/etc/passwd" } },
      { ...at, type: "of a later version" },
    );
    expect(blocks.map((block) => ("text" in block ? block.text : block.kind))).toEqual([
      "The engine retries in 4 s: too many requests",
      "Denied: write /etc/passwd",
    ]);
  });

  test("is the same in one part or in many", () => {
    const event = fc.record({
      n: fc.constantFrom(1, 2),
      t: fc.nat(9),
      type: fc.constantFrom("text", "tool", "usage", "turn_ended", "message", "notice"),
      text: fc.constantFrom("a", "b"),
      delta: fc.boolean(),
      state: fc.constantFrom("started", "ended"),
      id: fc.constantFrom("1", "2"),
      name: fc.constant("bash"),
      message: fc.constant("m"),
      result: fc.constant("completed"),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 30 }), fc.nat(30), (events, cut) => {
        const parts = append(append(EMPTY, events.slice(0, cut)), events.slice(cut));
        expect(parts).toEqual(append(EMPTY, events));
      }),
    );
  });

  test("takes linear time for calls that never began", () => {
    const events = Array.from({ length: 20_000 }, (_, n) => ({
      ...{ ...at, type: n % 2 === 0 ? "text" : "tool", text: "a", state: "ended", id: `x${n}`, name: "bash" },
    }));
    expect(append(EMPTY, events).blocks).toHaveLength(20_000);
  });

  test("blocks that did not change stay the same objects", () => {
    const before = append(EMPTY, [
      { ...at, type: "message", text: "hi" },
      { ...at, type: "text", text: "yes" },
    ]);
    const after = append(before, [{ ...at, type: "text", text: " sir", delta: true }]);
    expect(after.blocks[0]).toBe(before.blocks[0]);
    expect(after.blocks[1]).not.toBe(before.blocks[1]);
  });
});

describe("the attempts of a conversation", () => {
  const attempt = (n: number, message: string): Attempt => ({
    ...{ n, kind: n === 1 ? "start" : "resume", state: "ended", message, receipt: null },
    ...{ startedAt: "2026-01-01T00:00:00Z", outcome: { result: "completed", reason: "" } },
  });

  test("stand before what was said in them, with their message", () => {
    const blocks = blocksOf(
      { n: 1, t: 0, type: "text", text: "one" },
      { n: 2, t: 0, type: "text", text: "two" },
    );
    const shown = withAttempts(blocks, [attempt(1, "begin"), attempt(2, "go on")]);
    expect(shown.map((block) => [block.n, block.kind, "text" in block ? block.text : ""])).toEqual([
      [1, "attempt", ""],
      [1, "user", "begin"],
      [1, "text", "one"],
      [2, "attempt", ""],
      [2, "user", "go on"],
      [2, "text", "two"],
    ]);
  });

  test("do not repeat a message that is an event", () => {
    const blocks = blocksOf({ n: 1, t: 0, type: "message", text: "begin", opening: true });
    expect(withAttempts(blocks, [attempt(1, "begin")]).map(({ kind }) => kind)).toEqual(["attempt", "user"]);
  });

  test("an attempt that the record does not have yet is shown", () => {
    const blocks = blocksOf({ n: 2, t: 0, type: "text", text: "two" });
    expect(withAttempts(blocks, [attempt(1, "")]).map(({ n, kind }) => [n, kind])).toEqual([
      [1, "attempt"],
      [2, "attempt"],
      [2, "text"],
    ]);
  });
});
