/** An engine that is killed before it wrote down the first message has lost it, and no later attempt passes over that. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { Sandbox } from "../e2e/sandbox.ts";

const THREAD = "01a1e57a-8af3-75f1-b55f-2da40080ef08";

/** Its first start leaves what Codex 0.166 leaves when it is killed in that moment; later ones work. */
function cutsOff(box: Sandbox): void {
  const rollout = `rollout-2026-11-16T17-49-35-${THREAD}.jsonl`;
  const meta = { type: "session_meta", payload: { id: THREAD, cwd: box.cwd } };
  const lines = [meta, { type: "event_msg", payload: { type: "task_started" } }];
  const actor = readFileSync(join(box.bin, "codex"), "utf8").split("\n")[1] ?? "";
  box.program(
    "codex",
    `d="$HOME/.codex/sessions/2026/11/16"
case " $* " in *" exec "*) if mkdir -p "$d" && mkdir "$d/once" 2>/dev/null; then
echo '{"type":"thread.started","thread_id":"${THREAD}"}'
printf '%s\\n' ${lines.map((line) => `'${JSON.stringify(line)}'`).join(" ")} > "$d/${rollout}"
kill -9 $$; fi;; esac
${actor}`,
  );
}

/** The same of Claude 2.1.325: its transcript begins with what it is about to say. */
function cutsOffClaude(box: Sandbox): void {
  const actor = readFileSync(join(box.bin, "claude"), "utf8").split("\n")[1] ?? "";
  box.program(
    "claude",
    `id=$(printf '%s\\n' "$@" | sed -n 's/^--session-id=//p;/^--session-id$/{n;p}')
d="$HOME/.claude/projects/$(pwd | sed 's/[^a-zA-Z0-9]/-/g')"
if test -n "$id" && mkdir -p "$d" && mkdir "$d/once" 2>/dev/null; then
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
echo '{"type":"queue-operation","operation":"enqueue"}' > "$d/$id.jsonl"
kill -9 $$; fi
${actor}`,
  );
}

test.each([
  ["claude", "Paint the shed green"],
  ["codex", "Paint the shed green"],
  ["opencode", "Paint the shed green @@die:after-session"],
])(
  "%s: a session without the first message is not resumed, and a new conversation is",
  async (engine, prompt) => {
    using box = new Sandbox();
    cutsOff(box);
    cutsOffClaude(box);
    const started = await box.json(["start", engine, prompt]);
    const { handle } = started;
    const anew = `reprise resume ${handle} --force-fresh "…"`;
    expect(started).toMatchObject({ ok: false });
    expect((await box.run(["show", handle])).stdout).toContain(`next       ${anew}`);
    const resumed = await box.run(["resume", handle, "which colour?"]);
    expect(resumed).toMatchObject({ code: 3, stdout: "" });
    expect(resumed.stderr).toContain("it holds no message");
    expect(resumed.stderr).toContain(`\`${anew}\``);
    const fresh = await box.run(["resume", handle, "--force-fresh", "Paint the shed blue"]);
    expect([fresh.code, fresh.stderr]).toEqual([0, expect.not.stringContaining("the same conversation")]);
    const again = await box.run(["resume", handle, "which colour?"]);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining("the same conversation")]);
  },
);

test("the agent of an issue whose first message was lost gets the issue again", async () => {
  using box = new IssueBox();
  cutsOff(box);
  box.issue("s", "Paint the shed green @@write:shed.txt");
  box.commit();
  expect(await box.run(["issues", "run", "--engine", "codex", "--trust-cwd"])).toMatchObject({ code: 0 });
  expect(box.told()).toEqual([
    { session: expect.not.stringContaining(THREAD), text: expect.stringContaining("Paint the shed green") },
  ]);
  expect(box.statuses()).toEqual({ s: "closed" });
});

test("a supervised agent whose first message was lost starts over with its prompt, and says so", async () => {
  await using box = new AgentBox();
  cutsOff(box);
  box.runbook(
    '[agent.painter]\nengine = "codex"\nmode = "headless"\nprompt = "Paint the shed green"\non_dead = "escalate"\n',
  );
  const id = await box.start("painter");
  await box.shown(id, "asked", ({ view }) => view.decision !== null);
  const resumed = await box.run(["agent", "resume", id]);
  expect([resumed.code, resumed.stdout]).toEqual([0, expect.stringMatching(/^restarted .*new conversation/)]);
  await box.until("the prompt", () => box.messages().length > 0);
  expect(box.messages()).toEqual(["Paint the shed green"]);
});

test("a Codex run without -s whose conversation never began names a command that begins it", async () => {
  using box = new Sandbox();
  const { handle } = await box.json(["start", "codex", "Paint the shed green @@die:after-session"]);
  const command = `reprise resume ${handle} --force-fresh --native -s --native read-only "…"`;
  expect((await box.run(["show", handle])).stdout.replaceAll(/\s+/g, " ")).toContain(`next ${command}`);
  const refused = await box.run(["resume", handle, "go on"]);
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining(`\`${command}\``)]);
  const words = command.split(" ").slice(1, -1);
  expect(await box.json([...words, "Paint the shed blue"])).toMatchObject({ ok: true });
  // What it began with holds from now on.
  expect(await box.json(["resume", handle, "which colour?"])).toMatchObject({ ok: true });
});
