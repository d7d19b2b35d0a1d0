/** Fills values into drafts: the result has no templates and absolute paths. Pure. */
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import type {
  AgentDefinition,
  PipelineDefinition,
  Policy,
  PolicyEntry,
  StepDefinition,
} from "../core/runbook.ts";
import { nearest } from "../lib/suggest.ts";
import type { AgentDraft, PipelineDraft, StepDraft, Var } from "./drafts.ts";
import { filled } from "./template.ts";

type Values = ReadonlyMap<string, string>;

/** The largest value: more does not fit into one program argument. */
const MAX_VALUE = 100 * 1024;

/**
 * The given values and defaults for the rest. Missing, unknown or unusable values are faults. `what`: `agent.worker`.
 */
export function valuesFor(
  what: string,
  vars: readonly Var[],
  given: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const names = vars.map(({ name }) => name);
  for (const [name, value] of Object.entries(given)) {
    if (!names.includes(name)) {
      const near = nearest(name, names);
      const known = names.length === 0 ? "It has no variables." : `Its variables: ${names.join(", ")}.`;
      throw new Fault(
        "usage",
        `${what} has no variable ${name}. ${near === null ? known : `Did you mean ${near}?`}`,
      );
    }
    if (value.includes("\0") || value.length > MAX_VALUE) {
      throw new Fault(
        "usage",
        `The value of the variable ${name} is longer than 100 KiB or contains a zero byte.`,
      );
    }
  }
  const missing = vars.filter(({ name, value }) => value === null && !Object.hasOwn(given, name));
  if (missing.length > 0) {
    const flags = missing.map(({ name }) => `--var ${name}=…`).join(" ");
    throw new Fault("usage", `${what} needs ${missing.length === 1 ? "a variable" : "variables"}: ${flags}`, {
      facts: { missing: missing.map(({ name }) => name) },
    });
  }
  return Object.fromEntries(
    vars.map(({ name, value }) => [name, (Object.hasOwn(given, name) ? given[name] : value) ?? ""]),
  );
}

/** `base`: the directory for a relative `cwd` of the runbook. */
export function filledAgent(
  draft: AgentDraft,
  values: Readonly<Record<string, string>>,
  base: string,
): AgentDefinition {
  const known = new Map(Object.entries(values));
  const { definition } = draft;
  const prompt = definition.prompt;
  return {
    ...definition,
    args: definition.args.map((word) => filled(word, known)),
    prompt: prompt === null ? null : filled(prompt, known, draft.promptFile === null ? "value" : "file"),
    cwd: resolve(base, filled(definition.cwd, known)),
    env: definition.env.map(([name, text]) => [name, filled(text, known)] as const),
    policy: filledPolicy(definition.policy, known),
  };
}

export function filledPipeline(
  draft: PipelineDraft,
  values: Readonly<Record<string, string>>,
  base: string,
): PipelineDefinition {
  const cwd = resolve(base, filled(draft.cwd, new Map(Object.entries(values))));
  const { name, workspace, steps } = draft;
  // A step's agent works in its pipeline's directory, so its `cwd` is relative to that.
  return { name, workspace, cwd, steps: steps.map((step) => filledStep(step, values, cwd)) };
}

/** A step's agent gets the pipeline's variables that it declares, and its own defaults for the others. */
function filledStep(step: StepDraft, values: Readonly<Record<string, string>>, cwd: string): StepDefinition {
  const known = new Map(Object.entries(values));
  const { agent } = step;
  const own = agent?.vars.map(({ name, value }) => [name, known.get(name) ?? value ?? ""] as const) ?? [];
  return {
    ...step,
    run: step.run?.map((word) => filled(word, known)) ?? null,
    agent: agent === null ? null : filledAgent(agent, Object.fromEntries(own), cwd),
  };
}

function filledPolicy(policy: Policy, values: Values): Policy {
  const entries = (list: readonly PolicyEntry[]) =>
    list.map((entry) => ({
      ...entry,
      message: entry.message === null ? null : filled(entry.message, values),
      run: entry.run?.map((word) => filled(word, values)) ?? null,
    }));
  const { idle, dead, error, prompt } = policy.on;
  return {
    ...policy,
    on: { idle: entries(idle), dead: entries(dead), error: entries(error), prompt: entries(prompt) },
  };
}
