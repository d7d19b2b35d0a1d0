/**
 * Runbooks as files: bad ones with position and reason of every problem, good ones in three formats, where they are
 * found, and the resulting agents. `runbooks.fixtures/bad.expected` is the output of `reprise runbook check`.
 */
import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { engineTraits } from "../cli/runbook.ts";
import { Fault } from "../core/faults.ts";
import { ENGINES } from "../engines/engines.ts";
import { type Engines, findAgent, findPipeline, findRunbooks, hasErrors, openRunbook } from "./runbooks.ts";
import type { Runbook } from "./runbooks.ts";

const fixtures = fileURLToPath(new URL("runbooks.fixtures/", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "reprise-runbooks-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const own = engineTraits(ENGINES);
/** The real engines, and one without a UI. */
const engines: Engines = {
  ids: [...own.ids, "plain"],
  find: (id) =>
    id === "plain"
      ? { hasUi: false, tellsIdle: false, opensUi: () => false, refuses: () => null }
      : own.find(id),
};

function lines(name: string, { problems }: Runbook): string[] {
  return problems.map(
    ({ line, column, level, reason }) =>
      `${name}:${line}:${column}: ${level === "warning" ? "warning: " : ""}${reason}`,
  );
}

let worlds = 0;
/** A fresh repository with these files. */
function world(files: Readonly<Record<string, string | Buffer>>): string {
  worlds += 1;
  const base = join(root, String(worlds));
  for (const [name, content] of Object.entries({ ".git/HEAD": "", ...files })) {
    mkdirSync(dirname(join(base, name)), { recursive: true });
    writeFileSync(join(base, name), content);
  }
  return base;
}

const at = (cwd: string, env = {}) => ({ cwd, env, engines, vars: {} });

async function check(name: string, content: string | Buffer): Promise<string[]> {
  const base = world({ [name]: content });
  return lines(name, await openRunbook(name, at(base)));
}

async function faultOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return error instanceof Fault ? `${error.code}: ${error.message}` : `no fault: ${String(error)}`;
}

describe("bad runbooks", () => {
  const names = readdirSync(join(fixtures, "bad")).toSorted();
  const expected = readFileSync(join(fixtures, "bad.expected"), "utf8").trimEnd().split("\n");

  test.each(names)("%s", async (name) => {
    const runbook = await openRunbook(join(fixtures, "bad", name), at(fixtures));
    expect(lines(name, runbook)).toEqual(expected.filter((line) => line.startsWith(`${name}:`)));
    expect(hasErrors(runbook)).toBe(true);
  });

  test("have a file for every expected line", () => {
    expect(new Set(expected.map((line) => line.split(":")[0]))).toEqual(new Set(names));
  });

  const worker = '[agent.worker]\nrun = "claude"\n';
  const deep = 100_000;
  const cases: Record<string, [file: string, content: string | Buffer, problem: string]> = {
    "nothing in it": ["a.toml", "", "a.toml:1:1: The file is empty."],
    "blanks alone": ["a.hcl", " \n\t\r\n", "a.hcl:1:1: The file is empty."],
    "a comment alone": ["a.toml", "# later\n", "a.toml:1:1: This file defines no agent and no pipeline."],
    "UTF-16 with a mark": [
      "a.toml",
      Buffer.from(`\uFEFF${worker}`, "utf16le"),
      "a.toml:1:1: The file looks like UTF-16; save it as UTF-8.",
    ],
    "UTF-16 without one": [
      "a.toml",
      Buffer.from(worker, "utf16le"),
      "a.toml:1:1: The file looks like UTF-16; save it as UTF-8.",
    ],
    "a zero byte": ["a.toml", `${worker}cwd = "\0"\n`, "a.toml:3:8: The file contains a zero byte."],
    "bytes that are not UTF-8": [
      "a.toml",
      Buffer.concat([Buffer.from(`${worker}cwd = "`), Buffer.from([0xff, 0x22])]),
      "a.toml:3:8: The file is not UTF-8.",
    ],
    "more than 1 MiB": [
      "a.toml",
      `${worker}prompt = "${"x".repeat(1024 * 1024)}"`,
      "a.toml:1:1: The file is larger than 1 MiB.",
    ],
    "an unknown format": [
      "a.yaml",
      "agent: x",
      "a.yaml:1:1: The file's name ends with none of .toml, .hcl, .json, so its format is unknown.",
    ],
    "deep TOML": [
      "a.toml",
      `a = ${"[".repeat(deep)}${"]".repeat(deep)}`,
      "a.toml:1:37: This is nested deeper than 32 levels.",
    ],
    "deep enough TOML": [
      "a.toml",
      `a = ${"[".repeat(40)}${"]".repeat(40)}`,
      "a.toml:1:37: This is nested deeper than 32 levels.",
    ],
    "deep TOML keys": [
      "a.toml",
      `a${".b".repeat(200)} = 1`,
      "a.toml:1:67: This is nested deeper than 32 levels.",
    ],
    "deep TOML headers": [
      "a.toml",
      `[a${".b".repeat(200)}]`,
      "a.toml:1:66: This is nested deeper than 32 levels.",
    ],
    "a text of a megabyte in TOML": [
      "a.toml",
      `${worker}prompt = "${"x".repeat(1_000_000)}"\n`,
      "a.toml:3:1: A text here is too long to be read. Put it into a file and name it in prompt_file.",
    ],
    "more steps than anybody reads": [
      "a.toml",
      Array.from({ length: 201 }, (_, n) => `[[pipeline.ci.step]]\nname = "s${n}"\nrun = ["make"]\n`).join(
        "",
      ),
      "a.toml:1:15: pipeline.ci has 201 steps; 200 is the most.",
    ],
    "a call in an indented heredoc": [
      "a.hcl",
      'agent "worker" {\n  run = "claude"\n  prompt = <<-END\n    one\n      two ${env.HOME}\n    END\n}\n',
      "a.hcl:5:11: A runbook evaluates nothing: a text may contain only ${var.NAME}. Write $${ for a plain ${.",
    ],
    "deep JSON": ["a.json", "[".repeat(deep), "a.json:1:34: This is nested deeper than 32 levels."],
    "deep HCL": ["a.hcl", `a = ${"[".repeat(deep)}`, "a.hcl:1:37: This is nested deeper than 32 levels."],
    "deep HCL blocks": ["a.hcl", "a {\n".repeat(deep), "a.hcl:34:1: This is nested deeper than 32 levels."],
  };
  test.each(Object.entries(cases))("%s", async (_name, [file, content, problem]) => {
    expect(await check(file, content)).toEqual([problem]);
  });

  test("a directory, a pipe, a device and a missing file are refused at once", async () => {
    const base = world({ "dir.toml/x": "" });
    execFileSync("mkfifo", [join(base, "pipe.toml")]);
    symlinkSync("/dev/zero", join(base, "zero.toml"));
    const found = await Promise.all(
      ["dir", "pipe", "zero", "none"].map(async (name) =>
        lines(name, await openRunbook(`${name}.toml`, at(base))),
      ),
    );
    expect(found.flat()).toEqual([
      "dir:1:1: The file is a directory.",
      "pipe:1:1: The file is not a regular file.",
      "zero:1:1: The file is not a regular file.",
      "none:1:1: The file does not exist.",
    ]);
  });

  test("the list of problems ends after a thousand", async () => {
    const found = await check(
      "a.toml",
      `${worker}${Array.from({ length: 1005 }, (_, n) => `x${n} = 1\n`).join("")}`,
    );
    expect([found.length, found.at(-1)]).toEqual([
      1001,
      "a.toml:1003:1: There are 5 more problems in this file.",
    ]);
  });

  test("pollute no prototype", () => {
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });
});

describe("good runbooks", () => {
  const SEED = {
    name: "worker",
    engine: "claude",
    args: [],
    mode: "interactive",
    prompt: null,
    env: [],
    policy: {
      on: {
        idle: [],
        dead: [
          {
            action: "resume",
            message: "Continue from where you left off.",
            append: true,
            run: null,
            timeoutMs: 600_000,
            attempts: 1,
            cooldownMs: 0,
            match: "any",
          },
        ],
        error: [
          {
            action: "resume",
            message: null,
            append: false,
            run: null,
            timeoutMs: 600_000,
            attempts: 1,
            cooldownMs: 60_000,
            match: "rate_limited",
          },
        ],
        prompt: [],
      },
      idleAfterMs: 60_000,
      maxAttempts: null,
    },
  };

  test.each(["seed.toml", "seed.hcl", "seed.json", "seed-blocks.hcl"])("%s", async (name) => {
    const base = world({ [`runbooks/${name}`]: readFileSync(join(fixtures, "good", name)) });
    const { definition } = await findAgent("worker", at(base));
    expect(definition).toEqual({ ...SEED, cwd: base });
  });

  test("may have a byte order mark, CRLF and tabs", async () => {
    const text = readFileSync(join(fixtures, "good/seed.toml"), "utf8").replaceAll("\n", "\r\n\t");
    const base = world({ "runbooks/a.toml": `\uFEFF${text}` });
    expect((await findAgent("worker", at(base))).definition).toEqual({ ...SEED, cwd: base });
    const hcl = readFileSync(join(fixtures, "good/seed-blocks.hcl"), "utf8").replaceAll("\n", "\r\n\t");
    const other = world({ "runbooks/a.hcl": `\uFEFF${hcl}` });
    expect((await findAgent("worker", at(other))).definition).toEqual({ ...SEED, cwd: other });
  });

  test("may have warnings, which name the place and stop nothing", async () => {
    const base = world({ "runbooks/a.toml": '[agent.worker]\nrun = "claude"\non_dead = "recover"\n' });
    const runbook = await openRunbook("runbooks/a.toml", at(base));
    expect(lines("a", runbook)).toEqual([
      "a:3:11: warning: agent.worker.on_dead: recover is the old name of resume; write resume.",
    ]);
    expect((await findAgent("worker", at(base))).definition.policy.on.dead[0]?.action).toBe("resume");
  });

  test("may have every key at once, with defaults filled in", async () => {
    const base = world({
      "runbooks/a.toml": `
        [agent.fixer]
        engine = "codex"
        args = ["--model", "\${var.model}", "-c", "note=$\${x}"]
        mode = "interactive"
        prompt_file = "../prompts/fix.md"
        cwd = "sub/\${var.area}"
        env = { AREA = "\${var.area}" }
        vars = { model = "small", area = { required = true } }
        idle_after = "5m"
        max_attempts = 9
        on_idle = [{ action = "nudge", message = "Is \${var.area} done?", attempts = 2, cooldown = "1m" }, "escalate"]
        on_dead = { action = "gate", run = ["test", "-e", "\${var.area}"], timeout = "30s" }
        on_prompt = "fail"
      `,
      "prompts/fix.md": "Fix ${var.area}, mind ${HOME} and $${var.area}.\n",
    });
    const found = await findAgent("fixer", { ...at(base), vars: { area: "-a; $(b) ${var.model}" } });
    const area = "-a; $(b) ${var.model}";
    const common = {
      append: false,
      timeoutMs: 600_000,
      match: "any",
      message: null,
      run: null,
      attempts: 1,
      cooldownMs: 0,
    };
    expect(found.vars).toEqual({ model: "small", area });
    expect(found.definition).toEqual({
      name: "fixer",
      engine: "codex",
      args: ["--model", "small", "-c", "note=${x}"],
      mode: "interactive",
      prompt: `Fix ${area}, mind \${HOME} and \${var.area}.\n`,
      cwd: join(base, "sub", area),
      env: [["AREA", area]],
      policy: {
        on: {
          idle: [
            { ...common, action: "nudge", message: `Is ${area} done?`, attempts: 2, cooldownMs: 60_000 },
            { ...common, action: "escalate" },
          ],
          dead: [{ ...common, action: "gate", run: ["test", "-e", area], timeoutMs: 30_000 }],
          error: [],
          prompt: [{ ...common, action: "fail" }],
        },
        idleAfterMs: 300_000,
        maxAttempts: 9,
      },
    });
    expect(found.trust?.map(({ path }) => path)).toEqual([
      join(base, "runbooks/a.toml"),
      join(base, "prompts/fix.md"),
    ]);
    expect(found.source).toEqual(found.trust?.[0]);
  });

  const modes: Record<string, [agent: string, mode: string]> = {
    "run = claude": ['run = "claude --model opus"', "interactive"],
    "run = claude -p": ['run = "claude -p"', "headless"],
    "run = claude --print, headless engine": ['run = "claude --print"', "headless"],
    "run = codex": ['run = "codex"', "headless"],
    "engine = claude": ['engine = "claude"', "headless"],
    "said otherwise": ['run = "claude"\nmode = "headless"', "headless"],
    "said so": ['engine = "codex"\nmode = "interactive"', "interactive"],
  };
  test.each(Object.entries(modes))("mode: %s", async (_name, [agent, mode]) => {
    const base = world({ "runbooks/a.toml": `[agent.a]\nprompt = "x"\n${agent}\n` });
    expect((await findAgent("a", at(base))).definition.mode).toBe(mode);
  });

  test("keep the order of pipelines, with their agents and variables filled in", async () => {
    const hcl = `
      agent "fixer" {
        run    = "claude -p"
        vars   = { issue = { required = true }, tone = "calm" }
        prompt = "Fix \${var.issue}, \${var.tone}."
      }
      pipeline "ci" {
        vars      = { issue = { required = true } }
        workspace = "worktree"
        step "test" {
          run     = ["make", "test", var.issue]
          timeout = "1h"
          on_done = "done"
          on_fail = "fix"
        }
        step "fix" {
          agent   = "fixer"
          on_done = "test"
        }
      }`;
    const base = world({ "runbooks/ci.hcl": hcl });
    const { definition } = await findPipeline("ci", { ...at(base), vars: { issue: "#7" } });
    expect(definition).toMatchObject({
      name: "ci",
      workspace: "worktree",
      cwd: base,
      steps: [
        {
          name: "test",
          run: ["make", "test", "#7"],
          agent: null,
          timeoutMs: 3_600_000,
          onDone: null,
          onFail: "fix",
        },
        { name: "fix", run: null, agent: { prompt: "Fix #7, calm." }, onDone: "test", onFail: null },
      ],
    });
  });
});

test("an agent of a step works where its pipeline works, or below", async () => {
  const toml = `
    [agent.a]
    run = "claude"
    [agent.b]
    run = "claude"
    cwd = "deep"
    [pipeline.p]
    cwd = "sub"
    step = [{ name = "one", agent = "a" }, { name = "two", agent = "b" }]`;
  const base = world({ "runbooks/p.toml": toml });
  const { definition } = await findPipeline("p", { ...at(base), vars: {} });
  expect([definition.cwd, ...definition.steps.map((step) => step.agent?.cwd)]).toEqual([
    join(base, "sub"),
    join(base, "sub"),
    join(base, "sub/deep"),
  ]);
  expect((await findAgent("b", at(base))).definition.cwd).toBe(join(base, "deep"));
});

describe("docs/runbooks.md", () => {
  const page = readFileSync(new URL("../../docs/runbooks.md", import.meta.url), "utf8");
  const examples = [...page.matchAll(/^```(toml|hcl|json)\n(.*?)^```/gms)].map(
    ([, format = "", text = ""]) => [format, text] as const,
  );

  test("has examples in every format", () => {
    expect(new Set(examples.map(([format]) => format))).toEqual(new Set(["toml", "hcl", "json"]));
  });

  test.each(examples)("has good %s examples: %j", async (format, text) => {
    expect(await check(`a.${format}`, text)).toEqual([]);
  });

  test("names every key", () => {
    const keys = [
      "engine",
      "args",
      "run",
      "mode",
      "prompt",
      "prompt_file",
      "cwd",
      "env",
      "vars",
      "idle_after",
      "max_attempts",
    ];
    const fields = [
      "on_idle",
      "on_dead",
      "on_error",
      "on_prompt",
      "action",
      "message",
      "append",
      "timeout",
      "attempts",
    ];
    const more = ["cooldown", "match", "workspace", "step", "name", "agent", "on_done", "on_fail"];
    expect([...keys, ...fields, ...more].filter((key) => !page.includes(`\`${key}\``))).toEqual([]);
  });
});

describe("finding runbooks", () => {
  const agent = (name: string, extra = "") => `[agent.${name}]\nrun = "claude"\n${extra}`;

  test("prefers the project's to the user's, and only the project's need trust", async () => {
    const base = world({
      "runbooks/a.toml": agent("one"),
      "src/deep/x": "",
      "config/reprise/runbooks/b.toml": `${agent("one", 'mode = "headless"\nprompt = "x"\n')}${agent("two")}`,
      "runbooks/notes.md": "no runbook",
      "runbooks/.hidden.toml": "no runbook either",
    });
    const where = at(join(base, "src/deep"), { XDG_CONFIG_HOME: join(base, "config") });
    const one = await findAgent("one", where);
    const two = await findAgent("two", where);
    expect([one.definition.mode, one.definition.cwd, one.trust?.length]).toEqual(["interactive", base, 1]);
    expect([two.definition.cwd, two.trust]).toEqual([join(base, "src/deep"), null]);
    expect(two.source.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  test("stops at the top of the repository", async () => {
    const base = world({ "runbooks/a.toml": agent("one"), "inner/.git/HEAD": "" });
    expect(await findRunbooks(at(join(base, "inner")))).toEqual([]);
    expect(await findRunbooks({ ...at(base), env: { HOME: base } })).toHaveLength(1);
  });

  test("refuses a name that two files of a level have", async () => {
    const base = world({ "runbooks/a.toml": agent("one"), "runbooks/b.toml": `\n${agent("one")}` });
    const path = join(base, "runbooks/b.toml");
    expect(await faultOf(findAgent("one", at(base)))).toBe(
      `runbook_invalid: ${path}:2:8: agent.one is also defined in ${join(base, "runbooks/a.toml")}.`,
    );
  });

  test("does not skip a broken project runbook for the user's, and reads the project's others", async () => {
    const base = world({
      "runbooks/a.toml": "[agent.one\n",
      "runbooks/b.toml": agent("two"),
      "config/reprise/runbooks/b.toml": agent("one"),
    });
    const where = at(base, { XDG_CONFIG_HOME: join(base, "config") });
    expect(await faultOf(findAgent("one", where))).toMatch(/^runbook_invalid: .*a\.toml:1:11: /);
    expect((await findAgent("two", where)).definition.name).toBe("two");
  });

  const faults: Record<string, [name: string, vars: Record<string, string>, fault: string]> = {
    "unknown agent": [
      "wroker",
      {},
      'runbook_unknown: No runbook defines the agent "wroker". Did you mean worker?',
    ],
    "a name of JavaScript": [
      "constructor",
      {},
      'runbook_unknown: No runbook defines the agent "constructor". There are worker.',
    ],
    "missing variable": ["worker", {}, "usage: agent.worker needs a variable: --var issue=…"],
    "unknown variable": [
      "worker",
      { isue: "1" },
      "usage: agent.worker has no variable isue. Did you mean issue?",
    ],
    "zero byte": [
      "worker",
      { issue: "\0" },
      "usage: The value of the variable issue is longer than 100 KiB or contains a zero byte.",
    ],
  };
  test.each(Object.entries(faults))("fails: %s", async (_name, [name, vars, fault]) => {
    const base = world({ "runbooks/a.toml": agent("worker", "vars = { issue = { required = true } }\n") });
    expect(await faultOf(findAgent(name, { ...at(base), vars }))).toBe(fault);
  });

  test("refuses a prompt file that is a link out of the project, a pipe, a directory, empty, or has an unknown variable", async () => {
    const base = world({ "p/empty.md": " \n", "p/bad.md": "a\n${var.x}\n", "p/dir/x": "" });
    execFileSync("mkfifo", [join(base, "p/pipe.md")]);
    symlinkSync("/etc/passwd", join(base, "p/link.md"));
    const found = await Promise.all(
      ["link.md", "pipe.md", "dir", "empty.md", "bad.md"].map(async (file, index) => {
        mkdirSync(join(base, "runbooks"), { recursive: true });
        writeFileSync(
          join(base, `runbooks/${index}.toml`),
          agent(`a${index}`, `prompt_file = "../p/${file}"\n`),
        );
        return lines(file, await openRunbook(`runbooks/${index}.toml`, at(base)));
      }),
    );
    expect(found.flat().map((line) => line.replace(/agent\.a\d\.prompt_file: /, ""))).toEqual([
      'link.md:3:15: "../p/link.md" lies outside of the project.',
      'pipe.md:3:15: "../p/pipe.md" is not a regular file.',
      'dir:3:15: "../p/dir" is a directory.',
      'empty.md:3:15: "../p/empty.md" is empty.',
      "bad.md:3:15: line 2 of the file names the variable x, but vars declares none.",
    ]);
  });

  test("allows the user's own runbook more than a project's", async () => {
    const base = world({ "config/reprise/runbooks/a.toml": agent("one", 'env = { PATH = "/opt/bin" }\n') });
    const { definition } = await findAgent("one", at(base, { XDG_CONFIG_HOME: join(base, "config") }));
    expect(definition.env).toEqual([["PATH", "/opt/bin"]]);
  });
});
