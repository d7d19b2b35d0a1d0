/** The frame around every command: help, faults, exit codes, clean-up. */
import { writeSync } from "node:fs";
import { Fault, FAULTS, exitCodeOf, outageOf } from "../core/faults.ts";
import type { Log } from "../core/deps.ts";
import type { RunbookSource } from "../core/runbook.ts";
import { harmless, harmlessJson } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";
import { VERSION } from "../version.ts";
import { COMMANDS } from "./commands.ts";
import {
  canAsk,
  type ColorWish,
  type Context,
  type ContextOptions,
  readTerminal,
  stderrLog,
  type Terminal,
} from "./context.ts";
import { entryOf, execute } from "./dispatch.ts";
import { HelpShown } from "./parse.ts";
import { meant, suggestLine } from "./synonyms.ts";

/** How `main.ts` gives commands access to the outside world. */
export interface CliWorld {
  /** Arguments that Node altered. */
  altered(args: readonly string[]): Promise<readonly Altered[]>;
  open(options: WorldOptions): Promise<Deps>;
  configure(deps: Deps, options: WorldOptions): Promise<Deps>;
  trust(deps: Deps, files: readonly RunbookSource[], options: WorldOptions): Promise<void>;
}

/** An argument by its position, from 1. `bad` null: this system does not show whether it was altered. */
interface Altered {
  readonly what: string;
  readonly bad: { readonly at: number; readonly byte: string } | null;
}

export type WorldOptions = ContextOptions & { readonly log: Log; readonly terminal: Terminal };

export async function main(given: readonly string[], world: CliWorld): Promise<number> {
  const { color, args } = withoutColor(given);
  const [name, ...rest] = args;
  const ownArgs = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const json = ownArgs.includes("--json");
  const opened: Deps[] = [];
  let abandoned = false;
  const terminal = readTerminal(process.env, color);
  const log = stderrLog(ownArgs.includes("--quiet"));
  const context: Context = {
    env: process.env,
    version: VERSION,
    terminal,
    log,
    print: (text) => void process.stdout.write(`${harmlessButPainted(text)}\n`),
    printJson: (value) => void process.stdout.write(`${harmlessJson(value, terminal.stdout ? 2 : 0)}\n`),
    open: async (options = {}) => {
      const deps = await world.open({ ...options, log, terminal });
      opened.push(deps);
      return deps;
    },
    abandonOutput: () => void (abandoned = true),
    configure: (deps, options) => world.configure(deps, { ...options, log, terminal }),
    trust: (deps, files, options) => world.trust(deps, files, { ...options, log, terminal }),
  };
  surviveClosedOutput();
  try {
    if (args.some((arg) => arg.includes("\uFFFD"))) refuseAltered(await world.altered(args), log);
    if (name === "version") return version(context, json);
    if (name === undefined) return (await atHome(context)) ?? (await usage(context));
    if (name === "help" || name === "--help" || name === "-h") return await help(rest, context);
    return await runNamed(name, rest, context);
  } catch (error) {
    if (error instanceof HelpShown) return 0;
    return await report(error, json);
  } finally {
    for (const deps of opened) await deps.store[Symbol.asyncDispose]();
    // Writes without a reader would keep the process forever.
    if (abandoned) setImmediate(() => process.exit());
  }
}

/** `--color=auto|always|never` belongs to every command. */
function withoutColor(given: readonly string[]): { color: ColorWish; args: readonly string[] } {
  const end = given.includes("--") ? given.indexOf("--") : given.length;
  let color: ColorWish = "auto";
  const args = given.filter((arg, at) => {
    const value = at < end ? /^--color=(auto|always|never)$/.exec(arg)?.[1] : undefined;
    if (value !== undefined) color = value as ColorWish;
    return value === undefined;
  });
  return { color, args };
}

/** Opens the home screen at a terminal. Null: no terminal, or nothing to show. */
async function atHome(context: Context): Promise<number | null> {
  if (!canAsk(context)) return null;
  return (await import("./home.ts")).showHome(context);
}

/** A text that is not UTF-8 would reach an agent, a record or a file name as another text. */
function refuseAltered(altered: readonly Altered[], log: Log): void {
  for (const { what, bad } of altered) {
    if (bad === null) {
      log.warn(
        `argument ${what} has the character U+FFFD. If you did not type it, its bytes were not UTF-8.`,
      );
      continue;
    }
    throw new Fault(
      "usage",
      `Argument ${what} is not valid UTF-8 (byte ${bad.at} is ${bad.byte}), and Reprise could not pass it on unchanged. ` +
        "Type it in UTF-8; a file or folder with such a name must be renamed.",
      { facts: { argument: Number(what), at: bad.at, byte: bad.byte } },
    );
  }
}

async function runNamed(
  name: string,
  args: readonly string[],
  context: Context,
  ...more: readonly string[]
): Promise<number> {
  const entry = entryOf(COMMANDS, name);
  if (entry === undefined) throw await unknownCommand([name, ...args]);
  return execute(await entry.load(), [...args, ...more], context);
}

