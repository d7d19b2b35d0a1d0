/** A person asks for an agent while the supervisor brings it back by its runbook. */
import { expect, test } from "vitest";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import type { Deps } from "../run/run.ts";
import { resumeAgent, type AgentResumeOptions } from "./agent-resume.ts";
import type { AgentSnapshot } from "./snapshot.ts";
import type { WatchedAgents } from "./watched-agents.ts";

const run = runLike(1, { status: "completed", attempts: 2 });
const agent = { id: run.handle, runId: run.runId, phase: "active", definition: { mode: "headless" } };
const attempts = [1, 2].map((n) =>
  attemptLike(run, n, { kind: n === 1 ? "start" : "resume", state: "ended" }),
);
const decided = { kind: "decided", newAttempt: 2, action: "resume", trigger: "dead", key: "k" };
const snapshot = {
  agent,
  run,
  attempts,
  attempt: 2,
  latest: 2,
  history: [decided],
  seen: { is: "ended", outcome: { result: "completed" } },
  decision: { why: "", do: "wait" },
};
const ASKED: AgentResumeOptions = { kill: false, ended: true, wasActive: true, strict: false, seen: 1 };

const asked = () => {
  throw new Error("the context is asked");
};
const HAND = new Proxy({}, { get: asked });

async function ask(options: Partial<AgentResumeOptions>) {
  const deps = {
    store: { getDocument: async () => ({ id: agent.id, version: 1, open: true, data: agent }) },
  };
  const agents: Pick<WatchedAgents, "ask"> = {
    ask: (_id, act) => act(HAND as never, snapshot as unknown as AgentSnapshot),
  };
  const place = { deps: deps as unknown as Deps, agents, sinceMs: 0, reported: new Set<string>() };
  return resumeAgent(place, agent.id, { ...ASKED, ...options });
}

test("an agent that came back after the person asked, and whose turn is over, gets no second message", async () => {
  expect(await ask({})).toMatchObject({ result: "resumed", already: true, attempt: 2 });
});

test("an agent that was back before the person asked is checked for another turn", async () => {
  await expect(ask({ seen: 2 })).rejects.toThrow("the context is asked");
});
