/** The screen of a UI and the last words of an agent without one, both harmless to a terminal. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { Deps } from "../run/run.ts";
import { screenOf } from "./screen.ts";

let root = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-screen-")));
  mkdirSync(join(root, "attempts/1"), { recursive: true, mode: 0o700 });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function screen(interactive: boolean, log: string, text: string): Promise<string> {
  writeFileSync(join(root, "attempts/1", log), text);
  const attempt = { runId: "r", n: 1, interactive } as unknown as AttemptRecord;
  const deps = { store: { listAttempts: async () => [attempt] } } as unknown as Deps;
  const run = { runId: "r", runDirectory: root } as unknown as RunRecord;
  return screenOf(deps, run, 1, { cols: 20, rows: 4 });
}

const uis: Record<string, [given: string, then: string]> = {
  nothing: ["", ""],
  lines: ["one\r\ntwo", "one\ntwo"],
  "only the last rows": ["1\r\n2\r\n3\r\n4\r\n5\r\n6", "3\n4\n5\n6"],
  "drawn over": ["draft\r\x1b[2Kdone", "done"],
  "an alternate screen": ["shell\r\n\x1b[?1049h\x1b[2J\x1b[Hfull \x1b[31mscreen\x1b[0m", "full screen"],
  "left again": ["shell\r\n\x1b[?1049hfull\x1b[?1049lback", "shell\nback"],
  "titles and clipboards": ["\x1b]0;owned\x07\x1b]52;c;aGk=\x07text", "text"],
  "text that would be reordered": ["a\u202eb", "a\\u{202e}b"],
  "a long tape": [`${"x\r\n".repeat(800_000)}end`, "x\nx\nx\nend"],
};

test.each(Object.entries(uis))("the screen of a UI: %s", async (_name, [given, then]) => {
  expect(await screen(true, "pty-output.log", given)).toBe(then);
});

test("without a UI, the screen is the agent's last lines", async () => {
  const said = [
    { type: "text", text: "first" },
    { type: "tool", name: "sh" },
    { type: "text", text: "sec" },
    { type: "text", text: "ond\n\u001b[2J3\n4\n5", delta: true },
    { type: "turn_ended", result: "completed" },
  ];
  const lines = said.map((event) => JSON.stringify(event)).join("\n");
  expect(await screen(false, "events.jsonl", `{"half\n${lines}\n`)).toBe("second\n\\x1b[2J3\n4\n5");
});
