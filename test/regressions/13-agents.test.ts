/** Agents: the report of a resume matches what happened; agents can be removed; handles as people type them. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { until } from "../e2e/sandbox.ts";

const WORKER = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
`;

interface Resumed {
  readonly ok: boolean;
  readonly resumed: readonly string[];
  readonly restarted: readonly { readonly id: string; readonly reason: string }[];
  readonly running: readonly string[];
  readonly skipped: readonly { readonly id: string; readonly reason: string }[];
  readonly agents: readonly Record<string, unknown>[];
}

async function resumed(
  box: AgentBox,
  ...args: readonly string[]
): Promise<Resumed & { code: number | null }> {
  const { code, stdout } = await box.run(["agent", "resume", ...args, "--json"]);
  return { ...(JSON.parse(stdout) as Resumed), code };
}

/** The engine and Reprise have lost the conversation. */
function loseConversation(box: AgentBox): void {
  for (const name of readdirSync(box.home, { recursive: true, encoding: "utf8" }))
    if (name.endsWith(".jsonl")) rmSync(join(box.home, name));
  for (const directory of box.runDirectories())
    rmSync(join(directory, "escrow"), { recursive: true, force: true });
}

/** Everything of this sandbox ends at once, as with the power. */
async function powerCut(box: AgentBox): Promise<void> {
  await until("all processes to be gone", () => {
    const left = box.leftovers();
    for (const pid of left) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It was faster.
      }
    }
    return left.length === 0;
  });
}

/** An agent of the runbook that got a message and has died; its runbook leaves it to a person. */
async function dead(box: AgentBox): Promise<string> {
  box.runbook(`${WORKER}on_dead = "escalate"`);
  const id = await box.start("worker");
  process.kill(await box.told(), "SIGKILL");
  await box.shown(id, "asked", ({ view }) => view.decision !== null);
  return id;
}

test("an agent whose conversation is lost is restarted, with the reason, and never called resumed", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  loseConversation(box);
  const strict = await resumed(box, id, "--strict");
  expect(strict).toMatchObject({ ok: false, code: 1, resumed: [], restarted: [], skipped: [{ id }] });
  expect((await box.show(id)).attempts).toHaveLength(1);
  const all = await resumed(box, "--all", "--strict");
  expect(all).toMatchObject({ ok: false, code: 1, resumed: [], restarted: [], skipped: [{ id }] });
  const { code, stdout } = await box.run(["agent", "resume", id]);
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(`^restarted ${id} \\(new conversation: the engine has lost .*\\): attempt 2\n$`),
    ),
  ]);
  const { attempts, history } = await box.show(id);
  expect(attempts.map(({ kind }) => kind)).toEqual(["start", "fresh"]);
  expect(JSON.stringify(history)).toContain(
    "a new conversation begins: the engine has lost the conversation",
  );
});

test("a resume that begins a new conversation says so in --json", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  loseConversation(box);
  const answer = await resumed(box, "--all");
  expect(answer).toMatchObject({
    ...{ ok: true, code: 0, resumed: [], running: [], skipped: [] },
    restarted: [{ id, reason: expect.stringContaining("lost the conversation") as string }],
    agents: [{ id, result: "restarted", already: false, attempt: 2 }],
  });
});

test("an agent that continues in its conversation is resumed, with the session and its attempt", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  const [{ session } = {}] = box.events("session");
  const { code, stdout } = await box.run(["agent", "resume", id, "--strict"]);
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(
        `^resumed ${id}: (attempt 2 asked for conversation ${String(session)}, not confirmed yet|conversation ${String(session)} goes on in attempt 2, confirmed by claude)\n$`,
      ),
    ),
  ]);
});

test("after a reboot, agents that the starting supervisor brings back are running, and finished ones are not mentioned", async () => {
  await using box = new AgentBox();
  box.runbook(
    `${WORKER}on_dead = { action = "resume", message = "go on @@wait:600000", append = true }\n` +
      WORKER.replaceAll("worker", "quick").replace(" @@wait:600000", ""),
  );
  const finished = await box.start("quick");
  await box.shown(finished, "done", ({ view }) => view.phase === "done");
  const id = await box.start("worker");
  await box.until("its turn", () => box.storedTurns() >= 2);
  await powerCut(box);
  // The supervisor starts first, as in an autostart, and brings the agent back.
  await box.run(["daemon", "start"]);
  await box.until("the agent to be told to go on", () =>
    box.messages().some((text) => text.startsWith("go on")),
  );
  const session = box.events("session").at(-1)?.["session"] as string;
  const { code, stdout } = await box.run(["agent", "resume", "--all"]);
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(
        `^resumed ${id}: (?=.*conversation ${session}).*attempt 2.*; the supervisor had brought it back, and it is \\w+\n$`,
      ),
    ),
  ]);
  // That was reported: by now it is a running agent, like one resumed by a person.
  expect(await resumed(box, "--all")).toMatchObject({
    ...{ ok: true, resumed: [], restarted: [], running: [id], skipped: [] },
    agents: [{ id, result: "running", already: false, attempt: 2, session }],
  });
  const again = await box.run(["agent", "resume", id]);
  expect([again.code, again.stdout]).toEqual([1, expect.stringMatching(new RegExp(`^running ${id}: `))]);
  expect(box.events("start")).toHaveLength(3);
});

