/** `reprise help`: the commands by purpose, concepts, and the manual page. Loaded only when somebody asks for help. */
import { Fault } from "../../core/faults.ts";
import { wrap } from "../../lib/wrap.ts";
import { COMMANDS, type Purpose } from "../commands.ts";
import { type Context, paint } from "../context.ts";
import type { CommandGroup } from "../define.ts";
import { isGroup } from "../dispatch.ts";
import { partsOf, TOPICS } from "./topics.ts";

const HEADINGS: Readonly<Record<Purpose, string>> = {
  run: "Run",
  look: "Inspect",
  keep: "Manage",
  supervise: "Supervise",
  project: "Projects",
  setup: "Set up",
};
/** Commands of a group that `reprise --help` shows with their summaries. */
const WITH_SUMMARY = 2;
const WIDTH = 80;

/** Answers everything but the help of a command, which its declaration has. Null: the words name a command. */
export async function showHelp(words: readonly string[], context: Context): Promise<number | null> {
  const [word] = words;
  if (word === undefined || word === "help" || word === "--help" || word === "-h")
    context.print(overview(Object.entries(COMMANDS), (text) => paint(context.terminal, "bold", text)));
  else if (word === "--all" || word === "-a") context.print((await everything()).join("\n"));
  else if (word === "--man") context.print(await (await import("./man.ts")).manualPage(context.version));
  else if (word === "topics") context.print(topicList().join("\n"));
  else if (Object.hasOwn(TOPICS, word)) context.print(topicText(word));
  else if (word.startsWith("-"))
    throw new Fault(
      "usage",
      `\`reprise help\` takes a command, a topic, --all or --man, not ${JSON.stringify(word.slice(0, 80))}.`,
    );
  else return null;
  return 0;
}

type Listed = readonly (readonly [
  name: string,
  entry: { readonly group: Purpose; readonly summary: string },
])[];

/** At most 23 lines of 80 columns: a terminal of 24 lines shows them and the prompt below. */
export function overview(commands: Listed, bold: (text: string) => string): string {
  const margin = Math.max(...Object.values(HEADINGS).map(({ length }) => length)) + 2;
  const groups = Object.entries(HEADINGS).flatMap(([group, heading]) => {
    const members = commands.filter(([, entry]) => entry.group === group);
    const shown = members.slice(0, WITH_SUMMARY);
    const rest = members.slice(WITH_SUMMARY).map(([name]) => name);
    const lines = [
      ...shown.map(([name, { summary }]) => `${name.padEnd(NAME)}${summary}`),
      ...(rest.length === 0 ? [] : wrap(rest.join(", "), { width: WIDTH - margin, indent: 0 })),
    ];
    return lines.map((line, at) => `${bold((at === 0 ? heading : "").padEnd(margin))}${line}`);
  });
  return [
    "Usage: reprise <command> [options]",
    "Start any coding agent. Never lose its conversation.",
    "",
    ...groups,
    "",
    'Examples:  reprise start codex "fix the test" · reprise resume 1a2b "go on"',
    "Help:      reprise help COMMAND · help TOPIC · help topics · help --all",
  ].join("\n");
}

/** The width of the name column with its gap. */
const NAME = 8;

/** Every command with its subcommands, by purpose. */
async function everything(): Promise<readonly string[]> {
  const lines = ["Usage: reprise <command> [options]"];
  for (const [group, heading] of Object.entries(HEADINGS)) {
    lines.push("", `${heading}:`);
    for (const [name, entry] of Object.entries(COMMANDS).filter(([, one]) => one.group === group)) {
      lines.push(...row(name, entry.summary));
      const declared = await entry.load();
      if (isGroup(declared)) lines.push(...verbRows(declared));
    }
  }
  const others = [
    ["help", "show help for a command or a topic; --all: every command; --man: the manual page"],
    ["version", "print the version"],
    ["--color=WHEN", "with every command: auto, always or never"],
  ] as const;
  return [
    ...lines,
    "",
    "Also:",
    ...others.flatMap(([name, summary]) => row(name, summary)),
    "",
    "`ls` means `list`, `continue` means `resume`. Details: reprise help <command>",
  ];
}

const verbRows = ({ name, commands }: CommandGroup) =>
  Object.entries(commands).flatMap(([verb, { summary }]) => row(`  ${name} ${verb}`, summary));

function row(name: string, summary: string): readonly string[] {
  const start = `  ${name.padEnd(22)}`;
  const [first = "", ...more] = wrap(summary, { width: WIDTH - start.length, indent: 0 });
  return [`${start}${first}`, ...more.map((line) => " ".repeat(start.length) + line)];
}

function topicList(): readonly string[] {
  return [
    "Topics:",
    ...Object.entries(TOPICS).flatMap(([name, { summary }]) => row(name, summary)),
    "",
    "Read one with: reprise help TOPIC",
  ];
}

export function topicText(name: string): string {
  const { summary = "", text = "" } = TOPICS[name] ?? {};
  const parts = partsOf(text).flatMap(({ lines, isProse }) =>
    isProse ? wrap(lines.join(" "), { width: WIDTH, indent: 0 }) : lines,
  );
  return [`${name}: ${summary}`, "", ...parts].join("\n");
}
