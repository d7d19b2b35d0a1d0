/** Pipelines, decisions and the status from start to end, judged by files and by what the agents wrote down. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";
import { until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

const AGENT = (prompt: string, more = "") => `
[agent.fixer]
engine = "claude"
mode = "headless"
prompt = "${prompt}"
${more}
`;

const LOOP = `
[pipeline.ci]
step = [
  { name = "test", run = ["sh", "-c", "echo run >> runs; test -e fixed"], on_done = "done", on_fail = "fix" },
  { name = "fix", agent = "fixer", on_done = "test" },
]
`;

interface Pipeline {
  readonly id: string;
  readonly phase: string;
  readonly step: string | null;
  readonly reason: string | null;
  readonly workspace: string;
  readonly steps: readonly {
    readonly name: string;
    readonly state: string;
    readonly agent: string | null;
    readonly agents: readonly string[];
    readonly detail: string | null;
  }[];
}

async function begin(box: AgentBox, name: string, ...more: readonly string[]): Promise<string> {
  const result = await box.run(["pipeline", "run", name, "--trust-cwd", "--json", ...more]);
  if (result.code !== 0) throw new Error(`exit ${result.code}\n${result.stdout}${result.stderr}`);
  return (JSON.parse(result.stdout) as { id: string }).id;
}

async function shown(box: AgentBox, id: string, fits: (pipeline: Pipeline) => boolean): Promise<Pipeline> {
  const end = Date.now() + 30_000;
  for (;;) {
    const { pipeline } = await box.json<{ pipeline: Pipeline }>(["pipeline", "show", id]);
    if (fits(pipeline)) return pipeline;
    if (Date.now() > end) throw new Error(`never: ${JSON.stringify(pipeline, null, 1)}\n${box.daemonLog()}`);
  }
}

/** A pid of 0 would be our own process group. */
function kill(pid: number | null): void {
  if (pid === null || !(pid > 1)) throw new Error("there is no such process");
  process.kill(pid, "SIGKILL");
}

async function killDaemon(box: AgentBox): Promise<void> {
  kill(await box.daemonPid());
}

function agentPid(box: AgentBox): Promise<number> {
  return box.until("the agent", () => {
    const [first] = box.events("kept");
    return first === undefined ? null : Number(first["pid"]);
  });
}

const stepsOf = ({ steps }: Pipeline) => steps.map(({ name, state }) => `${name} ${state}`);

test("an agent fixes a failing command, which then passes", async () => {
  await using box = new AgentBox();
  // The agent is done when its turn is; what it did to the project is played by the test.
  box.runbook(
    AGENT("fix ${var.what} @@wait:200", 'vars = { what = "it" }') +
      LOOP.replace("[pipeline.ci]", '[pipeline.ci]\nvars = { what = "all" }'),
  );
  const id = await begin(box, "ci", "--var", "what=the tests");
  await box.until("the agent's turn", () => box.messages().length === 1);
  writeFileSync(join(box.cwd, "fixed"), "");
  const done = await shown(box, id, ({ phase }) => phase !== "active");
  expect([done.phase, stepsOf(done)]).toEqual(["done", ["test done", "fix done"]]);
  expect(box.messages()).toEqual(["fix the tests @@wait:200"]);
  expect(readFileSync(join(box.cwd, "runs"), "utf8")).toBe("run\nrun\n");
  const listed = await box.run(["pipeline", "list", "--all"]);
  expect(listed.stdout).toMatch(new RegExp(`${id} +ci +done +- `));
  expect((await box.run(["pipeline", "list"])).stdout).toContain("No pipeline is active");
});

test("a daemon that is killed in the middle doubles no agent, and its command runs again", async () => {
  await using box = new AgentBox();
  box.runbook(
    `${AGENT("work @@wait:1500")}
[pipeline.p]
step = [
  { name = "slow", run = ["sh", "-c", "echo begun >> runs; if test -e go; then exit 0; fi; sleep 600"] },
  { name = "work", agent = "fixer" },
]`,
  );
  const id = await begin(box, "p");
  await box.until("the command", () => existsSync(join(box.cwd, "runs")));
  await killDaemon(box);
  writeFileSync(join(box.cwd, "go"), "");
  await box.run(["daemon", "start"]);
  await box.until("the agent", () => box.messages().length === 1);
  await killDaemon(box);
  await box.run(["daemon", "start"]);
  const done = await shown(box, id, ({ phase }) => phase !== "active");
  expect([done.phase, stepsOf(done), done.steps[1]?.agents.length]).toEqual([
    "done",
    ["slow done", "work done"],
    1,
  ]);
  expect(box.messages()).toEqual(["work @@wait:1500"]);
  expect(readFileSync(join(box.cwd, "runs"), "utf8")).toBe("begun\nbegun\n");
});

