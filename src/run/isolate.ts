/** Isolation: a new directory or a git worktree for the agent inside the run directory. */
import { basename, dirname, join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeDirectory } from "../state/files.ts";
import { isOriginal, type MovedState, movedState, stateMoved } from "../state/identity.ts";
import { directoryId, namesOf } from "../state/mounts.ts";
import { isDirectory, realPath, resolveDirectory } from "../state/places.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import type { Engine, Located } from "../engines/engine.ts";
import type { Deps } from "./deps.ts";
import { filterWords, type Git, gitDirectoryOf, openGit, repositoriesOf, unfilteredIn } from "./git.ts";
import { isOwnPlace } from "./git/place.ts";
import type { ResumeFacts } from "./resume/plan.ts";
import { liveOwner } from "./leases.ts";
import { isInside } from "./unsaved-commits.ts";

export interface Workplace {
  readonly cwd: string;
  /** Creates it. Its parent directory must exist. */
  make(): Promise<void>;
}

export interface WorkplaceRequest {
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  readonly isolate: "dir" | "worktree" | null;
  /** The branch to create for the worktree. Absent: no branch. */
  readonly branch?: string;
  /** The commit to begin at. Absent: the commit of `cwd`. */
  readonly from?: string;
}

/** Checks everything that can be checked before anything is recorded. `home` is the parent directory. */
export async function planWorkplace(deps: Deps, home: string, request: WorkplaceRequest): Promise<Workplace> {
  if (request.isolate === null) return { cwd: request.cwd, make: async () => {} };
  if (request.isolate === "dir") {
    const directory = join(home, "work");
    return { cwd: directory, make: async () => void makeDirectory(directory) };
  }
  const ask = await openGit(deps, request.cwd);
  const { top, commit } = await placeIn(ask, request);
  const worktree = join(home, "worktree");
  const inside = relative(top, request.cwd);
  if (inside !== "" && (await ask(["cat-file", "-t", `${commit}:${inside}`])).stdout.trim() !== "tree") {
    throw new Fault(
      "cwd_invalid",
      `A worktree would not contain ${request.cwd}: nothing in it is committed. Commit it first, or use a new directory instead (dir).`,
      { facts: { cwd: request.cwd } },
    );
  }
  const told = await tellUnfiltered(deps, ask, { cwd: request.cwd, commit });
  return {
    cwd: join(worktree, inside),
    make: async () => {
      await addWorktree(deps, request, worktree, commit);
      await checkOut(deps, request, { worktree, commit, told });
    },
  };
}

/** For a run that works inside a state directory that has moved since: the move. Null: no move. */
export function movedWith({ runDirectory, cwd }: Pick<RunRecord, "runDirectory" | "cwd">): MovedState | null {
  return movedState(dirname(dirname(runDirectory)), cwd);
}

/**
 * A symbolic link would send the agent somewhere else. The mode of the directory is the user's choice. A fork works in its
 * parent's directory.
 */
export function assertOwnWorkplace(run: RunRecord): void {
  const moved = movedWith(run);
  if (moved !== null)
    throw stateMoved(`Run ${run.handle}`, run.cwd, moved, `reprise resume ${run.handle} "…"`);
  const runsRoot = dirname(run.runDirectory);
  const [owner = "", kind = ""] = relative(runsRoot, run.cwd).split(sep);
  if (!isRunId(owner) || !isDirectory(run.cwd)) return;
  const place = join(resolveDirectory(join(runsRoot, owner)), kind);
  if (resolveDirectory(place) === place) return;
  throw new Fault(
    "denied",
    `${place} has unsafe ownership or permissions: it is a symbolic link. Put the directory itself there.`,
    { facts: { path: place, handle: run.handle } },
  );
}

/**
 * Variables that tell git which repository to use, whatever the directory is. Git sets some of them for aliases and hooks.
 * The list is that of `git rev-parse --local-env-vars`, and two more. Settings (`git -c`) stay, as git keeps them for submodules.
 */
