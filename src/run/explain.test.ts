import { expect, test } from "vitest";
import { findEngine } from "../engines/engines.ts";
import { explainOutput } from "./explain.ts";

const codex = findEngine("codex")!;
const demo = findEngine("demo")!;
const now = () => Date.parse("2026-11-15T09:00:00Z");
const STDOUT = { stream: "stdout", now, exitCode: null, printed: null } as const;
const ID = "0199a3f2-0000-7000-8000-000000000001";
const OTHER = "0199a3f2-0000-7000-8000-000000000002";

async function* bytes(text: string, size: number): AsyncGenerator<Buffer> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size);
}

const started = (id: string) => JSON.stringify({ type: "thread.started", thread_id: id });

test.each([1, 7, 10_000])("an id is found in chunks of %d bytes, CRLF or not", async (size) => {
  const text = `noise\r\n${started(ID)}\r\n`;
  const found = await explainOutput(codex, bytes(text, size), STDOUT);
  expect(found.session).toEqual({ field: "thread_id", value: ID, source: "stdout", line: 2 });
  expect(found.lines).toBe(2);
});

test("several ids: all are told, the first counts", async () => {
  const text = [started(ID), started(OTHER), started(ID)].join("\n");
  const found = await explainOutput(codex, bytes(text, 4_096), STDOUT);
  expect(found.sessions.map(({ value, line }) => [value, line])).toEqual([
    [ID, 1],
    [OTHER, 2],
  ]);
  expect(found.session?.value).toBe(ID);
});

test("a trouble with its reset time", async () => {
  const text = JSON.stringify({
    type: "turn.ended",
    result: "failed",
    trouble: { kind: "rate_limited", message: "slow down", resets_at: "2026-11-15T10:00:00Z" },
  });
  const found = await explainOutput(demo, bytes(text, 4_096), STDOUT);
  expect(found.outcome?.result).toBe("failed");
  expect(found.troubles).toHaveLength(1);
});

test("unknown lines are counted and the first ones named", async () => {
  const found = await explainOutput(demo, bytes("?\n".repeat(50), 64), { ...STDOUT, printed: "events" });
  expect(found.unknown).toEqual({ count: 50, firstLines: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] });
});

test("a very long output stays bounded", async () => {
  const line = `${JSON.stringify({ type: "text", delta: "x" })}\n`;
  const found = await explainOutput(demo, bytes(line.repeat(12_000), 65_536), STDOUT);
  expect([found.events.length, found.eventsLeftOut, found.lines]).toEqual([10_000, 2_000, 12_000]);
});
