/** The trash of the state directory: removed run directories, `trash/<run-id>/`, each with a note about its removal. */
import { lstatSync, readdirSync, renameSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import type { StateDir } from "./directory.ts";
import { isOurs, lstat, makeDirectory, storageFault, syncDirectory, writeAtomic } from "./files.ts";
import { entriesOf } from "./places.ts";

/** On the same level as the runs root, so that relative links in a worktree still lead to the same places. */
export function trashRoot({ root }: StateDir): string {
  return join(root, "trash");
}

/** Run ids, oldest run first. Other entries are never followed. */
export function trashedRuns(state: StateDir): readonly string[] {
  const root = trashRoot(state);
  if (lstat(root)?.isDirectory() !== true) return [];
  return entriesOf(root)
    .filter((entry) => entry.isDirectory() && isRunId(entry.name))
    .map(({ name }) => name)
    .filter((name) => {
      const stats = lstat(join(root, name));
      return stats !== null && isOurs(stats);
    })
    .toSorted();
}

/** Written into the run directory before it moves. */
export function saveNote(runDirectory: string, note: object): void {
  writeAtomic(join(runDirectory, "trash.json"), `${JSON.stringify(note, null, 2)}\n`);
}

export function dropNote(runDirectory: string): void {
  rmSync(join(runDirectory, "trash.json"), { force: true });
}

/** True: nothing is at the path any more. False: something is in it, and it stays. */
export function removeEmptyDirectory(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return true;
    if (isErrno(error, "ENOTEMPTY", "EEXIST", "ENOTDIR", "EBUSY")) return false;
    throw storageFault(error, "remove", path);
  }
}

/** One rename, so that the directory is always whole at one of both places. Returns the new place. */
export function moveRunDir(state: StateDir, runId: string, way: "to the trash" | "back"): string {
  const trash = trashRoot(state);
  makeDirectory(trash);
  const places = [join(state.runsRoot, runId), join(trash, runId)] as const;
  const [from, to] = way === "back" ? ([places[1], places[0]] as const) : places;
  if (lstat(to) !== null) throw inTheWay(runId.slice(-8), to);
  try {
    renameSync(from, to);
    syncDirectory(state.runsRoot);
    syncDirectory(trash);
    return to;
  } catch (error) {
    if (!isErrno(error, "EXDEV")) throw storageFault(error, "move", from);
    throw new Fault(
      "storage_failed",
      `Run ${runId.slice(-8)} was not moved: ${from} and ${trash} are on different file systems. Put both on one, or remove the run for good: reprise rm ${runId.slice(-8)} --discard-work`,
      { facts: { path: from, errno: error.code }, cause: error },
    );
  }
}

export function inTheWay(handle: string, path: string): Fault {
  return new Fault("denied", `Run ${handle} was not moved: ${path} is in the way. Move it away first.`, {
    facts: { handle, path },
  });
}

export interface TrashSize {
  readonly runs: number;
  readonly bytes: number;
  /** There are more files than were counted. */
  readonly partial: boolean;
}

const MOST_COUNTED = 200_000;

export function trashSize(state: StateDir): TrashSize {
  const ids = trashedRuns(state);
  const open = ids.map((id) => join(trashRoot(state), id));
  let [bytes, counted] = [0, 0];
  for (let at = open.pop(); at !== undefined && counted < MOST_COUNTED; at = open.pop()) {
    for (const entry of readable(at)) {
      counted += 1;
      const path = join(at, entry.name);
      if (entry.isDirectory()) open.push(path);
      else bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
    }
  }
  return { runs: ids.length, bytes, partial: open.length > 0 };
}

/** An unreadable directory counts nothing. */
function readable(directory: string) {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    if (isErrno(error)) return [];
    throw error;
  }
}
