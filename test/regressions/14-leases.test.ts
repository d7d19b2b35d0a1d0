/**
 * One agent in a run and in a session, from wherever a command looks: other pid and time namespaces, clocks that jump,
 * an index that is gone, sessions that the user names. The agents' own journal is the judge.
 */
import type { ChildProcess } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { isAlive } from "../e2e/holder-box.ts";
import { runThere, spawnThere, type There, whyNoNamespaces } from "../e2e/namespaces.ts";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

let box: Sandbox;
const children: ChildProcess[] = [];
beforeEach(() => {
  box = new Sandbox();
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      const over = new Promise((done) => child.once("exit", done));
      child.kill("SIGKILL");
      await over;
    }
  }
  box[Symbol.dispose]();
});

const HOUR = 3_600_000;
const events = (name: string) => box.journalEntries().filter(({ event }) => event === name);

/** An agent that works until it is ended, in another place. */
async function working(
  there: There,
  message = "remember 4711 @@hang",
): Promise<{ owner: ChildProcess; handle: string }> {
  const before = events("hang").length;
  const owner = spawnThere(box, there, ["start", "claude", message]);
  children.push(owner);
  owner.stdin?.end();
  await until("the agent works", () => events("hang").length > before);
  return { owner, handle: box.runDirectories()[0]?.slice(-8) ?? "" };
}

async function killed(owner: ChildProcess): Promise<void> {
  const over = collect(owner);
  owner.kill("SIGKILL");
  await over;
}

