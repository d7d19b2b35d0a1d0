/**
 * Native command lines, parsed with an engine's option table and rendered again.
 *
 * The table says what each option means; nothing here knows an engine. An option that the table does not know
 * is kept, in order: the word after it counts as its value unless that word is the only one that can be the prompt.
 */
import { Fault } from "../core/faults.ts";

export interface OptionSpec {
  /** Every spelling, canonical first: `["--model", "-m"]`. */
  readonly names: readonly string[];
  readonly takes: "none" | "value" | "optional" | "variadic";
  readonly repeatable?: true;
  /**
   * prompt: carries the message. session: chooses, continues or forks a session. output: the output format,
   * which Reprise sets itself on a resume. once: concerned only the first turn. Each is left out of a resume.
   */
  readonly bears?: "prompt" | "session" | "output" | "once";
  /** Why a run started with it cannot be resumed exactly. */
  readonly refuse?: string;
  /** `before`: must stand before the resume sub-command. */
  readonly place?: "before";
  /** Rights (I12). Absent: the option grants and limits nothing. */
  readonly guard?: Guard;
}

/**
 * grant: each value adds a right, so nothing may be added. limit: takes rights away, so nothing may be changed
 * or removed. rank: values are ordered, wider is higher; null is a value that cannot be compared.
 */
export type Guard = "grant" | "limit" | { readonly rank: (value: string | null) => number | null };

export interface Grammar {
  readonly options: readonly OptionSpec[];
  /** Sub-commands that may follow a path of sub-commands, aliases after the canonical word: `{ "": ["exec|e"], exec: ["resume"] }`. */
  readonly commands: Readonly<Record<string, readonly string[]>>;
}

/** One option as it was typed. `raw` is what is rendered; `values` what was understood. */
export interface Given {
  readonly spec: OptionSpec | null;
  readonly name: string;
  readonly values: readonly string[];
  readonly raw: readonly string[];
  /** The option takes a value and none followed. */
  readonly incomplete?: true;
}

export interface Parsed {
  /** Leading sub-commands, canonical: `["exec", "resume"]`. */
  readonly commands: readonly string[];
  readonly options: readonly Given[];
  /** Words that are neither options nor their values, those after `--` included. */
  readonly words: readonly string[];
}

export function parseArgs(grammar: Grammar, args: readonly string[], noPrompt = false): Parsed {
  const dashes = args.indexOf("--");
  const before = dashes === -1 ? args : args.slice(0, dashes);
  const after = dashes === -1 ? [] : args.slice(dashes + 1);
  const tokens = tokenize(grammar, before);
  const settled = settleUnknown(tokens, noPrompt || after.length > 0 || bearsPrompt(tokens));
  const commands: string[] = [];
  const words: string[] = [];
  const options: Given[] = [];
  for (const token of settled) {
    if (token.kind === "option") options.push(token.given);
    else {
      const command = words.length === 0 ? subcommand(grammar, commands, token.word) : null;
      if (command === null) words.push(token.word);
      else commands.push(command);
    }
  }
  return { commands, options, words: [...words, ...after] };
}

/** Options of `parsed` that a resume carries, and what becomes of the others. */
export function splitForResume(parsed: Parsed): {
  readonly before: readonly Given[];
  readonly after: readonly Given[];
  readonly dropped: readonly Given[];
} {
  const before: Given[] = [];
  const after: Given[] = [];
  const dropped: Given[] = [];
  for (const given of parsed.options) {
    if (given.spec?.bears !== undefined) dropped.push(given);
    else {
      assertKeepable(given);
      (given.spec?.place === "before" ? before : after).push(given);
    }
  }
  return { before, after, dropped };
}

/** Native options of one attempt laid over the recorded ones. Refuses what would widen (I12). */
export function override(recorded: Parsed, native: Parsed): Parsed {
  const [word] = [...native.commands, ...native.words];
  if (word !== undefined) {
    throw new Fault("usage", `--native takes options, not words: ${JSON.stringify(word)}.`);
  }
  let options = [...recorded.options];
  for (const given of native.options) {
    assertKeepable(given);
    assertNotWider(recorded.options, given);
    const same = (other: Given) => other.spec !== null && other.spec === given.spec;
    if (given.spec?.repeatable === undefined) options = options.filter((other) => !same(other));
    if (!options.some((other) => same(other) && sameValues(other, given))) options.push(given);
  }
  return { ...recorded, options };
}

export function render(options: readonly Given[]): string[] {
  return options.flatMap((given) => given.raw);
}

/** The last value of an option, by any of its names. Undefined: not given. Null: given without a value. */
export function valueOf(parsed: Parsed, name: string): string | null | undefined {
  const given = parsed.options.findLast(
    (option) => option.spec?.names.includes(name) ?? option.name === name,
  );
  return given === undefined ? undefined : (given.values.at(-1) ?? null);
}

export function has(parsed: Parsed, name: string): boolean {
  return valueOf(parsed, name) !== undefined;
}

type Token =
  | { readonly kind: "option"; readonly given: Given; readonly maybe?: true }
  | { readonly kind: "word"; readonly word: string; readonly maybe?: true };

