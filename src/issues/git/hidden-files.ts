/** Work that git would overlook: flags in the index, ignore rules that nobody committed, branches that the agent moved. */
import { isUtf8 } from "node:buffer";
import { dirname, join } from "node:path";
import { modifiedAtMs, readSmallText, realPath } from "../../state/places.ts";
import { isCache, kindAt } from "../../state/tree.ts";
import { type Git, hidingRules } from "../../run/git.ts";
import { BYTES, entriesOf, is, namedPaths } from "./paths.ts";
import {
  type CommitRefusal,
  type CommitResult,
  runWithLockRetry,
  shortOf,
  textOf,
  type WorktreeState,
} from "./worktree.ts";

/**
 * Clears flags that make git skip files. Files outside a sparse checkout do not exist and keep theirs. Null: no existing
 * file has such a flag any more.
 */
export async function clearFlags(git: Git, { worktree }: WorktreeState): Promise<CommitRefusal | null> {
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
        left: `${namedPaths(odd)} ${is(odd, "has a flag", "have flags")} that ${is(odd, "hides it", "hide them")} from git`,
      };
    const stdin = paths.map((path) => `${Buffer.from(path, "latin1").toString()}\0`).join("");
    if (paths.length > 0)
      await runWithLockRetry(git, worktree, ["update-index", "-z", flag, "--stdin"], { stdin });
  }
  return null;
}

/** New files that an uncommitted rule hides from git. Rules in the user's own settings are valid. */
export async function hiddenFiles(git: Git, place: WorktreeState): Promise<CommitResult> {
  const list = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
  const rules = [...(await hidingRules(git, entriesOf((await git([...list, "--directory"], BYTES)).stdout)))];
  // Git lists a folder as ignored if rules ignore all of its files.
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
    const doubt = await ruleOrigin(git, place, source);
    if (doubt !== null) doubted.set(source, doubt);
  }
  const by = (doubt: string) => rules.filter(({ source }) => doubted.get(source) === doubt);
  const [set, unsaved] = [by("setting"), by("new")];
  const sourcesOf = (hidden: typeof set) => namedPaths([...new Set(hidden.map(({ source }) => source))]);
  const paths = (hidden: typeof set) => hidden.map(({ path }) => path);
  const left =
    set.length === 0
      ? null
      : `${namedPaths(paths(set))} ${is(set)} on no branch: ${sourcesOf(set)}, which changed since the work began, hides ${is(set, "it", "them")} from git`;
  const note = `${namedPaths(paths(unsaved))} ${is(unsaved)} not on the branch: ${sourcesOf(unsaved)}, which is not committed, hides ${is(unsaved, "it", "them")} from git`;
  const help =
    "If that is right, move the rule to a .gitignore that you commit, or to your own ignore file (git config --global core.excludesFile)";
  return { left, ...(left === null ? {} : { help }), notes: unsaved.length === 0 ? [] : [note] };
}

/** Where a rule comes from. Null: committed, or the user's own. `source` has one character per byte. */
async function ruleOrigin(
  git: Git,
  { worktree, gitDir, bornMs }: WorktreeState,
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

/** Branches of other people that the agent moved, from the worktree's reflog. */
export async function movedByAgent(
  git: Git,
  { gitDir, ref, bornMs }: WorktreeState,
): Promise<readonly string[]> {
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
