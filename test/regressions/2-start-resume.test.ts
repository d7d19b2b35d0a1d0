/** Mistakes that start and resume once made, each as the user met it. */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, collect, Sandbox, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const sessionFile = (id: string) => join(box.state, "demo", "sessions", `${id}.jsonl`);

describe("a session that lost a part of itself", () => {
  async function talkAndTear() {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    await box.json(["resume", handle, "and 4712"]);
    const file = sessionFile(session.value);
    const whole = readFileSync(file);
    truncateSync(file, whole.indexOf("\n") + 1);
    return { handle, file, whole, session: session.value as string };
  }

  test("is noticed before anything is sent, and the longer copy stays", async () => {
    const { handle, file, whole } = await talkAndTear();
    const before = box.journalEntries().length;
    const refused = await box.json(["resume", handle, "what do you remember?"]);
    expect(refused).toMatchObject({ ok: false, error: { code: "session_damaged" } });
    expect(refused["error"].message).toContain("--restore-copy");
    expect(box.journalEntries()).toHaveLength(before);
    const restored = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
    expect(restored["text"]).toContain("4711");
    expect(restored["receipt"]).toMatchObject({ restoredFromEscrow: true });
    expect(readFileSync(file).subarray(0, whole.length)).toEqual(whole);
    expect(readdirSync(join(file, "..")).some((name) => name.includes(".set-aside-"))).toBe(true);
  });

  test("can be continued when the user says so, and the longer copy is still kept", async () => {
    const { handle, whole } = await talkAndTear();
    expect(await box.run(["resume", handle, "--ignore-copy", "go on"])).toMatchObject({ code: 0 });
    const { runDirectory } = await box.json(["show", handle]);
    const copies = readdirSync(join(runDirectory, "escrow")).map((name) =>
      readFileSync(join(runDirectory, "escrow", name)),
    );
    expect(copies.some((copy) => copy.equals(whole))).toBe(true);
  });

  test("that cannot be read at all is put back from the copy on request", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    writeFileSync(sessionFile(session.value), "garbage\n");
    const refused = await box.json(["resume", handle, "go on"]);
    expect(refused["error"]).toMatchObject({
      code: "session_damaged",
      message: expect.stringContaining("--restore-copy"),
    });
    expect((await box.json(["resume", handle, "--restore-copy", "what?"]))["text"]).toContain("4711");
  });
});

test("a diverged conversation never becomes the run's, even when the right one is lost", async () => {
  const { handle, session } = await box.json(["start", "--no-escrow", "demo", "remember 4711"]);
  await box.json(["resume", handle, "go on @@other-session"]);
  rmSync(sessionFile(session.value));
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({
    ok: false,
    error: { code: "session_lost" },
  });
});

test("--run-dir starts with the rights of the run, and never with more", async () => {
  const { handle } = await box.json(["start", "demo", "one", "--", "--access", "read", "--model", "m1"]);
  const fresh = await box.json(["start", "--run-dir", handle, "demo", "two"]);
  expect(fresh).toMatchObject({ ok: true, kind: "fresh", attempt: 2 });
  expect(fresh["text"]).toMatch(/model=m1 .*access=read/);
  const wider = await box.json(["start", "--run-dir", handle, "demo", "three", "--", "--access", "all"]);
  expect(wider).toMatchObject({ ok: false, error: { code: "would_widen" } });
  expect((await box.json(["resume", handle, "four"]))["text"]).toMatch(/"two".*access=read/);
});

test("a resume sees the variables that affect rights as the start did", async () => {
  const { handle } = await box.json(["start", "gemini", "hello"]);
  const widened = await box.json(["resume", "--env", "GEMINI_CLI_TRUST_WORKSPACE=true", handle, "go on"]);
  expect(widened).toMatchObject({ ok: false, error: { code: "would_widen" } });
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
});

test("a working directory that looks like a secret is stored unchanged", async () => {
  const cwd = join(box.root, "sk-learn-experiments-2024-11");
  mkdirSync(cwd);
  const { handle, runDirectory } = await box.json(["start", "demo", "remember 4711"], { cwd });
  expect(JSON.parse(readFileSync(join(runDirectory, "run.json"), "utf8"))).toMatchObject({ cwd });
  rmSync(join(box.state, "index.db"), { force: true });
  await box.run(["doctor", "--rebuild-index"]);
  expect((await box.json(["resume", handle, "what?"]))["text"]).toContain("4711");
});

test("a fork has the proof of a fork", async () => {
  const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
  const forked = await box.json(["resume", "--fork", handle, "what?"]);
  expect(forked["text"]).toContain("4711");
  expect(forked["receipt"]).toMatchObject({ asked: session.value, verified: "forked" });
  expect(forked["session"].value).not.toBe(session.value);
});

test("a moved state directory continues in its new place", async () => {
  using moving = new Sandbox();
  const demo = join(moving.root, "demo-home");
  const { handle } = await moving.json(["start", "demo", "remember 4711"], {
    env: { REPRISE_DEMO_HOME: demo },
  });
  const moved = join(moving.root, "moved");
  renameSync(moving.state, moved);
  const env = { REPRISE_HOME: moved, REPRISE_DEMO_HOME: demo };
  const resumed = await moving.json(["resume", handle, "what?"], { env });
  expect(resumed["text"]).toContain("4711");
  expect(resumed["runDirectory"]).toContain(moved);
});