test("--strict begins no new conversation when it starts the supervisor itself, and neither does the runbook", async () => {
  await using box = new AgentBox();
  box.runbook(`${WORKER}on_dead = { action = "resume", message = "go on", append = true }`);
  const id = await box.start("worker");
  await box.told();
  await powerCut(box);
  loseConversation(box);
  for (const which of ["--all", id]) {
    const strict = await resumed(box, which, "--strict");
    expect(strict).toMatchObject({ ok: false, code: 1, resumed: [], restarted: [], skipped: [{ id }] });
    // Whatever the runbook wanted, a person decides.
    const asked = await box.shown(id, "asked", ({ view }) => view.decision !== null);
    expect(asked.attempts.map(({ kind }) => kind)).toEqual(["start"]);
    await box.run(["daemon", "stop"]);
  }
  expect(await resumed(box, id)).toMatchObject({ ok: true, code: 0, restarted: [{ id }] });
});

test("--strict does not accept a new conversation that the supervisor began before it was asked", async () => {
  await using box = new AgentBox();
  box.runbook(`${WORKER}on_dead = { action = "resume", message = "go on @@wait:600000", append = true }`);
  const id = await box.start("worker");
  await box.told();
  await powerCut(box);
  loseConversation(box);
  await box.run(["daemon", "start"]);
  await box.shown(id, "restarted", ({ attempts }) => attempts.length === 2);
  expect(await resumed(box, "--all", "--strict")).toMatchObject({
    ...{ ok: false, code: 1, resumed: [], restarted: [], running: [] },
    agents: [{ id, result: "skipped", already: true, attempt: 2 }],
  });
  const { code, stdout } = await box.run(["agent", "resume", id, "--strict"]);
  expect([code, stdout]).toEqual([
    1,
    expect.stringMatching(
      new RegExp(
        `^skipped ${id}: the supervisor had begun a new conversation .*: attempt 2 \\(.* lost .*\\)`,
      ),
    ),
  ]);
});

test("an agent that a person brought back is running when it is requested again", async () => {
  await using box = new AgentBox();
  box.runbook('[agent.ui]\nengine = "claude"\nmode = "interactive"\nprompt = "work"\non_dead = "escalate"\n');
  const id = await box.start("ui");
  process.kill(await box.told(), "SIGKILL");
  await box.shown(id, "asked", ({ view }) => view.decision !== null);
  expect(await resumed(box, id)).toMatchObject({ code: 0, resumed: [id] });
  await box.told(2);
  const { code, stdout } = await box.run(["agent", "resume", id]);
  expect([code, stdout]).toEqual([1, expect.stringMatching(new RegExp(`^running ${id}: attempt 2 with `))]);
});

test("an agent that never ended is running, which is no resume", async () => {
  await using box = new AgentBox();
  box.runbook(WORKER);
  const id = await box.start("worker");
  await box.told();
  expect(await resumed(box, "--all")).toMatchObject({ ok: true, resumed: [], running: [id], skipped: [] });
  const { code, stdout } = await box.run(["agent", "resume", id]);
  expect([code, stdout]).toEqual([
    1,
    expect.stringMatching(new RegExp(`^running ${id}: attempt .*; it is working; --kill would`)),
  ]);
});

test("an ended agent can be removed, a live one cannot, and its run removes it as well", async () => {
  await using box = new AgentBox();
  box.runbook(`${WORKER}on_dead = "escalate"`);
  const live = await box.start("worker");
  const pid = await box.told();
  const stop = [4, expect.stringContaining(`End it first: reprise agent stop ${live}`)];
  const whileItWorks = await box.run(["rm", live]);
  expect([whileItWorks.code, whileItWorks.stderr]).toEqual(stop);
  process.kill(pid, "SIGKILL");
  await box.shown(live, "asked", ({ view }) => view.decision !== null);
  const refused = await box.run(["agent", "rm", live]);
  expect([refused.code, refused.stderr]).toEqual(stop);
  await box.run(["agent", "stop", live]);
  const agents = async () =>
    (await box.agent<{ agents: { id: string }[] }>(["list", "--all"])).agents.map(({ id }) => id);
  const { decisions } = await box.json<{ decisions: unknown[] }>(["decisions", "list", "--all"]);
  expect([await agents(), decisions.length]).toEqual([[live], 1]);
  expect(await box.agent(["rm", live.toUpperCase()])).toMatchObject({
    ok: true,
    removed: [{ id: live }],
    failed: [],
  });
  expect([await agents(), box.runDirectories()]).toEqual([[], []]);
  expect(await box.json(["decisions", "list", "--all"])).toEqual({ ok: true, decisions: [] });
  expect((await box.run(["agent", "rm", live])).code).toBe(3);

  box.runbook(WORKER.replace(" @@wait:600000", ""));
  const [one, other] = [await box.start("worker"), await box.start("worker")];
  for (const id of [one, other]) await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect((await box.run(["rm", one])).code).toBe(0);
  expect(await agents()).toEqual([other]);
  expect((await box.run(["prune", "--older-than", "1ms"])).code).toBe(0);
  expect(await agents()).toEqual([]);
  expect((await box.run(["doctor", "--rebuild-index"])).stdout).toContain("everything is in order");
  expect(await agents()).toEqual([]);
});

