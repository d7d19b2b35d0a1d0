/** The directories that belong to the place where the user is: the same folder in every worktree of the repository. */
import { readdirSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { readSmallText, realPath } from "../state/places.ts";
import { checkoutsOf } from "./git.ts";

/** Reads git's own list of worktrees and runs nothing: a repository may name programs. The directory itself comes first. */
export function placesHere(directory: string): readonly string[] {
  const [checkout, main] = checkoutsOf(directory);
  if (checkout === undefined || main === undefined) return [directory];
  const inside = relative(checkout, directory);
  const tops = [main, ...worktreesOf(commonOf(checkout))];
  return [...new Set([directory, ...tops.map((top) => join(top, inside))])];
}

/** The directory that all worktrees of a repository share. */
function commonOf(checkout: string): string {
  const link = join(checkout, ".git");
  const named = /^gitdir: (.+)\n?$/.exec(readSmallText(link) ?? "")?.[1];
  if (named === undefined) return link;
  const gitDir = resolve(checkout, named);
  return resolve(gitDir, readSmallText(join(gitDir, "commondir"))?.trim() ?? ".");
}

const MOST_WORKTREES = 10_000;

function worktreesOf(common: string): readonly string[] {
  return namesIn(join(common, "worktrees"))
    .slice(0, MOST_WORKTREES)
    .flatMap((name) => {
      const link = readSmallText(join(common, "worktrees", name, "gitdir"))?.trim() ?? "";
      if (basename(link) !== ".git") return [];
      const top = dirname(resolve(common, "worktrees", name, link));
      // A worktree that is gone may still have runs.
      return [realPath(top) ?? top];
    });
}

/** Empty: the directory is missing or unreadable. */
function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
