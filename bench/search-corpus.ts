/** Generated conversations for the bench of the search: the same for the same number. */
import type { AttemptRecord, RunRecord } from "../src/core/records.ts";

/** A rare word, three words that are often together, and one that is in every conversation. */
export const TARGETS = ["needle7", "flaky cart test", "the"] as const;

/** Of events, and of each of the two logs. */
const BYTES = 33_000;

let seed = 1;
const random = () => (seed = (seed * 48_271) % 0x7fff_ffff) / 0x7fff_ffff;
const letters = () => String.fromCharCode(97 + Math.floor(random() * 26));
const WORDS = [
  ..."the a to of in is and it for cart test flaky fix file error module with that this on".split(" "),
  ...Array.from({ length: 20_000 }, () =>
    Array.from({ length: 3 + Math.floor(random() * 8) }, letters).join(""),
  ),
];
/** Common words are much more frequent than others. */
const word = () => WORDS[Math.floor(WORDS.length ** random()) - 1] ?? "the";
const sentence = (words: number) => Array.from({ length: words }, word).join(" ");

export function recording(at: number): { readonly events: string; readonly printed: string } {
  seed = at + 1;
  let events = "";
  for (let line = 1; events.length < BYTES; line += 1) {
    const event =
      line % 3 === 0
        ? {
            type: "tool",
            state: "started",
            id: `${line}`,
            name: "edit",
            detail: `src/${word()}/${word()}.test.ts`,
          }
        : { type: "text", text: `${sentence(60)}\n${sentence(40)}` };
    events += `${JSON.stringify({ t: line * 100, stream: "stdout", line, ...event })}\n`;
  }
  if (at % 997 === 7) events += `${JSON.stringify({ t: 1, type: "text", text: "a needle7 in it" })}\n`;
  return { events, printed: "x".repeat(BYTES) };
}

export function attemptOf({ runId, createdAt, cwd }: RunRecord): AttemptRecord {
  const process = { pid: 1, start: "1", boot: "bench", space: "1" };
  return {
    ...{ v: 1, runId, n: 1, kind: "start", state: "ended", mode: "pipe", interactive: false },
    ...{ program: "/usr/bin/codex", args: [], native: [], cwd, message: "fix the flaky cart test" },
    ...{ owner: process, agent: null, asked: null, reported: [], engineVersion: null },
    ...{ startedAt: createdAt, endedAt: createdAt, exit: { code: 0, signal: null } },
    ...{ outcome: { result: "completed", reason: "done" }, tokens: null },
    ...{ bytes: { stdout: BYTES, stderr: 0 }, diagnostics: [] },
  };
}
