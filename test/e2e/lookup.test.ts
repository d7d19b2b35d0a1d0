/** Looking runs up, stopping them, cleaning up, adopting, checking: what `docs/cli.md` promises. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, collect, Sandbox, until } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

async function start(
  message: string,
  ...options: string[]
): Promise<{ handle: string; directory: string; session: string }> {
  const made = await box.json(["start", "demo", message, ...options]);
  return { handle: made["handle"], directory: made["runDirectory"], session: made["session"].value };
}

/** A run that will not end by itself; resolves when the agent has answered half. */
async function startLive(message = "work @@hang") {
  const known = new Set(box.runDirectories());
  const child = box.spawn(["start", "demo", message]);
  child.stdin?.end();
  const done = collect(child);
  const directory = await until("the run directory", () =>
    box.runDirectories().find((one) => !known.has(one)),
  );
  const tape = join(directory, "attempts/1/stdout.log");
  await until(
    "the first half of the answer",
    () => existsSync(tape) && readFileSync(tape, "utf8").includes('"text"'),
  );
  return { child, done, directory, handle: directory.slice(-8) };
}

function marked(handle: string): string[] {
  const look = `grep -lz "REPRISE_ATTEMPT=.*${handle}" /proc/[0-9]*/environ 2>/dev/null`;
  return spawnSync("sh", ["-c", look], { encoding: "utf8" }).stdout.split("\n").filter(Boolean);
}

