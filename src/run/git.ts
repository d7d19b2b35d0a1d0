/**
 * Runs git so that no setting of a repository can run a program or hide work. An agent can write a repository's
 * configuration, so only the user's own (global and system) settings may name programs; filters such as LFS come from there.
 */
import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { removeQuietly } from "../state/files.ts";
import { isOriginal, movedState } from "../state/identity.ts";
import { readSmallText, realPath, spelled } from "../state/places.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Deps } from "./deps.ts";
import {
  assertOwnPlace,
  type Git,
  type GitOptions,
  pinnedPlace,
  type RunAt,
  SettingsJudge,
} from "./git/place.ts";
import { filtersOff, FIXED, settingsEnv } from "./git/settings.ts";

export type { Git, GitOptions } from "./git/place.ts";

const TIMEOUT_MS = 60_000;

/** For the questions about settings, and for every question without limits. */
export type GitLimits = Pick<GitOptions, "timeoutMs" | "signal">;
const SETTINGS_FILES: ReadonlySet<string> = new Set(["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"]);
/** The user's variables that git gets: the place of the user's own settings, and the author of commits. */
const USER_VARIABLES = [
  "PATH",
  "HOME",
  "XDG_CONFIG_HOME",
  ...SETTINGS_FILES,
  "GIT_CONFIG_NOSYSTEM",
  "EMAIL",
  ...["AUTHOR", "COMMITTER"].flatMap((who) => ["NAME", "EMAIL", "DATE"].map((what) => `GIT_${who}_${what}`)),
];

/**
 * `cwd` is where git looks for the repository; `env` may name it instead (GIT_DIR). The settings that hold there, on the branch that
 * is checked out, and in the submodules that git may look into, are judged before each question.
 */
export async function openGit(
  deps: Deps,
  cwd: string,
  env: GitOptions["env"] = {},
  limits: GitLimits = {},
): Promise<Git> {
  const program = deps.processes.resolveProgram("git", deps.env);
  if (program === null)
    throw new Fault("platform_unsupported", "git is not installed. Install git, then try again.");
  assertOwnPlace(deps, cwd);
  const base: Record<string, string> = { ...baseVariables(deps.env), PWD: cwd, ...env };
  const run: RunAt = (at, args, options = {}) => {
    const { env: more = {}, encoding = "utf8", stdin, maxBytes } = options;
    const { timeoutMs = limits.timeoutMs ?? TIMEOUT_MS, signal = limits.signal } = options;
    return deps.processes.runTool(program, ["-C", at, ...args], {
      cwd: at,
      env: { ...base, ...more },
      timeoutMs,
      encoding,
      ...(maxBytes === undefined ? {} : { maxBytes }),
      ...(stdin === undefined ? {} : { stdin }),
      ...(signal === undefined ? {} : { signal }),
    });
  };
  if (env["GIT_DIR"] === undefined) Object.assign(base, await pinnedPlace(run, cwd));
  const judge = new SettingsJudge(run, {
    cwd,
    gitDir: base["GIT_DIR"],
    top: base["GIT_WORK_TREE"],
    home: base["HOME"] ?? "",
  });
  const ask: Git = async (args, options = {}) => {
    Object.assign(base, settingsEnv([...FIXED, ...(await judge.overridesFor(args, options))]));
    LISTED.set(ask, judge.listed);
    return run(cwd, args, options);
  };
  await judge.look();
  LISTED.set(ask, judge.listed);
  return ask;
}

function baseVariables(env: Env): Record<string, string> {
  const base: Record<string, string> = {
    LC_ALL: "C",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    GIT_NO_LAZY_FETCH: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_GRAFT_FILE: "/dev/null",
  };
  for (const name of USER_VARIABLES) {
    const value = env[name];
    // A relative path would lead into the repository.
    if (value !== undefined && (!SETTINGS_FILES.has(name) || isAbsolute(value))) base[name] = value;
  }
  return base;
}

