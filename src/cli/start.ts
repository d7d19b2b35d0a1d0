/** `reprise start <engine> [prompt] [options] [-- native args…]` */
import { resolveDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import { startRun, type StartRequest } from "../run/run.ts";
import { attemptOptions, readEnv, SHARED } from "./attempt-options.ts";
import { detach } from "./detach.ts";
import {
  choice,
  defineCommand,
  directory,
  flag,
  negation,
  personName,
  repeatable,
  tagWords,
  text,
  withValue,
} from "./define.ts";
import { inForeground } from "./foreground.ts";
import { readMessage } from "./message.ts";

export const command = defineCommand({
  name: "start",
  summary: "Start an agent and record its output.",
  usage: "<engine> [prompt] [options] [-- native arguments…]",
  args: {
    engine: {
      help: "codex, claude, gemini, iflow, opencode, demo, or one from your config",
      required: true,
      values: "engines",
    },
    prompt: { help: "task for the agent" },
  },
  excess: "The prompt is one argument: put it in quotes. Put native arguments after `--`.",
  dashes: "engine",
  options: {
    cwd: directory("working directory of the agent (default: current directory)"),
    isolate: choice("<how>", "run the agent in a separate new directory or git worktree: dir, worktree", [
      "dir",
      "worktree",
    ]),
    runDir: withValue("<selector>", "start a new conversation in this run (path, run id or handle)", text, {
      values: "handles",
    }),
    name: withValue("<name>", "human-readable name, accepted wherever a handle is", personName),
    tag: repeatable("<tag>", "tag to find the run by (repeatable)", { values: "tags" }),
    detach: flag("run in the background and print the handle; see `reprise attach`"),
    escrow: negation("do not keep a copy of the engine's session file"),
    ...SHARED,
  },
  examples: [
    'reprise start codex "fix the flaky test"',
    'reprise start claude "review src/" --isolate worktree -- --model opus --permission-mode plan',
    "reprise start gemini --message-file task.md --timeout 2h",
    "reprise start claude          (its own UI, recorded; Ctrl-] leaves it running)",
    'reprise start codex "a long task" --detach',
  ],
  run: async ({ args, options, rest }, context) => {
    const { messageFile, stdin, trustCwd = false } = options;
    const message = await readMessage({
      words: args.prompt ?? null,
      file: messageFile,
      stdin: stdin === true,
    });
    const tags = tagWords(options.tag ?? []);
    const cwd = workingDirectory(options.cwd ?? ".");
    const deps = await context.open({ cwd, runsAgents: true, trustCwd });
    const request: StartRequest = {
      ...attemptOptions(options, deps, context),
      engine: args.engine,
      message,
      native: rest ?? [],
      env: readEnv(options),
      cwd,
      cwdGiven: options.cwd !== undefined,
      isolate: options.isolate ?? null,
      runDir: options.runDir ?? null,
      name: options.name ?? null,
      ...(tags.length === 0 ? {} : { tags }),
      subject: null,
      trustCwd,
      escrow: options.escrow,
    };
    if (options.detach === true) return detach(context, options, deps, { do: "start", request });
    return inForeground(context, options, deps, {
      opensUi: message === null && request.terminal !== null,
      attempt: (watch) => startRun(deps, request, watch),
    });
  },
});

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