test("a pipeline does not wait for the gate of an agent", async () => {
  await using box = new AgentBox();
  const gate = `on_idle = { action = "gate", run = ["sh", "-c", "echo x > gate; sleep 600"], timeout = "20m" }`;
  box.runbook(`${AGENT("work", gate)}[pipeline.p]\nstep = [{ name = "one", run = ["true"] }]`);
  await box.start("fixer");
  await box.until("the gate", () => existsSync(join(box.cwd, "gate")));
  const id = await begin(box, "p");
  expect((await shown(box, id, ({ phase }) => phase !== "active")).phase).toBe("done");
});

test("cancel stops the agent of a pipeline, and resume continues its conversation", async () => {
  await using box = new AgentBox();
  box.runbook(`${AGENT("work @@wait:600000")}[pipeline.p]\nstep = [{ name = "work", agent = "fixer" }]`);
  const id = await begin(box, "p");
  await box.until("the agent", () => box.messages().length === 1);
  const cancelled = await box.run(["pipeline", "cancel", id.slice(0, 6)]);
  expect([cancelled.code, cancelled.stdout]).toEqual([
    0,
    `Pipeline ${id} is cancelled. Its work is in ${box.cwd}\n`,
  ]);
  const after = await shown(box, id, ({ phase }) => phase === "cancelled");
  const agent = after.steps[0]?.agent ?? "";
  expect((await box.show(agent)).view.phase).toBe("stopped");
  expect((await box.run(["pipeline", "cancel", id])).stderr).toContain(
    `Pipeline ${id} is already cancelled.`,
  );
  const resumed = await box.run(["pipeline", "resume", id]);
  expect([resumed.code, resumed.stdout]).toEqual([0, `Pipeline ${id} continues at step work.\n`]);
  const done = await shown(box, id, ({ phase }) => phase !== "active");
  expect([done.phase, done.steps[0]?.agents]).toEqual(["done", [agent]]);
  expect(box.messages()).toEqual(["work @@wait:600000", "Continue where you left off."]);
  const [first, second] = box.events("session");
  expect([second?.["how"], second?.["session"]]).toEqual(["resume", first?.["session"]]);
  const again = await box.run(["pipeline", "resume", id]);
  expect([again.code, again.stderr]).toEqual([
    2,
    `reprise: Pipeline ${id} is done; there is nothing to resume.\n`,
  ]);
});

test("a pipeline gets a separate worktree on a separate branch, and a failure there says so", async () => {
  await using box = new AgentBox();
  box.runbook(`
[pipeline.p]
workspace = "worktree"
step = [{ name = "look", run = ["sh", "-c", "git branch --show-current > made; pwd; exit 3"] }]`);
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", box.cwd, "-c", "user.name=x", "-c", "user.email=x@x", ...args]);
  git("init", "-q", "-b", "main");
  git("add", "-A");
  git("commit", "-qm", "first");
  const id = await begin(box, "p");
  const failed = await shown(box, id, ({ phase }) => phase !== "active");
  expect([failed.phase, failed.reason]).toEqual(["failed", "step look failed"]);
  expect(failed.steps[0]?.detail).toMatch(/failed with exit code 3\.\n.*workspaces/);
  expect(readFileSync(join(failed.workspace, "made"), "utf8")).toBe(`reprise/${id}\n`);
  const text = (await box.run(["pipeline", "show", id])).stdout;
  expect(text).toContain(`Continue: reprise pipeline resume ${id}`);
  expect((await box.run(["status"])).stdout).toContain("No agents.");
});

