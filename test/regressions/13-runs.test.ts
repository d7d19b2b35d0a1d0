/** What Reprise says of runs that cannot go on, and of forks, attempts and directories that are not what they seem. */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

/** A run whose UI was opened and closed again, with nothing said. */
async function emptyUi(own: Sandbox): Promise<string> {
  const { handle } = await own.json(["start", "demo", "--detach"]);
  await own.run(["stop", handle]);
  return handle as string;
}

/** A run whose UI was talked to on a terminal. */
async function talkedUi(own: Sandbox): Promise<string> {
  using screen = new Screen(own);
  screen.type("reprise start demo");
  await screen.shows(/^\w+> $/m);
  screen.type("remember 4711");
  await screen.shows('You said "remember 4711"');
  screen.type("/exit");
  return /handle\s+([0-9a-f]{8})/.exec(await screen.shows("session  "))?.[1] ?? "";
}

const attemptsOf = (handle: string) => {
  const run = box.runDirectories().find((path) => path.endsWith(handle)) ?? "";
  return readdirSync(join(run, "attempts"));
};

describe("a run that cannot be resumed", () => {
  test.each([
    ["codex", "--ephemeral", "codex saves no session with --ephemeral"],
    ["claude", "--no-session-persistence", "claude saves no session with --no-session-persistence"],
    ["opencode", "--attach=http://127.0.0.1:1", "the conversation is kept by another server"],
  ])("says so before %s works with %s, and no command offers it", async (engine, option, why) => {
    const child = box.spawn(["start", engine, "remember 4711 @@hang", "--", option]);
    child.stdin?.end();
    let stderr = "";
    child.stderr?.on("data", (chunk: Buffer) => (stderr += String(chunk)));
    const known = box.runDirectories().length;
    await until("the warning", () => stderr.includes(`This run cannot be resumed:`));
    expect(stderr).toContain(why);
    child.kill("SIGTERM");
    await new Promise((resolve) => child.once("close", resolve));
    expect(stderr).not.toContain("reprise resume");
    expect(box.runDirectories().length).toBeGreaterThanOrEqual(known);
    const [run] = (await box.json<{ runs: Record<string, any>[] }>(["list", "--limit", "1"])).runs;
    const handle = run?.["handle"] as string;
    for (const command of ["show", "stop", "attach"]) {
      const { stdout, stderr: said } = await box.run([command, handle]);
      expect(stdout + said).not.toContain(`reprise resume ${handle}`);
    }
    expect(await box.json(["show", handle])).toMatchObject({ resumable: false });
    const refused = await box.json(["resume", handle, "go on"]);
    expect(refused).toMatchObject({ ok: false, error: { code: "session_unknown" } });
    expect(refused["error"].message).toContain(why);
  });

  test("says so in JSON, in the foreground and detached", async () => {
    const done = await box.json(["start", "codex", "hello", "--", "--ephemeral"]);
    expect(done).toMatchObject({ ok: true, resumable: false });
    const detached = await box.json(["start", "codex", "hello", "--detach", "--", "--ephemeral"]);
    expect(detached["warnings"]).toEqual([expect.stringContaining("cannot be resumed")]);
    expect(await box.json(["start", "codex", "hello"])).toMatchObject({ ok: true, resumable: true });
  });

  test("is not offered when a secret in its options prevents it", async () => {
    const { stderr } = await box.run([
      "start",
      "demo",
      "hello",
      "--",
      "--api-key",
      "sk-ant-abcdefghijklmnopqrstuvwx",
    ]);
    expect(stderr).toContain("cannot be resumed");
    expect(stderr).not.toContain("reprise resume");
  });
});

