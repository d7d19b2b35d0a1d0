/**
 * Turns a tree into agents and pipelines, and every error into a problem with its position.
 *
 * Pure: the caller passes functions that read prompt files and describe engines. Texts keep their templates; `fill.ts`
 * fills them.
 */
import { DANGEROUS_ENV } from "../core/config.ts";
import type { AgentMode, Policy } from "../core/runbook.ts";
import { nearest } from "../lib/suggest.ts";
import { policyEntriesIn } from "./actions.ts";
import type { AgentDraft, PipelineDraft, Var } from "./drafts.ts";
import { below, checkKeys, choiceIn, commandIn, countIn, durationIn, error, flagIn } from "./fields.ts";
import { namedEntries, type FieldScope, tableIn, textIn, textOf, unfit, wordsIn } from "./fields.ts";
import { pipelineOf } from "./pipeline.ts";
import { templateProblems } from "./template.ts";
import { type At, type NodeEntry, type Problem, type Table, within } from "./tree.ts";
import { splitWords } from "./words.ts";

export interface RunbookContext {
  readonly level: "project" | "user";
  /** Null: no such engine. */
  engine(id: string): EngineTraits | null;
  readonly engineIds: readonly string[];
  /** The text of a prompt file, or why it is unusable: "is a directory". */
  readPrompt(path: string): { readonly text: string } | { readonly why: string };
}

/** The facts about an engine that a runbook needs. */
export interface EngineTraits {
  readonly hasUi: boolean;
  /** It reports whether a live UI is idle, so that Reprise can type a message into it. */
  readonly tellsIdle: boolean;
  /** True: these native arguments alone open the engine's UI. */
  opensUi(args: readonly string[]): boolean;
  /** Why these native arguments are not allowed in a runbook. Null: they are allowed. */
  refuses(args: readonly string[]): string | null;
}

export interface Checked {
  readonly agents: readonly AgentDraft[];
  readonly pipelines: readonly PipelineDraft[];
  readonly problems: readonly Problem[];
}

const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const NAME_RULE = "lower-case letters, digits and -, 64 at most, not - first";
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const VARIABLE_RULE = "letters, digits and _, no digit first";
const AGENT_KEYS = [
  ...["engine", "args", "run", "mode", "prompt", "prompt_file", "cwd", "env", "vars"],
  ...["on_idle", "on_dead", "on_error", "on_prompt", "idle_after", "max_attempts"],
];
const DEFAULT_IDLE_MS = 60_000;
/** The only engine whose bare command opens its UI. */
const UI_BY_DEFAULT = "claude";

export function checkRunbook(root: Table, context: RunbookContext): Checked {
  const problems: Problem[] = [];
  const scope: FieldScope = { path: "", problems, vars: [] };
  checkKeys(root, scope, ["agent", "pipeline"]);
  const named = (key: "agent" | "pipeline"): [string, NodeEntry, Table][] => {
    const table = tableIn(root, scope, key, `[${key}.NAME]`);
    if (table === undefined) return [];
    return namedEntries(table, below(scope, key), NAME, NAME_RULE).flatMap(([name, entry]) => {
      const here = below(below(scope, key), name);
      if (entry.value.kind === "table") return [[name, entry, entry.value] as [string, NodeEntry, Table]];
      unfit(entry.value, here, `is a table: [${here.path}]`);
      return [];
    });
  };
  const agentTables = named("agent");
  const agents = agentTables.map(([name, { at }, table]) => agentOf(name, { table, at, problems }, context));
  const pipelines = named("pipeline").map(([name, { at }, table]) => {
    const here = below(below(scope, "pipeline"), name);
    const vars = varsIn(table, here);
    const inner = { ...here, vars: vars.map((one) => one.name) };
    return pipelineOf(table, inner, { name, at, vars, agents });
  });
  if (agentTables.length === 0 && pipelines.length === 0 && problems.length === 0) {
    error(scope, root.at, "This file defines no agent and no pipeline");
  }
  return { agents, pipelines, problems };
}

