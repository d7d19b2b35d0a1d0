/**
 * Commands with verbs: `reprise pipeline run`, `reprise decisions list`. One help for all, one file or function per
 * verb.
 */
import { Fault } from "../core/faults.ts";
import { shellLine } from "../lib/shell.ts";
import type { CommandRun } from "./cli.ts";
import { HelpShown } from "./command.ts";
import type { Context } from "./context.ts";
import { ALIASES, meant } from "./synonyms.ts";

export interface VerbGroup {
  readonly name: string;
  /** Their topic, one sentence. */
  readonly about: string;
  readonly verbs: Readonly<Record<string, Verb>>;
  /** The verb that is meant when none is given. Absent: the help is shown. */
  readonly alone?: string;
  /** What people look for here and is done by another command: what to say of it. */
  readonly elsewhere?: Readonly<Record<string, string>>;
  readonly examples: readonly string[];
}

interface Verb {
  readonly summary: string;
  readonly run: CommandRun;
}

export async function runVerb(group: VerbGroup, args: readonly string[], context: Context): Promise<number> {
  const [name, ...rest] = args;
  const alone = group.alone === undefined ? undefined : group.verbs[group.alone];
  const isHelp = name === "--help" || name === "-h";
  if (alone !== undefined && !isHelp && args.every((arg) => arg.startsWith("-")))
    return alone.run(args, context);
  if (name === undefined) {
    process.stderr.write(`${help(group)}\n`);
    return 2;
  }
  if (isHelp) {
    context.print(help(group));
    throw new HelpShown();
  }
  // `--json` may also precede the verb.
  const [verbName, ...verbArgs] = rest;
  if (name === "--json" && verbName !== undefined)
    return runVerb(group, [verbName, "--json", ...verbArgs], context);
  const known = Object.hasOwn(group.verbs, name)
    ? name
    : ((Object.hasOwn(ALIASES, name) ? ALIASES[name] : undefined) ?? name);
  const verb = Object.hasOwn(group.verbs, known) ? group.verbs[known] : undefined;
  if (verb !== undefined) return verb.run(rest, context);
  const near = meant(name, Object.keys({ ...group.verbs, ...group.elsewhere }));
  const elsewhere = near === null ? undefined : group.elsewhere?.[near];
  const hint =
    elsewhere !== undefined
      ? elsewhere
      : near === null
        ? `\`reprise ${group.name} --help\` lists what it does.`
        : `Did you mean \`${shellLine(["reprise", group.name, near, ...rest])}\`?`;
  throw new Fault(
    "usage",
    `\`reprise ${group.name}\` does not know ${JSON.stringify(name.slice(0, 80))}. ${hint}`,
  );
}

function help({ name, about, verbs, alone, examples }: VerbGroup): string {
  const width = Math.max(...Object.keys(verbs).map((verb) => verb.length));
  return [
    `Usage: reprise ${name} <verb> [options]`,
    "",
    about,
    "",
    ...Object.entries(verbs).map(
      ([verb, { summary }]) =>
        `  ${verb.padEnd(width)}  ${summary}${verb === alone ? " (without a verb: this)" : ""}`,
    ),
    "",
    "Examples:",
    ...examples.map((line) => `  ${line}`),
    "",
    `\`reprise ${name} <verb> --help\` gives details.`,
  ].join("\n");
}

/** The only argument of a verb, or the message without it. */
export function onlyArgument(given: readonly string[], missing: string): string {
  const [only, ...rest] = given;
  if (only === undefined || rest.length > 0) throw new Fault("usage", missing);
  return only;
}
