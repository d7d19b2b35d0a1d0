/** A conversation is lost while it is still going on: the messages of its first turn come back. */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { HolderBox, isAlive } from "../e2e/holder-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

const ENGINES = ["demo", "codex", "claude", "gemini"] as const;
const MESSAGE = "remember 4711 @@hang:after-user";

let box: HolderBox;
beforeAll(() => {
  box = new HolderBox();
});
afterAll(() => box[Symbol.dispose]());

function sessionFile(engine: string, id: string, home?: string): string | null {
  const folder = home ?? (engine === "demo" ? join(box.state, "demo") : join(box.home, `.${engine}`));
  if (!existsSync(folder)) return null;
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const own = names
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(folder, name))
    .find((path) => existsSync(path) && readFileSync(path, "utf8").includes(id));
  return own ?? null;
}

function record(runDirectory: string): Record<string, any> {
  return JSON.parse(readFileSync(join(runDirectory, "run.json"), "utf8")) as Record<string, any>;
}

const escrowOf = (runDirectory: string) => join(runDirectory, "escrow");

/** The first turn is under way: the engine has written what the user said, and waits. */
async function begin(engine: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  const before = new Set(box.runDirectories());
  const child = box.spawn(["start", engine, MESSAGE, ...args], { env });
  const ended = collect(child);
  const runDirectory = await until("the run", () => box.runDirectories().find((one) => !before.has(one)));
  const file = await until("the session file", () => {
    const id = existsSync(join(runDirectory, "run.json")) ? record(runDirectory)["session"].value : null;
    const found = id === null ? null : sessionFile(engine, id as string, env["REPRISE_DEMO_HOME"]);
    return found !== null && readFileSync(found, "utf8").includes("4711") ? found : null;
  });
  const { handle, session } = record(runDirectory) as { handle: string; session: { value: string } };
  return { child, ended, runDirectory, file, handle, session: session.value };
}

function linkIn(runDirectory: string, text: string): string | null {
  const path = join(escrowOf(runDirectory), "live-1");
  return existsSync(path) && readFileSync(path, "utf8").includes(text) ? path : null;
}

const linked = (runDirectory: string) => until("the link", () => linkIn(runDirectory, "4711"));
const copied = (runDirectory: string) => until("the copy", () => record(runDirectory)["escrow"] !== null);

async function resumed(handle: string, env: Record<string, string> = {}) {
  return box.json(["resume", handle, "what do you remember?"], { env });
}

describe("a session that was deleted in its first turn", () => {
  test.each(ENGINES)("%s: comes back after Reprise itself was killed", async (engine) => {
    const { child, ended, runDirectory, file, handle, session } = await begin(engine);
    await linked(runDirectory);
    child.kill("SIGKILL");
    await ended;
    rmSync(file);
    const dry = await box.json(["resume", handle, "--dry-run"]);
    expect(dry).toMatchObject({ ok: true, receipt: { asked: session, restoredFromEscrow: true } });
    expect(existsSync(file)).toBe(false);
    const again = await resumed(handle);
    expect(again).toMatchObject({
      ok: true,
      receipt: { asked: session, reported: session, restoredFromEscrow: true, verified: "engine_reported" },
    });
    expect(again["text"]).toContain("4711");
    expect(readdirSync(escrowOf(runDirectory)).filter((name) => name.startsWith("live"))).toEqual([]);
  });

  test("comes back after the holder of a detached run was killed", async () => {
    const handle = await box.detach("demo", MESSAGE);
    const { runDirectory, session } = await box.json(["show", handle]);
    await linked(runDirectory);
    const pid = box.pid(handle);
    process.kill(pid, "SIGKILL");
    await until("the holder is gone", () => !isAlive(pid));
    rmSync(sessionFile("demo", session.value) ?? "");
    const again = await resumed(handle);
    expect(again).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(again["text"]).toContain("4711");
  });

  test.each(ENGINES)("%s: is put back at once while its agent works", async (engine) => {
    const { ended, runDirectory, file, handle } = await begin(engine);
    await linked(runDirectory);
    rmSync(file);
    await until("the file is back", () => existsSync(file));
    expect(readFileSync(file, "utf8")).toContain("4711");
    await box.run(["stop", handle]);
    expect((await ended).stderr).toContain("deleted while the agent worked; Reprise restored it");
    const again = await resumed(handle);
    expect(again).toMatchObject({ ok: true, receipt: { restoredFromEscrow: false } });
    expect(again["text"]).toContain("4711");
  });

  test("and was put back before Reprise was killed: `show` says so", async () => {
    const { child, ended, runDirectory, file, handle } = await begin("demo");
    await linked(runDirectory);
    rmSync(file);
    const meta = join(runDirectory, "attempts/1/meta.json");
    const isNoted = () => readFileSync(meta, "utf8").includes("Reprise restored it");
    await until("the file is back, and that is recorded", () => existsSync(file) && isNoted(), 5_000);
    child.kill("SIGKILL");
    await ended;
    const { history } = await box.json(["show", handle]);
    expect(history[0].diagnostics).toContainEqual(expect.stringContaining("Reprise restored it"));
    expect((await resumed(handle))["text"]).toContain("4711");
  });

  test("is put back under the UI of a supervised agent, which continues in it", async () => {
    await using agents = new AgentBox();
    agents.runbook(`
[agent.ui]
run = "claude"
prompt = "remember 4711 @@wait:600000"
idle_after = "1s"
on_dead = { action = "resume", message = "go on", append = true }
on_idle = "done"
`);
    const id = await agents.start("ui");
    const pid = await agents.told();
    const [runDirectory = ""] = agents.runDirectories();
    await linked(runDirectory);
    const { restoreTo } = JSON.parse(readFileSync(join(escrowOf(runDirectory), "live.json"), "utf8"));
    const file = join(agents.home, ".claude", restoreTo as string);
    rmSync(file);
    await until("the file is back", () => existsSync(file));
    process.kill(pid, "SIGKILL");
    await agents.shown(id, "done", ({ view }) => view.phase === "done");
    const [first, second, ...more] = agents.events("session");
    expect([first?.["session"], second?.["how"], more]).toEqual([second?.["session"], "resume", []]);
    expect(readFileSync(file, "utf8")).toContain("4711");
  }, 60_000);

  test("stays where the user moved it", async () => {
    const { ended, runDirectory, file, handle } = await begin("demo");
    await linked(runDirectory);
    renameSync(file, `${file}.mine`);
    await copied(runDirectory);
    expect(existsSync(file)).toBe(false);
    await box.run(["stop", handle]);
    await ended;
    expect(existsSync(`${file}.mine`)).toBe(true);
  });

  test.skipIf(!hasOtherDevice())("comes back from a copy where no link can be made", async () => {
    const home = mkdtempSync("/dev/shm/reprise-escrow-");
    try {
      const env = { REPRISE_DEMO_HOME: home };
      const { child, ended, runDirectory, file, handle } = await begin("demo", [], env);
      await copied(runDirectory);
      expect(linkIn(runDirectory, "")).toBeNull();
      child.kill("SIGKILL");
      await ended;
      rmSync(file);
      const again = await resumed(handle, env);
      expect(again).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
      expect(again["text"]).toContain("4711");
    } finally {
      rmSync(home, { recursive: true });
    }
  });
});

