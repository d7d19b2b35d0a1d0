/**
 * The clone that Codex works in: whether it belongs to the pull request's repository, its head, and its files. Reads
 * only, and nothing outside the clone, whatever a comment's path.
 */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, readFileSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { openToRead } from "../state/files.ts";
import { resolveDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Git, openGit, repositoriesOf } from "../run/git.ts";
import type { Deps } from "../run/run.ts";
import { listRuns } from "../run/select.ts";
import { lockFile } from "../store/store.ts";
import { type Remote, remotesIn, sameRepository } from "../github/github.ts";
import { subjectOf, titleOf } from "./pull-request.ts";
import type { ReviewComment, PullRequest } from "./review.ts";
import { reviewsDirectory } from "./transcript.ts";

export interface ReviewClone {
  /** Its top directory, symlinks resolved. */
  readonly root: string;
  /** Null: no commit yet. */
  readonly head: string | null;
  /** Null: no branch is checked out. */
  readonly branch: string | null;
  /** Remotes on GitHub servers, without credentials. */
  readonly remotes: readonly Remote[];
}

const MAX_FILE = 4 * 1024 * 1024;
const GIT_TIMEOUT_MS = 20_000;

/** A directory as git saw it once. */
export interface ReviewFolder {
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  /** Null: not in a clone, or git does not tell. */
  readonly clone: ReviewClone | null;
  /** Why git does not tell. Null: it does. */
  readonly silence: "absent" | "distrusts" | null;
}

export async function lookAtFolder(deps: Deps, directory: string): Promise<ReviewFolder> {
  const cwd = resolveDirectory(directory);
  const git = await gitIn(deps, cwd);
  if (git === null) return { cwd, clone: null, silence: "absent" };
  const ask = (...args: string[]) => gitReply(git, args);
  const [top, head, branch, remotes] = await Promise.all([
    ask("rev-parse", "--show-toplevel"),
    ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
    ask("symbolic-ref", "--quiet", "--short", "HEAD"),
    ask("remote", "-v"),
  ]);
  if (top.text === null) {
    // Another user's clone could make git run that user's programs.
    const distrusts = top.says.includes("dubious ownership");
    return { cwd, clone: null, silence: distrusts ? "distrusts" : null };
  }
  const root = realpathSync(top.text);
  const clone = { root, head: head.text, branch: branch.text, remotes: remotesIn(remotes.text ?? "") };
  return { cwd, clone, silence: null };
}

/** Why git does not trust a folder, as the end of a sentence. */
export function distrust(cwd: string): string {
  return `belongs to another user, so git does not look into it (git config --global --add safe.directory ${JSON.stringify(cwd)} changes that)`;
}

/** The clone where Codex may work on this pull request, or a Fault. */
export function requireClone(
  { cwd, clone, silence }: ReviewFolder,
  pullRequest: PullRequest,
  force: boolean,
): ReviewClone | null {
  if (force || clone?.remotes.some((remote) => sameRepository(remote, pullRequest)) === true) return clone;
  if (silence === "absent") {
    const hint = "--force-cwd does without it.";
    throw new Fault(
      "platform_unsupported",
      `git is not installed, and a review needs it to know the clone. ${hint}`,
    );
  }
  const { host, owner, repository } = pullRequest;
  const other = clone?.remotes.map((remote) => titleOf({ ...remote, number: 0 }).replace(/#0$/, "")) ?? [];
  const wanted = titleOf(pullRequest).replace(/#\d+$/, "");
  const what =
    silence === "distrusts"
      ? distrust(cwd)
      : clone === null
        ? `is in no git clone, so in none of ${wanted}`
        : other.length === 0
          ? `is a clone without a remote on GitHub, not of ${wanted}`
          : `is a clone of ${harmlessLine(other.join(", "), 200)}, not of ${wanted}`;
  throw new Fault(
    "cwd_invalid",
    `${cwd} ${what}. ` +
      `Go to such a clone, name it with --cwd, or use --force-cwd to let Codex work here all the same.`,
    { facts: { cwd, repository: `${host}/${owner}/${repository}` } },
  );
}

/** The clone's present head. */
export async function headOf(deps: Deps, { root }: ReviewClone): Promise<string | null> {
  const git = await gitIn(deps, root);
  if (git === null) return null;
  return (await gitReply(git, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])).text;
}

export interface ReviewPlace {
  readonly cwd: string;
  readonly pullRequest: PullRequest;
  /** The run to continue. Null: a new run. */
  readonly handle: string | null;
}

/**
 * Allows one turn per pull request and checkout: two agents would change the same files for the same comments. Held
 * until the result is disposed of. Ignores the run to continue: if it is working, its own lease refuses.
 */
export async function soleTurn(deps: Deps, { cwd, pullRequest, handle }: ReviewPlace): Promise<Disposable> {
  const checkout = checkoutOf(cwd);
  const subject = subjectOf(pullRequest).toLowerCase();
  const digest = createHash("sha256").update(`${subject}\0${checkout}`).digest("hex").slice(0, 16);
  const lock = await lockFile(join(reviewsDirectory(deps.state), `turn-${digest}.lock`));
  const release = () => lock?.release();
  try {
    const working = await workingOn(deps, subject, checkout);
    const other = working.find((one) => one !== handle) ?? null;
    if (other !== null || (lock === null && working.length === 0)) throw busy({ cwd, pullRequest }, other);
    return { [Symbol.dispose]: release };
  } catch (error) {
    release();
    throw error;
  }
}

/** The pull request's runs that are working in this checkout. */
async function workingOn(deps: Deps, subject: string, checkout: string): Promise<readonly string[]> {
  const running = await listRuns(deps, { status: "running", limit: Number.POSITIVE_INFINITY });
  const own = running.filter((run) => run.subject?.toLowerCase() === subject);
  return own.filter((run) => checkoutOf(run.cwd) === checkout).map((run) => run.handle);
}

/** Two directories with the same value are in the same checkout. */
function checkoutOf(cwd: string): string {
  return repositoriesOf(cwd)[0] ?? cwd;
}

function busy({ cwd, pullRequest }: Pick<ReviewPlace, "cwd" | "pullRequest">, handle: string | null): Fault {
  const where = `${titleOf(pullRequest)} in ${cwd}`;
  const message =
    handle === null
      ? `Another review of ${where} begins or ends at this moment. Try again, or work in another clone: --cwd`
      : `Codex works on ${where} already: run ${handle}. Wait for it, end it with \`reprise stop ${handle}\`, or work in another clone: --cwd`;
  return new Fault("run_busy", message, { facts: { cwd, ...(handle === null ? {} : { handle }) } });
}

/** `context` lines before the comment's line, that line, and as many after it. Null: the clone has no such text. */
export function codeAround(
  clone: ReviewClone,
  comment: ReviewComment,
  context: number,
): readonly string[] | null {
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
    fd = openToRead(real);
  } catch {
    // Missing, unreadable, or an invalid name: nothing to show.
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

interface GitReply {
  /** Null: git refused. */
  readonly text: string | null;
  readonly says: string;
}

/** Null: git is not installed. */
async function gitIn(deps: Deps, cwd: string): Promise<Git | null> {
  try {
    return await openGit(deps, cwd);
  } catch (error) {
    if (error instanceof Fault && error.code === "platform_unsupported") return null;
    throw error;
  }
}

async function gitReply(git: Git, args: readonly string[]): Promise<GitReply> {
  const { code, stdout, stderr } = await git(args, { timeoutMs: GIT_TIMEOUT_MS });
  return { text: code === 0 ? stdout.replace(/(?<!\n)\n+$/, "") : null, says: stderr };
}
