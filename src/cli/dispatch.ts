/** Runs a declared command: finds the subcommand of a group, and suggests one for an unknown name. */
import { Fault } from "../core/faults.ts";
import { shellLine } from "../lib/shell.ts";
import type { Context } from "./context.ts";
import type { DeclaredCommand, Entry, CommandGroup } from "./define.ts";
import { HelpShown, listHelp } from "./parse.ts";
import { ALIASES, meant } from "./synonyms.ts";

export const isGroup = (declared: DeclaredCommand | CommandGroup): declared is CommandGroup =>
  "commands" in declared;

/** The command with this name or alias. */
export function entryOf(commands: CommandGroup["commands"], name: string): Entry | undefined {
  const known =
    Object.hasOwn(commands, name) || !Object.hasOwn(ALIASES, name) ? name : (ALIASES[name] ?? name);
  return Object.hasOwn(commands, known) ? commands[known] : undefined;
}

export async function execute(
  declared: DeclaredCommand | CommandGroup,
  args: readonly string[],
  context: Context,
): Promise<number> {
  if (!isGroup(declared)) return declared.execute(args, context);
  const { alone, commands } = declared;
  const [name, ...rest] = args;
  const isHelp = name === "--help" || name === "-h";
  const only = alone === undefined ? undefined : commands[alone];
  const isAlone = name === undefined || (name.startsWith("-") && !args.some((arg) => entryOf(commands, arg)));
  if (only !== undefined && !isHelp && isAlone) return execute(await only.load(), args, context);
  if (name === undefined) {
    process.stderr.write(`${helpOf(declared)}\n`);
    return 2;
  }
  if (isHelp) {
    context.print(helpOf(declared));
    throw new HelpShown();
  }
  // Options such as `--json` may also precede the subcommand.
  const at = name.startsWith("-") ? args.findIndex((arg) => entryOf(commands, arg) !== undefined) : 0;
  const entry = entryOf(commands, args[at] ?? "");
  if (entry === undefined) throw unknownSubcommand(declared, name, rest);
  return execute(await entry.load(), args.toSpliced(at, 1), context);
}

function unknownSubcommand(family: CommandGroup, name: string, rest: readonly string[]): Fault {
  const near = meant(name, Object.keys({ ...family.commands, ...family.elsewhere }));
  const hint =
    near === null
      ? `\`reprise ${family.name} --help\` lists its commands.`
      : (family.elsewhere?.[near] ??
        `Did you mean \`${shellLine(["reprise", family.name, near, ...rest])}\`?`);
  return new Fault(
    "usage",
    `\`reprise ${family.name}\` has no command ${JSON.stringify(name.slice(0, 80))}. ${hint}`,
  );
}

function helpOf({ name, summary, commands, alone, examples }: CommandGroup): string {
  const isDefault = (word: string) => (word === alone ? " (default)" : "");
  const entries = Object.entries(commands).map(([word, entry]) => [
    word,
    { summary: `${entry.summary}${isDefault(word)}` },
  ]);
  return listHelp({
    name,
    summary,
    usage: "<verb> [options]",
    commands: Object.fromEntries(entries) as CommandGroup["commands"],
    examples,
    after: [`See \`reprise ${name} <verb> --help\` for details.`],
  });
}
