/**
 * Every later attempt carries every option of the first start, once, in the engine's resume grammar. The judge is
 * the agent's own journal: the arguments it really got.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
});
afterAll(() => box[Symbol.dispose]());

function configure(text: string): void {
  writeFileSync(join(box.home, ".config/reprise/config.toml"), text);
}

/** Arguments of the agents that started since `from`, in order; what fetches a copy of a session is no agent. */
function argvSince(from: number): string[][] {
  return box
    .journalEntries()
    .slice(from)
    .filter((entry) => entry["event"] === "start" && entry["argv"][0] !== "export")
    .map((entry) => entry["argv"]);
}

interface Case {
  readonly engine: string;
  readonly defaults: readonly string[];
  readonly native: readonly string[];
  /** Absent: the prompt is among the native arguments. */
  readonly prompt?: string;
  readonly first: (id: string) => readonly string[];
  readonly again: (id: string) => readonly string[];
}

const CASES: Record<string, Case> = {
  "codex, a message": {
    engine: "codex",
    defaults: ["-m", "lab-1", "-c", "k.default=0"],
    native: [
      "-c",
      "k.root=1",
      "exec",
      "-s",
      "read-only",
      "--add-dir",
      "/extra",
      "-c",
      "k.exec=2",
      "--skip-git-repo-check",
    ],
    prompt: "do it",
    first: () => [
      ...[
        "exec",
        "--json",
        "-m",
        "lab-1",
        "-c",
        "k.default=0",
        "-c",
        "k.root=1",
        "-s",
        "read-only",
        "--add-dir",
        "/extra",
      ],
      ...["-c", "k.exec=2", "--skip-git-repo-check", "-"],
    ],
    again: (id) => [
      ...[
        "exec",
        "-s",
        "read-only",
        "--add-dir",
        "/extra",
        "resume",
        "--json",
        "-m",
        "lab-1",
        "-c",
        "k.default=0",
        "-c",
        "k.root=1",
      ],
      ...["-c", "k.exec=2", "--skip-git-repo-check", ...untrusted(), id, "-"],
    ],
  },
  "codex, native arguments alone": {
    engine: "codex",
    defaults: ["-m", "lab-1"],
    native: ["-s", "read-only", "exec", "-c", "a=1", "--json", "do it", "--skip-git-repo-check", "-c", "b=2"],
    first: () => [
      ...["-m", "lab-1", "-s", "read-only", "exec", "-c", "a=1", "--json", "do it", "--skip-git-repo-check"],
      ...["-c", "b=2"],
    ],
    again: (id) => [
      ...["exec", "-s", "read-only", "resume", "--json", "-m", "lab-1", "-c", "a=1"],
      ...["--skip-git-repo-check", "-c", "b=2", ...untrusted(), id, "-"],
    ],
  },
  "claude, a message": {
    engine: "claude",
    defaults: ["--model", "lab-1"],
    native: [
      "--permission-mode",
      "plan",
      "--allowedTools",
      "Read",
      "Bash(git *)",
      "--append-system-prompt",
      "be brief",
    ],
    prompt: "do it",
    first: (id) => [
      ...["-p", "--output-format", "stream-json", "--verbose", "--session-id", id, "--model", "lab-1"],
      ...[
        "--permission-mode",
        "plan",
        "--allowedTools",
        "Read",
        "Bash(git *)",
        "--append-system-prompt",
        "be brief",
      ],
    ],
    again: (id) => [
      ...["-p", "--output-format", "stream-json", "--verbose", "--resume", id, "--model", "lab-1"],
      ...[
        "--permission-mode",
        "plan",
        "--allowedTools",
        "Read",
        "Bash(git *)",
        "--append-system-prompt",
        "be brief",
      ],
    ],
  },
  "claude, native arguments alone": {
    engine: "claude",
    defaults: ["--model", "lab-1"],
    native: [
      "--permission-mode=plan",
      "-p",
      "do it",
      "--add-dir",
      "/extra",
      "--output-format",
      "stream-json",
      "--verbose",
    ],
    first: () => [
      ...["--model", "lab-1", "--permission-mode=plan", "-p", "do it", "--add-dir", "/extra"],
      ...["--output-format", "stream-json", "--verbose"],
    ],
    again: (id) => [
      ...["-p", "--output-format", "stream-json", "--verbose", "--resume", id, "--model", "lab-1"],
      ...["--permission-mode=plan", "--add-dir", "/extra"],
    ],
  },
  "gemini, a message": {
    engine: "gemini",
    defaults: ["-m", "lab-1"],
    native: ["--approval-mode", "plan", "--include-directories", "/extra", "-d"],
    prompt: "do it",
    first: (id) => [
      ...["--session-id", id, "-o", "stream-json", "-m", "lab-1", "--approval-mode", "plan"],
      ...["--include-directories", "/extra", "-d"],
    ],
    again: (id) => [
      ...[`--resume=${id}`, "-o", "stream-json", "-m", "lab-1", "--approval-mode", "plan"],
      ...["--include-directories", "/extra", "-d"],
    ],
  },
  "gemini, native arguments alone": {
    engine: "gemini",
    defaults: ["-m", "lab-1"],
    native: ["--approval-mode=plan", "-p", "do it", "-o", "stream-json", "--include-directories=/extra"],
    first: () => [
      ...["-m", "lab-1", "--approval-mode=plan", "-p", "do it", "-o", "stream-json"],
      "--include-directories=/extra",
    ],
    again: (id) => [
      ...[`--resume=${id}`, "-o", "stream-json", "-m", "lab-1", "--approval-mode=plan"],
      "--include-directories=/extra",
    ],
  },
  "iflow, a message": {
    engine: "iflow",
    defaults: ["-m", "lab-1"],
    native: ["--plan", "--include-directories", "/extra", "--max-turns", "9"],
    prompt: "do it",
    first: () => [
      "-m",
      "lab-1",
      "--plan",
      "--include-directories",
      "/extra",
      "--max-turns",
      "9",
      "-p",
      "do it",
    ],
    again: (id) => [
      ...[`--resume=${id}`, "-m", "lab-1", "--plan", "--include-directories", "/extra", "--max-turns", "9"],
      ...["-p", "go on"],
    ],
  },
  "iflow, native arguments alone": {
    engine: "iflow",
    defaults: ["-m", "lab-1"],
    native: ["--plan", "-p", "do it", "--max-turns=9"],
    first: () => ["-m", "lab-1", "--plan", "-p", "do it", "--max-turns=9"],
    again: (id) => [`--resume=${id}`, "-m", "lab-1", "--plan", "--max-turns=9", "-p", "go on"],
  },
  "opencode, a message": {
    engine: "opencode",
    defaults: ["-m", "lab/m1"],
    native: ["--log-level", "WARN", "run", "--agent", "plan", "--variant", "high"],
    prompt: "do it",
    first: () => [
      ...[
        "run",
        "--format",
        "json",
        "--dir",
        box.cwd,
        "--title",
        expect.stringMatching(/^reprise-/) as string,
      ],
      ...["--print-logs", "-m", "lab/m1", "--log-level", "WARN", "--agent", "plan", "--variant", "high"],
    ],
    again: (id) => [
      ...["run", "--format", "json", `--session=${id}`, "--dir", box.cwd, "--print-logs", "-m", "lab/m1"],
      ...["--log-level", "WARN", "--agent", "plan", "--variant", "high"],
    ],
  },
  "opencode, native arguments alone": {
    engine: "opencode",
    defaults: ["-m", "lab/m1"],
    native: ["run", "--agent", "plan", "do it", "--format", "json", "--variant=high"],
    first: () => ["-m", "lab/m1", "run", "--agent", "plan", "do it", "--format", "json", "--variant=high"],
    again: (id) => [
      ...["run", "--format", "json", `--session=${id}`, "--dir", box.cwd, "--print-logs", "-m", "lab/m1"],
      ...["--agent", "plan", "--variant=high"],
    ],
  },
  "demo, a message": {
    engine: "demo",
    // A repeatable one: given twice it would show.
    defaults: ["-m", "lab-1", "--allow", "z"],
    native: ["--mood", "grumpy", "--allow", "a", "--access=write", "--allow", "b"],
    prompt: "do it",
    first: (id) => [
      ...[
        "-m",
        "lab-1",
        "--allow",
        "z",
        "--mood",
        "grumpy",
        "--allow",
        "a",
        "--access=write",
        "--allow",
        "b",
      ],
      ...["--format", "jsonl", "--session-id", id, "-"],
    ],
    again: (id) => [
      ...[
        "-m",
        "lab-1",
        "--allow",
        "z",
        "--mood",
        "grumpy",
        "--allow",
        "a",
        "--access=write",
        "--allow",
        "b",
      ],
      ...["--format", "jsonl", "--resume", id, "-"],
    ],
  },
  "demo, native arguments alone": {
    engine: "demo",
    // A repeatable one: given twice it would show.
    defaults: ["-m", "lab-1", "--allow", "z"],
    native: ["--mood", "grumpy", "do it", "--allow", "a", "--format", "jsonl"],
    first: () => [
      "-m",
      "lab-1",
      "--allow",
      "z",
      "--mood",
      "grumpy",
      "do it",
      "--allow",
      "a",
      "--format",
      "jsonl",
    ],
    again: (id) => [
      "-m",
      "lab-1",
      "--allow",
      "z",
      "--mood",
      "grumpy",
      "--allow",
      "a",
      "--format",
      "jsonl",
      "--resume",
      id,
      "-",
    ],
  },
};

