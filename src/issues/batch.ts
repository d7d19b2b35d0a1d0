/**
 * A batch: plans it, makes sure that it is the only one of its repository, and keeps so many agents at work until nothing
 * is left that could be done.
 */
import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { readRecord, writeAtomic } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { numberIn, stringIn } from "../lib/json.ts";
import { redactValue } from "../lib/secrets.ts";
import { type Deps } from "../run/run.ts";
import { findEngine, redactorFor, setUpEngine, withoutRepository } from "../run/engine-setup.ts";
import { liveOwner } from "../run/inspect.ts";
import { engineDefaults, secretOptions } from "../run/engine-access.ts";
import { type FileLock, lockFile } from "../store/store.ts";
import { type Brake, directoryFor, type LiveBatch, liveOwnerIn, requestStop, stopWorkIn } from "./brake.ts";
import { afterOthers, type IssueDecision, decide, type BatchPolicy, undoneOf } from "./decide.ts";
import { batchId, beginBatch, type Leave, makeMetadataDirectory, metadataDirectory } from "./metadata.ts";
import { type KnownPast, orphans, pastOf } from "./past.ts";
import { plan, type PlanOptions, readiness } from "./plan.ts";
import { configOf } from "./rights.ts";
import type { Issue, IssueSource } from "./source.ts";
import { IssueRunner } from "./issue-runner.ts";
import type { IssueEnd, WorkOptions, BatchContext, WorkView } from "./issue-progress.ts";
import { assertFilters, headCommit, ourBranches } from "./git.ts";

export interface BatchOptions extends PlanOptions, BatchPolicy, WorkOptions {
  readonly maxAgents: number;
  readonly engineGiven: boolean;
  /** Who said what new runs may do. */
  readonly accessFrom: AccessFrom;
  /** Goes on looking for issues when all are done. */
  readonly watch: boolean;
  readonly version: string;
}

export type AccessFrom = "option" | "config" | "default";

export interface PlannedIssue {
  readonly issue: Issue;
  readonly decision: IssueDecision;
  readonly past: KnownPast;
  /** Native options that its agent gets, those of the config first; a conversation that goes on has those it began with besides. */
  readonly options: readonly string[];
  /** The option that says what its agent may do; null: the engine's own default, or no agent works. */
  readonly held: string | null;
}

export interface PlannedBatch {
  /** Of runs that begin with this batch. */
  readonly access: WorkOptions["access"];
  /** A change of files counts as work on an issue, whichever program made it. */
  readonly anyChange: boolean;
  readonly take: readonly PlannedIssue[];
  readonly skip: readonly { readonly id: string; readonly why: string }[];
  /** Work on issues that the source has lost. */
  readonly orphans: readonly Leave[];
}

export interface BatchEnd {
  readonly runId: string;
  readonly path: string;
  readonly issues: readonly IssueEnd[];
  /** What it left out from the beginning. */
  readonly skipped: PlannedBatch["skip"];
  /** Work on issues that the source has lost. */
  readonly orphans: readonly Leave[];
  readonly exitCode: number;
}

export interface BatchPlace {
  readonly root: string;
  readonly source: IssueSource;
}

export interface BatchView extends WorkView {
  planned(planned: PlannedBatch): void;
  started(issue: Issue): void;
  ended(end: IssueEnd): void;
}

/** Changes nothing: a dry run and a real one are the same up to here. */
export async function planBatch(
  deps: Deps,
  { root, source }: BatchPlace,
  options: BatchOptions,
): Promise<PlannedBatch> {
  assertNoSecret(deps, options);
  const { issues, warnings } = await source.list();
  for (const warning of warnings) deps.log.warn(warning);
  const { take, skip, gone } = plan(issues, options);
  if (gone.length > 0)
    deps.log.warn(
      `The source does not have ${harmlessLine(gone.join(", "), 300)} any more. The batch goes on without ${gone.length === 1 ? "it" : "them"}.`,
    );
  const lost = options.resume ? await orphans(deps, { root, source }, issues, gone) : [];
  for (const { id, why } of lost) deps.log.warn(`${id}: ${why}`);
  const planned: PlannedIssue[] = [];
  const { args } = engineDefaults(deps, options.engine);
  const waits = readiness(issues);
  for (const issue of take) {
    const past = await pastOf(deps, root, issue, options);
    const decision = afterOthers(decide(issue, past, options), waits.get(issue.id) ?? []);
    const native = optionsFor(decision, past, options, args);
    planned.push({ issue, past, decision, options: native, held: heldBy(decision, past, options) });
  }
  // A gate that the user has not trusted is left out of a plan, and the command itself does not begin without it.
  const isHidden = deps.config.untrusted?.includes("issues.gate") === true;
  const anyChange = options.isolate === "none" && options.gate === null && !isHidden;
  return { take: planned, skip, access: options.access, anyChange, orphans: lost };
}

