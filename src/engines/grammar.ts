/**
 * Parses native command lines with an engine's option table, and renders them again.
 *
 * The table defines each option; this file knows no engine. Keeps unknown options in order: the word after one counts
 * as its value unless that word is the only possible prompt.
 */
import { Fault } from "../core/faults.ts";

export interface OptionSpec {
  /** Every spelling, canonical first: `["--model", "-m"]`. */
  readonly names: readonly string[];
  readonly takes: "none" | "value" | "optional" | "variadic";
  /** Each occurrence counts. Otherwise only the last one counts and is rendered again. */
  readonly repeatable?: true;
  /**
   * prompt: carries the message. session: chooses, continues or forks a session. output: the output format, which
   * Reprise sets itself on a resume. once: concerns only the first turn. A resume leaves all of them out.
   */
  readonly bears?: "prompt" | "session" | "output" | "once";
  /** Why a run with this option cannot be resumed exactly. */
  readonly refuse?: string;
  /** `root`: must precede all sub-commands. `before`: must precede the resume sub-command. */
  readonly place?: "root" | "before";
  /** The engine accepts it only without a UI (`headless`) or only in it (`ui`). */
  readonly only?: "headless" | "ui";
  /** Its value is a secret under every name of the option, even a single letter. */
  readonly secret?: true;
  /** Its value names one or several comma-separated files or folders that decide on rights. */
  readonly reads?: "path" | "paths";
  /** Its value names one or several comma-separated folders that the agent works in or may use. */
  readonly opens?: "path" | "paths";
  /** Rights (I12). Absent: the option grants and limits nothing. */
  readonly guard?: Guard;
}

/**
 * grant: each value adds a right, so nothing may be added or changed. extra: a grant that takes nothing away, so it may
 * be left out if the engine does not accept it. limit: takes rights away, so it may be added, but not changed or
 * removed. rank: values are ordered, wider is higher; null is a value that cannot be compared. Options with the same
 * `scale` set the same thing. of: the value decides (`-c key=value`).
 */
export type Guard =
  | "grant"
  | "extra"
  | "limit"
  | { readonly rank: (value: string | null) => number | null; readonly scale?: string }
  | { readonly of: (value: string | null) => Guard | null };

/** An option of which every further value is a further right. */
export const GRANTS = { takes: "value", repeatable: true, guard: "grant" } as const;

export interface Grammar {
  readonly options: readonly OptionSpec[];
  /**
   * Sub-commands that may follow a path of sub-commands, aliases after the canonical word: `{ "": ["exec|e"], exec:
   * ["resume"] }`.
   */
  readonly commands: Readonly<Record<string, readonly string[]>>;
  /**
   * Options and sub-commands that continue an earlier conversation, by canonical name. here: without an id, a
   * conversation of the working directory. any: possibly one from elsewhere. Options override the sub-command.
   */
  readonly continues?: Readonly<Record<string, OptionScope>>;
  /** Options and sub-commands that continue a copy of it instead. */
  readonly forks?: readonly string[];
  /** A word that begins with a dash is never an option's value. */
  readonly strictValues?: true;
  /**
   * Reads options as yargs does: of a value for an option that takes none (`--flag=value`, or `true` or `false` as the
   * next word) only `true` switches it on, `--no-flag` switches it off, and `--f` is `-f`. The values of such an option
   * are then `["false"]` or none.
   */
  readonly yargs?: true;
}

export type OptionScope = "here" | "any";

/** One option as typed. `raw` is the rendered form, `values` the parsed one. */
export interface Given {
  readonly spec: OptionSpec | null;
  readonly name: string;
  readonly values: readonly string[];
  readonly raw: readonly string[];
  /** The number of sub-commands before it. */
  readonly depth: number;
  /** The option takes a value, but none followed. */
  readonly incomplete?: true;
  /** Given for this attempt (`--native`), so it applies to this turn even if it `bears` once. */
  readonly native?: true;
}

