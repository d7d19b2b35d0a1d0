/**
 * A batch: plans it, makes sure that it is the only one of its repository, and keeps so many agents at work until nothing
 * is left that could be done.
 */
import { join } from "node:path";
import { readRecord, writeAtomic } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import { numberIn, stringIn } from "../lib/json.ts";
import { type Deps, findEngine, redactorFor, setUpEngine } from "../run/run.ts";
import { type FileLock, lockFile } from "../store/store.ts";
import type { Brake } from "./brake.ts";
import { type Decision, decide, type Policy } from "./decide.ts";
import { batchId, beginBatch, makeMetadataDirectory } from "./metadata.ts";
import { type KnownPast, pastOf } from "./past.ts";
import { plan, type PlanOptions } from "./plan.ts";
import type { Issue, Source } from "./source.ts";
import { IssueWork } from "./worker.ts";
import type { IssueEnd, WorkOptions, Workshop, WorkView } from "./workshop.ts";
import { ourBranches } from "./work.ts";

export interface BatchOptions extends PlanOptions, Policy, WorkOptions {
  readonly maxAgents: number;
  /** Goes on looking for issues when all are done. */
  readonly watch: boolean;
  readonly version: string;
}

export interface PlannedIssue {
  readonly issue: Issue;
  readonly decision: Decision;
  readonly past: KnownPast;
}

export interface PlannedBatch {
  readonly take: readonly PlannedIssue[];
  readonly skip: readonly { readonly id: string; readonly why: string }[];
}

export interface BatchEnd {
  readonly runId: string;
  readonly path: string;
  readonly issues: readonly IssueEnd[];
  readonly exitCode: number;
}

export interface Place {
  readonly root: string;
  readonly source: Source;
}

export interface BatchView extends WorkView {
  planned(planned: PlannedBatch): void;
  started(issue: Issue): void;
  ended(end: IssueEnd): void;
}

const WATCH_MS = 15_000;
const NO_PAST: KnownPast = {
  session: null,
  state: "none",
  why: "there is no prior session",
  handle: null,
  next: "agent",
  entry: null,
};

/** Changes nothing: a dry run and a real one are the same up to here. */
export async function planBatch(
  deps: Deps,
  { root, source }: Place,
  options: BatchOptions,
): Promise<PlannedBatch> {
  const { issues, warnings } = await source.list();
  for (const warning of warnings) deps.log.warn(warning);
  const { take, skip } = plan(issues, options);
  const planned: PlannedIssue[] = [];
  for (const issue of take) {
    const past =
      issue.status === "in_progress" ? await pastOf(deps, root, issue.id, options.engine) : NO_PAST;
    planned.push({ issue, past, decision: decide(issue, past, options) });
  }
  return { take: planned, skip };
}

export async function runBatch(
  deps: Deps,
  place: Place,
  options: BatchOptions,
  { brake, view }: { brake: Brake; view: BatchView },
): Promise<BatchEnd> {
  const { root } = place;
  // Before anything is claimed: a batch without its engine would fail issue by issue.
  setUpEngine(deps, findEngine(deps, options.engine), []);
  const directory = makeMetadataDirectory(deps.state, root);
  const startedAtMs = deps.clock.now();
  const runId = batchId(startedAtMs, deps.newHandle());
  const lock = await soleRunner(deps, directory, root, runId);
  try {
    const planned = await planBatch(deps, place, options);
    view.planned(planned);
    const redact = redactorFor(deps.env, []);
    const started = new Date(startedAtMs).toISOString();
    const first = {
      run_id: runId,
      started_at: started,
      completed_at: null,
      repo_path: root,
      version: options.version,
    };
    const batch = await beginBatch(directory, { ...first, config: configOf(options) }, redact);
    const branches = await ourBranches(deps, root);
    const shop: Workshop = {
      deps,
      ...place,
      batch,
      options,
      brake,
      redact,
      branches,
      view,
      limitedUntilMs: 0,
      merging: Promise.resolve(),
    };
    const crew = new Crew(shop, options, view);
    await crew.work(planned);
    while (options.watch && brake.force === 0 && crew.stop === null) {
      if (!(await brake.waitUntil(deps.clock.now() + WATCH_MS, () => deps.clock.now()))) break;
      await crew.work(await planBatch(deps, place, options));
    }
    await batch.complete(new Date(deps.clock.now()).toISOString());
    return { runId, path: batch.path, issues: crew.ends, exitCode: crew.exitCode() };
  } finally {
    lock.release();
  }
}

