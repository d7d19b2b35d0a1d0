/**
 * The command lines of our programs (soak, crash, bench): `--help` lists the options and exits with 0, anything
 * else is reported in one line and exits with 2.
 */
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseArgs } from "node:util";

/** What a value looks like; a flag has none. */
const VALUES = {
  text: { fits: (text: string) => text !== "" && !text.startsWith("--"), is: "needs a value" },
  file: { fits: isPlaceForFile, is: "is a file in a folder that exists" },
  count: { fits: (text: string) => /^0*[1-9]\d{0,5}$/.test(text), is: "is a whole number above 0" },
  amount: { fits: (text: string) => /^(?=.*[1-9])\d{1,6}(\.\d+)?$/.test(text), is: "is a number above 0" },
  seed: { fits: (text: string) => /^\d{1,9}$/.test(text), is: "is a whole number of at most 9 digits" },
} as const;

type Kind = "flag" | keyof typeof VALUES;
type Kinds = Readonly<Record<string, Kind>>;

/** Undefined: it was not given. */
type Given<T extends Kinds> = {
  readonly [K in keyof T]: T[K] extends "flag"
    ? boolean
    : (T[K] extends "text" | "file" ? string : number) | undefined;
};

/** What this program was given; ends it for `--help` and for a mistake. */
export function readArguments<const T extends Kinds>(usage: string, kinds: T): Given<T> {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    console.log(usage.trim());
    process.exit(0);
  }
  return orExit(() => parseArguments(args, kinds));
}

/** The members of `all` that a list with commas names, in any case; all of them without a list. */
export function readChoice(list: string | undefined, all: readonly string[]): readonly string[] {
  return orExit(() => chosen(list, all));
}

/** For the person who typed it. */
class Mistake extends Error {}

function orExit<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    console.error(error.message);
    process.exit(2);
  }
}

export function parseArguments<const T extends Kinds>(args: readonly string[], kinds: T): Given<T> {
  const options = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [
      name,
      { type: kind === "flag" ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true });
  const given: Record<string, boolean | string | number | undefined> = {};
  for (const [name, kind] of Object.entries(kinds)) given[name] = kind === "flag" ? false : undefined;
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional") throw new Mistake(`${token.value} is no option; see --help`);
    const kind = Object.hasOwn(kinds, token.name) ? kinds[token.name] : undefined;
    if (kind === undefined) throw new Mistake(`There is no option ${token.rawName}; see --help`);
    given[token.name] = valueOf(token.rawName, kind, token.value);
  }
  return given as Given<T>;
}

function valueOf(name: string, kind: Kind, text: string | undefined): boolean | string | number {
  if (kind === "flag") {
    if (text !== undefined) throw new Mistake(`${name} takes no value`);
    return true;
  }
  const { fits, is } = VALUES[kind];
  if (text === undefined || !VALUES.text.fits(text)) throw new Mistake(`${name} ${VALUES.text.is}`);
  if (!fits(text)) throw new Mistake(`${name} ${is}, not ${text}`);
  return kind === "text" || kind === "file" ? text : Number(text);
}

/** Before the hours that it takes to have something to write. */
function isPlaceForFile(path: string): boolean {
  const stat = statSync(resolve(path), { throwIfNoEntry: false });
  return stat === undefined ? existsSync(dirname(resolve(path))) : stat.isFile();
}

export function chosen(list: string | undefined, all: readonly string[]): readonly string[] {
  const names = list?.split(",").map((name) => name.trim());
  const isNamed = (one: string, name: string) => one.toLowerCase() === name.toLowerCase();
  const unknown = names?.filter((name) => !all.some((one) => isNamed(one, name))) ?? [];
  if (unknown.length > 0)
    throw new Mistake(`There is no ${unknown.join(", ") || "such one"}; there are ${all.join(", ")}`);
  return all.filter((one) => names?.some((name) => isNamed(one, name)) ?? true);
}
