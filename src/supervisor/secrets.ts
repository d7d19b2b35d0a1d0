/**
 * What is stored about agents and pipelines is what they are told later: by an entry, after a crash, in a new conversation.
 * So a text with a secret in it is refused: stored, it would be a leak, and without the secret another text.
 */
import { Fault } from "../core/faults.ts";
import type { AgentDefinition, PipelineDefinition } from "../core/runbook.ts";
import type { Redact } from "../lib/secrets.ts";
import { type Deps } from "../run/run.ts";
import { allEngines, redactorFor, storableArgs } from "../run/engine-setup.ts";

const INSTEAD = "Remove it, and name the variable or file that has it.";

/** Knows what a start of this agent would hide. */
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

/** A step starts its agent from the record, with the options that stand there. */
function secretInStep(deps: Deps, agent: AgentDefinition): string | null {
  const redact = redactorOf(deps, agent);
  const found = secretOf(agent, redact)?.what ?? null;
  return found ?? (argsOf(deps, agent).redacted.length === 0 ? null : SOME);
}

/** Its native options as they may be stored. */
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

/** Its options are stored without a secret that is in them, so only whoever was given them can start it. */
export function lacksOptions({ args }: AgentDefinition): boolean {
  return args.some((arg) => /\[redacted(?::\w{1,64})?\]/.test(arg));
}

const SOME = "text that looks like a secret";

/** Null: none. A value that is known is told by its variable. */
function secretIn(text: string, redact: Redact): string | null {
  const hidden = redact(text);
  if (hidden === text) return null;
  const name = /\[redacted:(\w{1,64})\]/.exec(hidden)?.[1];
  return name === undefined || text.includes(`[redacted:${name}]`) ? SOME : `the value of ${name}`;
}
