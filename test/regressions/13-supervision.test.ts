/** Supervised agents and pipelines: offered commands work when typed, and a choice does what its words say. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

const WORKER = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
on_dead = "escalate"
`;

const REFUSED = `
[agent.fixer]
run = "demo --modle x"
mode = "headless"
prompt = "work"

[pipeline.ci]
vars = { branch = { required = true } }
step = [{ name = "fix", agent = "fixer", on_done = "done" }]
`;

interface Decision {
  readonly what: string;
  readonly options: readonly { readonly n: number; readonly does: string; readonly label: string }[];
}

async function decisionOf(
  box: AgentBox,
  id: string,
): Promise<Decision & { id: string; n(does: string): string }> {
  const { view } = await box.shown(id, "asked", (shown) => shown.view.decision !== null);
  const { decision } = await box.json<{ decision: Decision }>(["decisions", "show", view.decision ?? ""]);
  const n = (does: string) => String(decision.options.find((option) => option.does === does)?.n);
  return { ...decision, id: view.decision ?? "", n };
}

/** An agent that got a message and has died; its runbook leaves it to a person. */
async function dead(box: AgentBox): Promise<string> {
  box.runbook(WORKER);
  const id = await box.start("worker");
  process.kill(await box.told(), "SIGKILL");
  await decisionOf(box, id);
  return id;
}

function sessionFiles(box: AgentBox): string[] {
  const names = readdirSync(box.home, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".jsonl")).map((name) => join(box.home, name));
}

function loseConversation(box: AgentBox): void {
  for (const file of sessionFiles(box)) rmSync(file);
  for (const directory of box.runDirectories())
    rmSync(join(directory, "escrow"), { recursive: true, force: true });
}

/** The engine's session lacks something that the run's copy has. */
async function cutConversation(box: AgentBox, id: string): Promise<void> {
  const directory = box.runDirectories().find((path) => path.endsWith(id)) ?? "";
  const record = join(directory, "run.json");
  await box.until("a copy", () => JSON.parse(readFileSync(record, "utf8")).escrow !== null);
  for (const file of sessionFiles(box)) writeFileSync(file, readFileSync(file, "utf8").split("\n")[0] ?? "");
}

test("a pipeline whose agent asks says so everywhere, and a refused agent's pipeline offers a new pipeline and no resume", async () => {
  await using box = new AgentBox();
  box.runbook(REFUSED);
  const started = await box.json<{ id: string }>([
    "pipeline",
    "run",
    "ci",
    "--trust-cwd",
    "--var",
    "branch=a b",
  ]);
  const { id } = started;
  const agent = await box.until("its agent", () => box.runDirectories().at(-1)?.slice(-8));
  const first = await decisionOf(box, agent);
  const again = await box.run(["decisions", "resolve", first.id, first.n("fresh")]);
  expect(again.stdout).not.toContain("new conversation");
  expect(again.stdout).toContain("with the same options");
  await box.shown(agent, "asked again", ({ view }) => ![null, first.id].includes(view.decision));
  const decision = await decisionOf(box, agent);
  const command = "reprise pipeline run ci --var 'branch=a b'";
  expect(decision.what).toContain(command);
  expect(decision.what).not.toContain("reprise agent run");
  const asks = `reprise decisions show ${decision.id}`;
  for (const looked of [["pipeline", "show", id], ["pipeline", "list"], ["status"]])
    expect((await box.run(looked)).stdout).toMatch(new RegExp(`${id}  ci .*asks you: ${asks}`));
  expect(await box.json(["pipeline", "show", id])).toMatchObject({ decision: decision.id });
  expect(await box.json(["pipeline", "list"])).toMatchObject({ pipelines: [{ decision: decision.id }] });

  expect((await box.run(["decisions", "resolve", decision.id, decision.n("fail")])).code).toBe(0);
  await box.until("the end of the pipeline", () => box.daemonLog().includes('"action":"fail"'));
  const shown = await pipelineText(box, id, / {2}failed/);
  expect(shown).not.toContain("pipeline resume");
  expect(shown).toContain(command);
  const resumed = await box.run(["pipeline", "resume", id]);
  expect([resumed.code, resumed.stderr]).toEqual([3, expect.stringContaining(command)]);
  expect(resumed.stderr).not.toContain("reprise agent run");
  box.runbook(REFUSED.replace(" --modle x", ""));
  expect((await box.run(["pipeline", "run", "ci", "--trust-cwd", "--var", "branch=a b"])).code).toBe(0);
});

