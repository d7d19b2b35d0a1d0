/** Which text counts as part of a conversation, for interruptions that wait for it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isKept } from "./interrupt.ts";
import type { LabWorld } from "./world.ts";

const MESSAGE = 'say "one"\nand two';
const SAID = { type: "user", message: { role: "user", content: MESSAGE } };

test.for([
  ["a line of the conversation", [SAID], true],
  ["Claude's queue alone", [{ type: "queue-operation", operation: "enqueue", content: MESSAGE }], false],
  ["Claude's last prompt alone", [{ type: "last-prompt", lastPrompt: MESSAGE }], false],
  ["the queue, then the conversation", [{ type: "queue-operation", content: MESSAGE }, SAID], true],
  ["another message", [{ ...SAID, message: { content: "say one" } }], false],
  ["no file", null, false],
] as const)("%s", ([, lines, kept]) => {
  const directory = mkdtempSync(join(tmpdir(), "reprise-kept-"));
  try {
    const file = join(directory, "session.jsonl");
    if (lines !== null) writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const world = { lab: { storeFiles: () => [file] }, place: {} } as unknown as LabWorld;
    expect(isKept(world, MESSAGE)).toBe(kept);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