test("an agent, a pipeline and a decision are found by a prefix in any case, and a short prefix is reported as too short", async () => {
  await using box = new AgentBox();
  const id = await dead(box);
  for (const family of ["agent", "decisions"]) {
    const shown = await box.run([family, "show", id.slice(0, 5).toUpperCase()]);
    expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining(id)]);
  }
  for (const family of ["agent", "decisions", "pipeline"]) {
    const short = await box.run([family, "show", id.slice(0, 3)]);
    expect([family, short.code, short.stderr]).toEqual([
      family,
      2,
      expect.stringContaining("a prefix needs at least 4 characters"),
    ]);
  }
  expect((await box.json(["show", id.toUpperCase()]))["handle"]).toBe(id);
  const named = await box.run(["agent", "show", "worker"]);
  expect([named.code, named.stderr]).toEqual([3, expect.stringContaining(`Its last agents: ${id}`)]);
});

test("a gate that fails runs once each time its agent is idle, and then the next entry acts", async () => {
  await using box = new AgentBox();
  const gate = '{ action = "gate", run = ["sh", "-c", "echo ran >> ran.txt; exit 1"], attempts = 4 }';
  const nudge = '{ action = "nudge", message = "again", attempts = 2 }';
  box.runbook(`${WORKER.replace(" @@wait:600000", "")}on_idle = [${gate}, ${nudge}]`);
  const id = await box.start("worker");
  await box.shown(id, "asked", ({ view }) => view.decision !== null);
  expect(box.messages()).toEqual(["work", "again", "again"]);
  expect(readFileSync(join(box.cwd, "ran.txt"), "utf8")).toBe("ran\n".repeat(3));
});

test("a damaged agent.json and a damaged review sidecar are named by doctor, with what to do", async () => {
  await using box = new AgentBox();
  box.runbook(WORKER);
  const id = await box.start("worker");
  await box.told();
  const { agent } = await box.show(id);
  const file = join(box.state, "runs", agent.runId, "agent.json");
  await box.until("agent.json", () => existsSync(file));
  const reviews = join(box.state, "reviews");
  mkdirSync(reviews, { mode: 0o700 });
  const sidecar = join(reviews, "acme-widget-pr-1-20260101T000000Z.session.json");
  for (const path of [file, sidecar]) writeFileSync(path, "{ torn", { mode: 0o600 });
  const doctor = async () => {
    const { code, stdout } = await box.run(["doctor", "--json"]);
    const { findings } = JSON.parse(stdout) as { findings: { level: string; what: string; todo: string }[] };
    return { code, found: findings.filter(({ level }) => level === "attention") };
  };
  const finding = (path: string) => ({
    what: expect.stringContaining(`${path}: it is not JSON`) as string,
    todo: `mv '${path}' '${path}.damaged'`,
  });
  // Also while its agent works: that is when a message sends people to doctor.
  expect(await doctor()).toMatchObject({ code: 1, found: [finding(file), finding(sidecar)] });
  for (const path of [file, sidecar]) renameSync(path, `${path}.damaged`);
  expect(await doctor()).toEqual({ code: 0, found: [] });
});

test("an agent whose agent.json is damaged is still supervised", async () => {
  await using box = new AgentBox();
  box.runbook(`${WORKER}on_dead = { action = "resume", message = "go on", append = true }`);
  const id = await box.start("worker");
  const pid = await box.told();
  const { agent } = await box.show(id);
  const file = join(box.state, "runs", agent.runId, "agent.json");
  await box.until("agent.json", () => existsSync(file));
  await box.run(["daemon", "stop"]);
  writeFileSync(file, "{ torn", { mode: 0o600 });
  await box.run(["daemon", "start"]);
  process.kill(pid, "SIGKILL");
  await box.shown(id, "done", ({ view }) => view.phase === "done");
  expect(box.messages()).toEqual(["work @@wait:600000", "go on"]);
});