/** An agent of a batch may need a second turn: after a limit, a failed gate, a crash or a change of its issue. */
function assertNoSecret(deps: Deps, { engine, native }: BatchOptions): void {
  const found = [...new Set(secretOptions(deps, engine, native))];
  if (found.length === 0) return;
  throw new Fault(
    "usage",
    `The value of ${found.join(", ")} is a secret, or looks like one. Reprise does not store secrets, so no issue of this batch could have a second turn or be resumed. ` +
      "Give the secret in the environment instead, which agents inherit (NAME=value reprise issues run …), or in the engine's own settings. " +
      "An issue in progress that was begun with such an option begins anew when you set its status to open.",
    { facts: { engine, options: found } },
  );
}

const isTaken = ({ decision }: PlannedIssue) => decision.do !== "leave" && decision.do !== "fail";

/** It works in a run that there is, with the options of that run. */
export function goesOn({ decision, past }: Pick<PlannedIssue, "decision" | "past">): boolean {
  if (decision.do === "fresh") return decision.handle !== null && past.unbegun !== true;
  return decision.do === "resume" || decision.do === "gate";
}

function optionsFor(
  decision: IssueDecision,
  past: KnownPast,
  { access, native }: BatchOptions,
  args: readonly string[],
): readonly string[] {
  if (goesOn({ decision, past })) return past.over;
  return decision.do === "fresh" ? [...args, ...access.options, ...native] : [];
}

function heldBy(decision: IssueDecision, past: KnownPast, { access }: BatchOptions): string | null {
  if (goesOn({ decision, past })) return past.held;
  if (decision.do !== "fresh") return null;
  return access.by ?? (access.options.length === 0 ? null : access.options.join(" "));
}

export async function runBatch(
  given: Deps,
  place: BatchPlace,
  options: BatchOptions,
  { brake, view }: { brake: Brake; view: BatchView },
): Promise<BatchEnd> {
  const { root } = place;
  // Its agents and gates work in the repository, or the worktree, that this batch has found.
  const deps = { ...given, env: withoutRepository(given.env) };
  const directory = makeMetadataDirectory(deps.state, root);
  const startedAtMs = deps.clock.now();
  const runId = batchId(startedAtMs, deps.newHandle());
  const lock = await soleRunner(deps, directory, root, runId);
  try {
    const planned = await planBatch(deps, place, options);
    // Before anything is claimed: a batch without its engine would fail issue by issue.
    if (options.watch || planned.take.some(isTaken)) setUpEngine(deps, findEngine(deps, options.engine), []);
    view.planned(planned);
    const redact = redactorFor(deps.env, []);
    const started = new Date(startedAtMs).toISOString();
    const first = {
      run_id: runId,
      started_at: started,
      completed_at: null,
      planned: planned.take.filter(isTaken).map(({ issue }) => issue.id),
      left: 0,
      repo_path: root,
      version: options.version,
    };
    const branches = await ourBranches(deps, root);
    if (options.isolate === "worktree" && planned.take.length > 0) await assertRoom(deps, root, branches);
    const config = redactValue(configOf(deps, options, redact), redact);
    const batch = await beginBatch(directory, { ...first, config }, redact);
    const shop: BatchContext = {
      deps,
      ...place,
      batch,
      options,
      brake,
      redact,
      branches,
      view,
      limitedUntilMs: 0,
      trees: new Map(),
      merging: Promise.resolve(),
    };
    const crew = new Crew(shop, options, view);
    await crew.work(planned.take);
    if (options.watch) await watch(deps, place, options, crew);
    crew.leave();
    const { goOn, leaves } = undoneOf(crew.ends, crew.ways, options);
    const at = new Date(deps.clock.now()).toISOString();
    const left = leaves.length;
    await batch.complete({ at, left, leaves: [...leaves, ...planned.orphans], go_on: goOn });
    const exitCode = crew.exitCode();
    const { skip: skipped, orphans: lost } = planned;
    return { runId, path: batch.path, issues: crew.ends, skipped, orphans: lost, exitCode };
  } finally {
    lock.release();
  }
}

/** Looks for new issues until it is stopped, or has begun as many as it may. */
async function watch(deps: Deps, place: BatchPlace, options: BatchOptions, crew: Crew): Promise<void> {
  let said = "";
  while (crew.mayBegin()) {
    if (!(await crew.pause(deps.clock.now() + place.source.restMs))) return;
    let take: readonly PlannedIssue[] = [];
    try {
      // The limit is of the whole batch.
      ({ take } = await planBatch(deps, place, { ...options, maxIssues: null }));
      said = "";
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // Somebody edits them, or the network is gone: the next look may fare better.
      if (said !== error.message) deps.log.warn(`The issues cannot be read at the moment: ${error.message}`);
      said = error.message;
      continue;
    }
    await crew.work(take);
  }
}

