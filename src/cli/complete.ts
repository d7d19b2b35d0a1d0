/** The words that can stand at the end of a command line, from the declarations and, for values, from the records. */
import type { RunRecord } from "../core/records.ts";
import { titleOf } from "../core/title.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Context } from "./context.ts";
import { COMMANDS } from "./commands.ts";
import type { Argument, Declaration, CommandGroup, Option, ValueSource } from "./define.ts";
import { entryOf, isGroup } from "./dispatch.ts";
import { flagOf } from "./parse.ts";

/** `words`: the command line without `reprise`; the last word is the one to complete. */
export async function complete(words: readonly string[], context: Context): Promise<readonly string[]> {
  const current = words.at(-1) ?? "";
  const found = await candidates(words.slice(0, -1), current, context);
  return [...new Set(found)].filter((word) => isForShell(word) || word.startsWith(current));
}

/** The shell completes these itself. */
const isForShell = (word: string) => word === ":files" || word === ":directories";

const COLOURS = [
  "--color=auto\tcolours on a terminal",
  "--color=always\tcolours also in a pipe",
  "--color=never\tno colours",
];

async function candidates(
  before: readonly string[],
  current: string,
  context: Context,
): Promise<readonly string[]> {
  const isHelp = before[0] === "help";
  let commands: CommandGroup["commands"] = COMMANDS;
  for (const [at, word] of before.entries()) {
    // `agent --json list`
    if ((at === 0 && isHelp) || word.startsWith("-")) continue;
    const entry = entryOf(commands, word);
    if (entry === undefined) return [];
    const declared = await entry.load();
    if (isGroup(declared)) commands = declared.commands;
    else return isHelp ? [] : inCommand(declared, before.slice(at + 1), current, context);
  }
  if (commands !== COMMANDS) return [...described(commands), "--help", ...COLOURS];
  if (isHelp) return [...described(commands), ...(await topics())];
  return [...described(commands), "help", "--help", "--version", ...COLOURS];
}

const described = (entries: Readonly<Record<string, { readonly summary: string }>>) =>
  Object.entries(entries).map(([name, { summary }]) => `${name}\t${summary}`);

async function topics(): Promise<readonly string[]> {
  const { TOPICS } = await import("./help/topics.ts");
  return [
    ...described(TOPICS),
    "topics\tthe list of topics",
    "--all\tall commands",
    "--man\tthe manual page",
  ];
}

async function inCommand(
  command: Declaration,
  before: readonly string[],
  current: string,
  context: Context,
): Promise<readonly string[]> {
  if (command.dashes === "engine" && before.includes("--")) return [":files"];
  const takes = optionNamed(command, before.at(-1) ?? "");
  if (takes !== undefined && "placeholder" in takes) return valuesOf(takes, current, context);
  const [, name, given = ""] = /^(--[^=]+)=(.*)$/s.exec(current) ?? [];
  const assigned = name === undefined ? undefined : optionNamed(command, name);
  if (assigned !== undefined) {
    const values = await valuesOf(assigned, given, context);
    return values.filter((value) => !isForShell(value)).map((value) => `${name}=${value}`);
  }
  const signed = command.signed === undefined ? [] : await SOURCES[command.signed](context, current);
  if (current.startsWith("-"))
    return [
      ...Object.entries(command.options).map(([word, one]) => `${flagOf(word, one)}\t${one.help}`),
      "--help\tshow this help",
      ...COLOURS,
      ...signed.map((value) => `-${value}`),
    ];
  const operands = before.filter((word, at) => {
    const option = optionNamed(command, before[at - 1] ?? "");
    return !/^-|^\+./.test(word) && !(option !== undefined && "placeholder" in option);
  });
  const args = Object.values(command.args);
  const argument = args[operands.length] ?? args.find(({ many }) => many === true);
  if (argument !== undefined) return valuesOf(argument, current, context);
  return signed.map((value) => `+${value}`);
}

function optionNamed({ options }: Declaration, word: string): Option | undefined {
  if (!word.startsWith("-")) return undefined;
  const found = Object.entries(options).find(
    ([name, option]) => word === option.short || word === flagOf(name, option),
  );
  return found?.[1];
}

async function valuesOf(
  of: Option | Argument,
  current: string,
  context: Context,
): Promise<readonly string[]> {
  if (of.values === undefined) return [];
  if (typeof of.values !== "string") return of.values;
  if (of.values === "handles" && "offers" in of && of.offers === "live") return liveHandles(context);
  return SOURCES[of.values](context, current);
}

const SOURCES: Readonly<
  Record<ValueSource, (context: Context, current: string) => Promise<readonly string[]>>
> = {
  files: async () => [":files"],
  directories: async () => [":directories"],
  engines: async (context) => {
    const { allEngines } = await import("../run/engine-setup.ts");
    return allEngines(await context.open()).map(({ id }) => id);
  },
  handles: async (context, current) => {
    const deps = await context.open({ cwd: null });
    const isPrefix = /^[0-9a-f]{4,8}$/i.test(current);
    const { listRuns } = await import("../run/select.ts");
    const runs = isPrefix
      ? await deps.store.findByHandle(current.toLowerCase())
      : await listRuns(deps, { limit: 50, sort: "updated" });
    return [...runs.map(describedRun), ...(await deps.store.listNames()).map((name) => harmlessLine(name))];
  },
  names: async (context) => {
    const deps = await context.open({ cwd: null });
    return (await deps.store.listNames()).map((name) => harmlessLine(name));
  },
  tags: async (context) => {
    const deps = await context.open({ cwd: null });
    const runs = await deps.store.listRuns({ mentions: "tags", limit: 1_000, sort: "updated" });
    return runs.flatMap(({ tags = [] }) => tags).map((tag) => harmlessLine(tag));
  },
  "agent names": async (context) => (await runbooks(context)).flatMap(({ agents }) => named(agents)),
  "pipeline names": async (context) => (await runbooks(context)).flatMap(({ pipelines }) => named(pipelines)),
  pipelines: async (context) => {
    const { listPipelines } = await import("../supervisor/pipelines.ts");
    const pipelines = await listPipelines(await context.open({ cwd: null }));
    return pipelines.map(({ id, definition }) => `${id}\t${definition.name}`);
  },
  decisions: async (context) => {
    const { listDecisions } = await import("../supervisor/supervisor.ts");
    const decisions = await listDecisions(await context.open({ cwd: null }), { open: true });
    return decisions.map(({ id }) => id);
  },
};

async function liveHandles(context: Context): Promise<readonly string[]> {
  const { listRuns } = await import("../run/select.ts");
  const runs = await listRuns(await context.open({ cwd: null }), { status: "running", limit: 50 });
  return runs.flatMap((run) => [describedRun(run), ...(run.name === null ? [] : [harmlessLine(run.name)])]);
}

const describedRun = (run: RunRecord) =>
  `${run.handle}\t${harmlessLine(`${run.agentName}: ${titleOf(run) ?? run.status}`, 90)}`;

const named = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);

async function runbooks(context: Context) {
  return (await import("./runbook.ts")).read([], context);
}