const REPOSITORY_VARIABLES: ReadonlySet<string> = new Set([
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_CEILING_DIRECTORIES",
  "GIT_COMMON_DIR",
  "GIT_CONFIG",
  "GIT_DIR",
  "GIT_GRAFT_FILE",
  "GIT_IMPLICIT_WORK_TREE",
  "GIT_INDEX_FILE",
  "GIT_INTERNAL_SUPER_PREFIX",
  "GIT_NAMESPACE",
  "GIT_NO_REPLACE_OBJECTS",
  "GIT_OBJECT_DIRECTORY",
  "GIT_PREFIX",
  "GIT_REPLACE_REF_BASE",
  "GIT_SHALLOW_FILE",
  "GIT_WORK_TREE",
]);

/** The environment without variables that name a repository, so that git uses the directory alone. */
export function withoutRepository(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !REPOSITORY_VARIABLES.has(name)));
}

/** The environment for a process in `cwd`. In a directory that Reprise made, the user's git variables do not apply. */
export function environmentAt({ state }: Deps, cwd: string, env: Env): Env {
  const ours = [state.runsRoot, join(state.root, "workspaces")];
  return ours.some((place) => cwd.startsWith(`${place}${sep}`)) ? withoutRepository(env) : env;
}

/** The top of the repository and the commit, from one call of git. */
async function placeIn(
  ask: Git,
  { cwd, from = "HEAD" }: WorkplaceRequest,
): Promise<{ readonly top: string; readonly commit: string }> {
  // Git would take a leading dash for an option.
  const asked = from.startsWith("-") ? null : await ask(["rev-parse", "--show-toplevel", `${from}^{commit}`]);
  const [top = "", commit = ""] = asked?.stdout.split("\n") ?? [];
  if (asked?.code === 0) return { top: resolveDirectory(top), commit };
  throw new Fault(
    "cwd_invalid",
    `A worktree needs a git repository with a commit, and ${cwd} is not in one. Commit something, or leave out --isolate worktree.`,
    {
      facts: { cwd },
    },
  );
}

/** Refuses what the repository says cannot do without a filter that is off, and warns of the rest. Returns the filter's name. */
async function tellUnfiltered(
  deps: Deps,
  ask: Git,
  {
    cwd,
    commit,
    told = null,
  }: { readonly cwd: string; readonly commit: string; readonly told?: string | null },
): Promise<string | null> {
  const found = await unfilteredIn(deps, ask, commit);
  if (found === null || found.filter === told) return told;
  const { why, help } = filterWords(found);
  const text = `${why}: a worktree would have the stored form of ${found.paths.length === 1 ? "this file" : "these files"}. ${help}.`;
  if (found.required) throw new Fault("cwd_invalid", text, { facts: { cwd, filter: found.filter } });
  deps.log.warn(text);
  return found.filter;
}

const MAX_ADDS = 6;
const ADD_PATIENCE_MS = 40;

/** Git fails when another git process creates a worktree at the same moment. */
async function addWorktree(
  deps: Deps,
  { cwd, branch }: WorkplaceRequest,
  worktree: string,
  commit: string,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    // Such a failed try has already created the branch.
    const on = branch === undefined ? ["--detach"] : [tries === 1 ? "-b" : "-B", branch];
    // Other settings may hold in the worktree and on its branch, so nothing is checked out yet.
    const add = ["worktree", "add", "--no-checkout", ...on, worktree, commit];
    const { code, stderr } = await git(deps, cwd, add);
    if (code === 0) return;
    if (tries === MAX_ADDS || !/failed to read \S+\/commondir/.test(stderr)) {
      throw new Fault("cwd_invalid", `git could not make a worktree: ${stderr.slice(0, 400).trim()}`, {
        facts: { cwd },
      });
    }
    await sleep(ADD_PATIENCE_MS * tries);
  }
}

