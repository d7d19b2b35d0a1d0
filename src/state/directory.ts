/** The state directory: its place, its ownership and permissions, and the reserve for a full disk. */
import { createHash, randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  unlinkSync,
} from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { isErrno } from "../core/errno.ts";
import type { Env, Log } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import { isOurs, lstat, makeDirectory, notOurs, storageFault, syncDirectory, writeAtomic } from "./files.ts";
import { notedGeneration } from "./generation.ts";

export interface StateDir {
  readonly root: string;
  readonly runsRoot: string;
  /** The index belongs to the store: it must not be opened from here while the store has it open. */
  readonly indexPath: string;
  /** The index's generation when the directory was opened (`generation.ts`). 0: never counted. */
  readonly generation: number;
  /** The names of the run directories at that moment. */
  readonly runIds: readonly string[];
  /** False: a read-only or full file system. Reading works. */
  readonly writable: boolean;
  /** The fault of every write, if nothing can be written. */
  readonly refusal: Fault | null;
  /** Frees the reserve so that the end of an attempt can be recorded on a full disk. True: there was a reserve. */
  releaseReserve(): boolean;
}

const RESERVE_BYTES = 1024 * 1024;
const NOTICE_FILE = "README.txt";

/** `$REPRISE_HOME`, else `$XDG_STATE_HOME/reprise`, else `~/.local/state/reprise`. */
export function stateDirectory(env: Env): string {
  const own = env["REPRISE_HOME"];
  if (own !== undefined && own !== "") return absolute("REPRISE_HOME", own);
  const xdg = env["XDG_STATE_HOME"];
  // The XDG specification says to ignore relative paths.
  if (xdg !== undefined && isAbsolute(xdg)) return join(absolute("XDG_STATE_HOME", xdg), "reprise");
  return join(absolute("HOME", env["HOME"] ?? ""), ".local", "state", "reprise");
}

function absolute(variable: string, path: string): string {
  if (isAbsolute(path) && !path.includes("\0")) return resolve("/", path);
  const what = path === "" ? "is not set" : "is not an absolute path";
  throw new Fault(
    "storage_failed",
    `Reprise has no place for its state directory: ${variable} ${what}. Set REPRISE_HOME to an absolute path.`,
    { facts: { variable } },
  );
}

/** Creates missing parts, and refuses a directory that another user could have prepared (S1). */
export async function openState(root: string, log?: Log): Promise<StateDir> {
  const runsRoot = join(root, "runs");
  const names = refuseForeign(root);
  const writable = prepare(root, ROOT_ADVICE, log) && prepare(runsRoot, RUNS_ADVICE, log);
  const inRuns = namesIn(runsRoot);
  const reserve = join(root, "reserve");
  if (writable && !existsSync(reserve)) furnish(root, reserve);
  return {
    root,
    runsRoot,
    indexPath: join(root, "index.db"),
    generation: notedGeneration([...names, ...inRuns]),
    runIds: inRuns.filter(isRunId),
    writable,
    refusal: writable ? null : unwritable(root),
    releaseReserve() {
      try {
        // Reprise makes both again when there is room. Writing an index needs two inodes.
        rmSync(join(root, NOTICE_FILE), { force: true });
        unlinkSync(reserve);
        return true;
      } catch {
        return false;
      }
    },
  };
}

function unwritable(root: string): Fault {
  return new Fault("storage_failed", `The state directory ${root} cannot be written to.`, {
    facts: { path: root },
  });
}

/** Settings that engines get as files. The same name is the same file, replaced atomically. */
export function saveSettings(state: StateDir, name: string, content: string): string {
  const directory = join(state.root, "settings");
  makeDirectory(directory);
  const path = join(directory, name.replaceAll(/[^\w.-]/g, "_").replace(/^\./, "_"));
  writeAtomic(path, content);
  return path;
}

/** The scheduled resume of a run. It stays outside the run directory, so that one look finds all of them. */
export function scheduledFile({ root }: Pick<StateDir, "root">, runId: string): string {
  return join(root, "scheduled", `${runId}.json`);
}

/**
 * Held while a process reads, changes and replaces a file that many commands write (`trusted.json`, `versions.json`).
 */
export function sharedLock(state: StateDir): string {
  return join(state.root, "shared.lock");
}

/**
 * Agents that must not start at the same time in one place share this lock. Two places share it with a chance of 1 in 16.
 */
export function startLock(state: StateDir, place: string): string {
  const bucket = createHash("sha256").update(place).digest("hex").slice(0, 1);
  return join(state.root, `starting-${bucket}.lock`);
}

const OUR_FILES = new Set(["index.db", "reserve", "versions.json", "trusted.json"]);

