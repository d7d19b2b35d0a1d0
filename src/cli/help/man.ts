/** The manual page `reprise.1`, made from the declarations of the commands, the topics and the exit codes. */
import { COMMANDS } from "../commands.ts";
import type { Declaration, CommandGroup } from "../define.ts";
import { isGroup } from "../dispatch.ts";
import { flagsText, usageOf } from "../parse.ts";
import { EXIT_CODES } from "./exit-codes.ts";
import { partsOf, TOPICS } from "./topics.ts";

export async function manualPage(version: string): Promise<string> {
  return [
    `.TH REPRISE 1 "" "Reprise ${roff(version)}" "User Commands"`,
    ".SH NAME",
    "reprise \\- start any coding agent, never lose its conversation",
    ".SH SYNOPSIS",
    ".B reprise",
    "\\fIcommand\\fR [\\fIoptions\\fR]",
    ".SH DESCRIPTION",
    roff(
      "Reprise starts Codex, Claude Code, Gemini CLI, iFlow, OpenCode or your own agent, and records everything the agent prints. After a crash, Ctrl-C, a rate limit, a closed terminal or a reboot, it continues the same conversation, and proves it.",
    ),
    ".SH OPTIONS OF EVERY COMMAND",
    ...[".TP", ".B \\-\\-color=auto|always|never", "when to use colours; NO_COLOR turns them off"],
    ".SH COMMANDS",
    ...(await commandsOf(COMMANDS, new Set())),
    ".SH CONCEPTS",
    ...Object.entries(TOPICS)
      .filter(([name]) => name !== "exit-codes")
      .flatMap(([name, { summary, text }]) => [
        `.SS ${roff(`${name}: ${summary}`)}`,
        ...partsOf(text)
          .flatMap(({ lines, isProse }) => (isProse ? [".PP", ...lines.map(roff)] : verbatim(lines)))
          // A section begins with the space of a paragraph.
          .slice(1),
      ]),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT_CODES).flatMap(([code, means]) => [".TP", `.B ${code}`, roff(means)]),
    ".SH FILES",
    ...FILES.flatMap(([path, means]) => [".TP", `.I ${roff(path)}`, roff(means)]),
    "",
  ].join("\n");
}

const FILES = [
  ["~/.config/reprise/config.toml", "your config file"],
  ["reprise.toml", "the config file of a project"],
  ["runbooks/", "the runbooks of a project"],
  ["~/.local/state/reprise", "the state directory, unless $REPRISE_HOME or $XDG_STATE_HOME names another"],
] as const;

/** `agent logs` is `logs`: each declaration has one section. */
async function commandsOf(commands: CommandGroup["commands"], seen: Set<string>): Promise<readonly string[]> {
  const sections: string[] = [];
  for (const entry of Object.values(commands)) {
    const declared = await entry.load();
    if (isGroup(declared)) sections.push(...(await commandsOf(declared.commands, seen)));
    else if (!seen.has(declared.name)) {
      seen.add(declared.name);
      sections.push(...sectionOf(declared));
    }
  }
  return sections;
}

export function sectionOf(command: Declaration): readonly string[] {
  const { name, summary, usage, args, options, examples } = command;
  const terms = [
    ...Object.entries(args).map(([word, { help }]) => [`.I ${roff(word)}`, help] as const),
    ...Object.entries(options).map(
      ([word, option]) => [`.B ${roff(flagsText(word, option))}`, option.help] as const,
    ),
  ];
  return [
    `.SS ${roff(`reprise ${name} ${usage ?? usageOf(command)}`)}`,
    roff(summary),
    ...terms.flatMap(([term, help]) => [".TP", term, roff(help)]),
    ".PP",
    "Examples:",
    ...verbatim(examples.map((line) => `  ${line}`)),
  ];
}

/** Lines as they are. Empty lines around them become the space of a paragraph. */
function verbatim(lines: readonly string[]): readonly string[] {
  const inner = lines.join("\n").replace(/^\n+|\n+$/g, "");
  return inner === "" ? [] : [".PP", ".nf", ...inner.split("\n").map(roff), ".fi"];
}

/** A text of several lines as one; a single line keeps its indentation. */
function joined(text: string): string {
  if (!text.includes("\n")) return text;
  return text
    .split("\n")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join(" ");
}

/** One line of text for roff: nothing in it is a request or an escape, and dashes stay dashes when copied. */
export function roff(text: string): string {
  const line = joined(text)
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll('"', "\\(dq")
    .replaceAll("`", "\\(ga")
    .replaceAll("'", "\\(aq")
    .replaceAll(
      /[\u0080-\u{10ffff}]/gu,
      (sign) => `\\[u${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`,
    );
  return line.startsWith(".") ? `\\&${line}` : line;
}
