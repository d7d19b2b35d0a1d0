/**
 * Which files of a checkout differ from a copy of its index. A flag in the index can make git overlook a file, so the flags of the
 * copy are cleared first. Paths have one character per byte.
 */
import { type BigIntStats, lstatSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { isErrno } from "../../core/errno.ts";
import { Fault } from "../../core/faults.ts";
import { MOST_LISTED } from "../git.ts";
import { gitFilesAt } from "./head.ts";
import type { Git, GitOptions } from "./place.ts";

/** Where git is asked, and for how long. */
export interface Asking {
  /** The top of the checkout. */
  readonly top: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export interface Listing {
  /** Files that differ from the index, and untracked ones. An untracked repository ends with a slash. */
  readonly changed: ReadonlySet<string>;
  readonly tracked: readonly string[];
  /** Repositories in the checkout, as submodules or untracked. Git does not look at the files in them. */
  readonly repositories: readonly string[];
}

/** A split index would be written into the repository. Without syncs, a power cut may cost the tree, and `diff` says so. */
const CALM = ["-c", "core.splitIndex=false", "-c", "core.fsync=none"];
const LIST = "ls-files --stage -v -z --cached --deleted --modified --others --exclude-standard".split(" ");

/** Clears flags in the index that `env` names. */
export async function listFiles(git: Git, asking: Asking, env: GitOptions["env"] = {}): Promise<Listing> {
  const list = async () => parse(asking.top, await ask(git, asking, LIST, { env }));
  const first = await list();
  const clear = async (flag: string, paths: readonly string[]) => {
    const stdin = Buffer.from(paths.map((path) => `${path}\0`).join(""), "latin1");
    if (paths.length > 0) await ask(git, asking, ["update-index", flag, "-z", "--stdin"], { env, stdin });
    return paths.length;
  };
  const cleared = await clear("--no-assume-unchanged", first.assumed);
  const skipped = first.skipped.length === 0 ? [] : await wronglySkipped(git, asking, first.skipped);
  return cleared + (await clear("--no-skip-worktree", skipped)) === 0 ? first : list();
}

/** A sparse checkout leaves files out on purpose. Anywhere else, and for a file that exists, the flag hides a change. */
async function wronglySkipped(
  git: Git,
  asking: Asking,
  paths: readonly string[],
): Promise<readonly string[]> {
  const { timeoutMs, signal, top } = asking;
  const question = ["config", "--type=bool", "--get", "core.sparseCheckout"];
  const sparse = await git(question, { timeoutMs, ...(signal === undefined ? {} : { signal }) });
  if (sparse.stdout.trim() !== "true") return paths;
  const folders = new Map<string, boolean>([[".", true]]);
  const isThere = (path: string): boolean => look(top, path) !== null;
  const hasFolder = (folder: string): boolean => {
    const known = folders.get(folder) ?? (hasFolder(dirname(folder)) && isThere(folder));
    folders.set(folder, known);
    return known;
  };
  return paths.filter((path) => hasFolder(dirname(path)) && isThere(path));
}

interface Parsed extends Listing {
  readonly assumed: readonly string[];
  readonly skipped: readonly string[];
}

/** `H 100644 <id> 0<tab><path>` for each tracked file, again with `C` or `R` if it differs, and `? <path>` for the others. */
function parse(top: string, text: string): Parsed {
  const changed = new Set<string>();
  const assumed: string[] = [];
  const skipped: string[] = [];
  const repositories: string[] = [];
  const tracked = new Set<string>();
  for (const entry of text.split("\0")) {
    const tag = entry.charAt(0);
    if (tag === "?") {
      const path = entry.slice(2);
      changed.add(path);
      if (path.endsWith("/")) repositories.push(path.slice(0, -1));
      continue;
    }
    const path = entry.slice(entry.indexOf("\t") + 1);
    if (path === "") continue;
    const isNew = !tracked.has(path);
    tracked.add(path);
    if (isNew && entry.startsWith("160000", 2) && hasEntries(top, path)) repositories.push(path);
    // A small letter: git assumes that the file is unchanged.
    if (/[a-z]/.test(tag)) assumed.push(path);
    if (/s/i.test(tag)) skipped.push(path);
    else if (!/h/i.test(tag)) changed.add(path);
  }
  return { changed, tracked: [...tracked], repositories, assumed, skipped };
}

/** A submodule that is not checked out is an empty folder. */
function hasEntries(top: string, path: string): boolean {
  try {
    return readdirSync(bytesOf(top, path)).length > 0;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return false;
    if (isErrno(error)) return true;
    throw error;
  }
}

/** Git would wait for a named pipe among the files that it reads in any checkout, and so would a copy of the index. */
export function assertPlainFiles(top: string): void {
  const files = gitFilesAt(top);
  const own = files === null ? [] : [dirname(files.index), dirname(files.objects)];
  const names = ["HEAD", "config", "index", "packed-refs", "info/exclude", "info/attributes"];
  const paths = own.flatMap((directory) => names.map((name) => join(directory, name)));
  for (const path of new Set([...paths, join(top, ".gitignore"), join(top, ".gitattributes")]))
    if (isNoFile(path)) throw unread(top, `${path} is not a file`);
}

function isNoFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === false;
  } catch (error) {
    if (isErrno(error)) return false;
    throw error;
  }
}

/** Undefined: the system does not tell. Null: nothing is there. */
export function look(top: string, path: string): BigIntStats | null | undefined {
  try {
    return lstatSync(bytesOf(top, path.replace(/\/$/, "")), { bigint: true });
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error)) return undefined;
    throw error;
  }
}

export function bytesOf(top: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(`${top}/`), Buffer.from(path, "latin1")]);
}

export async function ask(
  git: Git,
  { top, timeoutMs, signal }: Asking,
  args: readonly string[],
  options: GitOptions,
): Promise<string> {
  const asked = await git([...CALM, ...args], {
    ...options,
    encoding: "latin1",
    maxBytes: MOST_LISTED,
    filters: "off",
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  if (asked.code === 0) return asked.stdout;
  if (asked.timedOut) throw unread(top, `git needed more than ${timeoutMs / 1_000} s`);
  throw unread(top, Buffer.from(asked.stderr, "latin1").toString().slice(0, 400).trim() || "git was ended");
}

export function unread(top: string, why: string): Fault {
  return new Fault("cwd_invalid", `Reprise could not read the files of ${top}: ${why}.`, {
    facts: { top, why },
  });
}
