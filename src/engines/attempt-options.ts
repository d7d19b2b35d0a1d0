/**
 * The native arguments of one attempt, as far as engines share them: the options the user first gave, as far as this
 * attempt carries them, with the attempt's own laid over them and a report of what became of each; and the message
 * where it is an argument. Knows no engine.
 */
import type { Ask, Command, OptionReport } from "./engine.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Given,
  type Grammar,
  override,
  type Parsed,
  parseArgs,
  splitForResume,
} from "./grammar.ts";

export interface AttemptOptions {
  /** What the user first gave, understood. */
  readonly given: Parsed;
  /** What this attempt passes on, in the order given. */
  readonly options: readonly Given[];
  readonly report: OptionReport;
}

/** A start keeps everything; any other attempt keeps what the table lets a resume carry. */
export function attemptOptions(grammar: Grammar, ask: Ask): AttemptOptions {
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

/** Takes out an option that the engine's file renders itself, and says so. */
export function rewrite(from: AttemptOptions, mine: (option: Given) => boolean): AttemptOptions {
  const options = from.options.filter((option) => !mine(option));
  const rewritten = describe(from.options.filter(mine));
  return { ...from, options, report: { ...reportOf(options, from.report.dropped), rewritten } };
}

/** For a message that travels as an argument: the arguments, and those that may be stored. */
export function withMessage(
  message: string | null,
  args: (message: string | null) => readonly string[],
): Pick<Command, "args" | "storedArgs"> {
  return message === null ? { args: args(null) } : { args: args(message), storedArgs: args("[message]") };
}

/** So that a message that begins with a dash is a message (I10). */
export function afterDashes(message: string | null): readonly string[] {
  return message === null ? [] : ["--", message];
}

function reportOf(kept: readonly Given[], dropped: readonly string[]): OptionReport {
  return { kept: describe(kept), dropped, rewritten: [] };
}
