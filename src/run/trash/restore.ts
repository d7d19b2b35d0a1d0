/** Brings a removed run back from the trash: its recordings, its conversation, and its worktree with git's record of it. */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { assertOwnState } from "../../state/identity.ts";
import { lstat } from "../../state/files.ts";
import { dropNote, inTheWay, moveRunDir } from "../../state/trash.ts";
import { Fault } from "../../core/faults.ts";
import { shellWord } from "../../lib/shell.ts";
import type { Deps } from "../deps.ts";
import { mend, readRunDirectory } from "../index/rebuild.ts";
import { assertNotNeeded } from "../isolate.ts";
import { backOnBranch, checkoutOf, follow, type GitRecord, recordInTrash, unprotect } from "./git-record.ts";
import { findTrashed, holdingTrash, inTrash, listTrash, recordLost, type Trashed } from "./trash.ts";

export interface Restored {
  readonly runId: string;
  readonly handle: string;
  readonly runDirectory: string;
  /** Why HEAD of the worktree is not on its branch: a sentence. Null: it is, or it never was on one. */
  readonly note: string | null;
}

/** Throws `denied` if its place or its branch is in use, before it changes anything. */
export async function restoreRun(deps: Deps, given: string): Promise<Restored> {
  assertOwnState(deps);
  return holdingTrash(deps, async () => {
    const found = selectTrashed(deps, given);
    const record = recordInTrash(found.path);
    await assertFree(deps, found, record);
    const { runId, handle, branch } = found;
    const place = join(deps.state.runsRoot, runId);
    let isBack = true;
    if (record !== null) {
      // Git's record first: a killed restore leaves the run in the trash, and the next command leads the record back there.
      if (branch !== null) isBack = await backOnBranch(deps, record, branch);
      await follow(deps, record, join(place, "worktree"), "stays on its branch");
    }
    moveRunDir(deps.state, runId, "back");
    if (record !== null) await unprotect(deps, record, handle);
    dropNote(place);
    const run = await readRunDirectory(place, deps.log);
    if (run !== null) await mend(deps, run);
    return { runId, handle, runDirectory: place, note: isBack ? null : leftBranch(branch ?? "") };
  });
}

function leftBranch(branch: string): string {
  return `${shortOf(branch)} is gone or has moved on, so the worktree is on no branch: it is at the commit of the removal.`;
}

const shortOf = (branch: string) => branch.replace(/^refs\/heads\//, "");

function selectTrashed(deps: Deps, given: string): Trashed {
  const all = listTrash(deps);
  const [found, ...others] = findTrashed(deps, given);
  if (found !== undefined && others.length === 0) return found;
  const handles = (found === undefined ? all : [found, ...others]).map(({ handle }) => handle).join(", ");
  if (found !== undefined)
    throw new Fault(
      "handle_ambiguous",
      `${given} fits more than one removed run: ${handles}. Type more characters.`,
    );
  const there = handles === "" ? "The trash is empty." : `In the trash: ${handles}.`;
  throw new Fault("handle_unknown", `The trash has no run ${JSON.stringify(given)}. ${there}`, {
    facts: { given },
  });
}

function isBelow(place: string, folder: string): boolean {
  return [folder, realpathSync(folder)].some((one) => place.startsWith(`${one}/`));
}

async function assertFree(deps: Deps, found: Trashed, record: GitRecord | null): Promise<void> {
  const { runId, handle, path, branch } = found;
  const place = join(deps.state.runsRoot, runId);
  if (lstat(place) !== null) throw inTheWay(handle, place);
  const refuse = (why: string, facts: object) =>
    new Fault("denied", `Run ${handle} was not restored: ${why}`, { facts: { handle, ...facts } });
  if (found.record !== null && record === null) throw refuse(recordLost(found), { path });
  await assertNotNeeded(deps, inTrash(found), { what: `Run ${handle} was not restored`, discardWork: null });
  const other = record === null || branch === null ? null : await checkoutOf(deps, record, branch);
  // A removal that was killed may have left the branch checked out in the trash itself.
  if (other === null || isBelow(other, path)) return;
  throw refuse(
    `its branch ${shortOf(branch ?? "")} is checked out in ${other}. Free it first: git -C ${shellWord(other)} switch --detach`,
    { path: other },
  );
}