export interface Parsed {
  /** Leading sub-commands, canonical: `["exec", "resume"]`. */
  readonly commands: readonly string[];
  readonly options: readonly Given[];
  /** Words that are neither options nor their values, including those after `--`. */
  readonly words: readonly string[];
}

/** The value of a yargs option that is switched off. */
export const OFF = "false";

/** The options that count: of a non-repeatable one only the last, in its place. */
export function lastWins(options: readonly Given[]): readonly Given[] {
  return options.filter(
    ({ spec }, at) =>
      spec === null ||
      spec.repeatable === true ||
      !options.some((other, index) => index > at && other.spec === spec),
  );
}

export function parseArgs(grammar: Grammar, args: readonly string[], noPrompt = false): Parsed {
  const dashes = args.indexOf("--");
  const before = dashes === -1 ? args : args.slice(0, dashes);
  const after = dashes === -1 ? [] : args.slice(dashes + 1);
  const { commands, tokens } = tokenize(grammar, before);
  const settled = settleUnknown(tokens, noPrompt || after.length > 0 || bearsPrompt(tokens));
  return {
    commands,
    options: settled.flatMap((token) => (token.kind === "option" ? [token.given] : [])),
    words: [...settled.flatMap((token) => (token.kind === "word" ? [token.word] : [])), ...after],
  };
}

export interface NamedPath {
  /** The option, as typed. */
  readonly by: string;
  readonly path: string;
}

/**
 * Files and folders that options name and whose content decides on rights (`reads`), or whose place does (`opens`), as typed. A value
 * may also be the text itself.
 */
