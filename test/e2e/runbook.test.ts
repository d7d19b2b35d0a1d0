/** `reprise runbook`, as docs/cli.md and docs/runbooks.md describe it. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const SEED = `[agent.worker]
run = "claude"
on_dead = { action = "resume", message = "Continue from where you left off.", append = true }
on_error = [
  { match = "rate_limited", action = "resume", cooldown = "60s" },
]
`;

let projects = 0;
/** A separate repository with these files. */
function project(files: Readonly<Record<string, string>>): string {
  projects += 1;
  const cwd = join(box.root, `project-${projects}`);
  for (const [name, text] of Object.entries({ ".git/HEAD": "", ...files })) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    writeFileSync(join(cwd, name), text);
  }
  return cwd;
}

describe("check", () => {
  test("prints every problem of every runbook, and exits with 2", async () => {
    const cwd = project({
      "runbooks/a.toml": SEED,
      "runbooks/b.toml": '[agent.other]\nrum = "claude"\nidle_after = "5 parsecs"\non_dead = "recover"\n',
      "runbooks/c.hcl": 'agent "third" {\n  run = "claude | tee log"\n}\n',
    });
    const result = await box.run(["runbook", "check"], { cwd });
    expect(result.stdout.split("\n")).toEqual([
      "runbooks/a.toml: good (agent.worker)",
      'runbooks/b.toml:1:8: agent.other has neither run nor engine; give run = "claude", or engine = "codex".',
      "runbooks/b.toml:2:1: agent.other.rum is unknown. Did you mean run?",
      'runbooks/b.toml:3:14: agent.other.idle_after is a duration in quotes from 1s to 365d, such as "60s" or "1h30m".',
      "runbooks/b.toml:4:11: warning: agent.other.on_dead: recover is the old name of resume; write resume.",
      "runbooks/c.hcl:2:17: agent.third.run contains |, which needs a shell, and Reprise uses none. Put the word in single quotes to pass it on unchanged.",
      "",
    ]);
    expect(result.code).toBe(2);
  });

  test("exits with 0 for warnings alone", async () => {
    const cwd = project({ "x.json": '{"agent":{"a":{"run":"claude","on_dead":"recover"}}}' });
    const result = await box.run(["runbook", "check", "x.json"], { cwd });
    expect([result.code, result.stdout.split("\n").length]).toEqual([0, 3]);
  });

  test("prints JSON with --json", async () => {
    const cwd = project({ "x.toml": '[agent.a]\nrun = "claude"\nmode = 5\n' });
    const result = await box.run(["runbook", "check", "x.toml", "--json"], { cwd });
    const reason = "agent.a.mode is one of interactive, headless.";
    expect([result.code, JSON.parse(result.stdout)]).toEqual([
      2,
      {
        ok: false,
        error: {
          code: "runbook_invalid",
          message: "1 error in 1 runbook.",
          facts: { errors: 1, retryable: false },
        },
        runbooks: [
          {
            file: join(cwd, "x.toml"),
            level: "project",
            agents: ["a"],
            pipelines: [],
            problems: [{ severity: "error", line: 3, column: 8, reason }],
          },
        ],
      },
    ]);
  });

  test("accepts no runbooks, and refuses a missing file", async () => {
    const cwd = project({});
    const none = await box.run(["runbook", "check"], { cwd });
    expect([none.code, none.stdout]).toEqual([0, ""]);
    expect(none.stderr).toContain("no runbooks found");
    const missing = await box.run(["runbook", "check", "no.toml"], { cwd });
    expect([missing.code, missing.stdout]).toEqual([2, "no.toml:1:1: The file does not exist.\n"]);
  });

  test("knows an engine of the user's config", async () => {
    const config = join(box.root, "config");
    mkdirSync(join(config, "reprise"), { recursive: true });
    const cwd = project({ "x.toml": '[agent.a]\nengine = "parrot"\nprompt = "x"\n' });
    const before = await box.run(["runbook", "check", "x.toml"], { cwd, env: { XDG_CONFIG_HOME: config } });
    expect([before.code, before.stdout]).toEqual([
      2,
      'x.toml:2:10: agent.a.engine: no engine has the name "parrot". There are codex, claude, gemini, iflow, opencode, demo.\n',
    ]);
    const parrot = `[engines.parrot]\nprogram = "parrot"\nstart = ["ask"]\nresume = ["ask", "{session}"]
session = { field = "id", format = "uuid" }\nevents = { session = "type=init", done = "type=result" }\n`;
    writeFileSync(join(config, "reprise/config.toml"), parrot);
    const after = await box.run(["runbook", "check", "x.toml"], { cwd, env: { XDG_CONFIG_HOME: config } });
    expect([after.code, after.stdout]).toEqual([0, "x.toml: good (agent.a)\n"]);
  });

  test("keeps control characters of a file away from the terminal", async () => {
    const cwd = project({ "x.json": '{"agent":{"\\u001b[31mred":{}}}' });
    const result = await box.run(["runbook", "check", "x.json"], { cwd });
    expect(result.stdout).toContain("agent.\\x1b[31mred is not a valid name");
  });
});