describe("a UI that was closed before its first message", () => {
  test("is neither offered nor taken for --last", async () => {
    using own = new Sandbox();
    const first = await own.json(["start", "demo", "remember 4711"]);
    const empty = await emptyUi(own);
    const shown = await own.run(["show", empty]);
    expect(shown.stdout).not.toContain(`reprise resume ${empty}`);
    expect(await own.json(["show", empty])).toMatchObject({ empty: true, resumable: false });
    expect((await own.run(["attach", empty])).stderr).not.toContain("reprise resume");
    const last = await own.json(["resume", "--last", "what?"]);
    expect(last).toMatchObject({ ok: true, handle: first["handle"] });
  });

  test("is named as the only run when no other exists", async () => {
    using own = new Sandbox();
    await emptyUi(own);
    const { error } = await own.json(["resume", "--last", "what?"]);
    expect(error).toMatchObject({
      code: "handle_unknown",
      message: expect.stringContaining("has a conversation to continue"),
    });
  });
});

test.skipIf(!HAS_TMUX)(
  "a conversation in a UI is not resumed without a terminal and without a message, and nothing is recorded",
  async () => {
    const handle = await talkedUi(box);
    for (const options of [[], ["--json"], ["--dry-run"]]) {
      const result = await box.run(["resume", handle, ...options]);
      expect(result.stdout + result.stderr).toMatch(/needs a terminal.*give a message/);
      expect(result.code).toBe(2);
    }
    expect(attemptsOf(handle)).toEqual(["1"]);
    expect((await box.run(["show", handle])).stderr).toBe("");
    expect((await box.json(["resume", handle, "what?"]))["text"]).toContain("4711");
  },
);

describe("a run directory that is gone", () => {
  test("begins no attempt, and every command says what to do", async () => {
    const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4711"]);
    rmSync(runDirectory, { recursive: true });
    const rows = async () => (await box.json(["show", handle]))["history"].length as number;
    for (const command of [
      ["resume", handle, "go on"],
      ["resume", handle, "--fork", "go on"],
    ]) {
      const { error } = await box.json(command);
      expect(error).toMatchObject({ code: "run_dir_missing" });
      expect(error.message).toContain(`reprise rm ${handle}`);
      expect(error.message).toContain(`reprise adopt demo ${session.value}`);
    }
    expect(await rows()).toBe(1);
    expect((await box.run(["logs", handle])).stderr).toContain(`reprise rm ${handle}`);
    for (const command of ["show", "attach", "stop"]) {
      const { stdout, stderr } = await box.run([command, handle]);
      expect(stdout + stderr).not.toContain("reprise resume");
    }
    expect((await box.run(["show", handle])).stdout).toContain(`reprise rm ${handle}`);
    // The advice works.
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
    const adopted = await box.json(["adopt", "demo", session.value]);
    expect((await box.json(["resume", adopted["handle"], "what?"]))["text"]).toContain("4711");
  });
});