export function namedPaths(
  { grammar }: { readonly grammar: Grammar },
  given: readonly string[],
  { as, noPrompt }: { readonly as: "reads" | "opens"; readonly noPrompt: boolean },
): readonly NamedPath[] {
  return lastWins(parseArgs(grammar, given, noPrompt).options).flatMap(({ spec, name, values }) => {
    const many = spec?.[as];
    if (many === undefined) return [];
    const paths = many === "path" ? values : values.flatMap((value) => value.split(","));
    const typed = paths.map((path) => path.trim()).filter((path) => path !== "" && !/^[[{]/.test(path));
    return typed.map((path) => ({ by: name, path }));
  });
}

/** The positions of secret option values: by index of the word, how much of the word precedes the value. */
export function secretsAt(grammar: Grammar, args: readonly string[]): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const dashes = args.indexOf("--");
  for (const [at, arg] of args.slice(0, dashes === -1 ? args.length : dashes).entries()) {
    const last = looksLikeOption(arg) ? match(grammar, arg).at(-1) : undefined;
    if (last?.spec?.secret !== true) continue;
    if (last.attached !== null) found.set(at, arg.length - last.attached.length);
    else if (valuesFor(grammar, last, args.slice(at + 1)).length > 0) found.set(at + 1, 0);
  }
  return found;
}

/** The first option that makes a resume impossible, and why. Null: no such option. */
export function refusedOption(
  { grammar }: { readonly grammar: Grammar },
  given: readonly string[],
  noPrompt: boolean,
): string | null {
  const found = parseArgs(grammar, given, noPrompt).options.find(({ spec }) => spec?.refuse !== undefined);
  return found === undefined ? null : `${found.name} cannot be kept: ${found.spec?.refuse ?? ""}`;
}

/** The word that makes the engine continue an earlier conversation. Null: it begins a new one, or a copy. */
export function earlierChoice(
  { grammar }: { readonly grammar: Grammar },
  given: readonly string[],
  noPrompt: boolean,
): { readonly word: string; readonly scope: OptionScope } | null {
  const { commands, options } = parseArgs(grammar, given, noPrompt);
  const { continues = {}, forks = [] } = grammar;
  const names = options.map(({ spec, name }) => spec?.names[0] ?? name);
  if ([...commands, ...names].some((name) => forks.includes(name))) return null;
  const chosen = names.filter((name) => Object.hasOwn(continues, name));
  const [word] = [...chosen, ...commands.filter((name) => Object.hasOwn(continues, name))];
  if (word === undefined) return null;
  const scopes = (chosen.length > 0 ? chosen : [word]).map((name) => continues[name]);
  return { word, scope: scopes.includes("any") ? "any" : "here" };
}

export function render(options: readonly Given[]): string[] {
  return options.flatMap((given) => given.raw);
}

/** One text per option, for people and receipts. */
export function describe(options: readonly Given[]): string[] {
  return options.map(({ spec, name, raw }) => (spec?.secret === true ? `${name} [redacted]` : raw.join(" ")));
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

/** A message and a prompt among the native arguments would be two prompts. */
export function assertNoPrompt(parsed: Parsed): void {
  const [word] = parsed.words;
  const bearer = parsed.options.find((given) => given.spec?.bears === "prompt");
  const prompt = word ?? bearer?.raw.join(" ");
  if (prompt === undefined) return;
  throw new Fault(
    "usage",
    `The native arguments already hold a prompt, ${JSON.stringify(prompt.slice(0, 80))}, and a message was given as well. Give only one of them.`,
    { facts: { prompt: prompt.slice(0, 80) } },
  );
}

/** An option without its value would swallow the next argument. */
export function assertComplete(parsed: Parsed): void {
  const given = parsed.options.find((option) => option.incomplete === true);
  if (given === undefined) return;
  throw new Fault("usage", `The option ${given.name} needs a value.`, { facts: { option: given.name } });
}

type Token =
  | { readonly kind: "option"; readonly given: Given }
  /** `maybe`: it follows an unknown option and may be that option's value. */
  | { readonly kind: "word"; readonly word: string; readonly maybe?: true };

function tokenize(
  grammar: Grammar,
  args: readonly string[],
): { readonly commands: readonly string[]; readonly tokens: readonly Token[] } {
  const commands: string[] = [];
  const tokens: Token[] = [];
  let commandsOver = false;
  let at = 0;
  while (at < args.length) {
    const arg = args[at] ?? "";
    at += 1;
    const command = commandsOver ? null : subcommand(grammar, commands, arg);
    if (command !== null) commands.push(command);
    else if (!looksLikeOption(arg)) {
      commandsOver = true;
      tokens.push({ kind: "word", word: arg });
    } else {
      const depth = commands.length;
      for (const found of match(grammar, arg)) {
        const taken = found.spec === null ? [] : valuesFor(grammar, found, args.slice(at));
        at += taken.length;
        tokens.push({ kind: "option", given: makeGiven(grammar, found, taken, depth) });
      }
      const last = tokens.at(-1);
      const next = args[at];
      const unknown = last?.kind === "option" && last.given.spec === null && last.given.values.length === 0;
      const free = next !== undefined && !looksLikeOption(next);
      if (unknown && free && (commandsOver || subcommand(grammar, commands, next) === null)) {
        tokens.push({ kind: "word", word: next, maybe: true });
        at += 1;
      }
    }
  }
  return { commands, tokens };
}

interface Match {
  readonly spec: OptionSpec | null;
  readonly name: string;
  /** The value in `--name=value` or `-nvalue`. */
  readonly attached: string | null;
  readonly text: string;
}

/** Several matches: combined flags, `-cp`. */
function match(grammar: Grammar, arg: string): readonly Match[] {
  const find = (name: string) => grammar.options.find((spec) => spec.names.includes(name)) ?? null;
  const equals = arg.indexOf("=");
  const name = equals === -1 ? arg : arg.slice(0, equals);
  const attached = equals === -1 ? null : arg.slice(equals + 1);
  const short = grammar.yargs === true && /^--[A-Za-z]$/.test(name) ? name.slice(1) : name;
  const exact = { spec: find(name) ?? find(short), name, attached, text: arg };
  if (grammar.yargs === true && exact.spec === null && /^--no-[^=]+$/.test(arg)) {
    const denied = match(grammar, `--${arg.slice("--no-".length)}`)[0]?.spec ?? null;
    if (denied?.takes === "none") return [{ spec: denied, name: arg, attached: "false", text: arg }];
  }
  if (exact.spec !== null || arg.startsWith("--") || arg.length === 2) return [exact];
  const cluster: Match[] = [];
  for (let at = 1; at < arg.length; at += 1) {
    const letter = `-${arg[at] ?? ""}`;
    const spec = find(letter);
    if (spec === null) return [exact];
    const rest = arg.slice(at + 1);
    if (spec.takes !== "none") {
      cluster.push({ spec, name: letter, attached: rest === "" ? null : rest, text: `${letter}${rest}` });
      return cluster;
    }
    cluster.push({ spec, name: letter, attached: null, text: letter });
  }
  return cluster;
}

function valuesFor(grammar: Grammar, { spec, attached }: Match, rest: readonly string[]): readonly string[] {
  if (spec === null || attached !== null) return [];
  if (spec.takes === "none") {
    return grammar.yargs === true && /^(?:true|false)$/.test(rest[0] ?? "") ? rest.slice(0, 1) : [];
  }
  // A required value is the next word, whatever it looks like, unless the engine's parser is strict.
  const [first] = rest;
  const required = spec.takes === "value" && grammar.strictValues === undefined;
  if (first !== undefined && required) return [first];
  const end = rest.findIndex((word) => looksLikeOption(word));
  const free = end === -1 ? rest : rest.slice(0, end);
  return spec.takes === "variadic" ? free : free.slice(0, 1);
}

function makeGiven(grammar: Grammar, found: Match, taken: readonly string[], depth: number): Given {
  const { spec, name, attached, text } = found;
  const written = attached === null ? taken : [attached];
  const isSwitch = grammar.yargs === true && spec?.takes === "none" && written.length > 0;
  const values = !isSwitch ? written : written[0] === "true" ? [] : [OFF];
  const needs = spec?.takes === "value" || spec?.takes === "variadic";
  const incomplete = needs && values.length === 0 ? { incomplete: true as const } : {};
  return { spec, name, values, raw: [text, ...taken], depth, ...incomplete };
}

/** Decides for each word after an unknown option whether it is that option's value. */
function settleUnknown(tokens: readonly Token[], promptElsewhere: boolean): readonly Token[] {
  const certain = tokens.some((token) => token.kind === "word" && token.maybe === undefined);
  const lastMaybe = tokens.findLastIndex((token) => token.kind === "word" && token.maybe === true);
  const settled: Token[] = [];
  for (const [index, token] of tokens.entries()) {
    const previous = settled.at(-1);
    const isPrompt = !promptElsewhere && !certain && index === lastMaybe;
    if (token.kind === "word" && token.maybe === true && !isPrompt && previous?.kind === "option") {
      const { given } = previous;
      settled[settled.length - 1] = {
        kind: "option",
        given: { ...given, values: [token.word], raw: [...given.raw, token.word] },
      };
    } else settled.push(token);
  }
  return settled;
}

function bearsPrompt(tokens: readonly Token[]): boolean {
  return tokens.some((token) => token.kind === "option" && token.given.spec?.bears === "prompt");
}

/** A lone `-` is a word: it means stdin. */
function looksLikeOption(arg: string): boolean {
  return arg.length > 1 && arg.startsWith("-");
}

function subcommand(grammar: Grammar, path: readonly string[], word: string): string | null {
  const choices = grammar.commands[path.join(" ")] ?? [];
  const found = choices.map((choice) => choice.split("|")).find((names) => names.includes(word));
  return found?.[0] ?? null;
}
