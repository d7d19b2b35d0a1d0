/** What a refusal tells the user to type helps, also where the supervisor's environment is what differs. */
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

test("an agent that the supervisor cannot resume without a variable is resumed after the refusal's advice", async () => {
  await using box = new AgentBox();
  box.runbook(`
[agent.worker]
engine = "demo"
mode = "headless"
prompt = "go on"
on_idle = { action = "escalate" }
`);
  const env = { REPRISE_DEMO_TRUST: "required" };
  await box.run(["daemon", "start"]);
  const ran = await box.run(["agent", "run", "worker", "--trust-cwd", "--json"], { env });
  const { id } = JSON.parse(ran.stdout) as { id: string };
  await box.shown(id, "asked about", (shown) => shown.view.decision !== null);

  const refused = await box.run(["agent", "resume", id], { env });
  expect(refused.code).not.toBe(0);
  const said = `${refused.stdout}${refused.stderr}`;
  const typed = [...said.matchAll(/`reprise ([^`]+)`/g)].map(([, command = ""]) => command.split(" "));
  expect(said).toContain("set REPRISE_DEMO_TRUST as it was");
  expect(typed).toEqual([
    ["daemon", "stop"],
    ["daemon", "start"],
    ["agent", "resume", id],
  ]);

  for (const command of typed)
    expect([command, await box.run(command, { env })]).toEqual([
      command,
      expect.objectContaining({ code: 0 }),
    ]);
  expect(await box.shown(id, "resumed", (shown) => shown.attempts.length === 2)).toMatchObject({
    attempts: [{ kind: "start" }, { kind: "resume" }],
  });
}, 60_000);
