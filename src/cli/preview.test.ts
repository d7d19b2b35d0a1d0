import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { RunRecord } from "../core/records.ts";
import { lastExchange } from "./preview.ts";

test("the preview of an agent that has not said anything yet hides its engine's protocol", async () => {
  const runDirectory = mkdtempSync(join(tmpdir(), "reprise-preview-"));
  try {
    const attempt = join(runDirectory, "attempts/1");
    mkdirSync(attempt, { recursive: true, mode: 0o700 });
    writeFileSync(join(attempt, "events.jsonl"), "", { mode: 0o600 });
    const output = '{"type":"session","id":"a"}\nwarming up\n{"type":"turn"}\n';
    writeFileSync(join(attempt, "pty-output.log"), output, { mode: 0o600 });
    const run = { attempts: 1, runDirectory, launch: { message: "go" } } as unknown as RunRecord;
    expect((await lastExchange(run)).answer.trim()).toBe("warming up");
  } finally {
    rmSync(runDirectory, { recursive: true });
  }
});
