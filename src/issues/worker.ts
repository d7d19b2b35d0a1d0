/**
 * One issue from its claim to its end: turns of its conversation, the gate after each, the branch, the closing.
 *
 * What is about to happen is in the metadata before it happens, so that after a crash at any moment the next batch
 * knows the conversation, the place of the work and what was left to be done.
 */
import type { Outcome, Tokens } from "../core/events.ts";
import { exitCodeOf, Fault, type FaultCode } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import { type AttemptResult, resumeRun, startRun, type Watch } from "../run/run.ts";
import { type Decision, decideAfter, type Next } from "./decide.ts";
import { endGate, runGate } from "./gate.ts";
import type { IssueRecord } from "./metadata.ts";
import type { KnownPast } from "./past.ts";
import { findingsPrompt, firstPrompt, nextPrompt, type Told } from "./prompt.ts";
import { repositorySlug } from "./repository.ts";
import type { Issue } from "./source.ts";
import type { IssueEnd, Progress, Workshop } from "./workshop.ts";
import { branchFor, commitWork, fingerprint, headCommit, mergeWork } from "./work.ts";

type Ask =
  | { readonly do: "start" }
  | { readonly do: "resume" | "fresh"; readonly handle: string; readonly message: string };

/** Faults that say of the conversation what an engine would say. */
const LOST: readonly FaultCode[] = [
  "session_lost",
  "session_unknown",
  "session_damaged",
  "cwd_missing",
  "run_dir_missing",
  "handle_unknown",
];
const BUSY: readonly FaultCode[] = ["session_busy", "run_busy"];
/** No other issue would fare better. */
const HOPELESS: readonly FaultCode[] = [
  "engine_missing",
  "engine_unknown",
  "storage_failed",
  "storage_full",
  "trust_required",
  "github_limited",
  "github_unreachable",
  "github_denied",
];
const MAX_SAME = 2;

export class IssueWork {
  readonly #shop: Workshop;
  readonly #issue: Issue;
  #run: RunRecord | null = null;
  #handle: string | null;
  #branch: string | null;
  #baseline: string | null;
  #findings: readonly string[];
  #attempt = 0;
  #tokens: Tokens | null = null;
  #toolCalls = 0;
  #troubles = 0;
  #crashes = 0;
  #gateTries = 0;
  #print: string | null = null;
  #same = 0;

  constructor(shop: Workshop, issue: Issue, past: KnownPast) {
    this.#shop = shop;
    this.#issue = issue;
    const { entry } = past;
    this.#handle = past.handle;
    this.#branch = entry?.branch ?? null;
    this.#baseline = entry?.baseline_commit ?? null;
    this.#findings = entry?.findings ?? [];
  }

  async work(decision: Decision): Promise<IssueEnd> {
    if (decision.do === "leave") return this.#end("left", decision.why);
    if (decision.do === "fail") {
      this.#save({ status: "failed", error: decision.why, finished_at: this.#now() });
      return this.#end("failed", decision.why);
    }
    try {
      return await this.#take(decision);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (HOPELESS.includes(error.code)) return this.#give("interrupted", error.message, exitCodeOf(error));
      return this.#give("failed", error.message);
    }
  }