/** The folder was not trusted at the start, so it is not later. */
function untrusted(): readonly string[] {
  const folders: string[] = [];
  for (let at = box.cwd; at !== dirname(at); at = dirname(at)) folders.push(at);
  folders.push("/");
  const entries = folders.map((folder) => `${JSON.stringify(folder)}={trust_level="untrusted"}`);
  return ["-c", `projects={${entries.join(",")}}`];
}

describe("options of the first start", () => {
  test.each(Object.entries(CASES))("%s: reach three resumes completely, once", async (_name, given) => {
    const { engine, defaults, native, prompt } = given;
    configure(`[engines.${engine}]\nargs = ${JSON.stringify(defaults)}\n`);
    const from = box.journalEntries().length;
    const started = await box.json([
      "start",
      engine,
      ...(prompt === undefined ? [] : [prompt]),
      "--",
      ...native,
    ]);
    expect(started).toMatchObject({ ok: true });
    const { handle, session } = started;
    for (let n = 2; n <= 4; n += 1) {
      // Later configuration belongs to later runs.
      if (n === 3) configure(`[engines.${engine}]\nargs = ["--model", "another"]\n`);
      const resumed = await box.json(["resume", handle, "go on"]);
      expect(resumed).toMatchObject({ ok: true, attempt: n, session: { value: session.value } });
    }
    const again = given.again(session.value);
    expect(argvSince(from)).toEqual([given.first(session.value), again, again, again]);
    const { launch, history } = await box.json(["show", handle]);
    // What the run was first started with, as native arguments, whatever came later.
    const stored = (arg: string) => (arg === given.prompt ? "[message]" : arg);
    expect(launch.args).toEqual(given.first(session.value).map(stored));
    for (const attempt of history.slice(1)) {
      expect(attempt.receipt.options.kept.join(" ")).toContain(defaults.join(" "));
    }
    configure("");
  });
});

