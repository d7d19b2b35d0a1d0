/** Agents with a UI: what Reprise types into them, when, and when it types nothing. */
import { expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";

const ui = (prompt: string, rest: string) => `
[agent.ui]
run = "claude"
prompt = "${prompt}"
idle_after = "1s"
${rest}
`;

test("an idle agent is nudged once, and then it is done", async () => {
  await using box = new AgentBox();
  box.runbook(
    ui(
      "hello",
      'on_idle = [{ action = "nudge", message = "go on; #(id) -n", attempts = 1 }, { action = "done" }]',
    ),
  );
  const id = await box.start("ui");
  const shown = await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect(box.messages()).toEqual(["hello", "go on; #(id) -n"]);
  expect(shown.attempts).toHaveLength(1);
  expect(box.events("start")).toHaveLength(1);
});

test("a killed UI continues in its conversation, with the message, once", async () => {
  await using box = new AgentBox();
  box.runbook(
    ui(
      "hello @@wait:600000",
      'on_dead = { action = "resume", message = "go on", append = true }\non_idle = "done"',
    ),
  );
  const id = await box.start("ui");
  process.kill(await box.told(), "SIGKILL");
  await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect(box.messages()).toEqual(["hello @@wait:600000", "go on"]);
  const [first, second, ...more] = box.events("session");
  expect([first?.["session"], second?.["how"], more]).toEqual([second?.["session"], "resume", []]);
});

test("a rate limited UI stays alive, and gets a message to continue after the cooldown", async () => {
  await using box = new AgentBox();
  box.runbook(
    ui(
      "hello @@429",
      `on_error = [
  { match = "auth", action = "fail" },
  { match = "rate_limited", action = "resume", message = "try again", append = true, cooldown = "2s" },
]
on_idle = "done"`,
    ),
  );
  const id = await box.start("ui");
  const before = await box.shown(
    id,
    "waiting for the cooldown",
    ({ view }) => view.next?.action === "resume",
  );
  expect([before.view.state, before.attempts.length]).toEqual(["error", 1]);
  const shown = await box.shown(id, "done", ({ view }) => view.phase === "done");
  const [limited, again, ...more] = box.events("message");
  expect([limited?.["text"], again?.["text"], more]).toEqual(["hello @@429", "try again", []]);
  expect(Date.parse(String(again?.["at"])) - Date.parse(String(limited?.["at"]))).toBeGreaterThanOrEqual(
    2_000,
  );
  expect(shown.attempts).toHaveLength(1);
});

test("Reprise never types into a question of the engine, whatever the command", async () => {
  await using box = new AgentBox();
  box.runbook(ui("hello @@ask:pwd", 'on_idle = { action = "nudge", message = "1", attempts = 3 }'));
  const id = await box.start("ui");
  await box.until("the question", () => box.events("asked").length > 0);
  const asked = await box.shown(id, "asked", ({ view }) => view.decision !== null);
  expect(asked.view.state).toBe("waiting");
  const sent = await box.run(["agent", "send", id, "1"]);
  expect([sent.code, sent.stderr]).toEqual([4, expect.stringContaining("permission")]);
  expect(await box.agent(["resume", id, "--kill"])).toMatchObject({
    ok: false,
    resumed: [],
    skipped: [{ id, reason: expect.stringContaining("asks for permission") as string }],
  });
  const after = await box.show(id);
  expect([after.view.state, after.attempts.length]).toEqual(["waiting", 1]);
  expect([...box.events("approved"), ...box.events("declined"), ...box.messages().slice(1)]).toEqual([]);
});

test("a person's message is typed, and the screen can be shown", async () => {
  await using box = new AgentBox();
  box.runbook(ui("hello", 'on_idle = { action = "escalate", cooldown = "1h" }'));
  const id = await box.start("ui");
  await box.shown(id, "idle", ({ view }) => view.state === "idle");
  const sent = await box.run(["agent", "send", id, "one\ntwo"]);
  expect([sent.code, sent.stdout]).toEqual([0, expect.stringContaining("Message sent to agent")]);
  expect(box.messages()).toEqual(["hello", "one\ntwo"]);
  expect((await box.run(["agent", "peek", id])).stdout).toContain("claude>");
});

test("a closed UI is dead, not idle, and its on_dead answers", async () => {
  await using box = new AgentBox();
  box.runbook(ui("hello", 'on_idle = { action = "escalate", cooldown = "1h" }\non_dead = "escalate"'));
  const id = await box.start("ui");
  await box.shown(id, "idle", ({ view }) => view.state === "idle");
  const [holder] = (await box.show(id)).attempts;
  process.kill(holder?.agent?.pid ?? 0, "SIGINT");
  const { view } = await box.shown(id, "asking", (shown) => shown.view.decision !== null);
  expect(view.state).toBe("dead");
});

interface Waited {
  readonly for: string;
  readonly runs: readonly {
    readonly handle: string;
    readonly status: string;
    readonly met: boolean;
    readonly decision: string | null;
    readonly exitCode: number;
  }[];
}

test("wait --for idle returns once the agent stands at its prompt", async () => {
  await using box = new AgentBox();
  box.runbook(ui("hello @@wait:1500", 'on_idle = { action = "escalate", cooldown = "1h" }'));
  const handle = await box.start("ui");
  const waited = await box.json<Waited>(["wait", handle, "--for", "idle", "--timeout", "50s"]);
  expect(waited).toMatchObject({
    for: "idle",
    runs: [{ handle, status: "idle", met: true, decision: null, exitCode: 0 }],
  });
  expect(box.messages()).toEqual(["hello @@wait:1500"]);
});

test("wait --for decision names the question, and fails for a run that ended without one", async () => {
  await using box = new AgentBox();
  box.runbook(ui("hello @@ask:pwd", 'on_idle = "done"'));
  const handle = await box.start("ui");
  const waited = await box.json<Waited>(["wait", handle, "--for", "decision", "--timeout", "50s"]);
  expect(waited).toMatchObject({ for: "decision", runs: [{ handle, met: true, exitCode: 0 }] });
  expect(waited.runs[0]?.decision).toBe((await box.show(handle)).view.decision);
  const ended = await box.json<{ handle: string }>(["start", "demo", "hello"]);
  const none = await box.run(["wait", ended.handle, "--for", "decision", "--json"]);
  expect([none.code, JSON.parse(none.stdout)]).toMatchObject([1, { runs: [{ met: false, decision: null }] }]);
});
