/** A config file that cannot be read stops what starts agents, and nothing else. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Sandbox, until } from "../e2e/sandbox.ts";

let box: Sandbox;
let project: string;
let handle: string;
beforeAll(async () => {
  box = new Sandbox();
  project = join(box.root, "project");
  mkdirSync(join(project, ".git"), { recursive: true });
  handle = (await box.json(["start", "demo", "remember 4711"]))["handle"];
});
afterEach(() => {
  rmSync(userFile(), { recursive: true, force: true });
  rmSync(join(project, "reprise.toml"), { recursive: true, force: true });
});
afterAll(() => box[Symbol.dispose]());

const userFile = () => join(box.home, ".config/reprise/config.toml");
function writeUserFile(text: string): string {
  mkdirSync(dirname(userFile()), { recursive: true });
  writeFileSync(userFile(), text);
  return userFile();
}

const warningsIn = (stderr: string): string[] =>
  stderr.split("\n").filter((line) => line.includes("warning:"));

const SYNTAX = "escrow = 256\ntimeout = \n";

/** Commands that start no agent, and their exit codes without a problem. */
const LOOKING: [args: string[], code: number][] = [
  [["list"], 0],
  [["list", "--engine", "parrot"], 0],
  [["show", "HANDLE"], 0],
  [["logs", "HANDLE"], 0],
  [["logs", "HANDLE", "--redacted"], 0],
  [["export", "HANDLE", "--force"], 0],
  [["stop", "HANDLE"], 0],
  [["prune", "--older-than", "300d"], 0],
  [["rm", "ffffffff"], 3],
  [["adopt"], 0],
  [["status"], 0],
  [["daemon", "status"], 3],
  [["daemon", "stop"], 0],
  [["daemon", "logs"], 0],
  [["agent", "list"], 0],
  [["agent", "show", "ffffffff"], 3],
  [["agent", "stop", "ffffffff"], 3],
  [["agent", "logs", "HANDLE"], 0],
  [["attach", "ffffffff"], 3],
  [["pipeline", "list"], 0],
  [["pipeline", "cancel", "ffffffff"], 3],
  [["decisions", "list"], 0],
];

/** Commands that start an agent, or say what a start would do. */
const STARTING = [
  ["start", "demo", "hello"],
  ["start", "demo", "hello", "--detach"],
  ["resume", "HANDLE", "go on"],
  ["resume", "--dry-run", "HANDLE"],
  ["demo"],
  ["agent", "run", "worker"],
  ["agent", "send", "HANDLE", "hello"],
  ["agent", "resume", "--all"],
  ["pipeline", "run", "ci"],
  ["pipeline", "resume", "ffffffff"],
  ["issues", "run"],
  ["issues", "run", "--dry-run"],
  ["daemon", "start"],
  ["doctor", "--certify"],
  ["review", "--run"],
];

