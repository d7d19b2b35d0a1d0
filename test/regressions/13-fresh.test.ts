/** What a fresh pair of eyes found: hints that led nowhere, and words that said more than had happened. */
import { describe, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

const ASKING = `
[agent.ui]
engine = "claude"
mode = "interactive"
prompt = "hello @@ask:pwd"
on_idle = "escalate"
`;

const WORKING = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
`;

describe("what is offered for a live agent works", () => {
  test("--kill is not offered for an agent that asks for permission, alone and with --all", async () => {
    await using box = new AgentBox();
    box.runbook(ASKING);
    const id = await box.start("ui");
    await box.shown(id, "asking", ({ view }) => view.state === "waiting");
    for (const which of [id, "--all"]) {
      const { stdout } = await box.run(["agent", "resume", which]);
      expect(stdout).toContain("asks for permission; attach to it and answer, or stop it first");
      expect(stdout).not.toContain("--kill");
    }
  });

  test("a working agent is told nothing, and no option is named that `agent send` does not have", async () => {
    await using box = new AgentBox();
    box.runbook(WORKING);
    const id = await box.start("worker");
    await box.told();
    const { code, stderr } = await box.run(["agent", "send", id, "hi"]);
    expect([code, stderr]).toEqual([
      4,
      expect.stringContaining("it can be told something when its turn is over"),
    ]);
    expect(stderr).not.toContain("--kill");
    expect((await box.run(["agent", "resume", id])).stdout).toContain("; --kill would end it and resume it");
  });
});
