/** The title of a run: the words by which people recognize it in lists. */
import { harmlessLine } from "../lib/harmless.ts";
import type { RunRecord } from "./records.ts";

/** What a title is made of. */
type Titled = Pick<RunRecord, "name" | "subject" | "launch" | "title">;

/** A longer text is not a title. */
export const TITLE_CHARACTERS = 200;

/**
 * Its name; else what it is for and what was first said, as runs for the same thing often begin alike. A conversation in
 * a UI has the words that the engine's own store has. One harmless line. Null: nothing is known.
 */
export function titleOf({ name, subject, launch, title }: Titled): string | null {
  if (name !== null) return harmlessLine(name, TITLE_CHARACTERS);
  const asked = [subject, launch.message ?? title ?? null].filter((part) => part !== null);
  const line = harmlessLine(asked.join(": "), TITLE_CHARACTERS);
  return line.trim() === "" ? null : line;
}
