/** `reprise resume <handle> [message…]`: options precede the message, a message that begins with a dash stands after `--`. */
import type { Command } from "commander";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { type Deps, dryRun, resumeRun, selectLatest, selectRun, type Watch } from "../run/run.ts";
import { addSharedOptions, attemptOptions, readEnv, type SharedOptions } from "./attempt-options.ts";
import { list, makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";
import { detach } from "./detach.ts";
import { openView } from "./live.ts";
import { readMessage } from "./message.ts";
import { workingDirectory } from "./start.ts";
import { finishAttempt, printDryRun } from "./summary.ts";

interface ResumeOptions extends SharedOptions {
  readonly last?: true;
  readonly native?: readonly string[];
  readonly keep?: true;
  readonly dryRun?: true;
  readonly detach?: true;
  readonly fork?: true;
  readonly forceFresh?: true;
  readonly restoreCopy?: true;
  readonly ignoreCopy?: true;
}

const command = () =>
  addSharedOptions(
    makeCommand({
      name: "resume",
      summary: "Continue the same conversation, as the next attempt of the same run.",
      examples: [
        'reprise resume 1a2b3c4d "go on, and add a test"',
        'reprise resume --last "what is left to do?"',
        'reprise resume 1a2b3c4d --native -m --native gpt-5 -- "- a message that begins with a dash"',
        "reprise resume 1a2b3c4d --dry-run",
      ],
    })
      .usage("[options] <handle> [message…]")
      .argument("[handle]", "handle, unique prefix of 4 to 7 characters, or run id")
      .argument("[message...]", "the next message; options precede it")
      .option("--last", "the newest run of this directory, instead of a handle")
      .addOption(list("--native <arg>", "a native option for this attempt (repeatable, one word each)"))
      .option("--keep", "keep --native for all later attempts too")
      .option("--dry-run", "print the native command and what would be proved, run nothing")
      .option("--detach", "let it work by itself and print its handle; `reprise attach` shows it")
      .option("--fork", "continue a copy of the conversation, where the engine can")
      .option("--restore-copy", "put the run's copy back in place of a session that is damaged")
      .option("--ignore-copy", "go on with a session that is shorter than the run's copy")
      .option("--force-fresh", "start a new conversation in the same run"),
  );

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  const { own, words } = splitMessage(parser, args);
  parse(parser, own);
  const options: ResumeOptions = parser.opts();
  const [handle] = parser.args;
  if (options.last === undefined && handle === undefined) {
    throw new Fault(
      "usage",
      "Which run? `reprise list` shows the handles; --last takes the newest run of this directory.",
    );
  }
  if (options.fork === true && options.forceFresh === true)
    throw new Fault("usage", "--fork and --force-fresh exclude each other.");
  const message = await readMessage({ words, file: options.messageFile, stdin: options.stdin === true });
  const opened = await context.open({ cwd: null, badConfig: "refuse" });
  const found =
    options.last === true
      ? await selectLatest(opened, workingDirectory("."))
      : await selectRun(opened, handle ?? "");
  // Engines may be configured in the project where the run took place, not where the user stands now.
  const deps = await context.configure(opened, {
    cwd: found.cwd,
    runsAgents: options.dryRun === undefined,
    badConfig: "refuse",
    trustCwd: options.trustCwd === true,
  });
  const request = {
    ...attemptOptions(options, deps, context),
    selector: found.runId,
    want:
      options.forceFresh === true
        ? ("fresh" as const)
        : options.fork === true
          ? ("fork" as const)
          : ("resume" as const),
    damage:
      options.restoreCopy === true
        ? ("restore" as const)
        : options.ignoreCopy === true
          ? ("ignore" as const)
          : ("refuse" as const),
    message,
    native: options.native ?? [],
    keep: options.keep === true,
    env: readEnv(options),
    hasTerminal: context.terminal.stdin && context.terminal.stdout && options.json === undefined,
    trustCwd: options.trustCwd === true,
  };
  if (options.dryRun === true) return printDryRun(context, options, await dryRun(deps, found, request));
  const watch: Pick<Watch, "recorded"> = {};
  await using _review = await followReview(deps, found, watch);
  if (options.detach === true)
    return await detach(context, options, deps, { do: "resume", request, asAttempt: null });
  const view = Object.assign(openView(context, options), watch);
  const result = await resumeRun(deps, request, view).finally(() => view.close());
  return await finishAttempt(context, options, result, view);
}

/** A run of a review has a sidecar and a transcript, which tell of this attempt as well. */
async function followReview(
  deps: Deps,
  found: RunRecord,
  watch: Pick<Watch, "recorded">,
): Promise<AsyncDisposable | null> {
  if (found.subject?.startsWith("pr:") !== true) return null;
  return (await import("../reviews/reviews.ts")).followSession(deps, found, watch);
}

/**
 * Everything after the handle that is not an option of ours is the message, from its first word on. Commander
 * alone would read options inside the message.
 */
export function splitMessage(
  parser: Command,
  args: readonly string[],
): { own: readonly string[]; words: string | null } {
  const takesValue = new Set(
    parser.options.filter((option) => option.required).flatMap((option) => [option.long, option.short]),
  );
  const wanted = args.includes("--last") && !args.slice(0, args.indexOf("--last")).includes("--") ? 0 : 1;
  let operands = 0;
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") {
      const rest = args.slice(at + 1);
      if (operands < wanted && rest.length > 0) {
        // `resume -- HANDLE message`: the handle is the first word.
        return { own: [...args.slice(0, at), "--", rest[0] ?? ""], words: join(rest.slice(1)) };
      }
      return { own: args.slice(0, at), words: join(rest) ?? "" };
    }
    if (arg.length > 1 && arg.startsWith("-")) {
      if (takesValue.has(arg)) at += 1;
      continue;
    }
    if (operands === wanted) {
      assertNoOptionAtEnd(parser, args.slice(at));
      return { own: args.slice(0, at), words: join(args.slice(at)) };
    }
    operands += 1;
  }
  return { own: args, words: null };
}

/** `resume H "go on" --dry-run` would send the option to the agent, and start it. */
function assertNoOptionAtEnd(parser: Command, words: readonly string[]): void {
  const [last = "", before = ""] = words.toReversed();
  const option = parser.options.find((one) => one.long === last || (one.required && one.long === before));
  if (option === undefined || words.length === 1) return;
  throw new Fault(
    "usage",
    `${option.long ?? ""} stands after the message. Options precede it; a message that ends like this stands after \`--\`.`,
    { facts: { option: option.long ?? "" } },
  );
}

function join(words: readonly string[]): string | null {
  return words.length === 0 ? null : words.join(" ");
}
