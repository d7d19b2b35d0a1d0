/**
 * The work on an issue, put on its branch and on no other. The files themselves count, whatever flags and settings the agent
 * left in its worktree; what Reprise cannot put there safely is told instead.
 */
import { isUtf8 } from "node:buffer";
import { dirname, join } from "node:path";
import {
  isCache,
  keepsModes,
  kindAt,
  modifiedAtMs,
  readSmallText,
  realPath,
  removeQuietly,
} from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import {
  filterWords,
  type Git,
  gitDirectoryOf,
  hidingRules,
  MOST_LISTED,
  openGit,
  unfiltered,
} from "../run/git.ts";
import type { Deps } from "../run/run.ts";

export interface WorkToCommit {
  /** Ours alone. */
  readonly worktree: string;
  /** The one that is promised to hold the work. */
  readonly branch: string | null;
  /** Without secrets, and harmless. */
  readonly message: string;
}

export interface CommitResult {
  /** Why the work is not finished, or not all of it is on its branch: a clause without its full stop. Null: it is. */
  readonly left: string | null;
  /** What a person can do about that, a sentence. It is never told to an agent, which would do it with the person's settings. */
  readonly help?: string;
  /** What else people must know of it: clauses. */
  readonly notes: readonly string[];
}

const MOST_NAMED = 3;

/** Paths as bytes. */
export function named(paths: readonly string[]): string {
  const texts = paths
    .slice(0, MOST_NAMED)
    .map((path) => harmlessLine(Buffer.from(path, "latin1").toString(), 100));
  const more = paths.length - texts.length;
  return more > 0 ? `${texts.join(", ")} and ${more} more` : texts.join(", ");
}

export const entriesOf = (listed: string) => listed.split("\0").filter((entry) => entry !== "");

const is = (paths: readonly unknown[], one = "is", many = "are") => (paths.length === 1 ? one : many);
const BYTES = { encoding: "latin1", maxBytes: MOST_LISTED } as const;
const TIMEOUT_MS = 120_000;
/** A git that still lives would be done by then. */
const LOCK_PATIENCE_MS = 300;
const MAX_LOCKS = 5;
const NOBODY = /tell me who you are|ident/i;

/** What the agent left uncommitted, and what it committed elsewhere, is on the branch afterwards. */
export async function commitWork(deps: Deps, work: WorkToCommit): Promise<CommitResult> {
  const { worktree } = work;
  const opened = await openGit(deps, worktree);
  const git = asItIs(opened, worktree);
  const place = await placeOf(git, work);
  const notes = await movedByAgent(git, place);
  const reason =
    (await clearFlags(git, place)) ??
    (await plainText(opened, git, place)) ??
    (await misplaced(git, place)) ??
    (await put(git, place, work));
  if (reason !== null) return { ...reason, notes };
  const hidden = await hiddenWork(git, place);
  return { ...hidden, notes: [...notes, ...hidden.notes] };
}

/** Why nothing was committed. */
type Reason = Pick<CommitResult, "help"> & { readonly left: string };