function version(context: Context, json: boolean): number {
  if (json) context.printJson({ ok: true, version: VERSION, node: process.version });
  else context.print(VERSION);
  return 0;
}

async function usage(context: Context): Promise<number> {
  await help([], { ...context, print: (text) => void process.stderr.write(`${harmlessButPainted(text)}\n`) });
  return 2;
}

/** Topics and overviews have their own file; a command's help comes from its declaration. */
async function help(rest: readonly string[], context: Context): Promise<number> {
  const { showHelp } = await import("./help/help.ts");
  const [name = "", ...verb] = rest;
  const code = await showHelp(rest, context);
  if (code !== null) return code;
  if (entryOf(COMMANDS, name) === undefined) throw await unknownTopic(name);
  return runNamed(name, verb, context, "--help");
}

async function unknownTopic(name: string): Promise<Fault> {
  const { TOPICS } = await import("./help/topics.ts");
  const near = meant(name, Object.keys(TOPICS)) ?? meant(name, Object.keys(COMMANDS));
  const hint =
    near === null
      ? "`reprise help topics` lists the topics, `reprise --help` the commands."
      : `Did you mean \`reprise ${Object.hasOwn(TOPICS, near) ? "help " : ""}${near}\`?`;
  return new Fault("usage", `There is no command or topic ${JSON.stringify(name.slice(0, 80))}. ${hint}`, {
    facts: { given: name.slice(0, 80) },
  });
}

async function unknownCommand(args: readonly string[]): Promise<Fault> {
  const [name = ""] = args;
  const { BUILT_IN_ENGINES } = await import("../core/config.ts");
  const line = suggestLine(args, Object.keys(COMMANDS), BUILT_IN_ENGINES)?.slice(0, 500) ?? null;
  const hint = line === null ? "`reprise --help` lists the commands." : `Did you mean \`reprise ${line}\`?`;
  const what = name.startsWith("-") ? "option" : "command";
  return new Fault("usage", `There is no ${what} ${JSON.stringify(name.slice(0, 80))}. ${hint}`, {
    facts: { given: name.slice(0, 80) },
  });
}

/** Reports an error, on stdout as JSON or on stderr as one line, and returns the exit code. */
async function report(error: unknown, json: boolean): Promise<number> {
  const fault = error instanceof Fault ? error : outageOf(error);
  // Messages often quote the input, which may be a secret in the wrong place. Without a free file descriptor nothing can
  // be loaded, and that message quotes nothing.
  const secrets = fault?.code === "too_many_files" ? null : await import("../lib/secrets.ts");
  const redact = secrets?.redactor([]) ?? String;
  if (json) {
    const { code, message, facts } = fault === null ? bugIn(redact(String(error))) : fault;
    const retryable = fault === null ? {} : { retryable: FAULTS[fault.code].retryable };
    const safe = { ...secrets?.redactValue(facts, redact), ...retryable };
    process.stdout.write(
      `${harmlessJson({ ok: false, error: { code, message: redact(message), facts: safe } })}\n`,
    );
  } else {
    const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    const text = fault?.message ?? `this is a bug: ${redact(detail).slice(0, 2_000)}`;
    process.stderr.write(`reprise: ${harmless(redact(text))}\n`);
    if (fault === null) process.stderr.write(REPORT_IT);
  }
  if (process.env["REPRISE_DEBUG"] === "1" && error instanceof Error)
    process.stderr.write(`${harmless(error.stack ?? "")}\n`);
  return exitCodeOf(fault ?? error);
}

const bugIn = (text: string) => ({
  ...{ code: "bug", message: "This is a bug in Reprise." },
  facts: { detail: text.slice(0, 500) },
});

const REPORT_IT =
  "reprise: no recorded data is lost. Please report the bug with the command you typed; REPRISE_DEBUG=1 prints the stack.\n";

/** Keeps the few colours of `paint`; all other control sequences become visible text (I11). */
function harmlessButPainted(text: string): string {
  return text
    .split(/(\x1b\[(?:0|1|2|7|31|32|33|35|36)m)/)
    .map((part, at) => (at % 2 === 1 ? part : harmless(part)))
    .join("");
}

/** The reader is gone or the terminal was closed: errors of a pipe, of a terminal, and of Node's writes after that. */
const GONE = new Set(["EPIPE", "EIO", "ENXIO", "ERR_STREAM_DESTROYED"]);

/** `reprise list | head` ends quietly; a run continues without its reader or terminal; a full disk is reported. */
function surviveClosedOutput(): void {
  let refused: string | null = null;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code ?? "")) refused = error.code ?? error.message;
    });
  }
  // Writes fail at any time, some after the command has ended.
  process.once("exit", (code) => {
    if (refused === null) return;
    if (code === 0) process.exitCode = 7;
    try {
      writeSync(2, `reprise: not everything could be printed (${refused}).\n`);
    } catch {
      // stderr itself could not be written.
    }
  });
}