describe("list", () => {
  test("says how to start when it is empty", async () => {
    using fresh = new Sandbox();
    const { code, stdout } = await fresh.run(["list"]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'No runs yet. Start one: reprise start codex "fix the flaky test" (or see `reprise demo`)\n',
    });
    expect(await fresh.json(["list"])).toEqual({ ok: true, runs: [] });
    expect((await fresh.run(["list", "--handles"])).stdout).toBe("");
  });

  test("shows newest first, filters, bare handles and records", async () => {
    using own = new Sandbox();
    const elsewhere = join(own.root, "elsewhere");
    mkdirSync(elsewhere);
    const one = await own.json(["start", "demo", "first task"]);
    const two = await own.json(["start", "codex", "second task", "--name", "two"], { cwd: elsewhere });
    const handles = async (...args: string[]) =>
      (await own.run(["list", "--handles", ...args])).stdout.split("\n").filter(Boolean);
    expect(await handles()).toEqual([two["handle"], one["handle"]]);
    expect(await handles("--engine", "demo")).toEqual([one["handle"]]);
    expect(await handles("--name", "two")).toEqual([two["handle"]]);
    expect(await handles("--here")).toEqual([one["handle"]]);
    expect(await handles("--cwd", elsewhere)).toEqual([two["handle"]]);
    expect(await handles("--status", "failed")).toEqual([]);
    expect(await handles("--limit", "1")).toEqual([two["handle"]]);
    const { stdout } = await own.run(["list"]);
    const [header, first, second] = stdout.split("\n");
    expect(header).toMatch(/^HANDLE\s+ENGINE\s+STATUS\s+ATT\s+UPDATED\s+WHAT\s+WHERE$/);
    expect(first).toMatch(
      new RegExp(`^${two["handle"]}\\s+codex\\s+completed\\s+1\\s+(now|\\d+ s)\\s+two\\s+${elsewhere}$`),
    );
    expect(second).toMatch(
      new RegExp(`^${one["handle"]}\\s+demo\\s+completed\\s+1\\s+(now|\\d+ s)\\s+first task\\s+${own.cwd}$`),
    );
    const { runs } = await own.json(["list"]);
    expect(runs[1]).toMatchObject({ handle: one["handle"], agentName: "demo", attempts: 1, cwd: own.cwd });
  });

  test.each([
    [["--limit", "0"], "whole number from 1 to 10000"],
    [["--limit", "-1"], "whole number from 1 to 10000"],
    [["--limit", "1e309"], "whole number from 1 to 10000"],
    [["--limit", "0x10"], "whole number from 1 to 10000"],
    [["--limit", "99999999999"], "whole number from 1 to 10000"],
    [["--limit", "1", "--limit", "2"], "Give it once"],
    [["--status", "intrrupted"], "running, completed, failed, interrupted"],
    [["--engine", "../../bin/sh"], "is not an engine"],
    [["--engine", ""], "empty"],
    [["--cwd", "/x", "--here"], "not both"],
    [["--statsu", "failed"], "--status"],
    [["1a2b3c4d"], "reprise list --help"],
  ])("%j is refused", async (args, says) => {
    const { code, stdout, stderr } = await box.run(["list", ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(says);
    expect(stderr).not.toContain("    at ");
  });

  test("--status compares the true status", async () => {
    const { child, done, handle } = await startLive();
    const handles = async (status: string) =>
      (await box.run(["list", "--handles", "--status", status])).stdout;
    expect(await handles("running")).toContain(handle);
    child.kill("SIGKILL");
    await done;
    expect(await handles("interrupted")).toContain(handle);
    expect(await handles("running")).not.toContain(handle);
  });

  test("keeps text of agents and users away from the terminal", async () => {
    const evil = "\u001b]52;c;Y3VybA==\u0007\u001b]0;title\u0007\u009b6n";
    const { handle } = await start(`x ${evil}`);
    for (const args of [["list"], ["show", handle], ["logs", handle, "--plain"], ["adopt"]]) {
      const { stdout, stderr } = await box.run(args);
      expect(stdout + stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    }
  });

  test("ignores COLUMNS that are no number", async () => {
    for (const COLUMNS of ["0", "abc", "-5", ""])
      expect((await box.run(["list"], { env: { COLUMNS } })).code).toBe(0);
  });
});

describe("show", () => {
  test("presents a resume as a proof", async () => {
    const { handle, session, directory } = await start("one");
    await box.run(["resume", handle, "two"]);
    const { code, stdout } = await box.run(["show", handle]);
    expect(code).toBe(0);
    expect(stdout).toContain(
      `same conversation: Reprise asked for ${session}, and the engine reported ${session}`,
    );
    expect(stdout).toContain(`directory  ${directory}`);
    expect(stdout).toContain(
      `launch     ${process.execPath} ${join(dirname(CLI), "demo-agent.js")} --format jsonl`,
    );
    expect(stdout).toContain(`next       reprise resume ${handle} "…"`);
    const record = await box.json(["show", handle]);
    expect(record).toMatchObject({
      ok: true,
      handle,
      runDirectory: directory,
      agentName: "demo",
      session: { field: "session_id", value: session },
      cwd: box.cwd,
      status: "completed",
      attempts: 2,
      subject: null,
      escrowState: "whole",
      live: null,
      warnings: [],
    });
    expect(
      (record["history"] as Record<string, unknown>[]).map((one) => [
        one["n"],
        one["kind"],
        (one["receipt"] as { verified: string } | null)?.verified,
      ]),
    ).toEqual([
      [1, "start", undefined],
      [2, "resume", "engine_reported"],
    ]);
    expect((await box.run(["show", handle, "--attempt", "2"])).stdout).not.toContain("attempt 1");
  });

  test("reports a missing attempt and a missing run", async () => {
    const { handle } = await start("one");
    expect(await box.run(["show", handle, "--attempt", "2"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("no attempt 2"),
    });
    expect(await box.run(["show", "0000dead"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("reprise list"),
    });
    expect(await box.run(["show"])).toMatchObject({ code: 2 });
    expect(await box.json(["show", "../x"])).toMatchObject({ ok: false, error: { code: "handle_invalid" } });
  });

  test.each(["meta.json", "receipt.json"])("names a damaged %s and shows the rest", async (file) => {
    const { handle, directory } = await start("one");
    await box.run(["resume", handle, "two"]);
    const path = join(directory, "attempts/2", file);
    writeFileSync(path, "{ torn");
    const { code, stdout, stderr } = await box.run(["show", handle]);
    expect(code).toBe(0);
    expect(stderr).toContain(path);
    expect(stdout).toContain("attempt 1");
    expect(stdout).toContain("attempt 2");
    expect(readFileSync(path, "utf8")).toBe("{ torn");
    expect((await box.json(["show", handle]))["warnings"]).toHaveLength(1);
  });

  test("shows a run without its directory from the index", async () => {
    const { handle, directory, session } = await start("one");
    rmSync(directory, { recursive: true });
    const { code, stdout, stderr } = await box.run(["show", handle]);
    expect({ code, warned: stderr.includes(`${directory} is gone`) }).toEqual({ code: 0, warned: true });
    expect(stdout).toContain(session);
    expect(stdout).toContain("attempt 1  start, completed");
    expect(await box.run(["logs", handle])).toMatchObject({ code: 3, stdout: "" });
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  });
});

describe("logs", () => {
  test("gives the bytes unchanged with --raw and text with --plain", async () => {
    const { handle, directory } = await start("@@osc @@badutf8 @@crlf");
    const tape = readFileSync(join(directory, "attempts/1/pty-output.log"));
    const raw = spawnSync(process.execPath, [CLI, "logs", handle, "--raw"], { env: box.env(), cwd: box.cwd });
    expect(raw.stdout.equals(tape)).toBe(true);
    const { stdout } = await box.run(["logs", handle, "--plain"]);
    expect(stdout).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    expect(stdout).toContain("turn.ended");
  });

  test("selects streams and attempts", async () => {
    const { handle, directory } = await start("@@stderr:oops");
    await box.run(["resume", handle, "two"]);
    for (const [stream, file] of [
      ["stdout", "stdout.log"],
      ["stderr", "stderr.log"],
      ["events", "events.jsonl"],
      ["timing", "timing.jsonl"],
    ] as const) {
      const { code, stdout } = await box.run(["logs", handle, "--attempt", "1", "--stream", stream, "--raw"]);
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: readFileSync(join(directory, "attempts/1", file), "utf8"),
      });
    }
    expect((await box.run(["logs", handle, "--raw"])).stdout).toContain('\\"two\\"');
    expect(await box.run(["logs", handle, "--attempt", "3"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("the last one is 2"),
    });
    expect(await box.run(["logs", handle, "--stream", "stdin"])).toMatchObject({ code: 2 });
    expect(await box.run(["logs", handle, "--raw", "--plain"])).toMatchObject({ code: 2 });
  });

  test("-f ends with the attempt, even if its owner is killed", async () => {
    const { child, done, handle, directory } = await startLive();
    const following = box.run(["logs", handle, "-f", "--raw"]);
    child.kill("SIGKILL");
    await done;
    const { code, stdout } = await following;
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: readFileSync(join(directory, "attempts/1/pty-output.log"), "utf8"),
    });
    expect(await box.json(["show", handle])).toMatchObject({ status: "interrupted" });
  });

  test("Ctrl-C ends -f quietly and harms nothing", async () => {
    const live = await startLive();
    const follower = box.spawn(["logs", live.handle, "-f"]);
    let seen = "";
    follower.stdout?.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    const ended = collect(follower);
    await until("the follower shows something", () => seen !== "");
    follower.kill("SIGINT");
    expect(await ended).toMatchObject({ code: 130, stderr: "" });
    expect(await box.json(["show", live.handle])).toMatchObject({
      status: "running",
      live: { pid: live.child.pid },
    });
    live.child.kill("SIGKILL");
    await live.done;
  });

  test("refuses a link in place of the run directory", async () => {
    const { handle, directory } = await start("one");
    const moved = join(box.root, "moved");
    renameSync(directory, moved);
    symlinkSync(moved, directory);
    for (const command of ["logs", "rm"]) {
      expect(await box.run([command, handle])).toMatchObject({ code: 8, stdout: "" });
    }
    expect(existsSync(join(moved, "run.json"))).toBe(true);
    rmSync(directory);
    rmSync(moved, { recursive: true });
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  });
});

describe("stop", () => {
  test("cancels a live run through its owner, and the run resumes", async () => {
    const { done, handle } = await startLive();
    const stopped = await box.json(["stop", handle]);
    expect(stopped).toMatchObject({ ok: true, handle, status: "cancelled", how: "asked", strays: 0 });
    expect((await done).code).toBe(130);
    expect(marked(handle)).toEqual([]);
    expect(await box.run(["resume", handle, "go on"])).toMatchObject({ code: 0 });
  });

  test("says that a run is not running", async () => {
    const { handle } = await start("one");
    expect(await box.run(["stop", handle])).toMatchObject({
      code: 0,
      stdout: `Run ${handle} is not running (completed).\n`,
    });
    expect(await box.run(["stop", "0000dead"])).toMatchObject({ code: 3 });
  });

  test("ends the strays of a dead owner", async () => {
    const { child, done, handle } = await startLive("@@fork-child @@hang");
    child.kill("SIGKILL");
    await done;
    const { code, stdout } = await box.run(["stop", handle]);
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/ 1 of its processes were/);
    expect(marked(handle)).toEqual([]);
    expect(await box.json(["show", handle])).toMatchObject({ status: "interrupted", live: null });
  });
});

