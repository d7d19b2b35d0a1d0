/**
 * Refuses texts with secrets in agents and pipelines. Reprise stores these texts and sends them later: stored with the
 * secret they would leak it, and without it they would be different texts.
 */
import { Fault } from "../core/faults.ts";
import type { AgentDefinition, PipelineDefinition } from "../core/runbook.ts";
import type { Redact } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { allEngines, redactorFor, storableArgs } from "../run/engine-setup.ts";

const INSTEAD = "Remove it, and name the variable or file that has it.";

/** Redacts the same secrets as a start of this agent. */
export function redactorOf(deps: Deps, { engine, env }: Pick<AgentDefinition, "engine" | "env">): Redact {
  return redactorFor({ ...deps.env, ...deps.config.engines[engine]?.env }, env);
}

export function refuseSecretAgent(deps: Deps, agent: AgentDefinition): void {
  const found = secretOf(agent, redactorOf(deps, agent));
  if (found === null) return;
  throw new Fault(
    "usage",
    `${found.where} of agent ${agent.name} contains ${found.what}, and Reprise stores the texts and commands of an agent. ${INSTEAD}`,
    { facts: { agent: agent.name } },
  );
}

export function refuseSecretMessage(deps: Deps, agent: AgentDefinition, message: string): void {
  const what = secretIn(message, redactorOf(deps, agent));
  if (what === null) return;
  throw new Fault(
    "message_invalid",
    `The message contains ${what}, and Reprise stores a message before it sends it. ${INSTEAD} Or type it yourself: reprise agent attach`,
  );
}

export function refuseSecretPipeline(
  deps: Deps,
  { steps }: PipelineDefinition,
  vars: Readonly<Record<string, string>>,
): void {
  const redact = redactorFor(deps.env, []);
  for (const [name, value] of Object.entries(vars)) {
    const what = secretIn(value, redact);
    if (what === null) continue;
    throw new Fault(
      "usage",
      `The variable ${name} contains ${what}, and Reprise stores the variables of a pipeline. Pass secrets through the environment.`,
      { facts: { variable: name } },
    );
  }
  for (const { name, run, agent } of steps) {
    const what =
      secretIn((run ?? []).join(" "), redact) ?? (agent === null ? null : secretInStep(deps, agent));
    if (what === null) continue;
    throw new Fault(
      "usage",
      `Step ${name} contains ${what}, and Reprise stores the texts and commands of a pipeline. Pass secrets through the environment.`,
      { facts: { step: name } },
    );
  }
}

/** A step starts its agent from the stored record, so its options must be complete there. */
function secretInStep(deps: Deps, agent: AgentDefinition): string | null {
  const redact = redactorOf(deps, agent);
  const found = secretOf(agent, redact)?.what ?? null;
  return found ?? (argsOf(deps, agent).redacted.length === 0 ? null : SOME);
}

/** The native options in the form that may be stored. */
export function argsOf(deps: Deps, agent: AgentDefinition): ReturnType<typeof storableArgs> {
  const engine = allEngines(deps).find(({ id }) => id === agent.engine);
  return storableArgs(agent.args, redactorOf(deps, agent), engine);
}

interface FoundSecret {
  readonly where: string;
  readonly what: string;
}

function secretOf({ prompt, policy }: AgentDefinition, redact: Redact): FoundSecret | null {
  const entries = Object.values(policy.on).flat();
  const texts: (readonly [where: string, text: string])[] = [
    ["The prompt", prompt ?? ""],
    ...entries.map(({ message }) => ["A message", message ?? ""] as const),
    ...entries.map(({ run }) => ["A gate", (run ?? []).join(" ")] as const),
  ];
  for (const [where, text] of texts) {
    const what = secretIn(text, redact);
    if (what !== null) return { where, what };
  }
  return null;
}

/** The stored options lack a secret, so only the process that received them can start the agent. */
export function lacksOptions({ args }: AgentDefinition): boolean {
  return args.some((arg) => /\[redacted(?::\w{1,64})?\]/.test(arg));
}

const SOME = "text that looks like a secret";

/** Names the secret: a known value by its variable. Null: none. */
function secretIn(text: string, redact: Redact): string | null {
  const hidden = redact(text);
  if (hidden === text) return null;
  const name = /\[redacted:(\w{1,64})\]/.exec(hidden)?.[1];
  return name === undefined || text.includes(`[redacted:${name}]`) ? SOME : `the value of ${name}`;
}