interface AddedWorktree {
  readonly worktree: string;
  readonly commit: string;
  /** The filter that the user has been warned of. */
  readonly told: string | null;
}

/** By the settings that hold in the worktree itself. A worktree that cannot be checked out goes, and its new branch with it. */
async function checkOut(
  deps: Deps,
  { cwd, branch }: WorkplaceRequest,
  { worktree, commit, told }: AddedWorktree,
): Promise<void> {
  try {
    const there = await openGit(deps, worktree);
    await tellUnfiltered(deps, there, { cwd, commit, told });
    await fillWorktree(there, cwd);
  } catch (error) {
    await git(deps, cwd, ["worktree", "remove", "--force", worktree]);
    if (branch !== undefined) await git(deps, cwd, ["update-ref", "-d", `refs/heads/${branch}`, commit]);
    throw error;
  }
}

async function fillWorktree(there: Git, cwd: string): Promise<void> {
  const { code, stderr } = await there(["reset", "--hard", "--quiet", "--no-recurse-submodules"]);
  if (code === 0) return;
  throw new Fault("cwd_invalid", `git could not fill a worktree: ${stderr.slice(0, 400).trim()}`, {
    facts: { cwd },
  });
}

/**
 * Git writes the index when all files are there: without one, Reprise died while it made the worktree, and an agent would find an
 * empty or half-filled one.
 */
export async function finishWorktree(deps: Deps, run: RunRecord): Promise<void> {
  const worktree = join(run.runDirectory, "worktree");
  if (run.attempts > 0 || run.launch.isolate !== "worktree" || !isOwnPlace(deps, worktree)) return;
  const gitDir = gitDirectoryOf(worktree);
  if (gitDir === null || realPath(join(gitDir, "index")) !== null) return;
  await fillWorktree(await openGit(deps, worktree), run.cwd);
}

/** Another run that needs the directory of this one. */
interface Need {
  readonly handle: string;
  /** As the end of a sentence about that run. */
  readonly how: string;
  /** The command that ends it. Null: it has ended, and may be resumed. */
  readonly stop: string | null;
}

/** A run at its place or in the trash. */
export type PlacedRun = Pick<RunRecord, "runId" | "handle" | "runDirectory" | "cwd">;

/**
 * Before a run's directory is moved or removed: another live run would lose its working directory, and --discard-work does not
 * cover other runs. `what` begins the sentence; `discardWork` is null where the command has no such option.
 */
export async function assertNotNeeded(
  deps: Deps,
  run: PlacedRun,
  { what, discardWork }: { readonly what: string; readonly discardWork: boolean | null },
): Promise<void> {
  const need = await neededBy(deps, run);
  if (need === null || (discardWork === true && need.stop === null)) return;
  const why = `${what}: run ${need.handle} ${need.how}`;
  const facts = { handle: run.handle, neededBy: need.handle };
  if (need.stop !== null) throw new Fault("run_busy", `${why}. End it first: ${need.stop}`, { facts });
  const or = discardWork === null ? "" : ", or add --discard-work: it cannot be resumed then";
  throw new Fault("work_unsaved", `${why}. Remove it first (reprise rm ${need.handle})${or}.`, { facts });
}