const why = whyNoNamespaces();
describe.skipIf(why !== null)(`in other namespaces${why === null ? "" : ` (skipped: ${why})`}`, () => {
  test.each<[string, There, There]>([
    [
      "a pid namespace, from another one with a clock an hour ahead",
      { place: "pids" },
      { place: "pids", aheadMs: HOUR },
    ],
    ["this one, from a time namespace", { place: "here" }, { place: "time", aheadMs: HOUR }],
    ["this one, from a container with another boot id", { place: "here" }, { place: "boot" }],
  ])("no command ends or doubles an agent that works in %s", async (_name, there, from) => {
    const { owner, handle } = await working(there);
    const reading = [["list"], ["logs", handle], ["doctor"], ["status"]];
    await Promise.all(reading.map((words) => runThere(box, from, words)));
    const shown = await runThere(box, from, ["show", "--json", handle]);
    expect(JSON.parse(shown.stdout)).toMatchObject({ status: "running", attempts: 1 });
    const refused = await runThere(box, from, ["resume", handle, "a second one"]);
    expect(refused.code).toBe(4);
    expect(refused.stderr).toMatch(
      /Another process is working on run .*another container, namespace or machine/,
    );
    // Nobody's word outweighs the lock that is held.
    const forsaken = await runThere(box, from, ["stop", handle, "--owner-gone"]);
    expect([forsaken.code, forsaken.stderr]).toEqual([4, expect.stringContaining("it holds its lock")]);
    expect([owner.exitCode, events("start").length, events("signal").length]).toEqual([null, 1, 0]);
  });

  test("an owner whose lock files are removed is not taken for a process from before a restart", async () => {
    const { owner, handle } = await working({ place: "time" });
    rmSync(join(box.state, "lives"), { recursive: true });
    for (const words of [["list"], ["resume", handle, "a second one"], ["rm", handle]]) {
      await runThere(box, { place: "boot" }, words);
      await box.run(["list"]);
    }
    const shown = await box.run(["show", "--json", handle]);
    expect(JSON.parse(shown.stdout)).toMatchObject({ status: "running", attempts: 1 });
    expect([owner.exitCode, events("start").length, events("signal").length]).toEqual([null, 1, 0]);
  });

  test("an owner stays one when the index is removed", async () => {
    const { owner, handle } = await working({ place: "pids" });
    for (const name of readdirSync(box.state).filter((one) => one.startsWith("index.db")))
      rmSync(join(box.state, name));
    const listed = await runThere(box, { place: "pids", aheadMs: HOUR }, ["list"]);
    expect([listed.code, listed.stderr]).toEqual([5, expect.stringContaining("stop it there")]);
    const resumed = await runThere(box, { place: "pids", aheadMs: HOUR }, ["resume", handle, "a second one"]);
    expect(resumed.code).toBe(5);
    expect([owner.exitCode, events("start").length]).toEqual([null, 1]);
  });

  test("an agent whose record is lost with the index is neither doubled nor ended as a stray", async () => {
    const { owner, handle } = await working({ place: "here" });
    const record = join(box.runDirectories()[0] ?? "", "attempts/1/meta.json");
    // The last thing that its owner writes into it before the end.
    await until("the session was seen", () => readFileSync(record, "utf8").includes('"stdout",'));
    for (const name of readdirSync(box.state).filter((one) => one.startsWith("index.db")))
      rmSync(join(box.state, name));
    rmSync(record);
    for (const place of ["here", "pids"] as const) {
      const refused = await runThere(box, { place }, ["resume", handle, "a second one"]);
      expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining("its agent is live")]);
    }
    expect([owner.exitCode, events("start").length, events("signal").length]).toEqual([null, 1, 0]);
    expect((await box.run(["stop", handle])).code).toBe(0);
    expect((await box.run(["resume", handle, "go on"])).code).toBe(0);
  });

  test("an owner that was killed frees its run when the user says that its agent is gone", async () => {
    const { owner, handle } = await working({ place: "pids" });
    await killed(owner);
    const refused = await runThere(box, { place: "pids", aheadMs: HOUR }, ["resume", handle, "too early"]);
    expect([refused.code, refused.stderr]).toEqual([
      4,
      expect.stringContaining(`reprise stop ${handle} --owner-gone`),
    ]);
    await runThere(box, { place: "pids" }, ["stop", handle, "--owner-gone"]);
    const resumed = await runThere(box, { place: "pids", aheadMs: -HOUR }, [
      "resume",
      handle,
      "what do you remember?",
    ]);
    expect([resumed.code, resumed.stdout]).toEqual([0, expect.stringContaining("4711")]);
  });

  test("an agent that outlives its owner keeps others out until it has ended", async () => {
    const { handle } = await working({ place: "here" }, "hi @@ignore-sigterm @@hang");
    const [agent] = events("start");
    const ownerPid = Number(agent?.["ppid"]);
    process.kill(ownerPid, "SIGKILL");
    await until("the owner is gone", () => children[0]?.signalCode === "SIGKILL");
    const refused = await runThere(box, { place: "pids", aheadMs: HOUR }, ["resume", handle, "a second one"]);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining("outlived its owner")]);
    const forsaken = await runThere(box, { place: "pids" }, ["stop", handle, "--owner-gone"]);
    expect([forsaken.code, forsaken.stderr]).toEqual([4, expect.stringContaining("it holds its lock")]);
    expect(events("start")).toHaveLength(1);
    process.kill(Number(agent?.["pid"]), "SIGKILL");
    await runThere(box, { place: "pids" }, ["stop", handle, "--owner-gone"]);
    const resumed = await runThere(box, { place: "pids" }, ["resume", handle, "and now?"]);
    expect(resumed.code).toBe(0);
  });

  test("an agent whose launcher kept the lock to itself keeps others out after both were killed", async () => {
    const launcher = join(box.root, "launcher.cjs");
    // As Codex's own launcher: Node closes all descriptors but the first three for its child.
    const start = '.spawn("claude-itself", process.argv.slice(2), { stdio: "inherit" })';
    writeFileSync(
      launcher,
      `require("node:child_process")${start}.on("exit", (code) => process.exit(code ?? 1));`,
    );
    renameSync(join(box.bin, "claude"), join(box.bin, "claude-itself"));
    box.program("claude", `exec '${process.execPath}' '${launcher}' "$@"`);
    const { handle } = await working({ place: "here" }, "hi @@hang");
    const [agent] = events("start");
    children[0]?.kill("SIGKILL");
    process.kill(Number(agent?.["ppid"]), "SIGKILL");
    const refused = await runThere(box, { place: "pids" }, ["resume", handle, "a second one"]);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining("--owner-gone")]);
    expect([events("start").length, isAlive(Number(agent?.["pid"]))]).toEqual([1, true]);
    process.kill(Number(agent?.["pid"]), "SIGKILL");
  });

  test("only the user can release an owner whose state is unknown", async () => {
    const { owner, handle } = await working({ place: "pids" });
    rmSync(join(box.state, "lives"), { recursive: true });
    const over = collect(owner);
    owner.kill("SIGKILL");
    await over;
    // As it is left when the owner dies between the file and the index.
    const file = join(box.runDirectories()[0] ?? "", "run.json");
    const title = "what the index lacks";
    const updatedAt = "2999-01-01T00:00:00.000Z";
    writeFileSync(
      file,
      JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), title, updatedAt }),
    );
    const refused = await runThere(box, { place: "pids", aheadMs: 48 * HOUR }, ["resume", handle, "go on"]);
    expect([refused.code, refused.stderr]).toEqual([
      4,
      expect.stringContaining(`reprise stop ${handle} --owner-gone`),
    ]);
    const stopped = await runThere(box, { place: "pids" }, ["stop", handle, "--owner-gone"]);
    expect([stopped.code, stopped.stdout]).toEqual([0, expect.stringContaining("interrupted")]);
    expect((await runThere(box, { place: "pids" }, ["resume", handle, "go on"])).code).toBe(0);
  });

  test("an owner whose end was recorded keeps no session, whatever is lost of it afterwards", async () => {
    const { owner, handle } = await working({ place: "pids" });
    await killed(owner);
    // From here its lock is free, and its end is recorded.
    await box.run(["list"]);
    rmSync(join(box.state, "lives"), { recursive: true });
    const stopped = await box.run(["stop", handle, "--owner-gone"]);
    expect(stopped.code).toBe(0);
    const resumed = await box.run(["resume", handle, "what do you remember?"]);
    expect([resumed.code, resumed.stdout]).toEqual([0, expect.stringContaining("4711")]);
  });

  test("owners whose state is unknown do not lock a state directory without an index for ever", async () => {
    const both = [await working({ place: "pids" }), await working({ place: "pids" }, "two @@hang")];
    for (const name of readdirSync(box.state).filter((one) => one.startsWith("index.db")))
      rmSync(join(box.state, name));
    rmSync(join(box.state, "lives"), { recursive: true });
    for (const { owner } of both) await killed(owner);
    for (const directory of box.runDirectories())
      rmSync(join(directory, "attempts", "1", "agent.lock"), { force: true });
    const handles = box.runDirectories().map((directory) => directory.slice(-8));
    const [first = "", second = ""] = handles;
    const listed = await box.run(["list"]);
    expect([listed.code, listed.stderr]).toEqual([5, expect.stringContaining(`run ${first} may be live`)]);
    expect(listed.stderr).toContain(`reprise stop ${first} --owner-gone`);
    // What the user said of the first one holds, although the second one is in the way of the index still.
    const half = await box.run(["stop", first, "--owner-gone"]);
    expect([half.code, half.stderr]).toEqual([
      5,
      expect.stringContaining(`reprise stop ${second} --owner-gone`),
    ]);
    const stopped = await box.run(["stop", second, "--owner-gone"]);
    expect([stopped.code, stopped.stdout]).toEqual([0, expect.stringContaining("interrupted")]);
    const resumed = await box.run(["resume", first, "go on"]);
    expect([resumed.code, resumed.stderr]).toEqual([0, expect.not.stringContaining("owner-gone")]);
  });
});