function tokenize(grammar: Grammar, args: readonly string[]): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < args.length) {
    const arg = args[at] ?? "";
    at += 1;
    if (!looksLikeOption(arg)) {
      tokens.push({ kind: "word", word: arg });
      continue;
    }
    const { spec, name, attached } = match(grammar, arg);
    const raw = [arg];
    const values = attached === null ? [] : [attached];
    if (spec === null && attached === null) {
      const next = args[at];
      tokens.push({ kind: "option", given: { spec, name, values, raw } });
      if (next !== undefined && !looksLikeOption(next)) {
        tokens.push({ kind: "word", word: next, maybe: true });
        at += 1;
      }
      continue;
    }
    if (spec !== null && attached === null && spec.takes !== "none") {
      const take = spec.takes === "variadic" ? Number.POSITIVE_INFINITY : 1;
      while (values.length < take && at < args.length) {
        const next = args[at] ?? "";
        // An option that must have a value takes the next word whatever it looks like, as the engines do.
        if (looksLikeOption(next) && !(spec.takes === "value" && values.length === 0)) break;
        values.push(next);
        raw.push(next);
        at += 1;
      }
    }
    const incomplete = (spec?.takes === "value" || spec?.takes === "variadic") && values.length === 0;
    tokens.push({
      kind: "option",
      given: { spec, name, values, raw, ...(incomplete ? { incomplete } : {}) },
    });
  }
  return tokens;
}

/** Decides, for each word after an unknown option, whether it is that option's value. */
function settleUnknown(tokens: readonly Token[], promptElsewhere: boolean): Token[] {
  const certain = tokens.filter((token) => token.kind === "word" && token.maybe === undefined).length;
  const lastMaybe = tokens.findLastIndex((token) => token.kind === "word" && token.maybe === true);
  const settled: Token[] = [];
  for (const [index, token] of tokens.entries()) {
    const previous = settled.at(-1);
    const isPrompt = !promptElsewhere && certain === 0 && index === lastMaybe;
    if (token.kind === "word" && token.maybe === true && !isPrompt && previous?.kind === "option") {
      const { given } = previous;
      settled[settled.length - 1] = {
        kind: "option",
        given: { ...given, values: [...given.values, token.word], raw: [...given.raw, token.word] },
      };
    } else settled.push(token);
  }
  return settled;
}

function bearsPrompt(tokens: readonly Token[]): boolean {
  return tokens.some((token) => token.kind === "option" && token.given.spec?.bears === "prompt");
}

function match(
  grammar: Grammar,
  arg: string,
): { readonly spec: OptionSpec | null; readonly name: string; readonly attached: string | null } {
  const equals = arg.indexOf("=");
  const name = equals === -1 ? arg : arg.slice(0, equals);
  const exact = grammar.options.find((spec) => spec.names.includes(name));
  if (exact !== undefined)
    return { spec: exact, name, attached: equals === -1 ? null : arg.slice(equals + 1) };
  if (!arg.startsWith("--") && arg.length > 2) {
    const short = arg.slice(0, 2);
    const spec = grammar.options.find((option) => option.takes !== "none" && option.names.includes(short));
    if (spec !== undefined) return { spec, name: short, attached: arg.slice(2) };
  }
  return { spec: null, name, attached: equals === -1 ? null : arg.slice(equals + 1) };
}

/** A lone `-` is a word: it stands for stdin. */
function looksLikeOption(arg: string): boolean {
  return arg.length > 1 && arg.startsWith("-");
}

function subcommand(grammar: Grammar, path: readonly string[], word: string): string | null {
  const choices = grammar.commands[path.join(" ")] ?? [];
  const found = choices.map((choice) => choice.split("|")).find((names) => names.includes(word));
  return found?.[0] ?? null;
}

function assertKeepable(given: Given): void {
  if (given.incomplete === true) {
    throw new Fault(
      "option_unkept",
      `The option ${given.name} was given without its value, so it cannot be kept.`,
      {
        facts: { option: given.name },
      },
    );
  }
  if (given.spec?.refuse !== undefined) {
    throw new Fault(
      "option_unkept",
      `The option ${given.name} cannot be kept on a resume: ${given.spec.refuse}.`,
      {
        facts: { option: given.name },
      },
    );
  }
}

function assertNotWider(recorded: readonly Given[], given: Given): void {
  const { spec } = given;
  const refuse = (why: string): never => {
    throw new Fault(
      "would_widen",
      `${given.raw.join(" ")} ${why}. A resume never gets more rights than the run was started with; start a new run instead.`,
      { facts: { option: given.name } },
    );
  };
  if (spec === null)
    return refuse("is an option Reprise does not know, so it cannot tell whether it adds rights");
  if (spec.guard === undefined) return undefined;
  const before = recorded.filter((other) => other.spec === spec);
  if (before.some((other) => sameValues(other, given))) return undefined;
  if (spec.guard === "grant") return refuse("would add a right");
  if (spec.guard === "limit") return before.length === 0 ? undefined : refuse("would change a limit");
  const was = spec.guard.rank(before.at(-1)?.values.at(-1) ?? null);
  const becomes = spec.guard.rank(given.values.at(-1) ?? null);
  // Without a recorded value the engine's own default applied, which only the narrowest value cannot exceed.
  const limit = before.length === 0 ? 0 : was;
  if (limit === null || becomes === null || becomes > limit) return refuse("would widen the run's rights");
  return undefined;
}

function sameValues(one: Given, other: Given): boolean {
  return (
    one.values.length === other.values.length && one.values.every((value, at) => value === other.values[at])
  );
}
