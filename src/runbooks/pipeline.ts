/** Pipelines: the order of steps, the transitions, and whether a pipeline can end. */
import type { AgentDraft, PipelineDraft, StepDraft, Var } from "./drafts.ts";
import { DEFAULT_TIMEOUT_MS } from "./actions.ts";
import {
  below,
  checkKeys,
  choiceIn,
  commandIn,
  durationIn,
  error,
  type FieldScope,
  textIn,
  unfit,
} from "./fields.ts";
import type { At, NodeEntry, Table, Value } from "./tree.ts";
import { nearest } from "../lib/suggest.ts";

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Targets of a step besides other steps. */
const DONE = "done";
const FAIL = "fail";
/** Longer pipelines are unreadable, and the check compares each step with each other. */
const MAX_STEPS = 200;
const STEP_KEYS = ["name", "run", "agent", "timeout", "on_done", "on_fail"];

interface Given {
  readonly name: string;
  readonly at: At;
  readonly vars: readonly Var[];
  readonly agents: readonly AgentDraft[];
}

interface Located {
  readonly step: StepDraft;
  readonly at: At;
}

export function pipelineOf(table: Table, scope: FieldScope, given: Given): PipelineDraft {
  checkKeys(table, scope, ["vars", "workspace", "cwd", "step"]);
  const before = scope.problems.length;
  const steps = stepsIn(table, scope, given);
  // The graph of partly invalid steps would only produce noise.
  if (scope.problems.length === before) checkGraph(steps, scope);
  const { name, at, vars } = given;
  return {
    name,
    at,
    vars,
    workspace: choiceIn(table, scope, "workspace", ["cwd", "dir", "worktree"] as const) ?? "cwd",
    cwd: textIn(table, scope, "cwd")?.value ?? "",
    steps: steps.map(({ step }) => step),
  };
}

interface Named {
  readonly name: string;
  readonly at: At;
  readonly table: Table;
}

function stepsIn(table: Table, scope: FieldScope, given: Given): readonly Located[] {
  const entry = table.entries.get("step");
  if (entry === undefined) {
    error(scope, given.at, `${scope.path} has no steps: [[${scope.path}.step]]`);
    return [];
  }
  const count = entry.value.kind === "list" ? entry.value.items.length : sizeOf(entry.value);
  if (count > MAX_STEPS) error(scope, entry.at, `${scope.path} has ${count} steps; ${MAX_STEPS} is the most`);
  const named = namesOf(entry, below(scope, "step"));
  return named
    .map(({ name, at, table: step }, index) => {
      const here = below(below(scope, "step"), name);
      checkKeys(step, here, STEP_KEYS);
      const after = named[index + 1]?.name ?? null;
      const names = named.map((one) => one.name);
      const run = commandIn(step, here, "run");
      const agent = agentIn(step, here, given);
      const both = step.entries.has("run") && step.entries.has("agent");
      if (both || !(step.entries.has("run") || step.entries.has("agent"))) {
        const has = both ? "both run and agent" : "neither run nor agent";
        error(here, at, `${here.path} has ${has}; a step has one of them`);
      }
      return {
        at,
        step: {
          name,
          run: run ?? null,
          agent: agent ?? null,
          timeoutMs: durationIn(step, here, "timeout", 1000) ?? DEFAULT_TIMEOUT_MS,
          onDone: targetIn(step, here, "on_done", { names, end: DONE }) ?? after,
          onFail: targetIn(step, here, "on_fail", { names, end: FAIL }) ?? null,
        },
      };
    })
    .map((located) => ends(located));
}

/** The words for the ends become null; a missing `on_done` is the next step already. */
function ends({ step, at }: Located): Located {
  const end = (to: string | null) => (to === DONE || to === FAIL ? null : to);
  return { at, step: { ...step, onDone: end(step.onDone), onFail: end(step.onFail) } };
}

