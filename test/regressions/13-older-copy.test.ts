/** A copy of the session that lacks later attempts: every resume that puts it back says what is lost. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { writeConfig } from "../e2e/parrot.ts";
import { Sandbox } from "../e2e/sandbox.ts";

const LOSS = "the copy is older than attempt 2 and lacks later messages";

/** Attempt 2 has no copy, and then the engine loses the session. */
async function lose(box: Sandbox, handle: string): Promise<void> {
  writeConfig(box, 'escrow = "off"\n');
  await box.run(["resume", handle, "turn two: BANANA"]);
  writeConfig(box, "");
  const sessions = join(box.state, "demo", "sessions");
  for (const name of readdirSync(sessions)) rmSync(join(sessions, name));
}

test("resume --json, the receipt and show name the loss", async () => {
  using box = new Sandbox();
  const { handle } = await box.json(["start", "demo", "turn one"]);
  await lose(box, handle);
  const planned = await box.json(["resume", handle, "--dry-run", "go on"]);
  expect(planned["notes"]).toContain(LOSS);
  const resumed = await box.json(["resume", handle, "go on"]);
  expect(resumed["diagnostics"]).toContain(LOSS);
  expect(resumed["receipt"]).toMatchObject({ restoredFromEscrow: true, lacks: [LOSS] });
  const { stdout } = await box.run(["show", handle]);
  expect(stdout).toMatch(
    /Reprise restored the run's copy of it first \(copy [0-9a-f]{8}, made \S+\); the copy is older than attempt 2/,
  );
});

test("agent resume, its --json, agent show and the agent's events name the loss", async () => {
  await using box = new AgentBox();
  box.runbook(`[agent.w]\nrun = "demo"\nprompt = "turn one"\n`);
  const id = await box.start("w");
  await box.shown(id, "done with its turn", ({ attempts }) => attempts[0]?.outcome?.result === "completed");
  await lose(box, id);
  const { stdout } = await box.run(["agent", "resume", id]);
  expect(stdout).toContain(`resumed ${id}: `);
  expect(stdout).toContain(`Reprise restored the run's copy; ${LOSS}`);
  const shown = await box.shown(
    id,
    "resumed",
    ({ attempts }) => attempts[2]?.outcome?.result === "completed",
  );
  expect(JSON.stringify(shown.history)).toContain(LOSS);
  expect((await box.run(["agent", "show", id])).stdout).toContain(
    `completed: the turn was completed; ${LOSS}`,
  );
});