/** What every issue would fail at is said before one is claimed. */
async function assertRoom(deps: Deps, root: string, branches: ReadonlySet<string>): Promise<void> {
  const facts = { repository: root };
  if ((await headCommit(deps, root)) === null)
    throw new Fault(
      "cwd_invalid",
      `A worktree needs a git repository with a commit, and ${root} is none. Commit something, or work in it as it is: --isolate none.`,
      { facts },
    );
  if (branches.has("reprise"))
    throw new Fault(
      "cwd_invalid",
      `${root} has a branch "reprise", so git can make none that begins with "reprise/". Rename it: git branch -m reprise <other name>.`,
      { facts },
    );
  await assertFilters(deps, root);
}

class Crew {
  readonly #shop: BatchContext;
  readonly #options: BatchOptions;
  readonly #view: BatchView;
  readonly ends: IssueEnd[] = [];
  /** How to take up what was left. */
  readonly ways = new Map<string, readonly string[]>();
  /** The exit code of an end that ends the batch. */
  stop: number | null = null;
  readonly #seen = new Set<string>();
  readonly #completed = new Set<string>();
  /** What the last look found and did not begin, and everything that it found. */
  #rest: readonly PlannedIssue[] = [];
  #found: ReadonlySet<string> = new Set();

  constructor(shop: BatchContext, options: BatchOptions, view: BatchView) {
    this.#shop = shop;
    this.#options = options;
    this.#view = view;
  }

  mayBegin(): boolean {
    return this.#shop.brake.force === 0 && this.stop === null && this.#room() > 0;
  }

  /** False: it was stopped before that time. */
  pause(untilMs: number): Promise<boolean> {
    const { brake, deps } = this.#shop;
    return brake.waitUntil(untilMs, () => deps.clock.now());
  }

