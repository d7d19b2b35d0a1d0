/**
 * A place of its own for an agent: a fresh directory or a git worktree inside the run directory; and whether
 * work in it would be lost if it were removed.
 */
import { dirname, join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDirectory, isEmptyDirectory, makeDirectory, resolveDirectory } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";

export interface Workplace {
  readonly cwd: string;
  /** Creates it; the directory that holds it must exist. */
  make(): Promise<void>;
}

export interface WorkplaceRequest {
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  readonly isolate: "dir" | "worktree" | null;
  /** A branch to be made for the worktree. Absent: it is on none. */
  readonly branch?: string;
  /** The commit it begins at. Absent: that of `cwd`. */
  readonly from?: string;
}

/** Checks everything that can be checked before anything is recorded. `home` is the directory that will hold it. */
export async function planWorkplace(deps: Deps, home: string, request: WorkplaceRequest): Promise<Workplace> {
  if (request.isolate === null) return { cwd: request.cwd, make: async () => {} };
  if (request.isolate === "dir") {
    const directory = join(home, "work");
    return { cwd: directory, make: async () => void makeDirectory(directory) };
  }
  const { top, commit } = await placeIn(deps, request);
  const worktree = join(home, "worktree");
  const inside = relative(top, request.cwd);
  if (inside !== "" && !(await isTree(deps, request.cwd, `${commit}:${inside}`))) {
    throw new Fault(
      "cwd_invalid",
      `A worktree would not have ${request.cwd}: nothing in it is committed. Commit it first, or use a directory of its own (dir).`,
      { facts: { cwd: request.cwd } },
    );
  }
  return {
    cwd: join(worktree, inside),
    make: () => addWorktree(deps, request, worktree, commit),
  };
}

/**
 * A link in its place would have the agent work somewhere else. Its mode is the user's, as what the agent makes is. A fork
 * works in its parent's place.
 */
export function assertOwnWorkplace(run: RunRecord): void {
  const runsRoot = dirname(run.runDirectory);
  const [owner = "", kind = ""] = relative(runsRoot, run.cwd).split(sep);
  if (!isRunId(owner) || !isDirectory(run.cwd)) return;
  const place = join(resolveDirectory(join(runsRoot, owner)), kind);
  if (resolveDirectory(place) === place) return;
  throw new Fault(
    "denied",
    `${place} is not safely ours: it is a symbolic link. Put the directory itself there.`,
    { facts: { path: place, handle: run.handle } },
  );
}

/** The top of the repository, and the commit that is meant: one question to git. */
async function placeIn(
  deps: Deps,
  { cwd, from = "HEAD" }: WorkplaceRequest,
): Promise<{ readonly top: string; readonly commit: string }> {
  // What begins with a dash would be an option to git.
  const asked = from.startsWith("-")
    ? null
    : await git(deps, cwd, ["rev-parse", "--show-toplevel", `${from}^{commit}`]);
  const [top = "", commit = ""] = asked?.stdout.split("\n") ?? [];
  if (asked?.code === 0) return { top: resolveDirectory(top), commit };
  throw new Fault("cwd_invalid", `A worktree needs a git repository with a commit, and ${cwd} is none.`, {
    facts: { cwd },
  });
}

async function isTree(deps: Deps, cwd: string, object: string): Promise<boolean> {
  return (await git(deps, cwd, ["cat-file", "-t", object])).stdout.trim() === "tree";
}

const MAX_ADDS = 6;
const ADD_PATIENCE_MS = 40;

/** Git gives up when it meets a worktree that another git is making at the same moment. */
async function addWorktree(
  deps: Deps,
  { cwd, branch }: WorkplaceRequest,
  worktree: string,
  commit: string,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    // A try that failed in this way has made the branch.
    const on = branch === undefined ? ["--detach"] : [tries === 1 ? "-b" : "-B", branch];
    const { code, stderr } = await git(deps, cwd, ["worktree", "add", ...on, worktree, commit]);
    if (code === 0) return;
    if (tries === MAX_ADDS || !/failed to read \S+\/commondir/.test(stderr)) {
      throw new Fault("cwd_invalid", `git could not make a worktree: ${stderr.slice(0, 400).trim()}`, {
        facts: { cwd },
      });
    }
    await sleep(ADD_PATIENCE_MS * tries);
  }
}

