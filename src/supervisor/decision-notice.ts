/** Notifies a person that an agent needs a decision. */
import { ifFault } from "../core/faults.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import { type Notice, notify } from "../notify/notify.ts";
import type { Deps } from "../run/run.ts";
import { agentOf } from "./pipelines.ts";

/** Tells the person, on every configured way, that an agent needs a decision. */
export async function notifyOf(deps: Deps, decision: DecisionRecord): Promise<void> {
  const agent = await nameOf(deps, decision.agentId);
  const { id, agentId, runId, attempt, trigger, what, trouble, tried, lastWords, options, createdAt } =
    decision;
  const why = { what, trouble, ...(tried === undefined ? {} : { tried }) };
  const about = { id, agentId, runId, attempt, trigger, ...why, lastWords, options, createdAt };
  const answer = `reprise decisions resolve ${id}`;
  const notice: Notice = {
    event: "decision",
    text: `${agent} (${agentId}): ${what}`,
    facts: { agent, decision: about, answer },
  };
  await notify(deps, notice, `decision ${id}`);
}

/** The agent's name in the runbook, else its id. */
async function nameOf(deps: Deps, agentId: string): Promise<string> {
  const agent = await agentOf(deps, agentId).catch(ifFault(null));
  return agent?.definition.name ?? agentId;
}
