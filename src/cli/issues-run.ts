/** `reprise issues run [repo]`: agents work on issues, gates check their work, and passed issues are closed. */
import { Fault } from "../core/faults.ts";
import { tokensText } from "../core/tokens.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { stringIn } from "../lib/json.ts";
import { plural } from "../lib/plural.ts";
import { redactValue } from "../lib/secrets.ts";
import { shellLine } from "../lib/shell.ts";
import {
  type BatchEnd,
  StopControl,
  branchesToMerge,
  openSource,
  repositoryRoot,
  runBatch,
  damagedSessions,
} from "../issues/issues.ts";
import { type AccessFrom, type BatchOptions, planBatch, type PlannedBatch } from "../issues/batch-plan.ts";
import { assertRightsNotWider, gateWords } from "../issues/rights.ts";
import { IN_PROGRESS, parseScope } from "../issues/plan.ts";
import { batchHistory } from "../issues/prior.ts";
import type { Deps } from "../run/run.ts";
import { findEngine, redactorFor, storableArgs } from "../run/engine-setup.ts";
import { heldAccess } from "../run/engine-access.ts";
import { attemptOptions } from "./attempt-options.ts";
import { type Context, paint } from "./context.ts";
import { defineCommand } from "./define.ts";
import { earlierJson, earlierOf, earlierText, goOnFirst } from "./issues-go-on.ts";
import { BatchScreen, planLines, summaryLines } from "./issues-live.ts";
import { sumOf } from "./issues-totals.ts";
import { assertKept, inherit, type Inherited, levelOf } from "./issues-inherit.ts";
import {
  assertNoMark,
  DECLARATION,
  DEFAULT_ENGINE,
  goOnCommand,
  optionWords,
  type RunOptions,
} from "./issues-options.ts";
import { sourceOptions } from "./issues-source.ts";
import { workingDirectory } from "./start.ts";

export const run = defineCommand({
  ...DECLARATION,
  run: async ({ args: { repo }, options: given, rest, given: words }, context) => {
    assertNoMark(words);
    assertCombination(given);
    if (given.scope !== undefined) parseScope(given.scope);
    const cwd = workingDirectory(repo ?? ".");
    const trust = {
      runsAgents: given.dryRun === undefined,
      plans: given.dryRun === true,
      trustCwd: given.trustCwd === true,
      badConfig: "refuse" as const,
    };
    const opened = await context.open({ cwd, ...trust });
    const root = await repositoryRoot(opened, cwd);
    const deps = root === cwd ? opened : await context.configure(opened, { cwd: root, ...trust });
    const terms = inherit(given, rest ?? [], batchHistory(deps, root).batches(), rest !== null);
    const { options } = terms;
    const batch = batchOptions(deps, context, given, terms);
    checkKept(deps, given, terms, batch);
    const source = await openSource(deps, root, sourceOptions(options));
    const named = repo === undefined ? null : cwd;
    const job = { options, terms, deps, batch, place: { root, source }, named };
    if (options.dryRun === true)
      return showPlan(context, job, await withHint(terms, planBatch(deps, { root, source }, batch)));
    return work(context, job);
  },
});

/** An issue of the earlier batch may be gone. */
async function withHint<T>({ taken, batch }: Inherited, planned: Promise<T>): Promise<T> {
  return planned.catch((error: unknown) => {
    if (!(error instanceof Fault) || error.code !== "issue_unknown" || taken.scope === undefined) throw error;
    throw new Fault(
      "issue_unknown",
      `${error.message} The scope ${harmlessLine(taken.scope, 200)} comes from batch ${harmlessLine(batch ?? "", 40)}; choose another with --scope.`,
      { facts: error.facts, cause: error },
    );
  });
}