describe("rm and prune", () => {
  test("remove a run with its directory, and its handle is unknown then", async () => {
    const { handle, directory } = await start("one");
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0, stdout: `Removed run ${handle}.\n` });
    expect(existsSync(directory)).toBe(false);
    expect(await box.run(["rm", handle])).toMatchObject({ code: 3 });
  });

  test("never remove a live run", async () => {
    const { child, done, handle, directory } = await startLive();
    for (const args of [
      ["rm", handle],
      ["rm", handle, "--discard-work"],
    ]) {
      const { code, stderr } = await box.run(args);
      expect(code).toBe(4);
      expect(stderr).toContain(`reprise stop ${handle}`);
    }
    const pruned = await box.json(["prune", "--older-than", "1ms"]);
    expect(pruned["skipped"]).toContainEqual(expect.objectContaining({ handle, code: "run_busy" }));
    expect(existsSync(join(directory, "run.json"))).toBe(true);
    child.kill("SIGKILL");
    await done;
  });

  test("keep unsaved work unless it is discarded", async () => {
    const { handle, directory } = await start("@@write:result.txt", "--isolate", "dir");
    const refused = await box.run(["rm", handle]);
    expect(refused.code).toBe(8);
    expect(refused.stderr).toContain("--discard-work");
    expect(existsSync(join(directory, "work/result.txt"))).toBe(true);
    expect(await box.run(["rm", handle, "--discard-work"])).toMatchObject({ code: 0 });
    expect(existsSync(directory)).toBe(false);
  });

  test("remove a worktree properly", async () => {
    const repository = join(box.root, "repository");
    mkdirSync(repository);
    const git = (...args: string[]) =>
      spawnSync("git", ["-C", repository, "-c", "user.name=t", "-c", "user.email=t@example.org", ...args], {
        encoding: "utf8",
        env: box.env(),
      }).stdout;
    git("init", "-q", "-b", "main");
    git("commit", "-q", "--allow-empty", "-m", "first");
    const clean = await start("nothing", "--isolate", "worktree", "--cwd", repository);
    const dirty = await start("@@write:new.txt", "--isolate", "worktree", "--cwd", repository);
    expect(git("worktree", "list").trim().split("\n")).toHaveLength(3);
    expect(await box.run(["rm", clean.handle, dirty.handle])).toMatchObject({
      code: 10,
      stdout: expect.stringMatching(
        new RegExp(
          `^Removed run ${clean.handle}\\.\\nIt is kept for 30 days .* reprise rm --restore ${clean.handle}\\n$`,
        ),
      ),
      stderr: expect.stringContaining("uncommitted work"),
    });
    expect(await box.run(["rm", dirty.handle, "--discard-work"])).toMatchObject({ code: 0 });
    // The removed one is in the trash, and git protects its objects.
    expect(git("worktree", "list").trim().split("\n")).toEqual([
      expect.stringContaining(repository),
      expect.stringMatching(/\/trash\/.* locked$/),
    ]);
  });

  test("remove old runs and name the kept ones", async () => {
    using own = new Sandbox();
    const one = await own.json(["start", "demo", "one"]);
    expect(await own.run(["prune"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--older-than 30d"),
    });
    expect(await own.run(["prune", "--older-than", "5 parsecs"])).toMatchObject({ code: 2 });
    for (const none of ["0", "0s", "0h0m"]) {
      expect(await own.run(["prune", "--older-than", none])).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining("Must be longer than zero"),
      });
    }
    expect(await own.json(["prune", "--older-than", "30d"])).toEqual({
      ok: true,
      dryRun: false,
      removed: [],
      skipped: [],
      kept: [],
      emptied: [],
      trashKept: [],
      trashFailed: [],
    });
    const dry = await own.json(["prune", "--older-than", "1ms", "--dry-run"]);
    expect((dry["removed"] as { handle: string }[]).map((run) => run.handle)).toEqual([one["handle"]]);
    expect(await own.json(["prune", "--older-than", "1ms", "--status", "failed"])).toMatchObject({
      removed: [],
    });
    expect(await own.json(["prune", "--older-than", "1ms"])).toMatchObject({
      ok: true,
      removed: [{ handle: one["handle"] }],
      skipped: [],
    });
    expect(own.runDirectories()).toEqual([]);
  });
});

