/**
 * Parses a command line by a declaration, with commander and our rules: an option with one value may occur once, and an
 * error is one line with the nearest valid word. Renders help.
 */
import { Command as Parser, CommanderError, InvalidArgumentError, Option as Flags } from "commander";
import { Fault } from "../core/faults.ts";
import type { Declaration, Entry, Option, Options, OptionsOf, RunOffer } from "./declaration.ts";

export type { Command as Parser } from "commander";

/** Thrown after printing help: nothing is left to do. */
export class HelpShown extends Error {}

/** No run was named, or in a way that names none. At a terminal, the user can pick one. */
export class MissingRun extends Fault {
  /** Absent: as the command's first argument says. */
  readonly asks: { readonly offers?: RunOffer; readonly message?: string; readonly question?: string };

  constructor(fault: Pick<Fault, "code" | "message" | "facts">, asks: MissingRun["asks"] = {}) {
    super(fault.code, fault.message, { facts: fault.facts });
    this.asks = asks;
  }
}

export interface ParsedArgs {
  readonly args: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly rest: readonly string[] | null;
  readonly message: string | null;
}

/** Every mistake becomes a usage fault. */
export async function parseCommand(command: Declaration, given: readonly string[]): Promise<ParsedArgs> {
  const dashes = command.dashes === undefined ? -1 : given.indexOf("--");
  const rest = dashes === -1 ? null : given.slice(dashes + 1);
  const before = dashes === -1 ? given : given.slice(0, dashes);
  const parser = parserOf(command);
  const { own, words } = command.split?.(parser, before) ?? { own: before, words: null };
  try {
    parse(parser, own);
  } catch (error) {
    if (command.dashes !== "engine") throw error;
    const { withNativeHint } = await import("./native-hint.ts");
    throw withNativeHint(error, parser, { args: before, native: rest ?? [], engine: command.defaultEngine });
  }
  return { args: argumentsIn(command, parser.args), options: parser.opts(), rest, message: words };
}

/** The options alone, for words that another command stored. */
export function parseOptions<O extends Options>(
  declaration: Declaration & { readonly options: O },
  words: readonly string[],
): OptionsOf<O> {
  const parser = parserOf(declaration);
  parse(parser, words);
  return parser.opts<OptionsOf<O>>();
}

function argumentsIn({ args, excess }: Declaration, words: readonly string[]): ParsedArgs["args"] {
  const specs = Object.entries(args);
  if (excess !== undefined && words.length > specs.length) throw new Fault("usage", excess);
  return Object.fromEntries(
    specs.map(([name, { many, missing, values }], at) => {
      if (missing !== undefined && words[at] === undefined) {
        const fault = new Fault("usage", missing);
        throw at === 0 && values === "handles" ? new MissingRun(fault) : fault;
      }
      return [name, many === true ? words.slice(at) : words[at]];
    }),
  );
}

export function parserOf(command: Declaration): Parser {
  const { name, summary, usage, args, options, examples, excess } = command;
  const parser = frame(name, summary, examples)
    .exitOverride()
    .showHelpAfterError(false)
    .showSuggestionAfterError(true)
    .configureOutput({ writeErr: () => {} })
    .allowExcessArguments(excess !== undefined)
    .usage(usage ?? usageOf(command));
  for (const [word, { help, required, missing, many }] of Object.entries(args)) {
    const dots = many === true ? "..." : "";
    // Commander must not refuse a missing argument that has its own message.
    const isRequired = required === true && missing === undefined;
    parser.argument(isRequired ? `<${word}${dots}>` : `[${word}${dots}]`, help);
  }
  for (const [word, option] of Object.entries(options)) parser.addOption(flagsOf(word, option));
  return parser;
}

export function usageOf({ args, options, dashes }: Declaration): string {
  const words = Object.entries(args).map(([name, { required, many }]) => {
    const word = many === true ? `${name}…` : name;
    return required === true ? `<${word}>` : `[${word}]`;
  });
  const has = Object.keys(options).length > 0 ? ["[options]"] : [];
  return [...has, ...words, ...(dashes === "engine" ? ["[-- native arguments…]"] : [])].join(" ");
}

