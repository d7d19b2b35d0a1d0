/** `reprise review [pull request]`: its comments, and Codex working on them; in a UI, headless, or only exported. */
import type { Log } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { plural } from "../lib/plural.ts";
import {
  beginTurn,
  type ReviewService,
  findPullRequest,
  lookAtFolder,
  openReviewService,
  toJsonLines,
  toMarkdown,
  type TurnOptions,
} from "../reviews/reviews.ts";
import type { Deps } from "../run/run.ts";
import { attemptOptions, readEnv, type SharedOptions } from "./attempt-options.ts";
import { duration, list, makeCommand, once, oneOf, parse, text } from "./command.ts";
import type { Context } from "./context.ts";
import { HeadlessReview } from "./review-run.ts";
import { workingDirectory } from "./start.ts";

interface ReviewOptions extends SharedOptions {
  readonly token?: string;
  readonly apiUrl?: string;
  readonly comments?: string;
  readonly cwd?: string;
  readonly forceCwd?: true;
  readonly model?: string;
  readonly sandbox?: "read-only" | "workspace-write" | "danger-full-access";
  readonly native?: readonly string[];
  readonly approve?: "never" | "on-request";
  readonly keepApprovals?: true;
  readonly includeAll?: true;
  readonly export?: "markdown" | "jsonl";
  readonly run?: true;
  readonly resume?: "auto" | "always" | "never";
}

const command = () =>
  makeCommand({
    name: "review",
    summary: "Let Codex address a pull request's review comments in one resumable conversation.",
    examples: [
      "reprise review https://github.com/acme/shop/pull/42",
      "reprise review 42 --sandbox workspace-write     (in a clone of the repository)",
      "reprise review acme/shop#42 --run --resume auto --json",
      "reprise review acme/shop#42 --export markdown > comments.md",
      "reprise review 42 --comments comments.jsonl",
    ],
  })
    .usage("[pull request] [options]")
    .argument("[pr]", "URL, owner/repository#number or number (default: pull request of the current branch)")
    .addOption(once("--comments <file>", "read the comments from a file instead of GitHub", text))
    .addOption(once("--token <token>", "GitHub token (default: GITHUB_TOKEN, GH_TOKEN)", text))
    .addOption(once("--api-url <url>", "URL of GitHub's API", text))
    .addOption(once("--cwd <dir>", "clone for Codex to work in (default: current directory)", text))
    .option("--force-cwd", "accept a clone whose remotes do not match the pull request")
    .addOption(once("--model <model>", "model for Codex", text))
    .addOption(
      once(
        "--sandbox <mode>",
        "read-only (default), workspace-write, danger-full-access",
        oneOf("read-only", "workspace-write", "danger-full-access"),
      ),
    )
    .addOption(list("--native <word>", "native option for Codex, one word each (repeatable)"))
    .addOption(
      once(
        "--approve <policy>",
        "on-request (default) or never: whether Codex asks for actions that the sandbox forbids",
        oneOf("never", "on-request"),
      ),
    )
    .option("--keep-approvals", "reuse the approvals you gave before the interruption")
    .option("--include-all", "include comments of authors who are not owners, members or collaborators")
    .addOption(once("--export <format>", "print the comments: markdown or jsonl", oneOf("markdown", "jsonl")))
    .option("--run", "send the comments without a UI")
    .addOption(
      once(
        "--resume <when>",
        "with --run: auto (default), always or never continue an interrupted session",
        oneOf("auto", "always", "never"),
      ),
    )
    .addOption(once("--timeout <time>", "maximum duration of the turn, e.g. 2h", duration))
    .addOption(
      once("--idle-timeout <time>", "maximum time without output (default 15m, 0 = no limit)", duration),
    )
    .addOption(list("--env <NAME=value>", "set a variable for Codex (repeatable)"))
    .option("--allow-env", "allow --env to set PATH, LD_PRELOAD, NODE_OPTIONS and similar")
    .option("--trust-cwd", "make Codex trust this directory, and use the project's reprise.toml")
    .option("--json", "with --run: print one JSON object at the end")
    .option("--quiet", "with --run: show no live view and no summary");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: ReviewOptions = parser.opts();
  assertCombination(options);
  const [name = null] = parser.args;
  const cwd = workingDirectory(options.cwd ?? ".");
  const opened = await context.open({
    cwd,
    runsAgents: options.export === undefined,
    trustCwd: options.trustCwd === true,
  });
  const wantsUi = options.export === undefined && options.run === undefined;
  if (wantsUi) assertTerminal(context);
  const later = wantsUi ? new LaterLog() : null;
  const deps: Deps = later === null ? opened : { ...opened, log: later };
  if (options.run === true) {
    using headless = new HeadlessReview(context, options);
    const onSignal: Wanted["onSignal"] = (listener) => headless.onSignal(listener);
    return await headless.run(() => openReviewDesk({ context, options, deps, cwd, name, onSignal }));
  }
  const wanted = { context, options, deps, cwd, name };
  if (options.export !== undefined)
    return exportComments(context, await openReviewDesk(wanted), options.export);
  // Loads the UI while git examines the clone.
  const [service, { openReview }] = await Promise.all([openReviewDesk(wanted), import("../tui/tui.ts")]);
  // A server that does not answer, or a turn that did not stop in time, must not delay the exit.
  context.abandonOutput();
  const code = await openReview({
    service,
    input: process.stdin,
    output: process.stdout,
    colours: context.terminal.color,
    now: () => deps.clock.now(),
  });
  later?.say(context.log);
  return code;
}