  #room(): number {
    const { maxIssues, begun } = this.#options;
    return (maxIssues ?? Number.POSITIVE_INFINITY) - new Set([...begun, ...this.#seen]).size;
  }

  /** As many as may begin; what an earlier part of the batch has begun takes no room. */
  #within(take: readonly PlannedIssue[]): PlannedIssue[] {
    const { begun } = this.#options;
    let room = this.#room();
    return take.filter(({ issue: { id } }) => {
      if (this.#seen.has(id)) return false;
      if (begun.includes(id)) return true;
      room -= 1;
      return room >= 0;
    });
  }

  async work(take: readonly PlannedIssue[]): Promise<void> {
    const queue = this.#within(take);
    // Also what was tried in vain before: it is waited for all the same.
    this.#found = new Set(take.map(({ issue }) => issue.id));
    const running = new Map<string, Promise<IssueEnd>>();
    const isReady = ({ issue }: PlannedIssue) =>
      issue.dependencies.every((id) => !this.#found.has(id) || this.#completed.has(id));
    for (;;) {
      while (running.size < this.#options.maxAgents && this.#shop.brake.force === 0 && this.stop === null) {
        const at = queue.findIndex(isReady);
        const [next] = at === -1 ? [] : queue.splice(at, 1);
        if (next === undefined) break;
        running.set(next.issue.id, this.#one(next));
      }
      if (running.size === 0) break;
      const end = await Promise.race(running.values());
      running.delete(end.id);
      if (end.state === "completed") this.#completed.add(end.id);
    }
    this.#rest = queue;
  }

  /** Nothing more will be begun. */
  leave(): void {
    for (const { issue } of this.#rest) this.#leave(issue);
  }

  async #one({ issue, decision, past }: PlannedIssue): Promise<IssueEnd> {
    this.#seen.add(issue.id);
    this.#view.started(issue);
    const end = await new IssueRunner(this.#shop, issue, past).work(decision);
    this.ends.push(end);
    // What stops the whole batch says nothing about the issue.
    const isBarred = decision.do === "leave" || decision.do === "fail";
    const way = isBarred ? decision.with : end.stop === undefined ? undefined : [];
    if (way !== undefined) this.ways.set(issue.id, way);
    this.stop ??= end.stop ?? null;
    this.#view.ended(end);
    return end;
  }

  #leave(issue: Issue): void {
    const missing = issue.dependencies.filter((id) => this.#found.has(id) && !this.#completed.has(id));
    const stopped = this.#shop.brake.force > 0 || this.stop !== null;
    const why = stopped ? "the batch was stopped before it began" : `it waits for ${missing.join(", ")}`;
    const end: IssueEnd = {
      id: issue.id,
      title: issue.title,
      status: issue.status,
      state: "left",
      why,
      handle: null,
      branch: null,
      gate: null,
    };
    this.ends.push(end);
    if (stopped) this.ways.set(issue.id, []);
    this.#view.ended(end);
  }

  exitCode(): number {
    if (this.stop !== null) return this.stop;
    const { brake } = this.#shop;
    const undone = this.ends.some(({ state }) => state !== "completed");
    if (brake.force > 0 && (undone || brake.signal !== null))
      return brake.signal === "SIGTERM" ? 143 : brake.signal === "SIGHUP" ? 129 : 130;
    return undone ? 10 : 0;
  }
}

/**
 * Two batches of one repository would claim each other's issues. The kernel lets go of the lock of a dead one. A second lock
 * goes by the directory itself: a bind mount gives it another path.
 */
async function soleRunner(deps: Deps, directory: string, root: string, runId: string): Promise<FileLock> {
  const { dev, ino } = statSync(root, { bigint: true });
  const named = join(directory, "runner");
  const places = [named, join(dirname(directory), `directory-${dev}-${ino}`)];
  const held: FileLock[] = [];
  const release = () => held.forEach((lock) => lock.release());
  for (const place of places) {
    const lock = await lockFile(`${place}.lock`);
    if (lock === null) {
      release();
      throw takenBy(root, ownerIn(`${place}.owner`), place === named);
    }
    held.push(lock);
  }
  const owner = `${JSON.stringify({ ...deps.processes.owner(), run_id: runId })}\n`;
  for (const place of places) writeAtomic(`${place}.owner`, owner);
  return { release };
}

function takenBy(root: string, owner: string, isNamed: boolean): Fault {
  const where = isNamed ? root : `${root}, under another path`;
  const look = isNamed ? "; `reprise issues status` shows it" : "";
  return new Fault(
    "batch_busy",
    `Another batch works on ${where}: ${owner}. Wait for it, or stop it with Ctrl-C where it runs${look}.`,
    { facts: { repository: root, owner } },
  );
}

/** The id of the batch that works on the repository at the moment; null: none does. */
export function liveBatch(deps: Deps, root: string): string | null {
  return liveOwnerIn(deps, metadataDirectory(deps.state, root))?.batch ?? null;
}

export interface StoppedIssue {
  readonly batch: string;
  readonly issue: string;
  readonly state: string;
}

const STOP_WAIT_MS = 30_000;
const STOP_POLL_MS = 50;

/**
 * Stops one run of a live batch, whose other issues go on; the batch records the end itself. Null: no live batch works on
 * the run's issue.
 */
export async function stopInBatch(
  deps: Deps,
  run: Pick<RunRecord, "handle" | "runId" | "subject">,
  onProgress: (text: string) => void,
): Promise<StoppedIssue | null> {
  const directory = directoryFor(deps, run.subject);
  const live = directory === null ? null : liveOwnerIn(deps, directory);
  if (directory === null || live === null) return null;
  const { batch } = live;
  const { pid } = live.who;
  const owner = await liveOwner(deps, run.runId);
  const look = () => stopWorkIn(directory, batch).get(run.handle) ?? null;
  // Somebody may have resumed it by hand, after the batch was done with it.
  if ((owner !== null && owner.pid !== pid) || look()?.isOver !== false) return null;
  const takeBack = requestStop(directory, batch, run.handle);
  onProgress(`asked batch ${batch} (pid ${pid}) to stop this run; its other issues go on`);
  try {
    const deadline = deps.clock.mono() + STOP_WAIT_MS;
    for (;;) {
      const now = look();
      if (now === null || liveOwnerIn(deps, directory)?.batch !== batch) return null;
      if (now.isOver) return { batch, issue: now.issue, state: now.state };
      if (deps.clock.mono() >= deadline) throw deafBatch(run.handle, live);
      await new Promise((wake) => setTimeout(wake, STOP_POLL_MS));
    }
  } finally {
    takeBack();
  }
}

function deafBatch(handle: string, { batch, who: { pid } }: LiveBatch): Fault {
  return new Fault(
    "run_busy",
    `Batch ${batch} (pid ${pid}) has not stopped run ${handle} within ${STOP_WAIT_MS / 1_000} s. Stop the whole batch: press Ctrl-C twice where it runs, or type: kill -TERM ${pid}`,
    { facts: { handle, batch, pid } },
  );
}

function ownerIn(about: string): string {
  try {
    const record = readRecord(about);
    return `pid ${numberIn(record, "pid") ?? "unknown"}, ${stringIn(record, "run_id") ?? "unknown"}`;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return "it does not say which";
  }
}
