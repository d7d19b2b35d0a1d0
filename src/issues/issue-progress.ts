/** The progress of one issue in a batch: kept in the metadata and shown to people. Decisions are made elsewhere. */
import type { DeniedCall, Tokens } from "../core/events.ts";
import { NO_TOKENS, sumTokens } from "../core/tokens.ts";
import { Fault } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import { untilText } from "../lib/until.ts";
import type { BatchContext, ProgressReport } from "./batch-context.ts";
import type { IssueEnd } from "./batch-types.ts";
import { decidedWords, RESET } from "./decide.ts";
import { branchFor, subjectFor } from "./git/branch.ts";
import { moveIssueFileEdits, settleWork } from "./git/commit.ts";
import type { CommitResult } from "./git/worktree.ts";
import { recordGateFiles } from "./git/snapshot.ts";
import type { IssueRecord } from "./metadata.ts";
import type { KnownPast } from "./past.ts";
import { knowledgeOf, newsIn, type PromptFacts, type SentIssue } from "./prompt.ts";
import { GONE, type Issue, type IssueStatus, openNote } from "./sources/source.ts";
import { StopControl } from "./stop-control.ts";

export const BEFORE_WORK = "before its agent began";
const MAX_DENIED = 50;

type RecordChange = Partial<IssueRecord> & Pick<IssueRecord, "status">;

export class IssueProgress {
  readonly context: BatchContext;
  /** For this issue only. */
  readonly stopControl: StopControl;
  /** As last read. */
  issue: Issue;
  /** Of the run. Null: no run, or it is gone. */
  handle: string | null;
  runId: string | null = null;
  branch: string | null;
  /** The branch of a run that is gone: the next run begins from its commits. */
  before: string | null = null;
  /** The branch that its work is merged into: as recorded at its first start with `--merge`. Null: no merge. */
  readonly mergeInto: string | null;
  baseline: string | null;
  findings: readonly string[];
  /** The tree when the work began. Null: unknown. */
  tree: string | null;
  /** Tool calls since then. Null: the engine does not report all of them. */
  tools: number | null;
  /** The status in the source. Null: gone or unknown. */
  status: IssueStatus | null;
  /** The text that Reprise sent to an agent, and the conversation that got it. */
  sent: SentIssue | null;
  /** Tool calls that engines refused since the work began. */
  readonly denied: DeniedCall[];
  reopened = false;
  /** Completed before: the current files are not work on the reopened issue. */
  readonly wasCompleted: boolean;
  /** The run began in this batch, with its options. */
  begunNow = false;
  run: RunRecord | null = null;
  /** The run's state before this batch. */
  readonly #before: Pick<KnownPast, "session" | "attempts">;
  attempt = 0;
  tokens: Tokens | null = null;
  /** What all turns used, earlier batches included. Null: no turn reported it. */
  #spent: Tokens | null;
  /** Facts about the work in git for the summary. */
  notes: readonly string[] = [];
  /** Its last turn was a resume that nothing proves. */
  unverified = false;

  /** The last turn about the issue was completed. */
  turnCompleted: boolean;
  /** The gate's result before this batch. */
  readonly gate: IssueRecord["gate"];
  /** Native options for a run of an earlier batch. */
  readonly over: readonly string[];

  constructor(context: BatchContext, issue: Issue, past: KnownPast) {
    const { entry, handle, turnCompleted, over } = past;
    this.#before = past;
    this.over = over;
    this.gate = entry?.gate ?? null;
    this.context = context;
    this.stopControl = new StopControl(context.stopControl);
    this.issue = issue;
    this.handle = handle;
    this.branch = entry?.branch ?? null;
    const { mergeInto, options } = context;
    const continues = options.merge && issue.status === "in_progress";
    this.mergeInto = (continues ? entry?.merge_into : null) ?? mergeInto;
    this.baseline = entry?.baseline_commit ?? null;
    this.findings = entry?.findings ?? [];
    this.attempt = entry?.attempts ?? 0;
    this.turnCompleted = turnCompleted;
    this.unverified = past.unverified === true;
    this.wasCompleted = entry?.status === "completed";
    this.tree = entry?.tree ?? null;
    this.tools = entry === null ? 0 : entry.tools;
    this.#spent = entry?.tokens ?? null;
    this.status = issue.status;
    this.sent = entry?.sent ?? null;
    this.denied = this.wasCompleted ? [] : [...(entry?.denied ?? [])];
  }