function hasOtherDevice(): boolean {
  return existsSync("/dev/shm") && statSync("/dev/shm").dev !== statSync("/tmp").dev;
}

const REST: Record<string, string> = {
  demo: '{"type":"user","text":"and 4712"}\n',
  gemini:
    '{"id":"m-2","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":[{"text":"and 4712"}]}\n',
};

test.each(Object.keys(REST))(
  "%s: a session file that was deleted and continued in the middle is put together",
  async (engine) => {
    const { ended, runDirectory, file, handle } = await begin(engine);
    await linked(runDirectory);
    // What an engine leaves that appends by name: the old file is gone, the new one has only the rest.
    writeFileSync(`${file}.new`, REST[engine] ?? "");
    renameSync(`${file}.new`, file);
    await box.run(["stop", handle]);
    await ended;
    const again = await resumed(handle);
    expect(again).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(again["text"]).toContain("4711");
    expect(again["text"]).toContain("4712");
  },
);

describe("a session that was cut short in its first turn", () => {
  test.each(["demo", "gemini"])("%s: keeps its copy, which goes back on request", async (engine) => {
    const { ended, runDirectory, file, handle } = await begin(engine);
    await linked(runDirectory);
    await copied(runDirectory);
    truncateSync(file, 10);
    await box.run(["stop", handle]);
    await ended;
    const refused = await resumed(handle);
    expect(refused["error"]).toMatchObject({
      code: "session_damaged",
      message: expect.stringContaining("--restore-copy"),
    });
    const again = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
    expect(again).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(again["text"]).toContain("4711");
  });

  test("keeps its copy when Reprise is killed as well", async () => {
    const { child, ended, runDirectory, file, handle } = await begin("demo");
    await copied(runDirectory);
    truncateSync(file, 10);
    child.kill("SIGKILL");
    await ended;
    expect((await resumed(handle))["error"]).toMatchObject({ code: "session_damaged" });
    expect((await box.json(["resume", handle, "--restore-copy", "what?"]))["text"]).toContain("4711");
  });
});

describe("nothing is kept against the user's wish", () => {
  test("with --no-escrow neither link nor copy exists", async () => {
    const { ended, runDirectory, handle } = await begin("demo", ["--no-escrow"]);
    await box.run(["stop", handle]);
    await ended;
    expect(existsSync(escrowOf(runDirectory))).toBe(false);
  });

  test("after the attempt one private copy and no link exist", async () => {
    const { ended, runDirectory, handle } = await begin("demo");
    await linked(runDirectory);
    await box.run(["stop", handle]);
    await ended;
    const names = readdirSync(escrowOf(runDirectory));
    expect(names).toEqual([expect.stringMatching(/^[0-9a-f]{64}-/)]);
    expect(statSync(join(escrowOf(runDirectory), names[0] ?? "")).mode & 0o777).toBe(0o600);
    expect(statSync(join(escrowOf(runDirectory), names[0] ?? "")).nlink).toBe(1);
  });
});

test("the package ships the defaults that disable Gemini's clean-up", () => {
  const shipped = readFileSync("dist/settings/gemini-defaults.json", "utf8");
  expect(JSON.parse(shipped)).toEqual({ general: { sessionRetention: { enabled: false } } });
});
