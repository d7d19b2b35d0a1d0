/** What an agent wrote to stderr last: the reason of a crash is often nowhere else. */
import { harmlessLine } from "../lib/harmless.ts";
import type { Redact } from "./launch.ts";

const MOST_LINES = 5;
const MOST_CHARACTERS = 300;

/** As it may be stored and shown. `isWhole`: the tail begins where stderr began. */
export function lastWords(tail: string, isWhole: boolean, redact: Redact): readonly string[] {
  // A line whose beginning was cut off may begin inside a secret. Without a line end, nothing is left.
  const lines = isWhole ? tail : tail.replace(/^[^\n]*\n?/, "");
  // Redacted before it is split and shortened: a secret may have several lines, and half of one is still a secret.
  return redact(lines)
    .split("\n")
    .map((line) => harmlessLine(line, MOST_CHARACTERS).trimEnd())
    .filter((line) => line !== "")
    .slice(-MOST_LINES);
}
