/** `reprise issues run [repo]`: agents work on issues, their work is checked, what passes is closed. */
import type { Command } from "commander";
import { type Access, ACCESS_LEVELS, DEFAULT_ACCESS } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import { plural } from "../lib/plural.ts";
import { shellLine } from "../lib/shell.ts";
import {
  type BatchEnd,
  type BatchOptions,
  Brake,
  openSource,
  parseScope,
  planBatch,
  type PlannedBatch,
  repositoryRoot,
  runBatch,
} from "../issues/issues.ts";
import { type Deps, heldAccess } from "../run/run.ts";
import { attemptOptions, type SharedOptions } from "./attempt-options.ts";
import { count, duration, makeCommand, once, oneOf, parse, text } from "./command.ts";
import type { Context } from "./context.ts";
import { BatchScreen, planLines, summaryLines } from "./issues-live.ts";
import { addSourceOptions, type SourceFlags, sourceOptions } from "./issues-look.ts";
import { workingDirectory } from "./start.ts";

interface RunOptions
  extends SourceFlags, Pick<SharedOptions, "timeout" | "idleTimeout" | "trustCwd" | "json"> {
  readonly resume?: true;
  readonly strict?: true;
  readonly fresh?: true;
  readonly scope?: string;
  readonly order?: "priority" | "input";
  readonly maxIssues?: number;
  readonly includeAll?: true;
  readonly engine?: string;
  readonly access?: Access;
  readonly maxAgents?: number;
  readonly isolate?: "worktree" | "none";
  readonly merge?: true;
  readonly onLimit?: "wait" | "stop";
  readonly dryRun?: true;
  readonly watch?: true;
  readonly verbose?: true;
}

const DEFAULT_ENGINE = "claude";
const SCOPE = "Scope & Ordering";
const WORK = "The work";

/** The specification names the groups and the words of `--resume` and `--strict`. */
function addScopeOptions(command: Command): Command {
  return command
    .optionsGroup(`${SCOPE}:`)
    .option("-r, --resume", "Prioritize in_progress issues AND attempt to resume their prior sessions")
    .option("--strict", "With --resume: fail issues that have no prior session to resume")
    .option("--fresh", "With --resume: keep the work in progress, but start new conversations")
    .addOption(once("--scope <scope>", "all (default), ids:a,b or epic:X", text))
    .addOption(
      once(
        "--order <order>",
        "priority (default) or input: as the source lists them",
        oneOf("priority", "input"),
      ),
    )
    .addOption(once("--max-issues <n>", "at most so many", count(1, 1_000_000)))
    .option("--include-all", "also issues of people who are no owner, member or collaborator");
}

function addWorkOptions(command: Command): Command {
  return command
    .optionsGroup(`${WORK}:`)
    .addOption(once("--engine <engine>", `who does it (default ${DEFAULT_ENGINE})`, text))
    .addOption(
      once(
        "--access <level>",
        `what agents may do: read, edit (default: change files in their worktree) or full; native options override it`,
        oneOf(...ACCESS_LEVELS),
      ),
    )
    .addOption(once("--max-agents <n>", "so many at a time (default 1)", count(1, 64)))
    .addOption(once("--timeout <time>", "end a turn after this long, e.g. 2h", duration))
    .addOption(
      once(
        "--idle-timeout <time>",
        "end it after this long without a sign of life (default 15m, 0 = never)",
        duration,
      ),
    )
    .addOption(
      once(
        "--isolate <how>",
        "worktree (default): a branch each; none: in the checkout itself, one at a time",
        oneOf("worktree", "none"),
      ),
    )
    .option("--merge", "merge what passes into what is checked out here")
    .addOption(
      once(
        "--on-limit <what>",
        "wait (default) for the end of a rate limit, or stop with exit code 75",
        oneOf("wait", "stop"),
      ),
    )
    .option("--trust-cwd", "let the engine trust this folder, and use the project's reprise.toml")
    .optionsGroup("Options:")
    .option("--dry-run", "only say what would be done, and why")
    .option("--watch", "go on looking for issues when all are done")
    .option("--verbose", "also say which session is resumed for which issue")
    .option("--json", "print one JSON object at the end");
}

const command = () =>
  addWorkOptions(
    addSourceOptions(
      addScopeOptions(
        makeCommand({
          name: "issues run",
          summary: "Let agents work on the issues of a repository, check the work, and close what passes.",
          examples: [
            "reprise issues run --engine claude --max-agents 3",
            "reprise issues run --resume            (what was interrupted goes on, the rest starts fresh)",
            "reprise issues run --resume --strict --dry-run",
            "reprise issues run --scope epic:a-7 --max-issues 5 -- --model opus",
          ],
        })
          .usage("[options] [repo] [-- native arguments…]")
          .argument("[repo]", "a directory of the repository (default: here)"),
      ).optionsGroup("Where issues are:"),
    ),
  );

