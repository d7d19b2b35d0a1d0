/** `config.toml` of the user and `reprise.toml` of a project, as docs/config.md describes them. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

const DEMO_AGENT = resolve("dist/demo-agent.js");
let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
});
afterAll(() => box[Symbol.dispose]());

const userFile = () => join(box.home, ".config/reprise/config.toml");
beforeEach(() => writeFileSync(userFile(), ""));

/** A separate project with this `reprise.toml`. */
function project(name: string, toml: string): { cwd: string; file: string } {
  const cwd = join(box.root, name);
  mkdirSync(cwd, { recursive: true });
  writeFileSync(join(cwd, "reprise.toml"), toml);
  return { cwd, file: join(cwd, "reprise.toml") };
}

function startsSince(from: number): Record<string, any>[] {
  return box
    .journalEntries()
    .slice(from)
    .filter((entry) => entry["event"] === "start");
}

describe("the user's file", () => {
  test("sets program, args, env and home of an engine", async () => {
    const program = join(box.root, "my-codex");
    writeFileSync(program, readFileSync(join(box.bin, "codex")), { mode: 0o755 });
    const home = join(box.root, "codex-home");
    mkdirSync(home);
    writeFileSync(
      userFile(),
      `[engines.codex]\nprogram = "${program}"\nargs = ["-m", "lab-1"]\nenv = { LAB_MODE = "one two" }\nhome = "${home}"\n`,
    );
    const started = await box.json(["start", "codex", "remember 4711 @@env:LAB_MODE"]);
    expect(started["text"]).toContain("model=lab-1");
    expect(started["text"]).toContain("LAB_MODE=one two");
    const record = await box.json(["show", started["handle"]]);
    expect(record).toMatchObject({ engineHome: home, launch: { program } });
    expect(existsSync(join(home, "sessions"))).toBe(true);
    const resumed = await box.json(["resume", started["handle"], "what do you remember? @@env:LAB_MODE"]);
    expect(resumed["text"]).toContain("4711");
    expect(resumed["text"]).toContain("LAB_MODE=one two");
    const doctor = await box.json(["doctor"]);
    expect(JSON.stringify(doctor["engines"])).toContain(program);
  });

  test("sets limits", async () => {
    writeFileSync(userFile(), 'idle_timeout = "1s"\n');
    const stopped = await box.json(["start", "demo", "@@hang"]);
    expect(stopped).toMatchObject({ ok: false, outcome: { reason: "no sign of life for 1 s" } });
  });

  const wrong: [name: string, toml: string, words: string[]][] = [
    ["an unknown key, with the nearest one", "idle_timeot = '1s'\n", ["idle_timeot", "idle_timeout"]],
    [
      "an unknown key of an engine",
      '[engines.codex]\nprogramm = "x"\n',
      ["engines.codex.programm", "program"],
    ],
    ["bad TOML, with its line", "escrow = 256\ntimeout = \n", ["line 2"]],
    ["a bad duration", 'timeout = "5 parsecs"\n', ["timeout", '"15m"']],
    ["a duration without quotes", "timeout = 15\n", ["timeout", "quotes"]],
    ["a command as one text", '[engines.codex]\nargs = "-m lab"\n', ["engines.codex.args"]],
    ["a relative program", '[engines.codex]\nprogram = "./x"\n', ["absolute path"]],
    ["a duplicate key", "escrow = 1\nescrow = 2\n", ["line 2"]],
    ["__proto__", "[engines.__proto__]\nprogram = 'x'\n", ["config.toml"]],
  ];
  test.each(wrong)("%s", async (_name, toml, words) => {
    writeFileSync(userFile(), toml);
    const before = box.runDirectories().length;
    const result = await box.run(["start", "demo", "hello"]);
    expect(result).toMatchObject({ code: 2, stdout: "" });
    for (const word of [userFile(), ...words]) expect(result.stderr).toContain(word);
    expect(result.stderr).not.toMatch(/\n\s+at |this is a bug/);
    expect(box.runDirectories()).toHaveLength(before);
  });

  test("does not hang when it is a FIFO", async () => {
    const config = join(box.root, "fifo-config/reprise");
    mkdirSync(config, { recursive: true });
    spawnSync("mkfifo", [join(config, "config.toml")]);
    const result = await box.run(["list"], { env: { XDG_CONFIG_HOME: join(box.root, "fifo-config") } });
    expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining("not a regular file") });
  });
});