function assertCombination(options: RunOptions): void {
  const wrong = (message: string) => new Fault("usage", message);
  if (options.strict === true && options.resume === undefined) throw wrong("--strict requires --resume flag");
  if (options.fresh === true && options.resume === undefined) throw wrong("--fresh requires --resume flag");
  if (options.acceptGate === true && options.resume === undefined)
    throw wrong("--accept-gate requires --resume flag");
  if (options.fresh === true && options.strict === true)
    throw wrong("--fresh drops the conversations that --strict insists on: give one of the two.");
  if (options.isolate === "none" && (options.maxAgents ?? 1) > 1)
    throw wrong(
      "--isolate none works in the checkout itself, so one agent at a time: leave --max-agents out.",
    );
  if (options.isolate === "none" && options.merge === true)
    throw wrong("--isolate none makes no branch, so there is nothing to --merge.");
}

function batchOptions(deps: Deps, context: Context, given: RunOptions, terms: Inherited): BatchOptions {
  const { options, native, before } = terms;
  const engine = options.engine ?? DEFAULT_ENGINE;
  const from = accessFrom(deps, given, terms);
  const level = levelOf(options.access ?? before?.level ?? null, from, deps.config.issues?.access ?? null);
  const access = heldAccess(deps, engine, level, native);
  const redact = redactorFor(deps.env, []);
  // The config may have changed when the user types the command.
  const typed = from === "config" && access.by === null ? { ...options, access: level } : options;
  const stored = storableArgs(native, redact, findEngine(deps, engine));
  const { args: words, redacted } = storableArgs(optionWords(typed, stored.args), redact);
  const isBound = before?.sameAccess === true && from === "option" && options.access !== undefined;
  const isGiven = given.access !== undefined && before?.sameAccess !== true;
  const asksTrust = findEngine(deps, engine).asksTrust === true;
  const told = [...(given.token === undefined ? [] : ["--token"]), ...(asksTrust ? ["--trust-cwd"] : [])];
  const byHand = [...new Set([...redacted, ...stored.redacted, ...told])];
  return {
    scope: parseScope(options.scope ?? "all"),
    order: options.order ?? "priority",
    resume: options.resume === true,
    strict: options.strict === true,
    fresh: options.fresh === true,
    maxIssues: options.maxIssues ?? null,
    begun: before?.begun ?? [],
    mayLack: before?.sameScope === true,
    includeStrangers: options.includeAll === true,
    engine,
    engineGiven: before?.sameEngine === true ? before.engineGiven : given.engine !== undefined,
    access,
    accessFrom: from,
    native,
    // A run keeps its first options, unless this command line differs from the continued batch.
    over: [...(isGiven ? access.options : []), ...(before?.sameNative === true ? [] : native)],
    bound: [...(isBound ? access.options : []), ...(before?.sameNative === true ? native : [])],
    maxAgents: options.maxAgents ?? 1,
    limits: attemptOptions(options, deps, context).limits,
    isolate: options.isolate ?? "worktree",
    merge: options.merge === true,
    mergeInto: before === null ? null : (stringIn(before.record.config, "merge_into") ?? null),
    onLimit: options.onLimit ?? "wait",
    again: {
      words,
      source: storableArgs(optionWords(placeOf(options), []), redact).args,
      byHand,
      note: goOnCommand(storableArgs(optionWords(typed, [], "notes"), redact).args),
    },
    trustCwd: options.trustCwd === true,
    gate: deps.config.issues?.gate ?? null,
    watch: options.watch === true,
    version: context.version,
  };
}

/** The location of the issues. */
function placeOf({ source, repo, apiUrl }: RunOptions): RunOptions {
  return {
    ...(source === undefined ? {} : { source }),
    ...(repo === undefined ? {} : { repo }),
    ...(apiUrl === undefined ? {} : { apiUrl }),
  };
}

function accessFrom(deps: Deps, given: RunOptions, { options, before }: Inherited): AccessFrom {
  if (given.access !== undefined && before?.sameAccess !== true) return "option";
  if (before !== null && before.level !== null) return before.accessFrom;
  if (options.access !== undefined) return "option";
  return deps.config.issues?.access === undefined ? "default" : "config";
}

