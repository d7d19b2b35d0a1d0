/** The engine loses its session: the run's copy goes back, or the resume is refused by name and no agent starts. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

/** Where each scripted engine keeps its sessions in this sandbox. */
function homeOf(engine: string): string {
  const homes: Record<string, string> = {
    demo: join(box.state, "demo"),
    codex: join(box.home, ".codex"),
    claude: join(box.home, ".claude"),
    gemini: join(box.home, ".gemini"),
    opencode: join(box.home, ".local/share/opencode"),
  };
  return homes[engine] ?? "";
}

function sessionFiles(engine: string, id: string): string[] {
  return readdirSync(homeOf(engine), { recursive: true, encoding: "utf8" })
    .map((name) => join(homeOf(engine), name))
    .filter((path) => statSync(path).isFile() && readFileSync(path, "utf8").includes(id));
}

function agentsSince(from: number): unknown[] {
  return box
    .journalEntries()
    .slice(from)
    .filter((entry) => entry["event"] === "start" && entry["argv"][0] !== "export");
}

/** Refused with this fault; nothing was started and the run is unchanged. Returns the message. */
async function expectRefused(handle: string, refusal: Refusal): Promise<string> {
  const from = box.journalEntries().length;
  const { code, stdout, stderr } = await box.run(["resume", "--json", handle, "go on"], {
    env: refusal.env ?? {},
  });
  const { error } = JSON.parse(stdout);
  expect({ code, fault: error.code, handle: error.facts.handle }).toEqual({
    code: refusal.exit,
    fault: refusal.fault,
    handle,
  });
  expect(agentsSince(from)).toEqual([]);
  expect(await box.json(["show", handle])).toMatchObject({ attempts: 1 });
  return `${stderr}${error.message}`;
}

interface Refusal {
  readonly fault: string;
  readonly exit: number;
  readonly env?: Record<string, string>;
}

describe("the engine lost its session", () => {
  test.each(["demo", "codex", "claude", "gemini"])(
    "%s: the copy goes back when its file is gone",
    async (engine) => {
      const { handle, session, runDirectory } = await box.json(["start", engine, "remember 4711"]);
      const [file = ""] = sessionFiles(engine, session.value);
      const before = readFileSync(file, "utf8");
      rmSync(file);
      const result = await box.run(["resume", handle, "what do you remember?"]);
      expect(result.code).toBe(0);
      expect(result.stderr).toContain(`has lost session ${session.value}; putting back the copy`);
      expect(result.stdout).toContain("4711");
      expect(readFileSync(file, "utf8").startsWith(before)).toBe(true);
      const receipt = JSON.parse(readFileSync(join(runDirectory, "attempts/2/receipt.json"), "utf8"));
      expect(receipt).toMatchObject({
        restoredFromEscrow: true,
        verified: "engine_reported",
        asked: session.value,
      });
      expect((await box.run(["show", handle])).stdout).toMatch(/put back|restored|copy/);
      // The next one finds the session where it belongs.
      const next = await box.json(["resume", handle, "and now?"]);
      expect(next).toMatchObject({ ok: true, receipt: { restoredFromEscrow: false } });
      expect(next["text"]).toContain("what do you remember?");
    },
  );

  test.each(["demo", "codex", "claude", "gemini", "opencode"])(
    "%s: the copy goes back when its whole home was wiped",
    async (engine) => {
      const { handle, session } = await box.json(["start", engine, "remember 4711"]);
      rmSync(homeOf(engine), { recursive: true });
      const resumed = await box.json(["resume", handle, "what do you remember?"]);
      expect(resumed).toMatchObject({
        ok: true,
        session: { value: session.value },
        receipt: { restoredFromEscrow: true },
      });
      expect(resumed["text"]).toContain("4711");
    },
  );

  test("--dry-run announces that the copy would go back, and changes nothing", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const [file = ""] = sessionFiles("demo", session.value);
    rmSync(file);
    const dry = await box.json(["resume", handle, "--dry-run"]);
    expect(dry).toMatchObject({
      ok: true,
      dryRun: true,
      receipt: { asked: session.value, restoredFromEscrow: true },
    });
    expect(existsSync(file)).toBe(false);
  });

  test("the copy never replaces a session that the engine still has", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const [file = ""] = sessionFiles("demo", session.value);
    // The user went on outside Reprise.
    writeFileSync(file, `${readFileSync(file, "utf8")}{"type":"user","text":"from outside"}\n`);
    const resumed = await box.json(["resume", handle, "what do you remember?"]);
    expect(resumed).toMatchObject({ ok: true, receipt: { restoredFromEscrow: false } });
    expect(resumed["text"]).toContain("from outside");
  });

  test("the newest copy is kept, private, without an older one beside it", async () => {
    const { handle, runDirectory } = await box.json(["start", "demo", "one"]);
    await box.run(["resume", handle, "two"]);
    const copies = readdirSync(join(runDirectory, "escrow"));
    expect(copies).toHaveLength(1);
    const copy = join(runDirectory, "escrow", copies[0] ?? "");
    expect(readFileSync(copy, "utf8")).toContain("two");
    expect(statSync(copy).mode & 0o777).toBe(0o600);
  });
});

