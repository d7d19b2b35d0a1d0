/** The state of an agent's worktree, and git calls in it that no setting of the agent can mislead. */
import { dirname, join } from "node:path";
import { removeQuietly } from "../../state/files.ts";
import { keepsModes, modifiedAtMs, realPath } from "../../state/places.ts";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { type Git, gitDirectoryOf } from "../../run/git.ts";

export interface WorkToCommit {
  /** Used by Reprise only. */
  readonly worktree: string;
  /** The branch. */
  readonly branch: string | null;
  /** Without secrets, and harmless. */
  readonly message: string;
}

export interface CommitResult {
  /** Why the work is not finished, or not all on its branch: a clause without a full stop. Null: it is. */
  readonly left: string | null;
  /** What a person can do, a sentence. Agents never get it: they would act with the person's settings. */
  readonly help?: string;
  /** Other facts for people: clauses. */
  readonly notes: readonly string[];
}

/** Why nothing was committed. */
export type CommitRefusal = Pick<CommitResult, "help"> & { readonly left: string };

const TIMEOUT_MS = 120_000;
/** A live git process is done by then. */
const LOCK_PATIENCE_MS = 300;
const MAX_LOCKS = 5;

/** Git calls with settings that hide no change, as far as the file system supports them. */
export function withoutHidingSettings(git: Git, worktree: string): Git {
  const settings = [
    "core.sparseCheckout=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    ...(keepsModes(join(dirname(worktree), "run.json")) ? ["core.fileMode=true"] : []),
    ...(realPath(join(worktree, ".GIT")) === null ? ["core.ignoreCase=false"] : []),
  ];
  const given = settings.flatMap((setting) => ["-c", setting]);
  return (args, options) => git([...given, ...args], { timeoutMs: TIMEOUT_MS, ...options });
}

/** The worktree's present branch, and the branch for the work. */
export interface WorktreeState {
  readonly worktree: string;
  /** Git's directory for this worktree. */
  readonly gitDir: string;
  /** Creation time of the worktree. */
  readonly bornMs: number;
  /** The branch, or HEAD. */
  readonly ref: string;
  /** Its newest commit. Null: it is gone. */
  readonly tip: string | null;
  /** The checked-out branch as a ref. Null: none. */
  readonly on: string | null;
  /** The checked-out commit. Null: none yet. */
  readonly head: string | null;
}

export async function worktreeState(git: Git, { worktree, branch }: WorkToCommit): Promise<WorktreeState> {
  const gitDir = gitDirectoryOf(worktree) ?? "";
  const bornMs = modifiedAtMs(join(gitDir, "commondir"));
  const on = await textOf(git, ["symbolic-ref", "--quiet", "HEAD"]);
  const isOurs = on?.startsWith("refs/heads/reprise/") === true;
  const ref = branch === null ? (isOurs ? on : "HEAD") : `refs/heads/${branch}`;
  const commit = (name: string) => textOf(git, ["rev-parse", "--verify", "--quiet", `${name}^{commit}`]);
  const [head, tip] = await Promise.all([commit("HEAD"), commit(ref)]);
  return { worktree, gitDir, bornMs, ref, tip, on: ref === "HEAD" && on === null ? "HEAD" : on, head };
}

export async function textOf(git: Git, args: readonly string[]): Promise<string | null> {
  const { code, stdout } = await git(args);
  return code === 0 ? stdout.replace(/\n$/, "") : null;
}

export const shortOf = (ref: string) => harmlessLine(ref.replace(/^refs\/heads\//, ""), 200);

interface GitCallOptions {
  readonly stdin?: string;
  readonly expected?: readonly RegExp[];
}

/** Returns its output. Null: it failed as `expected`. Removes the lock of a git process that was killed. */
export async function runWithLockRetry(
  git: Git,
  worktree: string,
  args: readonly string[],
  asked: GitCallOptions & { readonly expected: readonly RegExp[] },
): Promise<string | null>;
export async function runWithLockRetry(
  git: Git,
  worktree: string,
  args: readonly string[],
  asked?: Pick<GitCallOptions, "stdin">,
): Promise<string>;
export async function runWithLockRetry(
  git: Git,
  worktree: string,
  args: readonly string[],
  { expected = [], stdin = "" }: GitCallOptions = {},
): Promise<string | null> {
  for (let tries = 0; ; tries += 1) {
    const done = await git(args, { stdin });
    if (done.code === 0) return done.stdout.trim();
    const said = `${done.stdout}\n${done.stderr}`;
    if (expected.some((pattern) => pattern.test(said))) return null;
    // Only locks of this worktree and its branch, which only Reprise and the agent use.
    const lock = /Unable to create '([^']+\/(?:worktrees\/[^']+|refs\/heads\/reprise\/[^']+)\.lock)'/.exec(
      said,
    )?.[1];
    if (tries >= (lock === undefined ? 1 : MAX_LOCKS)) {
      const why = harmlessLine(said.trim(), 300);
      throw new Fault("work_unsaved", `The work in ${worktree} could not be committed: ${why}`, {
        facts: { worktree },
      });
    }
    if (tries === 0) await new Promise((wake) => setTimeout(wake, LOCK_PATIENCE_MS));
    else if (lock !== undefined) removeQuietly(lock);
  }
}
