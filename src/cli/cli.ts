/**
 * The list of commands, and the frame around each: help, faults, exit codes, clean-up.
 */
import { writeSync } from "node:fs";
import { Fault, FAULTS, exitCodeOf, wantOf } from "../core/faults.ts";
import type { Log } from "../core/deps.ts";
import type { RunbookSource } from "../core/runbook.ts";
import { harmless, harmlessJson } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";
import { VERSION } from "../version.ts";
import { HelpShown } from "./command.ts";
import { type Context, type ContextOptions, readTerminal, stderrLog, type Terminal } from "./context.ts";
import { ALIASES, suggestLine } from "./synonyms.ts";

/** A command's exit code. Faults are thrown, not returned. */
export type CommandRun = (args: readonly string[], context: Context) => Promise<number>;

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

export const COMMANDS: Readonly<
  Record<string, { readonly summary: string; load(): Promise<{ run: CommandRun }> }>
> = {
  start: { summary: "start an agent and record everything it does", load: () => import("./start.ts") },
  resume: { summary: "continue the same conversation", load: () => import("./resume.ts") },
  list: { summary: "list runs, newest first", load: () => import("./list.ts") },
  show: {
    summary: "show one run, its attempts and the proof of each resume",
    load: () => import("./show.ts"),
  },
  attach: { summary: "show a background run and type into it", load: () => import("./attach.ts") },
  logs: { summary: "print the output of an agent", load: () => import("./logs.ts") },
  export: {
    summary: "export a run as a redacted archive",
    load: () => import("./export.ts"),
  },
  stop: { summary: "stop a live run", load: () => import("./stop.ts") },
  rm: { summary: "remove runs", load: () => import("./rm.ts") },
  prune: { summary: "remove old runs", load: () => import("./prune.ts") },
  adopt: {
    summary: "import conversations started outside Reprise",
    load: () => import("./adopt.ts"),
  },
  review: {
    summary: "let Codex address a pull request's review comments",
    load: () => import("./review.ts"),
  },
  issues: {
    summary: "work through a repository's issues and resume interrupted ones",
    load: () => import("./issues.ts"),
  },
  runbook: {
    summary: "check runbooks, list their definitions, explain their reactions",
    load: () => import("./runbook.ts"),
  },
  agent: {
    summary: "start, inspect and resume supervised agents",
    load: () => import("./agent.ts"),
  },
  pipeline: {
    summary: "run commands and agents of a runbook in order",
    load: () => import("./pipeline.ts"),
  },
  decisions: { summary: "answer questions from agents", load: () => import("./decisions.ts") },
  status: {
    summary: "show all agents and pipelines: state, since when, next action",
    load: () => import("./status.ts"),
  },
  daemon: {
    summary: "start, stop or inspect the daemon",
    load: () => import("./daemon.ts"),
  },
  doctor: { summary: "check engines, state directory and index", load: () => import("./doctor.ts") },
  explain: {
    summary: "show how Reprise parses an engine's output",
    load: () => import("./explain.ts"),
  },
  demo: { summary: "watch an agent crash and its conversation continue", load: () => import("./demo.ts") },
  completion: {
    summary: "print shell completion for bash, zsh or fish",
    load: () => import("./completion.ts"),
  },
};

export async function main(args: readonly string[], world: CliWorld): Promise<number> {
  const [name, ...rest] = args;
  const ownArgs = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const json = ownArgs.includes("--json");
  const opened: Deps[] = [];
  let abandoned = false;
  const terminal = readTerminal(process.env);
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
    if (name === undefined || name === "help" || name === "--help" || name === "-h")
      return await help(rest, context, name === undefined);
    const command = commandOf(name);
    if (command === undefined) throw await unknownCommand(args);
    const { run } = await command.load();
    return await run(rest, context);
  } catch (error) {
    if (error instanceof HelpShown) return 0;
    return await report(error, json);
  } finally {
    for (const deps of opened) await deps.store[Symbol.asyncDispose]();
    // Writes without a reader would keep the process forever.
    if (abandoned) setImmediate(() => process.exit());
  }
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

function commandOf(name: string) {
  const known = Object.hasOwn(ALIASES, name) ? (ALIASES[name] ?? name) : name;
  return Object.hasOwn(COMMANDS, known) ? COMMANDS[known] : undefined;
}

function version(context: Context, json: boolean): number {
  if (json) context.printJson({ ok: true, version: VERSION, node: process.version });
  else context.print(VERSION);
  return 0;
}

async function help(rest: readonly string[], context: Context, isError: boolean): Promise<number> {
  const [topic, ...verb] = rest;
  if (topic !== undefined && !topic.startsWith("-") && topic !== "help") {
    const command = commandOf(topic);
    if (command === undefined) throw await unknownCommand(rest);
    return await (await command.load()).run([...verb, "--help"], context);
  }
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  const text = [
    "Start any coding agent. Never lose its conversation.",
    "",
    "Usage: reprise <command> [options]",
    "",
    ...lines,
    "",
    "Examples:",
    '  reprise start codex "fix the flaky test"',
    '  reprise resume 1a2b3c4d "go on, and add a test"',
    "  reprise list",
    "",
    "`ls` is `list`, `continue` is `resume`, `version` prints the version.",
    "`reprise <command> --help` gives details; `reprise demo` takes ten seconds.",
  ].join("\n");
  (isError ? process.stderr : process.stdout).write(`${text}\n`);
  return isError ? 2 : 0;
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
  const fault = error instanceof Fault ? error : wantOf(error);
  // Nothing more can be loaded then, and the message quotes nothing.
  if (fault?.code === "too_many_files") return sayWant(fault, json);
  // Messages often quote the input, which may be a secret in the wrong place.
  const { redactor, redactValue } = await import("../lib/secrets.ts");
  const redact = redactor([]);
  if (json) {
    const body =
      fault === null
        ? {
            code: "bug",
            message: "This is a bug in Reprise.",
            facts: { detail: redact(String(error)).slice(0, 500) },
          }
        : {
            code: fault.code,
            message: redact(fault.message),
            facts: { ...redactValue(fault.facts, redact), retryable: FAULTS[fault.code].retryable },
          };
    process.stdout.write(`${harmlessJson({ ok: false, error: body })}\n`);
  } else if (fault === null) {
    const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    process.stderr.write(`reprise: this is a bug: ${harmless(redact(detail).slice(0, 2_000))}\n`);
    process.stderr.write(
      "reprise: nothing recorded is lost; please report it with what you typed (REPRISE_DEBUG=1 shows where it happened).\n",
    );
  } else {
    process.stderr.write(`reprise: ${harmless(redact(fault.message))}\n`);
  }
  if (process.env["REPRISE_DEBUG"] === "1" && error instanceof Error)
    process.stderr.write(`${harmless(error.stack ?? "")}\n`);
  return exitCodeOf(fault ?? error);
}

function sayWant({ code, message }: Fault, json: boolean): number {
  const { exit, retryable } = FAULTS[code];
  if (json)
    process.stdout.write(
      `${JSON.stringify({ ok: false, error: { code, message, facts: { retryable } } })}\n`,
    );
  else process.stderr.write(`reprise: ${message}\n`);
  return exit;
}

/** Keeps the few colours of `paint`; all other control sequences become visible text (I11). */
function harmlessButPainted(text: string): string {
  return text
    .split(/(\x1b\[(?:0|1|2|31|32|33|36)m)/)
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
