/**
 * A place of its own for an agent: a fresh directory or a git worktree inside the run directory; and whether
 * work in it would be lost if it were removed.
 */
import { join, relative } from "node:path";
import { isDirectory, isEmptyDirectory, makeDirectory, resolveDirectory } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";

export interface Workplace {
  readonly cwd: string;
  /** Creates it; the run directory must exist. */
  make(): Promise<void>;
}

/** Checks everything that can be checked before a run is recorded. */
export async function planWorkplace(
  deps: Deps,
  runDirectory: string,
  request: { readonly cwd: string; readonly isolate: "dir" | "worktree" | null },
): Promise<Workplace> {
  if (request.isolate === null) return { cwd: request.cwd, make: async () => {} };
  if (request.isolate === "dir") {
    const directory = join(runDirectory, "work");
    return { cwd: directory, make: async () => void makeDirectory(directory) };
  }
  const top = await git(deps, request.cwd, ["rev-parse", "--show-toplevel"]);
  const commit = await git(deps, request.cwd, ["rev-parse", "--verify", "HEAD^{commit}"]);
  if (top.code !== 0 || commit.code !== 0) {
    throw new Fault(
      "cwd_invalid",
      `--isolate worktree needs a git repository with a commit, and ${request.cwd} is none.`,
      {
        facts: { cwd: request.cwd },
      },
    );
  }
  const worktree = join(runDirectory, "worktree");
  const inside = relative(resolveDirectory(top.stdout.trimEnd()), request.cwd);
  const there = await git(deps, request.cwd, ["cat-file", "-t", `${commit.stdout.trim()}:${inside}`]);
  if (there.stdout.trim() !== "tree") {
    throw new Fault(
      "cwd_invalid",
      `A worktree would not have ${request.cwd}: nothing in it is committed. Commit it first, or use --isolate dir.`,
      { facts: { cwd: request.cwd } },
    );
  }
  return {
    cwd: join(worktree, inside),
    make: async () => {
      const added = await git(deps, request.cwd, [
        "worktree",
        "add",
        "--detach",
        worktree,
        commit.stdout.trim(),
      ]);
      if (added.code === 0) return;
      throw new Fault(
        "cwd_invalid",
        `git could not make a worktree for the run: ${added.stderr.slice(0, 400).trim()}`,
        {
          facts: { cwd: request.cwd },
        },
      );
    },
  };
}

/** Why removing the run would destroy work; null when it would not. */
export async function workAtRisk(deps: Deps, run: RunRecord): Promise<string | null> {
  if (run.launch.isolate === "dir") {
    const directory = join(run.runDirectory, "work");
    return isEmptyDirectory(directory) ? null : `there are files in ${directory}`;
  }
  const worktree = join(run.runDirectory, "worktree");
  if (run.launch.isolate !== "worktree" || !isDirectory(worktree)) return null;
  const status = await git(deps, worktree, ["status", "--porcelain", "--untracked-files=normal"]);
  if (status.code !== 0) return `git cannot tell what is in ${worktree}`;
  if (status.stdout.trim() !== "") return `there is uncommitted work in ${worktree}`;
  const unmerged = await git(deps, worktree, [
    "rev-list",
    "--count",
    "HEAD",
    "--not",
    "--branches",
    "--remotes",
    "--tags",
  ]);
  if (unmerged.code !== 0) return `git cannot tell what is in ${worktree}`;
  return unmerged.stdout.trim() === "0" ? null : `commits in ${worktree} are on no branch`;
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
    throw new Fault("platform_unsupported", "git is not installed, and --isolate worktree needs it.");
  const env: Record<string, string> = { PWD: cwd, GIT_OPTIONAL_LOCKS: "0", LC_ALL: "C" };
  for (const name of ["PATH", "HOME"]) if (deps.env[name] !== undefined) env[name] = deps.env[name];
  return deps.processes.runTool(program, ["-C", cwd, ...args], { cwd, env, timeoutMs: 60_000 });
}
