/** Files in git directories that git itself says nothing about, and that would go with a run. */
import { join } from "node:path";
import { entriesOf, fileSize, realPath } from "../state/places.ts";
import { isInside } from "./unsaved-commits.ts";

/** What git and its own tools write into the git directory of a worktree. */
const OF_GIT = new RegExp(
  `^(?:${[
    ...["HEAD", "index", "commondir", "gitdir", "locked", "config.worktree"],
    ...["logs", "refs", "reftable", "modules", "info", "rebase-merge", "rebase-apply", "sequencer"],
    ...["[A-Z_]+_HEAD", "[A-Z_]+_MSG", "[A-Z_]*EDITMSG~?", "EDIT_DESCRIPTION", "AUTO_MERGE"],
    ...["MERGE_[A-Z]+", "BISECT_[A-Z_]+", "NOTES_[A-Z_]+", "GITGUI_[A-Z]+"],
    ...["sharedindex\\..+", "index\\..+", "next-index-.+", "fsmonitor--daemon.*", "addp-hunk-edit\\.diff"],
    ...[".+\\.lock", "gc\\.pid", "gc\\.log", "gitk\\.cache"],
  ].join("|")})$`,
);

/** The first that somebody else put there; null: all is git's. */
export function madeByOthers(gitDir: string): string | null {
  const found = entriesOf(gitDir).find(({ name }) => !OF_GIT.test(name));
  return found === undefined ? null : join(gitDir, found.name);
}

/** A link in the refs or objects of a repository that leads into one of these directories; null: none does. */
export function linkInto(common: string, directories: readonly string[]): string | null {
  const places = ["objects", "refs", "packed-refs", "reftable"].map((name) => join(common, name));
  const links = [
    ...places,
    ...linksBelow(join(common, "refs"), 100),
    ...linksBelow(join(common, "objects"), 1),
  ];
  const leads = (path: string) => directories.some((directory) => isInside(realPath(path) ?? "", directory));
  return links.find(leads) ?? null;
}

function linksBelow(directory: string, depth: number): readonly string[] {
  return entriesOf(directory).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isSymbolicLink()) return [path];
    return entry.isDirectory() && depth > 0 ? linksBelow(path, depth - 1) : [];
  });
}

/** A large file of a repository that goes, and that the other repository does not have. Nothing tells what a server has. */
export function lfsOnlyIn(gitDir: string, other: string | null): string | null {
  const objects = join(gitDir, "lfs/objects");
  const isElsewhere = (name: string) => other !== null && fileSize(join(other, "lfs/objects", name)) !== null;
  return filesBelow(objects, "").find((name) => !isElsewhere(name)) ?? null;
}

function filesBelow(root: string, directory: string): readonly string[] {
  return entriesOf(join(root, directory)).flatMap((entry) => {
    const name = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(root, name) : [name];
  });
}
