/** Paths as git lists them: one character per byte, with a NUL after each. */
import { harmlessLine } from "../../lib/harmless.ts";
import { MOST_LISTED } from "../../run/git.ts";

export const BYTES = { encoding: "latin1", maxBytes: MOST_LISTED } as const;

const MOST_NAMED = 3;

/** Paths as bytes. */
export function namedPaths(paths: readonly string[]): string {
  const texts = paths
    .slice(0, MOST_NAMED)
    .map((path) => harmlessLine(Buffer.from(path, "latin1").toString(), 100));
  const more = paths.length - texts.length;
  return more > 0 ? `${texts.join(", ")} and ${more} more` : texts.join(", ");
}

export const entriesOf = (listed: string) => listed.split("\0").filter((entry) => entry !== "");

export const is = (paths: readonly unknown[], one = "is", many = "are") => (paths.length === 1 ? one : many);