describe("a syntax error in the user's config", () => {
  const fill = (args: readonly string[]) => args.map((arg) => (arg === "HANDLE" ? handle : arg));

  test.each(LOOKING)("lets %j work, with one warning", async (args, code) => {
    const file = writeUserFile(SYNTAX);
    const result = await box.run(fill(args));
    expect({ code: result.code, warnings: warningsIn(result.stderr) }).toEqual({
      code,
      warnings: [expect.stringContaining(`${file}, line 2`)],
    });
  });

  test.each([
    [["completion", "bash"]],
    [["explain", "--engine", "codex"]],
    [["runbook", "list"]],
    [["list", "--help"]],
  ])("does not concern %j, which needs no config and prints no warning", async (args) => {
    writeUserFile(SYNTAX);
    expect(await box.run(args)).toMatchObject({
      code: 0,
      stderr: expect.not.stringContaining("config.toml"),
    });
  });

  test.each(STARTING.map((args) => [args]))("makes %j refuse", async (args) => {
    const file = writeUserFile(SYNTAX);
    const runs = box.runDirectories().length;
    const result = await box.run(fill(args));
    expect({ code: result.code, stdout: result.stdout, runs: box.runDirectories().length }).toEqual({
      code: 2,
      stdout: "",
      runs,
    });
    expect(result.stderr.trim()).toBe(
      `reprise: ${file}, line 2, column 11: ${result.stderr.trim().split(": ").slice(2).join(": ")}`,
    );
  });

  test("is named by doctor as a finding, once, with exit code 1", async () => {
    const file = writeUserFile(SYNTAX);
    const text = await box.run(["doctor"]);
    expect(text).toMatchObject({ code: 1, stderr: "" });
    expect(text.stdout.split(`${file}, line 2`)).toHaveLength(2);
    const { ok, findings } = await box.json(["doctor"]);
    expect(ok).toBe(false);
    expect(findings).toContainEqual(
      expect.objectContaining({ level: "attention", about: "config", what: expect.stringContaining(file) }),
    );
  });

  test("lets a live agent be stopped, and its run removed", async () => {
    const { handle: live } = await box.json(["start", "demo", "@@hang", "--detach"]);
    writeUserFile(SYNTAX);
    expect(await box.run(["stop", live])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("has stopped"),
    });
    expect(await box.run(["rm", live])).toMatchObject({ code: 0, stdout: `Removed run ${live}.\n` });
  });

  test("shows a run that died meanwhile as interrupted, and its end is recorded later", async () => {
    const before = new Set(box.runDirectories());
    const child = box.spawn(["start", "demo", "@@hang"]);
    await until("an attempt of the hanging agent is recorded", () =>
      box
        .runDirectories()
        .some((path) => !before.has(path) && existsSync(join(path, "attempts/1/stdout.log"))),
    );
    child.kill("SIGKILL");
    await new Promise((ended) => child.once("close", ended));
    writeUserFile(SYNTAX);
    const [broken] = (await box.json(["list", "--limit", "1"]))["runs"];
    expect(broken).toMatchObject({ status: "interrupted" });
    const meta = () => box.json(["show", broken.handle]);
    expect(await meta()).toMatchObject({ status: "interrupted", history: [{ outcome: null }] });
    rmSync(userFile());
    expect(await meta()).toMatchObject({ status: "interrupted", history: [{ state: "ended" }] });
  });
});

describe("other mistakes", () => {
  const kinds: [what: string, toml: string, words: string][] = [
    ["an unknown key", "idle_timeot = '1s'\n", "Did you mean idle_timeout?"],
    ["a wrong type", "timeout = 15\n", "timeout is a duration in quotes"],
    ["a value in place of a table", "engines = 3\n", "engines is a table"],
    ["a binary file", "\0\0\0", "UTF-16"],
  ];
  const works = async (file: string, words: string, cwd: string) => {
    for (const args of [["adopt"], ["issues", "status"]]) {
      const result = await box.run(args, { cwd });
      expect(warningsIn(result.stderr)).toEqual([expect.stringContaining(file)]);
      expect(result.stderr).toContain(words);
      expect(result.stderr).not.toContain("config_invalid");
    }
    expect(await box.run(["adopt"], { cwd })).toMatchObject({ code: 0 });
    expect(await box.run(["start", "demo", "hello"], { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(words),
    });
  };

  test.each(kinds)("%s in the user's file causes a warning", (_what, toml, words) =>
    works(writeUserFile(toml), words, box.cwd),
  );

  test.each(kinds)("%s in the project's file causes a warning", (_what, toml, words) => {
    const file = join(project, "reprise.toml");
    writeFileSync(file, toml);
    return works(file, words, project);
  });

  test("a directory in place of the file causes a warning", () => {
    mkdirSync(userFile(), { recursive: true });
    return works(userFile(), "is not a regular file", box.cwd);
  });

  test("several mistakes are one warning line, and doctor has all of them", async () => {
    writeUserFile('timeout = 15\nescrow = "x"\n[engines.codex]\nprogramm = "x"\n');
    const { stderr } = await box.run(["list"]);
    expect(stderr.trim().split("\n")).toEqual([
      expect.stringContaining("(and 2 more problems; see `reprise doctor`)"),
    ]);
    const { findings } = await box.json(["doctor"]);
    expect(findings.filter(({ about }: { about: string }) => about === "config")).toHaveLength(3);
  });

  test("the correct parts of the file still count", async () => {
    const program = join(box.bin, "codex");
    writeUserFile(
      `timeout = 15\n[engines.codex]\nprogram = "${program}"\n[engines.gemini]\nprogramm = "x"\n`,
    );
    const { engines } = await box.json(["doctor"]);
    expect(engines).toContainEqual(expect.objectContaining({ id: "codex", program }));
  });
});