/** Refuses or reports differences from the continued batch. */
function checkKept(deps: Deps, given: RunOptions, { before }: Inherited, batch: BatchOptions): void {
  // A plan without the project's file: the user has already been warned.
  if (deps.config.untrusted !== undefined) return;
  const { gate, access, engine } = batch;
  if (before !== null) {
    const redact = redactorFor(deps.env, []);
    const now = redactValue(
      { gate: gateWords(gate), plainGate: plainGate(gate), access: access.by ?? access.level, engine },
      redact,
    );
    const change = assertKept(before, given, now);
    if (change !== null) deps.log.warn(change);
  }
  const isOther = before !== null && stringIn(before.record.config, "engine") !== engine;
  assertRightsNotWider(deps, batch, {
    record: isOther ? null : (before?.record ?? null),
    asked: given.access !== undefined && before?.sameAccess !== true,
  });
}

/** In the form of earlier versions. */
function plainGate(gate: BatchOptions["gate"]): string[] {
  return (gate?.commands ?? []).map(({ run: words }) => words.join(" "));
}

function showPlan(context: Context, job: Work, planned: PlannedBatch): number {
  const { options, terms } = job;
  if (options.json === true) {
    const issues = planned.take.map(({ issue, decision, options: native, held }) => ({
      id: issue.id,
      title: issue.title,
      ...decision,
      options: native,
      access: held,
    }));
    const taken = terms.batch === null ? null : { batch: terms.batch, options: takenWords(job) };
    const all = { issues, skipped: planned.skip, orphans: plain(planned.orphans) };
    context.printJson({ ok: true, access: planned.access, taken, ...all });
  } else {
    const columns = context.terminal.stdout ? context.terminal.columns : undefined;
    for (const line of planLines(planned, columns)) context.print(line);
    const taken = takenText(job);
    if (taken !== "") context.print(taken);
  }
  return 0;
}

/** An option after the dashes may override the inherited access. */
function takenWords({ terms: { taken, takenNative }, batch }: Pick<Work, "terms" | "batch">): string[] {
  const { access, ...rest } = taken;
  const isReplaced = access === undefined || (takenNative.length === 0 && batch.access.by !== null);
  return optionWords(isReplaced ? rest : taken, takenNative);
}

/** What happens because of the earlier batch's options. Empty: nothing. */
function takenText(job: Pick<Work, "terms" | "batch">): string {
  const { terms } = job;
  const all = takenWords(job);
  if (terms.batch === null || all.length === 0) return "";
  const words = harmlessLine(shellLine(all), 1_000);
  return `As batch ${harmlessLine(terms.batch ?? "", 40)} was started: ${words}. Other options given here replace these.`;
}

interface Work {
  readonly options: RunOptions;
  readonly terms: Inherited;
  readonly deps: Deps;
  readonly batch: BatchOptions;
  readonly place: Parameters<typeof runBatch>[1];
  /** The directory that the user named. Null: not named. */
  readonly named: string | null;
}

async function work(context: Context, job: Work): Promise<number> {
  const { options, terms, deps, batch, place } = job;
  const stopControl = new StopControl();
  using screen = new BatchScreen(context, {
    quiet: options.json === true,
    verbose: options.verbose === true,
    prices: deps.config.prices ?? {},
  });
  const press = () => screen.say(STOPPING[stopControl.raise()] ?? "");
  const terminate = () => void stopControl.raise("SIGTERM");
  const hangUp = () => void stopControl.raise("SIGHUP");
  process.on("SIGINT", press).on("SIGTERM", terminate).on("SIGHUP", hangUp);
  try {
    const taken = takenText(job);
    if (taken !== "" && options.json === undefined) screen.say(taken);
    const outside = { stopControl, view: screen };
    const end = await withHint(terms, runBatch({ ...deps, log: screen.log }, place, batch, outside));
    screen[Symbol.dispose]();
    await report(context, job, end);
    return end.exitCode;
  } finally {
    process.off("SIGINT", press).off("SIGTERM", terminate).off("SIGHUP", hangUp);
  }
}

const STOPPING: Readonly<Record<number, string>> = {
  1: "no new issue is begun; Ctrl-C again interrupts the agents",
  2: "interrupting the agents; their conversations can be resumed. Ctrl-C again ends them",
  3: "ending the agents",
};

