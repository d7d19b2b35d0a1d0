/** The gate of a supervised agent: a command of the runbook in the agent's folder. */
import type { PolicyEntry } from "../core/runbook.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { plainEnv, runGate } from "../process/process.ts";
import { environmentAt, redactorFor } from "../run/engine-setup.ts";
import type { Deps } from "../run/run.ts";

/** Marks the processes of an agent's gate. */
export function gateMarker({ runId }: AgentRecord): string {
  return `${runId}/gate`;
}

export async function runAgentGate(
  deps: Deps,
  agent: AgentRecord,
  entry: PolicyEntry | undefined,
): Promise<{ readonly result: "ok" | "failed" | "refused"; readonly detail: string }> {
  if (entry?.run == null) return { result: "refused", detail: "the runbook has no command for this gate" };
  const { cwd } = agent.definition;
  const { passed, detail } = await runGate(deps.processes, {
    command: entry.run,
    cwd,
    env: { ...plainEnv(environmentAt(deps, cwd, deps.env)), ...Object.fromEntries(agent.definition.env) },
    timeoutMs: entry.timeoutMs,
    redact: redactorFor(deps.env, agent.definition.env),
    marker: gateMarker(agent),
  });
  return { result: passed ? "ok" : "failed", detail };
}