describe("--native", () => {
  test("holds for one attempt, and with --keep for all later ones", async () => {
    const from = box.journalEntries().length;
    const { handle } = await box.json(["start", "demo", "do it", "--", "-m", "m1", "--access", "write"]);
    await box.run(["resume", "--native", "--mood=grumpy", "--native", "-m", "--native", "m2", handle, "two"]);
    await box.run(["resume", handle, "three"]);
    await box.run(["resume", "--native", "--access", "--native", "read", "--keep", handle, "four"]);
    await box.run(["resume", handle, "five"]);
    const own = argvSince(from).map((argv) => argv.slice(0, argv.indexOf("--format")));
    expect(own).toEqual([
      ["-m", "m1", "--access", "write"],
      ["--access", "write", "--mood=grumpy", "-m", "m2"],
      ["-m", "m1", "--access", "write"],
      ["-m", "m1", "--access", "read"],
      ["-m", "m1", "--access", "read"],
    ]);
    const { launch, history } = await box.json(["show", handle]);
    expect(launch.args.slice(0, 4)).toEqual(["-m", "m1", "--access", "write"]);
    expect(history.map((attempt: { native: string[] }) => attempt.native)).toEqual([
      [],
      ["--mood=grumpy", "-m", "m2"],
      [],
      ["--access", "read"],
      [],
    ]);
  });

  const wider: [engine: string, start: string[], native: string[], words: RegExp][] = [
    ["demo", ["--access", "write"], ["--access", "all"], /--access all would widen/],
    ["demo", [], ["--allow", "x"], /--allow x would add a right/],
    ["codex", ["-s", "read-only"], ["-s", "danger-full-access"], /would widen/],
    ["codex", [], ["--yolo"], /would widen/],
    ["claude", [], ["--dangerously-skip-permissions"], /would/],
    ["claude", ["--permission-mode", "plan"], ["--permission-mode", "bypassPermissions"], /would widen/],
    ["gemini", ["--approval-mode", "plan"], ["--yolo"], /would widen/],
    ["iflow", [], ["--yolo"], /would widen/],
    ["opencode", [], ["--auto"], /would/],
    ["demo", [], ["--unheard-of"], /does not know/],
  ];
  test.each(wider)("%s started with %j does not get %j", async (engine, start, native, words) => {
    const { handle } = await box.json(["start", engine, "do it", "--", ...start]);
    const from = box.journalEntries().length;
    const flags = native.flatMap((arg) => ["--native", arg]);
    const result = await box.run(["resume", ...flags, "--keep", handle, "go on"]);
    expect(result.stderr).toMatch(words);
    expect(result).toMatchObject({ code: 8, stdout: "" });
    expect(argvSince(from)).toEqual([]);
    expect(await box.json(["show", handle])).toMatchObject({ attempts: 1, status: "completed" });
  });

  test.each([
    [["--resume=x"], /Reprise sets the session itself/],
    [["a word"], /takes options, not words/],
    [["-m"], /without its value|needs a value/],
  ])("%j is refused", async (native, words) => {
    const { handle } = await box.json(["start", "demo", "do it"]);
    const result = await box.run(["resume", ...native.flatMap((arg) => ["--native", arg]), handle, "go on"]);
    expect(result.stderr).toMatch(words);
    expect([2, 8]).toContain(result.code);
  });
});

