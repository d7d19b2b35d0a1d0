/**
 * What the issues of a batch share, and the desk of one of them: what is known of it while it is worked on, kept in the
 * metadata and shown. Whatever is decided about it is decided elsewhere.
 */
import type { GateCommand, GateConfig } from "../core/config-issues.ts";
import type { DeniedCall, Tokens } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import type { Redact } from "../lib/secrets.ts";
import { untilText } from "../lib/until.ts";
import { plainEnv, runGate } from "../process/process.ts";
import type { Deps, Limits } from "../run/run.ts";
import type { HeldAccess } from "../run/engine-access.ts";
import { Brake } from "./brake.ts";
import { decidedWords, type Isolate, RESET } from "./decide.ts";
import type { Batch, IssueRecord } from "./metadata.ts";
import type { KnownPast } from "./past.ts";
import { heardOf, newsIn, type SentIssue, type PromptFacts } from "./prompt.ts";
import { GONE, type Issue, type IssueStatus, type IssueSource } from "./source.ts";
import type { CommitResult } from "./commit.ts";
import { branchFor, noteGate, settleWork, subjectFor, takeIssueFile } from "./git.ts";

export interface WorkOptions {
  readonly engine: string;
  /** By which new runs are held to what they may do. */
  readonly access: HeldAccess;
  /** For new runs, behind those of `access`. */
  readonly native: readonly string[];
  /** For runs of earlier batches: what the user gave now, within I12. */
  readonly over: readonly string[];
  /** For the same: what the batch that goes on was held to. It narrows a run; it never stands in its way. */
  readonly bound: readonly string[];
  /** What people say who have no say in the repository reaches agents too. */
  readonly includeStrangers: boolean;
  readonly limits: Limits;
  readonly isolate: Isolate;
  readonly strict: boolean;
  readonly onLimit: "wait" | "stop";
  readonly merge: boolean;
  readonly again: ContinueCommands;
  readonly trustCwd: boolean;
  /** Null: the work is not checked. */
  readonly gate: GateConfig | null;
}

/** How this batch is gone on with. Without secrets. */
export interface ContinueCommands {
  /** Its options, as they are typed. */
  readonly words: readonly string[];
  /** Those of them that say where issues are. */
  readonly source: readonly string[];
  /** Options whose secrets a person must add. */
  readonly byHand: readonly string[];
  /** The command for notes in issues, which others read. */
  readonly note: string;
}

/** What all issues of a batch share. */
export interface BatchContext {
  readonly deps: Deps;
  readonly root: string;
  readonly source: IssueSource;
  readonly batch: Batch;
  readonly options: WorkOptions;
  readonly brake: Brake;
  readonly redact: Redact;
  /** Names that are taken. */
  readonly branches: Set<string>;
  readonly view: WorkView;
  /** No agent starts before: the engine's limit ends then. */
  limitedUntilMs: number;
  /** What the files are in each commit that issues begin from. */
  readonly trees: Map<string, Promise<string | null>>;
  /** One merge after the other. */
  merging: Promise<void>;
}

export interface WorkView {
  progress(id: string, progress: ProgressReport): void;
  /** For people who want to know. */
  verbose(text: string): void;
}

export interface ProgressReport {
  readonly state: IssueRecord["status"];
  readonly attempt: number;
  readonly tokens: Tokens | null;
  readonly detail: string;
}

export interface IssueEnd {
  readonly id: string;
  readonly title: string;
  /** In the source, as it was seen last; null: it is gone, or not known. */
  readonly status: IssueStatus | null;
  /** no_change: the agent was done and no file differs. left: nothing was done about it. */
  readonly state: "completed" | "failed" | "interrupted" | "no_change" | "left";
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** What the gate said that failed last: why, and the end of its output. Null: none failed. */
  readonly gate: string | null;
  /** The whole batch ends with it. */
  readonly stop?: number;
}

export const BEFORE_WORK = "before its agent began";
const MAX_DENIED = 50;
const MAX_GATE_OUTPUT = 16 * 1024 * 1024;

type Change = Partial<IssueRecord> & Pick<IssueRecord, "status">;

export class IssueProgress {
  readonly shop: BatchContext;
  /** Of this issue alone. */
  readonly brake: Brake;
  /** As it was read last. */
  issue: Issue;
  /** Of the run; null: there is none, or it is gone. */
  handle: string | null;
  runId: string | null = null;
  branch: string | null;
  /** Of a run that is gone: what was committed on it is where the next one begins. */
  before: string | null = null;
  baseline: string | null;
  findings: readonly string[];
  /** What the files were when the work began; null: not known yet, or git cannot tell. */
  tree: string | null;
  /** Tool calls that its agents began since then; null: not all of them are seen. */
  tools: number | null;
  /** What the source says of it; null: it is gone, or not known. */
  status: IssueStatus | null;
  /** What an agent was told of the issue, and which conversation has heard it. */
  sent: SentIssue | null;
  /** Tool calls that engines refused, in all turns since the work began. */
  readonly denied: DeniedCall[];
  reopened = false;
  /** It was completed before, so that what is there is no work on what is wanted now. */
  readonly wasDone: boolean;
  /** The run began in this batch, with the options of this batch. */
  begunNow = false;
  run: RunRecord | null = null;
  /** Of the run, before this batch. */
  readonly #before: Pick<KnownPast, "session" | "attempts">;
  attempt = 0;
  tokens: Tokens | null = null;
  /** What people must know of the work in git. */
  notes: readonly string[] = [];
  /** Its last turn was a resume that nothing proves. */
  unverified = false;

