/** Merges of finished branches into the checkout, and the git filters that a batch needs. */
import { lstatSync } from "node:fs";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { shellLine } from "../../lib/shell.ts";
import { filterWords, openGit, unfiltered, unfilteredIn } from "../../run/git.ts";
import type { Deps } from "../../run/run.ts";
import { git, gitText } from "../repository.ts";
import { BYTES, entriesOf, is, namedPaths } from "./paths.ts";
import { operationInCheckout } from "./unfinished.ts";

/** The branch that is checked out. Null: none, or no repository. */
export async function checkedOutBranch(deps: Deps, root: string): Promise<string | null> {
  const ref = await gitText(deps, root, ["symbolic-ref", "--quiet", "HEAD"]);
  return ref?.startsWith(HEADS) === true ? ref.slice(HEADS.length) : null;
}

const HEADS = "refs/heads/";

/** The branch that a batch merges into: the recorded branch, or the branch that is checked out when the batch begins. */
export async function mergeTarget(deps: Deps, root: string, recorded: string | null): Promise<string> {
  const target = recorded ?? (await checkedOutBranch(deps, root));
  if (target !== null) return target;
  throw new Fault(
    "cwd_invalid",
    `--merge needs a branch to merge into, and no branch is checked out in ${root}. Check one out with \`git switch\`, or omit --merge.`,
    { facts: { repository: root } },
  );
}

/** One merge at a time: the agents of a batch share the checkout. */
export async function mergeInTurn(
  context: { readonly deps: Deps; readonly root: string; merging: Promise<void> },
  branch: string,
  target: string,
): Promise<void> {
  const turn = context.merging.then(() => mergeWork(context.deps, context.root, branch, target));
  context.merging = turn.catch(() => {});
  await turn;
}

/** Merges into `target`, if it is checked out. Aborts on a conflict and reports it; does not touch an operation of the user. */
export async function mergeWork(deps: Deps, root: string, branch: string, target: string): Promise<void> {
  if (await isMerged(deps, root, branch, target)) return;
  await assertCheckout(deps, root, branch, target);
  await assertFiltersForMerge(deps, root, branch);
  await assertNothingReplaced(deps, root, branch);
  // The user may have changed the checkout meanwhile.
  await assertCheckout(deps, root, branch, target);
  const merged = await git(deps, root, ["merge", "--no-ff", "--no-edit", "--quiet", branch]);
  if (merged?.code === 0 && (await isMerged(deps, root, branch, target))) return;
  if (merged?.code !== 0 && (await isMerging(deps, root))) await git(deps, root, ["merge", "--abort"]);
  const said = harmlessLine(`${merged?.stdout ?? ""} ${merged?.stderr ?? ""}`.trim(), 300);
  const why = merged?.code === 0 ? `${target} does not have its commits` : said.replace(/\.$/, "");
  throw new Fault(
    "work_unsaved",
    `${branch} could not be merged into ${target}: ${why}. Merge it yourself, in the repository: ${mergeWords(branch)}`,
    { facts: { branch, target } },
  );
}

const mergeWords = (branch: string) => shellLine(["git", "merge", branch]);

