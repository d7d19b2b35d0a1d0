/** What Codex wrote to stderr last, for an end that nothing else explains: the record's own, else the tape's. */
import { attemptDir, readStream } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { redactor } from "../lib/secrets.ts";

const TAIL_BYTES = 16 * 1024;
const MOST_LINES = 5;
const MOST_CHARACTERS = 300;
const redact = redactor([]);

export async function lastWordsOf(run: RunRecord, attempt: AttemptRecord): Promise<readonly string[]> {
  if (attempt.lastWords !== undefined) return attempt.lastWords;
  const chunks: Buffer[] = [];
  try {
    const directory = attemptDir(run.runDirectory, attempt.n);
    for await (const chunk of readStream(directory, "stderr", { tailBytes: TAIL_BYTES })) chunks.push(chunk);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [];
  }
  const tail = Buffer.concat(chunks).toString();
  // A line whose beginning was cut off may begin inside a secret.
  const whole = attempt.bytes.stderr <= TAIL_BYTES ? tail : tail.replace(/^[^\n]*\n?/, "");
  return redact(whole)
    .split("\n")
    .map((line) => harmlessLine(line, MOST_CHARACTERS).trimEnd())
    .filter((line) => line !== "")
    .slice(-MOST_LINES);
}
