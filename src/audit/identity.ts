/**
 * Whether a state directory is where it was made. `identity.json` names the directory and its places; in a copy it still names
 * the original's, which may be at work on the same sessions.
 */
import { randomUUID } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { Log } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { Life } from "../core/records.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { lstat, readRecord, writeAtomic } from "./files.ts";
import type { StateDir } from "./state.ts";

export interface StatePlace {
  /** Symlinks resolved. */
  readonly path: string;
  /** Texts, since inode numbers may be larger than a number can tell. */
  readonly dev: string;
  readonly ino: string;
  /** The name of the machine. */
  readonly machine: string;
}

export interface StateIdentity {
  readonly v: 1;
  readonly id: string;
  /** Where the directory is, also by other mounts. */
  readonly places: readonly StatePlace[];
}

/** moved: the original is gone from its place. copy: it is there, or nobody can tell. */
export type StateOrigin = "same" | "moved" | "copy";

/**
 * Pure. Device and inode name the directory, whatever its path is (a bind mount, `mv`). Devices get other numbers when the
 * machine starts: path and inode on the same machine do, too. `isThere` looks for this identity at another place.
 */
export function originOf(
  { places }: StateIdentity,
  here: StatePlace,
  isThere: (place: StatePlace) => boolean,
): StateOrigin {
  const isHere = ({ path, dev, ino, machine }: StatePlace) =>
    ino === here.ino && (dev === here.dev || (path === here.path && machine === here.machine));
  if (places.some(isHere)) return "same";
  // At its own path with another inode it was restored, and the original may have been renamed.
  const isGone = (place: StatePlace) =>
    place.machine === here.machine && place.path !== here.path && !isThere(place);
  return places.every(isGone) ? "moved" : "copy";
}

export interface Origin {
  readonly is: StateOrigin;
  /** Where the original was last. */
  readonly original: StatePlace;
}

/** Null: the directory has no identity yet. */
export function stateOrigin(state: StateDir, machine: string): Origin | null {
  const identity = readIdentity(state.root);
  const original = identity?.places.at(-1);
  if (identity === null || original === undefined) return null;
  const isThere = ({ path }: StatePlace) => readIdentity(path)?.id === identity.id;
  return { is: originOf(identity, placeOf(state.root, machine), isThere), original };
}

/** A directory without an identity gets one. */
export function ensureIdentity(state: StateDir, machine: string): void {
  if (!existsSync(fileIn(state.root))) settleState(state, machine);
}

/**
 * From now on the directory belongs where it is, under a name of its own. `beside`: where it was before stays as good, since one
 * directory may look like two through the mounts of a virtual machine.
 */
export function settleState(state: StateDir, machine: string, beside = false): void {
  const here = placeOf(state.root, machine);
  const before = beside ? (readIdentity(state.root)?.places ?? []) : [];
  const places = [...before.filter(({ path }) => path !== here.path), here].slice(-MOST_PLACES);
  const identity: StateIdentity = { v: 1, id: randomUUID(), places };
  writeAtomic(fileIn(state.root), `${JSON.stringify(identity, null, 2)}\n`);
}

const MOST_PLACES = 8;

const fileIn = (root: string) => join(root, "identity.json");

function placeOf(root: string, machine: string): StatePlace {
  const { dev, ino } = statSync(root, { bigint: true });
  return { path: realpathSync(root), dev: String(dev), ino: String(ino), machine };
}

/** Null: there is none, or nothing can be made of it. */
function readIdentity(root: string): StateIdentity | null {
  try {
    const record = readRecord(fileIn(root));
    return record !== null && isIdentity(record) ? record : null;
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
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
  /** The name of this machine. */
  readonly machine: string;
}

/**
 * The runs of a copied state directory are the original's as well, whose agents may be at work on the same sessions. They are
 * resumed, stopped and removed only after the user says that the copy is to be used. A directory that was moved goes on.
 */
export function assertOwnState({ state, machine, log }: Placed & { readonly log: Log }): void {
  const origin = stateOrigin(state, machine);
  if (origin === null && state.writable) ensureIdentity(state, machine);
  if (origin?.is === "moved" && state.writable) {
    log.info(`the state directory was moved here from ${origin.original.path}`);
    settleState(state, machine);
  }
  if (origin?.is !== "copy") return;
  const { path, machine: on } = origin.original;
  const where = originalPlace(state, origin.original, machine);
  throw new Fault(
    "state_copied",
    `The state directory ${state.root} is a copy. The original, ${where}, may be at work on the same sessions, so its runs are left alone here; ` +
      "new runs can be started. To use them here from now on, and no longer there: reprise doctor --accept-copy",
    { facts: { path: state.root, original: path, machine: on } },
  );
}

/** Where the original was last, for people. */
export function originalPlace(
  { root }: StateDir,
  { path, machine: on }: StatePlace,
  machine: string,
): string {
  if (on !== machine) return `${path} on ${on}`;
  return path === realpathSync(root) ? "which was at this path before" : path;
}

/** The directory that an owner is of, whose life is not in this accepted copy of it. Null: the owner is this directory's. */
export function copiedFrom({ root }: StateDir, life: Life | undefined): string | null {
  const before = readIdentity(root)?.places.at(-2);
  if (before === undefined || life === undefined) return null;
  const found = lstat(join(root, "lives", basename(life.file)));
  return found?.ino === life.inode ? null : before.path;
}

/** `doctor --accept-copy`. False: the directory is no copy. */
export function acceptCopy({ state, machine }: Placed): boolean {
  if (stateOrigin(state, machine)?.is !== "copy") return false;
  if (state.refusal !== null) throw state.refusal;
  settleState(state, machine, true);
  return true;
}