describe("a resume without a usable copy", () => {
  test("is refused after --no-escrow: session_lost, exit 3, no agent", async () => {
    const { handle, session, runDirectory } = await box.json([
      "start",
      "demo",
      "remember 4711",
      "--no-escrow",
    ]);
    expect(existsSync(join(runDirectory, "escrow"))).toBe(false);
    for (const file of sessionFiles("demo", session.value)) rmSync(file);
    const said = await expectRefused(handle, { fault: "session_lost", exit: 3 });
    for (const words of [session.value, "no copy", "--force-fresh"]) expect(said).toContain(words);
    const fresh = await box.json(["resume", "--force-fresh", handle, "anew"]);
    expect(fresh).toMatchObject({ ok: true, kind: "fresh", attempt: 2 });
    expect(fresh["session"].value).not.toBe(session.value);
  });

  test('is refused after escrow = "off" in the config', async () => {
    const config = join(box.root, "config");
    mkdirSync(join(config, "reprise"), { recursive: true });
    writeFileSync(join(config, "reprise/config.toml"), 'escrow = "off"\n');
    const started = await box.json(["start", "codex", "remember 4711"], { env: { XDG_CONFIG_HOME: config } });
    for (const file of sessionFiles("codex", started["session"].value)) rmSync(file);
    await expectRefused(started["handle"], { fault: "session_lost", exit: 3 });
  });

  test.each(["demo", "codex"])("%s: does not use a damaged copy, and says so", async (engine) => {
    const { handle, session, runDirectory } = await box.json(["start", engine, "remember 4711"]);
    for (const file of sessionFiles(engine, session.value)) rmSync(file);
    const [name = ""] = readdirSync(join(runDirectory, "escrow"));
    const copy = join(runDirectory, "escrow", name);
    writeFileSync(copy, readFileSync(copy, "utf8").replace("4711", "4712"));
    const said = await expectRefused(handle, { fault: "session_lost", exit: 3 });
    expect(said).toMatch(/copy of the session cannot be used/);
    expect(sessionFiles(engine, session.value)).toEqual([]);
    expect(await box.json(["show", handle])).toMatchObject({ escrowState: "damaged" });
  });

  test("never silently begins a new conversation if the session was never written", async () => {
    const started = await box.json(["start", "codex", "remember 4711 @@die:after-session"]);
    expect(started).toMatchObject({ ok: false, session: { value: expect.any(String) } });
    const said = await expectRefused(started["handle"], { fault: "session_lost", exit: 3 });
    expect(said).toContain("does not have session");
  });

  test("names the engine's own damaged file, and leaves it unchanged", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const [file = ""] = sessionFiles("demo", session.value);
    writeFileSync(file, "not a session\n");
    const said = await expectRefused(handle, { fault: "session_damaged", exit: 5 });
    expect(said).toContain(file);
    expect(readFileSync(file, "utf8")).toBe("not a session\n");
  });
});

describe("a resume in another place", () => {
  test.each([
    ["codex", "CODEX_HOME"],
    ["claude", "CLAUDE_CONFIG_DIR"],
    ["demo", "REPRISE_DEMO_HOME"],
  ])("of %s with another home (%s) is engine_home_missing", async (engine, variable) => {
    const { handle } = await box.json(["start", engine, "remember 4711"]);
    const other = join(box.root, "other-home");
    mkdirSync(other, { recursive: true });
    const said = await expectRefused(handle, {
      fault: "engine_home_missing",
      exit: 3,
      env: { [variable]: other },
    });
    expect(said).toContain(homeOf(engine));
    expect(said).toContain(other);
  });

  test("is cwd_missing while the working directory is gone, and works again when it is back", async () => {
    const cwd = join(box.root, "moved-away");
    mkdirSync(cwd);
    const { handle } = await box.json(["start", "demo", "remember 4711", "--cwd", cwd]);
    renameSync(cwd, `${cwd}-2`);
    const said = await expectRefused(handle, { fault: "cwd_missing", exit: 3 });
    expect(said).toContain(cwd);
    renameSync(`${cwd}-2`, cwd);
    const resumed = await box.json(["resume", handle, "what do you remember?"]);
    expect(resumed).toMatchObject({ ok: true, receipt: { cwd } });
    expect(box.journalEntries().findLast((entry) => entry["event"] === "start")).toMatchObject({ cwd });
  });
});
