/**
 * The index's generation, noted outside it: an empty file `.generation.<n>` among the run directories. The index counts
 * first, then the file gets its next name, so an index with a lower count than the file was restored from an earlier
 * day.
 *
 * It is among the run directories because they are the truth: restoring the index without them is noticed. Earlier
 * versions noted it beside the index, as `generation.<n>`; the larger number counts.
 *
 * A name, not content: a rename is atomic and needs no sync. If an old directory is copied over a newer one, both names
 * stay and the larger number counts.
 */
import { closeSync, existsSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { removeQuietly, storageFault } from "./files.ts";

const NAME = /^\.?generation\.([1-9]\d{0,14})$/;
/** Other processes rename at the same moment; finding a larger number ends the loop. */
const TRIES = 20;

interface GenerationMark {
  has(n: number): boolean;
  /** The largest noted number. 0: no note. */
  read(): number;
  /**
   * Notes a number, unless a larger one is noted. If nothing can be written the old note stays, which is always valid.
   */
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

/** Removes the notes of earlier versions. */
function removeEarlier(root: string, to: number): void {
  for (const n of numbersIn(readdirSync(root))) if (n <= to) removeQuietly(join(root, `generation.${n}`));
}

/** The largest number among names of the state directory and its runs. 0: no note. */
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