/** `--dry-run` of `dryRun`. */
export function flagOf(name: string, { kind }: Option): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return kind === "negation" ? `--no-${words}` : `--${words}`;
}

/** The flags as help prints them: `-f, --follow`, `--cwd <dir>`. */
export function flagsText(name: string, option: Option): string {
  const long = flagOf(name, option);
  const both = option.short === undefined ? long : `${option.short}, ${long}`;
  return "placeholder" in option ? `${both} ${option.placeholder}` : both;
}

function flagsOf(name: string, option: Option): Flags {
  const flags = new Flags(flagsText(name, option), option.help);
  if (option.group !== undefined) flags.helpGroup(`${option.group}:`);
  if (option.kind === "value")
    flags.argParser((given: string, before: unknown) => {
      if (before !== undefined) throw new InvalidArgumentError("Give it once.");
      return option.read(given);
    });
  if (option.kind === "list" && !flags.variadic)
    flags.argParser((given: string, before: string[] | undefined) => [...(before ?? []), given]);
  return flags;
}

function frame(name: string, summary: string, examples: readonly string[]): Parser {
  return new Parser(name === "" ? "reprise" : `reprise ${name}`)
    .description(summary)
    .helpOption("-h, --help", "show this help")
    .helpCommand(false)
    .addHelpText("after", `\nExamples:\n${examples.map((line) => `  ${line}`).join("\n")}`);
}

interface Listed {
  readonly name: string;
  readonly summary: string;
  readonly usage: string;
  readonly commands: Readonly<Record<string, Pick<Entry, "summary">>>;
  readonly examples: readonly string[];
  readonly after: readonly string[];
}

/** The help of a command with subcommands, and of `reprise` itself. */
export function listHelp({ name, summary, usage, commands, examples, after }: Listed): string {
  const parts: string[] = [];
  const parser = frame(name, summary, examples)
    .usage(usage)
    .addHelpText("after", `\n${after.join("\n")}`)
    .configureHelp({ visibleOptions: () => [] })
    .configureOutput({ writeOut: (part) => void parts.push(part) });
  for (const [word, entry] of Object.entries(commands))
    parser.addCommand(new Parser(word).summary(entry.summary).helpOption(false));
  parser.outputHelp();
  return parts.join("").trimEnd();
}

function parse(parser: Parser, args: readonly string[]): void {
  if (args.some((arg) => arg.includes("\u0000")))
    throw new Fault("usage", "An argument contains a zero byte.");
  try {
    parser.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed" || error.code === "commander.help") throw new HelpShown();
    const message = error.message
      .replace(/^error: /, "")
      .replace(/\n\(Did you mean (.*)\?\)$/, ". Did you mean $1?");
    if (/^unknown option '--color(?:[='])/.test(message))
      throw new Fault("usage", "Write --color=auto, --color=always or --color=never.", { cause: error });
    const option = /^unknown option '([^']+)'/.exec(message)?.[1];
    throw new Fault(
      "usage",
      `${sentence(message)}${dashHint(parser, error)} Type \`${parser.name()} --help\`.`,
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
function dashHint(parser: Parser, { code }: CommanderError): string {
  const has = (name: string) => parser.options.some(({ long }) => long === name);
  if (code !== "commander.unknownOption" || !has("--message-file")) return "";
  if (has("--native")) return ` ${NATIVE_HINT} Put a message that contains such a word after \`--\`.`;
  return " Pass a prompt that begins with a dash with --stdin or --message-file.";
}

/** For commands where a message follows `--`, so native options cannot. */
export const NATIVE_HINT =
  "Pass engine options with --native, one word each: --native --model --native NAME.";

function sentence(message: string): string {
  const first = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.?!]$/.test(first) ? first : `${first}.`;
}

/** Whether a word has the form of an option. */
export function isOption(word: string): boolean {
  return word.length > 1 && word.startsWith("-");
}
