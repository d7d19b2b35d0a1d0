/** What `show`, `stop`, `attach` and the summary offer is what works: the offered command is typed, and goes on. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

const HOMES: Record<string, string> = {
  codex: ".codex",
  claude: ".claude",
  gemini: ".gemini",
  opencode: ".local/share/opencode",
};

/** The engine loses all that it has. */
function loseSessions(engine: string): void {
  rmSync(join(box.home, HOMES[engine] ?? ""), { recursive: true });
}

/** What `show` prints, and the command that it names as the next one. */
async function look(handle: string): Promise<{ shown: string; next: string }> {
  const { stdout: shown } = await box.run(["show", handle]);
  return { shown, next: /^next +(.*?)(?: {4}.*)?$/m.exec(shown)?.[1] ?? "" };
}

/** Types what was offered. */
function take(command: string) {
  const [, ...words] = command.split(" ").map((word) => (word === '"…"' ? "go on" : word));
  return box.run(words);
}

/** `show` and a refused resume give the same reason and name the same command, which works. */
async function expectTruth(handle: string, command: string, why: RegExp): Promise<void> {
  const { shown, next } = await look(handle);
  expect(next).toBe(command);
  expect(shown).toMatch(why);
  const refused = await box.run(["resume", handle, "go on"]);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toMatch(why);
  expect(refused.stderr).toContain(command);
  expect(await take(command)).toMatchObject({ code: 0 });
}

describe("a conversation that neither the engine nor the run has", () => {
  test.each([
    ["claude", "--force-fresh"],
    ["opencode", "--force-fresh"],
    // Its sandbox cannot be told any more, so a new conversation gets the least rights (I12).
    ["codex", "--force-fresh --native -s --native read-only"],
  ])("%s: is not offered without a copy", async (engine, option) => {
    const { handle } = await box.json(["start", engine, "remember 4711", "--no-escrow"]);
    expect((await look(handle)).next).toBe(`reprise resume ${handle} "…"`);
    loseSessions(engine);
    const command = `reprise resume ${handle} ${option} "…"`;
    await expectTruth(handle, command, /there is no copy in the run directory/);
  });

  test("with a damaged copy is reported in one sentence", async () => {
    const { handle, runDirectory } = await box.json(["start", "claude", "remember 4711"]);
    loseSessions("claude");
    const [name = ""] = readdirSync(join(runDirectory, "escrow"));
    writeFileSync(join(runDirectory, "escrow", name), "x");
    const { stderr } = await box.run(["resume", handle, "go on"]);
    expect(stderr).not.toContain("there is no copy");
    expect(stderr.match(/cannot be used/g)).toHaveLength(1);
    for (const command of ["attach", "stop"]) {
      const said = await box.run([command, handle]);
      expect(said.stdout + said.stderr).not.toContain(`reprise resume ${handle} "…"`);
    }
    expect(await box.json(["show", handle])).toMatchObject({ resumable: false });
    await expectTruth(
      handle,
      `reprise resume ${handle} --force-fresh "…"`,
      /the run's copy .*cannot be used/,
    );
  });

  test("is not offered by the summary when claude was killed before it wrote anything", async () => {
    const { code, stderr } = await box.run(["start", "claude", "remember 4711 @@die:after-session"]);
    expect(code).not.toBe(0);
    const handle = /^handle +([0-9a-f]{8})/m.exec(stderr)?.[1] ?? "";
    expect(stderr).toMatch(/cannot be resumed: .*does not have session/);
    expect(stderr).not.toContain("reprise resume");
    await expectTruth(handle, `reprise resume ${handle} --force-fresh "…"`, /does not have session/);
  });
});

test("a session that lacks a part is offered with the options that resume needs", async () => {
  const { handle, session } = await box.json(["start", "claude", "remember 4711"]);
  const home = join(box.home, ".claude/projects");
  const file = readdirSync(home, { recursive: true, encoding: "utf8" }).find((name) =>
    name.endsWith(`${session.value}.jsonl`),
  );
  const path = join(home, file ?? "");
  const [first = ""] = readFileSync(path, "utf8").split(/(?<=\n)/);
  writeFileSync(path, first);
  await expectTruth(handle, `reprise resume ${handle} --restore-copy "…"`, /lacks a part/);
});

describe("a run whose agent was never started", () => {
  /** Reprise is killed after the run was recorded, and before its attempt was. */
  async function unbegun(): Promise<string> {
    const { handle, runDirectory } = await box.json(["start", "demo", "remember 4711"]);
    const file = join(runDirectory, "run.json");
    const record = JSON.parse(readFileSync(file, "utf8"));
    const session = { field: null, value: null, source: null, verifiedAt: null };
    const begun = { attempts: 0, session, sessions: [], escrow: null, status: "running" };
    writeFileSync(file, JSON.stringify({ ...record, ...begun }));
    rmSync(join(runDirectory, "attempts"), { recursive: true });
    rmSync(join(runDirectory, "escrow"), { recursive: true });
    for (const name of readdirSync(box.state)) if (name.startsWith("index.db")) rmSync(join(box.state, name));
    return handle as string;
  }

  test("says what happened, and the offered command starts it", async () => {
    const handle = await unbegun();
    const { stdout } = await box.run(["show", handle]);
    expect(stdout).toMatch(/^attempts +none: Reprise ended before it started the agent/m);
    expect((await box.run(["logs", handle])).stderr).toContain(`reprise show ${handle}`);
    await expectTruth(handle, `reprise resume ${handle} --force-fresh "…"`, /its agent was never started/);
  });
});

test("--force-fresh of a run that cannot begin another conversation names the way out", async () => {
  const { handle } = await box.json(["start", "opencode", "hello", "--", "--attach=http://127.0.0.1:1"]);
  const { code, stderr } = await box.run(["resume", handle, "--force-fresh", "go on"]);
  expect(code).toBe(8);
  expect(stderr).toContain("the conversation is kept by another server");
  expect(stderr).toContain('reprise start opencode "…"');
});

describe.skipIf(!HAS_TMUX)("a UI that was closed before its first message", () => {
  test.each(["codex", "gemini", "opencode"])("%s: is recognized by every command", async (engine) => {
    using screen = new Screen(box);
    screen.type(`reprise start ${engine}; echo "ENDED $?"`);
    await screen.shows(/^\w+> $/m);
    screen.key("C-c");
    const text = await screen.shows(/^ENDED \d+$/m);
    expect(text).toContain("cannot be resumed: its UI was closed before anything was said");
    expect(text).not.toContain("no session id");
    const handle = /^handle +([0-9a-f]{8})/m.exec(text)?.[1] ?? "";
    const refused = await box.run(["resume", handle, "go on"]);
    expect(refused.stderr).toContain("cannot be resumed: its UI was closed before anything was said");
    expect(refused.stderr).toContain(`reprise start ${engine}`);
    expect((await look(handle)).next).toBe(`reprise rm ${handle}`);
  });
});
