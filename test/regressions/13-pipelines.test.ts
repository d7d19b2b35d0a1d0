/** Pipelines: what is shown of one is what happens, and each command says what it does to a pipeline. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

async function run(box: AgentBox, name: string): Promise<string> {
  return (await box.json<{ id: string }>(["pipeline", "run", name, "--trust-cwd"])).id;
}

test("a pipeline and an agent without a supervisor are not shown as if they went on", async () => {
  await using box = new AgentBox();
  box.runbook(`
[agent.worker]
run = "demo"
mode = "headless"
prompt = "work @@wait:600000"

[pipeline.p]
step = [{ name = "one", run = ["sh", "-c", "touch begun; sleep 600"] }]
`);
  const agent = await box.start("worker");
  const id = await run(box, "p");
  await box.until("its command", () => existsSync(join(box.cwd, "begun")));
  const stopped = await box.run(["daemon", "stop"]);
  expect(stopped.stdout).toContain(`Pipeline ${id} (p) waits at step one until the daemon runs`);
  expect(stopped.stdout).toContain("Its command has ended");
  const halted = "does not continue: the daemon is not running";
  for (const command of [
    ["pipeline", "show", id],
    ["pipeline", "list"],
    ["agent", "show", agent],
  ]) {
    const { stdout, stderr } = await box.run(command);
    expect(stderr).toContain("the daemon is not running. Start it: reprise daemon start");
    if (command[0] === "pipeline") expect(stdout).toContain(halted);
  }
  const shown = (await box.run(["pipeline", "show", id])).stdout;
  expect(shown).toMatch(/^interrupted {2}one {2}/m);
  expect(await box.json(["pipeline", "list"])).toMatchObject({ pipelines: [{ reason: halted }] });
});

test("a pipeline whose agent was stopped or removed says so, and how it goes on", async () => {
  await using box = new AgentBox();
  box.runbook(`
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"

[pipeline.p]
step = [{ name = "one", agent = "worker", on_done = "done" }]
`);
  const id = await run(box, "p");
  const agent = await box.until("its agent", () => box.runDirectories().at(-1)?.slice(-8));
  await box.told();
  await box.run(["daemon", "stop"]);
  const stopped = await box.run(["agent", "stop", agent]);
  expect(stopped.stdout).toContain(
    `has stopped, and pipeline ${id} fails with it. Resume both: reprise pipeline resume ${id}`,
  );
  expect((await box.run(["agent", "rm", agent])).code).toBe(0);
  const again = await box.run(["pipeline", "resume", id]);
  expect(again.stdout).toContain(`Agent ${agent} was removed, so the step starts again with a new agent`);

  await box.until("the second prompt", () => box.messages().length === 2);
  const next = await box.until("the new agent", () => box.runDirectories().at(-1)?.slice(-8));
  await box.run(["agent", "stop", next]);
  const failed = await shownAs(box, id, /failed: agent \w+ was stopped/);
  expect(failed).toContain(`Continue: reprise pipeline resume ${id}`);
  const resumed = await box.run(["agent", "resume", next]);
  expect(resumed.stdout).toContain(`does not continue with it: reprise pipeline resume ${id}`);
});

async function shownAs(box: AgentBox, id: string, what: RegExp): Promise<string> {
  const end = Date.now() + 30_000;
  for (;;) {
    const { stdout } = await box.run(["pipeline", "show", id]);
    if (what.test(stdout)) return stdout;
    if (Date.now() > end) throw new Error(`never ${String(what)}: ${stdout}`);
  }
}