describe("an engine from the config", () => {
  const PARROT = `
[engines.parrot]
program = "parrot"
title = "Parrot"
start = ["--format", "jsonl", "{options}", "-"]
resume = ["--format", "jsonl", "{options}", "--resume", "{session}", "-"]
session = { field = "session_id", format = "uuid" }

[engines.parrot.events]
session = "type=session"
delta = "type=text : delta"
done = "type=turn.ended result=completed"
failed = "type=turn.ended result=failed : error.message"
tool_started = "type=tool.started : name"
tool_ended = "type=tool.ended : name"
`;
  beforeAll(() => box.program("parrot", `exec '${process.execPath}' '${DEMO_AGENT}' "$@"`));
  beforeEach(() => writeFileSync(userFile(), PARROT));

  test("starts and resumes twice in the same conversation with the same options", async () => {
    const from = box.journalEntries().length;
    const started = await box.json([
      "start",
      "parrot",
      "remember 4711",
      "--",
      "--model",
      "m1",
      "--mood=grumpy",
    ]);
    expect(started).toMatchObject({ ok: true, agentName: "parrot", session: { field: "session_id" } });
    const { handle, session } = started;
    for (const attempt of [2, 3]) {
      const resumed = await box.json(["resume", handle, "what do you remember?"]);
      expect(resumed).toMatchObject({
        ok: true,
        attempt,
        session: { value: session.value },
        receipt: { verified: "engine_reported" },
      });
      expect(resumed["text"]).toContain("4711");
    }
    const options = ["--format", "jsonl", "--model", "m1", "--mood=grumpy"];
    const again = [...options, "--resume", session.value, "-"];
    expect(startsSince(from).map((entry) => entry["argv"])).toEqual([[...options, "-"], again, again]);
    expect((await box.run(["list", "--engine", "parrot", "--handles"])).stdout).toBe(`${handle}\n`);
  });

  test("reports failures, deaths and other conversations distinctly", async () => {
    const limited = await box.json(["start", "parrot", "remember 4711 @@429"]);
    expect(limited).toMatchObject({
      ok: false,
      exitCode: 75,
      outcome: { result: "failed", trouble: { kind: "rate_limited" } },
    });
    const died = await box.json(["start", "parrot", "remember 4711 @@die"]);
    expect(died).toMatchObject({ ok: false, outcome: { result: "interrupted" } });
    const resumed = await box.json(["resume", died["handle"], "what do you remember?"]);
    expect(resumed["text"]).toContain("4711");
    const other = await box.json(["resume", died["handle"], "go on @@other-session"]);
    expect(other).toMatchObject({ ok: false, outcome: { result: "diverged" } });
  });

  test("that is gone from the config is named as missing by its run", async () => {
    const { handle } = await box.json(["start", "parrot", "hello"]);
    writeFileSync(userFile(), "");
    const result = await box.run(["resume", handle, "go on"]);
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining("Put [engines.parrot] back") });
    expect(await box.run(["show", handle])).toMatchObject({ code: 0 });
  });
});

