/** Names of branches and commits for issues, and the commits that they point to. */
import { createHash } from "node:crypto";
import { harmlessLine } from "../../lib/harmless.ts";
import { type Redact, redactor } from "../../lib/secrets.ts";
import type { Deps } from "../../run/run.ts";
import { gitText } from "../repository.ts";
import type { Issue } from "../sources/source.ts";

/** People push branches and commits, so secrets of a title stay out of them. */
const LOOKS_SECRET = redactor([]);
const MAX_SLUG = 40;
const MAX_SUBJECT = 200;
/** Characters of a title. Far more than shown, so that the redactor sees a whole secret at the cut. */
const MOST_READ = 4_096;

/** `reprise/<id>-<slug>`, always a valid branch name; with a number if the name is in use. */
export function branchFor(
  { id, title }: Pick<Issue, "id" | "title">,
  taken: ReadonlySet<string>,
  redact: Redact = LOOKS_SECRET,
): string {
  const slug = redact(title.slice(0, MOST_READ))
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, MAX_SLUG)
    .replace(/^-+|-+$/g, "");
  const name = `reprise/${id}-${slug === "" ? createHash("sha256").update(title).digest("hex").slice(0, 8) : slug}`;
  // Git stores a branch as a file, so no other branch can be below it.
  const isFree = (wanted: string) =>
    !taken.has(wanted) && ![...taken].some((other) => other.startsWith(`${wanted}/`));
  if (isFree(name)) return name;
  for (let n = 2; ; n += 1) if (isFree(`${name}-${n}`)) return `${name}-${n}`;
}

/** The message of a commit: always one line. */
export function subjectFor({ id, title }: Pick<Issue, "id" | "title">, redact: Redact): string {
  const words = redact(title.slice(0, MOST_READ)).replace(/\s+/g, " ");
  return harmlessLine(`${id}: ${words}`, MAX_SUBJECT);
}

export async function ourBranches(deps: Deps, root: string): Promise<Set<string>> {
  const found = await gitText(deps, root, [
    "for-each-ref",
    "--format=%(refname:short)",
    "refs/heads/reprise",
  ]);
  return new Set((found ?? "").split("\n").filter((name) => name !== ""));
}

/** The existing branches with a commit that the checkout lacks. */
export async function branchesToMerge(
  deps: Deps,
  root: string,
  branches: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const branch of branches) {
    const commit = await gitText(deps, root, [
      "rev-list",
      "-n",
      "1",
      `refs/heads/${branch}`,
      "--not",
      "HEAD",
      "--",
    ]);
    if (commit !== null && commit !== "") found.push(branch);
  }
  return found;
}

/** Of the branch, or else of the checkout. Null: no commit yet, or no repository. */
export function headCommit(deps: Deps, cwd: string, branch: string | null = null): Promise<string | null> {
  const ref = branch === null ? "HEAD" : `refs/heads/${branch}`;
  return gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", `${ref}^{commit}`]);
}