function agentOf(
  name: string,
  { table, at, problems }: { table: Table; at: At; problems: Problem[] },
  context: RunbookContext,
): AgentDraft {
  const outer: FieldScope = { path: `agent.${name}`, problems, vars: [] };
  checkKeys(table, outer, AGENT_KEYS);
  const vars = varsIn(table, outer);
  const scope: FieldScope = { ...outer, vars: vars.map((one) => one.name) };
  const command = commandOf(table, scope, at, context);
  const mode = modeIn(table, scope, command, context);
  const { prompt, promptFile } = promptIn(table, scope, context);
  const asked = table.entries.has("prompt") || table.entries.has("prompt_file");
  if (mode === "headless" && command !== null && !asked) {
    error(scope, at, `${scope.path} has no prompt; without its UI an agent needs prompt or prompt_file`);
  }
  const policy = policyIn(table, scope);
  checkNudge(table, scope, { engine: command?.engine ?? null, mode, policy }, context);
  return {
    name,
    at,
    vars,
    promptFile,
    definition: {
      name,
      engine: command?.engine ?? "",
      args: command?.args ?? [],
      mode,
      prompt,
      cwd: cwdIn(table, scope),
      env: envIn(table, scope, context.level),
      policy,
    },
  };
}

function policyIn(table: Table, scope: FieldScope): Policy {
  return {
    on: {
      idle: policyEntriesIn(table, scope, "idle"),
      dead: policyEntriesIn(table, scope, "dead"),
      error: policyEntriesIn(table, scope, "error"),
      prompt: policyEntriesIn(table, scope, "prompt"),
    },
    idleAfterMs: durationIn(table, scope, "idle_after", 1000) ?? DEFAULT_IDLE_MS,
    maxAttempts: countIn(table, scope, "max_attempts") ?? null,
  };
}

interface Command {
  readonly engine: string;
  readonly args: readonly string[];
  /** Written as a command line (`run`) instead of engine and arguments. */
  readonly fromRun: boolean;
}

/** Null: reported as a problem. */
function commandOf(table: Table, scope: FieldScope, at: At, context: RunbookContext): Command | null {
  const run = table.entries.get("run");
  const engine = table.entries.get("engine");
  if (run !== undefined && engine !== undefined) {
    error(scope, run.at, `${scope.path} has both run and engine; give one of them`);
    return null;
  }
  if (run === undefined && engine === undefined) {
    error(scope, at, `${scope.path} has neither run nor engine; give run = "claude", or engine = "codex"`);
    return null;
  }
  if (run !== undefined) {
    const given = table.entries.get("args");
    if (given !== undefined) error(scope, given.at, `${scope.path}.args goes with engine; put them into run`);
    const words = runWords(table, scope, run);
    const [id, ...args] = words ?? [];
    return id === undefined
      ? null
      : knownEngine({ engine: id, args, fromRun: true }, run, below(scope, "run"), context);
  }
  const id = textIn(table, scope, "engine");
  const args = wordsIn(table, scope, "args") ?? [];
  if (id === undefined || engine === undefined) return null;
  return knownEngine({ engine: id.value, args, fromRun: false }, engine, below(scope, "engine"), context);
}

function runWords(table: Table, scope: FieldScope, { value }: NodeEntry): readonly string[] | undefined {
  if (value.kind === "list") return commandIn(table, scope, "run");
  const text = textIn(table, scope, "run");
  if (text === undefined) return undefined;
  const split = splitWords(text.value);
  if ("why" in split) {
    error(scope, within(text, split.at), `${scope.path}.run ${split.why}`);
    return undefined;
  }
  return split.words.length > 0
    ? split.words
    : unfit(value, below(scope, "run"), 'is empty; write run = "claude"');
}

function knownEngine(
  command: Command,
  entry: NodeEntry,
  scope: FieldScope,
  context: RunbookContext,
): Command | null {
  const { at } = entry.value;
  const traits = context.engine(command.engine);
  if (traits === null) {
    const near = nearest(command.engine, context.engineIds);
    const guess = near === null ? `There are ${context.engineIds.join(", ")}` : `Did you mean ${near}?`;
    error(
      scope,
      at,
      `${scope.path}: no engine has the name ${JSON.stringify(command.engine.slice(0, 60))}. ${guess}`,
    );
    return null;
  }
  const why = traits.refuses(command.args);
  if (why !== null) error(scope, at, `${scope.path} ${why}`);
  return command;
}

function modeIn(
  table: Table,
  scope: FieldScope,
  command: Command | null,
  context: RunbookContext,
): AgentMode {
  const given = choiceIn<AgentMode>(table, scope, "mode", ["interactive", "headless"]);
  const traits = command === null ? null : context.engine(command.engine);
  if (given === "interactive" && traits?.hasUi === false) {
    const at = table.entries.get("mode")?.value.at ?? table.at;
    error(
      scope,
      at,
      `${scope.path}.mode cannot be interactive: ${command?.engine} has no UI that Reprise can open`,
    );
  }
  if (given !== undefined || command === null) return given ?? "interactive";
  const ui = command.fromRun && command.engine === UI_BY_DEFAULT && traits?.opensUi(command.args) === true;
  return ui ? "interactive" : "headless";
}

