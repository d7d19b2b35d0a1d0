/**
 * The declaration of a command. Parser, help, reference page and shell completion are made from it, so a command states
 * its arguments and options once. Declarations live beside the code that runs; `commands.ts` loads them on demand.
 */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import { HANDLE, isRunId } from "../core/ids.ts";
import { MOST_TAGS } from "../core/label.ts";
import { parseDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { canAsk, type Context } from "./context.ts";
import type {
  Argument,
  Arguments,
  Call,
  Declaration,
  DeclaredCommand,
  Flag,
  ListOption,
  Negation,
  Options,
  OptionText,
  ValueOption,
} from "./declaration.ts";
import { MissingRun, parseCommand } from "./parse.ts";

export type {
  Argument,
  CommandGroup,
  Declaration,
  DeclaredCommand,
  Entry,
  Option,
  Options,
  OptionsOf,
  ValueSource,
} from "./declaration.ts";

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
      try {
        return await executed(given, context);
      } catch (error) {
        const answered = await withRun(command, given, error, context);
        return answered === null ? LEFT : executed(answered, context);
      }
    },
  };
  return command;

  async function executed(given: readonly string[], context: Context): Promise<number> {
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
  }
}

/** The exit code of a user who leaves the picker. */
export const LEFT = 130;

/**
 * The command line with the run that the user picked at the terminal. Null: the user left. Throws errors that the picker
 * does not answer, and all without a terminal.
 */
async function withRun(
  { name, args }: Declaration,
  given: readonly string[],
  error: unknown,
  context: Context,
): Promise<readonly string[] | null> {
  const [first] = Object.values(args);
  const unclear = error instanceof Fault && error.code === "handle_ambiguous" ? error.facts : null;
  if (
    !canAsk(context) ||
    given.includes("--json") ||
    first === undefined ||
    !(error instanceof MissingRun || unclear !== null)
  )
    throw error;
  const { pickRuns } = await import("./pick.ts");
  const asks = error instanceof MissingRun ? error.asks : {};
  const picked = await pickRuns(context, {
    question: asks.question ?? `reprise ${name}: which ${first.many === true ? "runs" : "run"}?`,
    many: unclear === null && first.many === true,
    offers: asks.offers ?? first.offers ?? "any",
    message: asks.message ?? null,
    ...(first.asks === undefined ? {} : { asks: first.asks }),
    ...(unclear === null ? {} : { only: unclear["handles"] as readonly string[] }),
  });
  if (picked === null) return null;
  const { handles, message } = picked;
  if (unclear !== null) return given.map((word) => (word === unclear["given"] ? (handles[0] ?? word) : word));
  return [...handles, ...given, ...(message === null ? [] : ["--", message])];
}

export const flag = (help: string, short?: string): Flag => ({
  kind: "flag",
  help,
  ...(short === undefined ? {} : { short }),
});

export const negation = (help: string): Negation => ({ kind: "negation", help });

export const repeatable = (
  placeholder: string,
  help: string,
  more: Pick<OptionText, "values"> = {},
): ListOption => ({ kind: "list", placeholder, help, ...more });

/** An option with one value that may occur once. */
export const withValue = <T>(
  placeholder: string,
  help: string,
  read: (given: string) => T,
  more: Pick<OptionText, "short" | "values"> = {},
): ValueOption<T> => ({ kind: "value", placeholder, help, read, ...more });

export const choice = <const T extends string>(
  placeholder: string,
  help: string,
  choices: readonly T[],
): ValueOption<T> => withValue(placeholder, help, oneOf(choices), { values: choices });

/** The number of an attempt. */
export const attemptNumber = (help: string): ValueOption<number> =>
  withValue("<n>", help, count(1, 999_999_999));

export const directory = (help: string): ValueOption<string> =>
  withValue("<dir>", help, text, { values: "directories" });

/** The options with this heading in help. */
export function group<O extends Options>(heading: string, options: O): O {
  const headed = Object.entries(options).map(([name, option]) => [name, { ...option, group: heading }]);
  return Object.fromEntries(headed) as O;
}

export const JSON_FLAG = flag("print one JSON object");

/** For lists of records that are not runs. */
export const IDS_FLAG = flag("print only ids, one per line");

/** A run by its handle. */
export const RUN_HANDLE = {
  help: "handle, unique prefix of 4 to 7 characters, name, or run id",
  required: true,
  missing: "Which run? `reprise list` shows the handles.",
  values: "handles",
} as const satisfies Argument;

/** A run that is live. */
export const LIVE_HANDLE = {
  ...RUN_HANDLE,
  missing: "Which run? `reprise list --status running` shows the live runs.",
  offers: "live",
} as const satisfies Argument;

/** An agent by its handle. */
export const AGENT_ID = {
  help: "handle or unique prefix",
  required: true,
  missing: "Which agent? `reprise agent list --all` shows them.",
  values: "handles",
  offers: "agents",
} as const satisfies Argument;

export const text = (given: string): string => {
  if (given === "") throw new InvalidArgumentError("The value is empty.");
  return given;
};

/** A human-readable name. Rejects characters that a terminal cannot show, because users could not type the name. */
export const personName = (given: string): string => {
  if (given.length > 100 || given.trim() === "" || harmlessLine(given) !== given)
    throw new Fault("usage", "A name (--name) has 1 to 100 printable characters.");
  if (given.startsWith("-"))
    throw new Fault(
      "usage",
      "A name (--name) must not begin with a dash: commands would read it as an option.",
    );
  if (HANDLE.test(given.toLowerCase()) || isRunId(given))
    throw new Fault("usage", "A name (--name) must not look like a handle or a run id.");
  return given;
};

/** A word to find runs by. */
export const tagWord = (given: string): string => {
  if (!/^[^\s,]{1,40}$/u.test(given) || harmlessLine(given) !== given)
    throw new Fault("usage", "A tag has 1 to 40 printable characters, without blanks and commas.");
  if (/^[-+]/.test(given)) throw new Fault("usage", "A tag must not begin with a dash or a plus sign.");
  return given;
};

/** Each tag once. */
export const tagWords = (given: readonly string[]): readonly string[] => {
  const tags = [...new Set(given.map(tagWord))];
  if (tags.length > MOST_TAGS) throw new Fault("usage", `A run has at most ${MOST_TAGS} tags.`);
  return tags;
};

const oneOf =
  <T extends string>(choices: readonly T[]) =>
  (given: string): T => {
    const found = choices.find((one) => one === given);
    if (found === undefined) throw new InvalidArgumentError(`Must be one of ${choices.join(", ")}.`);
    return found;
  };

/** Milliseconds. Null: `0`, which disables a limit. */
export const duration = (given: string): number | null => {
  const ms = parseDuration(given);
  if (ms === null) throw new InvalidArgumentError("Must be a duration such as 90s, 15m, 1h30m or 7d.");
  return ms === 0 ? null : ms;
};

export const count =
  (min: number, max: number) =>
  (given: string): number => {
    const number = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN;
    if (!(number >= min && number <= max))
      throw new InvalidArgumentError(`Must be a whole number from ${min} to ${max}.`);
    return number;
  };
