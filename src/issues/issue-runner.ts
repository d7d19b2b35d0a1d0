/**
 * One issue from its claim to its end: turns of its conversation, the gate after each turn, the branch, the closing.
 *
 * The metadata names each step before it happens. After a crash at any moment, the next batch knows the conversation,
 * the place of the work and the next step.
 */
import { dirname } from "node:path";
import { exitCodeOf, Fault } from "../core/faults.ts";
import { untilText } from "../lib/until.ts";
import type { BatchContext } from "./batch-context.ts";
import type { IssueEnd } from "./batch-types.ts";
import {
  BATCH_ENDING,
  decideAfter,
  decidedWords,
  deniedWords,
  type IssueDecision,
  RESET,
  stopReason,
  times,
  type TurnDecision,
  UNSENT_CHANGE,
  UNVERIFIED,
  WHILE_WORKING,
  WORK_WORDS,
  type WorkState,
} from "./decide.ts";
import { checkWork, StuckCheck } from "./gate.ts";
import { headCommit } from "./git/branch.ts";
import { mergeInTurn } from "./git/merge.ts";
import { fingerprint } from "./git/snapshot.ts";
import { BEFORE_WORK, IssueProgress } from "./issue-progress.ts";
import { watchStopRequests } from "./live-batch.ts";
import { NO_GATE } from "./metadata.ts";
import type { KnownPast } from "./past.ts";
import { findingsPrompt, firstPrompt, newsPrompt, nextPrompt } from "./prompt.ts";
import { doneNote, type Issue } from "./sources/source.ts";
import { takeTurn, type TurnRequest } from "./turn.ts";
import { WorkTracker } from "./work-tracker.ts";

/** Most turns per batch about a changed text: an agent may change its issue itself, every time. */
const MAX_NEWS = 5;

export class IssueRunner {
  readonly #context: BatchContext;
  readonly #issue: Issue;
  readonly #progress: IssueProgress;
  readonly #work: WorkTracker;
  #troubles = 0;
  #crashes = 0;
  #gateTries = 0;
  #newsTurns = 0;
  /** The engine's message about the limit that this issue waits for. */
  #limitReason = "";
  /** Why the work counts as done. Empty: it is on its own branch, or a gate passed. */
  #evidence = "";
  /** The records of an earlier batch stand until this batch has claimed the issue. */
  readonly #hasPast: boolean;
  readonly #stuck = new StuckCheck();

  constructor(context: BatchContext, issue: Issue, past: KnownPast) {
    this.#context = context;
    this.#issue = issue;
    this.#hasPast = past.entry !== null;
    this.#progress = new IssueProgress(context, issue, past);
    this.#work = new WorkTracker(context, this.#progress);
  }

  async work(decision: IssueDecision): Promise<IssueEnd> {
    const progress = this.#progress;
    const { batch } = this.#context;
    using stopControl = progress.stopControl;
    using _asked = watchStopRequests(stopControl, {
      directory: dirname(batch.path),
      batch: batch.runId,
      handle: () => progress.handle,
    });
    if (decision.do === "leave") return progress.end("left", decision.why);
    if (decision.do === "fail") {
      const isKept = this.#isUnclaimed() && this.#hasPast;
      if (!isKept)
        await progress.save({ status: "failed", error: decision.why, finished_at: progress.now() });
      return progress.end("failed", decision.why);
    }
    try {
      await progress.noteKilledGate();
      return await this.#begin(decision);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (BATCH_ENDING.includes(error.code))
        return await this.#endUnfinished("interrupted", error.message, exitCodeOf(error));
      return await this.#endUnfinished("failed", error.message);
    }
  }

