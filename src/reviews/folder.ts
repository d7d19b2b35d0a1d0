/**
 * The clone that Codex works in: whether it is one of the pull request's repository, where its head is, and what its
 * files say. Reads only, and nothing outside of the clone whatever a comment's path says.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";
import { parseRemote, type Remote, sameRepository, titleOf } from "./pull-request.ts";
import type { Comment, PullRequest } from "./reviews.ts";

export interface Clone {
  /** Its top directory, symlinks resolved. */
  readonly root: string;
  /** Null: no commit yet. */
  readonly head: string | null;
  /** Null: no branch is checked out. */
  readonly branch: string | null;
  /** Those of GitHub servers, credentials left out. */
  readonly remotes: readonly Remote[];
}

const MAX_FILE = 4 * 1024 * 1024;
const GIT_TIMEOUT_MS = 20_000;

/** Null: the directory is in no clone. */
export async function findClone(deps: Deps, cwd: string): Promise<Clone | null> {
  const [top, head, branch, remotes] = await Promise.all([
    git(deps, cwd, ["rev-parse", "--show-toplevel"]),
    git(deps, cwd, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]),
    git(deps, cwd, ["symbolic-ref", "--quiet", "--short", "HEAD"]),
    git(deps, cwd, ["remote", "-v"]),
  ]);
  if (top === null) return null;
  return { root: realpathSync(top), head, branch, remotes: remotesIn(remotes ?? "") };
}

/** The clone where Codex may work on this pull request, or the reason why not. */
export async function requireClone(
  deps: Deps,
  pullRequest: PullRequest,
  { cwd, force }: { readonly cwd: string; readonly force: boolean },
): Promise<Clone | null> {
  const clone = await findClone(deps, cwd);
  if (force || clone?.remotes.some((remote) => sameRepository(remote, pullRequest)) === true) return clone;
  const { host, owner, repository } = pullRequest;
  const other = clone?.remotes.map((remote) => titleOf({ ...remote, number: 0 }).replace(/#0$/, "")) ?? [];
  const what =
    clone === null
      ? "is in no git clone"
      : other.length === 0
        ? "is a clone without a remote on GitHub"
        : `is a clone of ${harmlessLine(other.join(", "), 200)}`;
  throw new Fault(
    "cwd_invalid",
    `${cwd} ${what}, not of ${titleOf(pullRequest).replace(/#\d+$/, "")}. ` +
      `Go to such a clone, name it with --cwd, or use --force-cwd to let Codex work here all the same.`,
    { facts: { cwd, repository: `${host}/${owner}/${repository}` } },
  );
}

/** `context` lines before the comment's line, that line, and as many after it. Null: the clone has no such text. */
export function codeAround(clone: Clone, comment: Comment, context: number): readonly string[] | null {
  const text = readInside(clone.root, comment.filePath);
  if (text === null) return null;
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const line = comment.line ?? comment.originalLine ?? 1;
  return line > lines.length ? null : lines.slice(Math.max(0, line - 1 - context), line + context);
}

function readInside(root: string, path: string): string | null {
  const parts = path.split("/");
  if (path === "" || path.includes("\0") || parts.some((part) => part === "" || part === "..")) return null;
  if (parts[0]?.toLowerCase() === ".git") return null;
  let fd: number;
  try {
    const real = realpathSync(join(root, path));
    if (!real.startsWith(root.endsWith(sep) ? root : root + sep)) return null;
    fd = openSync(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // Gone, unreadable, or a name that the system does not take: there is nothing to show.
    return null;
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > MAX_FILE) return null;
    const bytes = readFileSync(fd);
    return bytes.subarray(0, 8_192).includes(0) ? null : bytes.toString("utf8");
  } catch {
    return null;
  } finally {
    closeSync(fd);
  }
}

/** `git remote -v`: name, tab, URL, space, (fetch) or (push). */
function remotesIn(text: string): readonly Remote[] {
  const remotes: Remote[] = [];
  for (const row of text.split("\n")) {
    const [, name = "", url = ""] = /^([^\t]{1,200})\t(\S+) \((?:fetch|push)\)$/.exec(row) ?? [];
    const found = url === "" ? null : parseRemote(url);
    if (found === null) continue;
    if (remotes.some((remote) => remote.name === name && sameRepository(remote, found))) continue;
    remotes.push({ name, ...found });
  }
  return remotes;
}

/** Null: git refused. */
async function git(deps: Deps, cwd: string, args: readonly string[]): Promise<string | null> {
  const program = deps.processes.resolveProgram("git", deps.env);
  if (program === null) {
    throw new Fault("platform_unsupported", "git is not installed, and a review needs it to know the clone.");
  }
  const env: Record<string, string> = { PWD: cwd, GIT_OPTIONAL_LOCKS: "0", LC_ALL: "C" };
  for (const name of ["PATH", "HOME", "XDG_CONFIG_HOME"]) {
    if (deps.env[name] !== undefined) env[name] = deps.env[name];
  }
  const result = await deps.processes.runTool(program, ["-C", cwd, ...args], {
    cwd,
    env,
    timeoutMs: GIT_TIMEOUT_MS,
  });
  return result.code === 0 ? result.stdout.replace(/\n+$/, "") : null;
}
