/** Supervised agents from start to end, judged by what the agents themselves wrote down. */
import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createConnection } from "node:net";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { AgentBox, type Shown } from "./agent-box.ts";
import { collect } from "./sandbox.ts";

const { version: VERSION } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

const HEADLESS = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
on_dead = { action = "resume", message = "go on", append = true }
`;

test("a killed agent continues in its conversation, with the message, once", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const id = await box.start("worker");
  process.kill(await box.told(), "SIGKILL");
  await box.until("the second turn", () => box.messages().length >= 2);
  expect(box.messages()).toEqual(["work @@wait:600000", "go on"]);
  const sessions = box.events("session");
  expect(sessions.map(({ how, earlier }) => [how, earlier])).toEqual([
    ["new", 0],
    ["resume", 1],
  ]);
  expect(sessions[1]?.["session"]).toBe(sessions[0]?.["session"]);
  const shown = await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect(shown.attempts.map(({ kind }) => kind)).toEqual(["start", "resume"]);
});

test("a situation that the runbook does not cover is put to a person once", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS.replace(/on_dead.*/, 'on_dead = "escalate"'));
  const id = await box.start("worker");
  process.kill(await box.told(), "SIGKILL");
  // The question is stored before the event that tells of it.
  const isAsked = (shown: Shown) => shown.history.some(({ kind }) => kind === "escalated");
  const { view, history } = await box.shown(id, "asked", isAsked);
  expect(view.decision).toMatch(new RegExp(`^${id}-\\d+$`));
  expect(history.filter(({ kind }) => kind === "escalated")).toHaveLength(1);
  expect(box.messages()).toHaveLength(1);
  const removed = await box.run(["rm", id]);
  expect([removed.code, removed.stderr]).toEqual([4, expect.stringContaining(`reprise agent stop ${id}`)]);
});

test("a stopped agent stays stopped, and comes back with its conversation", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const id = await box.start("worker");
  await box.told();
  expect((await box.run(["agent", "stop", id])).code).toBe(0);
  const stopped = await box.show(id);
  expect([stopped.view.phase, stopped.attempts.at(-1)?.outcome?.result]).toEqual(["stopped", "cancelled"]);
  expect(await box.agent(["resume", "--all"])).toMatchObject({ resumed: [], skipped: [], agents: [] });
  expect(await box.agent(["resume", id])).toMatchObject({ ok: true, resumed: [id], skipped: [] });
  await box.until("its second turn", () => box.messages().length >= 2);
  expect(box.messages()).toEqual(["work @@wait:600000", "Continue where you left off."]);
});

test("an agent that `reprise stop` stopped is not started again, and says how to bring it back", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const id = await box.start("worker");
  await box.told();
  expect((await box.run(["stop", id])).code).toBe(0);
  const { view } = await box.shown(id, "dead", (shown) => shown.view.state === "dead");
  expect([view.phase, view.next, view.why]).toEqual([
    "active",
    null,
    "a person stopped it; `reprise agent resume` continues it",
  ]);
  expect((await box.run(["daemon", "stop"])).stdout).toContain(
    "1 agent is not supervised until it runs again.",
  );
  expect(await box.agent(["resume", id])).toMatchObject({ resumed: [id], skipped: [] });
  await box.until("its second turn", () => box.messages().length >= 2);
  expect(box.events("start")).toHaveLength(2);
});

test("a secret in a variable is not stored, and an agent that cannot be resumed without it stays unchanged", async () => {
  await using box = new AgentBox();
  const secret = "sk-live-0123456789abcdefghij";
  box.runbook(
    `${HEADLESS.replace(" @@wait:600000", "")}vars = { key = "x" }\nargs = ["--model", "\${var.key}"]`,
  );
  const id = await box.start("worker", "--var", `key=${secret}`);
  await box.shown(id, "done", ({ view }) => view.phase === "done");
  const { skipped } = JSON.parse((await box.run(["agent", "resume", id, "--json"])).stdout) as {
    skipped: { reason: string }[];
  };
  expect(skipped.map(({ reason }) => reason)).toEqual([expect.stringContaining("a secret in --model")]);
  const { agent, view } = await box.shown(id, "done again", (shown) => shown.view.phase === "done");
  expect([agent.reason, view.decision]).toEqual(["its turn is complete", null]);
  await box.run(["daemon", "stop"]);
  const index = readdirSync(box.state).filter((name) => name.startsWith("index"));
  expect(index).toContain("index.db");
  expect(index.filter((name) => readFileSync(join(box.state, name)).includes(secret))).toEqual([]);
});

test("agents continue without the daemon, and the next daemon adopts them", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const id = await box.start("worker");
  const pid = await box.told();
  const daemon = await box.daemonPid();
  process.kill(daemon ?? 0, "SIGKILL");
  expect((await box.json(["daemon", "status"]))["running"]).toBe(false);
  const listed = await box.run(["agent", "list"]);
  expect([listed.stdout, listed.stderr]).toEqual([
    expect.stringContaining(id),
    expect.stringContaining("the daemon is not running"),
  ]);
  expect((await box.run(["daemon", "start"])).code).toBe(0);
  expect(await box.daemonPid()).not.toBe(daemon);
  process.kill(pid, "SIGKILL");
  await box.until("its second turn", () => box.messages().length >= 2);
  expect((await box.run(["daemon", "stop"])).stdout).toMatch(/has stopped/);
});

test("a second daemon exits with code 4, and the first one stays", async () => {
  await using box = new AgentBox();
  expect((await box.run(["daemon", "start"])).code).toBe(0);
  const pid = await box.daemonPid();
  const starts = await Promise.all([box.run(["daemon", "start"]), box.run(["daemon", "start"])]);
  expect(starts.map(({ code }) => code)).toEqual([0, 0]);
  const second = spawn(process.execPath, ["dist/daemon.js"], { env: box.env(), stdio: "pipe" });
  expect((await collect(second)).code).toBe(4);
  expect(await box.daemonPid()).toBe(pid);
  expect(box.daemonLog()).toContain(`already running (pid ${pid}`);
});

test("many first commands start one daemon", async () => {
  await using box = new AgentBox();
  const starts = await Promise.all(Array.from({ length: 5 }, () => box.json(["daemon", "start"])));
  expect(new Set(starts.map(({ pid }) => Number(pid))).size).toBe(1);
});

test("a dead daemon's socket is replaced, a wrong token is refused, and nobody else may look in", async () => {
  await using box = new AgentBox();
  await box.run(["daemon", "start"]);
  process.kill((await box.daemonPid()) ?? 0, "SIGKILL");
  const socket = join(box.state, "run", "d.sock");
  expect(existsSync(socket)).toBe(true);
  expect((await box.run(["daemon", "start"])).code).toBe(0);
  expect([socket, join(box.state, "run", "d.token")].map((path) => statSync(path).mode & 0o777)).toEqual([
    0o600, 0o600,
  ]);
  expect(statSync(join(box.state, "run")).mode & 0o777).toBe(0o700);
  const token = join(box.state, "run", "d.token");
  const right = readFileSync(token, "utf8");
  writeFileSync(token, `${"0".repeat(64)}\n`);
  const refused = await box.run(["daemon", "status"]);
  expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining("token")]);
  writeFileSync(token, right);
  expect((await box.run(["daemon", "status"])).code).toBe(0);
});

test("a foreign file in the socket's place is never removed", async () => {
  await using box = new AgentBox();
  await box.run(["daemon", "start"]);
  await box.run(["daemon", "stop"]);
  writeFileSync(join(box.state, "run", "d.sock"), "mine");
  const started = await box.run(["daemon", "start"]);
  expect(started.code).not.toBe(0);
  expect(readFileSync(join(box.state, "run", "d.sock"), "utf8")).toBe("mine");
});

test("a state directory whose path is too long for a socket is reported", async () => {
  await using box = new AgentBox();
  const state = join(box.root, "x".repeat(100));
  const started = await box.run(["daemon", "start"], { env: { REPRISE_HOME: state } });
  expect([started.code, started.stderr]).toEqual([2, expect.stringContaining("REPRISE_HOME")]);
});

test("a client that vanishes in the middle harms no other", async () => {
  await using box = new AgentBox();
  await box.run(["daemon", "start"]);
  const path = join(box.state, "run", "d.sock");
  const token = readFileSync(join(box.state, "run", "d.token"), "utf8").trim();
  for (const bytes of ["", "{", `{"token":"${token}"}\n{"id":1,"method":"status"`, "\0".repeat(100)]) {
    const socket = createConnection(path);
    await new Promise<void>((done) => socket.write(bytes, () => done()));
    socket.destroy();
  }
  expect((await box.run(["daemon", "status"])).code).toBe(0);
});

test("a failing gate sends the agent back to work, and a passing gate completes it", async () => {
  await using box = new AgentBox();
  const gate = '{ action = "gate", run = ["test", "-f", "proof.txt"], timeout = "10s", attempts = 5 }';
  const nudge = '{ action = "nudge", message = "prove it @@write:proof.txt", attempts = 1 }';
  box.runbook(
    HEADLESS.replace("work @@wait:600000", "work").replace(/on_dead.*/, `on_idle = [${gate}, ${nudge}]`),
  );
  const id = await box.start("worker");
  const { agent, history } = await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect(box.messages()).toEqual(["work", "prove it @@write:proof.txt"]);
  expect(agent.reason).toBe("its gate passed");
  const gates = history.filter(({ kind, key }) => kind === "carried_out" && /\/idle\/0\//.test(String(key)));
  expect(gates.map(({ result }) => result)).toContain("failed");
});

test("a gate that kills the supervisor fails in the end, and does not kill it for ever", async () => {
  await using box = new AgentBox();
  const gate = '{ action = "gate", run = ["sh", "-c", "kill -9 $PPID"] }';
  box.runbook(HEADLESS.replace("work @@wait:600000", "work").replace(/on_dead.*/, `on_idle = ${gate}`));
  const id = await box.start("worker");
  const end = Date.now() + 60_000;
  while ((await box.show(id)).view.decision === null && Date.now() < end) await box.run(["daemon", "start"]);
  const { decision } = await box.json<{ decision: { tried: string } }>(["decisions", "show", id]);
  expect(decision.tried).toBe("gate: the daemon ended 5 times while the gate ran");
});

test("a question names earlier attempts and why they failed, harmlessly", async () => {
  await using box = new AgentBox();
  const script = "printf 'two \\\\033[31mtests\\\\033]0;owned\\\\007 failed'; exit 1";
  const gate = `{ action = "gate", run = ["sh", "-c", "${script}"] }`;
  box.runbook(HEADLESS.replace("work @@wait:600000", "work").replace(/on_dead.*/, `on_idle = ${gate}`));
  const id = await box.start("worker");
  await box.shown(id, "asking", ({ view }) => view.decision !== null);
  const { decision } = await box.json<{ decision: { tried: string } }>(["decisions", "show", id]);
  expect(decision.tried).toMatch(/^gate: sh -c .* failed with exit code 1\.\ntwo tests failed$/);
  const { stdout } = await box.run(["decisions", "show", id]);
  expect(stdout).toContain("\n  | two tests failed\n");
  expect(stdout).not.toContain("\u001b");
});

test("the supervisor leaves alone a run that a person uses in a terminal, and counts that work", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS.replace(/on_dead.*/, 'on_dead = "escalate"'));
  const id = await box.start("worker");
  process.kill(await box.told(), "SIGKILL");
  const { view } = await box.shown(id, "asked", (shown) => shown.view.decision !== null);
  const mine = box.spawn(["resume", id, "by hand @@wait:2500"]);
  const over = collect(mine);
  const during = await box.shown(id, "working", (shown) => shown.view.state === "working");
  expect(during.view.attempts).toBe(2);
  expect((await over).code).toBe(0);
  // A starting daemon looks at everything at once; a running daemon does so every 30 seconds.
  await box.run(["daemon", "stop"]);
  await box.run(["daemon", "start"]);
  const after = await box.shown(id, "done", (shown) => shown.view.phase === "done");
  expect(after.attempts.map(({ kind }) => kind)).toEqual(["start", "resume"]);
  const decisions = await box.json<{ decisions: { id: string; state: string }[] }>([
    "decisions",
    "list",
    "--all",
  ]);
  expect(decisions.decisions.map((one) => [one.id, one.state])).toEqual([[view.decision, "overtaken"]]);
});

test("a daemon of another version is replaced, and the agents stay", async () => {
  await using box = new AgentBox();
  const old = mkdtempSync(resolve(".dist-test-"));
  try {
    cpSync("dist", old, { recursive: true });
    for (const name of readdirSync(old).filter((one) => one.endsWith(".js"))) {
      const text = readFileSync(join(old, name), "utf8");
      writeFileSync(join(old, name), text.replaceAll(`"${VERSION}"`, '"0.0.1"'));
    }
    const daemon = spawn(process.execPath, [join(old, "daemon.js")], { env: box.env(), stdio: "ignore" });
    await box.until("the old one to listen", () => existsSync(join(box.state, "run", "d.sock")));
    expect(await box.json(["daemon", "status"])).toMatchObject({ version: "0.0.1", pid: daemon.pid });
    box.runbook(HEADLESS);
    const started = await box.run(["agent", "run", "worker", "--trust-cwd"]);
    expect([started.code, started.stderr]).toEqual([0, expect.stringContaining("version 0.0.1")]);
    expect(await box.json(["daemon", "status"])).toMatchObject({ version: VERSION });
  } finally {
    rmSync(old, { recursive: true });
  }
});

const usage: Record<string, [args: readonly string[], code: number, says: string]> = {
  "no verb": [["agent"], 2, ""],
  "an unknown verb": [["agent", "resum"], 2, "Did you mean `reprise agent resume`?"],
  "an unknown agent": [["agent", "run", "nobody"], 3, "nobody"],
  "a name with a colon": [["agent", "run", "a:b"], 3, "a:b"],
  "a name with a dot": [["agent", "run", "a.b"], 3, "a.b"],
  "an unknown id": [["agent", "show", "00000000"], 3, "There is no agent"],
  "neither id nor --all": [["agent", "resume"], 2, "--all"],
  "id and --all": [["agent", "resume", "00000000", "--all"], 2, "--all"],
  "a variable without a value": [["agent", "run", "worker", "--var", "x"], 2, "name=value"],
  "an empty message": [["agent", "send", "00000000", " "], 2, "empty"],
  "a daemon verb": [["daemon", "restart"], 2, `has no command "restart"`],
};
test.each(Object.entries(usage))("agent run is refused: %s", async (_name, [args, code, says]) => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const result = await box.run(args);
  expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(says)]);
  expect(box.leftovers()).toEqual([]);
});

test("a project's runbook is not used before it is trusted, nor after a change", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS);
  const refused = await box.run(["agent", "run", "worker"]);
  expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining("--trust-cwd")]);
  const id = await box.start("worker");
  await box.run(["agent", "stop", id]);
  expect((await box.run(["agent", "run", "worker"])).code).toBe(0);
  box.runbook(`${HEADLESS}\n# changed\n`);
  expect((await box.run(["agent", "run", "worker"])).code).toBe(8);
});

test("a missing engine is reported at once, and nothing is left behind", async () => {
  await using box = new AgentBox();
  box.runbook(HEADLESS.replace('"claude"', '"codex"'));
  box.program("codex", "exit 1");
  rmSync(join(box.bin, "codex"));
  const result = await box.run(["agent", "run", "worker", "--trust-cwd"], { env: { PATH: box.bin } });
  expect(result.code).toBe(6);
  expect((await box.agent<{ agents: unknown[] }>(["list"])).agents).toEqual([]);
});
