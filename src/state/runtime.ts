/** The directory of sockets, tokens and locks: files with a meaning only while their owner lives. */
import { createHash } from "node:crypto";
import { chmodSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import {
  isOurs,
  lstat,
  makeDirectory,
  readOwnText,
  removeQuietly,
  storageFault,
  writeAtomic,
} from "./files.ts";
import type { StateDir } from "./directory.ts";

/** The system silently truncates longer socket paths, at 104 or 108 bytes. */
const MAX_SOCKET_PATH = 100;
const LONGEST_NAME = "h-00000000.sock";

/**
 * `run` in the state directory; if that path is too long for a socket, a separate directory in `$XDG_RUNTIME_DIR`. Made
 * if missing; refused unless it is ours alone. A place outside is noted in `run`, so that processes with another
 * `$XDG_RUNTIME_DIR` find it.
 */
export function runtimeDir(state: StateDir, env: Env): string {
  const own = join(state.root, "run");
  if (fits(own)) return prepared(own);
  const hash = createHash("sha256").update(state.root).digest("hex").slice(0, 8);
  const note = join(own, `place-${hash}`);
  const noted = readOwnText(note, MAX_PLACE)?.trim() ?? "";
  if (isPlace(dirname(noted), hash) && basename(noted) === nameFor(hash) && lstat(noted) !== null)
    return prepared(noted);
  const base = env["XDG_RUNTIME_DIR"] ?? "";
  if (isPlace(base, hash)) {
    const place = prepared(join(base, nameFor(hash)));
    if (state.writable) writeAtomic(join(prepared(own), basename(note)), `${place}\n`);
    return place;
  }
  const length = Buffer.byteLength(join(own, LONGEST_NAME));
  throw new Fault(
    "usage",
    `The path of a socket in ${own} would have ${length} bytes; the maximum is ${MAX_SOCKET_PATH}. ` +
      "Set REPRISE_HOME to a shorter path.",
    { facts: { path: own, bytes: length } },
  );
}

/** Held by the state directory's daemon. Not beside the socket, whose place may depend on the environment. */
export function daemonLock(state: StateDir): string {
  return join(prepared(join(state.root, "run")), "d.lock");
}

const MAX_PLACE = 4_096;
const nameFor = (hash: string) => `reprise-${hash}`;

function isPlace(base: string, hash: string): boolean {
  return isAbsolute(base) && isUsable(base) && fits(join(base, nameFor(hash)));
}

/** Socket and record of a run's holder. The caller holds the run, so no holder is alive. */
export function removeHolderFiles(runtime: string, handle: string): void {
  for (const ending of ["json", "sock"]) {
    const path = join(runtime, `h-${handle}.${ending}`);
    if (lstat(path) !== null) removeQuietly(path);
  }
}

function fits(directory: string): boolean {
  return Buffer.byteLength(join(directory, LONGEST_NAME)) <= MAX_SOCKET_PATH;
}

function isUsable(base: string): boolean {
  const stats = lstat(base);
  return stats?.isDirectory() === true && isOurs(stats) && (stats.mode & 0o022) === 0;
}

function prepared(directory: string): string {
  if (makeDirectory(directory)) return directory;
  try {
    if (((lstat(directory)?.mode ?? 0) & 0o077) !== 0) chmodSync(directory, 0o700);
  } catch (error) {
    throw storageFault(error, "protect", directory);
  }
  return directory;
}
