/**
 * The options that `start` and `resume` share, and their conversion to limits, variables and a view.
 */
import type { Command } from "commander";
import { DANGEROUS_ENV } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptOptions, Deps } from "../run/run.ts";
import { duration, list, once, oneOf, text } from "./command.ts";
import type { Context } from "./context.ts";

export interface SharedOptions {
  readonly mode?: "auto" | "pipe" | "pty";
  readonly timeout?: number | null;
  readonly idleTimeout?: number | null;
  readonly toolTimeout?: number | null;
  readonly env?: readonly string[];
  readonly allowEnv?: true;
  readonly messageFile?: string;
  readonly stdin?: true;
  readonly trustCwd?: true;
  readonly json?: true;
  readonly quiet?: true;
  readonly raw?: true;
}

const DEFAULT_IDLE_MS = 15 * 60_000;
export function addSharedOptions(command: Command): Command {
  return command
    .addOption(once("--message-file <file>", "read the message from a file", text))
    .option("--stdin", "read the message from stdin")
    .addOption(
      once("--mode <mode>", "how to connect the agent: auto, pipe or pty", oneOf("auto", "pipe", "pty")),
    )
    .addOption(once("--timeout <time>", "maximum duration of the attempt, e.g. 2h", duration))
    .addOption(
      once("--idle-timeout <time>", "maximum time without output (default 15m, 0 = no limit)", duration),
    )
    .addOption(
      once("--tool-timeout <time>", "maximum duration of one tool call (default: no limit)", duration),
    )
    .addOption(list("--env <NAME=value>", "set a variable for the agent (repeatable)"))
    .option(
      "--allow-env",
      "allow --env to set PATH, LD_PRELOAD, NODE_OPTIONS and similar; on resume, accept changed engine variables",
    )
    .option("--trust-cwd", "make the engine trust this directory, and use the project's reprise.toml")
    .option("--raw", "show the engine's native output, even on a terminal")
    .option("--json", "print one JSON object at the end instead of the live output")
    .option("--quiet", "show no live view and no summary");
}

export function attemptOptions(options: SharedOptions, deps: Deps, context: Context): AttemptOptions {
  const { terminal } = context;
  const limit = (
    given: number | null | undefined,
    configured: number | null | undefined,
    otherwise: number | null,
  ) => (given === undefined ? (configured === undefined ? otherwise : configured) : given);
  return {
    mode: options.mode ?? "auto",
    limits: {
      idleMs: limit(options.idleTimeout, deps.config.idleTimeoutMs, DEFAULT_IDLE_MS),
      toolMs: limit(options.toolTimeout, deps.config.toolTimeoutMs, null),
      totalMs: limit(options.timeout, deps.config.timeoutMs, null),
    },
    terminal:
      terminal.stdin && terminal.stdout && options.json === undefined
        ? { cols: terminal.columns, rows: terminal.rows }
        : null,
  };
}

export function readEnv(options: SharedOptions): readonly (readonly [string, string])[] {
  return (options.env ?? []).map((pair) => {
    const equals = pair.indexOf("=");
    const name = pair.slice(0, equals);
    if (equals < 1 || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new Fault("usage", "--env takes NAME=value, for example --env DEBUG=1.");
    }
    if (DANGEROUS_ENV.test(name) && options.allowEnv === undefined) {
      throw new Fault(
        "usage",
        `--env ${name} changes how every program of the agent runs. Add --allow-env if you mean it.`,
      );
    }
    return [name, pair.slice(equals + 1)] as const;
  });
}