/**
 * The directory's content. Refuses a directory with foreign content, such as a home or /tmp, instead of closing or
 * filling it.
 */
function refuseForeign(root: string): readonly string[] {
  const stats = lstat(root);
  // `prepare` refuses anything but our directory, with its own message.
  if (stats?.isDirectory() !== true || !isOurs(stats)) return [];
  // A new file system contains an empty directory with this name.
  const names = namesIn(root).filter((name) => name !== "lost+found");
  if (names.length === 0 || names.some((name) => OUR_FILES.has(name))) return names;
  const runs = names.includes("runs") ? namesIn(join(root, "runs")) : null;
  if (runs !== null && (runs.length === 0 || runs.some(isRunId))) return names;
  throw notOurs(
    root,
    "there are files in it, and none of them is Reprise's",
    "It was left as it is. Set REPRISE_HOME to a directory that is empty or does not exist yet.",
  );
}

export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    // `prepare` refuses a link or a file in place of `runs`.
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "read", directory);
  }
}

const ROOT_ADVICE = {
  itself: "Set REPRISE_HOME to the directory itself.",
  own: "Set REPRISE_HOME to a directory that you own.",
};
const RUNS_ADVICE = {
  itself: "Put the directory itself there.",
  own: "Move it away, or change its owner.",
};

/** False: the directory is not writable, and may not even exist, since the file system is read-only. */
function prepare(path: string, advice: typeof ROOT_ADVICE, log?: Log): boolean {
  try {
    makeAll(path);
  } catch (error) {
    if (isErrno(error, "EROFS")) return false;
    throw storageFault(error, "create", path);
  }
  const stats = lstat(path);
  if (stats?.isDirectory() !== true) {
    const why = stats?.isSymbolicLink() === true ? "it is a symbolic link" : "it is not a directory";
    throw notOurs(path, why, advice.itself);
  }
  if (!isOurs(stats)) {
    throw notOurs(path, "it belongs to another user", advice.own);
  }
  try {
    if ((stats.mode & 0o077) !== 0) {
      chmodSync(path, 0o700);
      log?.warn(`${path} was open to other users (mode ${(stats.mode & 0o777).toString(8)}); it is 700 now.`);
    }
    assertReadable(path, stats.mode);
    accessSync(path, constants.W_OK);
    return true;
  } catch (error) {
    if (isErrno(error, "EROFS", "EACCES")) return false;
    throw storageFault(error, "write", path);
  }
}

/** An existing directory must be readable. */
export function assertReadableDirectory(path: string): void {
  const stats = lstat(path);
  if (stats !== null) assertReadable(path, stats.mode);
}

function assertReadable(path: string, mode: number): void {
  try {
    accessSync(path, constants.R_OK | constants.X_OK);
  } catch (error) {
    if (!isErrno(error, "EACCES")) throw error;
    const why = `its mode is ${(mode & 0o777).toString(8).padStart(3, "0")}`;
    throw new Fault("storage_failed", `${path} cannot be read: ${why}. Run: chmod 700 '${path}'`, {
      facts: { path, why },
      cause: error,
    });
  }
}

/** Node's recursive form never returns if the system answers ENOENT for an existing place, as in /proc. */
function makeAll(path: string): void {
  if (existsSync(path)) return;
  if (dirname(path) !== path) makeAll(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process was faster.
    if (!isErrno(error, "EEXIST")) throw error;
  }
  syncParent(path);
}

/**
 * A power cut must not remove the state directory with all its content. A parent that cannot be opened is not ours to
 * sync.
 */
function syncParent(path: string): void {
  try {
    syncDirectory(dirname(path));
  } catch (error) {
    if (!isErrno(error, "EACCES", "EPERM", "EINVAL", "EROFS")) throw error;
  }
}

/** For people who look into the directory or copy it. */
const NOTICE = `This is the state directory of Reprise, for you alone.

RAW, EXACT, MAY HOLD SECRETS: runs/*/attempts/*/pty-output.log, stdout.log and stderr.log (what agents printed),
runs/*/escrow (copies of engines' conversations), runs/*/attempts/*/start (your uncommitted files before an agent started), the same in trash/* (removed runs, kept for 30 days), reviews/*.jsonl (messages to and from Codex), reviews/cache and
issues/cache (what GitHub answered), demo/sessions (conversations of the demo agent).

To share a run, use \`reprise export\` or \`reprise logs --redacted\`.
`;

/** Ignores a disk that is too full: the next write reports it. */
function furnish(root: string, reserve: string): void {
  const notice = join(root, NOTICE_FILE);
  try {
    if (!existsSync(notice)) writeAtomic(notice, NOTICE);
    // Real blocks: no hole, and nothing that compresses.
    writeAtomic(reserve, randomBytes(RESERVE_BYTES));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
}