  async #take(decision: Exclude<Decision, { do: "leave" | "fail" }>): Promise<IssueEnd> {
    const { deps, root, source, view } = this.#shop;
    const { id, status } = this.#issue;
    this.#baseline ??= await headCommit(deps, root);
    if (decision.do === "fresh") this.#handle = decision.handle;
    this.#save({
      status: decision.do === "close" ? "passed" : decision.do === "gate" ? "checking" : "running",
      session_id: decision.do === "fresh" ? null : decision.session,
      gate: decision.do === "close" ? { passed: true, detail: "" } : null,
    });
    if (status === "open" && !(await source.claim(id, "open"))) {
      const why = "somebody else has claimed it";
      this.#save({ status: "interrupted", error: why, finished_at: this.#now() });
      return this.#end("left", why);
    }
    switch (decision.do) {
      case "close":
        return this.#finish();
      case "gate":
        this.#run = await this.#runOfHandle(decision.handle);
        return this.#judge();
      case "resume":
        view.verbose(`Resuming session ${decision.session} for ${id}`);
        return this.#turns({ do: "resume", handle: decision.handle, message: nextPrompt(this.#told()) });
      case "fresh": {
        if (decision.warn) deps.log.warn(`${id} starts a new conversation: ${decision.why}.`);
        if (decision.handle === null) return this.#turns({ do: "start" });
        const message = firstPrompt(this.#told(), this.#baseline);
        return this.#turns({ do: "fresh", handle: decision.handle, message });
      }
    }
  }

  async #turns(first: Ask): Promise<IssueEnd> {
    const { deps, brake } = this.#shop;
    for (let ask = first; ;) {
      if (!(await this.#waitForLimit()))
        return this.#give("interrupted", "the batch was stopped while it waited");
      const outcome = await this.#turn(ask);
      const resumed = ask.do === "resume";
      const facts = { outcome, resumed, toolCalls: this.#toolCalls, stopping: brake.force >= 2 };
      const counts = { troubles: this.#troubles, crashes: this.#crashes, nowMs: deps.clock.now() };
      const next = decideAfter({ ...facts, ...counts }, this.#shop.options);
      if (next.do === "gate") return this.#judge();
      const again = this.#askAgain(next);
      if (!("do" in again)) return this.#give(again.state, again.why, again.stop);
      ask = again;
    }
  }

  /** What is asked next, or how it ends. */
  #askAgain(
    next: Exclude<Next, { do: "gate" }>,
  ): Ask | { state: "failed" | "interrupted"; why: string; stop?: number } {
    const handle = this.#handle;
    switch (next.do) {
      case "again":
        if (next.limit) {
          this.#troubles += 1;
          this.#shop.limitedUntilMs = Math.max(this.#shop.limitedUntilMs, next.notBeforeMs);
          this.#shop.deps.log.info(`${this.#issue.id} waits: ${next.why}`);
        } else this.#crashes += 1;
        if (handle === null) return { do: "start" };
        return this.#run?.session.value === null
          ? { do: "fresh", handle, message: firstPrompt(this.#told(), this.#baseline) }
          : { do: "resume", handle, message: nextPrompt(this.#told()) };
      case "fresh":
        this.#shop.deps.log.warn(`${this.#issue.id} starts a new conversation: ${next.why}.`);
        return handle === null
          ? { do: "start" }
          : { do: "fresh", handle, message: firstPrompt(this.#told(), this.#baseline) };
      case "fail":
        return { state: "failed", why: next.why };
      case "interrupt":
        return { state: "interrupted", why: next.why };
      case "stop":
        return { state: "interrupted", why: next.why, stop: next.exitCode };
    }
  }

  /** One turn; a conversation that is not there any more is an outcome of it. */
  async #turn(ask: Ask): Promise<Outcome> {
    this.#toolCalls = 0;
    const { forget, watch } = this.#watch();
    try {
      const result = await (ask.do === "start" ? this.#start(watch) : this.#again(ask, watch));
      this.#run = result.run;
      this.#attempt = result.attempt.n;
      await result.finish();
      this.#save({ status: "running", session_id: result.run.session.value, tokens: result.attempt.tokens });
      return result.attempt.outcome ?? { result: "interrupted", reason: "the attempt has no outcome" };
    } catch (error) {
      const kind = !(error instanceof Fault)
        ? null
        : LOST.includes(error.code)
          ? "session_lost"
          : BUSY.includes(error.code)
            ? "session_busy"
            : null;
      if (!(error instanceof Fault) || kind === null || ask.do === "start") throw error;
      // The place of the work is gone with the run.
      if (error.code !== "session_lost" && kind === "session_lost") this.#handle = null;
      const { message } = error;
      return { result: "failed", reason: message, trouble: { kind, message: message.replace(/\.$/, "") } };
    } finally {
      forget();
    }
  }

  #start(watch: Watch): Promise<AttemptResult> {
    const { deps, root, options, branches } = this.#shop;
    const isolated = options.isolate === "worktree";
    if (isolated) this.#branch = branchFor(this.#issue, branches);
    if (this.#branch !== null) branches.add(this.#branch);
    const runId = makeRunId(deps.clock.now(), options.engine, deps.newHandle());
    this.#handle = runId.slice(-8);
    this.#save({ status: "running", branch: this.#branch, agent_id: runId, gate: null });
    return startRun(
      deps,
      {
        ...this.#attemptOptions(),
        engine: options.engine,
        message: firstPrompt(this.#told(), null),
        native: options.native,
        env: [],
        cwd: root,
        cwdGiven: true,
        isolate: isolated ? "worktree" : null,
        ...(isolated && this.#branch !== null ? { branch: this.#branch } : {}),
        ...(isolated && this.#baseline !== null ? { from: this.#baseline } : {}),
        runDir: null,
        name: null,
        subject: `issue:${repositorySlug(root)}#${this.#issue.id}`,
        trustCwd: options.trustCwd,
        escrow: true,
        runId,
      },
      watch,
    );
  }

  #again(ask: Exclude<Ask, { do: "start" }>, watch: Watch): Promise<AttemptResult> {
    this.#save({ status: "running", gate: null });
    return resumeRun(
      this.#shop.deps,
      {
        ...this.#attemptOptions(),
        selector: ask.handle,
        want: ask.do,
        damage: "refuse",
        message: ask.message,
        native: [],
        keep: false,
        env: [],
        hasTerminal: false,
        trustCwd: this.#shop.options.trustCwd,
      },
      watch,
    );
  }

  #attemptOptions() {
    return { mode: "auto", limits: this.#shop.options.limits, terminal: null } as const;
  }

  /** Session ids reach the metadata when they are first seen. */
  #watch(): { readonly watch: Watch; readonly forget: () => void } {
    const { brake, view } = this.#shop;
    const { id } = this.#issue;
    let session: string | null = null;
    let forget = () => {};
    const seen = (value: string | null) => {
      if (value === null || value === session) return;
      session = value;
      this.#save({ status: "running", session_id: value });
    };
    const show = (detail: string) =>
      view.progress(id, { state: "running", attempt: this.#attempt, tokens: this.#tokens, detail });
    const watch: Watch = {
      raw: () => undefined,
      events: (events) => {
        for (const { event } of events) {
          if (event.type === "session") seen(event.session);
          else if (event.type === "tool" && event.state === "started") this.#toolCalls += 1;
          else if (event.type === "usage") this.#tokens = event.tokens;
        }
      },
      status: ({ attempt, tools }) => {
        this.#attempt = attempt;
        show(tools.map(({ name }) => name).join(", "));
      },
      live: () => {},
      mute: () => {},
      onStop: (listener) => {
        forget = brake.onStop(listener);
      },
      recorded: (run, attempt) => {
        this.#attempt = attempt.n;
        this.#run = run;
        this.#save({ status: "running", attempts: attempt.n, agent_id: run.runId });
        seen(run.session.value);
        show("");
      },
    };
    return { watch, forget: () => forget() };
  }

  async #waitForLimit(): Promise<boolean> {
    const { brake, deps, limitedUntilMs, view } = this.#shop;
    const now = () => deps.clock.now();
    if (now() >= limitedUntilMs) return true;
    const detail = `until ${new Date(limitedUntilMs).toISOString()}`;
    view.progress(this.#issue.id, { state: "waiting", attempt: this.#attempt, tokens: this.#tokens, detail });
    return brake.waitUntil(limitedUntilMs, now);
  }

  /** The agent says that it is done. */
  async #judge(): Promise<IssueEnd> {
    const { deps, options, brake, root, batch } = this.#shop;
    const { id, title } = this.#issue;
    const cwd = this.#run?.cwd ?? root;
    this.#show("checking", "");
    if (options.isolate === "worktree")
      await commitWork(deps, cwd, `${id}: ${title.replace(/\s+/g, " ").slice(0, 200)}`);
    const { gate } = options;
    if (gate === null) return this.#passed("no gate is configured");
    this.#save({ status: "checking" });
    const marker = `${batch.record.run_id}/${id}/gate`;
    const forget = brake.on(() => void (brake.force >= 2 && endGate(deps, marker)));
    const env = {
      REPRISE_ISSUE: id,
      ...(this.#baseline === null ? {} : { REPRISE_BASELINE: this.#baseline }),
    };
    const verdict = await runGate(deps, {
      commands: gate.commands,
      cwd,
      env,
      marker,
      redact: this.#shop.redact,
    });
    forget();
    if (verdict.passed) return this.#passed("");
    if (brake.force >= 2)
      return this.#give("interrupted", "the batch was stopped while its work was checked");
    this.#findings = verdict.findings;
    this.#save({
      status: "running",
      gate: { passed: false, detail: verdict.findings.join("\n") },
      findings: verdict.findings,
    });
    this.#gateTries += 1;
    const stuck = await this.#isStuck(cwd);
    const first = verdict.findings[0]?.split("\n")[0] ?? "";
    if (stuck) return this.#give("failed", `the gate fails and nothing changes any more: ${first}`);
    if (this.#gateTries >= gate.attempts)
      return this.#give("failed", `the gate failed ${this.#gateTries} times: ${first}`);
    const handle = this.#handle;
    if (handle === null)
      return this.#give("failed", `the gate failed, and there is no conversation to say it in: ${first}`);
    return this.#turns({ do: "resume", handle, message: findingsPrompt(this.#told()) });
  }

  /** The same files at several gates in a row. */
  async #isStuck(cwd: string): Promise<boolean> {
    const print = await fingerprint(this.#shop.deps, cwd);
    this.#same = print !== null && print === this.#print ? this.#same + 1 : 0;
    this.#print = print;
    return this.#same >= MAX_SAME;
  }

  async #passed(detail: string): Promise<IssueEnd> {
    this.#findings = [];
    this.#save({ status: "passed", gate: { passed: true, detail }, findings: [] });
    return this.#finish();
  }

  async #finish(): Promise<IssueEnd> {
    const { deps, root, options, source } = this.#shop;
    const { id } = this.#issue;
    const branch = options.isolate === "worktree" ? this.#branch : null;
    if (options.merge && branch !== null) {
      const turn = this.#shop.merging.then(() => mergeWork(deps, root, branch));
      this.#shop.merging = turn.catch(() => {});
      await turn;
    }
    const where = branch === null ? "" : options.merge ? `, merged from ${branch}` : ` on branch ${branch}`;
    await source.close(id, `Done by ${options.engine} (reprise run ${this.#handle ?? "?"})${where}.`);
    this.#save({ status: "completed", error: null, finished_at: this.#now() });
    return this.#end("completed", "");
  }

  /** It stays in progress, with a note; what was known stays known. */
  async #give(state: "failed" | "interrupted", why: string, stop?: number): Promise<IssueEnd> {
    const { deps, source } = this.#shop;
    this.#save({ status: state, error: why, finished_at: this.#now() });
    try {
      await source.note(
        this.#issue.id,
        `${state}: ${this.#shop.redact(why).slice(0, 2_000)} (reprise issues run --resume takes it up)`,
      );
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      deps.log.warn(`${this.#issue.id} got no note: ${error.message}`);
    }
    return this.#end(state, why, stop);
  }

  #end(state: IssueEnd["state"], why: string, stop?: number): IssueEnd {
    const { id, title } = this.#issue;
    const end = { id, title, state, why, handle: this.#handle, branch: this.#branch };
    return stop === undefined ? end : { ...end, stop };
  }

  #save(change: Partial<IssueRecord> & Pick<IssueRecord, "status">): void {
    const { batch, options } = this.#shop;
    const known = batch.record.issues[this.#issue.id];
    batch.update(this.#issue.id, {
      ...(known === undefined
        ? { title: this.#issue.title.slice(0, 300), engine: options.engine, started_at: this.#now() }
        : {}),
      handle: this.#handle,
      branch: this.#branch,
      baseline_commit: this.#baseline,
      findings: this.#findings,
      ...change,
    });
    this.#show(change.status, change.error ?? "");
  }

  #show(state: Progress["state"], detail: string): void {
    this.#shop.view.progress(this.#issue.id, { state, attempt: this.#attempt, tokens: this.#tokens, detail });
  }

  #told(): Told {
    return { issue: this.#issue, gate: this.#shop.options.gate?.commands ?? [], findings: this.#findings };
  }

  async #runOfHandle(handle: string): Promise<RunRecord | null> {
    return (await this.#shop.deps.store.findByHandle(handle))[0] ?? null;
  }

  #now(): string {
    return new Date(this.#shop.deps.clock.now()).toISOString();
  }
}
