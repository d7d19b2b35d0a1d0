/**
 * Detects copied state directories. `identity.json` names the directory and its places; a copy still names the
 * original's places, and the original may be working on the same sessions.
 */
import { randomUUID } from "node:crypto";
import { existsSync, lstatSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Fault } from "../core/faults.ts";
import { HANDLE, isRunId } from "../core/ids.ts";
import type { Life } from "../core/records.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { shellWord } from "../lib/shell.ts";
import { lstat, readRecordOrNull, writeAtomic } from "./files.ts";
import { generationMark } from "./generation.ts";
import { isDirectory } from "./places.ts";
import type { StateDir } from "./directory.ts";

export interface StatePlace {
  /** Symlinks resolved. */
  readonly path: string;
  /** Text, since inode numbers may exceed a number's precision. */
  readonly dev: string;
  readonly ino: string;
  /** The name of the machine. */
  readonly machine: string;
}

export interface StateIdentity {
  readonly v: 1;
  readonly id: string;
  /** The directory's places, including other mounts. */
  readonly places: readonly StatePlace[];
}

/** copy: a different directory than the named one, or unknown. */
export type StateOrigin = "same" | "copy";

/**
 * Pure. Device and inode identify the directory, whatever its path (a bind mount, `mv`). Device numbers change at a
 * reboot, so path and inode on the same machine also count. A directory with another inode never counts as moved: a
 * missing original may have been renamed, and nothing shows it.
 */
export function originOf({ places }: StateIdentity, here: StatePlace): StateOrigin {
  return places.some((place) => isSame(place, here)) ? "same" : "copy";
}

function isSame({ path, dev, ino, machine }: StatePlace, here: StatePlace): boolean {
  return ino === here.ino && (dev === here.dev || (path === here.path && machine === here.machine));
}

export interface Origin {
  readonly is: StateOrigin;
  /** The original's last place. */
  readonly original: StatePlace;
  /** Whether the original still exists there. Not checked on another machine. */
  readonly isThere: boolean;
}

/** Null: the directory has no identity yet. */
export function stateOrigin(state: StateDir, machine: string): Origin | null {
  const identity = readIdentity(state.root);
  const original = identity?.places.at(-1);
  if (identity === null || original === undefined) return null;
  const here = placeOf(state.root, machine);
  const { path, machine: on } = original;
  const is = originOf(identity, here);
  const isThere = is === "copy" && on === machine && path !== here.path;
  return { is, original, isThere: isThere && readIdentity(path)?.id === identity.id };
}

/**
 * Gives a directory without an identity a new one. Records the new place of a renamed or remounted directory: after the
 * next reboot only the path distinguishes it from a copy.
 */
export function ensureIdentity(state: StateDir, machine: string): void {
  const identity = readIdentity(state.root);
  if (identity === null) {
    if (!existsSync(fileIn(state.root))) settleState(state, machine);
    return;
  }
  const here = placeOf(state.root, machine);
  if (originOf(identity, here) === "copy" || identity.places.some((place) => isDeepStrictEqual(place, here)))
    return;
  const places = identity.places.filter((place) => place.path !== here.path && leadsTo(place, here));
  try {
    write(state.root, { ...identity, places: [...places, here].slice(-MOST_PLACES) });
  } catch (error) {
    // Commands that free space on a full disk must also work in a renamed directory: a later command records the place.
    if (!(error instanceof Fault)) throw error;
  }
}

/** Whether a recorded place still leads to this directory. Not checked on another machine. */
function leadsTo({ path, machine }: StatePlace, here: StatePlace): boolean {
  if (machine !== here.machine) return true;
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return String(stats?.ino) === here.ino && String(stats?.dev) === here.dev;
}

/**
 * Makes the present place the directory's own, under a new name. `beside`: the earlier place stays valid, since one
 * directory may look like two through the mounts of a virtual machine.
 */
