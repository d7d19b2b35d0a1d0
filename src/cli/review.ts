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
import { ALLOW_ENV, attemptOptions, readEnv, TIMEOUTS } from "./attempt-options.ts";
import type { Context } from "./context.ts";
import {
  choice,
  defineCommand,
  directory,
  flag,
  repeatable,
  type OptionsOf,
  text,
  withValue,
} from "./define.ts";
import { HeadlessReview } from "./review-run.ts";
import { workingDirectory } from "./start.ts";

const OPTIONS = {
  comments: withValue("<file>", "read the comments from a file instead of GitHub", text, { values: "files" }),
  token: withValue("<token>", "GitHub token (default: GITHUB_TOKEN, GH_TOKEN)", text),
  apiUrl: withValue("<url>", "URL of GitHub's API", text),
  cwd: directory("clone for Codex to work in (default: current directory)"),
  forceCwd: flag("accept a clone whose remotes do not match the pull request"),
  model: withValue("<model>", "model for Codex", text),
  sandbox: choice("<mode>", "read-only (default), workspace-write, danger-full-access", [
    "read-only",
    "workspace-write",
    "danger-full-access",
  ]),
  native: repeatable("<word>", "native option for Codex; repeat it for every word"),
  approve: choice(
    "<policy>",
    "on-request (default) or never: whether Codex asks for actions that the sandbox forbids",
    ["never", "on-request"],
  ),
  keepApprovals: flag("reuse the approvals you gave before the interruption"),
  includeAll: flag("include comments of authors who are not owners, members or collaborators"),
  export: choice("<format>", "print the comments: markdown or jsonl", ["markdown", "jsonl"]),
  run: flag("send the comments without a UI"),
  resume: choice(
    "<when>",
    "with --run: when to resume an interrupted session: auto (default), always, never",
    ["auto", "always", "never"],
  ),
  ...TIMEOUTS("the turn"),
  env: repeatable("<NAME=value>", "set a variable for Codex (repeatable)"),
  allowEnv: flag(ALLOW_ENV),
  trustCwd: flag("make Codex trust this directory, and use the project's reprise.toml"),
  json: flag("with --run: print one JSON object at the end"),
  quiet: flag("with --run: hide live output and summary"),
};
type ReviewOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "review",
  summary: "Let Codex address a pull request's review comments in one resumable conversation.",
  usage: "[pull request] [options]",
  args: {
    pr: { help: "URL, owner/repository#number or number (default: pull request of the current branch)" },
  },
  options: OPTIONS,
  examples: [
    "reprise review https://github.com/acme/shop/pull/42",
    "reprise review 42 --sandbox workspace-write     (in a clone of the repository)",
    "reprise review acme/shop#42 --run --resume auto --json",
    "reprise review acme/shop#42 --export markdown > comments.md",
    "reprise review 42 --comments comments.jsonl",
  ],
  run: async ({ args: { pr: name = null }, options }, context) => {
    assertCombination(options);
    const cwd = workingDirectory(options.cwd ?? ".");
    const opened = await context.open({
      cwd,
      runsAgents: options.export === undefined,
      trustCwd: options.trustCwd === true,
    });
    if (options.run === true) {
      using headless = new HeadlessReview(context, options);
      const onSignal: Wanted["onSignal"] = (listener) => headless.onSignal(listener);
      return await headless.run(() =>
        openReviewDesk({ context, options, deps: opened, cwd, name, onSignal }),
      );
    }
    const wanted = { context, options, deps: opened, cwd, name };
    if (options.export !== undefined)
      return exportComments(context, await openReviewDesk(wanted), options.export);
    return openUi(wanted);
  },
});

async function openUi(wanted: Wanted): Promise<number> {
  const { context, deps } = wanted;
  assertTerminal(context);
  const later = new LaterLog();
  // Loads the UI while git examines the clone.
  const [service, { openReview }] = await Promise.all([
    openReviewDesk({ ...wanted, deps: { ...deps, log: later } }),
    import("../tui/tui.ts"),
  ]);
  // A server that does not answer, or a turn that did not stop in time, must not delay the exit.
  context.abandonOutput();
  const code = await openReview({
    service,
    input: process.stdin,
    output: process.stdout,
    colours: context.terminal.color,
    now: () => deps.clock.now(),
  });
  later.say(context.log);
  return code;
}

function assertCombination(options: ReviewOptions): void {
  const wrong = (message: string) => new Fault("usage", message);
  if (options.export !== undefined && options.run === true)
    throw wrong("--export prints the comments and --run sends them: give one of the two.");
  for (const [name, given] of [
    ["--resume", options.resume],
    ["--json", options.json],
    ["--quiet", options.quiet],
  ] as const) {
    if (given !== undefined && options.run === undefined) throw wrong(`${name} goes with --run.`);
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