/** Live runs first. Null: no other run works in this directory or in a worktree whose repository is there. */
async function neededBy(deps: Deps, run: PlacedRun): Promise<Need | null> {
  const { runId, runDirectory } = run;
  const before = movedWith(run);
  const kind = basename(dirname(runDirectory));
  const roots = [...namesOf(runDirectory), ...(before === null ? [] : [join(before.from, kind, runId)])];
  const all = Number.POSITIVE_INFINITY;
  const inside = (path: string) => roots.some((root) => isInside(path, root));
  const asked = roots.flatMap((root) => [{ below: root }, { cwd: root }]);
  const found = await Promise.all(asked.map((filter) => deps.store.listRuns({ ...filter, limit: all })));
  const there = found.flat().map((one): Neighbour => [one, one.cwd]);
  const running = await deps.store.listRuns({ status: "running", limit: all });
  const ids = new Set(
    ["", "work", "worktree"].flatMap((name) => directoryId(join(runDirectory, name)) ?? []),
  );
  const isThere = ({ cwd }: RunRecord) => above(cwd).some((path) => ids.has(directoryId(path) ?? ""));
  const mounted = running.filter(isThere).map((one): Neighbour => [one, one.cwd]);
  const borrowing = running.flatMap((one) =>
    [...repositoriesOf(one.cwd), ...(one.engineHome === null ? [] : [realPath(one.engineHome) ?? ""])]
      .filter(inside)
      .map((path): Neighbour => [one, path]),
  );
  const needs: Need[] = [];
  for (const [other, path] of [...there, ...mounted, ...borrowing]) {
    if (other.runId === run.runId) continue;
    const same = path === run.cwd ? `the same directory, ${path}` : path;
    const how = path === other.cwd ? `works in ${same}` : `works in ${other.cwd} and needs ${path}`;
    const stop = await howToStop(deps, other);
    // A run of a dead owner is not live, whatever its record says.
    if (stop !== null || path === other.cwd) needs.push({ handle: other.handle, how, stop });
  }
  return needs.find(({ stop }) => stop !== null) ?? needs[0] ?? null;
}

/** The directory and all above it. */
function above(directory: string): readonly string[] {
  const parent = dirname(directory);
  return parent === directory ? [directory] : [directory, ...above(parent)];
}

/** A run and the directories that it needs. */
type Neighbour = readonly [RunRecord, string];

/** Null: not live. The daemon restarts a supervised agent that dies. */
async function howToStop(deps: Deps, { runId, handle }: RunRecord): Promise<string | null> {
  if ((await deps.store.getDocument("agent", handle))?.open === true) return `reprise agent stop ${handle}`;
  return (await liveOwner(deps, runId)) === null ? null : `reprise stop ${handle}`;
}

/** Unregisters the worktree; the files go with the run directory. */
export async function leaveWorktree(deps: Deps, run: RunRecord): Promise<void> {
  const worktree = join(run.runDirectory, "worktree");
  if (run.launch.isolate !== "worktree" || !isDirectory(worktree) || !isOwnPlace(deps, worktree)) return;
  // The repository knows the worktree by its path from before the state directory moved.
  if (movedWith(run) !== null && isOriginal(deps))
    await git(deps, worktree, ["worktree", "repair", worktree]);
  // Twice, because an interrupted move to the trash leaves git's record locked.
  await git(deps, worktree, ["worktree", "remove", "--force", "--force", worktree]);
}

async function git(deps: Deps, cwd: string, args: readonly string[]) {
  return (await openGit(deps, cwd))(args);
}

/** Without its worktree the agent would work in the run's directory, which it had no right to (I12). */
export function assertWorktree(engine: Engine, { handle }: RunRecord, located: Located | undefined): void {
  if (located?.state !== "present" || located.worktree === undefined || isDirectory(located.worktree)) return;
  throw new Fault(
    "cwd_missing",
    `The worktree that ${engine.title} made for run ${handle} is gone: ${located.worktree}. ` +
      "Without it the agent would work in the main checkout. Put it back (git worktree add), then resume again; or start a new run.",
    { facts: { handle, cwd: located.worktree } },
  );
}

/** The stored path has its links resolved. Isolated runs have Reprise's path, and adopted runs the engine's. */
export function cwdNow({ cwd, launch, sessions }: RunRecord): Pick<ResumeFacts, "cwdNow"> {
  const isOurs = launch.isolate === null && sessions.every(({ source }) => source !== "adopted");
  const now = isOurs ? realPath(cwd) : null;
  return now === null ? {} : { cwdNow: now };
}
