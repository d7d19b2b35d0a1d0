/** `reprise runbook`: checks runbooks, lists their definitions, and explains their actions. Starts nothing. */
import { relative } from "node:path";
import { TROUBLE_KINDS, type TroubleKind } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { TRIGGERS, type Trigger } from "../core/runbook.ts";
import type { Engine } from "../engines/engine.ts";
import { ENGINES, parseArgs } from "../engines/engines.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { nearest } from "../lib/suggest.ts";
import { fitTable } from "../lib/table.ts";
import { allEngines } from "../run/engine-setup.ts";
import { type Engines, explainTrigger, findRunbooks, hasErrors, openRunbook } from "../runbooks/runbooks.ts";
import type { Problem, Runbook, RunbookPlace } from "../runbooks/runbooks.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { defineCommand, type CommandGroup, JSON_FLAG, repeatable } from "./define.ts";
import { shortPath, widthLimit } from "./words.ts";

export const command: CommandGroup = {
  name: "runbook",
  summary: "Check runbooks, list their agents and pipelines, explain their actions. Starts nothing.",
  commands: {
    check: { summary: "check runbooks, or explain their actions", load: async () => check },
    list: { summary: "list the agents and pipelines that runbooks define", load: async () => list },
  },
  examples: [
    "reprise runbook check",
    "reprise runbook check runbooks/worker.toml --json",
    "reprise runbook check runbooks/worker.toml --explain agent.worker on_error rate_limited",
    "reprise runbook list",
  ],
};

const check = defineCommand({
  name: "runbook check",
  summary: "Check runbooks, or explain the actions for an agent of a runbook. Starts nothing.",
  args: {
    file: { help: "runbooks to check (default: the project's and your own)", many: true, values: "files" },
  },
  options: {
    explain: repeatable("<what...>", "explain a reaction: agent.NAME on_TRIGGER [ERROR]"),
    json: JSON_FLAG,
  },
  examples: [
    "reprise runbook check",
    "reprise runbook check runbooks/worker.toml --json",
    "reprise runbook check runbooks/worker.toml --explain agent.worker on_error rate_limited",
  ],
  run: async ({ args, options }, context) => {
    const runbooks = await read(args.file, context);
    const json = options.json === true;
    if (options.explain !== undefined) return explain(runbooks, options.explain, json, context);
    return report(runbooks, json, context);
  },
});

const list = defineCommand({
  name: "runbook list",
  summary: "List the agents and pipelines that the project's and your own runbooks define.",
  excess: "`reprise runbook list` takes no files. To check files: reprise runbook check FILE",
  options: { json: JSON_FLAG },
  examples: ["reprise runbook list", "reprise runbook list --json"],
  run: async ({ options }, context) => listDefined(await read([], context), options.json === true, context),
});

/** Looks up the config's engines only if a runbook names an engine that does not ship with Reprise. */
export async function read(files: readonly string[], context: Context): Promise<readonly Runbook[]> {
  let unknown = false;
  const own = engineTraits(ENGINES);
  const find = (id: string) => {
    const found = own.find(id);
    unknown ||= found === null;
    return found;
  };
  const all = async (engines: Engines) => {
    const where: RunbookPlace = { cwd: process.cwd(), env: context.env, engines };
    return files.length === 0
      ? findRunbooks(where)
      : Promise.all(files.map((file) => openRunbook(file, where)));
  };
  const runbooks = await all({ ids: own.ids, find });
  return unknown ? all(engineTraits(allEngines(await context.open({ cwd: process.cwd() })))) : runbooks;
}

/** The facts about engines that runbooks need. */
export function engineTraits(engines: readonly Engine[]): Engines {
  return {
    ids: engines.map(({ id }) => id),
    find: (id) => {
      const engine = engines.find((one) => one.id === id);
      if (engine === undefined) return null;
      return {
        hasUi: engine.can.interactive,
        tellsIdle: engine.activity !== undefined,
        opensUi: (args) => engine.opensUi(args),
        refuses: (args) => whyRefused(engine, args),
      };
    },
  };
}

function whyRefused(engine: Engine, args: readonly string[]): string | null {
  const { options, words } = parseArgs(engine.grammar, args, true);
  const [word] = words;
  if (word !== undefined) {
    return `holds ${JSON.stringify(harmlessLine(word, 60))}, which is neither an option nor the value of one; the prompt stands in prompt or prompt_file`;
  }
  for (const { spec, name, values } of options) {
    if (spec?.bears === "session")
      return `holds ${name}; which conversation is continued is Reprise's to say`;
    if (spec?.bears === "prompt" && values.length > 0)
      return `holds ${name} with a text; the prompt stands in prompt or prompt_file`;
    if (spec?.refuse !== undefined) return `holds ${name}, with which no run can be resumed: ${spec.refuse}`;
  }
  return null;
}

function report(runbooks: readonly Runbook[], json: boolean, context: Context): number {
  const wrong = runbooks.filter(hasErrors);
  const problems = runbooks.flatMap((runbook) => runbook.problems);
  const errors = problems.filter(({ level }) => level === "error").length;
  if (json) {
    const message = `${plural(errors, "error")} in ${plural(wrong.length, "runbook")}.`;
    const failed = {
      ok: false,
      error: { code: "runbook_invalid", message, facts: { errors, retryable: false } },
    };
    context.printJson({ ...(errors > 0 ? failed : { ok: true }), runbooks: runbooks.map(asJson) });
  } else {
    for (const runbook of runbooks) printChecked(runbook, context);
    if (runbooks.length === 0)
      context.log.info("no runbooks found: none in this project's runbooks/, none in your config directory");
  }
  return errors > 0 ? 2 : 0;
}