async function report(context: Context, job: Work, end: BatchEnd): Promise<void> {
  const { options, deps, batch, place, named } = job;
  const { exitCode, issues, skipped, orphans, path, runId } = end;
  const { merge } = batch;
  // The records on disk, from which `issues status` reads as well.
  const prior = batchHistory(deps, place.root);
  const [newest] = prior.batches();
  const waits = newest === undefined ? [] : await damagedSessions(deps, newest);
  const typist = { place: named, config: deps.config };
  const goOn = goOnFirst(prior.batches(), typist, waits);
  const inProgress = skipped.filter(({ why }) => why === IN_PROGRESS).map(({ id }) => id);
  const earlier = earlierOf(prior.batches(), typist, (id) => inProgress.includes(id));
  const { command: resume, byHand } = goOn ?? NO_WAY;
  const whose = goOn?.batch.run_id ?? null;
  if (options.json === true) {
    const more = resume === null ? { resume } : { resume, byHand: byHand === "" ? null : byHand };
    const left = { skipped, earlier: earlier.map(earlierJson) };
    const all = { issues, ...left, orphans: plain(orphans) };
    context.printJson({ ok: exitCode === 0, exitCode, runId, metadata: path, ...more, ...all });
    return;
  }
  for (const line of summaryLines(context.terminal, end)) context.print(line);
  const used = sumOf(
    issues.map(({ tokens }) => tokens),
    deps.config.prices ?? {},
  );
  if (used !== null) context.print(paint(context.terminal, "dim", `\ntokens ${tokensText(used)}`));
  const branches = merge ? [] : [...(await unsaid(job)), ...issues.flatMap(branchOf)];
  if (branches.length > 0) {
    context.print(`\nMerge ${branches.length === 1 ? "it" : "them"} when you like:`);
    const git = named === null ? ["git"] : ["git", "-C", place.root];
    for (const branch of new Set(branches)) context.print(`  ${shellLine([...git, "merge", branch])}`);
  }
  const left = undoneText(issues);
  const more = whose === null || whose === runId ? "" : `batch ${whose} goes on with its own options`;
  const words = [left, more].filter((part) => part !== "").join("; ");
  const isSaid = earlier.some(({ batch: { run_id: id } }) => id === whose);
  if (resume !== null && !isSaid) context.log.info(`${words}: ${resume}`);
  else if (left !== "") context.log.info(`${left}; the last column says why, and what to do`);
  if (resume !== null && !isSaid && byHand !== "") context.log.info(byHand);
  for (const one of earlier) context.log.info(earlierText(one));
  const others = inProgress.filter((id) => !earlier.some(({ ids }) => ids.includes(id)));
  if (others.length > 0)
    context.log.info(
      `${plural(others.length, "issue")} in progress that no batch started: ${harmlessLine(others.join(", "), 500)}. --resume includes ${others.length === 1 ? "it" : "them"}.`,
    );
}

const branchOf = ({ state, branch }: BatchEnd["issues"][number]) =>
  state === "completed" && branch !== null ? [branch] : [];

/** Branches of the batch that goes on: where it was killed, it could not say how to merge what it had completed. */
async function unsaid({ deps, place: { root }, terms: { before } }: Work): Promise<readonly string[]> {
  const found: string[] = [];
  const [, ...earlier] = before === null ? [] : batchHistory(deps, root).batches();
  for (const { completed_at: ended, issues } of earlier) {
    if (ended !== null) break;
    const done = Object.values(issues).filter(({ status }) => status === "completed");
    found.unshift(...done.flatMap(({ branch }) => (branch === null ? [] : [branch])));
  }
  return branchesToMerge(deps, root, found);
}

const plain = (orphans: BatchEnd["orphans"]) => orphans.map(({ go_on: _none, ...orphan }) => orphan);

const NO_WAY = { command: null, byHand: "" };

/** Empty: nothing is left. */
function undoneText(issues: BatchEnd["issues"]): string {
  const undone = issues.filter(({ state }) => state !== "completed");
  const begun = undone.filter(({ status }) => status === "in_progress").length;
  if (begun > 0) return `${plural(begun, "issue")} stayed in progress`;
  const left = undone.filter(({ handle, status }) => handle === null && status === "open").length;
  return left === 0 ? "" : `${plural(left, "issue")} ${left === 1 ? "was" : "were"} not begun`;
}