async function isMerging(deps: Deps, root: string): Promise<boolean> {
  return (await gitText(deps, root, ["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])) !== null;
}

/** The target has all commits of the branch. */
async function isMerged(deps: Deps, root: string, branch: string, target: string): Promise<boolean> {
  const ask = ["merge-base", "--is-ancestor", `${HEADS}${branch}`, `${HEADS}${target}`];
  return (await git(deps, root, ask))?.code === 0;
}

/** Refuses any other branch than the target, and a checkout in the middle of an operation. */
async function assertCheckout(deps: Deps, root: string, branch: string, target: string): Promise<void> {
  const refused = (why: string) =>
    new Fault("work_unsaved", `${branch} could not be merged into ${target}: ${why}`, {
      facts: { branch, target },
    });
  if (await isMerging(deps, root))
    throw refused(
      `another merge is in progress in ${root}. Finish it with \`git commit\`, or abort it with \`git merge --abort\`; then: ${mergeWords(branch)}`,
    );
  const operation = await operationInCheckout(await openGit(deps, root));
  if (operation !== null)
    throw refused(
      `${operation} is in progress in ${root}. Finish it, check out ${target}, then: ${mergeWords(branch)}`,
    );
  const current = await checkedOutBranch(deps, root);
  if (current === target) return;
  if ((await gitText(deps, root, ["rev-parse", "--verify", "--quiet", `${HEADS}${target}`])) === null)
    throw refused(
      `that branch is gone. Check out the branch that is to have the work, type ${mergeWords(branch)}, and close the issue yourself`,
    );
  const now = current === null ? "no branch" : current;
  throw refused(
    `${now} is checked out in ${root}. Type: ${shellLine(["git", "switch", target])} && ${mergeWords(branch)}`,
  );
}

/** Without its filter, a merge would put the stored form of files into the user's checkout. */
async function assertFiltersForMerge(deps: Deps, root: string, branch: string): Promise<void> {
  const ask = await openGit(deps, root);
  const merged = async () =>
    entriesOf((await ask(["diff", "--name-only", "-z", `HEAD...${branch}`], { encoding: "latin1" })).stdout);
  const found = await unfiltered(ask, "smudge", merged);
  if (found === null) return;
  const { why, help } = filterWords(found);
  throw new Fault(
    "work_unsaved",
    `${branch} could not be merged: ${why}. ${help}; or merge it yourself, in the repository: ${mergeWords(branch)}`,
    { facts: { branch } },
  );
}

/** Git itself silently replaces ignored files, and files that index flags hide from it. */
async function assertNothingReplaced(deps: Deps, root: string, branch: string): Promise<void> {
  const ask = await openGit(deps, root);
  const pathsIn = async (...args: readonly string[]) => entriesOf((await ask(args, BYTES)).stdout);
  const changes = ["diff", "--name-only", "--no-renames", "-z"];
  const added = await pathsIn(...changes, "--diff-filter=A", `HEAD...${branch}`);
  const tracked = new Set(await pathsIn("ls-files", "-z"));
  const changed = new Set(await pathsIn(...changes, `HEAD...${branch}`));
  const flagged = (await pathsIn("ls-files", "-v", "-z")).filter((entry) => /^[a-z] /.test(entry));
  const replaced = [
    ...new Set(added.flatMap((path) => (tracked.has(path) ? [] : (inTheWay(root, path) ?? [])))),
    ...flagged.map((entry) => entry.slice(2)).filter((path) => changed.has(path)),
  ];
  if (replaced.length === 0) return;
  throw new Fault(
    "work_unsaved",
    `${branch} could not be merged: it would replace ${namedPaths(replaced)} in ${root}, which git ignores or an index flag hides. Move ${is(replaced, "it", "them")} away, then merge it yourself, in the repository: ${mergeWords(branch)}`,
    { facts: { branch } },
  );
}

/** The file, or its parent that is not a directory, which exists already. */
function inTheWay(root: string, path: string): string | null {
  const parts = path.split("/");
  for (let length = 1; length <= parts.length; length += 1) {
    const above = parts.slice(0, length).join("/");
    const found = lstatSync(Buffer.from(`${Buffer.from(root).toString("latin1")}/${above}`, "latin1"), {
      throwIfNoEntry: false,
    });
    if (found === undefined) return null;
    if (length === parts.length || !found.isDirectory()) return above;
  }
  return null;
}

/** Refuses, before the first claim, a filter that every worktree needs. */
export async function assertFilters(deps: Deps, root: string): Promise<void> {
  const found = await unfilteredIn(deps, await openGit(deps, root), "HEAD");
  if (found?.required !== true) return;
  const { why, help } = filterWords(found);
  throw new Fault(
    "cwd_invalid",
    `${why}: worktrees would contain the stored form of these files. ${help}, or work in the checkout as it is: --isolate none.`,
    { facts: { repository: root, filter: found.filter } },
  );
}
