/**
 * Every command with `--json`: stdout is one object with `ok`, which is true exactly when the exit code is 0; a fault has
 * code, message and facts, and the exit code of docs/errors.md. The commands are asked for themselves, so one without an
 * entry here fails.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { FAULTS } from "../../src/core/faults.ts";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { ReviewBox } from "../e2e/review-box.ts";
import type { Result, Sandbox } from "../e2e/sandbox.ts";

const RUNBOOK = `
[agent.worker]
engine = "demo"
mode = "headless"
prompt = "work"
on_idle = { action = "gate", run = ["false"], attempts = 1 }

[agent.hanging]
engine = "demo"
mode = "headless"
prompt = "@@hang"

[pipeline.ci]
step = [{ name = "test", run = ["sh", "-c", "test -e fixed"] }]

[pipeline.slow]
step = [{ name = "wait", run = ["sleep", "600"] }]
`;

let box: AgentBox;
let issues: IssueBox;
let review: ReviewBox;
/** What the words in capitals stand for. */
let names: Record<string, string>;

beforeAll(async () => {
  box = new AgentBox();
  box.runbook(RUNBOOK);
  issues = new IssueBox();
  issues.issue("a-1", "write it @@write:made.txt");
  issues.commit();
  review = new ReviewBox();
  const started = async (...args: string[]) => (await box.json(["start", "demo", ...args]))["handle"];
  const begun = async (...args: string[]) => (await box.json(args))["id"];
  names = {
    RUN: await started("hello"),
    OTHER: await started("hello"),
    GONE: "ffffffff",
    LATER: await started("hello"),
    HANGING: await box.start("hanging"),
    AGENT: await box.start("worker"),
    ENDED: await box.start("hanging"),
    FAILED: await begun("pipeline", "run", "ci", "--trust-cwd"),
    SLOW: await begun("pipeline", "run", "slow", "--trust-cwd"),
  };
  await box.run(["agent", "stop", names["ENDED"] ?? ""]);
  await box.json(["resume", names["LATER"] ?? "", "--at", "+5h", "go on"]);
  await box.shown(names["AGENT"] ?? "", "asking", ({ view }) => view.decision !== null);
}, 120_000);
afterAll(async () => {
  await box[Symbol.asyncDispose]();
  issues[Symbol.dispose]();
  review[Symbol.dispose]();
});

interface Walk {
  /** In this order, since some need what others made. Null: it has no success that a script could see. */
  readonly good: readonly string[] | null;
  readonly bad: readonly string[];
  readonly exit: number;
  readonly where?: () => Sandbox;
}

const at = (where: () => Sandbox, walk: Walk): Walk => ({ ...walk, where });
const unknown = (good: readonly string[], verb: readonly string[]): Walk => ({
  good,
  bad: [...verb, "GONE"],
  exit: 3,
});

