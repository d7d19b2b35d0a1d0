/** The issues of a batch in their order: starts as many agents at a time as allowed, and collects how each issue ended. */
import type { BatchContext, BatchView } from "./batch-context.ts";
import type { IssueEnd } from "./batch-types.ts";
import type { BatchOptions, PlannedIssue } from "./batch-plan.ts";
import { IssueRunner } from "./issue-runner.ts";
import type { Issue } from "./sources/source.ts";

export class IssueQueue {
  readonly #context: BatchContext;
  readonly #options: BatchOptions;
  readonly #view: BatchView;
  readonly ends: IssueEnd[] = [];
  /** Options that resume an issue that was left. */
  readonly ways = new Map<string, readonly string[]>();
  /** The exit code of an issue that ended the whole batch. */
  stop: number | null = null;
  readonly #seen = new Set<string>();
  readonly #completed = new Set<string>();
  /** Issues of the last look that did not begin, and all issues of that look. */
  #rest: readonly PlannedIssue[] = [];
  #found: ReadonlySet<string> = new Set();

  constructor(context: BatchContext, options: BatchOptions, view: BatchView) {
    this.#context = context;
    this.#options = options;
    this.#view = view;
  }

  mayBegin(): boolean {
    return this.#context.stopControl.level === 0 && this.stop === null && this.#room() > 0;
  }

  /** False: a stop came before that time. */
  pause(untilMs: number): Promise<boolean> {
    const { stopControl, deps } = this.#context;
    return stopControl.waitUntil(untilMs, () => deps.clock.now());
  }

  #room(): number {
    const { maxIssues, begun } = this.#options;
    return (maxIssues ?? Number.POSITIVE_INFINITY) - new Set([...begun, ...this.#seen]).size;
  }

  /** As many as may begin. Issues that an earlier part of the batch began count already. */
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
    // Includes issues that failed: others still wait for them.
    this.#found = new Set(take.map(({ issue }) => issue.id));
    const running = new Map<string, Promise<IssueEnd>>();
    const isReady = ({ issue }: PlannedIssue) =>
      issue.dependencies.every((id) => !this.#found.has(id) || this.#completed.has(id));
    for (;;) {
      while (
        running.size < this.#options.maxAgents &&
        this.#context.stopControl.level === 0 &&
        this.stop === null
      ) {
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

  /** Reports the issues that will not begin. */
  leave(): void {
    for (const { issue } of this.#rest) this.#leave(issue);
  }

  async #one({ issue, decision, past }: PlannedIssue): Promise<IssueEnd> {
    this.#seen.add(issue.id);
    this.#view.started(issue);
    const end = await new IssueRunner(this.#context, issue, past).work(decision);
    this.ends.push(end);
    // A stop of the whole batch says nothing about this issue.
    const isBarred = decision.do === "leave" || decision.do === "fail";
    const way = isBarred ? decision.with : end.stop === undefined ? undefined : [];
    if (way !== undefined) this.ways.set(issue.id, way);
    this.stop ??= end.stop ?? null;
    this.#view.ended(end);
    return end;
  }

  #leave(issue: Issue): void {
    const missing = issue.dependencies.filter((id) => this.#found.has(id) && !this.#completed.has(id));
    const stopped = this.#context.stopControl.level > 0 || this.stop !== null;
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
      tokens: null,
    };
    this.ends.push(end);
    if (stopped) this.ways.set(issue.id, []);
    this.#view.ended(end);
  }

  exitCode(): number {
    if (this.stop !== null) return this.stop;
    const { stopControl } = this.#context;
    const undone = this.ends.some(({ state }) => state !== "completed");
    if (stopControl.level > 0 && (undone || stopControl.signal !== null))
      return stopControl.signal === "SIGTERM" ? 143 : stopControl.signal === "SIGHUP" ? 129 : 130;
    return undone ? 10 : 0;
  }
}