async function pipelineText(box: AgentBox, id: string, fits: RegExp): Promise<string> {
  const end = Date.now() + 30_000;
  for (;;) {
    const { stdout } = await box.run(["pipeline", "show", id]);
    if (fits.test(stdout)) return stdout;
    if (Date.now() > end) throw new Error(stdout);
  }
}

/** Commands that a text quotes, and the rest of a command that was cut. */
function commandsIn(text: string): readonly string[] {
  return text.match(/`reprise [^`]*`?/g) ?? [];
}

test("a damaged conversation is not offered for continuation, and no command is cut in the middle", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  const before = await decisionOf(box, id);
  await cutConversation(box, id);
  const { stdout } = await box.run(["decisions", "resolve", before.id, before.n("resume")]);
  expect(commandsIn(stdout).length).toBeGreaterThan(1);
  for (const command of commandsIn(stdout)) expect(command).toMatch(/`$/);
  const after = await decisionOf(box, id);
  expect(after.options.map(({ does }) => does)).not.toContain("resume");
  expect(commandsIn(after.what)).toEqual(commandsIn(stdout));
  const listed = (await box.run(["decisions", "list"])).stdout;
  for (const command of commandsIn(listed)) expect(command).toMatch(/`$/);
  expect(listed).toContain(" …");

  const stopped = (await box.run(["agent", "stop", id])).stdout;
  expect(stopped).not.toContain("Resume it");
  expect(stopped).toContain(
    `  First: reprise resume ${id} --restore-copy "…"\n  Then: reprise agent resume ${id}\n`,
  );
  expect((await box.run(["agent", "resume", id])).code).toBe(1);
});

test("a decision offers to continue only an existing conversation, and continuing begins no new one", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  const before = await decisionOf(box, id);
  loseConversation(box);
  const chosen = await box.run(["decisions", "resolve", before.id, before.n("resume")]);
  expect([chosen.code, chosen.stdout]).toEqual([1, expect.stringContaining("It could not be done")]);
  expect((await box.show(id)).attempts).toHaveLength(1);
  const after = await decisionOf(box, id);
  expect(after.options.map(({ does }) => does)).toEqual(["fresh", "done", "fail", "dismiss"]);
  const fresh = await box.run(["decisions", "resolve", after.id, after.n("fresh")]);
  expect([fresh.code, fresh.stdout]).toEqual([0, expect.not.stringContaining("message replaces")]);
  expect(fresh.stdout).toContain("a new conversation begins: it starts over with its prompt");

  const messages = () => box.events("message");
  await box.until("the second turn", () => messages().length === 2);
  process.kill(Number(messages().at(-1)?.["pid"]), "SIGKILL");
  await decisionOf(box, id);
  loseConversation(box);
  const { stdout } = await box.run(["agent", "stop", id]);
  expect(stdout).toMatch(new RegExp(`reprise agent resume ${id} \\(a new conversation begins: `));
});

test.skipIf(!HAS_TMUX)("attach to an agent without a UI says at once how to leave it", async () => {
  await using box = new AgentBox();
  using screen = new Screen(box);
  const { stdout } = await box.run(["start", "demo", "@@wait:600000", "--detach"]);
  const handle = stdout.trim();
  screen.type(`reprise attach ${handle}; echo "ENDED $?"`);
  await screen.shows(`watching ${handle}; Ctrl-C leaves it running`);
  screen.key("C-c");
  await screen.shows(/^ENDED 0$/m);
});
