/** Pipelines while daemons race and are killed at random moments. The agents' journal and the commands' log are the judges. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { AgentBox } from "./agent-box.ts";
import { chances, daemon, ended, markerIn } from "./agent-storms.ts";

const say = (name: string) => `{ name = "${name}", run = ["sh", "-c", "echo ${name} >> log"] }`;

const RUNBOOK = `
[agent.a]
engine = "claude"
mode = "headless"
prompt = "a @@wait:300"

[agent.b]
engine = "claude"
mode = "headless"
prompt = "b @@wait:300"

[pipeline.p]
workspace = "dir"
step = [${say("one")}, { name = "a", agent = "a" }, ${say("two")}, { name = "b", agent = "b" }, ${say("three")}]
`;

interface Shown {
  readonly id: string;
  readonly phase: string;
  readonly workspace: string;
  readonly steps: readonly { name: string; state: string; agents: readonly string[] }[];
}

export async function killDrivers(kills: number, seed: number): Promise<void> {
  await using box = new AgentBox();
  box.runbook(RUNBOOK);
  const ids: string[] = [];
  const chance = chances(seed);
  const begin = async () => {
    const { id } = await box.json<{ id: string }>(["pipeline", "run", "p", "--trust-cwd"]);
    ids.push(id);
  };
  await begin();
  await box.run(["daemon", "stop"]);
  const rivals = [daemon(box), daemon(box)];
  for (let kill = 0; kill < kills; kill += 1) {
    if (kill % 6 === 5) await begin();
    await sleep(30 + chance() * 1_000);
    const at = chance() < 0.5 ? 0 : 1;
    rivals[at]?.kill("SIGKILL");
    for (const [n, rival] of rivals.entries())
      if (n === at || rival.exitCode !== null || rival.signalCode !== null) rivals[n] = daemon(box);
  }
  for (const rival of rivals) await ended(rival);
  await box.run(["daemon", "start"]);
  const shown = await Promise.all(ids.map((id) => done(box, id)));
  const agents = shown.flatMap(({ steps }) => steps.flatMap((step) => step.agents));
  expect(
    shown.map(({ steps }) => steps.map(({ name, state, agents: own }) => [name, state, own.length])),
  ).toEqual(
    shown.map(() => [
      ["one", "done", 0],
      ["a", "done", 1],
      ["two", "done", 0],
      ["b", "done", 1],
      ["three", "done", 0],
    ]),
  );
  // Each agent was started once, and nobody else was.
  const started = box.events("start").map((entry) => /-([0-9a-f]{8})\/1$/.exec(markerIn(entry))?.[1]);
  expect(started.toSorted()).toEqual(agents.toSorted());
  // A command may have run twice in a row, and never out of its turn.
  for (const { workspace } of shown) {
    const log = readFileSync(join(workspace, "log"), "utf8");
    expect(log).toMatch(/^(one\n)+(two\n)+(three\n)+$/);
  }
}

async function done(box: AgentBox, id: string): Promise<Shown> {
  const end = Date.now() + 60_000;
  for (;;) {
    const { pipeline } = await box.json<{ pipeline: Shown }>(["pipeline", "show", id]);
    if (pipeline.phase !== "active") {
      expect([pipeline.id, pipeline.phase]).toEqual([id, "done"]);
      return pipeline;
    }
    if (Date.now() > end)
      throw new Error(`never done: ${JSON.stringify(pipeline, null, 1)}\n${box.daemonLog()}`);
  }
}