/** What the settings were when a repository was asked last. */
const LISTED = new WeakMap<Git, string>();

interface Unfiltered {
  readonly filter: string;
  /** One character per byte. */
  readonly paths: readonly string[];
  readonly required: boolean;
}

/** A disabled filter that git would need to store or check out some of these paths. With `index`, its attributes count. */
export async function unfiltered(
  git: Git,
  way: "clean" | "smudge",
  paths: () => Promise<readonly string[]>,
  index?: string,
): Promise<Unfiltered | null> {
  const off = new Map([...filtersOff(LISTED.get(git) ?? "")].filter(([, filter]) => filter[way]));
  if (off.size === 0) return null;
  // Git is asked in text.
  const texts = (await paths()).map((path) => Buffer.from(path, "latin1")).filter((path) => isUtf8(path));
  const stdin = texts.map((path) => `${path.toString()}\0`).join("");
  const ask = ["check-attr", ...(index === undefined ? [] : ["--cached"]), "-z", "--stdin", "filter"];
  const env = index === undefined ? {} : { GIT_INDEX_FILE: index };
  const { stdout } = await git(ask, { env, stdin, encoding: "latin1", maxBytes: MOST_LISTED });
  const fields = stdout.split("\0");
  const found = new Map<string, string[]>();
  for (let at = 0; at + 2 < fields.length; at += 3) {
    const [path = "", , value = ""] = fields.slice(at, at + 3);
    const filter = Buffer.from(value, "latin1").toString();
    if (off.has(filter)) found.set(filter, [...(found.get(filter) ?? []), path]);
  }
  const all = [...found].map(([filter, named]) => ({
    filter,
    paths: named,
    required: off.get(filter)?.required === true,
  }));
  return all.find(({ required }) => required) ?? all[0] ?? null;
}

/** Why git cannot convert these files, and how to allow the filter. It does not print the program, which is the repository's. */
export function filterWords({ filter, paths }: Unfiltered): { readonly why: string; readonly help: string } {
  const name = harmlessLine(filter, 100);
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : "";
  const first = spelled(Buffer.from((paths[0] ?? "").slice(0, 200), "latin1"));
  return {
    why: `${first}${more} ${more === "" ? "needs" : "need"} the git filter ${name}, which only the repository's own settings name, so Reprise does not run it`,
    help: `If you trust the filter, copy what \`git config --get-regexp ^filter.${name}.\` shows to your own settings (git config --global)`,
  };
}

/** Files that a checkout of the commit would leave unconverted. */
export async function unfilteredIn(deps: Deps, git: Git, commit: string): Promise<Unfiltered | null> {
  const index = join(deps.state.root, `.tmp-${process.pid}-${randomBytes(6).toString("hex")}`);
  const env = { GIT_INDEX_FILE: index };
  const all = async () => {
    await git(["read-tree", commit], { env });
    const { stdout } = await git(["ls-files", "-z"], { env, encoding: "latin1", maxBytes: MOST_LISTED });
    return stdout.split("\0").filter(Boolean);
  };
  try {
    return await unfiltered(git, "smudge", all, index);
  } finally {
    removeQuietly(index);
  }
}

/** Enough for the names of all files of a large repository. */
export const MOST_LISTED = 256 << 20;

/** What git keeps for this worktree alone. Null: its `.git` leads to no such directory. */
export function gitDirectoryOf(tree: string): string | null {
  const named = /^gitdir: (.+)\n?$/.exec(readSmallText(join(tree, ".git")) ?? "")?.[1];
  const gitDir = named === undefined ? null : realPath(resolve(tree, named));
  return gitDir !== null && basename(dirname(gitDir)) === "worktrees" ? gitDir : null;
}

/**
 * Whether the repository lists this worktree under that directory. A worktree that moved with the state directory is listed
 * by its old path.
 */
