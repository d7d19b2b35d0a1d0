/** `reprise start <engine> [prompt] [options] [-- native args…]` */
import { resolveDirectory } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import { startRun, type StartRequest } from "../run/run.ts";
import { addSharedOptions, attemptOptions, readEnv, type SharedOptions } from "./attempt-options.ts";
import { detach } from "./detach.ts";
import { makeCommand, once, oneOf, parse, personName, text } from "./command.ts";
import type { Context } from "./context.ts";
import { openView } from "./live.ts";
import { readMessage } from "./message.ts";
import { finishAttempt } from "./summary.ts";

interface StartOptions extends SharedOptions {
  readonly cwd?: string;
  readonly isolate?: "dir" | "worktree";
  readonly runDir?: string;
  readonly name?: string;
  readonly escrow: boolean;
  readonly detach?: true;
}

const command = () =>
  addSharedOptions(
    makeCommand({
      name: "start",
      summary: "Start an agent and record everything it does.",
      examples: [
        'reprise start codex "fix the flaky test"',
        'reprise start claude "review src/" --isolate worktree -- --model opus --permission-mode plan',
        "reprise start gemini --message-file task.md --timeout 2h",
        "reprise start claude          (its own UI, recorded)",
        'reprise start codex "a long task" --detach',
      ],
    })
      .usage("<engine> [prompt] [options] [-- native arguments…]")
      .argument("<engine>", "codex, claude, gemini, iflow, opencode, demo, or one from your config")
      .argument("[prompt]", "task for the agent")
      .allowExcessArguments()
      .addOption(once("--cwd <dir>", "working directory of the agent (default: current directory)", text))
      .addOption(
        once(
          "--isolate <how>",
          "isolate the agent: dir or worktree, inside the run directory",
          oneOf("dir", "worktree"),
        ),
      )
      .addOption(once("--run-dir <selector>", "add an attempt to this run (path, run id or handle)", text))
      .addOption(once("--name <name>", "human-readable name", personName))
      .option("--detach", "run in the background and print the handle; see `reprise attach`")
      .option("--no-escrow", "do not keep a copy of the engine's session file"),
  );

export async function run(args: readonly string[], context: Context): Promise<number> {
  const dashes = args.indexOf("--");
  const native = dashes === -1 ? [] : args.slice(dashes + 1);
  const parser = command();
  const ownArgs = dashes === -1 ? args : args.slice(0, dashes);
  try {
    parse(parser, ownArgs);
  } catch (error) {
    throw (await import("./native-hint.ts")).withNativeHint(error, parser, { args: ownArgs, native });
  }
  const [engine = "", prompt = null] = parser.args;
  if (parser.args.length > 2) {
    throw new Fault(
      "usage",
      "The prompt is one argument: put it in quotes. Native arguments stand after `--`.",
    );
  }
  const options: StartOptions = parser.opts();
  const message = await readMessage({
    words: prompt,
    file: options.messageFile,
    stdin: options.stdin === true,
  });
  const cwd = workingDirectory(options.cwd ?? ".");
  const deps = await context.open({ cwd, runsAgents: true, trustCwd: options.trustCwd === true });
  const request: StartRequest = {
    ...attemptOptions(options, deps, context),
    engine,
    message,
    native,
    env: readEnv(options),
    cwd,
    cwdGiven: options.cwd !== undefined,
    isolate: options.isolate ?? null,
    runDir: options.runDir ?? null,
    name: options.name ?? null,
    subject: null,
    trustCwd: options.trustCwd === true,
    escrow: options.escrow,
  };
  if (options.detach === true) return detach(context, options, deps, { do: "start", request });
  const view = openView(context, options);
  const result = await startRun(deps, request, view).finally(() => view.close());
  return finishAttempt(context, options, result, view);
}

export function workingDirectory(path: string): string {
  try {
    return resolveDirectory(path);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Fault("cwd_invalid", `The working directory ${error.message}`, {
      facts: { cwd: path },
      cause: error,
    });
  }
}