describe("an agent that crashed", () => {
  const secret = "correct-horse-battery-staple";

  test.skipIf(!HAS_TMUX)("is shown with its last words on stderr, harmless and without secrets", async () => {
    using own = new Sandbox();
    own.program(
      "codex",
      `printf 'early\\npanicked at \\033]0;title\\007main.rs:7\\n' >&2; echo "key $X_TOKEN" >&2; exit 101`,
    );
    using screen = new Screen(own, { env: { X_TOKEN: secret } });
    screen.type("reprise start codex hello");
    const summary = await screen.shows("session  ");
    expect(summary).toMatch(/stderr {3}early\n {9}panicked at main\.rs:7\n {9}key \[redacted/);
    const handle = /handle\s+([0-9a-f]{8})/.exec(summary)?.[1] ?? "";
    const shown = await own.run(["show", handle]);
    expect(shown.stdout).toMatch(/stderr: panicked at main\.rs:7/);
    const { history, runDirectory } = await own.json(["show", handle]);
    expect(history[0].lastWords).toHaveLength(3);
    const stored = readFileSync(join(runDirectory, "attempts/1/meta.json"), "utf8");
    for (const text of [summary, shown.stdout, stored]) expect(text).not.toContain(secret);
  });

  test("is not quoted twice where its stderr was shown as it came", async () => {
    using own = new Sandbox();
    own.program("codex", "echo 'out of cheese' >&2; exit 101");
    const { stderr } = await own.run(["start", "codex", "hello"]);
    expect(stderr.split("out of cheese")).toHaveLength(2);
  });

  test("shows no stderr of an agent that did its work", async () => {
    using own = new Sandbox();
    const { lastWords } = await own.json(["start", "demo", "hello @@stderr:noise"]);
    expect(lastWords).toEqual([]);
  });
});

describe("options of resume", () => {
  test.each([
    ["after the message", (handle: string) => ["resume", handle, "go on", "--json"]],
    ["on both sides of it", (handle: string) => ["resume", "--timeout", "1m", handle, "go", "on", "--json"]],
    [
      "with values",
      (handle: string) => ["resume", handle, "go on", "--native", "-m", "--native", "m2", "--json"],
    ],
    ["with =", (handle: string) => ["resume", handle, "go on", "--timeout=1m", "--json"]],
    ["with --last", () => ["resume", "go on", "--last", "--json"]],
  ])("may stand %s", async (_where, args) => {
    const { handle } = await box.json(["start", "demo", "hello"]);
    const { stdout, code } = await box.run(args(handle));
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { ok: true, handle, attempt: 2 }]);
    expect((await box.json(["show", handle]))["history"][1].message).toBe("go on");
  });

  test("are part of a quoted message, and so is everything after --", async () => {
    const { handle } = await box.json(["start", "demo", "hello"]);
    await box.run(["resume", handle, "explain --json to me"]);
    await box.run(["resume", handle, "--", "--json"]);
    await box.run([
      "resume",
      handle,
      "git",
      "checkout",
      "--",
      "a.txt",
      "-1",
      "->",
      "x",
      "add the --frob flag",
    ]);
    const { history } = await box.json(["show", handle]);
    expect(history.slice(1).map(({ message }: { message: string }) => message)).toEqual([
      "explain --json to me",
      "--json",
      "git checkout -- a.txt -1 -> x add the --frob flag",
    ]);
  });

  test.each([
    ["a mistyped one", ["go on", "--jsno"], "Did you mean --json?"],
    ["a mistyped one with a value", ["go on", "--timout", "5m"], "Did you mean --timeout?"],
    ["one without its value", ["go on", "--timeout"], "--timeout"],
    ["one of the engine", ["hi", "--model", "opus"], "--native --model --native NAME"],
    ["a short one of the engine", ["go", "on", "-m", "opus", "--timeout", "1m"], "'-m'"],
    ["--native with two words", ["hi", "--native", "--model", "opus"], "--native --model --native NAME"],
    ["one of the engine after --, as in start", ["hi", "--", "--model", "opus"], "--native --model"],
    [
      "one of ours between its words",
      ["go on", "--dry-run", "please"],
      'message if the option is part of it: reprise resume HANDLE "… --dry-run …"',
    ],
    [
      "one with a value between its words",
      ["go", "--timeout", "5m", "on", "--quiet"],
      "--timeout stands between",
    ],
    ["--help between its words", ["what", "does", "--help", "print"], "--help stands between"],
    ["one of ours after --", ["hi", "--", "--json"], "put the whole message after `--`"],
  ])("do not reach the agent: %s", async (_what, words, named) => {
    // Refused before the run is even looked for: an unknown handle would be exit 3.
    expect(await box.run(["resume", "1a2b3c4d", ...words])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(named),
    });
  });

  test("exclude a handle beside --last, wherever they stand", async () => {
    const { handle } = await box.json(["start", "demo", "hello"]);
    expect(await box.run(["resume", handle, "go on", "--last"])).toMatchObject({ code: 2 });
    expect(attemptsOf(handle)).toEqual(["1"]);
  });
});