/** Why removing the run would destroy work; null when it would not. */
export async function workAtRisk(deps: Deps, run: RunRecord): Promise<string | null> {
  if (run.launch.isolate !== null) {
    const there = await deps.store.listRuns({ cwd: run.cwd, limit: Number.POSITIVE_INFINITY });
    const fork = there.find(({ runId }) => runId !== run.runId);
    if (fork !== undefined) return `run ${fork.handle} works in the same directory, ${run.cwd}`;
  }
  if (run.launch.isolate === "dir") {
    const directory = join(run.runDirectory, "work");
    return isEmptyDirectory(directory) ? null : `there are files in ${directory}`;
  }
  const worktree = join(run.runDirectory, "worktree");
  if (run.launch.isolate !== "worktree" || !isDirectory(worktree)) return null;
  const status = await git(deps, worktree, ["status", "--porcelain", "--untracked-files=normal"]);
  if (status.code !== 0) return `git cannot tell what is in ${worktree}`;
  if (status.stdout.trim() !== "") return `there is uncommitted work in ${worktree}`;
  const lost = await commitsAtRisk(deps, worktree);
  if (lost === null) return `git cannot tell what is in ${worktree}`;
  return lost.length === 0
    ? null
    : `commits made in ${worktree} are on no branch: ${lost.join(", ")} (\`git branch <name> <commit>\` keeps them)`;
}

/** What goes with a worktree: its own refs, and every place its HEAD has been at. */
const OWN_REFS = [
  "HEAD",
  "ORIG_HEAD",
  ...["bisect", "worktree", "rewritten"].map((name) => `--glob=refs/${name}/*`),
];
const ON_A_BRANCH = ["--not", "--branches", "--remotes", "--tags"];
/** Far less than an argument list holds. */
const POSITIONS_AT_ONCE = 1_000;

/** The newest few commits that nothing but the worktree leads to; null: git cannot tell. */
async function commitsAtRisk(deps: Deps, worktree: string): Promise<readonly string[] | null> {
  const walked = await git(deps, worktree, ["rev-list", "--walk-reflogs", "HEAD"]);
  if (walked.code !== 0) return null;
  const positions = [...new Set(walked.stdout.split("\n").filter(Boolean))];
  const list = ["rev-list", "--ignore-missing", "--abbrev-commit", "--max-count=3"];
  for (let from = 0; from === 0 || from < positions.length; from += POSITIONS_AT_ONCE) {
    const some = positions.slice(from, from + POSITIONS_AT_ONCE);
    const found = await git(deps, worktree, [...list, ...OWN_REFS, ...some, ...ON_A_BRANCH]);
    if (found.code !== 0) return null;
    const lost = found.stdout.split("\n").filter(Boolean);
    if (lost.length > 0) return lost;
  }
  return [];
}

/** Unregisters the worktree; the files go with the run directory. */
export async function leaveWorktree(deps: Deps, run: RunRecord): Promise<void> {
  const worktree = join(run.runDirectory, "worktree");
  if (run.launch.isolate !== "worktree" || !isDirectory(worktree)) return;
  await git(deps, worktree, ["worktree", "remove", "--force", worktree]);
}

function git(deps: Deps, cwd: string, args: readonly string[]) {
  const program = deps.processes.resolveProgram("git", deps.env);
  if (program === null)
    throw new Fault("platform_unsupported", "git is not installed, and a worktree needs it.");
  const env: Record<string, string> = { PWD: cwd, GIT_OPTIONAL_LOCKS: "0", LC_ALL: "C" };
  for (const name of ["PATH", "HOME"]) if (deps.env[name] !== undefined) env[name] = deps.env[name];
  // No hook of the repository runs: an agent could have written it.
  const safe = ["-C", cwd, "-c", "core.hooksPath=/dev/null"];
  return deps.processes.runTool(program, [...safe, ...args], { cwd, env, timeoutMs: 60_000 });
}
