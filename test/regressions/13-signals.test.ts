/** An agent that a signal ended is dead, whatever it wrote to stderr before. */
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { definesParrot } from "../e2e/parrot.ts";

test("on_dead acts on a custom engine that was killed after a line on stderr", async () => {
  await using box = new AgentBox();
  definesParrot(box);
  box.runbook(
    `[agent.p]\nrun = "parrot"\nprompt = "DIE"\non_dead = { action = "resume", message = "Go on.", append = true }\non_error = "fail"\n`,
  );
  const id = await box.start("p");
  const { attempts } = await box.shown(
    id,
    "resumed",
    (shown) => shown.attempts.length > 1 || shown.view.phase !== "active",
  );
  expect(attempts[0]?.outcome).toMatchObject({
    result: "interrupted",
    reason: "the agent was killed by SIGKILL",
  });
  expect(attempts[0]?.outcome).not.toHaveProperty("trouble");
  expect(attempts[1]?.kind).toBe("resume");
});

test("a batch resumes it and goes on with the other issues", async () => {
  using box = new IssueBox();
  definesParrot(box);
  box.issue("one", "DIE WRITE", "priority: 1\n");
  box.issue("two", "WRITE", "priority: 2\n");
  box.commit();
  const { code } = await box.run(["issues", "run", "--engine", "parrot"]);
  expect([code, box.statuses()]).toEqual([0, { one: "closed", two: "closed" }]);
  expect(box.batches().at(-1)?.issues["one"]?.attempts).toBe(2);
});
