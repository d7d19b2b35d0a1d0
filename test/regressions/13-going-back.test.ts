/** A resume speaks into the run's newest conversation or into none: it goes back only over one in which nothing was ever said. */
import { cpSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

/** The file in which Claude has this session goes. */
function lose(session: string): void {
  const home = join(box.home, ".claude/projects");
  for (const name of readdirSync(home, { recursive: true, encoding: "utf8" }))
    if (name.endsWith(`${session}.jsonl`)) rmSync(join(home, name));
}

const told = () => box.journalEntries().filter(({ event }) => event === "message").length;

/** A run with an earlier conversation and a newest one. */
async function twice(...options: string[]) {
  const { handle, runDirectory, session } = await box.json(["start", "claude", "topic A", ...options]);
  const newest = await box.json(["resume", handle, "--force-fresh", "topic B"]);
  return { handle, runDirectory, earlier: session.value, newest: newest["session"].value } as Record<
    "handle" | "runDirectory" | "earlier" | "newest",
    string
  >;
}

test("a missing newest conversation is lost, and the earlier one is named instead of continued", async () => {
  const { handle, earlier, newest } = await twice("--no-escrow");
  lose(newest);
  const before = told();
  const way = `reprise resume ${handle} --session ${earlier} "…"`;
  const shown = await box.json(["show", handle]);
  expect(shown).toMatchObject({ resumable: false });
  expect((await box.run(["show", handle])).stdout).toContain(way);
  const refusals = [
    ["go on"],
    ["--quiet", "go on"],
    ["--dry-run"],
    ["--fork", "go on"],
    ["--fork", "--dry-run"],
  ];
  for (const words of refusals) {
    const { code, stderr } = await box.run(["resume", handle, ...words]);
    expect([code, words]).toEqual([3, words]);
    expect(stderr).toContain(`does not have session ${newest}`);
    const fork = words.includes("--fork") ? "--fork " : "";
    expect(stderr).toContain(`reprise resume ${handle} ${fork}--session ${earlier} "…"`);
  }
  const refused = await box.json(["resume", handle, "go on"]);
  expect(refused).toMatchObject({ ok: false, error: { code: "session_lost", facts: { earlier } } });
  expect(told()).toBe(before);
  const asked = await box.json(["resume", handle, "--session", earlier, "what do you remember?"]);
  expect(asked).toMatchObject({ ok: true, session: { value: earlier } });
  expect(asked["text"]).toContain("topic A");
});

test("a newest conversation that is gone with its copy is also lost", async () => {
  const { handle, runDirectory, earlier, newest } = await twice();
  lose(newest);
  const { escrow } = await box.json(["show", handle]);
  rmSync(join(runDirectory, "escrow", escrow.files[0].file));
  const { code, stderr } = await box.run(["resume", handle, "go on"]);
  expect(code).toBe(3);
  expect(stderr).toContain(`--session ${earlier} "…"`);
  expect(await box.json(["show", handle])).toMatchObject({ resumable: false });
  const shown = await box.run(["show", handle]);
  expect(shown.stderr).toContain("cannot be used: the copy is missing; the session file was not changed.");
  const way = `reprise resume ${handle} --session ${earlier} "…"`;
  expect([shown.stdout, (await box.run(["doctor"])).stdout]).toEqual([
    expect.stringContaining(way),
    expect.stringContaining(way),
  ]);
});

test("a resume goes back over a conversation that never began, and says so", async () => {
  const { handle, session } = await box.json(["start", "claude", "topic A"]);
  const failed = await box.json(["resume", handle, "--force-fresh", "topic B @@die:before-session"]);
  expect(failed).toMatchObject({ ok: false });
  expect(failed["session"].value).not.toBe(session.value);
  const resumed = await box.json(["resume", handle, "what do you remember?"]);
  expect(resumed).toMatchObject({ ok: true, session: { value: session.value } });
  expect(resumed["text"]).toContain("topic A");
  expect(resumed["diagnostics"]).toEqual([
    `session ${failed["session"].value} never began; going back to ${session.value}`,
  ]);
});

test("show and a refused resume name the same command for a fork whose conversation is gone", async () => {
  const { handle } = await box.json(["start", "codex", "base"]);
  const { handle: fork } = await box.json(["resume", handle, "--fork", "more @@die:after-session"]);
  const again = `reprise resume ${handle} --fork "…"`;
  expect((await box.run(["show", fork])).stdout).toMatch(new RegExp(`^next +${again} `, "m"));
  const { code, stderr } = await box.run(["resume", fork, "go on"]);
  expect(code).toBe(3);
  expect(stderr).toContain(`\`${again}\` repeats the fork`);
});

test("a supervised agent whose newest conversation is gone is not resumed in an earlier one", async () => {
  await using agents = new AgentBox();
  agents.runbook(
    `[agent.worker]\nengine = "claude"\nmode = "headless"\nprompt = "work @@wait:600000"\non_dead = "escalate"\n`,
  );
  const home = join(agents.home, ".claude/projects");
  const files = () =>
    readdirSync(home, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
  const id = await agents.start("worker");
  process.kill(await agents.told(), "SIGKILL");
  await agents.shown(id, "asked", ({ view }) => view.decision !== null);
  const [run = ""] = agents.runDirectories();
  const away = join(agents.root, "away");
  renameSync(home, away);
  rmSync(join(run, "escrow"), { recursive: true });
  expect(await agents.run(["agent", "resume", id])).toMatchObject({ code: 0 });
  const pid = await agents.until("the new conversation", () => {
    const [, second] = agents.events("message");
    return (
      second !== undefined && agents.storedTurns(`${String(second["session"])}.jsonl`) > 0 && second["pid"]
    );
  });
  process.kill(Number(pid), "SIGKILL");
  await agents.shown(id, "asked", ({ view, attempts }) => attempts.length === 2 && view.decision !== null);
  for (const name of files()) rmSync(join(home, name));
  rmSync(join(run, "escrow"), { recursive: true });
  cpSync(away, home, { recursive: true });
  expect(files()).toHaveLength(1);
  const strict = await agents.run(["agent", "resume", id, "--strict"]);
  expect(strict).toMatchObject({ code: 1, stdout: expect.stringContaining("does not have session") });
  const { attempts } = await agents.show(id);
  expect(attempts).toHaveLength(2);
});
