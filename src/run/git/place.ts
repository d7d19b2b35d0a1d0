/**
 * Where Reprise's own git works, and which settings hold there. An agent can change the settings of its repository and of the
 * submodules in it, put a link where its worktree was, and let a setting count on one branch or in one worktree alone.
 */
import { isUtf8 } from "node:buffer";
import { statSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { readSmallText, realPath } from "../../state/places.ts";
import { kindAt } from "../../state/tree.ts";
import type { ToolResult } from "../../core/deps.ts";
import { isErrno } from "../../core/errno.ts";
import { Fault } from "../../core/faults.ts";
import type { Deps } from "../deps.ts";
import {
  FIXED,
  namedFiles,
  noFilters,
  overrides,
  type Setting,
  settingsEnv,
  withoutScope,
} from "./settings.ts";

export interface GitOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  readonly timeoutMs?: number;
  /** Ends git. */
  readonly signal?: AbortSignal;
  /** `off`: not even the user's own filters run. They are slow, and may store something in the repository (LFS). */
  readonly filters?: "off";
  readonly maxBytes?: number;
  readonly encoding?: "utf8" | "latin1";
}

/** Runs git commands in one repository. */
export type Git = (args: readonly string[], options?: GitOptions) => Promise<ToolResult>;

/** Git in this directory. */
export type RunAt = (at: string, args: readonly string[], options?: GitOptions) => ReturnType<Git>;

/** False: a link leads from this directory of a run, or of a pipeline, to somewhere else. A directory that is gone leads nowhere. */
export function isOwnPlace({ state }: Pick<Deps, "state">, path: string): boolean {
  const now = realPath(path);
  const others = ["trash", "workspaces"].map((name) => join(state.root, name));
  return [state.runsRoot, ...others].every((root) => {
    const real = realPath(root);
    const above = [root, real].find((one) => one !== null && path.startsWith(`${one}${sep}`));
    if (now === null || real === null || above === undefined || above === null) return true;
    return now === join(real, relative(above, path));
  });
}

/** Git would read and write what the link leads to, with the user's rights and not the agent's. */
export function assertOwnPlace(deps: Pick<Deps, "state">, path: string): void {
  if (isOwnPlace(deps, path)) return;
  throw new Fault(
    "denied",
    `${path} is not the directory that Reprise made: a symbolic link leads to ${realPath(path)}. Put the directory itself back.`,
    { facts: { path } },
  );
}

/** Before any setting is judged: git refuses a folder that only looks like a repository. These questions run nothing. */
const UNJUDGED = settingsEnv([["safe.bareRepository", "explicit"]]);

/**
 * The repository that the directory belongs to, by variables: they count before `core.worktree` and `core.bare`, which an agent can
 * set. Git itself looks for it, so that it can refuse a repository of another user.
 */
export async function pinnedPlace(run: RunAt, cwd: string): Promise<Readonly<Record<string, string>>> {
  const found = await run(cwd, ["rev-parse", "--absolute-git-dir"], { env: UNJUDGED });
  assertEnded(cwd, found);
  // Every other question gets the same answer.
  if (found.code !== 0) return {};
  const gitDir = realPath(found.stdout.replace(/\n$/, ""));
  for (let at = realPath(cwd) ?? cwd; gitDir !== null; at = dirname(at)) {
    if (gitDirectoryAt(at) === gitDir) return { GIT_DIR: gitDir, GIT_WORK_TREE: at };
    if (dirname(at) === at) break;
  }
  // It belongs to no checkout: git before 2.38 takes any folder with the right names in it.
  return { GIT_DIR: "/dev/null" };
}

/** Without an answer, nothing is known about the settings, so git must not go on. */
function assertEnded(cwd: string, { code, timedOut }: ToolResult): void {
  if (code !== null) return;
  const why = timedOut ? "git did not answer in time" : "git was ended";
  throw new Fault("cwd_invalid", `Reprise could not read the git settings in ${cwd}: ${why}.`, {
    facts: { cwd, why },
  });
}

/** Where the `.git` in this directory leads. */
function gitDirectoryAt(directory: string): string | null {
  const link = realPath(join(directory, ".git"));
  const named = /^gitdir: (.+)\n?$/.exec((link === null ? null : readSmallText(link)) ?? "")?.[1];
  return named === undefined ? link : realPath(resolve(directory, named));
}

/** Questions for which git looks at no submodule's files. For all others it may run `git status` in each that is checked out. */
const SHALLOW = new Set(
  "cat-file check-attr check-ignore commit-tree config diff-tree for-each-ref hash-object ls-files ls-tree merge-base read-tree remote rev-list rev-parse symbolic-ref update-index update-ref worktree write-tree".split(
    " ",
  ),
);
const MOST_SUBMODULES = 1_000;
const MOST_BYTES = 256 << 20;