describe("a session that the user names to a custom engine", () => {
  const S = "0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e";
  const CONFIG = `
[engines.mine]
program = "mine"
start = ["run", "{options}"]
resume = ["run", "--continue", "{session}", "{options}"]
session = { field = "id", format = "uuid" }
events = { session = "type=init", done = "type=result" }
`;
  /** Reports its session and its end at once; hangs before that on request. */
  const AGENT = `
const fs = require("node:fs");
const said = fs.readFileSync(0, "utf8");
fs.appendFileSync(process.env.REPRISE_DEMO_LOG, JSON.stringify({ event: "start", said }) + "\\n");
const init = JSON.stringify({ type: "init", id: ${JSON.stringify(S)} }) + "\\n";
if (said.includes("hang")) { process.stdout.write(init); setInterval(() => {}, 1000); }
else process.stdout.write(init + '{"type":"result"}\\n');`;

  beforeEach(() => {
    mkdirSync(join(box.home, ".config", "reprise"), { recursive: true });
    writeFileSync(join(box.home, ".config", "reprise", "config.toml"), CONFIG);
    writeFileSync(join(box.root, "agent.cjs"), AGENT);
    box.program("mine", `exec '${process.execPath}' '${resolve(box.root, "agent.cjs")}'`);
  });

  async function first(...native: string[]): Promise<void> {
    const child = box.spawn(["start", "mine", "hang", "--", ...native]);
    children.push(child);
    child.stdin?.end();
    await until("the session is known", () => {
      const records = box.runDirectories().map((directory) => join(directory, "run.json"));
      return records.some((file) => existsSync(file) && readFileSync(file, "utf8").includes(S));
    });
    await until("the agent works", () => events("start").length === 1);
  }

  test("is locked before a second agent gets a message, and no run is left behind", async () => {
    await first("--continue", S);
    for (const native of [["--continue", S], [`--continue=${S}`]]) {
      const second = await box.run(["start", "mine", "me too", "--", ...native]);
      expect([second.code, second.stderr]).toEqual([4, expect.stringContaining(`session ${S}`)]);
    }
    expect([events("start").length, box.runDirectories().length]).toEqual([1, 1]);
  });

  test("and that Reprise learns only from the agent never lets a second writer end as completed", async () => {
    await first();
    const second = await box.json(["start", "mine", "me too"]);
    expect(second).toMatchObject({ ok: false, outcome: { result: "failed" } });
    expect(JSON.stringify(second)).toContain("Another process is working on session");
  });
});