/** Git, asked so that no setting makes it overlook what differs. What the file system cannot tell stays as it is set. */
function asItIs(git: Git, worktree: string): Git {
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
interface Place {
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

async function placeOf(git: Git, { worktree, branch }: WorkToCommit): Promise<Place> {
  const gitDir = gitDirectoryOf(worktree) ?? "";
  const bornMs = modifiedAtMs(join(gitDir, "commondir"));
  const on = await textOf(git, ["symbolic-ref", "--quiet", "HEAD"]);
  const isOurs = on?.startsWith("refs/heads/reprise/") === true;
  const ref = branch === null ? (isOurs ? on : "HEAD") : `refs/heads/${branch}`;
  const commit = (name: string) => textOf(git, ["rev-parse", "--verify", "--quiet", `${name}^{commit}`]);
  const [head, tip] = await Promise.all([commit("HEAD"), commit(ref)]);
  return { worktree, gitDir, bornMs, ref, tip, on: ref === "HEAD" && on === null ? "HEAD" : on, head };
}

async function textOf(git: Git, args: readonly string[]): Promise<string | null> {
  const { code, stdout } = await git(args);
  return code === 0 ? stdout.replace(/\n$/, "") : null;
}

const shortOf = (ref: string) => harmlessLine(ref.replace(/^refs\/heads\//, ""), 200);

function whereOf({ on }: Place): string {
  return on === null ? "no branch" : `the branch ${shortOf(on)}`;
}

/** What helps where an agent left its branch. */
function goBack({ ref, worktree }: Place): Pick<CommitResult, "help"> {
  return { help: `To go back: git -C ${worktree} switch ${shortOf(ref)}` };
}

/** Why nothing can be put on the branch from where the worktree is; null: it can. No other branch is ever moved. */
async function misplaced(git: Git, place: Place): Promise<Reason | null> {
  const { ref, tip, on, head, worktree, bornMs } = place;
  if (on === ref) return null;
  const where = `the worktree is on ${whereOf(place)}`;
  if (ref === "HEAD") return { left: `${where}, which is not the issue's own` };
  if (head === null) return { left: `${where}, which has no commit`, ...goBack(place) };
  const elsewhere = await textOf(git, ["for-each-ref", "--format=%(worktreepath)", ref]);
  if (elsewhere !== null && elsewhere !== "" && realPath(elsewhere) !== realPath(worktree))
    return {
      left: `${where}, and ${shortOf(ref)} is checked out in ${harmlessLine(elsewhere, 300)}`,
      help: "Switch that checkout to another branch",
    };
  if (tip === null || tip === head) return null;
  const grew = (await git(["merge-base", "--is-ancestor", tip, head])).code === 0;
  // What is there may be on the branch already: Reprise was killed before it went back to it.
  if (!grew)
    return (await isAllOn(git, place, tip))
      ? null
      : { left: `${where}, without what was committed on ${shortOf(ref)}`, ...goBack(place) };
  const before = [`--before=@${Math.floor(bornMs / 1_000) - 1}`, `${tip}..${head}`];
  const one = ["rev-list", "--first-parent", "--max-count=1", "--abbrev-commit"];
  const older = await textOf(git, [...one, ...before]);
  if (older === "" || older === null) return null;
  const what = `which has commits from before the work, such as ${older}, that ${shortOf(ref)} lacks`;
  return { left: `${where}, ${what}`, ...goBack(place) };
}

/** The files are what the commit says. */
async function isAllOn(git: Git, { worktree }: Place, commit: string): Promise<boolean> {
  await unlocked(git, worktree, ["add", "-A"]);
  return (await textOf(git, ["write-tree"])) === (await textOf(git, ["rev-parse", `${commit}^{tree}`]));
}

/** A file that git must convert first, with a program that Reprise does not run, would be stored as it is. */
async function plainText(opened: Git, git: Git, { worktree }: Place): Promise<Reason | null> {
  const options = ["--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"];
  const changed = async () => {
    const { stdout } = await git(["status", "--porcelain", "-z", ...options], BYTES);
    return entriesOf(stdout).flatMap((entry) => (/^.[ D]/.test(entry) ? [] : [entry.slice(3)]));
  };
  const found = await unfiltered(opened, "clean", changed);
  if (found === null) return null;
  const { why, help } = filterWords(found);
  return {
    left: `${why}, and without it would commit plain text`,
    help: `${help}; or commit it yourself: git -C ${worktree} add -A && git -C ${worktree} commit`,
  };
}

/** Null: what is in the worktree is on the branch, and the worktree is on the branch. Otherwise nothing was committed. */
async function put(git: Git, place: Place, { message }: WorkToCommit): Promise<Reason | null> {
  const { worktree, ref, tip, on, head } = place;
  await unlocked(git, worktree, ["add", "-A"]);
  const isAhead = on !== ref && tip !== null && head !== null && tip !== head;
  const grew = !isAhead || (await git(["merge-base", "--is-ancestor", tip, head])).code === 0;
  const parent = on === ref || !grew ? tip : head;
  const all = parent === null ? null : await differences(git, ["diff-index", "--cached", parent]);
  const since = all === null ? null : await withoutGate(git, worktree, all);
  const links = (since ?? [])
    .filter(({ path, now }) => isFalseLink(worktree, path, now))
    .map(({ path }) => path);
  if (links.length > 0)
    return {
      left: `${named(links)} ${is(links)} no link, and core.symlinks=false makes git store ${is(links, "it as one", "them as links")}`,
    };
  if (since === null || since.length > 0) {
    const tree = await unlocked(git, worktree, ["write-tree"]);
    const made = await commitOf(git, worktree, [tree, ...(parent === null ? [] : ["-p", parent])], message);
    await move(git, place, made);
  } else if (parent !== null && parent !== tip) await move(git, place, parent);
  if (on !== ref)
    await unlocked(git, worktree, ["symbolic-ref", "-m", "reprise: back to the issue's branch", "HEAD", ref]);
  return null;
}

async function move(git: Git, { worktree, ref, tip }: Place, commit: string): Promise<void> {
  const update = ["update-ref", "-m", "reprise: the agent's work", "--no-deref", ref, commit, tip ?? ""];
  await unlocked(git, worktree, update);
}

/** By stdin: every user of the machine can read arguments, and a title may hold a secret. */
async function commitOf(
  git: Git,
  worktree: string,
  what: readonly string[],
  message: string,
): Promise<string> {
  const commit = ["commit-tree", ...what];
  const stdin = `${message}\n`;
  const made = await unlocked(git, worktree, commit, { stdin, expected: [NOBODY] });
  if (made !== null) return made;
  const us = ["-c", "user.name=Reprise", "-c", "user.email=reprise@localhost"];
  return unlocked(git, worktree, [...us, ...commit], { stdin });
}

/** Takes a file on the branch back to what it is in a commit, in a commit of its own. */
export async function putBack(
  deps: Deps,
  work: WorkToCommit,
  file: { readonly path: string; readonly from: string },
): Promise<void> {
  const { worktree, message } = work;
  const git = asItIs(await openGit(deps, worktree), worktree);
  const place = await placeOf(git, work);
  if (place.on !== place.ref || place.tip === null)
    throw new Fault("work_unsaved", `${worktree} is not on ${shortOf(place.ref)} any more.`, {
      facts: { worktree },
    });
  await unlocked(git, worktree, ["checkout", "--quiet", file.from, "--", file.path]);
  const tree = await unlocked(git, worktree, ["write-tree"]);
  await move(git, place, await commitOf(git, worktree, [tree, "-p", place.tip], message));
}

interface Difference {
  /** One character per byte. */
  readonly path: string;
  /** Mode and id, as `update-index --index-info` takes them. */
  readonly was: string;
  readonly now: string;
}

async function differences(git: Git, args: readonly string[]): Promise<readonly Difference[]> {
  const [command = "", ...rest] = args;
  const options = ["--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty"];
  const fields = entriesOf((await git([command, ...options, ...rest], BYTES)).stdout);
  return fields.flatMap((field, at) => {
    const [, was, now, wasId, nowId] = /^:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) /.exec(field) ?? [];
    const path = fields[at + 1];
    if (was === undefined || path === undefined) return [];
    return [{ path, was: `${was} ${wasId}`, now: `${now} ${nowId}` }];
  });
}

/** Refs that only the worktree has: what the files were before the last gate, and what it left. */
export const GATE = {
  before: "refs/worktree/reprise/before-gate",
  after: "refs/worktree/reprise/after-gate",
};

/** What a gate left is not the agent's work, unless the agent has changed it since. It stays in the worktree. */
async function withoutGate(
  git: Git,
  worktree: string,
  all: readonly Difference[],
): Promise<readonly Difference[]> {
  if (all.length === 0) return all;
  const byGate = await differences(git, ["diff-tree", "-r", GATE.before, GATE.after]);
  const left = new Map(byGate.map(({ path, now }) => [path, now]));
  const same = all.filter(({ path, now }) => left.get(path) === now && isUtf8(Buffer.from(path, "latin1")));
  const lines = same.map(({ path, was }) => `${was}\t${Buffer.from(path, "latin1").toString()}\0`);
  const stdin = lines.join("");
  if (same.length > 0) await unlocked(git, worktree, ["update-index", "-z", "--index-info"], { stdin });
  return all.filter((one) => !same.includes(one));
}

const isFalseLink = (worktree: string, path: string, now: string) =>
  now.startsWith("120000 ") && kindAt(worktree, path) !== "link";

/**
 * Git does not look at files with these flags. What a sparse checkout left out stays left out: it is not there. Null: no file
 * that is there has one any more.
 */
async function clearFlags(git: Git, { worktree }: Place): Promise<Reason | null> {
  const listed = entriesOf((await git(["ls-files", "-v", "-z"], BYTES)).stdout);
  const flagged = (flags: RegExp) => listed.filter((line) => flags.test(line)).map((line) => line.slice(2));
  const there = flagged(/^[Ss] /).filter((path) => kindAt(worktree, path) !== null);
  for (const [flag, paths] of [
    ["--no-assume-unchanged", flagged(/^[a-z] /)],
    ["--no-skip-worktree", there],
  ] as const) {
    const odd = paths.filter((path) => !isUtf8(Buffer.from(path, "latin1")));
    if (odd.length > 0)
      return {
        left: `${named(odd)} ${is(odd, "has a flag", "have flags")} that ${is(odd, "hides it", "hide them")} from git`,
      };
    const stdin = paths.map((path) => `${Buffer.from(path, "latin1").toString()}\0`).join("");
    if (paths.length > 0) await unlocked(git, worktree, ["update-index", "-z", flag, "--stdin"], { stdin });
  }
  return null;
}

/** New files that git does not see because of a rule that the repository has not committed. Rules of the user's own count. */
async function hiddenWork(git: Git, place: Place): Promise<CommitResult> {
  const list = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
  const rules = [...(await hidingRules(git, entriesOf((await git([...list, "--directory"], BYTES)).stdout)))];
  // A folder counts as ignored when all that is in it is, by whatever rules.
  const folders = rules.filter(({ source }) => source === "").map(({ path }) => path);
  const texts = folders.map((path) => Buffer.from(path, "latin1")).filter((bytes) => isUtf8(bytes));
  if (texts.length > 0) {
    const inside = [...list, "--", ...texts.map((bytes) => bytes.toString())];
    const found = await git(inside, { ...BYTES, env: { GIT_LITERAL_PATHSPECS: "1" } });
    rules.push(...(await hidingRules(git, entriesOf(found.stdout))));
  }
  const sources = [...new Set(rules.map(({ source }) => source))].filter((source) => source !== "");
  const doubted = new Map<string, "setting" | "new">();
  for (const source of sources) {
    const doubt = await doubtOf(git, place, source);
    if (doubt !== null) doubted.set(source, doubt);
  }
  const by = (doubt: string) => rules.filter(({ source }) => doubted.get(source) === doubt);
  const [set, unsaved] = [by("setting"), by("new")];
  const sourcesOf = (hidden: typeof set) => named([...new Set(hidden.map(({ source }) => source))]);
  const paths = (hidden: typeof set) => hidden.map(({ path }) => path);
  const left =
    set.length === 0
      ? null
      : `${named(paths(set))} ${is(set)} on no branch: ${sourcesOf(set)}, which changed since the work began, hides ${is(set, "it", "them")} from git`;
  const note = `${named(paths(unsaved))} ${is(unsaved)} not on the branch: ${sourcesOf(unsaved)}, which is not committed, hides ${is(unsaved, "it", "them")} from git`;
  const help =
    "If that is right, move the rule to a .gitignore that you commit, or to your own ignore file (git config --global core.excludesFile)";
  return { left, ...(left === null ? {} : { help }), notes: unsaved.length === 0 ? [] : [note] };
}

/** Whether the file with a rule is the user's own, or committed (null). The path is told as bytes. */
async function doubtOf(
  git: Git,
  { worktree, gitDir, bornMs }: Place,
  source: string,
): Promise<"setting" | "new" | null> {
  const path = Buffer.from(source, "latin1").toString();
  const exclude = join(dirname(dirname(gitDir)), "info/exclude");
  if (path.startsWith("/") && realPath(path) === realPath(exclude))
    return modifiedAtMs(exclude) > bornMs ? "setting" : null;
  const tracked = await git(["ls-files", "-z", "--", path], {
    ...BYTES,
    env: { GIT_LITERAL_PATHSPECS: "1" },
  });
  if (tracked.stdout !== "") return null;
  if (path.endsWith("/.gitignore") || path === ".gitignore")
    return !path.startsWith("/") && isCache(worktree, dirname(source)) ? null : "new";
  const setting = await textOf(git, ["config", "--show-scope", "--get", "core.excludesFile"]);
  return setting === null || /^(?:global|system)\t/.test(setting) ? null : "setting";
}

/** Branches of other people that the agent itself moved, told by what git wrote down of the worktree. */
async function movedByAgent(git: Git, { gitDir, ref, bornMs }: Place): Promise<readonly string[]> {
  const moved = new Set<string>();
  let on = ref;
  for (const line of (readSmallText(join(gitDir, "logs/HEAD")) ?? "").split("\n")) {
    const [, was, now] = /^([0-9a-f]+) ([0-9a-f]+) /.exec(line) ?? [];
    const words = line.slice(line.indexOf("\t") + 1);
    const to = /^checkout: moving from \S+ to (\S+)$/.exec(words)?.[1];
    if (to !== undefined) on = `refs/heads/${to}`;
    else if (words.startsWith("reprise: back to")) on = ref;
    else if (was !== now && on !== ref && !words.startsWith("reprise: ")) moved.add(on);
  }
  const common = dirname(dirname(gitDir));
  const others: string[] = [];
  for (const branch of moved) {
    if ((await git(["rev-parse", "--verify", "--quiet", branch])).code !== 0) continue;
    const [first = ""] = (readSmallText(join(common, "logs", branch)) ?? "").split("\n");
    const [, was = "", at = ""] = /^([0-9a-f]+) .*> (\d+) [-+]\d+(?:\t|$)/.exec(first) ?? [];
    const isAgents = /^0+$/.test(was) && Number(at) > Math.floor(bornMs / 1_000);
    if (!isAgents) others.push(shortOf(branch));
  }
  return others.length === 0 ? [] : [`the agent itself committed on ${others.join(", ")}`];
}

interface Asked {
  readonly stdin?: string;
  readonly expected?: readonly RegExp[];
}

/** What it printed; null: it refused as `expected`. A lock that a killed git left behind is removed. */
async function unlocked(
  git: Git,
  worktree: string,
  args: readonly string[],
  asked: Asked & { readonly expected: readonly RegExp[] },
): Promise<string | null>;
async function unlocked(
  git: Git,
  worktree: string,
  args: readonly string[],
  asked?: Pick<Asked, "stdin">,
): Promise<string>;
async function unlocked(
  git: Git,
  worktree: string,
  args: readonly string[],
  { expected = [], stdin = "" }: Asked = {},
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
