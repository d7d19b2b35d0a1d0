/**
 * What changed in a run's folder since an attempt began, by git. Writes nothing into the repository: a temporary index
 * and object directory outside it hold what git needs to see untracked files.
 */
import { copyFileSync, rmSync, statSync, utimesSync } from "node:fs";
import { join, resolve } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { makeDirectory, temporaryPath } from "../state/files.ts";
import { isDirectory, spelled } from "../state/places.ts";
import type { Deps } from "./deps.ts";
import { type Git, type GitOptions, MOST_LISTED, openGit } from "./git.ts";

export interface ChangedFile {
  /** Relative to the top of the checkout. Untrusted text. */
  readonly path: string;
  readonly state: "added" | "deleted" | "changed";
  /** Null: a binary or a large file. */
  readonly added: number | null;
  readonly deleted: number | null;
}

export interface Changes {
  readonly attempt: number;
  readonly top: string;
  /** The commit that was checked out at the start. Null: there was none. */
  readonly commit: string | null;
  /** True: the folder was a new worktree, so every change is the run's. Else earlier uncommitted changes are included. */
  readonly exact: boolean;
  readonly files: readonly ChangedFile[];
  /** Empty unless asked for. Untrusted text. */
  readonly patch: string;
}

/** Larger files are named, and their content is not compared line by line. */
const LARGE = "core.bigFileThreshold=8m";

export async function changesOf(
  deps: Deps,
  run: RunRecord,
  wanted: { readonly attempt?: number; readonly patch: boolean },
): Promise<Changes> {
  const attempt = await attemptFor(deps, run, wanted.attempt);
  const from = attempt.startedFrom;
  if (from === undefined) throw notComparable(run, "was in no git repository that Reprise could read");
  if (!isDirectory(from.top)) throw notComparable(run, "is gone");
  const git = await openGit(deps, from.top);
  const place = temporaryPath(deps.state.root);
  makeDirectory(place);
  try {
    const options = await prepare(git, from.top, place);
    const base = from.commit ?? (await emptyTree(git, options));
    const diff = (...how: string[]) => compare(git, [...how, base], options, run);
    const files = filesIn(await diff("--name-status", "-z"), await diff("--numstat", "-z"));
    const patch = wanted.patch ? Buffer.from(await diff("--patch"), "latin1").toString() : "";
    const exact = run.launch.isolate === "worktree" && attempt.n === 1;
    return { attempt: attempt.n, top: from.top, commit: from.commit, exact, files, patch };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

async function attemptFor(deps: Deps, run: RunRecord, n: number | undefined): Promise<AttemptRecord> {
  const attempts = await deps.store.listAttempts(run.runId);
  const found = attempts.find((one) => (n === undefined ? true : one.n === n));
  if (found !== undefined) return found;
  const facts = { handle: run.handle, ...(n === undefined ? {} : { attempt: n }) };
  throw new Fault("attempt_unknown", `Run ${run.handle} has no attempt${n === undefined ? "" : ` ${n}`}.`, {
    facts,
  });
}

function notComparable({ handle, cwd }: RunRecord, why: string): Fault {
  return new Fault(
    "cwd_invalid",
    `There is nothing to compare run ${handle} with: ${cwd} ${why} when the attempt began. \`reprise diff\` needs git.`,
    { facts: { handle, cwd } },
  );
}

/** A copy of the index in which untracked files count as added, and a place for the objects that git writes for that. */
async function prepare(git: Git, top: string, place: string): Promise<GitOptions> {
  const asked = await git(["rev-parse", "--git-path", "index", "--git-path", "objects"]);
  const [index = "", objects = ""] = asked.stdout.split("\n").map((path) => resolve(top, path));
  const copy = join(place, "index");
  try {
    copyFileSync(index, copy);
    // Git trusts a file's time only if the file is older than the index. A newer copy would hide a change of the same size
    // that was made in the second in which the index was written.
    const seconds = Math.floor(statSync(index).mtimeMs / 1_000);
    utimesSync(copy, seconds, seconds);
  } catch (error) {
    // A repository without commits may have no index.
    if (!isErrno(error, "ENOENT")) throw error;
  }
  makeDirectory(join(place, "objects"));
  const env = {
    GIT_INDEX_FILE: copy,
    GIT_OBJECT_DIRECTORY: join(place, "objects"),
    GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(objects),
  };
  const options: GitOptions = { env, encoding: "latin1", maxBytes: MOST_LISTED };
  // An unreadable file must not hide the others.
  await git(["add", "--intent-to-add", "--ignore-errors", "--", ":/"], options);
  return options;
}

/** A colon separates paths in this variable, unless the path is quoted as in C. */
function quotedPath(path: string): string {
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll("\n", String.raw`\n`)}"`;
}

async function emptyTree(git: Git, options: GitOptions): Promise<string> {
  return (await git(["hash-object", "-t", "tree", "-w", "--stdin"], options)).stdout.trim();
}

async function compare(
  git: Git,
  args: readonly string[],
  options: GitOptions,
  { handle }: RunRecord,
): Promise<string> {
  const fixed = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=dirty"];
  const asked = await git(["-c", LARGE, "diff", ...fixed, ...args, "--"], options);
  if (asked.code === 0) return asked.stdout;
  const why = Buffer.from(asked.stderr, "latin1").toString().slice(0, 400).trim();
  throw new Fault("cwd_invalid", `git could not compare the folder of run ${handle}: ${why}`, {
    facts: { handle },
  });
}

const STATES: Readonly<Record<string, ChangedFile["state"]>> = { A: "added", D: "deleted" };

/** Both lists name every file once; bytes are characters. */
function filesIn(named: string, counted: string): readonly ChangedFile[] {
  const counts = new Map<string, readonly [number | null, number | null]>();
  for (const entry of counted.split("\0").filter(Boolean)) {
    const [added = "-", deleted = "-", ...path] = entry.split("\t");
    const count = (text: string) => (text === "-" ? null : Number(text));
    counts.set(path.join("\t"), [count(added), count(deleted)]);
  }
  const fields = named.split("\0");
  const files: ChangedFile[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [letter = "", path = ""] = fields.slice(at, at + 2);
    const [added, deleted] = counts.get(path) ?? [null, null];
    const state = STATES[letter] ?? "changed";
    files.push({ path: spelled(Buffer.from(path, "latin1")), state, added, deleted });
  }
  return files;
}