  /** The last turn about the issue came to its own end. */
  spoken: boolean;
  /** What the gate said of the work before this batch. */
  readonly gate: IssueRecord["gate"];
  /** Native options for a run of an earlier batch. */
  readonly over: readonly string[];

  constructor(shop: BatchContext, issue: Issue, past: KnownPast) {
    const { entry, handle, spoken, over } = past;
    this.#before = past;
    this.over = over;
    this.gate = entry?.gate ?? null;
    this.shop = shop;
    this.brake = new Brake(shop.brake);
    this.issue = issue;
    this.handle = handle;
    this.branch = entry?.branch ?? null;
    this.baseline = entry?.baseline_commit ?? null;
    this.findings = entry?.findings ?? [];
    this.attempt = entry?.attempts ?? 0;
    this.spoken = spoken;
    this.unverified = past.unverified === true;
    this.wasDone = entry?.status === "completed";
    this.tree = entry?.tree ?? null;
    this.tools = entry === null ? 0 : entry.tools;
    this.status = issue.status;
    this.sent = entry?.sent ?? null;
    this.denied = this.wasDone ? [] : [...(entry?.denied ?? [])];
  }

  /** What was said under the issue, where the list did not have it. */
  async readComments(): Promise<void> {
    const { source } = this.shop;
    const { issue } = this;
    if (source.comments === undefined || issue.comments !== undefined) return;
    await this.#renew(async () => ({ ...issue, comments: (await source.comments?.(issue.id)) ?? [] }));
  }

  /** What the source calls the status of the issue by now. Null: the issue is gone. What cannot be read is a fault. */
  async look(): Promise<string | null> {
    const { source } = this.shop;
    this.status = null;
    try {
      const found = await source.one(this.issue.id);
      const comments = found.comments ?? (await source.comments?.(found.id));
      this.issue = { ...found, ...this.#heard(comments), status: this.issue.status };
      this.status = found.status;
      return found.statusWord ?? found.status;
    } catch (error) {
      if (error instanceof Fault && GONE.includes(error.code)) return null;
      throw error;
    }
  }

  /** Null: it is in progress, for this batch. Otherwise somebody was faster, or it could not be done. */
  async claim(): Promise<{ readonly why: string; readonly fault: Fault | null } | null> {
    this.status = null;
    try {
      if (await this.shop.source.claim(this.issue.id, "open")) {
        this.status = "in_progress";
        return null;
      }
      const word = await this.look();
      // Who has it now works on it; where it is open all the same, somebody had it for a moment.
      const isTaken = this.status === "in_progress" || this.status === "open";
      return { why: isTaken ? "somebody else has claimed it" : decidedWords(word, BEFORE_WORK), fault: null };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const isGone = GONE.includes(error.code);
      const why = isGone ? decidedWords(null, BEFORE_WORK) : `it could not be claimed: ${error.message}`;
      return { why, fault: error };
    }
  }

  /** Comments that agents are told. */
  #heard(comments: Issue["comments"]): Pick<Issue, "comments"> {
    const { includeStrangers } = this.shop.options;
    if (comments === undefined) return {};
    return { comments: comments.filter(({ stranger }) => stranger === undefined || includeStrangers) };
  }

  /** What cannot be read stays as it was. */
  async #renew(read: () => Promise<Issue | undefined>): Promise<void> {
    const { deps } = this.shop;
    const { id } = this.issue;
    try {
      const found = await read();
      if (found === undefined) return;
      this.issue = { ...found, ...this.#heard(found.comments), status: this.issue.status };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(`${id} cannot be read again, so what is new in it is not passed on: ${error.message}`);
    }
  }

  /** Puts the work on its branch, as far as it is finished. */
  async settle(cwd: string): Promise<CommitResult> {
    const { deps, root, options, redact } = this.shop;
    const { branch, baseline } = this;
    const isolated = options.isolate === "worktree";
    const message = subjectFor(this.issue, redact);
    const settled = await settleWork(deps, { cwd, root, isolated, baseline, branch, message });
    this.notes = settled.notes;
    return settled;
  }

  /** What a gate left when it was killed with its batch is not the agent's work either. */
  async noteKilledGate(): Promise<void> {
    const run = await this.#isolatedRun();
    if (run !== null) await noteGate(this.shop.deps, run.cwd, "found");
  }

  /** The issue gets what its agent wrote in its file, as far as that goes. */
  async takeFile(branch: string): Promise<void> {
    const { deps, root, source } = this.shop;
    const run = await this.#isolatedRun();
    if (run === null) return;
    const place = { root, worktree: run.cwd, branch, id: this.issue.id };
    const note = await takeIssueFile(deps, source, place);
    if (note !== null) this.notes = [...this.notes, note];
  }

