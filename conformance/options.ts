/** The command line of `npm run conformance`: its options, and each mistake in one line. Runs nothing. */
import { parseArgs } from "node:util";
import { nearest } from "../src/lib/suggest.ts";
import type { CaseInstance } from "../src/certify/case.ts";

/** What keeps a run from beginning, for the person who typed it: one line, no trace, exit 2. */
export class Mistake extends Error {}

/** What there is to choose from. */
export interface Choices {
  readonly engines: readonly string[];
  readonly groups: readonly string[];
  /** Cases at a time unless told. */
  readonly jobs: number;
}

export interface Options {
  /** Undefined: all of them. So for the next two. */
  readonly engine: readonly string[] | undefined;
  readonly group: readonly string[] | undefined;
  /** Parts of ids. */
  readonly case: readonly string[] | undefined;
  /** Only the cases of `short.json`. */
  readonly short: boolean;
  readonly jobs: number;
  readonly minutes: number;
  readonly report: string | undefined;
  readonly record: boolean;
  readonly keep: boolean;
  readonly verbose: boolean;
  readonly help: boolean;
}

const MAX_JOBS = 64;

export function readOptions(args: readonly string[], choices: Choices): Options {
  const flags = parsed(args, choices.jobs);
  const jobs = Number(flags.jobs);
  if (!/^\d+$/.test(flags.jobs) || jobs < 1 || jobs > MAX_JOBS)
    throw new Mistake(`--jobs is a number from 1 to ${MAX_JOBS}, not ${JSON.stringify(flags.jobs)}`);
  const minutes = Number(flags.minutes);
  if (!/^\d+(\.\d+)?$/.test(flags.minutes) || minutes <= 0)
    throw new Mistake(`--minutes is a number above 0, not ${JSON.stringify(flags.minutes)}`);
  for (const name of flags.engine ?? []) mustBeOneOf("engine", name, choices.engines);
  for (const name of flags.group ?? []) mustBeOneOf("group", name, choices.groups);
  const { engine, group, case: texts, report } = flags;
  return { ...flags, engine, group, case: texts, report, jobs, minutes };
}

function parsed(args: readonly string[], jobs: number) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        engine: { type: "string", multiple: true },
        group: { type: "string", multiple: true },
        case: { type: "string", multiple: true },
        short: { type: "boolean", default: false },
        jobs: { type: "string", default: String(jobs) },
        minutes: { type: "string", default: "60" },
        report: { type: "string" },
        record: { type: "boolean", default: false },
        keep: { type: "boolean", default: false },
        verbose: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    throw new Mistake(oneLine(error));
  }
}

function mustBeOneOf(what: string, name: string, all: readonly string[]): void {
  if (all.includes(name)) return;
  const meant = nearest(name, all);
  const hint = meant === null ? `there are ${all.join(", ")}` : `did you mean ${meant}?`;
  throw new Mistake(`${JSON.stringify(name)} is no ${what}; ${hint}`);
}

type Choosable = Pick<CaseInstance, "id" | "group"> & { readonly short?: boolean };

export function isChosen({ id, group, short }: Choosable, options: Options): boolean {
  const fits = (given: readonly string[] | undefined, test: (text: string) => boolean) =>
    given === undefined || given.some(test);
  return (
    // Cases outside of the case files have no short form.
    (!options.short || short !== false) &&
    fits(options.engine, (name) => id.endsWith(`@${name}`)) &&
    fits(options.group, (name) => group === name) &&
    fits(options.case, (text) => id.includes(text))
  );
}

/** Every text of `--case` fits something, and so does all of it together. */
export function mustFit(all: readonly Choosable[], options: Options): void {
  for (const text of options.case ?? []) {
    if (!all.some(({ id }) => id.includes(text)))
      throw new Mistake(`no case has ${JSON.stringify(text)} in its id (name@engine)`);
  }
  if (!all.some((one) => isChosen(one, options)))
    throw new Mistake("no case fits all of --engine, --group, --case and --short");
}

export function oneLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\s*\n\s*/g, " ").trim();
}
