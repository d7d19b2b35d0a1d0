/** The types of a command's declaration: arguments, options, examples, and the code that runs. */
import type { Command as Parser } from "commander";
import type { Context } from "./context.ts";

/** Values that completion looks up when the user presses Tab. */
export type ValueSource =
  | "engines"
  | "handles"
  | "names"
  | "tags"
  | "agent names"
  | "pipeline names"
  | "pipelines"
  | "decisions"
  | "files"
  | "directories";
type Values = readonly string[] | ValueSource;

/** Which runs the picker offers for a missing handle. */
export type RunOffer = "any" | "live" | "resumable" | "agents";

export interface Argument {
  readonly help: string;
  /** Absent: optional. */
  readonly required?: true;
  /** The message for a missing argument, if commander's is not enough. */
  readonly missing?: string;
  /** Takes all remaining words. */
  readonly many?: true;
  readonly values?: Values;
  /** With `values: "handles"`. Absent: any run. */
  readonly offers?: RunOffer;
  /** What to ask about runs that the user picked from a list: `Remove`. */
  readonly asks?: string;
}

export interface OptionText {
  readonly help: string;
  /** `-f` */
  readonly short?: string;
  /** The heading in help. Absent: "Options". */
  readonly group?: string;
  readonly values?: Values;
}

export interface Flag extends OptionText {
  readonly kind: "flag";
}

/** `--no-NAME`: the value is true unless the option is given. */
export interface Negation extends OptionText {
  readonly kind: "negation";
}

export interface ValueOption<T> extends OptionText {
  readonly kind: "value";
  /** `<dir>` */
  readonly placeholder: string;
  read(given: string): T;
}

/** Repeatable, or with `...` in its placeholder one option with several words. */
export interface ListOption extends OptionText {
  readonly kind: "list";
  readonly placeholder: string;
}

export type Option = Flag | Negation | ValueOption<unknown> | ListOption;
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
  : O extends ListOption
    ? readonly string[]
    : O extends ValueOption<infer T>
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
  /** What completion offers after a plus or minus sign: `tag HANDLE +review`. */
  readonly signed?: ValueSource;
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