export function settleState(state: StateDir, machine: string, beside = false): void {
  const here = placeOf(state.root, machine);
  const before = beside ? (readIdentity(state.root)?.places ?? []) : [];
  const places = [...before.filter(({ path }) => path !== here.path), here].slice(-MOST_PLACES);
  write(state.root, { v: 1, id: randomUUID(), places });
}

function write(root: string, identity: StateIdentity): void {
  writeAtomic(fileIn(root), `${JSON.stringify(identity, null, 2)}\n`);
}

const MOST_PLACES = 8;

const fileIn = (root: string) => join(root, "identity.json");

function placeOf(root: string, machine: string): StatePlace {
  const { dev, ino } = statSync(root, { bigint: true });
  return { path: realpathSync(root), dev: String(dev), ino: String(ino), machine };
}

/** Null: missing or unusable. */
function readIdentity(root: string): StateIdentity | null {
  const record = readRecordOrNull(fileIn(root));
  return record !== null && isIdentity(record) ? record : null;
}

function isIdentity(record: JsonObject): record is JsonObject & StateIdentity {
  const { id, places } = record;
  return typeof id === "string" && Array.isArray(places) && places.length > 0 && places.every(isPlace);
}

function isPlace(value: unknown): boolean {
  return isObject(value) && ["path", "dev", "ino", "machine"].every((key) => typeof value[key] === "string");
}

interface Placed {
  readonly state: StateDir;
  readonly machine: string;
}

/**
 * The runs of a copied state directory also belong to the original, whose agents may be working on the same sessions.
 * Reprise resumes, stops and removes them only after the user accepts the copy. A renamed directory just continues.
 */
export function assertOwnState({ state, machine }: Placed): void {
  const origin = stateOrigin(state, machine);
  if (origin?.is !== "copy") {
    if (state.writable) ensureIdentity(state, machine);
    return;
  }
  const { path, machine: on } = origin.original;
  throw new Fault(
    "state_copied",
    `The state directory ${state.root} ${copiedFrom(origin, state.root, machine)}, so Reprise does not touch its runs here; ` +
      "you can start new runs. To use these runs here and no longer there: reprise doctor --accept-copy",
    { facts: { path: state.root, original: path, machine: on } },
  );
}

/** The store's needs about the directory around the index. */
export function indexGuards(placed: Placed) {
  return {
    mark: generationMark(placed.state.root),
    onLinked: (file: string) => assertUnlinkedIndex(placed, file),
  };
}

/**
 * A hard-linked copy (`cp -al`) shares the index file with its original, but no lock: each has journals under its own
 * name. So Reprise does not open it. Names in the same directory are left by an interrupted rebuild.
 */
export function assertUnlinkedIndex({ state, machine }: Placed, file: string): void {
  const { ino, nlink } = statSync(file, { bigint: true });
  const own = readdirSync(state.root).filter((name) => name.startsWith(basename(state.indexPath)));
  const isIt = (name: string) =>
    lstatSync(join(state.root, name), { bigint: true, throwIfNoEntry: false })?.ino === ino;
  if (own.filter(isIt).length >= Number(nlink) || stateOrigin(state, machine)?.is === "same") return;
  const files = ["", "-wal", "-shm"].map((suffix) => shellWord(`${state.indexPath}${suffix}`));
  throw new Fault(
    "state_copied",
    `${file} is a hard link to the file of another state directory, as \`cp -al\` makes it. ` +
      "Both directories would write into it, so Reprise did not open it. Copy with `cp -a`, or remove the index of this " +
      `copy; Reprise rebuilds it from the run directories: rm -f ${files.join(" ")}`,
    { facts: { path: file } },
  );
}

/** The directory of an owner whose life is not in this accepted copy. Null: the owner belongs to this directory. */
export function homeOfOwner({ root }: StateDir, life: Life | undefined): string | null {
  const before = readIdentity(root)?.places.at(-2);
  if (before === undefined || life === undefined) return null;
  const found = lstat(join(root, "lives", basename(life.file)));
  return found?.ino === life.inode ? null : before.path;
}

