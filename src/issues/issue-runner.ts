/**
 * One issue from its claim to its end: turns of its conversation, the gate after each, the branch, the closing.
 *
 * What is about to happen is in the metadata before it happens, so that after a crash at any moment the next batch
 * knows the conversation, the place of the work and what was left to be done.
 */
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { DeniedCall } from "../core/events.ts";
import { exitCodeOf, Fault } from "../core/faults.ts";
import { untilText } from "../lib/until.ts";
import { storedDenials } from "../run/engine-access.ts";
import { obeyRequests } from "./brake.ts";
import {
  type IssueDecision,
  decideAfter,
  decidedWords,
  deniedWords,
  HOPELESS,
  type TurnDecision,
  RESET,
  times,
  UNTOLD,
  UNVERIFIED,
  WHILE_WORKING,
  whoStopped,
  type WorkState,
  WORK_WORDS,
  workOf,
} from "./decide.ts";
import { NO_GATE } from "./metadata.ts";
import type { KnownPast } from "./past.ts";
import { findingsPrompt, firstPrompt, newsPrompt, nextPrompt } from "./prompt.ts";
import { doneNote, type Issue, openNote } from "./source.ts";
import { type TurnRequest, takeTurn } from "./turn.ts";
import { fingerprint, headCommit, mergeInTurn, StuckCheck, treeOf, workIn } from "./git.ts";
import { BEFORE_WORK, IssueProgress, type IssueEnd, type BatchContext } from "./issue-progress.ts";

/** Turns of one batch about a text that has changed: an agent may write in its issue itself. */
const MAX_NEWS = 5;

export class IssueRunner {
  readonly #shop: BatchContext;
  readonly #issue: Issue;
  readonly #desk: IssueProgress;
  #troubles = 0;
  #crashes = 0;
  #gateTries = 0;
  #newsTurns = 0;
  /** What the engine said before the wait. */
  #waitsFor = "";
  /** What is known of the change that counts as the work; empty: it is on its own branch, or a gate has passed on it. */
  #seen = "";
  /** What an earlier batch wrote down about it stands until this one has claimed it. */
  readonly #hasPast: boolean;
  readonly #stuck = new StuckCheck();
  /** Of all turns in this batch. */
  #toolCalls = 0;
  readonly #denied: DeniedCall[] = [];

  constructor(shop: BatchContext, issue: Issue, past: KnownPast) {
    this.#shop = shop;
    this.#issue = issue;
    this.#hasPast = past.entry !== null;
    this.#desk = new IssueProgress(shop, issue, past);
  }

  async work(decision: IssueDecision): Promise<IssueEnd> {
    const desk = this.#desk;
    const { batch } = this.#shop;
    using brake = desk.brake;
    using _asked = obeyRequests(brake, {
      directory: dirname(batch.path),
      batch: batch.runId,
      handle: () => desk.handle,
    });
    if (decision.do === "leave") return desk.end("left", decision.why);
    if (decision.do === "fail") {
      const isKept = this.#isUnclaimed() && this.#hasPast;
      if (!isKept) await desk.save({ status: "failed", error: decision.why, finished_at: desk.now() });
      return desk.end("failed", decision.why);
    }
    try {
      await desk.noteKilledGate();
      return await this.#take(decision);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (HOPELESS.includes(error.code))
        return await this.#give("interrupted", error.message, exitCodeOf(error));
      return await this.#give("failed", error.message);
    }
  }