describe("adopt", () => {
  test("gives a conversation from outside a handle, and it continues", async () => {
    const { handle, session } = await start("remember the number 4711");
    await box.run(["rm", handle]);
    const found = (await box.json(["adopt", "demo"]))["conversations"] as Record<string, unknown>[];
    expect(found.find((one) => one["id"] === session)).toMatchObject({
      engine: "demo",
      cwd: box.cwd,
      handle: null,
      title: "remember the number 4711",
    });
    const adopted = await box.json(["adopt", "demo", session.slice(0, 13), "--name", "found"]);
    expect(adopted).toMatchObject({
      ok: true,
      isNew: true,
      name: "found",
      agentName: "demo",
      attempts: 0,
      status: "interrupted",
      cwd: box.cwd,
      session: { field: "session_id", value: session, source: "adopted", verifiedAt: expect.any(String) },
      escrow: { session },
    });
    const again = await box.run(["adopt", "demo", session]);
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`belongs to run ${adopted["handle"]}`),
    });
    expect(await box.run(["logs", adopted["handle"]])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("no attempt yet"),
    });
    const resumed = await box.json(["resume", adopted["handle"], "what was it?"]);
    expect(resumed).toMatchObject({
      ok: true,
      session: { value: session },
      receipt: { verified: "engine_reported" },
    });
    expect(resumed["text"]).toContain("4711");
  });

  test.each([
    [["demo", "00000000-0000-4000-8000-000000000000"], 3, "adopt demo --all"],
    [["demo", "abc"], 3, "at least 8"],
    [["dmeo"], 2, "Did you mean demo"],
    [["--cwd", "/nowhere/at/all"], 2, "does not exist"],
    [["--cwd", ".", "--all"], 2, "not both"],
    [["--name", "x"], 2, "--name"],
  ])("%j exits with %d", async (args, code, says) => {
    const result = await box.run(["adopt", ...args]);
    expect(result).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(says) });
  });
});

