/** Fingerprints of files, committed or not: whether an agent changed something, and what a gate wrote. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { removeQuietly } from "../../state/files.ts";
import { gitDirectoryOf } from "../../run/git.ts";
import type { Deps } from "../../run/run.ts";
import { git, gitText } from "../repository.ts";
import { headCommit } from "./branch.ts";

/**
 * A fingerprint of the work. Null: git cannot tell. Excludes the files of issues, which Reprise itself changes.
 */
export async function workFingerprint(deps: Deps, cwd: string, isolated: boolean): Promise<string | null> {
  if (isolated) return gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]);
  const tree = await fingerprint(deps, cwd, [":(exclude)issues", ":(exclude).beads"]);
  return tree === null ? null : `${(await headCommit(deps, cwd)) ?? "unborn"} ${tree}`;
}

/** The fingerprint of a commit, comparable with that of a worktree. */
export function treeOf(deps: Deps, root: string, commit: string): Promise<string | null> {
  return gitText(deps, root, ["rev-parse", "--verify", "--quiet", `${commit}^{tree}`]);
}

/** Equal for equal files, committed or not. Null: git cannot tell. */
export async function fingerprint(
  deps: Deps,
  cwd: string,
  except: readonly string[] = [],
): Promise<string | null> {
  const index = join(deps.state.root, `.tmp-${process.pid}-${randomBytes(6).toString("hex")}`);
  const options = { env: { GIT_INDEX_FILE: index } };
  try {
    const added = await git(deps, cwd, ["add", "-A", ".", ...except], options);
    if (added?.code !== 0) return null;
    const tree = await git(deps, cwd, ["write-tree"], options);
    return tree?.code === 0 ? tree.stdout.trim() : null;
  } finally {
    removeQuietly(index);
  }
}

/** Refs of the worktree only: the files before the last gate, and after it. */
export const GATE_REFS = {
  before: "refs/worktree/reprise/before-gate",
  after: "refs/worktree/reprise/after-gate",
};

/**
 * Records files that a gate writes, which are not the agent's work. `begins`: it runs next. `ended`: it has run. `found`:
 * it may have been killed, and no agent has worked since.
 */
export async function recordGateFiles(
  deps: Deps,
  cwd: string,
  when: "begins" | "ended" | "found",
): Promise<void> {
  // The agent may have replaced or removed the repository.
  if (gitDirectoryOf(cwd) === null) return;
  const ref = (name: string) => gitText(deps, cwd, ["rev-parse", "--verify", "--quiet", name]);
  if (when === "found" && ((await ref(GATE_REFS.before)) === null || (await ref(GATE_REFS.after)) !== null))
    return;
  const all = ["--untracked-files=normal", "--ignore-submodules=dirty"];
  const isClean = when !== "begins" && (await gitText(deps, cwd, ["status", "--porcelain", ...all])) === "";
  const after = when === "begins" ? null : isClean ? "HEAD^{tree}" : await fingerprint(deps, cwd);
  const stdin = [
    when === "begins" ? `update ${GATE_REFS.before} HEAD^{tree}` : "",
    after === null ? `delete ${GATE_REFS.after}` : `update ${GATE_REFS.after} ${after}`,
  ];
  await git(deps, cwd, ["update-ref", "--stdin"], { stdin: `${stdin.filter(Boolean).join("\n")}\n` });
}
