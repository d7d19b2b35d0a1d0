/** Decisions of supervised agents: an answer acts only on what it was asked about, and what is offered works when it is typed. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
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
  expect(decision.options.at(-1)).toMatchObject({ label: "leave it as it is", does: "dismiss" });

  expect((await box.run(["resume", id, "a person goes on"])).code).toBe(0);
  const resolved = await choose(box, decision, "fresh");
  const [shown, status] = [await box.run(["decisions", "show", id]), await box.run(["status"])];
  expect([resolved.code, resolved.stderr]).toEqual([2, expect.stringContaining("overtaken")]);
  expect(shown.stdout).toContain(`${decision.id}  overtaken`);
  expect(shown.stdout).not.toContain("Choose:");
  expect(status.stdout).not.toContain("asks you");
  expect(box.messages()).toEqual(["work @@exit:3", "a person goes on"]);
});

test("a decision about a damaged conversation names the damage and the command that restores it, whatever was tried before", async () => {
  await using box = new AgentBox();
  box.runbook(
    '[agent.esc]\nengine = "claude"\nmode = "headless"\nprompt = "work @@wait:600000"\non_dead = "escalate"\n',
  );
  const id = await box.start("esc");
  const pid = await box.told();
  await box.run(["daemon", "stop"]);
  process.kill(pid, "SIGKILL");
  await box.shown(id, "dead", ({ view }) => view.state === "dead");
  const [session = ""] = readdirSync(box.home, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(box.home, name));
  const record = join(box.runDirectories()[0] ?? "", "run.json");
  await box.until("a copy", () => JSON.parse(readFileSync(record, "utf8")).escrow !== null);
  writeFileSync(session, readFileSync(session, "utf8").split("\n")[0] ?? "");
  await box.run(["daemon", "start"]);
  const { what, options } = await decisionOf(box, id);
  expect(options.map(({ does }) => does)).toEqual(["fresh", "done", "fail", "dismiss"]);
  expect(what).toContain("lacks a part that the run's copy has");
  expect(what).toContain(`\`reprise resume ${id} --restore-copy "…"\``);
});

test("Reprise offers no new conversation that cannot keep its options, and every command says why and what helps", async () => {
  await using box = new AgentBox();
  box.runbook(`
[agent.painter]
run = "codex exec --skip-git-repo-check"
mode = "headless"
prompt = "Paint the shed @@die:after-session"
on_dead = "escalate"

[pipeline.shed]
step = [{ name = "paint", agent = "painter", on_done = "done" }]
`);
  const pipeline = await box.json<{ id: string }>(["pipeline", "run", "shed", "--trust-cwd"]);
  const id = await box.until("its agent", () => box.runDirectories().at(-1)?.slice(-8));
  const decision = await decisionOf(box, id);
  expect(decision.options.map(({ does }) => does)).toEqual(["done", "fail", "dismiss"]);
  const texts = [decision.what];
  for (const command of [
    ["agent", "resume", id],
    ["agent", "stop", id],
    ["pipeline", "resume", pipeline.id],
    ["pipeline", "show", pipeline.id],
  ]) {
    const { stdout, stderr } = await box.run(command);
    texts.push(stdout + stderr);
  }
  for (const text of texts) expect(text).toContain("--native -s --native read-only");
  expect(texts[2]).toContain(`has stopped, and pipeline ${pipeline.id} fails with it.`);
  expect(texts[2]).toContain(`reprise pipeline resume ${pipeline.id}`);
  for (const text of texts) expect(text).not.toMatch(/\.\.(?!\.)/);
});
