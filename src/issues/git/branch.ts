/** Names of branches and commits for issues, and the commits that they point to. */
import { createHash } from "node:crypto";
import { harmlessLine } from "../../lib/harmless.ts";
import { type Redact, redactor } from "../../lib/secrets.ts";
import type { Deps } from "../../run/run.ts";
import { gitText } from "../repository.ts";
import type { Issue } from "../sources/source.ts";

/** Branches and commits are pushed: a secret in a title stays out of them. */
const LOOKS_SECRET = redactor([]);
const MAX_SLUG = 40;
const MAX_SUBJECT = 200;
/** Of a title. Far more than is shown, so that a secret is seen whole where it is cut. */
const MOST_READ = 4_096;

/** `reprise/<id>-<slug>`: whatever a title says, git takes it for a branch. Another number where it is taken. */
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
  // To git a branch is a file, and one below it makes it a directory.
  const isFree = (wanted: string) =>
    !taken.has(wanted) && ![...taken].some((other) => other.startsWith(`${wanted}/`));
  if (isFree(name)) return name;
  for (let n = 2; ; n += 1) if (isFree(`${name}-${n}`)) return `${name}-${n}`;
}

/** The message of a commit: one line, whatever a title says. */
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

/** Those of them that are there and have a commit that the checkout lacks. */
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

/** Null: no commit yet, or no repository. */
export function headCommit(deps: Deps, cwd: string): Promise<string | null> {
  return gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
}
