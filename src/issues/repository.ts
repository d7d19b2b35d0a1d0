/** The repository of a batch as git sees it, and its issue source. */
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { makeDirectory } from "../state/files.ts";
import { resolveDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import {
  accessTo,
  type AccessOptions,
  baseRemote,
  parseRemote,
  type Repository,
  remotesIn,
} from "../github/github.ts";
import { type GitOptions, openGit } from "../run/git.ts";
import type { Deps } from "../run/run.ts";
import { BEADS_FILE, openBeads } from "./sources/beads.ts";
import { openGitHubIssues } from "./sources/github.ts";
import { MARKDOWN_FOLDER, openMarkdown } from "./sources/markdown.ts";
import type { IssueSource } from "./sources/source.ts";

export interface SourceOptions extends AccessOptions {
  /** Null: Beads, else Markdown. GitHub only if named. */
  readonly kind: "beads" | "markdown" | "github" | null;
  /** `owner/name`. Null: from the clone's remote. */
  readonly repository: string | null;
}

const HTTP_TIMEOUT_MS = 30_000;
const MAX_REPLY = 64 * 1024 * 1024;

/** The top of the directory's repository, or the directory itself outside a repository. */
export async function repositoryRoot(deps: Deps, directory: string): Promise<string> {
  const cwd = resolveDirectory(directory);
  const top = await gitText(deps, cwd, ["rev-parse", "--show-toplevel"]);
  return top === null ? cwd : resolveDirectory(top);
}

/** A name for files about this repository: readable, and different for every path. */
export function repositorySlug(root: string): string {
  const name = basename(root)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 40);
  return `${name === "" ? "repository" : name}-${createHash("sha256").update(root).digest("hex").slice(0, 8)}`;
}

export async function openSource(deps: Deps, root: string, options: SourceOptions): Promise<IssueSource> {
  const { kind } = options;
  if (kind === "github") return openGitHub(deps, root, options);
  const beads = kind === "markdown" ? null : await openBeads(deps, root);
  const source = beads ?? (kind === "beads" ? null : openMarkdown(deps.clock, root));
  if (source !== null) return source;
  const wanted = [
    ...(kind === "markdown" ? [] : [BEADS_FILE]),
    ...(kind === "beads" ? [] : [`${MARKDOWN_FOLDER}/*.md`]),
  ];
  throw new Fault(
    "issues_missing",
    `${root} has no issues: there is no ${wanted.join(" and no ")}. Write ${MARKDOWN_FOLDER}/first.md, or name a source: --source github.`,
    { facts: { repository: root, looked: wanted } },
  );
}

async function openGitHub(deps: Deps, root: string, options: SourceOptions): Promise<IssueSource> {
  const repository = await repositoryOnGitHub(deps, root, options);
  const access = accessTo(repository.host, options, deps.env);
  for (const warning of access.warnings) deps.log.warn(warning);
  const directory = join(deps.state.root, "issues");
  const cache = join(directory, "cache");
  for (const path of deps.state.writable ? [directory, cache] : []) makeDirectory(path);
  return openGitHubIssues(repository, {
    access,
    missing: { what: "repository or issue", code: "issues_missing" },
    cacheDirectory: deps.state.writable ? cache : null,
    timeoutMs: HTTP_TIMEOUT_MS,
    maxBytes: MAX_REPLY,
    now: () => deps.clock.now(),
  });
}

async function repositoryOnGitHub(deps: Deps, root: string, options: SourceOptions): Promise<Repository> {
  const given = options.repository;
  if (given !== null) {
    const found = parseRemote(/^[^/]+\/[^/]+$/.test(given) ? `https://github.com/${given}` : given);
    if (found !== null) return found;
    throw new Fault("usage", `--repo takes owner/name or a URL, not ${JSON.stringify(given.slice(0, 100))}.`);
  }
  const remote = baseRemote(remotesIn((await gitText(deps, root, ["remote", "-v"])) ?? ""));
  if (remote !== null) return remote;
  throw new Fault("usage", `${root} has no remote on GitHub. Name the repository: --repo owner/name.`, {
    facts: { repository: root },
  });
}

/** Null: git is missing or failed. */
export async function gitText(deps: Deps, cwd: string, args: readonly string[]): Promise<string | null> {
  const { code, stdout } = (await git(deps, cwd, args)) ?? { code: 1, stdout: "" };
  return code === 0 ? stdout.replace(/(?<!\n)\n+$/, "") : null;
}

const GIT_TIMEOUT_MS = 120_000;
/** Null: git is not installed. Runs no program from a repository's settings: an agent could have written them. */
export async function git(
  deps: Deps,
  cwd: string,
  args: readonly string[],
  options: GitOptions = {},
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string } | null> {
  if (deps.processes.resolveProgram("git", deps.env) === null) return null;
  return (await openGit(deps, cwd))(args, { timeoutMs: GIT_TIMEOUT_MS, ...options });
}
