/** A new conversation without an id: the run's session is unknown, and nothing goes on in the earlier one unasked. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { definesParrot, parrotDoes } from "../e2e/parrot.ts";
import { Sandbox } from "../e2e/sandbox.ts";

describe("resume", () => {
  let box: Sandbox;
  beforeEach(() => {
    box = new Sandbox();
    definesParrot(box);
  });
  afterEach(() => box[Symbol.dispose]());

  /** A run whose second conversation has no id that Reprise knows. */
  async function unnamed(message = "second NOID") {
    const { handle, session } = await box.json(["start", "parrot", "first"]);
    const fresh = await box.json(["resume", handle, "--force-fresh", message]);
    return { handle, earlier: session.value, fresh } as Record<"handle" | "earlier", string> & {
      fresh: Record<string, any>;
    };
  }

  test("is refused, and the earlier conversation is offered instead of continued", async () => {
    const { handle, earlier, fresh } = await unnamed();
    expect(fresh).toMatchObject({ ok: true, session: { value: null }, resumable: false });
    const shown = await box.json(["show", handle]);
    expect(shown).toMatchObject({
      session: { value: null },
      resumable: false,
      sessions: [{ value: earlier }],
    });
    const way = `reprise resume ${handle} --session ${earlier} "…"`;
    const { stdout } = await box.run(["show", handle]);
    expect(stdout).toContain("session    unknown: the engine named no id for this conversation");
    expect(stdout).toContain(way);
    const refused = await box.json(["resume", handle, "go on"]);
    expect(refused).toMatchObject({ ok: false, error: { code: "session_lost", facts: { earlier } } });
    expect(refused["error"].message).toContain("the id of its newest conversation is unknown");
    expect(refused["error"].message).toContain(way);
    expect(refused["error"].message).toContain(`reprise resume ${handle} --force-fresh "…"`);
    expect((await box.json(["show", handle]))["attempts"]).toBe(2);
    const back = await box.json(["resume", handle, "--session", earlier, "go on"]);
    expect(back).toMatchObject({
      ok: true,
      session: { value: earlier },
      receipt: { verified: "engine_reported" },
    });
    expect(await box.json(["resume", handle, "go on"])).toMatchObject({
      ok: true,
      session: { value: earlier },
    });
  });

  test("says so in the summary of the attempt", async () => {
    const { handle, session } = await box.json(["start", "parrot", "first"]);
    const { stderr } = await box.run(["resume", handle, "--force-fresh", "second NOID"]);
    expect(stderr).toContain("session  unknown: the engine named no id for this conversation");
    expect(stderr).not.toContain(`session_id ${session.value}`);
  });

  test("is refused after a new conversation that was cut off before it had an id", async () => {
    const { handle } = await unnamed("second NOID NODONE");
    expect((await box.run(["resume", handle, "go on"])).code).toBe(3);
  });

  test("goes back over a new conversation that the engine refused to begin", async () => {
    const { handle, session } = await box.json(["start", "parrot", "first"]);
    box.program("parrot", "cat > /dev/null; echo 'not now' >&2; exit 1");
    await box.run(["resume", handle, "--force-fresh", "second"]);
    definesParrot(box);
    const resumed = await box.json(["resume", handle, "go on"]);
    expect(resumed).toMatchObject({ ok: true, session: { value: session.value } });
  });
});

test("an agent is not resumed in an earlier conversation than its newest one", async () => {
  await using box = new AgentBox();
  definesParrot(box);
  box.runbook(`[agent.p]\nrun = "parrot"\nprompt = "first"\n`);
  const id = await box.start("p");
  await box.shown(id, "done with its turn", ({ attempts }) => attempts[0]?.outcome?.result === "completed");
  await box.run(["resume", id, "--force-fresh", "second NOID"]);
  const { code, stdout } = await box.run(["agent", "resume", id]);
  expect([code, stdout]).toEqual([
    1,
    expect.stringContaining("the id of its newest conversation is unknown"),
  ]);
  expect(stdout).toMatch(new RegExp(`reprise resume ${id} --session s-\\d+ "…"`));
  expect((await box.show(id)).attempts).toHaveLength(2);
});

test("a batch leaves an issue whose newest conversation has no id", async () => {
  using box = new IssueBox();
  definesParrot(box);
  box.issue("one", "NODONE");
  box.commit();
  const run = (...args: string[]) => box.run(["issues", "run", "--engine", "parrot", ...args]);
  await run();
  parrotDoes(box, "NOID");
  await run("--resume", "--fresh");
  parrotDoes(box, "");
  const attempts = box.batches().at(-1)?.issues["one"]?.attempts;
  const { stdout, stderr } = await run("--resume");
  expect(stdout + stderr).toContain("the id of its newest conversation is unknown");
  expect(box.batches().at(-1)?.issues["one"]?.attempts ?? attempts).toBe(attempts);
  expect((await run("--resume", "--strict")).stdout).toContain("Session resumption failed");
});