describe("--explain", () => {
  test("prints what would happen", async () => {
    const cwd = project({ "runbooks/a.toml": SEED });
    const explain = ["runbook", "check", "runbooks/a.toml", "--explain", "agent.worker", "on_error"];
    const limited = await box.run([...explain, "rate_limited"], { cwd });
    expect(limited.code).toBe(0);
    expect(limited.stdout.split("\n").slice(0, 2)).toEqual([
      "agent.worker (claude, interactive), on_error rate_limited",
      "  1. resume, once, after a cooldown of 1 m",
    ]);
    const auth = await box.run([...explain, "auth"], { cwd });
    expect(auth.stdout).toContain("resume is skipped: it answers rate_limited\n  Then it escalates");
  });

  test.each([
    [["agent.worker"], "--explain takes an agent, a trigger"],
    [["agent.worker", "on_fire"], "--explain takes an agent, a trigger"],
    [["agent.worker", "on_dead", "auth"], "on_dead takes no kind of error"],
    [["agent.worker", "on_error", "ratelimited"], "Did you mean rate_limited?"],
    [["agent.nobody", "on_error"], "agent.nobody: No runbook that was looked at defines it."],
  ])("%j is refused", async (what, why) => {
    const cwd = project({ "runbooks/a.toml": SEED });
    const result = await box.run(["runbook", "check", "--explain", ...what], { cwd });
    expect(result.code).toBe(what[0] === "agent.nobody" ? 3 : 2);
    expect(result.stderr).toContain(why);
  });
});

describe("list", () => {
  test("shows the project's and the user's runbooks", async () => {
    const config = join(box.root, "config-2");
    mkdirSync(join(config, "reprise/runbooks"), { recursive: true });
    writeFileSync(
      join(config, "reprise/runbooks/own.toml"),
      '[agent.worker]\nrun = "claude"\n[agent.mine]\nrun = "claude"\n',
    );
    const cwd = project({
      "runbooks/a.toml": `${SEED}[[pipeline.ci.step]]\nname = "build"\nrun = ["make"]\n[[pipeline.ci.step]]\nname = "work"\nagent = "worker"\n`,
    });
    const result = await box.run(["runbook", "list"], { cwd, env: { XDG_CONFIG_HOME: config } });
    const own = join(config, "reprise/runbooks/own.toml");
    expect(result.stdout.split("\n")).toEqual([
      "NAME          DOES                 VARIABLES  FILE",
      "agent.worker  claude, interactive  -          runbooks/a.toml",
      "pipeline.ci   build → work         -          runbooks/a.toml",
      `agent.worker  claude, interactive  -          ${own} (hidden by the project's)`,
      `agent.mine    claude, interactive  -          ${own}`,
      "",
    ]);
  });
});

test.each([
  [["runbook", "chek"], "Did you mean `reprise runbook check`?"],
  [["runbook"], "Usage: reprise runbook <verb>"],
  [["runbook", "list", "x.toml"], "takes no files"],
])("%j is refused", async (args, why) => {
  const result = await box.run(args);
  expect([result.code, result.stdout]).toEqual([2, ""]);
  expect(result.stderr).toContain(why);
});

test("other commands load no code of runbooks", () => {
  const dist = dirname(CLI);
  const text = (file: string) => readFileSync(join(dist, file), "utf8");
  const files = readdirSync(dist).filter((file) => file.endsWith(".js"));
  /** What a file loads before it runs: not what it imports when it needs it. */
  const later = /Promise\.resolve\(\)\.then\(\(\)=>[\w$]*\(?require\("[^"]+"\)/g;
  const loaded = (start: string, seen = new Set<string>()): ReadonlySet<string> => {
    if (seen.has(start)) return seen;
    seen.add(start);
    for (const [, next = ""] of text(start)
      .replaceAll(later, "")
      .matchAll(/require\("\.\/([^"]+\.js)"\)/g))
      loaded(next, seen);
    return seen;
  };
  const chunks = (name: RegExp) => files.filter((file) => name.test(file));
  const ours = files.filter((file) => text(file).includes("is nested deeper than"));
  expect(ours.length).toBeGreaterThan(0);
  const starts = ["reprise.js", ...chunks(/^chunk-(?:hot\d|cli|cli-start|cli-resume)-[0-9A-Z]{8}\.js$/)];
  expect(starts.length).toBeGreaterThanOrEqual(6);
  for (const start of [...starts, ...chunks(/^chunk-cli-runbook-/)]) {
    expect(loaded(start).size).toBeGreaterThan(0);
    expect([...loaded(start)].filter((file) => ours.includes(file))).toEqual([]);
  }
});
