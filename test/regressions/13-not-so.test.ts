/** Claims that were not so: a fork without a conversation, an issue without a past, a missing engine for nothing. */
import { renameSync } from "node:fs";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { Sandbox } from "../e2e/sandbox.ts";

test("a fork that was answered in another session names it, and the command that leads to it", async () => {
  using box = new Sandbox();
  const { handle } = await box.json(["start", "demo", "one"]);
  const fork = await box.json(["resume", handle, "--fork", "x @@other-session"]);
  const answered = fork["receipt"].reported;
  const { stdout } = await box.run(["show", fork["handle"]]);
  expect(stdout).not.toContain("no conversation ever began");
  expect(stdout.replaceAll(/\s+/g, " ")).toContain(`the engine answered in session ${answered}`);
  expect(stdout).toContain(`reprise adopt demo ${answered}`);
  const refused = await box.run(["resume", fork["handle"], "go on"]);
  expect([refused.code, refused.stderr]).toEqual([
    3,
    expect.stringContaining(`reprise adopt demo ${answered}`),
  ]);
  const adopted = await box.json(["adopt", "demo", answered]);
  expect(adopted["handle"]).not.toBe(fork["handle"]);
  const went = await box.json(["resume", adopted["handle"], "go on"]);
  expect(went).toMatchObject({ ok: true, session: { value: answered } });
});

test("an issue in progress with a branch and no record is not started over without a word about it", async () => {
  using box = new IssueBox();
  box.issue("g", "say something @@die");
  box.commit();
  await box.batch();
  const branch = box.git("branch", "--list", "reprise/*", "--format=%(refname:short)");
  const moved = `${box.cwd}.moved`;
  renameSync(box.cwd, moved);
  const run = (...args: string[]) =>
    box.run(["issues", "run", "--engine", "demo", "--trust-cwd", "--resume", ...args], { cwd: moved });
  const words = `there is a branch ${branch} of this issue; if the repository was moved, move it back`;
  expect((await run("--dry-run")).stdout.replaceAll(/\s+/g, " ")).toContain(words);
  expect((await run("--strict")).stdout.replaceAll(/\s+/g, " ")).toContain(words);
  const { stderr } = await run();
  expect(stderr.replaceAll(/\s+/g, " ")).toContain(`g starts a new conversation: `);
  expect(stderr.replaceAll(/\s+/g, " ")).toContain(words);
});

test("issues run --resume with nothing to do needs no engine", async () => {
  using box = new IssueBox();
  box.issue("done", "nothing", "status: closed\n");
  box.commit();
  const { code, stderr } = await box.run(["issues", "run", "--resume"], { env: { PATH: "/usr/bin:/bin" } });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("not found")]);
});