interface JudgedPlace {
  readonly cwd: string;
  readonly gitDir: string | undefined;
  readonly top: string | undefined;
  /** The user's, for a path that begins with `~/`. */
  readonly home: string;
}

/** The settings of one repository, read again when they may count differently. */
export class SettingsJudge {
  /** What `git config --list --show-scope --null` prints. */
  listed = "";
  #head: string | null = null;
  readonly #run: RunAt;
  readonly #place: JudgedPlace;

  constructor(run: RunAt, place: JudgedPlace) {
    this.#run = run;
    this.#place = place;
  }

  async look(): Promise<void> {
    this.#head = this.#headNow();
    this.listed = await listedIn(this.#run, this.#place.cwd);
  }

  /** What git must be told for this question. */
  async overridesFor(args: readonly string[], options: GitOptions): Promise<readonly Setting[]> {
    const judged = [...(await this.#judged(args, options)), ...this.#unread()];
    return options.filters === "off" ? [...judged, ...noFilters(this.listed)] : judged;
  }

  async #judged(args: readonly string[], { env = {} }: GitOptions): Promise<readonly Setting[]> {
    const head = this.#headNow();
    if (head === null || head !== this.#head) await this.look();
    const command = args.find((arg, at) => arg !== "-c" && args[at - 1] !== "-c") ?? "";
    if (SHALLOW.has(command)) return overrides(this.listed);
    const { cwd, top = cwd } = this.#place;
    return overrides(this.listed + (await listedBelow(this.#run, { cwd, top, env }, new Set())));
  }

  /** Git would wait for a named pipe, and never come to the end of a device. */
  #unread(): readonly Setting[] {
    const { cwd, top = cwd, home } = this.#place;
    return namedFiles(this.listed)
      .filter(([, path]) => {
        const from = path.startsWith("~/") ? join(home, path.slice(2)) : path;
        return [cwd, top].some((at) => isOddFile(resolve(at, from)));
      })
      .map(([key]) => [key, "/dev/null"] as const);
  }

  /** The checked-out branch or commit, on which an include may depend. Null: only git can tell. */
  #headNow(): string | null {
    const { gitDir } = this.#place;
    if (gitDir === undefined || gitDir === "/dev/null") return "";
    const head = readSmallText(join(gitDir, "HEAD"));
    return head?.includes("refs/heads/.invalid") === true ? null : head;
  }
}

function isOddFile(path: string): boolean {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat !== undefined && !stat.isFile() && !stat.isDirectory();
  } catch (error) {
    if (isErrno(error)) return false;
    throw error;
  }
}

/** Reading settings runs nothing, and names those of included files as well. */
async function listedIn(run: RunAt, cwd: string, env: GitOptions["env"] = {}): Promise<string> {
  const options = { env: { ...env, ...UNJUDGED } };
  const listed = await run(cwd, ["config", "--list", "--show-scope", "--null"], options);
  assertEnded(cwd, listed);
  if (listed.code === 0) return listed.stdout;
  // Before git 2.26 nothing tells whose a setting is, so none is trusted.
  return withoutScope((await run(cwd, ["config", "--list", "--null"], options)).stdout);
}

interface Tree {
  readonly cwd: string;
  readonly top: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The settings of all submodules that are checked out, and of those in them. They inherit the options of the git call. */
async function listedBelow(run: RunAt, tree: Tree, seen: Set<string>): Promise<string> {
  const list = ["ls-files", "--stage", "-z", "--full-name", ":/"];
  const options = { encoding: "latin1", maxBytes: MOST_BYTES } as const;
  // To read the index, git may ask a program that watches the files.
  const env = { ...tree.env, ...settingsEnv(FIXED), GIT_LITERAL_PATHSPECS: "0" };
  const { stdout } = await run(tree.cwd, list, { ...options, env });
  const links = stdout.split("\0").filter((entry) => entry.startsWith("160000 "));
  let text = "";
  for (const path of links.map((entry) => entry.slice(entry.indexOf("\t") + 1))) {
    if (kindAt(tree.top, `${path}/.git`) === null) continue;
    const bytes = Buffer.from(path, "latin1");
    const at = isUtf8(bytes) ? realPath(join(tree.top, bytes.toString())) : null;
    if (at === null || seen.size >= MOST_SUBMODULES)
      throw new Fault("denied", `The git settings of the submodules in ${tree.top} cannot be read.`);
    if (seen.has(at)) continue;
    seen.add(at);
    // As git itself finds it.
    const own = { GIT_DIR: join(at, ".git"), GIT_WORK_TREE: at, PWD: at };
    text += await listedIn(run, at, own);
    text += await listedBelow(run, { cwd: at, top: at, env: own }, seen);
  }
  return text;
}