describe("variables", () => {
  test("--env is carried to every resume; a later value holds for that attempt", async () => {
    const started = await box.json(["start", "demo", "@@env:LAB_MODE", "--env", "LAB_MODE=one=1 two"]);
    expect(started["text"]).toContain("LAB_MODE=one=1 two");
    const { handle } = started;
    const answers = [];
    for (const extra of [[], ["--env", "LAB_MODE=other"], []]) {
      answers.push(
        (await box.json(["resume", ...extra, handle, "@@env:LAB_MODE"]))["text"].match(/LAB_MODE=(.*)$/)?.[1],
      );
    }
    expect(answers).toEqual(["one=1 two", "other", "one=1 two"]);
  });

  test("a secret is not stored and is requested again, and the environment may provide it", async () => {
    const secret = "swordfish-swordfish-9";
    const started = await box.json(["start", "demo", "@@env:X_TOKEN", "--env", `X_TOKEN=${secret}`]);
    const { handle } = started;
    expect((await box.json(["show", handle]))["launch"].env).toEqual([{ name: "X_TOKEN", value: null }]);
    const from = box.journalEntries().length;
    const refused = await box.run(["resume", handle, "go on"]);
    expect(refused.code).toBe(8);
    expect(refused.stderr).toContain("--env X_TOKEN=");
    expect(argvSince(from)).toEqual([]);
    const given = await box.json(["resume", "--env", `X_TOKEN=${secret}`, handle, "@@env:X_TOKEN"]);
    const inherited = await box.json(["resume", handle, "@@env:X_TOKEN"], { env: { X_TOKEN: secret } });
    for (const { ok, text } of [given, inherited])
      expect([ok, text]).toEqual([true, expect.stringContaining("X_TOKEN=")]);
    expect([given["text"], inherited["text"]].join()).not.toContain("(unset)");
  });
});