export async function run(args: readonly string[], context: Context): Promise<number> {
  const dashes = args.indexOf("--");
  const native = dashes === -1 ? [] : args.slice(dashes + 1);
  const parser = command();
  const ownArgs = dashes === -1 ? args : args.slice(0, dashes);
  try {
    parse(parser, ownArgs);
  } catch (error) {
    throw (await import("./native-hint.ts")).withNativeHint(error, parser, {
      args: ownArgs,
      native,
      engine: DEFAULT_ENGINE,
    });
  }
  const options: RunOptions = parser.opts();
  assertCombination(options);
  const scope = parseScope(options.scope ?? "all");
  const [repo = ".", ...rest] = parser.args;
  if (rest.length > 0) throw new Fault("usage", "One repository at a time.");
  const cwd = workingDirectory(repo);
  const trust = {
    runsAgents: options.dryRun === undefined,
    trustCwd: options.trustCwd === true,
    badConfig: "refuse" as const,
  };
  const opened = await context.open({ cwd, ...trust });
  const root = await repositoryRoot(opened, cwd);
  const deps = root === cwd ? opened : await context.configure(opened, { cwd: root, ...trust });
  const batch: BatchOptions = { ...batchOptions(deps, context, options, native), scope };
  const source = await openSource(deps, root, sourceOptions(options));
  if (options.dryRun === true)
    return showPlan(context, options, await planBatch(deps, { root, source }, batch));
  return work(context, { options, deps, batch, place: { root, source } });
}

function assertCombination(options: RunOptions): void {
  const wrong = (message: string) => new Fault("usage", message);
  if (options.strict === true && options.resume === undefined) throw wrong("--strict requires --resume flag");
  if (options.fresh === true && options.resume === undefined) throw wrong("--fresh requires --resume flag");
  if (options.fresh === true && options.strict === true)
    throw wrong("--fresh drops the conversations that --strict insists on: give one of the two.");
  if (options.isolate === "none" && (options.maxAgents ?? 1) > 1)
    throw wrong(
      "--isolate none works in the checkout itself, so one agent at a time: leave --max-agents out.",
    );
  if (options.isolate === "none" && options.merge === true)
    throw wrong("--isolate none makes no branch, so there is nothing to --merge.");
}

function batchOptions(
  deps: Deps,
  context: Context,
  options: RunOptions,
  native: readonly string[],
): Omit<BatchOptions, "scope"> {
  const engine = options.engine ?? DEFAULT_ENGINE;
  const level = options.access ?? deps.config.issues?.access ?? DEFAULT_ACCESS;
  const access = heldAccess(deps, engine, level, native);
  return {
    order: options.order ?? "priority",
    resume: options.resume === true,
    strict: options.strict === true,
    fresh: options.fresh === true,
    maxIssues: options.maxIssues ?? null,
    includeStrangers: options.includeAll === true,
    engine,
    engineGiven: options.engine !== undefined,
    access,
    native,
    // What a run began with stays, unless this command line itself says otherwise.
    over: [...(options.access === undefined ? [] : access.options), ...native],
    maxAgents: options.maxAgents ?? 1,
    limits: attemptOptions(options, deps, context).limits,
    isolate: options.isolate ?? "worktree",
    merge: options.merge === true,
    onLimit: options.onLimit ?? "wait",
    again: resumeCommand(options),
    trustCwd: options.trustCwd === true,
    gate: deps.config.issues?.gate ?? null,
    watch: options.watch === true,
    version: context.version,
  };
}

/** For people and for notes in issues: without what may hold secrets or is of no use to others. */
function resumeCommand(options: RunOptions): string {
  const { engine, access, isolate, merge, source, repo } = options;
  const given = Object.entries({ engine, source, repo, access, isolate });
  const words = given.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  return shellLine([
    "reprise",
    "issues",
    "run",
    "--resume",
    ...words,
    ...(merge === true ? ["--merge"] : []),
  ]);
}

function showPlan(context: Context, options: RunOptions, planned: PlannedBatch): number {
  if (options.json === true) {
    const issues = planned.take.map(({ issue, decision, options: native }) => ({
      id: issue.id,
      title: issue.title,
      ...decision,
      options: native,
    }));
    context.printJson({ ok: true, access: planned.access, issues, skipped: planned.skip });
  } else {
    const columns = context.terminal.stdout ? context.terminal.columns : undefined;
    for (const line of planLines(planned, columns)) context.print(line);
  }
  return 0;
}

interface Work {
  readonly options: RunOptions;
  readonly deps: Deps;
  readonly batch: BatchOptions;
  readonly place: Parameters<typeof runBatch>[1];
}

async function work(context: Context, { options, deps, batch, place }: Work): Promise<number> {
  const brake = new Brake();
  using screen = new BatchScreen(context, {
    quiet: options.json === true,
    verbose: options.verbose === true,
  });
  const press = () => screen.say(STOPPING[brake.press()] ?? "");
  const terminate = () => void brake.press("SIGTERM");
  const hangUp = () => void brake.press("SIGHUP");
  process.on("SIGINT", press).on("SIGTERM", terminate).on("SIGHUP", hangUp);
  try {
    const end = await runBatch({ ...deps, log: screen.log }, place, batch, { brake, view: screen });
    screen[Symbol.dispose]();
    report(context, options, end, batch);
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

function report(context: Context, options: RunOptions, end: BatchEnd, batch: BatchOptions): void {
  const { exitCode, issues, path, runId } = end;
  if (options.json === true) {
    context.printJson({ ok: exitCode === 0, exitCode, runId, metadata: path, issues });
    return;
  }
  for (const line of summaryLines(context.terminal, end)) context.print(line);
  const branches = issues.filter(({ state, branch }) => state === "completed" && branch !== null);
  if (branches.length > 0 && !batch.merge) {
    context.print(`\nMerge ${branches.length === 1 ? "it" : "them"} when you like:`);
    for (const { branch } of branches) context.print(`  git merge ${branch ?? ""}`);
  }
  const open = ["failed", "interrupted", "no_change"];
  const begun = issues.filter(({ state, status }) => open.includes(state) && status === "in_progress").length;
  if (begun > 0) context.log.info(`${plural(begun, "issue")} stayed in progress: ${batch.again}`);
}