  async #isolatedRun(): Promise<RunRecord | null> {
    const { deps, options } = this.shop;
    if (this.handle === null || options.isolate !== "worktree") return null;
    return (await deps.store.findByHandle(this.handle))[0] ?? null;
  }

  /** One command after the other until one fails: why, and the end of its output. Null: all passed. */
  async check(commands: readonly GateCommand[], cwd: string): Promise<string | null> {
    const { deps, batch, redact } = this.shop;
    const { baseline, handle, issue, brake } = this;
    // The same in every batch, so that what a killed one left behind is found.
    const marker = `${handle ?? batch.runId}/${issue.id}/gate`;
    const env = {
      ...plainEnv(deps.env),
      REPRISE_ISSUE: issue.id,
      ...(baseline === null ? {} : { REPRISE_BASELINE: baseline }),
    };
    const forget = brake.on(
      () => void (brake.force >= 2 && deps.processes.endTree(null, marker, "terminate")),
    );
    const isolated = this.shop.options.isolate === "worktree";
    if (isolated) await noteGate(deps, cwd, "begins");
    try {
      for (const { run: command, timeoutMs } of commands) {
        const request = { command, cwd, env, timeoutMs, maxBytes: MAX_GATE_OUTPUT, redact, marker };
        const { passed, detail } = await runGate(deps.processes, request);
        if (!passed) return detail;
      }
      return null;
    } finally {
      forget();
      if (isolated) await noteGate(deps, cwd, "ended");
    }
  }

  /** Names a run that is about to be started, and the branch for its work. */
  nameRun(): string {
    const { deps, options, branches, redact } = this.shop;
    const isolated = options.isolate === "worktree";
    this.before = isolated && this.branch !== null && branches.has(this.branch) ? this.branch : null;
    this.branch = isolated ? branchFor(this.issue, branches, redact) : null;
    if (this.branch !== null) branches.add(this.branch);
    this.runId = makeRunId(deps.clock.now(), options.engine, deps.newHandle());
    this.handle = this.runId.slice(-8);
    return this.runId;
  }

  /** A run that was named and is not going to be made is none. */
  unnameRun(): void {
    if (this.runId === null) return;
    this.runId = null;
    this.handle = null;
    this.branch = this.before;
  }

  /** `why`: what the engine said of the limit; empty: it said nothing. */
  async waitForLimit(why: string): Promise<"at once" | "waited" | "stopped"> {
    const { deps, limitedUntilMs } = this.shop;
    const now = () => deps.clock.now();
    if (now() >= limitedUntilMs) return "at once";
    const what = why === "" ? "the engine's limit" : why.replace(RESET, "");
    const error = `${what} (until ${new Date(limitedUntilMs).toISOString()})`;
    this.note({ status: "waiting", error }, untilText(limitedUntilMs, now()));
    if (!(await this.brake.waitUntil(limitedUntilMs, now))) return "stopped";
    this.note({ status: "running", error: null });
    return "waited";
  }

  /** On disk when it resolves: for what must be known before the next step. */
  async save(change: Change, detail = change.error ?? ""): Promise<void> {
    const { batch, options, redact } = this.shop;
    const { id, title } = this.issue;
    const isNew = batch.issue(id) === null;
    this.show(change.status, detail);
    await batch.update(id, {
      ...(isNew
        ? { title: redact(title).slice(0, 300), engine: options.engine, started_at: this.now() }
        : {}),
      handle: this.handle,
      branch: this.branch,
      baseline_commit: this.baseline,
      findings: this.findings,
      tree: this.tree,
      tools: this.tools,
      denied: this.denied.slice(0, MAX_DENIED),
      sent: this.sent,
      ...change,
    });
  }

  /** On its way to the disk. What is refused there is said by the next `save`, which writes it too. */
  note(change: Change, detail?: string): void {
    this.save(change, detail).catch(() => {});
  }

  show(state: ProgressReport["state"], detail: string): void {
    this.shop.view.progress(this.issue.id, { state, attempt: this.attempt, tokens: this.tokens, detail });
  }

  told(): PromptFacts {
    const { issue, findings, reopened, spoken, baseline, sent } = this;
    const gate = this.shop.options.gate?.commands ?? [];
    const { run } = this;
    const session = run === null ? this.#before.session : run.session.value;
    const heard = heardOf(sent, session, run?.attempts ?? this.#before.attempts);
    return { issue, gate, findings, reopened, spoken, baseline, heard, news: newsIn(issue, sent) };
  }

  end(state: IssueEnd["state"], why: string, stop?: number): IssueEnd {
    const { issue, status, handle, branch } = this;
    const { id, title } = issue;
    const { gate } = this.shop.batch.issue(id) ?? { gate: null };
    const failed = gate === null || gate.passed ? null : gate.detail;
    const end = { id, title, status, state, why, handle, branch, gate: failed };
    return stop === undefined ? end : { ...end, stop };
  }

  now(): string {
    return new Date(this.shop.deps.clock.now()).toISOString();
  }
}