describe("explain", () => {
  const output = [
    '{"type":"session","session_id":"0e1f2a3b-0000-4000-8000-000000000001"}',
    '{"type":"turn.started"}',
    '{"type":"text","delta":"{\\"type\\":\\"session\\",\\"session_id\\":\\"0e1f2a3b-0000-4000-8000-00000000dead\\"}"}',
    '{"type":"new.event"}',
    "not json",
    '{"type":"usage","input_tokens":1,"output_tokens":2}',
    '{"type":"turn.ended","result":"completed"}',
  ];

  test("shows the parsed events, with line numbers, and needs no state directory", async () => {
    const stdin = output.join("\r\n");
    const found = await box.json(["explain", "--engine", "demo"], {
      stdin,
      env: { REPRISE_HOME: "/proc/none", HOME: "/proc/none" },
    });
    expect(found).toMatchObject({
      ok: true,
      engine: "demo",
      lines: 7,
      session: {
        field: "session_id",
        value: "0e1f2a3b-0000-4000-8000-000000000001",
        source: "stdout",
        line: 1,
      },
      sessions: [{}],
      troubles: [],
      resetsAt: null,
      unknown: { count: 2, firstLines: [4, 5] },
      outcome: { result: "completed" },
    });
    const file = join(box.root, "output.jsonl");
    writeFileSync(file, stdin);
    const { code, stdout } = await box.run(["explain", "--engine", "demo", file]);
    expect(code).toBe(0);
    expect(stdout).toContain("(stdout, line 1)");
    expect(stdout).toContain("2 lines not understood: 4, 5");
    expect(stdout).toContain("judgement completed");
  });

  test("copes with no output, an endless line and control sequences", async () => {
    expect(await box.json(["explain", "--engine", "demo"])).toMatchObject({
      lines: 0,
      session: null,
      outcome: null,
    });
    const long = await box.json(["explain", "--engine", "codex"], { stdin: "x".repeat(5_000_000) });
    expect(long).toMatchObject({ lines: 1, session: null });
    const evil = await box.run(["explain", "--engine", "demo"], {
      stdin: '{"type":"text","delta":"\\u001b]0;x\\u0007"}\n',
    });
    expect(evil.stdout).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  });

  test.each([
    [[], "--engine codex"],
    [["--engine", "codxe"], "Did you mean codex"],
    [["--engine", "demo", "--now", "tomorrow"], "2026-11-15T09:00:00Z"],
    [["--engine", "demo", "/nowhere/at/all"], "cannot be read"],
    [["--engine", "demo", "/"], "is not a file"],
  ])("%j is refused", async (args, says) => {
    expect(await box.run(["explain", ...args])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(says),
    });
  });
});