const WALK: Record<string, Walk> = {
  start: { good: ["start", "demo", "hello"], bad: ["start", "nonsense", "hello"], exit: 2 },
  resume: { good: ["resume", "RUN", "go on"], bad: ["resume", "GONE", "go on"], exit: 3 },
  list: { good: ["list"], bad: ["list", "--status", "nonsense"], exit: 2 },
  show: unknown(["show", "RUN"], ["show"]),
  attach: { good: null, bad: ["attach", "GONE"], exit: 2 },
  logs: { good: null, bad: ["logs", "--attempt", "0", "RUN"], exit: 2 },
  export: unknown(["export", "RUN"], ["export"]),
  stop: unknown(["stop", "RUN"], ["stop"]),
  wait: unknown(["wait", "RUN"], ["wait"]),
  search: { good: ["search", "hello"], bad: ["search"], exit: 2 },
  // The sandbox is not a repository.
  diff: { good: null, bad: ["diff", "GONE"], exit: 3 },
  usage: { good: ["usage"], bad: ["usage", "--by", "nonsense"], exit: 2 },
  replay: { good: null, bad: ["replay", "RUN"], exit: 2 },
  rename: { good: ["rename", "RUN", "renamed"], bad: ["rename", "GONE", "renamed"], exit: 3 },
  tag: { good: ["tag", "RUN", "+night"], bad: ["tag", "GONE", "+night"], exit: 3 },
  "scheduled list": { good: ["scheduled", "list"], bad: ["scheduled", "list", "--frob"], exit: 2 },
  "scheduled cancel": unknown(["scheduled", "cancel", "LATER"], ["scheduled", "cancel"]),
  // No desktop, command or webhook: it says so and exits with 1.
  "notify test": { good: null, bad: ["notify", "test", "now"], exit: 2 },
  rm: unknown(["rm", "OTHER"], ["rm"]),
  prune: { good: ["prune", "--older-than", "300d"], bad: ["prune"], exit: 2 },
  adopt: { good: ["adopt"], bad: ["adopt", "nonsense"], exit: 2 },
  review: at(() => review, {
    good: ["review", "acme/shop#42", "--comments", "COMMENTS", "--run"],
    bad: ["review", "42"],
    exit: 2,
  }),
  "issues run": at(() => issues, {
    good: ["issues", "run", "--engine", "demo", "--trust-cwd"],
    bad: ["issues", "run", "--strict"],
    exit: 2,
  }),
  "issues list": at(() => issues, {
    good: ["issues", "list"],
    bad: ["issues", "list", "--source", "beads"],
    exit: 3,
  }),
  "issues show": at(() => issues, {
    good: ["issues", "show", "a-1"],
    bad: ["issues", "show", "nothing"],
    exit: 3,
  }),
  "issues sessions": at(() => issues, {
    good: ["issues", "sessions"],
    bad: ["issues", "sessions", "--frob"],
    exit: 2,
  }),
  "issues status": at(() => issues, {
    good: ["issues", "status"],
    bad: ["issues", "status", "--frob"],
    exit: 2,
  }),
  "issues logs": at(() => issues, {
    good: ["issues", "logs", "a-1"],
    bad: ["issues", "logs", "nothing"],
    exit: 3,
  }),
  "issues clean": at(() => issues, {
    good: ["issues", "clean"],
    bad: ["issues", "clean", "--frob"],
    exit: 2,
  }),
  "runbook check": { good: ["runbook", "check"], bad: ["runbook", "check", "missing.toml"], exit: 2 },
  "runbook list": { good: ["runbook", "list"], bad: ["runbook", "list", "x.toml"], exit: 2 },
  "agent run": {
    good: ["agent", "run", "hanging", "--trust-cwd"],
    bad: ["agent", "run", "nobody", "--trust-cwd"],
    exit: 3,
  },
  "agent list": { good: ["agent", "list", "--all"], bad: ["agent", "list", "--frob"], exit: 2 },
  "agent show": unknown(["agent", "show", "AGENT"], ["agent", "show"]),
  "agent logs": { good: null, bad: ["agent", "logs", "--attempt", "0", "AGENT"], exit: 2 },
  "agent peek": unknown(["agent", "peek", "HANGING"], ["agent", "peek"]),
  "agent attach": { good: null, bad: ["agent", "attach", "GONE"], exit: 2 },
  "agent send": { good: null, bad: ["agent", "send", "HANGING", "hello"], exit: 4 },
  "decisions list": { good: ["decisions", "list"], bad: ["decisions", "list", "--frob"], exit: 2 },
  "decisions show": unknown(["decisions", "show", "AGENT"], ["decisions", "show"]),
  "decisions resolve": {
    good: ["decisions", "resolve", "AGENT", "dismiss"],
    bad: ["decisions", "resolve", "GONE", "1"],
    exit: 3,
  },
  "agent stop": unknown(["agent", "stop", "HANGING"], ["agent", "stop"]),
  "agent resume": unknown(["agent", "resume", "HANGING"], ["agent", "resume"]),
  "agent rm": unknown(["agent", "rm", "ENDED"], ["agent", "rm"]),
  "pipeline run": {
    good: ["pipeline", "run", "ci", "--trust-cwd"],
    bad: ["pipeline", "run", "nothing", "--trust-cwd"],
    exit: 3,
  },
  "pipeline list": { good: ["pipeline", "list", "--all"], bad: ["pipeline", "list", "--frob"], exit: 2 },
  "pipeline show": unknown(["pipeline", "show", "FAILED"], ["pipeline", "show"]),
  "pipeline cancel": unknown(["pipeline", "cancel", "SLOW"], ["pipeline", "cancel"]),
  "pipeline resume": unknown(["pipeline", "resume", "SLOW"], ["pipeline", "resume"]),
  status: { good: ["status"], bad: ["status", "--watch"], exit: 2 },
  "web serve": { good: ["web", "--detach", "--no-open"], bad: ["web", "--port", "0"], exit: 2 },
  "web link": { good: ["web", "link"], bad: ["web", "link", "--raw"], exit: 2 },
  "web stop": { good: ["web", "stop"], bad: ["web", "stop", "now"], exit: 2 },
  "web token": { good: ["web", "token", "--name", "ci"], bad: ["web", "token"], exit: 2 },
  "web tokens": { good: ["web", "tokens"], bad: ["web", "tokens", "now"], exit: 2 },
  "web revoke": { good: ["web", "revoke", "ci"], bad: ["web", "revoke", "none"], exit: 3 },
  "daemon start": { good: ["daemon", "start"], bad: ["daemon", "start", "now"], exit: 2 },
  "daemon status": { good: ["daemon", "status"], bad: ["daemon", "status", "now"], exit: 2 },
  "daemon logs": { good: ["daemon", "logs"], bad: ["daemon", "logs", "--lines", "0"], exit: 2 },
  "daemon stop": { good: ["daemon", "stop"], bad: ["daemon", "stop", "now"], exit: 2 },
  doctor: { good: null, bad: ["doctor", "--certify", "nonsense"], exit: 2 },
  explain: { good: ["explain", "--engine", "codex"], bad: ["explain"], exit: 2 },
  demo: { good: ["demo"], bad: ["demo", "--frob"], exit: 2 },
  init: { good: ["init", "--dry-run"], bad: ["init", "--frob"], exit: 2 },
  "config path": { good: ["config", "path"], bad: ["config", "path", "now"], exit: 2 },
  "config check": { good: ["config", "check"], bad: ["config", "check", "now"], exit: 2 },
  "config get": { good: ["config", "get", "escrow"], bad: ["config", "get", "nonsense"], exit: 2 },
  "config set": {
    good: ["config", "set", "escrow", "256"],
    bad: ["config", "set", "nonsense", "1"],
    exit: 2,
  },
  "config edit": { good: null, bad: ["config", "edit"], exit: 2 },
  completion: { good: null, bad: ["completion", "bash"], exit: 2 },
};