test("an agent that outlived its owner ends when its supervision is stopped", async () => {
  await using agents = new AgentBox();
  agents.runbook(
    '[agent.deaf]\nengine = "claude"\nmode = "headless"\nprompt = "work @@ignore-sigterm @@hang"\non_dead = "escalate"\n',
  );
  const id = await agents.start("deaf");
  const pid = await agents.told();
  const { attempts } = await agents.show(id);
  process.kill(attempts.at(-1)?.owner.pid ?? 0, "SIGKILL");
  await agents.shown(id, "asked", ({ view }) => view.decision !== null);
  const before = isAlive(pid);
  const stopped = await agents.run(["agent", "stop", id]);
  expect([before, stopped.code, isAlive(pid)]).toEqual([true, 0, false]);
});

test("a state directory that is put back under a live attempt gets no second agent", async () => {
  const { handle } = (await box.json(["start", "--no-escrow", "codex", "first"])) as { handle: string };
  cpSync(box.state, join(box.root, "backup"), { recursive: true });
  const live = box.spawn(["resume", handle, "live @@hang"]);
  children.push(live);
  live.stdin?.end();
  await until("the agent works", () => events("hang").length === 1);
  const record = join(box.runDirectories()[0] ?? "", "attempts/2/meta.json");
  await until("the session was seen", () => readFileSync(record, "utf8").includes('"stdout",'));
  // An owner that was writing just now would rightly end its agent: its directory is gone. This one stands still.
  live.kill("SIGSTOP");
  const [before, signals] = [events("start").length, events("signal").length];
  for (const name of readdirSync(box.state)) rmSync(join(box.state, name), { recursive: true });
  cpSync(join(box.root, "backup"), box.state, { recursive: true });
  for (const words of [
    ["resume", handle, "a second one"],
    ["resume", handle, "--force-fresh", "new"],
    ["rm", handle],
  ]) {
    const refused = await box.run(words);
    expect([refused.code, refused.stderr]).toEqual([
      4,
      expect.stringMatching(/attempt 2 of run .*\(pid \d+/),
    ]);
  }
  const isAtWork = isAlive(Number(events("start")[1]?.["pid"]));
  expect([isAtWork, events("start").length, events("signal").length]).toEqual([true, before, signals]);
});

describe("an earlier conversation that the engine chooses itself", () => {
  test.each([
    ["claude", ["--continue"]],
    ["codex", ["exec", "resume", "--last", "me too"]],
  ])("is not chosen in %s while an agent may be at work in it", async (engine, native) => {
    const child = box.spawn(["start", engine, "remember 4711 @@hang"]);
    children.push(child);
    child.stdin?.end();
    await until("the agent works", () => events("hang").length === 1);
    const message = engine === "codex" ? [] : ["me too"];
    const second = ["start", engine, ...message, "--", ...native];
    const refused = await box.run(second);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining("chooses an earlier")]);
    expect([events("start").length, box.runDirectories().length]).toEqual([1, 1]);
    await killed(child);
    await until("the agent is gone", () => !isAlive(Number(events("start")[0]?.["pid"])));
    expect((await box.run(second)).code).toBe(0);
  });
});

test.each([
  ["named by its id", (session: string) => ["--resume", session]],
  ["that the engine chooses", () => ["--continue"]],
])(
  "no other run continues in a conversation %s while an agent that outlived its owner is in it",
  async (_name, native) => {
    const { owner, handle } = await working({ place: "here" }, "remember 4711 @@ignore-sigterm @@hang");
    await killed(owner);
    const shown = await box.json(["show", handle]);
    const session = String((shown["sessions"] as { value: string }[])[0]?.value);
    const second = ["start", "claude", "me too", "--", ...native(session)];
    const refused = await box.run(second);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining(`reprise stop ${handle}`)]);
    expect([events("start").length, box.runDirectories().length]).toEqual([1, 1]);
    expect((await box.run(["stop", handle])).code).toBe(0);
    expect((await box.run(second)).code).toBe(0);
  },
);