/** A list of tables with a name each, or a table of tables with names as keys. */
function namesOf({ value }: NodeEntry, scope: FieldScope): readonly Named[] {
  const found: Named[] = [];
  const add = (name: string, at: At, table: Table) => {
    const twin = found.find((one) => one.name === name);
    if (!NAME.test(name))
      error(
        scope,
        at,
        `${scope.path}: ${JSON.stringify(name.slice(0, 80))} is not a valid step name. Use lower-case letters, digits, - and _, at most 64`,
      );
    else if (name === DONE || name === FAIL)
      error(scope, at, `${scope.path}: ${name} names an end of the pipeline, so no step can have it`);
    else if (twin === undefined) found.push({ name, at, table });
    else error(scope, at, `${scope.path}: ${name} is defined twice; first in line ${twin.at.line}`);
  };
  if (value.kind === "table" && [...value.entries.values()].every((entry) => entry.value.kind === "table")) {
    for (const [name, entry] of [...value.entries].slice(0, MAX_STEPS))
      if (entry.value.kind === "table") add(name, entry.at, entry.value);
    if (value.entries.size === 0) unfit(value, scope, "is empty");
    return found;
  }
  if (value.kind !== "list" && value.kind !== "table")
    unfit(value, scope, `is a list of tables: [[${scope.path}]]`);
  const items = (value.kind === "list" ? value.items : value.kind === "table" ? [value] : []).slice(
    0,
    MAX_STEPS,
  );
  for (const [index, item] of items.entries()) {
    const here = below(scope, index);
    if (item.kind !== "table") {
      unfit(item, here, 'is a table: { name = "build", run = ["make"] }');
      continue;
    }
    const name = textIn(item, { ...here, vars: [] }, "name");
    if (name !== undefined) add(name.value, name.at, item);
    else if (!item.entries.has("name")) error(here, item.at, `${here.path} has no name`);
  }
  if (value.kind === "list" && items.length === 0) unfit(value, scope, "is empty");
  return found;
}

function sizeOf(value: Value): number {
  return value.kind === "table" ? value.entries.size : 1;
}

function agentIn(step: Table, scope: FieldScope, { agents, vars }: Given): AgentDraft | undefined {
  const name = textIn(step, { ...scope, vars: [] }, "agent");
  if (name === undefined) return undefined;
  const agent = agents.find((one) => one.name === name.value);
  if (agent === undefined) {
    const near = nearest(
      name.value,
      agents.map((one) => one.name),
    );
    const guess = near === null ? "" : `. Did you mean ${near}?`;
    error(
      scope,
      name.at,
      `${scope.path}.agent: this file defines no agent ${JSON.stringify(name.value.slice(0, 80))}${guess}`,
    );
    return undefined;
  }
  const missing = agent.vars.find((one) => one.value === null && !vars.some((own) => own.name === one.name));
  if (missing !== undefined) {
    error(
      scope,
      name.at,
      `${scope.path}.agent: ${agent.name} needs the variable ${missing.name}; declare it in vars of the pipeline`,
    );
  }
  return agent;
}

function targetIn(
  step: Table,
  scope: FieldScope,
  key: "on_done" | "on_fail",
  { names, end }: { names: readonly string[]; end: string },
): string | undefined {
  const target = textIn(step, { ...scope, vars: [] }, key);
  if (target === undefined || names.includes(target.value) || target.value === end) return target?.value;
  const near = nearest(target.value, [...names, end]);
  const guess = near === null ? `It must be a step, or "${end}"` : `Did you mean ${near}?`;
  error(
    scope,
    target.at,
    `${scope.path}.${key}: there is no step ${JSON.stringify(target.value.slice(0, 80))}. ${guess}`,
  );
  return undefined;
}

function checkGraph(steps: readonly Located[], scope: FieldScope): void {
  const [first] = steps;
  if (first === undefined) return;
  const byName = new Map(steps.map((one) => [one.step.name, one]));
  const targets = ({ step }: Located) =>
    [step.onDone, step.onFail].flatMap((name) => (name === null ? [] : (byName.get(name) ?? [])));
  const reached = reachable([first], targets);
  for (const one of steps) {
    const path = `${scope.path}.step.${one.step.name}`;
    if (!reached.has(one)) error(scope, one.at, `${path} is never reached: no step leads to it`);
    else if (
      one.step.agent === null &&
      reachable(commands(targets(one)), (next) => commands(targets(next))).has(one)
    ) {
      error(scope, one.at, `${path} leads back to itself without an agent that could change anything`);
    }
  }
  if (![...reached].some(({ step }) => step.onDone === null)) {
    error(
      scope,
      first.at,
      `${scope.path} can never be done: no reachable step has on_done = "${DONE}" or is the last one`,
    );
  }
}

function commands(steps: readonly Located[]): readonly Located[] {
  return steps.filter(({ step }) => step.agent === null);
}

function reachable(
  from: readonly Located[],
  targets: (step: Located) => readonly Located[],
): ReadonlySet<Located> {
  const seen = new Set<Located>();
  const open = [...from];
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    if (seen.has(step)) continue;
    seen.add(step);
    open.push(...targets(step));
  }
  return seen;
}