function assertCombination(options: ReviewOptions): void {
  const wrong = (message: string) => new Fault("usage", message);
  if (options.export !== undefined && options.run === true)
    throw wrong("--export prints the comments and --run sends them: give one of the two.");
  for (const [flag, given] of [
    ["--resume", options.resume],
    ["--json", options.json],
    ["--quiet", options.quiet],
  ] as const) {
    if (given !== undefined && options.run === undefined) throw wrong(`${flag} goes with --run.`);
  }
}

function assertTerminal({ terminal, env }: Context): void {
  const instead = "Use --run to send the comments without one, or --export to print them.";
  if (!terminal.stdin || !terminal.stdout)
    throw new Fault("usage", `The review UI needs a terminal. ${instead}`);
  if (env["TERM"] === "dumb")
    throw new Fault("usage", `The review UI needs a terminal that can do more than TERM=dumb. ${instead}`);
}

/** While the UI has the screen, nothing else may write to it. */
class LaterLog implements Log {
  readonly #lines: (readonly ["warn" | "info", string])[] = [];

  warn(message: string): void {
    this.#lines.push(["warn", message]);
  }

  info(message: string): void {
    this.#lines.push(["info", message]);
  }

  say(log: Log): void {
    for (const [level, message] of this.#lines) log[level](message);
  }
}

interface Wanted {
  readonly context: Context;
  readonly options: ReviewOptions;
  readonly deps: Deps;
  readonly cwd: string;
  readonly name: string | null;
  readonly onSignal?: TurnOptions["onSignal"];
}

async function openReviewDesk({
  context,
  options,
  deps,
  cwd,
  name,
  onSignal,
}: Wanted): Promise<ReviewService> {
  const access = { token: options.token ?? null, apiUrl: options.apiUrl ?? null };
  const folder = await lookAtFolder(deps, cwd);
  const pullRequest = await findPullRequest(deps, name, { ...access, folder });
  const attended = options.run === undefined;
  return openReviewService(deps, {
    ...access,
    pullRequest,
    commentsFile: options.comments ?? null,
    folder: options.export === undefined ? { at: folder, force: options.forceCwd === true } : null,
    includeAll: options.includeAll === true,
    keepApprovals: options.keepApprovals === true,
    progress: (comments) => {
      if (!attended && context.terminal.stderr && options.json === undefined)
        context.log.info(`${plural(comments, "comment")} so far`);
    },
    begin: beginTurn(deps, {
      pullRequest,
      model: options.model ?? null,
      sandbox: options.sandbox ?? null,
      approval: options.approve ?? "on-request",
      native: options.native ?? [],
      env: readEnv(options),
      trustCwd: options.trustCwd === true,
      limits: attemptOptions(options, deps, context).limits,
      keepApprovals: options.keepApprovals === true,
      attended,
      ...(onSignal === undefined ? {} : { onSignal }),
    }),
  });
}

async function exportComments(
  context: Context,
  service: ReviewService,
  format: "markdown" | "jsonl",
): Promise<number> {
  const loaded = await service.load(false);
  for (const warning of loaded.warnings) context.log.warn(warning);
  process.stdout.write(
    format === "jsonl" ? toJsonLines(loaded.comments) : toMarkdown(service.pullRequest, loaded),
  );
  return 0;
}
