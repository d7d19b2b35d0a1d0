/**
 * Argument parsing: commander, plus our rules. A flag with one value may occur once; an error is one line with the
 * nearest valid word.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { Fault } from "../core/faults.ts";
import { parseDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";

export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  readonly examples: readonly string[];
}

/** Thrown after printing help: nothing is left to do. */
export class HelpShown extends Error {}

export function makeCommand(spec: CommandSpec): Command {
  return new Command(`reprise ${spec.name}`)
    .description(spec.summary)
    .exitOverride()
    .showHelpAfterError(false)
    .showSuggestionAfterError(true)
    .helpOption("-h, --help", "show this help")
    .configureOutput({ writeErr: () => {} })
    .addHelpText("after", `\nExamples:\n${spec.examples.map((line) => `  ${line}`).join("\n")}\n`);
}

/** Parses the arguments of one command; every mistake becomes a usage fault. */
export function parse(command: Command, args: readonly string[]): void {
  for (const arg of args) {
    if (arg.includes("\u0000")) throw new Fault("usage", "An argument contains a zero byte.");
  }
  try {
    command.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed" || error.code === "commander.help") throw new HelpShown();
    const message = error.message
      .replace(/^error: /, "")
      .replace(/\n\(Did you mean (.*)\?\)$/, ". Did you mean $1?");
    const option = /^unknown option '([^']+)'/.exec(message)?.[1];
    throw new Fault(
      "usage",
      `${sentence(message)}${dashHint(command, error)} Type \`${command.name()} --help\`.`,
      { facts: option === undefined ? {} : { option }, cause: error },
    );
  }
}

/** The unknown option. Null: another error. */
export function unknownOptionIn(error: unknown): string | null {
  if (!(error instanceof Fault) || !(error.cause instanceof CommanderError)) return null;
  const { option } = error.facts;
  return error.cause.code === "commander.unknownOption" && typeof option === "string" ? option : null;
}

/** A supposed option may have been the first word of a prompt. */
function dashHint(command: Command, { code }: CommanderError): string {
  const has = (name: string) => command.options.some(({ long }) => long === name);
  if (code !== "commander.unknownOption" || !has("--message-file")) return "";
  if (has("--native")) return ` ${NATIVE_HINT} A message that holds such a word stands after \`--\`.`;
  return " A prompt that begins with a dash comes by --stdin or --message-file.";
}

/** For commands where a message follows `--`, so native options cannot. */
export const NATIVE_HINT =
  "An option of the engine is given by --native, one word each: --native --model --native NAME.";

/** An option with one value that may occur once. */
export function once(flags: string, description: string, read: (given: string) => unknown): Option {
  return new Option(flags, description).argParser((given: string, before: unknown) => {
    if (before !== undefined) throw new InvalidArgumentError("It is given twice.");
    return read(given);
  });
}

export function list(flags: string, description: string): Option {
  return new Option(flags, description)
    .argParser((text: string, before: string[] | undefined) => [...(before ?? []), text])
    .default(undefined);
}

export const text = (value: string): string => {
  if (value === "") throw new InvalidArgumentError("It is empty.");
  return value;
};

/** A human-readable name. Rejects characters that a terminal cannot show, because users could not type the name. */
export const personName = (value: string): string => {
  if (value.length > 100 || value.trim() === "" || harmlessLine(value) !== value)
    throw new Fault("usage", "--name takes up to 100 printable characters.");
  return value;
};

export const oneOf =
  <T extends string>(...choices: readonly T[]) =>
  (value: string): T => {
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw new InvalidArgumentError(`It is one of ${choices.join(", ")}.`);
    return found;
  };

/** Milliseconds. Null: `0`, which disables a limit. */
export const duration = (value: string): number | null => {
  const ms = parseDuration(value);
  if (ms === null) throw new InvalidArgumentError("It is a duration such as 90s, 15m or 1h30m.");
  return ms === 0 ? null : ms;
};

export const count =
  (min: number, max: number) =>
  (value: string): number => {
    const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= min && number <= max))
      throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`);
    return number;
  };

function sentence(message: string): string {
  const first = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.?!]$/.test(first) ? first : `${first}.`;
}
