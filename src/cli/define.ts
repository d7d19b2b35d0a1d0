/**
 * The declaration of a command. Parser, help, reference page and shell completion are made from it, so a command states
 * its arguments and options once. Declarations live beside the code that runs; `commands.ts` loads them on demand.
 */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import { parseDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Context } from "./context.ts";
import { type Parser, parseCommand } from "./parse.ts";

/** Values that completion looks up when the user presses Tab. */
export type ValueSource =
  | "engines"
  | "handles"
  | "agent names"
  | "pipeline names"
  | "pipelines"
  | "decisions"
  | "files"
  | "directories";
type Values = readonly string[] | ValueSource;

export interface Argument {
  readonly help: string;
  /** Absent: optional. */
  readonly required?: true;
  /** The message for a missing argument, if commander's is not enough. */
  readonly missing?: string;
  /** Takes all remaining words. */
  readonly many?: true;
  readonly values?: Values;
}

interface OptionText {
  readonly help: string;
  /** `-f` */
  readonly short?: string;
  /** The heading in help. Absent: "Options". */
  readonly group?: string;
  readonly values?: Values;
}

interface Flag extends OptionText {
  readonly kind: "flag";
}

/** `--no-NAME`: the value is true unless the option is given. */
interface Negation extends OptionText {
  readonly kind: "negation";
}

interface Value<T> extends OptionText {
  readonly kind: "value";
  /** `<dir>` */
  readonly placeholder: string;
  read(given: string): T;
}

/** Repeatable, or with `...` in its placeholder one option with several words. */
interface List extends OptionText {
  readonly kind: "list";
  readonly placeholder: string;
}

export type Option = Flag | Negation | Value<unknown> | List;
export type Arguments = Readonly<Record<string, Argument>>;
/** By the camelCase name: `dryRun` is `--dry-run`. */
export type Options = Readonly<Record<string, Option>>;

type ArgumentValue<A extends Argument> = A extends { readonly many: true }
  ? readonly string[]
  : A extends { readonly required: true }
    ? string
    : string | undefined;
type OptionValue<O> = O extends Flag
  ? true
  : O extends List
    ? readonly string[]
    : O extends Value<infer T>
      ? T
      : never;

/** The options of a command line: absent if not given. */
export type OptionsOf<O> = {
  readonly [K in keyof O as O[K] extends Negation ? never : K]?: OptionValue<O[K]>;
} & { readonly [K in keyof O as O[K] extends Negation ? K : never]: boolean };

/** One parsed command line. */
export interface Call<A extends Arguments, O extends Options> {
  readonly args: { readonly [K in keyof A]: ArgumentValue<A[K]> };
  readonly options: OptionsOf<O>;
  /** The words after `--`. Null: no `--`. */
  readonly rest: readonly string[] | null;
  /** For a command with `split`: the message. */
  readonly message: string | null;
  readonly given: readonly string[];
  /** With `--json` one object with `ok: true`, otherwise the text. */
  readonly reply: (result: object, text: string | (() => void)) => void;
}

/** A command without the types of its arguments and options, for help, reference and completion. */
export interface DeclaredCommand {
  readonly name: string;
  readonly summary: string;
  readonly usage?: string;
  readonly args: Arguments;
  readonly options: Options;
  readonly examples: readonly string[];
  /** The message for more arguments than declared, if commander's is not enough. */
  readonly excess?: string;
  /** Words after `--` belong to the engine, or are arguments that are not parsed. Absent: `--` only ends options. */
  readonly dashes?: "engine" | "words";
  /** The engine whose options follow `--`, if the command line names none. */
  readonly defaultEngine?: string;
  /** Finds a message among the words; commander reads the others. */
  split?(parser: Parser, args: readonly string[]): { own: readonly string[]; words: string | null };
  execute(args: readonly string[], context: Context): Promise<number>;
}

/** A declaration without the code that runs. */
export type Declaration = Omit<DeclaredCommand, "execute">;

/** A command with subcommands: `reprise agent run`. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  readonly commands: Readonly<Record<string, Entry>>;
  /** The subcommand for a command line without one. Absent: help. */
  readonly alone?: string;
  /** Words that people try here and that another command handles: what to say. */
  readonly elsewhere?: Readonly<Record<string, string>>;
  readonly examples: readonly string[];
}