test("decisions are listed, shown, refused and made", async () => {
  await using box = new AgentBox();
  box.runbook(
    `${AGENT("work @@wait:600000", 'on_dead = "escalate"')}[pipeline.p]\nstep = [{ name = "work", agent = "fixer" }]`,
  );
  const id = await begin(box, "p");
  const pid = await agentPid(box);
  expect((await box.run(["decisions", "list"])).stdout).toBe("No agent needs a decision.\n");
  kill(pid);
  const agent = (await shown(box, id, ({ steps }) => steps[0]?.agent != null)).steps[0]?.agent ?? "";
  const { view } = await box.shown(agent, "asked", (one) => one.view.decision !== null);
  const decision = view.decision ?? "";
  // A question leaves the pipeline active.
  expect((await shown(box, id, () => true)).phase).toBe("active");
  expect((await box.run(["decisions", "list"])).stdout).toMatch(new RegExp(`${decision} +fixer +open `));
  expect((await box.run(["status"])).stdout).toContain(`asks you: reprise decisions show ${decision}`);
  const text = (await box.run(["decisions", "show", agent])).stdout;
  expect(text).toContain("\n  1  ");
  expect(text).toContain(`Choose: reprise decisions resolve ${decision} <n>`);
  for (const args of [[], ["9"], ["0"], ["1x"], ["-1"], ["1", "2"]]) {
    const refused = await box.run(["decisions", "resolve", decision, ...args]);
    expect([args, refused.code]).toEqual([args, 2]);
  }
  const nine = await box.run(["decisions", "resolve", decision, "9"]);
  expect(nine.stderr).toMatch(/has no option "9"\. Its options: 1 .*; \d leave it as it is/);
  const options = (
    await box.json<{ decision: { options: { n: number; does: string }[] } }>(["decisions", "show", decision])
  ).decision.options;
  const n = (does: string) => String(options.find((option) => option.does === does)?.n);
  const silent = await box.run(["decisions", "resolve", decision, n("done"), "-m", "x"]);
  expect([silent.code, silent.stderr]).toEqual([2, expect.stringContaining("takes no message")]);
  const made = await box.run([
    "decisions",
    "resolve",
    decision,
    n("resume"),
    "-m",
    "try again; $(x) -- \u001b[31m",
  ]);
  expect([made.code, made.stdout]).toEqual([0, expect.stringContaining(`Decision ${decision} is made`)]);
  await box.until("the second turn", () => box.messages().length === 2);
  expect(box.messages()[1]).toBe("try again; $(x) -- \u001b[31m");
  for (const which of [decision, agent]) {
    const again = await box.run(["decisions", "resolve", which, n("fail")]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining("already resolved")]);
  }
  const done = await shown(box, id, ({ phase }) => phase !== "active");
  expect(done.phase).toBe("done");
});

test("a command and a webhook from the user's config notify a person of a decision", async () => {
  await using box = new AgentBox();
  box.program("check", "echo found sk-live-0123456789abcdefghij; exit 1");
  const entries = '[{ action = "gate", run = ["check"] }, { action = "escalate" }]';
  box.runbook(AGENT("work @@wait:600000", `on_dead = ${entries}`));
  const told: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      told.push(body);
      response.end();
    });
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  const command = box.program("tell-me", `cat > '${join(box.root, "told")}'`);
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
  writeFileSync(
    join(box.home, ".config/reprise/config.toml"),
    `[notify]\ncommand = ["${command}"]\nwebhook = "http://127.0.0.1:${port}/hook"\n`,
  );
  try {
    const id = await box.start("fixer");
    kill(await agentPid(box));
    await box.until("the webhook", () => told.length > 0);
    const facts = JSON.parse(told[0] ?? "") as { agent: string; decision: { id: string; agentId: string } };
    expect([facts.agent, facts.decision.agentId]).toEqual(["fixer", id]);
    await box.shown(id, "asked", ({ view }) => view.decision === facts.decision.id);
    const file = join(box.root, "told");
    await box.until("the command", () => existsSync(file) && readFileSync(file, "utf8").trim() === told[0]);
    expect(told[0]).toContain("found [redacted]");
    expect(told[0]).not.toContain("sk-live");
    expect(told).toHaveLength(1);
  } finally {
    server.close();
  }
  writeFileSync(join(box.cwd, "reprise.toml"), '[notify]\ncommand = ["x"]\n');
  const refused = await box.run(["agent", "run", "fixer", "--trust-cwd"]);
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringContaining("notify is not allowed in a project's file"),
  ]);
});

test("a project's pipeline runs only after its user agreed", async () => {
  await using box = new AgentBox();
  box.runbook('[pipeline.p]\nstep = [{ name = "one", run = ["touch", "pwned"] }]');
  const refused = await box.run(["pipeline", "run", "p"]);
  expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining("--trust-cwd")]);
  expect(await box.json(["pipeline", "list", "--all"])).toEqual({ ok: true, pipelines: [] });
  expect(existsSync(join(box.cwd, "pwned"))).toBe(false);
});

test("a decision that is made without a supervisor is carried out by the next one", async () => {
  await using box = new AgentBox();
  box.runbook(AGENT("work @@wait:600000", 'on_dead = "escalate"'));
  const id = await box.start("fixer");
  const pid = await agentPid(box);
  kill(pid);
  const { view } = await box.shown(id, "asked", (one) => one.view.decision !== null);
  await box.run(["daemon", "stop"]);
  const status = await box.run(["status"]);
  expect(status.stdout).toContain("The daemon is not running");
  expect(status.stdout).toContain(id);
  const made = await box.json(["decisions", "resolve", view.decision ?? "", "1"]);
  expect(made).toEqual({
    ok: true,
    id: view.decision,
    n: 1,
    does: "resume",
    done: true,
    why: expect.anything(),
  });
  await box.until("the second turn", () => box.messages().length === 2);
});