function checkNudge(
  table: Table,
  scope: FieldScope,
  agent: { engine: string | null; mode: AgentMode; policy: Policy },
  context: RunbookContext,
): void {
  const tells = agent.engine === null || context.engine(agent.engine)?.tellsIdle !== false;
  if (tells || agent.mode === "headless") return;
  if (agent.policy.on.idle.some(({ action }) => action === "nudge")) {
    const at = table.entries.get("on_idle")?.at ?? table.at;
    const why = `${agent.engine} does not say when it is idle; use mode = "headless"`;
    error(scope, at, `${scope.path}.on_idle cannot nudge: ${why}`);
  }
}

function promptIn(
  table: Table,
  scope: FieldScope,
  context: RunbookContext,
): { prompt: string | null; promptFile: string | null } {
  const prompt = textIn(table, scope, "prompt");
  if (prompt?.value.trim() === "") error(scope, prompt.at, `${scope.path}.prompt is empty`);
  const entry = table.entries.get("prompt_file");
  if (entry === undefined) return { prompt: prompt?.value ?? null, promptFile: null };
  const none = { prompt: null, promptFile: null };
  if (table.entries.has("prompt")) {
    error(scope, entry.at, `${scope.path} has prompt and prompt_file; one of them is the prompt`);
    return none;
  }
  const here = below(scope, "prompt_file");
  // No templates: the file must be known when the runbook is checked and trusted.
  const file = textOf(entry.value, { ...here, vars: [] });
  if (file === undefined) return none;
  const read = context.readPrompt(file.value);
  if ("why" in read) {
    error(here, file.at, `${here.path}: ${JSON.stringify(file.value.slice(0, 200))} ${read.why}`);
    return none;
  }
  for (const { index, why } of templateProblems(read.text, scope.vars, "file")) {
    const line = read.text.slice(0, index).split("\n").length;
    error(here, file.at, `${here.path}: line ${line} of the file ${why}`);
  }
  return { prompt: read.text, promptFile: file.value };
}

function cwdIn(table: Table, scope: FieldScope): string {
  const cwd = textIn(table, scope, "cwd");
  if (cwd === undefined) return "";
  if (cwd.value === "" || cwd.value.startsWith("~")) {
    const why =
      cwd.value === "" ? "is empty" : "begins with ~, which only a shell understands; write the whole path";
    error(scope, cwd.at, `${scope.path}.cwd ${why}`);
  }
  return cwd.value;
}

function envIn(
  table: Table,
  scope: FieldScope,
  level: "project" | "user",
): readonly (readonly [string, string])[] {
  const env = tableIn(table, scope, "env", '{ NAME = "value" }');
  if (env === undefined) return [];
  const here = below(scope, "env");
  return namedEntries(env, here, /^[A-Za-z_][A-Za-z0-9_]*$/, VARIABLE_RULE).flatMap(
    ([name, { at, value }]) => {
      if (level === "project" && DANGEROUS_ENV.test(name)) {
        error(
          here,
          at,
          `${here.path}.${name} changes how every program runs, so a project's runbook may not set it`,
        );
        return [];
      }
      const text = textOf(value, below(here, name));
      return text === undefined ? [] : [[name, text.value] as const];
    },
  );
}

/** `vars = { branch = "main", issue = { required = true } }`. */
function varsIn(table: Table, scope: FieldScope): readonly Var[] {
  const vars = tableIn(table, scope, "vars", '{ branch = "main", issue = { required = true } }');
  if (vars === undefined) return [];
  const here = below(scope, "vars");
  return namedEntries(vars, here, VARIABLE, VARIABLE_RULE).map(([name, { value }]) => {
    const inner = { ...below(here, name), vars: [] };
    if (value.kind !== "table") {
      const text = value.kind === "text" ? textOf(value, inner) : unfit(value, inner, varRule);
      return { name, value: text?.value ?? "" };
    }
    checkKeys(value, inner, ["required", "default"]);
    const required = flagIn(value, inner, "required");
    const standard = textIn(value, inner, "default");
    if (required !== true && standard === undefined) error(inner, value.at, `${inner.path} ${varRule}`);
    if (required === true && standard !== undefined) {
      error(inner, standard.at, `${inner.path} is required, so it cannot have a default`);
    }
    return { name, value: required === true ? null : (standard?.value ?? "") };
  });
}

const varRule = "is a text, its default, or { required = true }";
