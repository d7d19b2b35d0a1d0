/** What must be refused clearly: its own exit code and words, nothing written, no stack trace. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Result, Sandbox } from "./sandbox.ts";

let box: Sandbox;
let handle: string;
beforeAll(async () => {
  box = new Sandbox();
  const started = await box.json(["start", "demo", "hello"]);
  handle = started["handle"];
});
afterAll(() => box[Symbol.dispose]());

function expectRefused(result: Result, code: number, words: RegExp): void {
  expect(result.stderr).toMatch(words);
  expect(result.code).toBe(code);
  expect(result.stdout).toBe("");
  expect(result.stderr).not.toMatch(/\n\s+at .*:\d+:\d+/);
  expect(result.stderr).not.toMatch(/this is a bug/);
}

describe("handles", () => {
  const cases: [name: string, given: string, code: number, words: RegExp][] = [
    ["empty", "", 2, /it is empty/],
    ["a path", "../x", 2, /nor a handle/],
    ["an absolute path", "/etc/passwd", 2, /nor a handle/],
    ["3 hex", "abc", 2, /at least 4 characters/],
    ["9 hex", "123456789", 2, /a handle has 8 characters, this has 9/],
    ["unknown in upper case", "DEADBEEF", 3, /No run has the handle DEADBEEF/],
    ["unknown", "deadbeef", 3, /No run has the handle deadbeef/],
    ["unknown prefix", "dead", 3, /No run has the handle or name dead/],
    ["unknown run id", "20260101T000000Z-demo-deadbeef", 3, /No run has the handle/],
    ["emoji", "💥", 2, /nor a handle/],
    ["zero width", "dead\u200bbeef", 2, /nor a handle/],
    ["300 characters", "a".repeat(300), 2, /nor a handle|has 8 characters/],
    ["a control sequence", "\u001b]52;c;x\u0007", 2, /nor a handle/],
  ];
  test.each(cases)("%s", async (_name, given, code, words) => {
    const before = box.runDirectories().length;
    for (const command of ["resume", "show", "logs", "stop"]) {
      const result = await box.run(command === "resume" ? [command, given, "go on"] : [command, given]);
      expectRefused(result, code, words);
      expect(result.stderr).not.toContain("\u001b");
    }
    expect(box.runDirectories()).toHaveLength(before);
  });

  test("that are ambiguous are listed, and none is picked", async () => {
    const sandbox = new Sandbox();
    const handles: string[] = [];
    // Handles are random: start until two share their first four characters is hopeless, so two records are made alike.
    const { handle: one } = await sandbox.json(["start", "demo", "one"]);
    handles.push(one);
    const [directory = ""] = sandbox.runDirectories();
    const twin = `${one.slice(0, 4)}${one.slice(4) === "0000" ? "1111" : "0000"}`;
    const copy = directory.replace(one, twin);
    const { cpSync, readFileSync } = await import("node:fs");
    cpSync(directory, copy, { recursive: true });
    const file = join(copy, "run.json");
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(one, twin));
    await sandbox.run(["doctor", "--rebuild-index"]);
    const result = await sandbox.run(["resume", one.slice(0, 5), "x"]);
    const ambiguous = await sandbox.run(["resume", one.slice(0, 4), "go on"]);
    expect(ambiguous.code).toBe(2);
    expect(ambiguous.stderr).toContain(one);
    expect(ambiguous.stderr).toContain(twin);
    expect(result.code).not.toBe(70);
    sandbox[Symbol.dispose]();
  });

  test("with --run-dir of another engine are refused", async () => {
    expectRefused(
      await box.run(["start", "codex", "x", "--run-dir", handle]),
      2,
      /belongs to demo, not to codex/,
    );
  });
  test("with --run-dir outside the runs root are refused", async () => {
    expectRefused(
      await box.run(["start", "demo", "x", "--run-dir", box.cwd]),
      8,
      /is not a directory right below/,
    );
  });
  test("with a symlink as --run-dir are refused", async () => {
    const [directory = ""] = box.runDirectories();
    const link = join(box.root, "link");
    symlinkSync(directory, link);
    expectRefused(
      await box.run(["start", "demo", "x", "--run-dir", link]),
      8,
      /is not a directory right below/,
    );
  });
  test("with a missing --run-dir are refused", async () => {
    expectRefused(
      await box.run(["start", "demo", "x", "--run-dir", join(box.state, "runs", "nope")]),
      3,
      /./,
    );
  });
  test("of a deleted run are refused", async () => {
    const gone = await box.json(["start", "demo", "soon gone"]);
    rmSync(gone["runDirectory"], { recursive: true });
    const result = await box.run(["resume", gone["handle"], "go on"]);
    expect([0, 3]).toContain(result.code);
    expect(result.stderr).not.toMatch(/this is a bug/);
  });
});

describe("messages", () => {
  const refused: [name: string, args: string[], words: RegExp][] = [
    ["empty", [""], /empty/],
    ["blank", ["  \t "], /empty/],
    ["blank by stdin", ["--stdin"], /empty/],
    ["two sources", ["--stdin", "hello"], /Give the message once/],
    ["a file that is not there", ["--message-file", "nope.md"], /cannot be read/],
    ["a directory as file", ["--message-file", "."], /not a regular file/],
    ["an option between the words", ["say", "--quiet", "please"], /--quiet stands between/],
  ];
  test.each(refused)("%s", async (_name, args, words) => {
    expectRefused(await box.run(["resume", handle, ...args]), 2, words);
  });
  test("longer than an argument are refused", async () => {
    // The kernel refuses a longer argument before we see it, so the limit is met from below.
    const file = join(box.root, "long.txt");
    writeFileSync(file, "x".repeat(1024 * 1024));
    const { code } = await box.run(["resume", "--message-file", file, handle]);
    expect(code).toBe(0);
  });

  const delivered: [name: string, message: string, args: (message: string) => string[]][] = [
    ["starts with a dash, after --", "-x --force", (m) => ["--", m]],
    ["exactly -", "-", (m) => [m]],
    ["exactly --", "--", (m) => ["--", m]],
    ["help", "help", (m) => [m]],
    ["resume", "resume", (m) => [m]],
    ["an option inside the message", "say --json please", (m) => [m]],
    ["newlines and quotes", "line \"one\"\nline 'two'\n$HOME `x` ;", (m) => [m]],
    ["emoji", "go on 🚀 äöü", (m) => [m]],
    ["shell and tmux syntax", "#(touch x) $(touch y); C-c Enter", (m) => [m]],
  ];
  test.each(delivered)("arrive unchanged, once: %s", async (_name, message, args) => {
    const before = box.journalEntries().filter((entry) => entry["event"] === "message").length;
    const result = await box.run(["resume", handle, ...args(message)]);
    expect(result).toMatchObject({ code: 0 });
    const messages = box.journalEntries().filter((entry) => entry["event"] === "message");
    expect(messages.slice(before).map((entry) => entry["text"])).toEqual([message]);
  });
  test("of 1 MB on stdin arrive byte for byte", async () => {
    const message = `${"0123456789abcde\n".repeat(65_536)}end`;
    expect(await box.run(["resume", handle, "--stdin"], { stdin: message })).toMatchObject({ code: 0 });
    const received = box.journalEntries().findLast((entry) => entry["event"] === "message");
    expect(received?.["sha256"]).toBe(createHash("sha256").update(message).digest("hex"));
  });
  test("with NUL on stdin are refused", async () => {
    expectRefused(await box.run(["resume", handle, "--stdin"], { stdin: "a\0b" }), 2, /zero byte/);
  });
  test("with invalid UTF-8 on stdin are refused", async () => {
    expectRefused(
      await box.run(["resume", handle, "--stdin"], { stdin: Buffer.from([0x61, 0xff]) }),
      2,
      /not valid UTF-8/,
    );
  });
});

describe("arguments", () => {
  const cases: [name: string, args: string[], code: number, words: RegExp][] = [
    ["unknown command", ["strat"], 2, /Did you mean `reprise start`/],
    ["unknown option", ["list", "--jsno"], 2, /--json/],
    [
      "a prompt like an option",
      ["start", "demo", "-x"],
      2,
      /begins with a dash with --stdin or --message-file/,
    ],
    ["option without a value", ["start", "demo", "x", "--cwd"], 2, /--cwd/],
    ["a single-valued option twice", ["start", "demo", "x", "--name", "a", "--name", "b"], 2, /Give it once/],
    ["--limit -1", ["list", "--limit", "-1"], 2, /whole number/],
    ["--limit 1e309", ["list", "--limit", "1e309"], 2, /whole number/],
    ["--limit 0x10", ["list", "--limit", "0x10"], 2, /whole number/],
    ["a bad duration", ["start", "demo", "x", "--timeout", "5 parsecs"], 2, /duration/],
    ["unknown engine", ["start", "codexx", "x"], 2, /Did you mean codex/],
    ["an engine that is a path", ["start", "../../bin/sh", "x"], 2, /is not an engine/],
    ["--cwd missing", ["start", "demo", "x", "--cwd", "nope"], 2, /does not exist/],
    ["--env without =", ["start", "demo", "x", "--env", "A"], 2, /NAME=value/],
    ["--env =x", ["start", "demo", "x", "--env", "=x"], 2, /NAME=value/],
    ["--env PATH", ["start", "demo", "x", "--env", "PATH=/x"], 2, /--allow-env/],
    ["several words", ["start", "demo", "fix", "the", "test"], 2, /one argument/],
    ["the UI without a terminal", ["start", "demo"], 2, /needs a terminal/],
    ["a bad --mode", ["start", "demo", "x", "--mode", "tmux"], 2, /auto, pipe, pty/],
  ];
  test.each(cases)("%s", async (_name, args, code, words) => {
    const before = box.runDirectories().length;
    expectRefused(await box.run(args), code, words);
    expect(box.runDirectories()).toHaveLength(before);
  });
  test("that cause a fault with --json print one object on stdout", async () => {
    const result = await box.run(["show", "deadbeef", "--json"]);
    expect(result.code).toBe(3);
    expect(JSON.parse(result.stdout)).toMatchObject({
      ok: false,
      error: { code: "handle_unknown", facts: { given: "deadbeef" } },
    });
  });
});

describe("engines", () => {
  test("that are not installed are reported", async () => {
    const result = await box.run(["start", "codex", "x"], { env: { PATH: "/usr/bin:/bin" } });
    expectRefused(result, 6, /is not an executable program on PATH/);
  });
  test("that are not executable are reported", async () => {
    const bin = mkdtempSync(join(tmpdir(), "reprise-bin-"));
    writeFileSync(join(bin, "codex"), "#!/bin/sh\n", { mode: 0o644 });
    const result = await box.run(["start", "codex", "x"], { env: { PATH: `${bin}:/usr/bin:/bin` } });
    expectRefused(result, 6, /codex/);
    rmSync(bin, { recursive: true });
  });

  const misbehaving: [name: string, script: string, status: string][] = [
    ["exits 127", "exit 127", "interrupted"],
    ["hangs with stdin open until it is closed", "cat >/dev/null; echo '{}'", "interrupted"],
    ["closes stdout early", "exec 1>&-; sleep 0.1; exit 0", "interrupted"],
    ["prints nothing at all", "exit 0", "interrupted"],
    ["forks and exits", "(sleep 30 &) ; exit 0", "interrupted"],
  ];
  test.each(misbehaving)("%s", async (_name, script, status) => {
    const sandbox = new Sandbox();
    sandbox.program("codex", script);
    const result = await sandbox.json(["start", "codex", "x"]);
    expect(result).toMatchObject({ ok: false, outcome: { result: status }, session: { value: null } });
    sandbox[Symbol.dispose]();
  });
  test("that ignore SIGTERM and SIGINT are ended at the deadline", async () => {
    const sandbox = new Sandbox();
    sandbox.program("codex", "trap '' TERM INT; while :; do sleep 0.2; done");
    const result = await sandbox.json(["start", "codex", "x", "--timeout", "1s"]);
    expect(result).toMatchObject({
      outcome: { result: "interrupted", reason: "the time limit of 1 s was reached" },
    });
    sandbox[Symbol.dispose]();
  }, 60_000);
});

describe("files", () => {
  test("a state directory that is a symlink is refused", async () => {
    const link = join(box.root, "state-link");
    mkdirSync(join(box.root, "elsewhere"), { recursive: true });
    symlinkSync(join(box.root, "elsewhere"), link);
    expectRefused(await box.run(["list"], { env: { REPRISE_HOME: link } }), 8, /symbolic link/);
  });
  test("a relative state directory is refused", async () => {
    expectRefused(await box.run(["list"], { env: { REPRISE_HOME: "state" } }), 7, /absolute path/);
  });
  test("a corrupt run.json is named and left in place, and everything else works", async () => {
    const sandbox = new Sandbox();
    const first = await sandbox.json(["start", "demo", "one"]);
    const second = await sandbox.json(["start", "demo", "two"]);
    writeFileSync(join(first["runDirectory"], "run.json"), '{"v":1,');
    const rebuilt = await sandbox.run(["doctor", "--rebuild-index"]);
    expect(rebuilt.stdout + rebuilt.stderr).toContain(first["handle"]);
    const list = await sandbox.json<{ runs?: unknown[] } & unknown[]>(["list"]);
    expect(JSON.stringify(list)).toContain(second["handle"]);
    sandbox[Symbol.dispose]();
  });
  test("a corrupt index is set aside and rebuilt, and the run resumes", async () => {
    const sandbox = new Sandbox();
    const { handle: known } = await sandbox.json(["start", "demo", "remember 4711"]);
    for (const suffix of ["-wal", "-shm"]) rmSync(join(sandbox.state, `index.db${suffix}`), { force: true });
    writeFileSync(join(sandbox.state, "index.db"), "this is no database ".repeat(500));
    const resumed = await sandbox.run(["resume", known, "what do you remember?"]);
    expect(resumed.stderr).toMatch(/index was damaged.*rebuilt with 1 run/);
    expect(resumed.code).toBe(0);
    expect(resumed.stdout).toContain("4711");
    sandbox[Symbol.dispose]();
  });
});