test("status --watch in a pipe prints the table, then one line per change, until it is ended", async () => {
  await using box = new AgentBox();
  box.runbook(AGENT("work @@wait:600000", 'on_dead = "fail"'));
  const id = await box.start("fixer");
  const pid = await agentPid(box);
  const child = box.spawn(["status", "--watch"]);
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  await until("the table", () => text.includes(id));
  kill(pid);
  await until("its end", () => new RegExp(`${id}  fixer  ended`).test(text));
  child.kill("SIGINT");
  expect(await ended).toBe(0);
  expect(text).toMatch(/^AGENT +NAME +STATE +FOR +ATT +NEXT\n/);
  const json = await box.json(["status"]);
  expect(json).toMatchObject({
    ok: true,
    daemon: { pid: expect.any(Number) as number },
    agents: [],
    pipelines: [],
  });
});

test.each([
  [["pipeline"], 2, /Usage: reprise pipeline <verb>/],
  [["pipeline", "runn"], 2, /Did you mean `reprise pipeline run`\?/],
  [["pipeline", "run"], 2, /Which pipeline\?/],
  [["pipeline", "run", "nope"], 3, /No runbook defines the pipeline "nope"/],
  [["pipeline", "show", "ffffffff"], 3, /There is no pipeline "ffffffff"/],
  [["pipeline", "cancel", "../../x"], 2, /is not a pipeline's id/],
  [["pipeline", "resume"], 2, /Which pipeline\?/],
  [["decisions", "show", "ffffffff-1"], 3, /No decision matches "ffffffff-1"/],
  [["decisions", "resolve"], 2, /Which decision\?/],
  [["decisions", "resolve", "ffffffff-1", "1", "-m", " "], 2, /The message argument is empty/],
  [["status", "--watch", "--json"], 2, /not both/],
] as const)("%j is refused", async (args, code, message) => {
  await using box = new AgentBox();
  box.runbook(AGENT("x"));
  const result = await box.run(args);
  expect([result.code, result.stdout + result.stderr]).toEqual([code, expect.stringMatching(message)]);
});

describe.skipIf(!HAS_TMUX)("on a terminal", () => {
  test("a decision is requested, and the status is drawn in place and leaves the terminal unchanged", async () => {
    await using box = new AgentBox();
    box.runbook(AGENT("work @@wait:600000", 'on_dead = "escalate"'));
    const id = await box.start("fixer");
    using screen = new Screen(box, { cols: 90, rows: 12 });
    screen.type("reprise status --watch; echo ENDED $?");
    await screen.shows(new RegExp(`${id} +agent fixer +\\S+ +working`));
    expect(screen.facts("#{alternate_on} #{cursor_flag}")).toBe("1 0");
    kill(await agentPid(box));
    await screen.shows(new RegExp(`${id}-\\d+ +decision .* asks`));
    screen.resize(50, 12);
    await screen.shows(new RegExp(`${id}-\\d+ +dec.* asks +`));
    // One frame, however often it was drawn.
    expect(screen.text().match(/HANDLE +WHAT/g)).toHaveLength(1);
    screen.key("C-c");
    await screen.shows(/^ENDED 0$/m);
    expect(screen.facts("#{alternate_on} #{cursor_flag}")).toBe("0 1");
    screen.clear();
    screen.type("TERM=dumb reprise status --watch; echo ENDED $?");
    await screen.shows(new RegExp(`${id} +fixer +dead`));
    expect(screen.facts("#{alternate_on} #{cursor_flag}")).toBe("0 1");
    screen.key("C-c");
    await screen.shows(/ENDED 0$/m);
    screen.clear();
    screen.type(`reprise decisions resolve ${id}; echo ENDED $?`);
    await screen.shows(/Which\? \[1-\d\]/);
    screen.type("7");
    await screen.shows(/has no option "7"/);
    await screen.shows(/^ENDED 2$/m);
    for (const key of ["C-c", "C-d", "Enter"]) {
      screen.clear();
      screen.type(`reprise decisions resolve ${id}; echo ENDED $?`);
      await screen.shows(/Which\? \[1-\d\]/);
      screen.key(key);
      await screen.shows(/Nothing was chosen/);
      await screen.shows(/^ENDED 2$/m);
    }
    screen.clear();
    screen.type(`reprise decisions resolve ${id}; echo ENDED $?`);
    await screen.shows(/Which\? \[1-\d\]/);
    screen.type("1");
    await screen.shows(/^ENDED 0$/m);
    await box.until("the second turn", () => box.messages().length === 2);
  });
});