describe("in a missing current directory", () => {
  const inGone = (args: readonly string[]) => {
    const script = 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$@"';
    const words = ["-c", script, "sh", process.execPath, CLI, ...args];
    const { status, stdout, stderr } = spawnSync("sh", words, { env: box.env(), encoding: "utf8" });
    return { code: status, stdout, stderr };
  };

  test("commands that need none work", async () => {
    const { handle } = await start("one");
    const lines = [
      ["list"],
      ["show", handle],
      ["logs", handle],
      ["stop", handle],
      ["doctor"],
      ["adopt", "--all"],
      ["prune", "--older-than", "30d"],
      ["resume", handle, "two"],
      ["rm", handle],
    ];
    for (const args of lines) {
      const { code, stderr } = inGone(args);
      expect({ args, code: args[0] === "doctor" && code === 1 ? 0 : code, stderr }).toEqual({
        args,
        code: 0,
        stderr: args[0] === "resume" ? expect.stringContaining(handle) : "",
      });
    }
  });

  test.each([
    [["list", "--here"]],
    [["list", "--cwd", "x"]],
    [["adopt"]],
    [["start", "demo", "hello"]],
    [["start", "demo", "hello", "--run-dir", "./x"]],
    [["resume", "--last", "more"]],
  ])("%j says so", (args) => {
    expect(inGone(args)).toEqual({
      code: 2,
      stdout: "",
      stderr: "reprise: The current directory is gone. Change to another one.\n",
    });
  });
});

test("every look-up command has help with examples", async () => {
  for (const name of [
    "list",
    "show",
    "logs",
    "stop",
    "rm",
    "prune",
    "adopt",
    "doctor",
    "explain",
    "completion",
  ]) {
    const { code, stdout, stderr } = await box.run([name, "--help"]);
    expect({ name, code, stderr }).toEqual({ name, code: 0, stderr: "" });
    expect(stdout).toContain("Examples:\n");
  }
});
