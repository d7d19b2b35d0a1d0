/** Tells whether an agent's work on an issue changed anything: compares files, and counts tool calls and refusals. */
import { storedDenials } from "../run/engine-access.ts";
import { isDeepStrictEqual } from "node:util";
import type { DeniedCall } from "../core/events.ts";
import type { BatchContext } from "./batch-context.ts";
import { type IssueDecision, type WorkState, workStateOf } from "./decide.ts";
import { treeOf, workFingerprint } from "./git/snapshot.ts";
import type { IssueProgress } from "./issue-progress.ts";
import type { IssueTurn } from "./turn.ts";

export class WorkTracker {
  readonly #context: BatchContext;
  readonly #progress: IssueProgress;
  /** Of all turns in this batch. */
  #toolCalls = 0;
  readonly denied: DeniedCall[] = [];

  constructor(context: BatchContext, progress: IssueProgress) {
    this.#context = context;
    this.#progress = progress;
  }

  addTurn({ denied, toolCalls }: IssueTurn): void {
    this.denied.push(...denied);
    this.#toolCalls += toolCalls;
  }

  /** Records the files as they are before this work, unless earlier work counts as well. */
  async begin(decision: IssueDecision): Promise<void> {
    const { tree, tools, wasCompleted } = this.#progress;
    const isNew = tree === null || wasCompleted || (this.#context.options.isolate === "none" && tools === 0);
    if (!isNew) return;
    this.#progress.tree = await this.#filesBefore(decision);
    this.#progress.tools = 0;
  }

  /** For work that began in an earlier batch: the files at its first start. */
  async #filesBefore(decision: IssueDecision): Promise<string | null> {
    const { deps, root, options, trees } = this.#context;
    const { baseline, wasCompleted, branch } = this.#progress;
    if (options.isolate === "none") return workFingerprint(deps, root, false);
    if (wasCompleted) {
      const handle = "handle" in decision ? decision.handle : null;
      const [run] = handle === null ? [] : await deps.store.findByHandle(handle);
      if (run !== undefined) return workFingerprint(deps, run.cwd, true);
      const kept = branch === null ? null : await treeOf(deps, root, branch);
      if (kept !== null) return kept;
    }
    if (baseline === null) return null;
    const tree = trees.get(baseline) ?? treeOf(deps, root, baseline);
    trees.set(baseline, tree);
    return tree;
  }

  async state(cwd: string): Promise<WorkState> {
    const { deps, options } = this.#context;
    const now = await workFingerprint(deps, cwd, options.isolate === "worktree");
    const { tree, tools } = this.#progress;
    const counts = { tools, toolCalls: this.#toolCalls, denied: this.denied.length };
    return workStateOf({ tree, now, ...counts, isolate: options.isolate });
  }

  /** Reads refused calls from the engine's own store, for engines whose output does not report them. */
  async readStoredDenials(): Promise<void> {
    const { run, denied } = this.#progress;
    const stored = run === null ? null : await storedDenials(this.#context.deps, run);
    if (stored === null) return;
    this.denied.push(...stored);
    // An earlier batch may have read the same turn.
    denied.push(...stored.filter((call) => !denied.some((one) => isDeepStrictEqual(one, call))));
  }

  /** People share the checkout: if the agent did nothing, later changes there are not its work. */
  async forgetChangesOfOthers(): Promise<void> {
    const { options, root } = this.#context;
    if (options.isolate !== "none") return;
    const work = await this.state(root);
    if (work === "nothing" || work === "others") Object.assign(this.#progress, { tree: null, tools: 0 });
  }
}