export function leadsBack(deps: Pick<Deps, "state" | "machine">, gitDir: string, tree: string): boolean {
  const known = readSmallText(join(gitDir, "gitdir"))?.trim() ?? "";
  const moved = isOriginal(deps) ? movedState(deps.state.root, dirname(known)) : null;
  const back = realPath(moved === null ? known : join(moved.now, basename(known)));
  return back !== null && back === realPath(join(tree, ".git"));
}

/** The repositories that a checkout at or above this directory needs, including those that keep objects for it. */
export function repositoriesOf(directory: string): readonly string[] {
  for (let at = directory; ; at = dirname(at)) {
    const link = join(at, ".git");
    const named = /^gitdir: (.+)\n?$/.exec(readSmallText(link) ?? "")?.[1];
    const gitDir = realPath(named === undefined ? link : resolve(at, named));
    if (gitDir !== null) return [gitDir, ...borrowedBy(gitDir)];
    if (dirname(at) === at) return [];
  }
}

function borrowedBy(gitDir: string): readonly string[] {
  const common = realPath(resolve(gitDir, commonOf(gitDir)));
  return common === null ? [] : [common, ...alternatesOf(common)];
}

/** The same for a path that a remote names: a checkout, or a repository without one. */
export function repositoriesAt(path: string): readonly string[] {
  return readSmallText(join(path, "HEAD")) === null ? repositoriesOf(path) : [path, ...borrowedBy(path)];
}

/** The checkout at or above this directory and, for a worktree, the main checkout. Empty: not in a repository. */
export function checkoutsOf(directory: string): readonly string[] {
  for (let at = directory; ; at = dirname(at)) {
    const link = join(at, ".git");
    // An empty folder with that name is not a repository.
    if (readSmallText(link)?.startsWith("gitdir: ") === true || realPath(join(link, "HEAD")) !== null) {
      const gitDir = gitDirectoryOf(at);
      const common = gitDir === null ? "" : commonOf(gitDir);
      const main = gitDir === null || common === "" ? null : realPath(resolve(gitDir, common));
      // A bare repository has no main checkout.
      return [at, main !== null && basename(main) === ".git" ? dirname(main) : at];
    }
    if (dirname(at) === at) return [];
  }
}

function commonOf(gitDir: string): string {
  return readSmallText(join(gitDir, "commondir"))?.trim() ?? "";
}

/** Other directories in which git looks for the objects of a repository. */
export function alternatesOf(common: string): readonly string[] {
  return (readSmallText(join(common, "objects/info/alternates")) ?? "")
    .split("\n")
    .filter(Boolean)
    .flatMap((path) => realPath(resolve(common, "objects", path)) ?? []);
}

export interface Hidden {
  readonly path: string;
  /** The file with the rule that hides it. Empty: no rule. */
  readonly source: string;
}

/** The rule that makes git ignore each of these untracked paths. Paths are bytes. */
export async function hidingRules(git: Git, paths: readonly string[]): Promise<readonly Hidden[]> {
  // Git is asked in text.
  const texts = new Map(
    paths.map((path) => [path, Buffer.from(path, "latin1")] as const).filter(([, bytes]) => isUtf8(bytes)),
  );
  if (paths.length === 0) return [];
  const stdin = [...texts.values()].map((bytes) => `${bytes.toString()}\0`).join("");
  const { stdout } = await git(["check-ignore", "--verbose", "--stdin", "-z"], { encoding: "latin1", stdin });
  const fields = stdout.split("\0");
  const sources = new Map<string, string>();
  for (let at = 0; at + 3 < fields.length; at += 4) {
    const [source = "", , pattern = "", path = ""] = fields.slice(at, at + 4);
    if (!pattern.startsWith("!")) sources.set(path, source);
  }
  return paths.map((path) => ({ path, source: sources.get(path) ?? "" }));
}

/** The commits in the output of `cat-file --batch-check`. */
export function commitsIn(kinds: string): readonly string[] {
  return [...kinds.matchAll(/^([0-9a-f]+) commit /gm)].map(([, id = ""]) => id);
}
