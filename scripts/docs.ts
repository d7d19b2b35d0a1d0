/**
 * Writes `docs/errors.md` from the table of faults, the reference in `docs/cli.md` from the declarations of the commands,
 * the table of the README from `conformance/report.md`, and the table of `docs/reliability.md` from
 * `test/crash/results.json`. With `--check`, writes nothing, and exit code 1 means that a file is out of date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { readmeWith } from "../conformance/report.ts";
import { COMMANDS } from "../src/cli/commands.ts";
import type { Declaration, CommandGroup } from "../src/cli/define.ts";
import { isGroup } from "../src/cli/dispatch.ts";
import { EXIT_CODES } from "../src/cli/help/exit-codes.ts";
import { flagsText, usageOf } from "../src/cli/parse.ts";
import { FAULTS } from "../src/core/faults.ts";
import type { Result } from "../test/crash/promise.ts";

const at = (path: string) => new URL(`../${path}`, import.meta.url);

function page(): string {
  const faults = Object.entries(FAULTS);
  for (const [code, { exit }] of faults) {
    if (EXIT_CODES[exit] === undefined)
      throw new Error(`the exit code ${exit} of ${code} has no meaning here`);
  }
  const exits = Object.entries(EXIT_CODES).map(([code, means]) => `| ${code} | ${means} |`);
  const rows = faults
    .toSorted(([a, one], [b, other]) => one.exit - other.exit || (a < b ? -1 : 1))
    .map(
      ([code, { exit, retryable, means }]) =>
        `| \`${code}\` | ${exit} | ${retryable ? "yes" : "no"} | ${means} |`,
    );
  return `# Errors

<!-- Generated from src/core/faults.ts by \`npm run docs\`. Do not edit. -->

This page lists every exit code and every fault of Reprise.

A fault is an action that Reprise could not carry out. Reprise prints one line on stderr: the
problem, the record, and what to type next. With \`--json\` it prints one object on stdout. The
exit code is the same:

\`\`\`json
{"ok":false,"error":{"code":"handle_unknown","message":"No run has the handle 1a2b3c4d. …","facts":{"given":"1a2b3c4d","retryable":false}}}
\`\`\`

An agent that fails is an outcome, not a fault. Reprise records it, and \`reprise show\` shows it. The
exit code is 1, or one of these:

- 75 if a later attempt can succeed;
- 8 if you have to sign in to the engine;
- 3 if the engine has lost the session;
- 4 if the engine reports that the session is in use.

## Exit codes

| code | meaning |
|---|---|
${exits.join("\n")}

## Faults

Codes are stable: scripts can rely on them. *Retry* says whether the same command can succeed later
without a change.

| code | exit | retry | meaning |
|---|---|---|---|
${rows.join("\n")}
| \`bug\` | 70 | no | a mistake in Reprise, not a fault; \`facts.detail\` names the place |
`;
}

function present(path: string): string | null {
  try {
    return readFileSync(at(path), "utf8");
  } catch {
    return null;
  }
}

/** The page with everything between the two marks of this name replaced. */
function between(text: string, name: string, inside: string): string {
  const marks = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`] as const;
  const [from, to] = marks.map((mark) => text.indexOf(mark)) as [number, number];
  if (from < 0 || to < from) throw new Error(`a page lacks the marks of its ${name}`);
  return `${text.slice(0, from)}${marks[0]}\n${inside}\n${text.slice(to)}`;
}

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function reliability(): string {
  const results = JSON.parse(present("test/crash/results.json") ?? "[]") as Result[];
  const rows = results.map(({ id, means, broken, tried, what, wrong, untried }) => {
    const count = `${broken.length} of ${tried.toLocaleString("en-US")} ${what} ${wrong}`;
    return [id, means, count, untried.join("; ")];
  });
  const promised = between(
    present("docs/reliability.md") ?? "",
    "promises",
    table(["", "guarantee", "result", "not tested here"], rows),
  );
  return between(
    promised,
    "soak",
    soak(JSON.parse(present("test/soak/results.json") ?? "null") as Soak | null),
  );
}

/** The page about the commands: a table of all, and the arguments and options of each. */
async function commandPage(): Promise<string> {
  const text = present("docs/cli.md") ?? "";
  const rows = Object.entries(COMMANDS).map(([name, { summary }]) => {
    const title = [...text.matchAll(/^## (.*)$/gm)].find(([, words = ""]) => words.split(" ").includes(name));
    return [`[\`${name}\`](#${(title?.[1] ?? name).replaceAll(" ", "-")})`, summary];
  });
  const listed = between(text, "commands", table(["command", "purpose"], rows));
  return between(listed, "reference", (await referenceOf(COMMANDS)).join("\n\n"));
}

async function referenceOf(commands: CommandGroup["commands"]): Promise<readonly string[]> {
  const sections: string[] = [];
  for (const entry of Object.values(commands)) {
    const declared = await entry.load();
    if (isGroup(declared)) sections.push(...(await referenceOf(declared.commands)));
    else sections.push(sectionOf(declared));
  }
  // `agent logs` is `logs`.
  return [...new Set(sections)];
}

function sectionOf(command: Declaration): string {
  const { name, summary, args, options, usage } = command;
  const rows = [
    ...Object.entries(args).map(([word, { help }]) => [`\`${word}\``, help]),
    ...Object.entries(options).map(([word, option]) => [`\`${flagsText(word, option)}\``, option.help]),
  ].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  return [
    `### reprise ${name}`,
    `\`\`\`\nreprise ${name} ${usage ?? usageOf(command)}\n\`\`\``,
    summary,
    table(["argument or option", "meaning"], rows),
  ].join("\n\n");
}

interface Soak {
  readonly minutes: number;
  readonly agents: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly daemon: Readonly<Record<string, number>>;
  readonly holder: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
  readonly rows: readonly Readonly<Record<string, number>>[];
}

function soak(found: Soak | null): string {
  if (found === null) return "No soak is recorded.";
  const { minutes, agents, faults, daemon, holder, violations, rows } = found;
  const count = Object.values(faults).reduce((sum, n) => sum + n, 0);
  const struck = Object.entries(faults).map(([name, n]) => `${n} × ${name}`);
  const inUse = ({ "in use, KiB/min": kib }: Readonly<Record<string, number>>) =>
    kib === undefined ? "" : ` (memory in use: ${kib})`;
  const grew = (name: string, of: Readonly<Record<string, number>>) =>
    `${name}: ${of["RSS slope, KiB/min"]} KiB per minute${inUse(of)} over ${of["watched, min"]} minutes, ${of["fds first"]} descriptors at the start, ${of["fds last"]} at the end`;
  return [
    `${agents} agents, ${minutes} minutes, ${count} faults (${struck.join(", ")}): **${violations.length} violations**. Growth of the ${grew("daemon", daemon)}; of the ${grew("watched holder", holder)}.`,
    "",
    table(
      Object.keys(rows[0] ?? {}),
      rows.map((row) => Object.values(row)),
    ),
  ].join("\n");
}

const readme = () => readmeWith(present("README.md") ?? "", present("conformance/report.md"));
try {
  const pages = {
    "docs/errors.md": page(),
    "docs/cli.md": await commandPage(),
    "README.md": readme(),
    "docs/reliability.md": reliability(),
  };
  for (const [path, wanted] of Object.entries(pages)) {
    if (!process.argv.includes("--check")) writeFileSync(at(path), wanted);
    else if (present(path) !== wanted) throw new Error(`${path} is not up to date. Type: npm run docs`);
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
