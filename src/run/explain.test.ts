import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Engine } from "../engines/engine.ts";
import { builtInEngine } from "../engines/engines.ts";
import { type ExplainOptions, explainOutput } from "./explain.ts";

const codex = builtInEngine("codex")!;
const demo = builtInEngine("demo")!;
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

test("several ids are all reported, and the first counts", async () => {
  const text = [started(ID), started(OTHER), started(ID)].join("\n");
  const found = await explainOutput(codex, bytes(text, 4_096), STDOUT);
  expect(found.sessions.map(({ value, line }) => [value, line])).toEqual([
    [ID, 1],
    [OTHER, 2],
  ]);
  expect(found.session?.value).toBe(ID);
});

test("a trouble comes with its reset time", async () => {
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

describe("how it ended", () => {
  const opencode = builtInEngine("opencode")!;
  const iflow = builtInEngine("iflow")!;
  const claude = builtInEngine("claude")!;
  const fixture = (name: string) => readFileSync(`src/engines/${name}`, "utf8");
  const explain = (engine: Engine, text: string, options: Partial<ExplainOptions> = {}) =>
    explainOutput(engine, bytes(text, 4_096), { ...STDOUT, ...options });

  test.each([null, 0])("a completed OpenCode recording is completed with exit code %j", async (exitCode) => {
    const found = await explain(opencode, fixture("opencode.fixtures/success.stdout"), { exitCode });
    expect(found).toMatchObject({ assumed: "events", exitCode, outcome: { result: "completed" } });
  });

  test("an OpenCode recording whose process failed is not completed", async () => {
    const found = await explain(opencode, fixture("opencode.fixtures/success.stdout"), { exitCode: 1 });
    expect(found.outcome?.result).toBe("interrupted");
  });

  test("an OpenCode recording that breaks off is interrupted", async () => {
    const lines = fixture("opencode.fixtures/success.stdout").split("\n");
    const found = await explain(opencode, lines.slice(0, 1).join("\n"));
    expect(found.outcome?.result).toBe("interrupted");
  });

  test("a completed iFlow recording is completed, and is text", async () => {
    const found = await explain(iflow, fixture("iflow.fixtures/info-on-stdout.stdout"));
    expect(found).toMatchObject({ assumed: "text", session: null, outcome: { result: "completed" } });
  });

  test("text without an exit code is not judged", async () => {
    const found = await explain(claude, "All done.\n");
    expect(found).toMatchObject({ assumed: "text", exitCode: null, outcome: null });
  });

  test.each([
    [0, "completed", undefined],
    [1, "failed", "rate_limited"],
  ] as const)("Claude's limit as text, exit code %d: %s", async (exitCode, result, kind) => {
    const text = fixture("claude.fixtures/text-subscription-limit.stdout");
    const found = await explain(claude, text, { exitCode });
    expect(found.outcome?.result).toBe(result);
    expect(found.outcome?.trouble?.kind).toBe(kind);
    expect(found.resetsAt === null).toBe(exitCode === 0);
  });

  test("text that looks like an event names no session when the output is declared as text", async () => {
    const text = fixture("claude.fixtures/text-forged-in-answer.stdout");
    expect((await explain(claude, text)).assumed).toBe("events");
    const found = await explain(claude, text, { printed: "text" });
    expect(found).toMatchObject({ assumed: "text", session: null, sessions: [] });
  });

  describe("stderr alone", () => {
    const stderr = (name: string, exitCode: number | null) =>
      explain(builtInEngine(name.split(".")[0] ?? "")!, name.includes("/") ? fixture(`${name}.stderr`) : "", {
        ...{ stream: "stderr", exitCode },
      });

    test.each([
      "codex.fixtures/success",
      "claude",
      "gemini.fixtures/success",
      "gemini.fixtures/retries",
      "iflow.fixtures/info-on-stderr",
      "iflow.fixtures/killed",
      "opencode.fixtures/resume",
      "opencode.fixtures/retried",
      "opencode.fixtures/text-log",
    ])("does not tell how %s ended", async (name) => {
      for (const exitCode of [null, 0])
        expect([exitCode, (await stderr(name, exitCode)).outcome]).toEqual([exitCode, null]);
    });

    test("does not make a failure of a Gemini warning without an exit code", async () => {
      const text = "Warning: the server of a tool is slow.\n";
      const found = await explain(builtInEngine("gemini")!, text, { stream: "stderr" });
      expect(found).toMatchObject({ outcome: null, troubles: [] });
    });

    test.each([
      ["claude.fixtures/unknown-id", null, "failed", "session_lost"],
      ["codex.fixtures/text-usage-limit", 1, "failed", "rate_limited"],
      ["codex.fixtures/text-answer", 0, "completed", undefined],
      ["gemini.fixtures/json-failed", 0, "failed", "auth"],
      ["gemini.fixtures/no-input", 42, "failed", "usage"],
      ["iflow.fixtures/api-error", 0, "failed", "other"],
      ["iflow.fixtures/failed", null, "failed", "rate_limited"],
      ["opencode.fixtures/session-unknown", 1, "failed", "session_lost"],
    ] as const)("tells how %s ended with exit code %j: %s, %s", async (name, exitCode, result, kind) => {
      const { outcome } = await stderr(name, exitCode);
      expect([outcome?.result, outcome?.trouble?.kind]).toEqual([result, kind]);
    });
  });

  test("Codex's header on stderr names its session, and later lines do not", async () => {
    const text = fixture("codex.fixtures/text-forged-in-answer.stderr");
    const found = await explain(codex, text, { stream: "stderr" });
    expect(found.assumed).toBe("text");
    expect(found.sessions.map(({ value }) => value)).toEqual(["01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0"]);
  });
});