  /** Adds a turn; returns the sum of all turns. */
  spend(turn: Tokens | null): Tokens | null {
    if (turn !== null) this.#spent = sumTokens(this.#spent ?? NO_TOKENS, turn);
    return this.#spent;
  }

  /** Reads the comments, if the list did not have them. */
  async readComments(): Promise<void> {
    const { source } = this.context;
    const { issue } = this;
    if (source.comments === undefined || issue.comments !== undefined) return;
    await this.#renew(async () => ({ ...issue, comments: (await source.comments?.(issue.id)) ?? [] }));
  }

  /** The present status in the source's own word. Null: the issue is gone. Throws if the source cannot be read. */
  async readStatus(): Promise<string | null> {
    const { source } = this.context;
    this.status = null;
    try {
      const found = await source.one(this.issue.id);
      const comments = found.comments ?? (await source.comments?.(found.id));
      this.issue = { ...found, ...this.#forAgents(comments), status: this.issue.status };
      this.status = found.status;
      return found.statusWord ?? found.status;
    } catch (error) {
      if (error instanceof Fault && GONE.includes(error.code)) return null;
      throw error;
    }
  }

  /** Null: claimed for this batch. Otherwise why not. */
  async claim(): Promise<{ readonly why: string; readonly fault: Fault | null } | null> {
    this.status = null;
    try {
      if (await this.context.source.claim(this.issue.id, "open")) {
        this.status = "in_progress";
        return null;
      }
      const word = await this.readStatus();
      // An issue that is open again was claimed by someone else for a moment.
      const isTaken = this.status === "in_progress" || this.status === "open";
      return { why: isTaken ? "somebody else has claimed it" : decidedWords(word, BEFORE_WORK), fault: null };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const isGone = GONE.includes(error.code);
      const why = isGone ? decidedWords(null, BEFORE_WORK) : `it could not be claimed: ${error.message}`;
      return { why, fault: error };
    }
  }

  /** Comments that agents get. */
  #forAgents(comments: Issue["comments"]): Pick<Issue, "comments"> {
    const { includeStrangers } = this.context.options;
    if (comments === undefined) return {};
    return { comments: comments.filter(({ stranger }) => stranger === undefined || includeStrangers) };
  }

