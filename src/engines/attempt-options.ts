/**
 * The native arguments of one attempt that engines share: the user's first options as far as this attempt carries them,
 * overridden by the attempt's own, with a report on each; a message that is an argument; and the options for a level of
 * access. Knows no engine.
 */
import type { Access } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRequest, Command, Engine, OptionReport } from "./engine.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Given,
  type Grammar,
  lastWins,
  parseArgs,
  type Parsed,
  render,
} from "./grammar.ts";
import {
  assertNotWider,
  isRepeated,
  moreRights,
  rightOf,
  sameOption,
  sameValues,
  scaleOf,
} from "./rights.ts";

export interface EngineAttemptOptions {
  /** The user's first arguments, parsed. */
  readonly given: Parsed;
  /** The options of this attempt, in the given order. */
  readonly options: readonly Given[];
  readonly report: OptionReport;
}

/** The command of native arguments that come without a message of ours: passed on unchanged. */
export function passedOn(
  args: readonly string[],
  facts: Pick<Command, "headless" | "structured" | "expects"> & Partial<Command>,
): Command {
  const options = { kept: [...args], dropped: [], rewritten: [] };
  return { args, stdin: null, env: {}, options, ...facts };
}

/** A start keeps everything; any other attempt keeps what the table allows a resume to carry. */
export function engineAttemptOptions(grammar: Grammar, ask: AttemptRequest): EngineAttemptOptions {
  const given = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const merged = override(given, parseArgs(grammar, ask.native, true));
  if (ask.kind === "start") {
    assertNoPrompt(merged);
    assertComplete(merged);
    return { given, options: merged.options, report: reportOf(merged.options, []) };
  }
  const ui = ask.interactive || ask.message === null;
  const { root, before, after, dropped } = splitForResume(merged, ui ? "ui" : "headless");
  const options = [...root, ...before, ...after];
  const words = merged.words.length === 0 ? [] : [JSON.stringify(merged.words.join(" "))];
  return { given, options, report: reportOf(options, [...describe(dropped), ...words]) };
}

/** Splits options into those that a resume passes on, grouped by their place on the command line, and those that it drops. */
export function splitForResume(
  parsed: Parsed,
  mode: "headless" | "ui" = "headless",
): {
  readonly root: readonly Given[];
  readonly before: readonly Given[];
  readonly after: readonly Given[];
  readonly dropped: readonly Given[];
} {
  const root: Given[] = [];
  const before: Given[] = [];
  const after: Given[] = [];
  const dropped: Given[] = [];
  for (const given of lastWins(parsed.options)) {
    const { spec } = given;
    if (spec?.bears !== undefined && given.native === undefined) dropped.push(given);
    else if (spec?.only !== undefined && spec.only !== mode) {
      assertDroppable(given, mode);
      dropped.push(given);
    } else {
      assertKeepable(given);
      const stoodFirst = spec === null && given.depth === 0 && parsed.commands.length > 0;
      if (spec?.place === "root" || stoodFirst) root.push(given);
      else (spec?.place === "before" ? before : after).push(given);
    }
  }
  return { root, before, after, dropped };
}

/** The recorded options, overridden by the native options of one attempt. Refuses wider rights (I12). */
export function override(recorded: Parsed, native: Parsed): Parsed {
  const [word] = [...native.commands, ...native.words];
  if (word !== undefined) {
    throw new Fault("usage", `--native takes options, not words: ${JSON.stringify(word)}.`);
  }
  let options = [...recorded.options];
  for (const given of native.options) {
    const bears = given.spec?.bears;
    if (bears !== undefined && bears !== "once") {
      throw new Fault("usage", `--native cannot set ${given.name}: Reprise sets the ${bears} itself.`, {
        facts: { option: given.name },
      });
    }
    assertKeepable(given);
    const counted = lastWins(recorded.options);
    assertNotWider(counted, given);
    // In its old place it keeps its meaning; at the end it could override a later option.
    if (bears === undefined && rightOf(given) !== null && isRepeated(counted, given)) continue;
    const scale = scaleOf(given);
    options = options.filter(
      (other) =>
        !(sameOption(other, given) && (given.spec?.repeatable === undefined || sameValues(other, given))) &&
        (scale === null || scaleOf(other) !== scale),
    );
    options.push({ ...given, native: true });
  }
  return { ...recorded, options };
}

/** `given` with an attempt's native options made permanent (`--keep`), within I12. */
export function keepNative(
  { grammar }: { readonly grammar: Grammar },
  given: readonly string[],
  native: readonly string[],
  noPrompt: boolean,
): string[] {
  const recorded = parseArgs(grammar, given, noPrompt);
  const { commands, options, words } = override(recorded, parseArgs(grammar, native, true));
  const at = (depth: number) =>
    render(options.filter((option) => option.native === undefined && option.depth === depth));
  return [
    ...commands.flatMap((command, depth) => [...at(depth), command]),
    ...at(commands.length),
    ...render(options.filter((option) => option.native === true && option.spec?.bears === undefined)),
    ...(words.length === 0 ? [] : ["--", ...words]),
  ];
}

function assertKeepable({ incomplete, name, spec }: Given): void {
  if (incomplete === true) {
    throw unkept(name, `The option ${name} was given without its value, so it cannot be kept.`);
  }
  if (spec?.refuse !== undefined) {
    throw unkept(name, `The option ${name} cannot be kept on a resume: ${spec.refuse}.`);
  }
}

/** An option that the other mode does not accept may be left out only if no limit depends on it (I12). */
function assertDroppable(given: Given, mode: "headless" | "ui"): void {
  const right = rightOf(given);
  if (right === null || right === "extra") return;
  const where = mode === "ui" ? "in the engine's UI" : "without the engine's UI";
  throw unkept(given.name, `The option ${given.name} affects the run's rights and is not accepted ${where}.`);
}

