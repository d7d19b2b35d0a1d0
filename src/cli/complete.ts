/** The words that can stand at the end of a command line, from the declarations and, for values, from the records. */
import type { Context } from "./context.ts";
import { COMMANDS } from "./commands.ts";
import type { Argument, Declaration, CommandGroup, Option, ValueSource } from "./define.ts";
import { entryOf, isGroup } from "./dispatch.ts";
import { flagOf } from "./parse.ts";

/** `words`: the command line without `reprise`; the last word is the one to complete. */
export async function complete(words: readonly string[], context: Context): Promise<readonly string[]> {
  const current = words.at(-1) ?? "";
  const found = await candidates(words.slice(0, -1), current, context);
  return found.filter((word) => word.startsWith(":") || word.startsWith(current));
}

async function candidates(
  before: readonly string[],
  current: string,
  context: Context,
): Promise<readonly string[]> {
  let commands: CommandGroup["commands"] = COMMANDS;
  for (const [at, word] of before.entries()) {
    if (at === 0 && word === "help") continue;
    // `agent --json list`
    const entry = entryOf(commands, word);
    if (entry === undefined) return [];
    const declared = await entry.load();
    if (!isGroup(declared)) return inCommand(declared, before.slice(at + 1), current, context);
    commands = declared.commands;
  }
  const more = before.length === 0 ? ["help", "--help", "--version"] : ["--help"];
  return [...described(commands), ...more];
}

const described = (commands: CommandGroup["commands"]) =>
  Object.entries(commands).map(([name, { summary }]) => `${name}\t${summary}`);

async function inCommand(
  command: Declaration,
  before: readonly string[],
  current: string,
  context: Context,
): Promise<readonly string[]> {
  if (command.dashes === "engine" && before.includes("--")) return [":files"];
  const takes = optionNamed(command, before.at(-1) ?? "");
  if (takes !== undefined && "placeholder" in takes) return valuesOf(takes, context);
  if (current.startsWith("-"))
    return [
      ...Object.entries(command.options).map(([name, one]) => `${flagOf(name, one)}\t${one.help}`),
      "--help\tshow this help",
    ];
  const operands = before.filter((word, at) => {
    const option = optionNamed(command, before[at - 1] ?? "");
    return !word.startsWith("-") && !(option !== undefined && "placeholder" in option);
  });
  const args = Object.values(command.args);
  const argument = args[operands.length] ?? args.find(({ many }) => many === true);
  return argument === undefined ? [] : valuesOf(argument, context);
}

function optionNamed({ options }: Declaration, word: string): Option | undefined {
  if (!word.startsWith("-")) return undefined;
  const found = Object.entries(options).find(
    ([name, option]) => word === option.short || word === flagOf(name, option),
  );
  return found?.[1];
}

async function valuesOf({ values }: Option | Argument, context: Context): Promise<readonly string[]> {
  if (values === undefined) return [];
  return typeof values === "string" ? SOURCES[values](context) : values;
}

const SOURCES: Readonly<Record<ValueSource, (context: Context) => Promise<readonly string[]>>> = {
  files: async () => [":files"],
  directories: async () => [":directories"],
  engines: async (context) => {
    const { allEngines } = await import("../run/engine-setup.ts");
    return allEngines(await context.open()).map(({ id }) => id);
  },
  handles: async (context) => {
    const { listRuns } = await import("../run/select.ts");
    const runs = await listRuns(await context.open({ cwd: null }), { limit: 50 });
    return runs.map(({ handle, name, agentName }) => `${handle}\t${name ?? agentName}`);
  },
  "agent names": async (context) => (await runbooks(context)).flatMap(({ agents }) => named(agents)),
  "pipeline names": async (context) => (await runbooks(context)).flatMap(({ pipelines }) => named(pipelines)),
  pipelines: async (context) => {
    const { listPipelines } = await import("../supervisor/supervisor.ts");
    const pipelines = await listPipelines(await context.open({ cwd: null }));
    return pipelines.map(({ id, definition }) => `${id}\t${definition.name}`);
  },
  decisions: async (context) => {
    const { listDecisions } = await import("../supervisor/supervisor.ts");
    const decisions = await listDecisions(await context.open({ cwd: null }), { open: true });
    return decisions.map(({ id }) => id);
  },
};

const named = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);

async function runbooks(context: Context) {
  return (await import("./runbook.ts")).read([], context);
}