/** A command as its parent lists it. */
export interface Entry {
  readonly summary: string;
  load(): Promise<DeclaredCommand | CommandGroup>;
}

interface Spec<A extends Arguments, O extends Options> extends Omit<Declaration, "args" | "options"> {
  readonly args?: A;
  readonly options?: O;
  readonly run: (call: Call<A, O>, context: Context) => Promise<number> | number;
}

// oxlint-disable-next-line typescript/no-empty-object-type -- a command without arguments or options
export function defineCommand<const A extends Arguments = {}, const O extends Options = {}>({
  run,
  ...spec
}: Spec<A, O>): DeclaredCommand {
  const command: DeclaredCommand = {
    ...spec,
    args: spec.args ?? {},
    options: spec.options ?? {},
    execute: async (given, context) => {
      const parsed = await parseCommand(command, given);
      const json = parsed.options["json"] === true;
      const call = {
        ...parsed,
        given,
        reply: (result: object, text: string | (() => void)) => {
          if (json) context.printJson({ ok: true, ...result });
          else if (typeof text === "string") context.print(text);
          else text();
        },
      };
      // The parser made these values by the same declaration.
      return run(call as unknown as Call<A, O>, context);
    },
  };
  return command;
}

export const flag = (help: string, short?: string): Flag => ({
  kind: "flag",
  help,
  ...(short === undefined ? {} : { short }),
});

export const negation = (help: string): Negation => ({ kind: "negation", help });

export const repeatable = (placeholder: string, help: string): List => ({ kind: "list", placeholder, help });

/** An option with one value that may occur once. */
export const withValue = <T>(
  placeholder: string,
  help: string,
  read: (given: string) => T,
  more: Pick<OptionText, "short" | "values"> = {},
): Value<T> => ({ kind: "value", placeholder, help, read, ...more });

export const choice = <const T extends string>(
  placeholder: string,
  help: string,
  choices: readonly T[],
): Value<T> => withValue(placeholder, help, oneOf(choices), { values: choices });

export const directory = (help: string): Value<string> =>
  withValue("<dir>", help, text, { values: "directories" });

/** The options with this heading in help. */
export function group<O extends Options>(heading: string, options: O): O {
  const headed = Object.entries(options).map(([name, option]) => [name, { ...option, group: heading }]);
  return Object.fromEntries(headed) as O;
}

export const JSON_FLAG = flag("print one JSON object");

/** A run by its handle. */
export const RUN_HANDLE = {
  help: "handle, unique prefix of 4 to 7 characters, or run id",
  required: true,
  missing: "Which run? `reprise list` shows the handles.",
  values: "handles",
} as const satisfies Argument;

/** A run that is live. */
export const LIVE_HANDLE = {
  ...RUN_HANDLE,
  missing: "Which run? `reprise list --status running` shows the live runs.",
} as const satisfies Argument;

/** An agent by its handle. */
export const AGENT_ID = {
  help: "handle or unique prefix",
  required: true,
  missing: "Which agent? `reprise agent list --all` shows them.",
  values: "handles",
} as const satisfies Argument;

export const text = (given: string): string => {
  if (given === "") throw new InvalidArgumentError("It is empty.");
  return given;
};

/** A human-readable name. Rejects characters that a terminal cannot show, because users could not type the name. */
export const personName = (given: string): string => {
  if (given.length > 100 || given.trim() === "" || harmlessLine(given) !== given)
    throw new Fault("usage", "--name takes up to 100 printable characters.");
  return given;
};

const oneOf =
  <T extends string>(choices: readonly T[]) =>
  (given: string): T => {
    const found = choices.find((one) => one === given);
    if (found === undefined) throw new InvalidArgumentError(`It is one of ${choices.join(", ")}.`);
    return found;
  };

/** Milliseconds. Null: `0`, which disables a limit. */
export const duration = (given: string): number | null => {
  const ms = parseDuration(given);
  if (ms === null) throw new InvalidArgumentError("It is a duration such as 90s, 15m or 1h30m.");
  return ms === 0 ? null : ms;
};

export const count =
  (min: number, max: number) =>
  (given: string): number => {
    const number = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN;
    if (!(number >= min && number <= max))
      throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`);
    return number;
  };
