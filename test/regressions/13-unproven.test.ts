/** A resume that the engine does not confirm is reported as such: by batches, agents and `agent show`. */
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { definesParrot, parrotDoes } from "../e2e/parrot.ts";

const UNVERIFIED = "the resume is not verified: the engine did not confirm the session";

/** An issue whose first turn was cut off, and whose next one names no session. */
async function begun(): Promise<IssueBox> {
  const box = new IssueBox();
  definesParrot(box);
  box.issue("one", "Do it.");
  box.commit();
  parrotDoes(box, "NODONE");
  await box.run(["issues", "run", "--engine", "parrot"]);
  parrotDoes(box, "NOID WRITE");
  return box;
}

test("a batch closes the issue and says that its resume is not verified", async () => {
  using box = await begun();
  const { code, stdout, stderr } = await box.run(["issues", "run", "--resume"]);
  expect([code, box.statuses()]).toEqual([0, { one: "closed" }]);
  expect(stdout + stderr).toContain(UNVERIFIED);
});

test("a batch's --json says it", async () => {
  using box = await begun();
  const { issues } = await box.json(["issues", "run", "--resume"]);
  expect(JSON.stringify(issues)).toContain(UNVERIFIED);
});

test("with --strict it fails the issue, however often it is asked; without, the issue is closed", async () => {
  using box = await begun();
  for (const words of [
    ["--resume", "--strict"],
    ["--resume", "--strict"],
  ]) {
    const { code, stdout } = await box.run(["issues", "run", ...words]);
    expect([code, box.statuses()]).toEqual([10, { one: "in_progress" }]);
    expect(stdout).toContain(`Session resumption failed: ${UNVERIFIED}`);
  }
  const { stdout, stderr } = await box.run(["issues", "run", "--resume", "--engine", "parrot"]);
  expect([box.statuses(), stdout + stderr]).toEqual([{ one: "closed" }, expect.stringContaining(UNVERIFIED)]);
});

test("an agent's resume is asked for until the engine confirms it, and stays unproven in agent show", async () => {
  await using box = new AgentBox();
  definesParrot(box);
  box.runbook(`[agent.p]\nrun = "parrot"\nprompt = "hello"\n`);
  const id = await box.start("p");
  await box.shown(id, "done", ({ attempts }) => attempts[0]?.outcome?.result === "completed");
  parrotDoes(box, "NOID");
  const { stdout } = await box.run(["agent", "resume", id]);
  expect(stdout).toMatch(
    new RegExp(`^resumed ${id}: attempt 2 asked for conversation s-\\d+, not confirmed yet`),
  );
  await box.shown(id, "done again", ({ attempts }) => attempts[1]?.outcome?.result === "completed");
  const shown = await box.run(["agent", "show", id]);
  expect(shown.stdout).toContain(
    "completed: the turn was completed; not verified: the engine reported no id",
  );
  const { attempts } = await box.agent<{ attempts: { verified: string | null }[] }>(["show", id]);
  expect(attempts.map(({ verified }) => verified)).toEqual([null, "not_verified"]);
});

test("the event of a diverged attempt does not say that the conversation is continued", async () => {
  await using box = new AgentBox();
  definesParrot(box);
  box.runbook(
    `[agent.d]\nrun = "parrot"\nprompt = "NODONE"\non_dead = [{ action = "resume", message = "OTHERID go on", append = true }, "escalate"]\n`,
  );
  const id = await box.start("d");
  const shown = await box.shown(id, "asking", ({ view }) => view.decision !== null);
  expect(shown.attempts[1]?.outcome?.result).toBe("diverged");
  const { stdout } = await box.run(["agent", "show", id]);
  expect(stdout).toContain("the engine is asked to continue the conversation");
  expect(stdout).not.toContain("the conversation is continued");
});