function unkept(option: string, message: string): Fault {
  return new Fault("option_unkept", message, { facts: { option } });
}

/** Removes an option that the engine's file renders itself, and reports it. */
export function rewrite(from: EngineAttemptOptions, mine: (option: Given) => boolean): EngineAttemptOptions {
  const options = from.options.filter((option) => !mine(option));
  const rewritten = describe(from.options.filter(mine));
  return { ...from, options, report: { ...reportOf(options, from.report.dropped), rewritten } };
}

/** For a message that is an argument: the arguments, and their stored form. */
export function withMessage(
  message: string | null,
  args: (message: string | null) => readonly string[],
): Pick<Command, "args" | "storedArgs"> {
  return message === null ? { args: args(null) } : { args: args(message), storedArgs: args("[message]") };
}

/** Makes a message that begins with a dash a message (I10). */
export function afterDashes(message: string | null): readonly string[] {
  return message === null ? [] : ["--", message];
}

function reportOf(kept: readonly Given[], dropped: readonly string[]): OptionReport {
  return { kept: describe(kept), dropped, rewritten: [] };
}

export interface HeldAccess {
  readonly level: Access;
  /** Precede the user's options. */
  readonly options: readonly string[];
  /** The user's option that decides instead. Null: no such option. */
  readonly by: string | null;
}

/**
 * `given`: native arguments of the config and the user, which come first. `profile`: the user's rules that an option
 * would switch off. Throws if the engine has no such level.
 */
export function accessOptions(
  engine: Engine,
  level: Access,
  given: readonly string[],
  profile: string | null = null,
): HeldAccess {
  const modes = engine.access ?? { edit: [] };
  const own = ownMode(engine, given);
  if (own !== null) return { level, options: [], by: describe([own]).join(" ") };
  if (profile !== null && level === "read") {
    throw new Fault(
      "engine_cannot",
      `${engine.title} follows ${profile}, and access "read" would switch that off. ` +
        `Choose access "edit" to work with it, or give ${(modes.read ?? []).join(" ")} after -- to work without it.`,
      { facts: { engine: engine.id, access: level, profile } },
    );
  }
  if (profile !== null) return { level, options: [], by: profile };
  const options = modes[level];
  if (options !== undefined) return { level, options, by: null };
  const known = (["read", "edit", "full"] as const).filter((one) => modes[one] !== undefined);
  throw new Fault(
    "engine_cannot",
    `${engine.title} has no option that Reprise knows for access "${level}", only for: ${known.join(", ")}. ` +
      "Give its own options after --, or choose another level.",
    { facts: { engine: engine.id, access: level, known } },
  );
}

export interface StandingArgs {
  /** Native arguments of the config: those of an earlier start, and those of a start now. */
  readonly had: readonly string[];
  readonly now: readonly string[];
  /** The user's, after the config's. */
  readonly native: readonly string[];
  /** The user has just asked for the level, so an earlier option no longer decides. */
  readonly asked: boolean;
  /** The engine refused `had`. An unknown option in it may be the cause, so it may be missing now. */
  readonly refused?: boolean;
}

/** The option by which a start now may get more rights, as the engine's parser reads both. Null: no more rights. */
export function widerStart(
  engine: Engine,
  level: Access,
  { had, now, native, asked, refused = false }: StandingArgs,
): { readonly option: string; readonly gone: boolean } | null {
  const { grammar } = engine;
  const all = (args: readonly string[]) => {
    const { options } = accessOptions(engine, level, [...args, ...native]);
    return parseArgs(grammar, [...args, ...options, ...native], true);
  };
  const sets = setsMode(engine);
  const rest = render(parseArgs(grammar, had, true).options.filter((option) => !sets(option)));
  const [then, today] = [all(asked ? rest : had), all(now)];
  const isThere = ({ raw }: Given) => today.options.some((other) => other.raw.join("\0") === raw.join("\0"));
  const options = then.options.filter((given) => !refused || given.spec !== null || isThere(given));
  return widerOf(moreRights({ ...then, options }, today));
}

/**
 * The same for a run that begins with other arguments after the engine refused the first. Ignores unknown options,
 * because the engine may have refused one of them.
 */
export function widerAnew(
  { grammar }: Pick<Engine, "grammar">,
  then: readonly string[],
  now: readonly string[],
): ReturnType<typeof widerStart> {
  const known = (args: readonly string[]) => {
    const parsed = parseArgs(grammar, args, true);
    return { ...parsed, options: parsed.options.filter(({ spec }) => spec !== null) };
  };
  return widerOf(moreRights(known(then), known(now)));
}

function widerOf(found: ReturnType<typeof moreRights>): ReturnType<typeof widerStart> {
  return found === null ? null : { option: describe([found.option]).join(" "), gone: found.gone };
}

/** The first given option that sets what a level would set. */
function ownMode(engine: Engine, given: readonly string[]): Given | null {
  return parseArgs(engine.grammar, given, true).options.find(setsMode(engine)) ?? null;
}

/** Whether an option sets what a level would set. */
function setsMode(engine: Engine): (option: Given) => boolean {
  const { unless = [], profile, ...levels } = engine.access ?? {};
  const ours = Object.values(levels).flatMap((words) => parseArgs(engine.grammar, words, true).options);
  const scales = new Set(ours.map(scaleOf).filter((scale) => scale !== null));
  return (option) =>
    scales.has(scaleOf(option) ?? "") ||
    profile?.isNamedBy(option) === true ||
    ours.some(({ spec }) => spec !== null && spec === option.spec) ||
    unless.some((name) => option.spec?.names.includes(name) === true);
}
