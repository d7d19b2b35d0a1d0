/** Decisions of supervised agents: an answer acts only on what it was asked about, and what is offered works when it is typed. */
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

interface Decision {
  readonly id: string;
  readonly state: string;
  readonly what: string;
  readonly options: readonly { readonly n: number; readonly does: string; readonly label: string }[];
}

async function decisionOf(box: AgentBox, id: string): Promise<Decision> {
  const { view } = await box.shown(id, "asked", (shown) => shown.view.decision !== null);
  return (await box.json<{ decision: Decision }>(["decisions", "show", view.decision ?? ""])).decision;
}

function choose(box: AgentBox, { id, options }: Decision, does: string) {
  return box.run(["decisions", "resolve", id, String(options.find((option) => option.does === does)?.n)]);
}

test("a decision is overtaken at once when a person goes on with its agent, and no answer to it acts", async () => {
  await using box = new AgentBox();
  box.runbook(
    '[agent.esc]\nrun = "demo"\nmode = "headless"\nprompt = "work @@exit:3"\non_dead = "escalate"\n',
  );
  const id = await box.start("esc");
  const decision = await decisionOf(box, id);
  const listed = await box.run(["decisions"]);
  expect([listed.code, listed.stdout]).toEqual([0, expect.stringContaining(decision.id)]);
  expect(listed.stdout).toBe((await box.run(["decisions", "list"])).stdout);

  expect((await box.run(["resume", id, "a person goes on"])).code).toBe(0);
  const resolved = await choose(box, decision, "fresh");
  const [shown, status] = [await box.run(["decisions", "show", id]), await box.run(["status"])];
  expect([resolved.code, resolved.stderr]).toEqual([2, expect.stringContaining("overtaken")]);
  expect(shown.stdout).toContain(`${decision.id}  overtaken`);
  expect(shown.stdout).not.toContain("Choose:");
  expect(status.stdout).not.toContain("asks you");
  expect(box.messages()).toEqual(["work @@exit:3", "a person goes on"]);
});
