/** Suggests the right command line when the user gives us an engine's option. */
import { Fault } from "../core/faults.ts";
import type { Engine } from "../engines/engine.ts";
import { builtInEngine } from "../engines/engines.ts";
import { shellLine } from "../lib/shell.ts";
import { isOption, type Parser, unknownOptionIn } from "./parse.ts";

interface GivenArgs {
  /** The arguments before `--`, and after it. */
  readonly args: readonly string[];
  readonly native: readonly string[];
  /** The default engine of a command without a prompt. Undefined: the engine and then the prompt are arguments. */
  readonly engine: string | undefined;
}

/** The same fault, or a fault that shows where native options go. */
export function withNativeHint(error: unknown, parser: Parser, given: GivenArgs): unknown {
  const option = unknownOptionIn(error);
  if (option === null || !(error instanceof Fault)) return error;
  const engine = builtInEngine(engineIn(parser, given)) ?? null;
  const isNative = engine !== null && specOf(engine, option) !== undefined;
  // Correcting a mistyped option of ours is better, and a text with spaces is a prompt.
  if (!isNative && (error.message.includes("Did you mean") || /\s/.test(option))) return error;
  const { own, native } = split(parser, given, engine);
  const words = [...parser.name().split(" "), ...own, "--", ...native, ...given.native];
  const line = shellLine(words).slice(0, 1_000);
  const whose = isNative
    ? `${option} is an option of ${engine.title}.`
    : `${option} is not an option of \`${parser.name()}\`.${given.engine !== undefined ? "" : " Pass a prompt that begins with a dash with --stdin or --message-file."}`;
  return new Fault("usage", `${whose} Native options go after \`--\`: ${line}`, {
    facts: { option, line },
  });
}

const nameOf = (arg: string): string => (arg.startsWith("--") ? (arg.split("=")[0] ?? arg) : arg);

function specOf(engine: Engine, option: string) {
  return engine.grammar.options.find(({ names }) => names.includes(nameOf(option)));
}

function ownOption(parser: Parser, arg: string) {
  return parser.options.find(({ long, short }) => long === nameOf(arg) || short === arg);
}

/** A value in the same word (`--cwd=x`) leaves the next word alone. */
function takesValue(parser: Parser, arg: string | undefined): boolean {
  return arg !== undefined && ownOption(parser, arg)?.required === true && !arg.includes("=");
}

function engineIn(parser: Parser, { args, engine }: GivenArgs): string {
  const named = args.indexOf("--engine");
  if (named !== -1) return args[named + 1] ?? "";
  return engine ?? args.find((arg, at) => !isOption(arg) && !takesValue(parser, args[at - 1])) ?? "";
}

/** Our part stays before the dashes: our options with their values, the engine, the prompt. */
function split(parser: Parser, { args, engine: byDefault }: GivenArgs, engine: Engine | null) {
  const own: string[] = [];
  const native: string[] = [];
  let room = parser.registeredArguments.length;
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    const next = args[at + 1];
    if (!isOption(arg)) {
      (room > 0 ? own : native).push(arg);
      room -= 1;
      continue;
    }
    const isOurs = ownOption(parser, arg) !== undefined;
    const takes = isOurs
      ? takesValue(parser, arg)
      : nativeTakes(engine, arg, next, byDefault === undefined ? room : 0);
    const taken = takes && next !== undefined ? [arg, next] : [arg];
    (isOurs ? own : native).push(...taken);
    at += taken.length - 1;
  }
  return { own, native };
}

function nativeTakes(engine: Engine | null, arg: string, next: string | undefined, room: number): boolean {
  if (next === undefined || isOption(next) || arg.includes("=")) return false;
  const spec = engine === null ? undefined : specOf(engine, arg);
  // The word after an unknown option is its value, unless it is needed as the prompt.
  return spec === undefined ? room <= 0 : spec.takes !== "none";
}