  /** Keeps the known issue if the source cannot be read. */
  async #renew(read: () => Promise<Issue | undefined>): Promise<void> {
    const { deps } = this.context;
    const { id } = this.issue;
    try {
      const found = await read();
      if (found === undefined) return;
      this.issue = { ...found, ...this.#forAgents(found.comments), status: this.issue.status };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(
        `Reprise cannot read ${id} again, so its agent does not get later changes: ${error.message}`,
      );
    }
  }

  /** Commits finished work on the issue's branch. */
  async commit(cwd: string): Promise<CommitResult> {
    const { deps, root, options, redact } = this.context;
    const { branch, baseline } = this;
    const isolated = options.isolate === "worktree";
    const message = subjectFor(this.issue, redact);
    const settled = await settleWork(deps, { cwd, root, isolated, baseline, branch, message });
    this.notes = settled.notes;
    return settled;
  }

  /** Files of a gate that was killed with its batch are not the agent's work either. */
  async noteKilledGate(): Promise<void> {
    const run = await this.#isolatedRun();
    if (run !== null) await recordGateFiles(this.context.deps, run.cwd, "found");
  }

  /** Moves the agent's edits of the issue's file into the source. */
  async moveIssueFileEdits(branch: string): Promise<void> {
    const { deps, root, source } = this.context;
    const run = await this.#isolatedRun();
    if (run === null) return;
    const place = { root, worktree: run.cwd, branch, id: this.issue.id };
    const note = await moveIssueFileEdits(deps, source, place);
    if (note !== null) this.notes = [...this.notes, note];
  }

  async #isolatedRun(): Promise<RunRecord | null> {
    const { deps, options } = this.context;
    if (this.handle === null || options.isolate !== "worktree") return null;
    return (await deps.store.findByHandle(this.handle))[0] ?? null;
  }

  /** Names the next run, and the branch for its work. */
  nameRun(): string {
    const { deps, options, branches, redact } = this.context;
    const isolated = options.isolate === "worktree";
    this.before = isolated && this.branch !== null && branches.has(this.branch) ? this.branch : null;
    this.branch = isolated ? branchFor(this.issue, branches, redact) : null;
    if (this.branch !== null) branches.add(this.branch);
    this.runId = makeRunId(deps.clock.now(), options.engine, deps.newHandle());
    this.handle = this.runId.slice(-8);
    return this.runId;
  }

  /** Forgets a run that was named and did not start. */
  unnameRun(): void {
    if (this.runId === null) return;
    this.runId = null;
    this.handle = null;
    this.branch = this.before;
  }

  /** `why`: the engine's message about the limit, or empty. */
  async waitForLimit(why: string): Promise<"at once" | "waited" | "stopped"> {
    const { deps, limitedUntilMs } = this.context;
    const now = () => deps.clock.now();
    if (now() >= limitedUntilMs) return "at once";
    const what = why === "" ? "the engine's limit" : why.replace(RESET, "");
    const error = `${what} (until ${new Date(limitedUntilMs).toISOString()})`;
    this.note({ status: "waiting", error }, untilText(limitedUntilMs, now()));
    if (!(await this.stopControl.waitUntil(limitedUntilMs, now))) return "stopped";
    this.note({ status: "running", error: null });
    return "waited";
  }

  /** On disk when it resolves. */
  async save(change: RecordChange, detail = change.error ?? ""): Promise<void> {
    const { batch, options, redact } = this.context;
    const { id, title } = this.issue;
    const isNew = batch.issue(id) === null;
    this.show(change.status, detail);
    await batch.update(id, {
      ...(isNew
        ? { title: redact(title).slice(0, 300), engine: options.engine, started_at: this.now() }
        : {}),
      handle: this.handle,
      branch: this.branch,
      merge_into: this.mergeInto,
      baseline_commit: this.baseline,
      findings: this.findings,
      tree: this.tree,
      tools: this.tools,
      denied: this.denied.slice(0, MAX_DENIED),
      sent: this.sent,
      ...change,
    });
  }

  /** Does not wait for the disk. The next `save` writes the same data and reports a failure. */
  note(change: RecordChange, detail?: string): void {
    this.save(change, detail).catch(() => {});
  }

  show(state: ProgressReport["state"], detail: string): void {
    const { attempt, tokens } = this;
    this.context.view.progress(this.issue.id, { state, attempt, tokens, spent: this.#spent, detail });
  }

  promptFacts(): PromptFacts {
    const { issue, findings, reopened, turnCompleted, baseline, sent } = this;
    const gate = this.context.options.gate?.commands ?? [];
    const { run } = this;
    const session = run === null ? this.#before.session : run.session.value;
    const knowledge = knowledgeOf(sent, session, run?.attempts ?? this.#before.attempts);
    return { issue, gate, findings, reopened, turnCompleted, baseline, knowledge, news: newsIn(issue, sent) };
  }

  /** A source that does not take the note costs the note alone. */
  async noteInSource(state: "failed" | "interrupted" | "no_change", why: string): Promise<void> {
    const { deps, source, redact, options } = this.context;
    const { id } = this.issue;
    try {
      await source.note(id, openNote(state, redact(why).slice(0, 2_000), options.again.note));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(`${id} has no note from Reprise: ${error.message}`);
    }
  }

  end(state: IssueEnd["state"], why: string, stop?: number): IssueEnd {
    const { issue, status, handle, branch } = this;
    const { id, title } = issue;
    const { gate } = this.context.batch.issue(id) ?? { gate: null };
    const failed = gate === null || gate.passed ? null : gate.detail;
    const end = { id, title, status, state, why, handle, branch, gate: failed, tokens: this.#spent };
    return stop === undefined ? end : { ...end, stop };
  }

  now(): string {
    return new Date(this.context.deps.clock.now()).toISOString();
  }
}
