/** The value of a secret variable is stored nowhere about supervised agents and pipelines, whichever text held it. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

const SECRET = "plainCanary00112233";
const env = { MY_TOKEN: SECRET };
const TOLD = /\/(?:stdout|stderr|pty-output)\.log$|\/escrow\/|\/state\/demo\//;
let box: AgentBox;

beforeAll(() => {
  box = new AgentBox();
  box.runbook(`
[agent.worker]
engine = "demo"
vars = { task = "x" }
mode = "headless"
prompt = "\${var.task}"
on_idle = { action = "escalate" }
[agent.eager]
engine = "demo"
vars = { task = "x" }
mode = "headless"
prompt = "go on"
on_idle = { action = "nudge", message = "\${var.task}" }
[agent.kept]
engine = "demo"
vars = { task = "x" }
mode = "headless"
prompt = "go on"
env = { NOTE = "\${var.task}" }
on_idle = { action = "escalate" }
[pipeline.p]
vars = { task = "x" }
step = [{ name = "one", run = ["true", "\${var.task}"] }]
`);
});
afterAll(() => box[Symbol.asyncDispose]());

function restingPlaces(): string[] {
  return readdirSync(box.state, { recursive: true, encoding: "utf8" })
    .map((name) => join(box.state, name))
    .filter((path) => !TOLD.test(path) && statSync(path, { throwIfNoEntry: false })?.isFile() === true)
    .filter((path) => readFileSync(path).includes(SECRET))
    .map((path) => relative(box.state, path));
}

test("a prompt, a message, a send, an answer and a pipeline that hold a secret variable's value are refused, and nothing is stored", async () => {
  const task = ["--var", `task=log in with ${SECRET}`, "--trust-cwd"];
  const refused = expect.stringMatching(/^(?!.*plainCanary).*the value of MY_TOKEN/s);
  for (const args of [
    ["agent", "run", "worker", ...task],
    ["agent", "run", "eager", ...task],
    ["pipeline", "run", "p", ...task],
  ])
    expect([args[2], await box.run(args, { env })]).toEqual([
      args[2],
      { code: 2, signal: null, stdout: "", stderr: refused },
    ]);
  const ran = await box.run(["agent", "run", "kept", ...task, "--json"], { env });
  const { id } = JSON.parse(ran.stdout) as { id: string };
  const { view } = await box.shown(id, "asked about", (shown) => shown.view.decision !== null);
  for (const args of [
    ["agent", "send", id, `send ${SECRET}`],
    ["decisions", "resolve", view.decision ?? "", "1", "-m", `retry with ${SECRET}`],
  ])
    expect([args[1], await box.run(args, { env })]).toEqual([
      args[1],
      { code: 2, signal: null, stdout: "", stderr: refused },
    ]);
  expect((await box.run(["agent", "show", id, "--json"], { env })).stdout).not.toContain(SECRET);
  expect(restingPlaces()).toEqual([]);

  // As an earlier Reprise wrote it.
  const file = join(box.runDirectories().find((path) => path.endsWith(id)) ?? "", "agent.json");
  const record = JSON.parse(readFileSync(file, "utf8")) as { definition: { prompt: string } };
  record.definition.prompt = `log in with ${SECRET}`;
  writeFileSync(file, JSON.stringify(record));
  const bundle = await box.json(["export", id, "--output", join(box.root, "bundle.tar.gz")]);
  expect(bundle["files"]).not.toContain("agent.json");
  expect(bundle["leftOut"]).toEqual([
    expect.stringMatching(/^The logs and agent\.json were omitted: .*MY_TOKEN/),
  ]);
}, 60_000);