async function ask(walk: Walk, args: readonly string[]): Promise<Result> {
  const words = args.map((arg) => (arg === "COMMENTS" ? review.commentsFile : (names[arg] ?? arg)));
  const [command = "", ...rest] = words;
  return (walk.where?.() ?? box).run([command, "--json", ...rest]);
}

/** Exactly one object, `ok`, and what belongs to it. */
function judge({ code, stdout, stderr }: Result): Record<string, any> {
  expect(stdout, stderr).toMatch(/^\{.*\}\n$/s);
  const value = JSON.parse(stdout) as Record<string, any>;
  expect(value["ok"], `exit ${code}: ${stdout}`).toBe(code === 0);
  const { error } = value;
  if (error !== undefined) {
    expect(value["ok"]).toBe(false);
    expect(error).toEqual({
      code: expect.any(String),
      message: expect.stringMatching(/\S/),
      facts: expect.objectContaining({ retryable: expect.any(Boolean) }),
    });
    expect(FAULTS).toHaveProperty(error.code);
    expect(code).toBe(FAULTS[error.code as keyof typeof FAULTS].exit);
  }
  return value;
}

async function verbsOf(name: string): Promise<string[]> {
  const { stdout } = await box.run([name, "--help"]);
  const [, choices] = /^Usage: .*<(\w+(?:\|\w+)+)>/.exec(stdout) ?? [];
  if (choices !== undefined) return choices.split("|").map((verb) => `${name} ${verb}`);
  if (!/^Usage: reprise \w+ <verb>/.test(stdout)) return [name];
  const listed = stdout.slice(0, stdout.indexOf("\nExamples:")).matchAll(/^ {2}(\w+) {2,}\S/gm);
  return [...listed].map(([, verb]) => `${name} ${verb}`);
}

test("every command and every verb has an entry here", async () => {
  const all = (await Promise.all(Object.keys(COMMANDS).map(verbsOf))).flat();
  expect(all.length).toBeGreaterThan(40);
  expect(all.filter((path) => WALK[path] === undefined)).toEqual([]);
});

describe("success", () => {
  const good = Object.entries(WALK).filter(([, { good: args }]) => args !== null);
  test.each(good)(
    "%s",
    async (_path, walk) => {
      const result = await ask(walk, walk.good ?? []);
      expect(judge(result), result.stderr).toMatchObject({ ok: true });
    },
    60_000,
  );
});

describe("failure", () => {
  test.each(Object.entries(WALK))("%s", async (_path, walk) => {
    const result = await ask(walk, walk.bad);
    expect(judge(result)).toMatchObject({ ok: false, error: { code: expect.any(String) } });
    expect(result.code).toBe(walk.exit);
  });

  test.each([
    [["--json"]],
    [["nonsense", "--json"]],
    [["--json", "list"]],
    [["agent", "--json"]],
    [["agent", "nonsense", "--json"]],
    [["list", "--frob", "--json"]],
    [["show", "--json", "\u001b[31m"]],
  ])("%j", async (args) => {
    expect(judge(await box.run(args))).toMatchObject({ ok: false, error: { code: expect.any(String) } });
  });

  test("a failure that is not a fault also has ok: false", async () => {
    writeFileSync(join(box.cwd, "bad.toml"), "[agent.x]\n");
    for (const args of [
      ["start", "demo", "@@429", "--json"],
      ["runbook", "check", "bad.toml", "--json"],
      ["rm", "ffffffff", "eeeeeeee", "--json"],
      ["doctor", "--json"],
      ["daemon", "status", "--json"],
      ["agent", "resume", "--all", "--json"],
    ])
      judge(await box.run(args));
  });
});
