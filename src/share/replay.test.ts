/** Recordings: their timing, their frames without hostile bytes, hidden secrets, and the keys of a replay. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { redactor } from "../lib/secrets.ts";
import { asciicastOf } from "./asciicast.ts";
import { paintedRows, RecordedScreen } from "./frame.ts";
import { linesPlayable } from "./lines-playable.ts";
import { removedRanges } from "./masking.ts";
import { beginning, clockText, passed, pressed } from "./playback.ts";
import { recordingFacts, stepsOf } from "./recording.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reprise-share-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function record(tape: string, timing: readonly (object | string)[] | null): void {
  writeFileSync(join(folder, "pty-output.log"), tape, { mode: 0o600 });
  const lines = timing?.map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
  if (lines !== undefined)
    writeFileSync(join(folder, "timing.jsonl"), lines.map((line) => `${line}\n`).join(""), { mode: 0o600 });
}

async function steps(): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const { atMs, size, bytes } of stepsOf(folder))
    all.push([atMs, bytes.toString(), ...(size === undefined ? [] : [size])]);
  return all;
}

test("steps have the times and sizes of the recording, close ones joined, damaged lines skipped", async () => {
  record("abcdefgh", [
    { t: 0, cols: 80, rows: 24 },
    { t: 5, s: "o", n: 2 },
    { t: 20, s: "o", n: 1 },
    "not json",
    { t: -1, n: 5 },
    { t: 900, cols: 0, rows: 24 },
    { t: 1_000, s: "o", n: 2 },
    { t: 500, s: "o", n: 1 },
    { t: 2_000, cols: 100, rows: 30 },
    { t: 2_000, s: "e", n: 2 },
  ]);
  expect(await recordingFacts(folder)).toEqual({
    durationMs: 2_000,
    size: { cols: 80, rows: 24 },
    timed: true,
  });
  expect(await steps()).toEqual([
    [0, "abc", { cols: 80, rows: 24 }],
    [1_000, "def"],
    [2_000, "gh", { cols: 100, rows: 30 }],
  ]);
});

test.each([
  ["no timing file", null, 40],
  ["an empty timing file", [], 40],
  ["a short timing file", [{ t: 100, s: "o", n: 100 }], 140],
  ["a timing file with too many bytes", [{ t: 100, s: "o", n: 1e9 }], 100],
] as const)("a recording with %s plays to its end", async (_name, timing, durationMs) => {
  record("x".repeat(400), timing);
  const facts = await recordingFacts(folder);
  expect(facts).toEqual({ durationMs, size: null, timed: durationMs === 100 });
  const all = (await steps()) as [number, string][];
  expect(all.map(([, text]) => text).join("")).toBe("x".repeat(400));
  expect(all.at(-1)?.[0]).toBe(durationMs);
});

test("a frame has text and colours, and nothing else that the bytes asked for", async () => {
  using screen = await RecordedScreen.open({ cols: 20, rows: 3 }, false);
  await screen.write(
    Buffer.from(
      "\x1b]0;title\x07\x1b]52;c;eA==\x07\x1b[c\x1b[6n\x1b[?1000h\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[48;5;200m!\x1b[0m\r\n宽 a\u202eb\u0301\x1b[8mhid\x1b[0m\x1b]8;;http://e\x07l\x1b]8;;\x07",
    ),
  );
  expect(paintedRows(screen.frame(), 20, true)).toEqual([
    "\x1b[0;1;31mred\x1b[0m \x1b[0;38;2;1;2;3mrgb\x1b[0;38;2;1;2;3;48;5;200m!\x1b[0m",
    expect.stringMatching(/^宽 a[^\u202e]*b\u0301 {3}\x1b\[0;4ml\x1b\[0m$/),
    "",
  ]);
  expect(paintedRows(screen.frame(), 5, false)).toEqual(["red r", expect.stringMatching(/^宽 a.?/), ""]);
  expect(paintedRows(screen.frame(), 1, false)[1]).toBe("");
});

test("a recording without a size is drawn at the size of the attempt's record", async () => {
  record("hello", [{ t: 0, s: "o", n: 5 }]);
  const request = { directory: folder, title: "t", startedAt: null, redact: (text: string) => text };
  const drawn = { ...request, otherwise: { cols: 33, rows: 7 }, lineFeeds: false };
  for await (const line of asciicastOf(drawn)) {
    expect(JSON.parse(line)).toMatchObject({ width: 33, height: 7 });
    break;
  }
});

test("an asciicast masks a secret in every frame, also where it is not complete yet or wraps", async () => {
  const secret = "correct-horse-battery";
  const redact = redactor([{ name: "LAB", value: secret }]);
  record(`pw ${secret.slice(0, 9)}${secret.slice(9)} end`, [
    { t: 0, cols: 20, rows: 4 },
    { t: 0, s: "o", n: 12 },
    { t: 500, s: "o", n: 16 },
  ]);
  const lines: string[] = [];
  const request = {
    directory: folder,
    title: "t",
    startedAt: null,
    otherwise: null,
    redact,
    lineFeeds: false,
  };
  for await (const line of asciicastOf(request)) lines.push(line);
  expect(JSON.parse(lines[0] ?? "")).toEqual({
    ...{ version: 2, width: 20, height: 4, idle_time_limit: 2, title: "t" },
    env: { TERM: "xterm-256color" },
  });
  const text = lines.join("");
  expect(text).not.toContain("correct");
  expect(text).not.toContain("battery");
  expect(text).toContain(`pw ${"•".repeat(9)}`);
  expect(text).toContain("end");
  expect(JSON.parse(lines.at(-1) ?? "")[0]).toBe(0.5);
});

test("removed ranges are those that redaction replaced; another change hides everything", () => {
  const redact = redactor([{ name: "LAB", value: "correct-horse" }]);
  expect(removedRanges("a correct-horse b", redact)).toEqual([[2, 15]]);
  expect(removedRanges("plain", redact)).toEqual([]);
  expect(removedRanges("abc", () => "xyz [redacted]")).toEqual([[0, 3]]);
});

test.each([
  ["space", { paused: true }],
  ["+", { speed: 8 }],
  ["-", { speed: 2 }],
  ["right", { skipping: true }],
  ["q", { leaving: "left" }],
  ["escape", { leaving: "left" }],
  ["ctrl-c", { leaving: "interrupted" }],
  ["x", {}],
])("the key %s changes the replay", (key, change) => {
  expect(pressed(beginning(4), key)).toEqual({ ...beginning(4), ...change });
});

test("time passes with the speed, not in a pause, and speeds have ends", () => {
  const state = passed(beginning(4), 100);
  expect(state.positionMs).toBe(400);
  expect(passed(pressed(state, "space"), 100).positionMs).toBe(400);
  expect(pressed(beginning(100), "+").speed).toBe(100);
  expect(pressed(beginning(0.1), "-").speed).toBe(0.1);
  expect([0, 62_000, 3_723_000].map(clockText)).toEqual(["00:00", "01:02", "1:02:03"]);
});

test("a run without a UI plays as lines with times, harmless and no wider than the terminal", async () => {
  const playable = linesPlayable([
    { atMs: 0, text: "Hel", continues: false },
    { atMs: 500, text: "lo\n", continues: true },
    { atMs: 61_000, text: "\x1b[31mlong words that wrap", continues: false },
  ]);
  const seen: unknown[] = [];
  for await (const step of playable.begin()) {
    await step.apply();
    seen.push([step.atMs, playable.rows({ columns: 20, rows: 4 }).rows]);
  }
  expect(seen).toEqual([
    [0, ["00:00  Hel"]],
    [500, ["00:00  Hello"]],
    [61_000, ["01:01  \\x1b[31mlong", "       words that", "       wrap"]],
  ]);
});
