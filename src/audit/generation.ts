/**
 * How far the index has come, noted outside it: an empty file `.generation.<n>` among the run directories. The index counts first,
 * then the file gets its next name, so an index that has counted less than the file says was put back from an earlier day.
 *
 * Among the run directories, because they are the truth: what is put back without them is noticed. Earlier versions noted it beside the
 * index, as `generation.<n>`; the larger one counts.
 *
 * A name, not a content: renaming is atomic, needs no sync, and where an old directory is copied over a newer one both
 * names stay and the larger one counts.
 */
import { closeSync, existsSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { isErrno, removeQuietly, storageFault } from "./files.ts";

const NAME = /^\.?generation\.([1-9]\d{0,14})$/;
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
  const path = pathIn(root);
  return {
    has: (n) => existsSync(path(n)),
    read() {
      try {
        return notedGeneration([...readdirSync(root), ...readdirSync(join(root, "runs"))]);
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

function pathIn(root: string): (n: number) => string {
  return (n) => join(root, "runs", `.generation.${n}`);
}

function raise(root: string, from: number, to: number): void {
  const path = pathIn(root);
  let present = from;
  for (let tries = 0; tries < TRIES; tries += 1) {
    try {
      if (present > 0) renameSync(path(present), path(to));
      else closeSync(openSync(path(to), "wx", 0o600));
      if (present === 0) removeEarlier(root, to);
      return;
    } catch (error) {
      if (!isErrno(error, "ENOENT", "EEXIST")) throw error;
    }
    const noted = numbersIn(readdirSync(join(root, "runs")));
    present = noted.pop() ?? 0;
    // Left by a directory that was copied over this one.
    for (const smaller of noted) removeQuietly(path(smaller));
    if (present >= to) return;
  }
}

/** Of earlier versions. */
function removeEarlier(root: string, to: number): void {
  for (const n of numbersIn(readdirSync(root))) if (n <= to) removeQuietly(join(root, `generation.${n}`));
}

/** The largest number among names of the state directory and of its runs; 0: none. */
export function notedGeneration(names: readonly string[]): number {
  return numbersIn(names).at(-1) ?? 0;
}

/** Ascending. */
function numbersIn(names: readonly string[]): number[] {
  return names
    .flatMap((name) => NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .toSorted((one, other) => one - other);
}