describe("signals and silence", () => {
  async function started(args: readonly string[], text: string) {
    const known = new Set(box.runDirectories());
    const child = box.spawn(args);
    child.stdin?.end();
    const done = collect(child);
    const run = await until("the run", () => box.runDirectories().find((one) => !known.has(one)));
    const tape = join(run, "attempts", "1", "stdout.log");
    await until(text, () => existsSync(tape) && readFileSync(tape, "utf8").includes(text));
    return { child, done, handle: run.slice(-8) };
  }

  test("an agent that ignores the first SIGINT still meets its time limit", async () => {
    const { child, done } = await started(
      ["start", "--timeout", "2s", "demo", "x @@ignore-sigterm @@hang"],
      "You ",
    );
    child.kill("SIGINT");
    expect(await done).toMatchObject({ code: 130 });
  });

  test("a reader that stalls does not count as the agent's silence, and does not keep it from ending", async () => {
    const args = ["start", "--idle-timeout", "1s", "--timeout", "4s", "demo", "x @@flood:4000000 @@hang"];
    const child = box.spawn(args);
    child.stdin?.end();
    // stdout is not read at all: the pipe is full at once.
    const code = await new Promise((resolve) => child.once("exit", resolve));
    expect(code).toBe(1);
    const [run] = (await box.json<{ runs: Record<string, any>[] }>(["list", "--limit", "1"])).runs;
    const { history } = await box.json(["show", run?.["handle"]]);
    expect(history[0].outcome.reason).toBe("the time limit of 4 s was reached");
  });

  test("SIGTERM before there is an agent starts none", async () => {
    const slow = box.program("git", 'case "$*" in *"worktree add"*) sleep 3;; esac; exec /usr/bin/git "$@"');
    const repo = join(box.root, "repo");
    mkdirSync(repo);
    for (const args of [
      ["init", "-q"],
      ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "x"],
    ]) {
      await new Promise((resolve) => spawn("/usr/bin/git", args, { cwd: repo }).once("exit", resolve));
    }
    const before = box.journalEntries().length;
    const known = new Set(box.runDirectories());
    const child = box.spawn(["start", "demo", "x", "--isolate", "worktree"], { cwd: repo });
    child.stdin?.end();
    const done = collect(child);
    await until("the run directory", () => box.runDirectories().find((one) => !known.has(one)));
    child.kill("SIGTERM");
    expect(await done).toMatchObject({ code: 143 });
    expect(box.journalEntries()).toHaveLength(before);
    rmSync(slow);
  });

  test.skipIf(!HAS_TMUX)(
    "a terminal that is closed ends the agent and its children, and the end is recorded",
    async () => {
      const known = new Set(box.runDirectories());
      using screen = new Screen(box, { name: "closing" });
      screen.type("reprise start demo 'remember 4711 @@fork-child @@hang'");
      const run = await until("the run", () => box.runDirectories().find((one) => !known.has(one)));
      const tape = join(run, "attempts", "1", "stdout.log");
      await until("the answer", () => existsSync(tape) && readFileSync(tape, "utf8").includes("You "));
      screen.tmux("kill-server");
      const meta = join(run, "attempts", "1", "meta.json");
      // Written by the owner itself: nobody looks the run up meanwhile, so nobody corrects it.
      const attempt = await until("the end on record", () => {
        const record = JSON.parse(readFileSync(meta, "utf8")) as Record<string, any>;
        return record["state"] === "ended" && record;
      });
      expect(attempt["outcome"]).toMatchObject({
        result: "interrupted",
        reason: "Reprise was ended by SIGHUP",
      });
      const resumed = await box.json(["resume", run.slice(-8), "what do you remember?"]);
      expect(resumed["text"]).toContain("4711");
    },
  );

  test("a turn that is cut off after a finished one is not completed", async () => {
    const script = join(box.root, "two-turns.jsonl");
    const line = (value: unknown) => ({ step: "print", text: JSON.stringify(value) });
    const steps = [
      { step: "session" },
      { step: "user" },
      line({ type: "turn.ended", result: "completed" }),
      line({ type: "turn.started" }),
      { step: "die" },
    ];
    writeFileSync(script, steps.map((step) => `${JSON.stringify(step)}\n`).join(""));
    const result = await box.json(["start", "demo", "x", "--", "--script", script]);
    expect(result).toMatchObject({ ok: false, outcome: { result: "interrupted" } });
  });

  test("output that cannot be written is reported without a stack trace", async () => {
    const child = spawn("/bin/sh", ["-c", `exec "${process.execPath}" "${CLI}" list > /dev/full`], {
      env: box.env(),
      cwd: box.cwd,
    });
    const result = await collect(child);
    expect(result.code).toBe(7);
    expect(result.stderr).toContain("ENOSPC");
    expect(result.stderr).not.toMatch(/\n\s+at /);
  });
});