/** Facts about a copy: "is a copy. The original, …, may be at work on the same sessions". */
export function copiedFrom({ original, isThere }: Origin, root: string, machine: string): string {
  const { path, machine: on } = original;
  if (isThere || on !== machine)
    return `is a copy. The original, ${path}${on === machine ? "" : ` on ${on}`}, may be at work on the same sessions`;
  const whence =
    path === root
      ? "is not the directory that was at this path before"
      : `was copied or moved here from ${path}`;
  return `${whence}. Nothing shows that the original is gone: it may have another name, and be at work on the same sessions`;
}

/** `doctor --accept-copy`. False: the directory is not a copy. */
export function acceptCopy({ state, machine }: Placed): boolean {
  if (stateOrigin(state, machine)?.is !== "copy") return false;
  if (state.refusal !== null) throw state.refusal;
  settleState(state, machine, true);
  return true;
}

/** The state directory had another path when a place inside it was recorded. */
export interface MovedState {
  readonly from: string;
  readonly to: string;
  /** Where the place is now. */
  readonly now: string;
  /** Renames the directory back. */
  readonly back: string;
}

/**
 * Whether a recorded place of a run or a pipeline is inside the state directory `root`, which had another path then. Null:
 * the place has not moved, or was never inside. A link at the old path does not help: an engine asks the system for its
 * directory and gets the path behind the link, where Claude Code 2.1.197 and Gemini CLI 0.61.0 do not find the
 * conversation. A state directory itself is never a link, so such a link is newer.
 */
export function movedState(root: string, path: string): MovedState | null {
  for (const { from, inside } of formerRoots(path)) {
    const now = join(root, inside);
    if (from === root || !isDirectory(now)) continue;
    const isLink = lstat(from)?.isSymbolicLink() === true;
    if (isLink || !isDirectory(path)) return { from, to: root, now, back: renameBack(from, root, isLink) };
  }
  return null;
}

/** Moves a link or a new directory at the old path out of the way. */
function renameBack(from: string, root: string, isLink: boolean): string {
  const [old, parent] = [shellWord(from), dirname(from)];
  const steps = [
    ...(isDirectory(parent) ? [] : [`mkdir -p ${shellWord(parent)}`]),
    ...(isLink ? [`rm ${old}`] : lstat(from) === null ? [] : [`mv ${old} ${shellWord(`${from}.aside`)}`]),
    `mv ${shellWord(root)} ${old}`,
  ];
  return steps.join(" && ");
}

/** No other state directory can have the paths that this one had: it never was a copy, so git's records of them are its own. */
export function isOriginal({ state, machine }: Placed): boolean {
  const here = placeOf(state.root, machine);
  return readIdentity(state.root)?.places.every(({ ino }) => ino === here.ino) === true;
}

/** Pure. Every directory that would be the state directory of such a place, and the place in it. */
export function formerRoots(path: string): readonly { readonly from: string; readonly inside: string }[] {
  const names = path.split(sep);
  return names.flatMap((name, at) => {
    const of = names[at + 1] ?? "";
    if (!(name === "runs" && isRunId(of)) && !(name === "workspaces" && HANDLE.test(of))) return [];
    return [{ from: names.slice(0, at).join(sep), inside: names.slice(at).join(sep) }];
  });
}

/** As the end of a sentence about the place. */
export function movedWords({ from, to }: Pick<MovedState, "from" | "to">): string {
  return `in the state directory, which was ${from} and is now ${to}`;
}

/** `what`: the run or the pipeline, as the subject of a sentence. `command`: continues it after the renaming. */
export function stateMoved(what: string, path: string, moved: MovedState, command: string): Fault {
  const { from, to, back } = moved;
  return new Fault(
    "state_moved",
    `${what} works ${movedWords(moved)}. A conversation continues only at the path where it took place, ${path}, and a link to it is not enough. ` +
      `Nothing was started. Rename the state directory back, then continue: ${back} && REPRISE_HOME=${shellWord(from)} ${command}`,
    { facts: { path: to, original: from, cwd: path, back } },
  );
}
