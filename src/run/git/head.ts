/** The commit that is checked out, read from git's files alone: no program runs, so a start costs a few reads. */
import { dirname, join, resolve } from "node:path";
import { readSmallText, realPath } from "../../state/places.ts";

const ID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

export interface CheckedOut {
  /** The top of the checkout. */
  readonly top: string;
  /** Null: the branch has no commit yet. */
  readonly commit: string | null;
}

export interface GitFiles {
  /** The index of this checkout, which may not exist yet. */
  readonly index: string;
  readonly objects: string;
}

/** Where git keeps the index and the objects of the checkout with this top. */
export function gitFilesAt(top: string): GitFiles | null {
  const gitDir = gitDirAt(top);
  return gitDir === null
    ? null
    : { index: join(gitDir, "index"), objects: join(commonOf(gitDir), "objects") };
}

function gitDirAt(top: string): string | null {
  const link = join(top, ".git");
  const named = /^gitdir: (.+)\n?$/.exec(readSmallText(link) ?? "")?.[1];
  return named === undefined ? link : realPath(resolve(top, named));
}

/** What worktrees of one repository share. */
function commonOf(gitDir: string): string {
  return resolve(gitDir, readSmallText(join(gitDir, "commondir"))?.trim() ?? "");
}

/** Null: the directory is in no repository, or only git can tell (reftable, a branch that is a link to another). */
export function checkedOutAt(directory: string): CheckedOut | null {
  for (let top = directory; ; top = dirname(top)) {
    const gitDir = gitDirAt(top);
    const head = gitDir === null ? null : readSmallText(join(gitDir, "HEAD"))?.trim();
    if (gitDir !== null && head !== null && head !== undefined) {
      const commit = commitOf(gitDir, head);
      return commit === undefined ? null : { top, commit };
    }
    if (dirname(top) === top) return null;
  }
}

/** Undefined: these files do not tell. */
function commitOf(gitDir: string, head: string): string | null | undefined {
  if (ID.test(head)) return head;
  const ref = /^ref: (refs\/(?!heads\/\.invalid$).+)$/.exec(head)?.[1];
  if (ref === undefined || ref.split("/").includes("..")) return undefined;
  const common = commonOf(gitDir);
  const loose = readSmallText(join(common, ref))?.trim();
  if (loose !== undefined) return ID.test(loose) ? loose : undefined;
  const packed = readSmallText(join(common, "packed-refs"));
  const line = packed?.split("\n").find((one) => one.endsWith(` ${ref}`));
  const found = line?.slice(0, line.indexOf(" "));
  return found === undefined ? null : ID.test(found) ? found : undefined;
}