function asJson({ path, level, agents, pipelines, problems }: Runbook) {
  return {
    file: path,
    level,
    agents: agents.map(({ name }) => name),
    pipelines: pipelines.map(({ name }) => name),
    problems: problems.map(({ level: severity, line, column, reason }) => ({
      severity,
      line,
      column,
      reason,
    })),
  };
}

function printChecked(runbook: Runbook, context: Context): void {
  const file = harmlessLine(shown(runbook.path));
  for (const problem of runbook.problems) context.print(`${file}:${describe(problem, context)}`);
  if (hasErrors(runbook)) return;
  const names = [
    ...runbook.agents.map(({ name }) => `agent.${name}`),
    ...runbook.pipelines.map(({ name }) => `pipeline.${name}`),
  ];
  context.print(`${file}: ${paint(context.terminal, "green", "good")} (${names.join(", ")})`);
}

function describe({ level, line, column, reason }: Problem, { terminal }: Context): string {
  const label = level === "warning" ? `${paint(terminal, "yellow", "warning:")} ` : "";
  return `${line}:${column}: ${label}${harmlessLine(reason, 500)}`;
}

/** The shorter form of a file's path. */
function shown(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") ? path : near;
}

function listDefined(runbooks: readonly Runbook[], json: boolean, context: Context): number {
  const rows = runbooks.flatMap((runbook) => [
    ...runbook.agents.map(({ name, vars, definition }) => ({
      kind: "agent",
      name,
      does: `${definition.engine}, ${definition.mode}`,
      vars: vars.map((one) => one.name),
      runbook,
    })),
    ...runbook.pipelines.map(({ name, vars, steps }) => ({
      kind: "pipeline",
      name,
      does: steps.map((step) => step.name).join(" → "),
      vars: vars.map((one) => one.name),
      runbook,
    })),
  ]);
  const hidden = (row: (typeof rows)[number]) =>
    row.runbook.level === "user" &&
    rows.some(
      (other) => other.runbook.level === "project" && other.kind === row.kind && other.name === row.name,
    );
  const entries = rows.map((row) => ({ ...row, hidden: hidden(row), errors: hasErrors(row.runbook) }));
  if (json) {
    context.printJson({
      ok: true,
      defined: entries.map(({ runbook: { path, level }, ...rest }) => ({ ...rest, file: path, level })),
    });
    return 0;
  }
  const state = (entry: (typeof entries)[number]) =>
    entry.errors ? " (has errors)" : entry.hidden ? " (hidden by the project's)" : "";
  const rowsOf = entries.map((entry) => [
    `${entry.kind}.${entry.name}`,
    harmlessLine(entry.does, 60),
    entry.vars.length === 0 ? "-" : entry.vars.join(", "),
    `${shortPath(shown(entry.runbook.path), context.env["HOME"])}${state(entry)}`,
  ]);
  if (rowsOf.length === 0)
    context.log.info("no runbook here defines anything; `reprise runbook check` gives details");
  else for (const line of definedTable(rowsOf, context.terminal)) context.print(line);
  return 0;
}

/** Names and variables are what users type after `agent run`. */
export function definedTable(
  rows: readonly (readonly string[])[],
  terminal: Pick<Terminal, "stdout" | "columns">,
): string[] {
  const columns = [
    { head: "NAME", as: "whole" },
    { head: "DOES", least: 12 },
    { head: "VARIABLES", as: "whole" },
    { head: "FILE", as: "wrap" },
  ] as const;
  return fitTable(columns, rows, widthLimit(terminal));
}

function explain(
  runbooks: readonly Runbook[],
  what: readonly string[],
  json: boolean,
  context: Context,
): number {
  const [subject = "", on = "", kind, ...more] = what;
  const trigger = TRIGGERS.find((one) => `on_${one}` === on);
  if (!subject.startsWith("agent.") || trigger === undefined || more.length > 0) {
    throw new Fault(
      "usage",
      "--explain takes an agent, a trigger and, for on_error, an error. Example: --explain agent.worker on_error rate_limited",
    );
  }
  const trouble = troubleOf(kind, trigger);
  const wrong = runbooks.filter(hasErrors);
  const name = subject.slice("agent.".length);
  const runbook = runbooks.find((one) => one.agents.some((agent) => agent.name === name));
  const agent = runbook?.agents.find((one) => one.name === name);
  if (runbook === undefined || agent === undefined || hasErrors(runbook)) {
    for (const one of runbook === undefined ? wrong : [runbook]) if (!json) printChecked(one, context);
    const why =
      runbook === undefined
        ? "No runbook that was looked at defines it."
        : "Its runbook has errors; correct them first.";
    throw new Fault(
      runbook === undefined ? "runbook_unknown" : "runbook_invalid",
      `${harmlessLine(subject, 80)}: ${why}`,
    );
  }
  const lines = explainTrigger(agent.definition, trigger, trouble);
  if (json) context.printJson({ ok: true, file: runbook.path, agent: name, trigger, error: trouble, lines });
  else for (const line of lines) context.print(line);
  return 0;
}

function troubleOf(kind: string | undefined, trigger: Trigger): TroubleKind | null {
  if (kind === undefined || kind === "any") return null;
  const found = TROUBLE_KINDS.find((one) => one === kind);
  if (trigger !== "error")
    throw new Fault(
      "usage",
      `on_${trigger} takes no kind of error: leave ${JSON.stringify(kind.slice(0, 40))} out.`,
    );
  if (found === undefined) {
    const near = nearest(kind, TROUBLE_KINDS);
    const hint = near === null ? `They are ${TROUBLE_KINDS.join(", ")}.` : `Did you mean ${near}?`;
    throw new Fault("usage", `${JSON.stringify(kind.slice(0, 40))} is not a kind of error. ${hint}`);
  }
  return found;
}