describe("the project's file", () => {
  test("needs no trust for harmless keys, and is found from a sub-directory of the repository", async () => {
    const { cwd } = project("harmless", 'idle_timeout = "1s"\nescrow = "off"\n');
    mkdirSync(join(cwd, ".git"));
    mkdirSync(join(cwd, "src/deep"), { recursive: true });
    const stopped = await box.json(["start", "demo", "@@hang"], { cwd: join(cwd, "src/deep") });
    expect(stopped).toMatchObject({ outcome: { reason: "no sign of life for 1 s" } });
    expect(existsSync(join(stopped["runDirectory"], "escrow"))).toBe(false);
  });

  test("with powers is refused without trust, used with it, and refused again after a change", async () => {
    const text = '[engines.demo]\nargs = ["--model", "theirs"]\nenv = { LAB_MODE = "theirs" }\n';
    const { cwd, file } = project("powers", text);
    const refuse = async (...args: string[]) => {
      const from = box.journalEntries().length;
      const runs = box.runDirectories().length;
      const result = await box.run(args, { cwd });
      expect(result).toMatchObject({ code: 8, stdout: "" });
      for (const word of [file, "engines.demo.args", "--trust-cwd"]) expect(result.stderr).toContain(word);
      expect([startsSince(from).length, box.runDirectories().length]).toEqual([0, runs]);
    };
    await refuse("start", "demo", "hello");
    const trusted = await box.json(["start", "demo", "hello @@env:LAB_MODE", "--trust-cwd"], { cwd });
    expect(trusted["text"]).toContain("model=theirs");
    expect(trusted["text"]).toContain("LAB_MODE=theirs");
    // Trusted once, trusted as it is: also from elsewhere, where only the run leads to it.
    expect(await box.json(["resume", trusted["handle"], "go on"])).toMatchObject({ ok: true });
    expect((await box.json(["start", "demo", "hello"], { cwd }))["text"]).toContain("model=theirs");
    writeFileSync(file, `${text}# a word more\n`);
    await refuse("start", "demo", "hello");
    await refuse("resume", trusted["handle"], "go on");
    // Looking needs no trust.
    expect(await box.run(["list", "--here"], { cwd })).toMatchObject({ code: 0 });
    expect(await box.run(["show", trusted["handle"]], { cwd })).toMatchObject({ code: 0 });
    expect(await box.run(["resume", trusted["handle"], "--dry-run"], { cwd })).toMatchObject({ code: 0 });
  });

  test.each([
    ["a program", '[engines.codex]\nprogram = "/bin/true"\n', "engines.codex.program"],
    ["a home", '[engines.codex]\nhome = "/nowhere"\n', "engines.codex.home"],
    [
      "an engine",
      '[engines.evil]\nprogram = "sh"\nstart = ["-c", "true"]\nresume = ["{session}"]\n' +
        'session = { field = "id", format = "uuid" }\nevents = { session = "type=a", done = "type=b" }\n',
      "engines.evil",
    ],
  ])("%s needs trust", async (name, toml, key) => {
    const { cwd } = project(`power-${name.replaceAll(" ", "-")}`, toml);
    const result = await box.run(["start", "demo", "hello"], { cwd });
    expect(result).toMatchObject({ code: 8, stderr: expect.stringContaining(key) });
  });

  test("cannot change every program, even with trust", async () => {
    const { cwd } = project("preload", '[engines.demo]\nenv = { LD_PRELOAD = "/tmp/x.so" }\n');
    const result = await box.run(["start", "demo", "hello", "--trust-cwd"], { cwd });
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining("LD_PRELOAD") });
  });

  test("wins over the user's, and default arguments of both are joined", async () => {
    writeFileSync(
      userFile(),
      '[engines.demo]\nargs = ["--mood", "grumpy"]\nenv = { A_MODE = "user", B_MODE = "user" }\n',
    );
    const { cwd } = project(
      "both",
      '[engines.demo]\nargs = ["--model", "theirs"]\nenv = { B_MODE = "project" }\n',
    );
    const { text } = await box.json(["start", "demo", "hi @@env:A_MODE @@env:B_MODE", "--trust-cwd"], {
      cwd,
    });
    expect(text).toContain("model=theirs mood=grumpy");
    expect(text).toMatch(/A_MODE=user B_MODE=project/);
  });
});