  async #begin(decision: Exclude<IssueDecision, { do: "leave" | "fail" }>): Promise<IssueEnd> {
    const { deps, root, view } = this.#context;
    const progress = this.#progress;
    const { id } = this.#issue;
    // It may have changed since the list. Claiming checks an open issue anyway.
    const looks = !this.#isUnclaimed() && decision.do !== "close";
    const decided = looks ? await this.#endIfDecided(BEFORE_WORK) : null;
    if (decided !== null) return decided;
    progress.baseline ??= await headCommit(deps, root, progress.mergeInto);
    if (decision.do === "fresh") progress.handle = decision.handle;
    const isNew = decision.do === "fresh" && decision.handle === null;
    progress.reopened = decision.do === "resume" && decision.reopened === true;
    // Kept for the next batch, in case this one dies first.
    if (progress.reopened)
      progress.findings = ["It was closed as done and has been opened again: it is not done."];
    await this.#work.begin(decision);
    const unclaimed = this.#hasPast ? await this.#claim() : null;
    if (unclaimed !== null) return unclaimed;
    await progress.save({
      status: decision.do === "close" ? "passed" : decision.do === "gate" ? "checking" : "running",
      session_id: decision.do === "fresh" ? null : decision.session,
      gate: decision.do === "close" ? progress.gate : null,
      // The completed turn is still the last turn about the issue.
      ...(decision.do === "gate" ? { attempts: progress.attempt } : {}),
      ...(isNew ? { agent_id: progress.nameRun() } : {}),
    });
    const refused = await this.#claim();
    if (refused !== null) return refused;
    switch (decision.do) {
      case "close":
        return this.#close();
      case "gate":
        progress.run = (await deps.store.findByHandle(decision.handle))[0] ?? null;
        return this.#checkWork();
      case "resume":
        view.verbose(`Resuming session ${decision.session} for ${id}`);
        await progress.readComments();
        return this.#runTurns({
          do: "resume",
          handle: decision.handle,
          message: () => nextPrompt(progress.promptFacts()),
        });
      case "fresh":
        if (decision.warn) deps.log.warn(`${id} starts a new conversation: ${decision.why}.`);
        await progress.readComments();
        return this.#runTurns(this.#newConversation(decision.handle));
    }
  }

  #isUnclaimed(): boolean {
    return this.#progress.status === "open";
  }

  /** Null: claimed for this batch. */
  async #claim(): Promise<IssueEnd | null> {
    if (!this.#isUnclaimed()) return null;
    const progress = this.#progress;
    const refused = await progress.claim();
    if (refused === null) return null;
    const { why, fault } = refused;
    const stop = fault !== null && BATCH_ENDING.includes(fault.code) ? exitCodeOf(fault) : undefined;
    if (!this.#hasPast) {
      progress.handle = null;
      progress.branch = null;
      await progress.save({ status: "left", error: why, finished_at: progress.now() });
    }
    return progress.end("left", why, stop);
  }

  /** A new conversation, in the run that has the work, if one exists. */
  #newConversation(handle: string | null): TurnRequest {
    if (handle === null) return { do: "start" };
    return {
      do: "fresh",
      handle,
      message: () => firstPrompt(this.#progress.promptFacts(), this.#progress.baseline),
    };
  }

  async #runTurns(first: TurnRequest): Promise<IssueEnd> {
    const { deps, options } = this.#context;
    const { stopControl } = this.#progress;
    for (let ask = first; ;) {
      const waited = await this.#progress.waitForLimit(this.#limitReason);
      const waitsFor = this.#limitReason === "" ? "" : `: ${this.#limitReason}`;
      if (waited === "stopped")
        return this.#endUnfinished(
          "interrupted",
          `${stopReason(this.#progress.stopControl)} while it waited${waitsFor}`,
        );
      const given = waited === "waited" ? await this.#endIfDecided("while it waited") : null;
      if (given !== null) return given;
      const turn = await takeTurn(this.#progress, ask);
      this.#work.addTurn(turn);
      const facts = { ...turn, resumed: ask.do === "resume", stopping: stopControl.level >= 2 };
      const counts = { troubles: this.#troubles, crashes: this.#crashes, nowMs: deps.clock.now() };
      const next = decideAfter({ ...facts, ...counts }, options);
      if (next.do === "gate") return this.#checkWork();
      if (next.do === "again" && next.limit)
        this.#context.limitedUntilMs = Math.max(this.#context.limitedUntilMs, next.notBeforeMs);
      const goesOn = next.do === "again" || next.do === "fresh";
      const decided = goesOn ? await this.#endIfDecided(WHILE_WORKING, next.why) : null;
      if (decided !== null) return decided;
      const again = this.#nextRequest(next);
      if (!("do" in again)) return this.#endUnfinished(again.state, again.why, again.stop);
      ask = again;
    }
  }

  /** The next turn, or how the issue ends. */
  #nextRequest(
    next: Exclude<TurnDecision, { do: "gate" }>,
  ): TurnRequest | { state: "failed" | "interrupted"; why: string; stop?: number } {
    const { handle, run } = this.#progress;
    switch (next.do) {
      case "again":
        if (next.limit) {
          this.#troubles += 1;
          this.#limitReason = next.why;
          const until = untilText(this.#context.limitedUntilMs, this.#context.deps.clock.now());
          this.#context.deps.log.info(`${this.#issue.id} waits ${until}: ${next.why.replace(RESET, "")}`);
        } else this.#crashes += 1;
        return handle === null || run?.session.value === null
          ? this.#newConversation(handle)
          : { do: "resume", handle, message: () => nextPrompt(this.#progress.promptFacts()) };
      case "fresh":
        this.#context.deps.log.warn(`${this.#issue.id} starts a new conversation: ${next.why}.`);
        return this.#newConversation(handle);
      case "fail":
        return { state: "failed", why: next.why };
      case "interrupt":
        return { state: "interrupted", why: next.why };
      case "stop":
        return { state: "interrupted", why: next.why, stop: next.exitCode };
    }
  }

  /** After a completed turn: commits the work and runs the gate. */
  async #checkWork(): Promise<IssueEnd> {
    const { options, root } = this.#context;
    const progress = this.#progress;
    const { stopControl } = progress;
    const { gate } = options;
    const cwd = progress.run?.cwd ?? root;
    progress.show("checking", "");
    const settled = await progress.commit(cwd);
    if (settled.left !== null) return this.#endWithUnfinishedWork(settled.left, settled.help);
    await this.#work.readStoredDenials();
    const work = await this.#work.state(cwd);
    const changed = work === "changed" || work === "unseen";
    if (gate === null) {
      if (!changed) return this.#endWithoutChange(work);
      // Others work in the same folder, so the change may be theirs.
      if (options.isolate === "none") this.#evidence = WORK_WORDS[work];
      return this.#closePassed(NO_GATE);
    }
    if (stopControl.level >= 2)
      return this.#endUnfinished(
        "interrupted",
        `${stopReason(this.#progress.stopControl)} before its work was checked`,
      );
    progress.note({ status: "checking" });
    const finding = await checkWork(progress, gate.commands, cwd);
    // A gate that passes on unchanged files proves nothing if the engine refused the agent's tool calls.
    if (finding === null)
      return changed || progress.denied.length === 0 ? this.#closePassed("") : this.#endWithoutChange(work);
    if (stopControl.level >= 2)
      return this.#endUnfinished(
        "interrupted",
        `${stopReason(this.#progress.stopControl)} while its work was checked`,
      );
    progress.findings = [finding];
    progress.note({ status: "checking", gate: { passed: false, detail: finding } });
    this.#gateTries += 1;
    const stuck = this.#stuck.isStuck(await fingerprint(this.#context.deps, cwd));
    const first = finding.split("\n")[0] ?? "";
    if (stuck)
      return this.#endUnfinished("failed", `the gate keeps failing, and the agent changes nothing: ${first}`);
    if (this.#gateTries >= gate.attempts)
      return this.#endUnfinished("failed", `the gate failed ${times(this.#gateTries)}: ${first}`);
    if (progress.handle === null)
      return this.#endUnfinished(
        "failed",
        `the gate failed, and no conversation is left to report it to: ${first}`,
      );
    const { handle } = progress;
    const decided = await this.#endIfDecided(WHILE_WORKING);
    if (decided !== null) return decided;
    return this.#runTurns({ do: "resume", handle, message: () => findingsPrompt(progress.promptFacts()) });
  }

  /** The turn was completed, but nothing changed. */
  async #endWithoutChange(work: WorkState): Promise<IssueEnd> {
    const earlier = deniedWords(this.#progress.denied, " of an earlier turn");
    const denied = deniedWords(this.#work.denied) || earlier;
    const fact = work === "others" ? "you ran no tool that could change a file" : "no file has changed";
    this.#progress.findings = [`Your last turn ended, but ${fact}. ${denied}`.trim()];
    const why = WORK_WORDS[work === "others" ? "others" : "nothing"];
    return this.#endUnfinished("no_change", [why, denied].filter(Boolean).join("; "));
  }

  /** The turn was completed, but git shows unfinished work. */
  async #endWithUnfinishedWork(left: string, help?: string): Promise<IssueEnd> {
    this.#progress.findings = [`Your last turn ended, but ${left}. Put that right.`];
    return this.#endUnfinished("failed", help === undefined ? left : `${left}. ${help}`);
  }

  async #closePassed(detail: string): Promise<IssueEnd> {
    this.#progress.findings = [];
    await this.#progress.save({ status: "passed", gate: { passed: true, detail } });
    return this.#close();
  }

  /** Null: it is still in progress, or unreadable, with a warning. `turn`: how its last turn ended. */
  async #endIfDecided(when: string, turn = "", stop?: number): Promise<IssueEnd | null> {
    let word: string | null;
    try {
      word = await this.#progress.readStatus();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const { id } = this.#issue;
      this.#context.deps.log.warn(`Reprise cannot read ${id}, so its status is unknown: ${error.message}`);
      return null;
    }
    return this.#endIfLeft(word, { when, turn, stop });
  }

  /** Null: it is still in progress. Otherwise a person set another status, and Reprise keeps it. */
  async #endIfLeft(
    word: string | null,
    { when, turn, stop }: { when: string; turn: string; stop?: number | undefined },
  ): Promise<IssueEnd | null> {
    const progress = this.#progress;
    if (progress.status === "in_progress") return null;
    progress.unnameRun();
    const why = [decidedWords(word, when), turn].filter(Boolean).join("; ");
    await this.#work.forgetChangesOfOthers();
    // If nothing began here, the records of an earlier batch stand.
    const isBegun = this.#context.batch.issue(this.#issue.id) !== null;
    if (isBegun) await progress.save({ status: "left", error: why, finished_at: progress.now() });
    return progress.end("left", why, stop);
  }

  async #close(): Promise<IssueEnd> {
    const { root, options, source } = this.#context;
    const progress = this.#progress;
    const decided = await this.#endIfLeft(await progress.readStatus(), { when: WHILE_WORKING, turn: "" });
    if (decided !== null) return decided;
    const hasNews = progress.promptFacts().news !== null;
    // In the checkout, the agent may have changed the issue's text itself.
    const isOwn = options.isolate === "none" && this.#newsTurns > 0;
    if (hasNews && !isOwn) return this.#sendNews();
    const work = options.gate === null ? "changed" : await this.#work.state(progress.run?.cwd ?? root);
    // Only the gate says that it is done: its branch has no commit to merge.
    if (work === "nothing" || work === "others") this.#evidence = `the gate passed; ${WORK_WORDS[work]}`;
    const branch = options.isolate === "worktree" && work !== "nothing" ? progress.branch : null;
    if (branch !== null) await progress.moveIssueFileEdits(branch);
    const into = branch === null ? null : progress.mergeInto;
    if (branch !== null && into !== null) await mergeInTurn(this.#context, branch, into);
    const where =
      branch === null ? "" : into === null ? ` on branch ${branch}` : `, merged from ${branch} into ${into}`;
    const nothing = work === "nothing" ? `: ${this.#evidence}` : "";
    await source.close(this.#issue.id, doneNote(options.engine, progress.handle, `${where}${nothing}`));
    // On disk first: the next batch must tell a reopened issue from an issue that was never closed.
    await progress.save({ status: "completed", error: null, finished_at: progress.now() });
    progress.status = "closed";
    const doubts = [progress.unverified ? UNVERIFIED : "", hasNews ? UNSENT_CHANGE : ""];
    const merged = into === null ? "" : `merged into ${into}`;
    const reasons = [merged, this.#evidence, ...doubts, deniedWords(this.#work.denied), ...progress.notes];
    const end = progress.end("completed", reasons.filter(Boolean).join("; "));
    if (work === "nothing") return { ...end, branch: null };
    return into === null ? end : { ...end, mergedInto: into };
  }

  /** The issue changed since its agent read it, so the agent gets the change before Reprise closes the issue. */
  async #sendNews(): Promise<IssueEnd> {
    const progress = this.#progress;
    const { handle } = progress;
    this.#newsTurns += 1;
    if (handle === null || progress.stopControl.level >= 2 || this.#newsTurns > MAX_NEWS)
      return this.#endUnfinished("interrupted", "the issue changed, and its agent does not know it yet");
    return this.#runTurns({ do: "resume", handle, message: () => newsPrompt(progress.promptFacts()) });
  }

  /** The issue stays in progress, with a note. */
  async #endUnfinished(
    state: "failed" | "interrupted" | "no_change",
    how: string,
    stop?: number,
  ): Promise<IssueEnd> {
    const why = [how, ...this.#progress.notes].join("; ");
    if (this.#isUnclaimed()) {
      if (!this.#hasPast)
        this.#progress.note({ status: state, error: why, finished_at: this.#progress.now() });
      return this.#progress.end(state, why, stop);
    }
    this.#progress.unnameRun();
    const decided = await this.#endIfDecided(WHILE_WORKING, why, stop);
    if (decided !== null) return decided;
    await this.#work.forgetChangesOfOthers();
    this.#progress.note({ status: state, error: why, finished_at: this.#progress.now() });
    await this.#progress.noteInSource(state, why);
    return this.#progress.end(state, why, stop);
  }
}
