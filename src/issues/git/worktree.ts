/** The state of an agent's worktree, and git calls in it that no setting of the agent can mislead. */
import { dirname, join } from "node:path";
import { keepsModes, modifiedAtMs, realPath, removeQuietly } from "../../state/state.ts";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { type Git, gitDirectoryOf } from "../../run/git.ts";

export interface WorkToCommit {
  /** Ours alone. */
  readonly worktree: string;
  /** The one that is promised to hold the work. */
  readonly branch: string | null;
  /** Without secrets, and harmless. */
  readonly message: string;
}

const TIMEOUT_MS = 120_000;
/** A git that still lives would be done by then. */
const LOCK_PATIENCE_MS = 300;
const MAX_LOCKS = 5;

/** Git, asked so that no setting makes it overlook what differs. What the file system cannot tell stays as it is set. */
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

/** Where the worktree is, and where the work belongs. */
export interface WorktreeState {
  readonly worktree: string;
  /** What git keeps for this worktree alone. */
  readonly gitDir: string;
  /** When the worktree was made. */
  readonly bornMs: number;
  /** Of the issue. */
  readonly ref: string;
  /** The newest commit on it; null: it is gone. */
  readonly tip: string | null;
  /** The branch that is checked out, as a ref; null: none. */
  readonly on: string | null;
  /** The commit that is checked out; null: none yet. */
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

/** What it printed; null: it refused as `expected`. A lock that a killed git left behind is removed. */
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
    // Only what belongs to this worktree and its branch: nobody else writes there.
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
