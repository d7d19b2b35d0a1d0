/**
 * How far the index has come, noted outside it: an empty file `generation.<n>` in the state directory. The index counts first,
 * then the file gets its next name, so an index that has counted less than the file says was put back from an earlier day.
 *
 * A name, not a content: renaming is atomic, needs no sync, and where an old directory is copied over a newer one both
 * names stay and the larger one counts.
 */
import { closeSync, existsSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { isErrno, removeQuietly, storageFault } from "./files.ts";

const PREFIX = "generation.";
/** Others rename at the same moment; whoever finds a larger number is done. */
const TRIES = 20;

interface GenerationMark {
  /** Whether exactly this number is noted. */
  has(n: number): boolean;
  /** The largest number that is noted; 0: none. */
  read(): number;
  /** Notes a number, unless a larger one is noted. Where nothing can be written the old one stays, which is always true. */
  raise(from: number, to: number): void;
}

export function generationMark(root: string): GenerationMark {
  const path = (n: number) => join(root, `${PREFIX}${n}`);
  return {
    has: (n) => existsSync(path(n)),
    read() {
      try {
        return notedGeneration(readdirSync(root));
      } catch (error) {
        throw storageFault(error, "read", root);
      }
    },
    raise(from, to) {
      try {
        raise(root, from, to);
      } catch (error) {
        if (!isErrno(error)) throw error;
      }
    },
  };
}

function raise(root: string, from: number, to: number): void {
  const path = (n: number) => join(root, `${PREFIX}${n}`);
  let present = from;
  for (let tries = 0; tries < TRIES; tries += 1) {
    try {
      if (present > 0) renameSync(path(present), path(to));
      else closeSync(openSync(path(to), "wx", 0o600));
      return;
    } catch (error) {
      if (!isErrno(error, "ENOENT", "EEXIST")) throw error;
    }
    const noted = numbersIn(readdirSync(root));
    present = noted.pop() ?? 0;
    // Left by a directory that was copied over this one.
    for (const smaller of noted) removeQuietly(path(smaller));
    if (present >= to) return;
  }
}

/** The largest number among names of the state directory; 0: none. */
export function notedGeneration(names: readonly string[]): number {
  return numbersIn(names).at(-1) ?? 0;
}

/** Ascending. */
function numbersIn(names: readonly string[]): number[] {
  return names
    .filter((name) => name.startsWith(PREFIX) && /^[1-9]\d{0,14}$/.test(name.slice(PREFIX.length)))
    .map((name) => Number(name.slice(PREFIX.length)))
    .toSorted((one, other) => one - other);
}