  async #take(decision: Exclude<IssueDecision, { do: "leave" | "fail" }>): Promise<IssueEnd> {
    const { deps, root, view } = this.#shop;
    const desk = this.#desk;
    const { id } = this.#issue;
    // It may have waited for its turn since it was listed. What is open is looked at when it is claimed.
    const looks = !this.#isUnclaimed() && decision.do !== "close";
    const decided = looks ? await this.#decided(BEFORE_WORK) : null;
    if (decided !== null) return decided;
    desk.baseline ??= await headCommit(deps, root);
    if (decision.do === "fresh") desk.handle = decision.handle;
    const isNew = decision.do === "fresh" && decision.handle === null;
    desk.reopened = decision.do === "resume" && decision.reopened === true;
    // Kept for the next batch, should this one not get to say it.
    if (desk.reopened) desk.findings = ["It was closed as done and has been opened again: it is not done."];
    if (this.#beginsNow()) {
      desk.tree = await this.#begins(decision);
      desk.tools = 0;
    }
    const unclaimed = this.#hasPast ? await this.#claim() : null;
    if (unclaimed !== null) return unclaimed;
    await desk.save({
      status: decision.do === "close" ? "passed" : decision.do === "gate" ? "checking" : "running",
      session_id: decision.do === "fresh" ? null : decision.session,
      gate: decision.do === "close" ? desk.gate : null,
      // The turn that was completed is still the last one about the issue.
      ...(decision.do === "gate" ? { attempts: desk.attempt } : {}),
      ...(isNew ? { agent_id: desk.nameRun() } : {}),
    });
    const refused = await this.#claim();
    if (refused !== null) return refused;
    switch (decision.do) {
      case "close":
        return this.#finish();
      case "gate":
        desk.run = (await deps.store.findByHandle(decision.handle))[0] ?? null;
        return this.#judge();
      case "resume":
        view.verbose(`Resuming session ${decision.session} for ${id}`);
        await desk.readComments();
        return this.#turns({ do: "resume", handle: decision.handle, message: () => nextPrompt(desk.told()) });
      case "fresh":
        if (decision.warn) deps.log.warn(`${id} starts a new conversation: ${decision.why}.`);
        await desk.readComments();
        return this.#turns(this.#fresh(decision.handle));
    }
  }

  #isUnclaimed(): boolean {
    return this.#desk.status === "open";
  }

  /** Null: it is in progress, for this batch. */
  async #claim(): Promise<IssueEnd | null> {
    if (!this.#isUnclaimed()) return null;
    const desk = this.#desk;
    const refused = await desk.claim();
    if (refused === null) return null;
    const { why, fault } = refused;
    const stop = fault !== null && HOPELESS.includes(fault.code) ? exitCodeOf(fault) : undefined;
    if (!this.#hasPast) {
      desk.handle = null;
      desk.branch = null;
      await desk.save({ status: "left", error: why, finished_at: desk.now() });
    }
    return desk.end("left", why, stop);
  }

  /** Nothing that an agent did before belongs to what is wanted now. */
  #beginsNow(): boolean {
    const { tree, tools, wasDone } = this.#desk;
    return tree === null || wasDone || (this.#shop.options.isolate === "none" && tools === 0);
  }

  /** What the files are before this work. Of work that was begun earlier, what they were at its first start. */
  async #begins(decision: IssueDecision): Promise<string | null> {
    const { deps, root, options } = this.#shop;
    const { baseline, wasDone, branch } = this.#desk;
    if (options.isolate === "none") return workIn(deps, root, false);
    if (wasDone) {
      const handle = "handle" in decision ? decision.handle : null;
      const [run] = handle === null ? [] : await deps.store.findByHandle(handle);
      if (run !== undefined) return workIn(deps, run.cwd, true);
      const kept = branch === null ? null : await treeOf(deps, root, branch);
      if (kept !== null) return kept;
    }
    if (baseline === null) return null;
    const { trees } = this.#shop;
    const tree = trees.get(baseline) ?? treeOf(deps, root, baseline);
    trees.set(baseline, tree);
    return tree;
  }

  /** A new conversation: where the work is, if there is such a place. */
  #fresh(handle: string | null): TurnRequest {
    if (handle === null) return { do: "start" };
    return { do: "fresh", handle, message: () => firstPrompt(this.#desk.told(), this.#desk.baseline) };
  }

  async #turns(first: TurnRequest): Promise<IssueEnd> {
    const { deps, options } = this.#shop;
    const { brake } = this.#desk;
    for (let ask = first; ;) {
      const waited = await this.#desk.waitForLimit(this.#waitsFor);
      const waitsFor = this.#waitsFor === "" ? "" : `: ${this.#waitsFor}`;
      if (waited === "stopped")
        return this.#give("interrupted", `${whoStopped(this.#desk.brake)} while it waited${waitsFor}`);
      const given = waited === "waited" ? await this.#decided("while it waited") : null;
      if (given !== null) return given;
      const turn = await takeTurn(this.#desk, ask);
      this.#denied.push(...turn.denied);
      this.#toolCalls += turn.toolCalls;
      const facts = { ...turn, resumed: ask.do === "resume", stopping: brake.force >= 2 };
      const counts = { troubles: this.#troubles, crashes: this.#crashes, nowMs: deps.clock.now() };
      const next = decideAfter({ ...facts, ...counts }, options);
      if (next.do === "gate") return this.#judge();
      if (next.do === "again" && next.limit)
        this.#shop.limitedUntilMs = Math.max(this.#shop.limitedUntilMs, next.notBeforeMs);
      const goesOn = next.do === "again" || next.do === "fresh";
      const decided = goesOn ? await this.#decided(WHILE_WORKING, next.why) : null;
      if (decided !== null) return decided;
      const again = this.#askAgain(next);
      if (!("do" in again)) return this.#give(again.state, again.why, again.stop);
      ask = again;
    }
  }

  /** What is asked next, or how it ends. */
  #askAgain(
    next: Exclude<TurnDecision, { do: "gate" }>,
  ): TurnRequest | { state: "failed" | "interrupted"; why: string; stop?: number } {
    const { handle, run } = this.#desk;
    switch (next.do) {
      case "again":
        if (next.limit) {
          this.#troubles += 1;
          this.#waitsFor = next.why;
          const until = untilText(this.#shop.limitedUntilMs, this.#shop.deps.clock.now());
          this.#shop.deps.log.info(`${this.#issue.id} waits ${until}: ${next.why.replace(RESET, "")}`);
        } else this.#crashes += 1;
        return handle === null || run?.session.value === null
          ? this.#fresh(handle)
          : { do: "resume", handle, message: () => nextPrompt(this.#desk.told()) };
      case "fresh":
        this.#shop.deps.log.warn(`${this.#issue.id} starts a new conversation: ${next.why}.`);
        return this.#fresh(handle);
      case "fail":
        return { state: "failed", why: next.why };
      case "interrupt":
        return { state: "interrupted", why: next.why };
      case "stop":
        return { state: "interrupted", why: next.why, stop: next.exitCode };
    }
  }

  /** The agent says that it is done. */
  async #judge(): Promise<IssueEnd> {
    const { options, root } = this.#shop;
    const desk = this.#desk;
    const { brake } = desk;
    const { gate } = options;
    const cwd = desk.run?.cwd ?? root;
    desk.show("checking", "");
    const settled = await desk.settle(cwd);
    if (settled.left !== null) return this.#unfinished(settled.left, settled.help);
    await this.#lookForDenials();
    const work = await this.#workIn(cwd);
    const changed = work === "changed" || work === "unseen";
    if (gate === null) {
      if (!changed) return this.#nothing(work);
      // Whose change it is cannot be told where others work too.
      if (options.isolate === "none") this.#seen = WORK_WORDS[work];
      return this.#passed(NO_GATE);
    }
    if (brake.force >= 2)
      return this.#give("interrupted", `${whoStopped(this.#desk.brake)} before its work was checked`);
    desk.note({ status: "checking" });
    const finding = await desk.check(gate.commands, cwd);
    // A gate that passes without any work says nothing about an agent that was not let work.
    if (finding === null) return changed || desk.denied.length === 0 ? this.#passed("") : this.#nothing(work);
    if (brake.force >= 2)
      return this.#give("interrupted", `${whoStopped(this.#desk.brake)} while its work was checked`);
    desk.findings = [finding];
    desk.note({ status: "checking", gate: { passed: false, detail: finding } });
    this.#gateTries += 1;
    const stuck = this.#stuck.isStuck(await fingerprint(this.#shop.deps, cwd));
    const first = finding.split("\n")[0] ?? "";
    if (stuck) return this.#give("failed", `the gate fails and nothing changes any more: ${first}`);
    if (this.#gateTries >= gate.attempts)
      return this.#give("failed", `the gate failed ${times(this.#gateTries)}: ${first}`);
    if (desk.handle === null)
      return this.#give("failed", `the gate failed, and there is no conversation to say it in: ${first}`);
    const { handle } = desk;
    const decided = await this.#decided(WHILE_WORKING);
    if (decided !== null) return decided;
    return this.#turns({ do: "resume", handle, message: () => findingsPrompt(desk.told()) });
  }

  /** Where the output does not tell what was refused, the engine's own store may. */
  async #lookForDenials(): Promise<void> {
    const { run } = this.#desk;
    const stored = run === null ? null : await storedDenials(this.#shop.deps, run);
    if (stored === null) return;
    this.#denied.push(...stored);
    // The same turn may have been looked at in an earlier batch.
    const { denied } = this.#desk;
    denied.push(...stored.filter((call) => !denied.some((one) => isDeepStrictEqual(one, call))));
  }

  async #workIn(cwd: string): Promise<WorkState> {
    const { isolate } = this.#shop.options;
    const now = await workIn(this.#shop.deps, cwd, isolate === "worktree");
    const { tree, tools } = this.#desk;
    return workOf({ tree, now, tools, toolCalls: this.#toolCalls, denied: this.#denied.length, isolate });
  }

  /** The agent says that it is done, and nothing is there that could be called done. */
  async #nothing(work: WorkState): Promise<IssueEnd> {
    const earlier = deniedWords(this.#desk.denied, " of an earlier turn");
    const denied = deniedWords(this.#denied) || earlier;
    const told = work === "others" ? "you ran no tool that could change a file" : "no file has changed";
    this.#desk.findings = [`Your last turn ended, but ${told}. ${denied}`.trim()];
    const why = WORK_WORDS[work === "others" ? "others" : "nothing"];
    return this.#give("no_change", [why, denied].filter(Boolean).join("; "));
  }

  /** The agent says that it is done, and git shows that it is not. */
  async #unfinished(left: string, help?: string): Promise<IssueEnd> {
    this.#desk.findings = [`Your last turn ended, but ${left}. Put that right.`];
    return this.#give("failed", help === undefined ? left : `${left}. ${help}`);
  }

  async #passed(detail: string): Promise<IssueEnd> {
    this.#desk.findings = [];
    await this.#desk.save({ status: "passed", gate: { passed: true, detail } });
    return this.#finish();
  }

  /** Null: it is in progress, or cannot be read, which is said. `turn`: how its last turn ended. */
  async #decided(when: string, turn = "", stop?: number): Promise<IssueEnd | null> {
    let word: string | null;
    try {
      word = await this.#desk.look();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const { id } = this.#issue;
      this.#shop.deps.log.warn(`${id} cannot be read, so its status is not known: ${error.message}`);
      return null;
    }
    return this.#leftAs(word, { when, turn, stop });
  }

  /** Null: it is in progress, as this batch has it. Otherwise a person has decided about it, and that stands. */
  async #leftAs(
    word: string | null,
    { when, turn, stop }: { when: string; turn: string; stop?: number | undefined },
  ): Promise<IssueEnd | null> {
    const desk = this.#desk;
    if (desk.status === "in_progress") return null;
    desk.unnameRun();
    const why = [decidedWords(word, when), turn].filter(Boolean).join("; ");
    await this.#forgetOthers();
    // Where nothing was begun, what an earlier batch wrote down stands.
    const isBegun = this.#shop.batch.issue(this.#issue.id) !== null;
    if (isBegun) await desk.save({ status: "left", error: why, finished_at: desk.now() });
    return desk.end("left", why, stop);
  }

  /** In the checkout others work too: where nothing was done, what changes from now on is not this agent's work. */
  async #forgetOthers(): Promise<void> {
    const { options, root } = this.#shop;
    if (options.isolate !== "none") return;
    const work = await this.#workIn(root);
    if (work === "nothing" || work === "others") Object.assign(this.#desk, { tree: null, tools: 0 });
  }

  async #finish(): Promise<IssueEnd> {
    const { root, options, source } = this.#shop;
    const desk = this.#desk;
    const decided = await this.#leftAs(await desk.look(), { when: WHILE_WORKING, turn: "" });
    if (decided !== null) return decided;
    const hasNews = desk.told().news !== null;
    // There the agent may write in its issue itself, at every turn.
    const isOwn = options.isolate === "none" && this.#newsTurns > 0;
    if (hasNews && !isOwn) return this.#tellNews();
    const work = options.gate === null ? "changed" : await this.#workIn(desk.run?.cwd ?? root);
    // Of such an issue the gate alone says that it is done: nothing is on its branch, and nothing can be merged.
    if (work === "nothing" || work === "others") this.#seen = `the gate passed; ${WORK_WORDS[work]}`;
    const branch = options.isolate === "worktree" && work !== "nothing" ? desk.branch : null;
    if (branch !== null) await desk.takeFile(branch);
    if (options.merge && branch !== null) await mergeInTurn(this.#shop, branch);
    const where = branch === null ? "" : options.merge ? `, merged from ${branch}` : ` on branch ${branch}`;
    const nothing = work === "nothing" ? `: ${this.#seen}` : "";
    await source.close(this.#issue.id, doneNote(options.engine, desk.handle, `${where}${nothing}`));
    // On disk before anything else: closed and opened again is another thing than not closed yet.
    await desk.save({ status: "completed", error: null, finished_at: desk.now() });
    desk.status = "closed";
    const proof = desk.unverified ? UNVERIFIED : "";
    const said = [this.#seen, proof, hasNews ? UNTOLD : "", deniedWords(this.#denied), ...desk.notes];
    const end = desk.end("completed", said.filter(Boolean).join("; "));
    return work === "nothing" ? { ...end, branch: null } : end;
  }

  /** Somebody has changed the issue since its agent read it: it is done when the agent has heard that too. */
  async #tellNews(): Promise<IssueEnd> {
    const desk = this.#desk;
    const { handle } = desk;
    this.#newsTurns += 1;
    if (handle === null || desk.brake.force >= 2 || this.#newsTurns > MAX_NEWS)
      return this.#give("interrupted", "the issue was changed, and its agent has not heard of it yet");
    return this.#turns({ do: "resume", handle, message: () => newsPrompt(desk.told()) });
  }

  /** It stays in progress, with a note; what was known stays known. */
  async #give(state: "failed" | "interrupted" | "no_change", how: string, stop?: number): Promise<IssueEnd> {
    const { deps, source, redact, options } = this.#shop;
    const { id } = this.#issue;
    const why = [how, ...this.#desk.notes].join("; ");
    if (this.#isUnclaimed()) {
      if (!this.#hasPast) this.#desk.note({ status: state, error: why, finished_at: this.#desk.now() });
      return this.#desk.end(state, why, stop);
    }
    this.#desk.unnameRun();
    const decided = await this.#decided(WHILE_WORKING, why, stop);
    if (decided !== null) return decided;
    await this.#forgetOthers();
    this.#desk.note({ status: state, error: why, finished_at: this.#desk.now() });
    try {
      const words = redact(why).slice(0, 2_000);
      await source.note(id, openNote(state, words, options.again.note));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(`${id} got no note: ${error.message}`);
    }
    return this.#desk.end(state, why, stop);
  }
}