class Crew {
  readonly #shop: Workshop;
  readonly #options: BatchOptions;
  readonly #view: BatchView;
  readonly ends: IssueEnd[] = [];
  /** The exit code of an end that ends the batch. */
  stop: number | null = null;
  #unstarted = 0;
  readonly #seen = new Set<string>();

  constructor(shop: Workshop, options: BatchOptions, view: BatchView) {
    this.#shop = shop;
    this.#options = options;
    this.#view = view;
  }

  async work({ take }: PlannedBatch): Promise<void> {
    const queue = take.filter(({ issue }) => !this.#seen.has(issue.id));
    const inBatch = new Set(queue.map(({ issue }) => issue.id));
    const completed = new Set<string>();
    const running = new Map<string, Promise<IssueEnd>>();
    const isReady = ({ issue }: PlannedIssue) =>
      issue.dependencies.every((id) => !inBatch.has(id) || completed.has(id));
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
      if (end.state === "completed") completed.add(end.id);
    }
    this.#unstarted = queue.length;
    for (const { issue } of queue) this.#leave(issue, completed, inBatch);
  }

  async #one({ issue, decision, past }: PlannedIssue): Promise<IssueEnd> {
    this.#seen.add(issue.id);
    this.#view.started(issue);
    const end = await new IssueWork(this.#shop, issue, past).work(decision);
    this.ends.push(end);
    this.stop ??= end.stop ?? null;
    this.#view.ended(end);
    return end;
  }

  #leave(issue: Issue, completed: ReadonlySet<string>, inBatch: ReadonlySet<string>): void {
    const missing = issue.dependencies.filter((id) => inBatch.has(id) && !completed.has(id));
    const stopped = this.#shop.brake.force > 0 || this.stop !== null;
    const why = stopped ? "the batch was stopped before it began" : `it waits for ${missing.join(", ")}`;
    const end: IssueEnd = {
      id: issue.id,
      title: issue.title,
      state: "left",
      why,
      handle: null,
      branch: null,
    };
    this.ends.push(end);
    this.#view.ended(end);
  }

  exitCode(): number {
    if (this.stop !== null) return this.stop;
    const { brake } = this.#shop;
    const undone = this.ends.some(({ state }) => state !== "completed");
    if (brake.force > 0 && (undone || this.#unstarted > 0 || brake.signal !== null))
      return brake.signal === "SIGTERM" ? 143 : brake.signal === "SIGHUP" ? 129 : 130;
    return undone ? 10 : 0;
  }
}

/** Two batches of one repository would claim each other's issues. The kernel lets go of the lock of a dead one. */
async function soleRunner(deps: Deps, directory: string, root: string, runId: string): Promise<FileLock> {
  const lock = await lockFile(join(directory, "runner.lock"));
  const about = join(directory, "runner.owner");
  if (lock !== null) {
    writeAtomic(about, `${JSON.stringify({ pid: deps.processes.self().pid, run_id: runId })}\n`);
    return lock;
  }
  const owner = ownerIn(about);
  throw new Fault(
    "batch_busy",
    `Another batch works on ${root}: ${owner}. Wait for it, or stop it with Ctrl-C where it runs; \`reprise issues status\` shows it.`,
    { facts: { repository: root, owner } },
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

/** What the batch was asked to do, for people who look at it later. */
function configOf(options: BatchOptions) {
  const { engine, resume, strict, fresh, maxAgents, maxIssues, order, isolate, onLimit, merge, scope, gate } =
    options;
  const commands = (gate?.commands ?? []).map(({ run }) => run.join(" "));
  return {
    engine,
    resume,
    strict,
    fresh,
    maxAgents,
    maxIssues,
    order,
    isolate,
    onLimit,
    merge,
    scope,
    gate: commands,
  };
}
