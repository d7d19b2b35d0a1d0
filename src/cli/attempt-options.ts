/**
 * The options that `start` and `resume` share, and their conversion to limits, variables and a view.
 */
import { DANGEROUS_ENV } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptOptions, Deps } from "../run/run.ts";
import type { Context } from "./context.ts";
import { choice, duration, flag, repeatable, type OptionsOf, text, withValue } from "./define.ts";

const DEFAULT_IDLE_MS = 15 * 60_000;

export const TRUST_CWD = flag("make the engine trust this directory, and use the project's reprise.toml");
export const ALLOW_ENV = "allow --env to set PATH, LD_PRELOAD, NODE_OPTIONS and similar";

/** Also for `review` and `issues run`. */
export const TIMEOUTS = (attempt: string) => ({
  timeout: withValue("<time>", `maximum duration of ${attempt}, e.g. 2h`, duration),
  idleTimeout: withValue("<time>", "maximum time without output (default 15m, 0 = no limit)", duration),
});

export const SHARED = {
  messageFile: withValue("<file>", "read the message from a file", text, { values: "files" }),
  stdin: flag("read the message from stdin"),
  mode: choice("<mode>", "connection to the agent: auto (default), pipe, pty (terminal)", [
    "auto",
    "pipe",
    "pty",
  ]),
  ...TIMEOUTS("the attempt"),
  toolTimeout: withValue("<time>", "maximum duration of one tool call (default: no limit)", duration),
  env: repeatable("<NAME=value>", "set a variable for the agent (repeatable)"),
  allowEnv: flag(`${ALLOW_ENV}; on resume, accept changed engine variables`),
  trustCwd: TRUST_CWD,
  raw: flag("show the engine's native output, even on a terminal"),
  json: flag("print one JSON object at the end instead of the live output"),
  quiet: flag("hide live output and summary"),
};
export type SharedOptions = OptionsOf<typeof SHARED>;

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
