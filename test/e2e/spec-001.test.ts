/** The scenarios of the interactive-run-handle specification, each by its own name, on the built CLI. */
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type EngineName, Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

describe("Requirement: Deterministic interactive handle", () => {
  test("Scenario: Derive handle from run id", async () => {
    const { handle, runId, runDirectory } = await box.json(["start", "demo", "hello"]);
    expect(runId).toMatch(/^\d{8}T\d{6}Z-demo-[0-9a-f]{8}$/);
    expect(handle).toBe(runId.slice(-8));
    expect(basename(runDirectory)).toBe(runId);
    expect(existsSync(join(runDirectory, "run.json"))).toBe(true);
  });
});

describe("Requirement: Interactive handle metadata record", () => {
  test.each([
    ["success", "hello", "completed"],
    ["failure", "@@exit:3", "interrupted"],
  ])("Scenario: Write handle entry after attempt (%s)", async (_name, message, status) => {
    const { handle } = await box.json(["start", "demo", message, "--", "--model", "m1"]);
    const record = await box.json(["show", handle]);
    expect(record).toMatchObject({
      handle,
      runId: expect.stringContaining(handle),
      runDirectory: expect.stringContaining(handle),
      agentName: "demo",
      session: { field: "session_id", value: expect.any(String) },
      launch: { args: expect.arrayContaining(["--model", "m1"]) },
      status,
      updatedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
    const mirrored = JSON.parse(readFileSync(join(record["runDirectory"], "run.json"), "utf8"));
    expect(mirrored).toMatchObject({
      handle,
      session: record["session"],
      launch: { args: record["launch"].args },
    });
  });
});

describe("Requirement: Multi-engine session id extraction", () => {
  const fields: [name: string, engine: EngineName, field: string, format: RegExp, source: RegExp][] = [
    ["Codex extraction", "codex", "thread_id", /^[0-9a-f-]{36}$/, /^stdout$/],
    ["Gemini extraction", "gemini", "session_id", /^[0-9a-f_-]{36}$/, /^stdout$/],
    ["iFlow extraction", "iflow", "session-id", /^session-[0-9a-f-]{36}$/, /^stderr$/],
    ["OpenCode extraction", "opencode", "sessionID", /^ses_/, /^std(out|err)$/],
  ];
  test.each(fields)("Scenario: %s", async (_name, engine, field, ...[format, source]) => {
    const { handle } = await box.json(["start", engine, "hello there"]);
    const { session } = await box.json(["show", handle]);
    expect(session.field).toBe(field);
    expect(session.value).toMatch(format);
    expect(session.source).toMatch(source);
  });

  test("Scenario: No session id found", async () => {
    const result = await box.run(["start", "codex", "@@die:before-session"]);
    const handle = /handle\s+([0-9a-f]{8})/.exec(result.stderr)?.[1] ?? "";
    const { session } = await box.json(["show", handle]);
    expect(session).toMatchObject({ field: null, value: null });
    expect(result.stderr).toMatch(/no session id/);
  });
});

describe("Requirement: Minimal-input resume command", () => {
  test.each(["codex", "claude", "gemini", "iflow", "opencode", "demo"])(
    "Scenario: Resume from handle succeeds (%s)",
    async (engine) => {
      const started = await box.json(["start", engine, "the first message", "--", "--model", "lab/m1"]);
      expect(started).toMatchObject({ ok: true });
      const resumed = await box.json(["resume", started["handle"], "the", "second", "message"]);
      expect(resumed).toMatchObject({
        ok: true,
        runDirectory: started["runDirectory"],
        session: { value: started["session"].value },
        attempt: 2,
        receipt: {
          asked: started["session"].value,
          reported: started["session"].value,
          verified: "engine_reported",
        },
      });
      expect(resumed["text"]).toContain("the first message");
      const received = box.journalEntries().findLast((entry) => entry["event"] === "message");
      expect(received).toMatchObject({ text: "the second message" });
    },
  );

  test("Scenario: Resume fails on missing handle context (no such handle)", async () => {
    const result = await box.run(["resume", "deadbeef", "go on"]);
    expect(result.code).toBe(3);
    expect(result.stderr).toContain("No run has the handle deadbeef");
    expect(result.stderr).toContain("reprise list");
  });

  test("Scenario: Resume fails on missing handle context (null session)", async () => {
    const failed = await box.run(["start", "codex", "@@die:before-session"]);
    const handle = /handle\s+([0-9a-f]{8})/.exec(failed.stderr)?.[1] ?? "";
    const result = await box.run(["resume", handle, "go on"]);
    expect(result.code).toBe(3);
    expect(result.stderr).toContain(`Run ${handle} cannot be resumed: no session id is known. `);
    // Nothing tells the sandbox of the first conversation, so a new one gets the least rights.
    expect(result.stderr).toContain(
      `\`reprise resume ${handle} --force-fresh --native -s --native read-only "…"\``,
    );
  });
});
